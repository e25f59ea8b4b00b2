"""Releases as deploy/release makes them, and changed copies of their packages."""
import os
import subprocess

from flametree import TOP

RELEASE = os.path.realpath(os.environ.get("FLAMETREE_RELEASE", os.path.join(TOP, "build/release")))
ROLES = ("distributor", "ingester", "querier", "compactor")
SERVICES = ("flametree",) + tuple("flametree-" + role for role in ROLES)
PACKAGES = ("flametree-common",) + SERVICES


def make(folder, *args, umask=None, **env):
    done = subprocess.run([os.path.join(TOP, "deploy/release"), "--snapshot", "--out", str(folder), *args], capture_output=True, text=True, env={**os.environ, **env}, umask=-1 if umask is None else umask)
    assert done.returncode == 0, done.stderr


def debs(folder):
    return {path.name.split("_")[0]: str(path) for path in folder.glob("*.deb")}


def changed(deb, version, folder, edit):
    """A copy of a package of another version, whose files `edit(root)` may change."""
    root = os.path.join(folder, "tree")
    subprocess.run(["dpkg-deb", "-R", deb, root], check=True)
    control = os.path.join(root, "DEBIAN/control")
    with open(control) as f:
        text = f.read()
    old = next(line.split()[1] for line in text.splitlines() if line.startswith("Version:"))
    with open(control, "w") as f:
        f.write(text.replace("Version: " + old, "Version: " + version).replace("(= %s)" % old, "(= %s)" % version))
    edit(root)
    path = os.path.join(folder, os.path.basename(deb).replace(old, version))
    subprocess.run(["dpkg-deb", "--root-owner-group", "-Zgzip", "-z1", "-b", root, path], check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["rm", "-rf", root], check=True)
    return path
