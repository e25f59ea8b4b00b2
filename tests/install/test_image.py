"""The image: what is in it, that the same build makes the same bytes, that it runs as Kubernetes' strictest rules want it, and the Dockerfile."""
import fnmatch
import json
import os
import re
import stat
import subprocess

import pytest
from client import Pprof, table
from flametree import TOP
from image import USER, Container, config_of, extracted, instructions, seccomp
from machine import bare, why_not

MEGABYTES = 60
URING = ("io_uring_setup", "io_uring_enter", "io_uring_register")


@pytest.fixture(scope="module")
def root(packed, tmp_path_factory):
    if os.geteuid() != 0:
        pytest.skip("the image's files belong to its user, which takes root")
    return extracted(packed, str(tmp_path_factory.mktemp("image")))


def files(root):
    return sorted(os.path.relpath(os.path.join(at, n), root) for at, _, names in os.walk(root) for n in names)


def test_it_is_small(packed):
    size = os.path.getsize(packed) / 1e6
    print("image: %.1f MB compressed" % size)
    assert size <= MEGABYTES


def test_there_is_no_shell_and_nothing_that_gives_rights(root):
    assert sorted(os.listdir(os.path.join(root, "usr/bin"))) == ["flametree", "flametree-compactor", "flametree-distributor", "flametree-ingester", "flametree-querier"]
    for name in files(root):
        mode = os.lstat(os.path.join(root, name)).st_mode
        assert stat.S_ISREG(mode) and not mode & (stat.S_ISUID | stat.S_ISGID | stat.S_IWGRP | stat.S_IWOTH), name
        assert not mode & 0o111 or re.match(r"usr/bin/flametree|(usr/)?lib", name), "a program that nobody needs: " + name


def test_the_list_of_what_is_in_it_is_whole(root):
    with open(os.path.join(root, "usr/share/doc/flametree/sbom.cdx.json")) as f:
        sbom = json.load(f)
    parts = {c["name"]: c for c in sbom["components"]}
    assert len(parts) == len(sbom["components"]) and all(c["version"] and c["purl"].startswith("pkg:") and c["licenses"] for c in parts.values())
    real = {library: os.path.realpath("/" + library) for library in files(root) if ".so" in library}
    said = subprocess.run(["dpkg", "-S", *real.values(), *[r.removeprefix("/usr") for r in real.values()]], capture_output=True, text=True).stdout
    owners = {line.split(": ")[1].removeprefix("/usr"): line.split(":")[0] for line in said.splitlines()}
    for library, path in real.items():
        assert owners[path.removeprefix("/usr")] in parts, library
    for name, part in parts.items():
        assert not part["purl"].startswith("pkg:deb") or os.path.getsize(os.path.join(root, "usr/share/doc", name, "copyright")) > 0
    with open(os.path.join(TOP, "querier/ui/package.json")) as f:
        assert set(json.load(f)["dependencies"]) <= set(parts), "what the page is made of"


def test_settings_of_the_image_are_those_of_the_dockerfile(packed, root):
    config = config_of(packed)
    last = dict(instructions())
    assert config["User"] == last["USER"] == "%d:%d" % (USER, USER)
    assert config["Entrypoint"] == json.loads(last["ENTRYPOINT"]) and os.access(os.path.join(root, config["Entrypoint"][0].lstrip("/")), os.X_OK)
    assert list(config["Volumes"]) == [last["VOLUME"]] and os.stat(os.path.join(root, "data")).st_uid == USER
    assert list(config["ExposedPorts"]) == [p + "/tcp" for p in last["EXPOSE"].split()]
    assert set(last["ENV"].split()) < set(config["Env"])


@pytest.fixture
def needs_runc():
    if reason := why_not():
        pytest.skip(reason)


@table("forbidden, way", [("the profile of the repository", (), "uring"), ("one without io_uring, as engines have it", URING, "threads")])
def test_it_runs_read_only_without_rights(needs_runc, root, packed, forbidden, way):
    with Container(root, config_of(packed), seccomp(forbidden)) as c:
        s = c.ready()
        s.push({"__name__": "process_cpu", "service_name": "shop"}, Pprof(("main;work", 7))).expect(200)
        assert s.stacks("shop") == {"main;work": 7}
        assert 'flametree_store_io{mode="%s"} 1' % way in s.call("GET", "/metrics").text
        assert c.stop() == 0, c.said()


def test_names_of_its_hosts_file_are_known(needs_runc, root, packed, tmp_path):
    """Engines write localhost there, and Kubernetes what hostAliases says."""
    with Container(root, config_of(packed), seccomp()) as c:
        c.ready()
        (tmp_path / "hosts").write_text("%s\tflametree.invalid\n" % c.host)
        asks = ["/usr/bin/flametree", "ready", "--url", "http://flametree.invalid:4040"]
        with Container(root, config_of(packed), seccomp(), args=asks, binds=[(str(tmp_path / "hosts"), "/etc/hosts")]) as other:
            assert other.process.wait(60) == 0, other.said()


def test_the_profile_forbids_what_no_server_needs():
    profile = seccomp()
    allowed = {n for rule in profile["syscalls"] for n in rule["names"]}
    assert profile["defaultAction"] == "SCMP_ACT_ERRNO" and all(rule["action"] == "SCMP_ACT_ALLOW" for rule in profile["syscalls"])
    assert set(URING) < allowed
    assert not allowed & {"mount", "umount2", "pivot_root", "ptrace", "bpf", "kexec_load", "init_module", "finit_module", "reboot", "setns", "unshare", "keyctl", "perf_event_open", "userfaultfd", "swapon", "settimeofday"}


def test_the_dockerfile_keeps_its_rules():
    rows = instructions()
    words = [word for word, _ in rows]
    stages = [rest for word, rest in rows if word == "FROM"]
    assert stages == ["${BASE} AS build", "scratch"] and ("ARG", "BASE=debian:bookworm-slim") in rows, "what is built on is of one release, and nothing of it is shipped"
    last = rows[words.index("FROM", words.index("FROM") + 1):]
    assert [word for word, _ in last] == ["FROM", "COPY", "USER", "VOLUME", "EXPOSE", "ENV", "ENTRYPOINT"], "no program runs in the last stage: it has no shell"
    assert "ADD" not in words and dict(last)["COPY"] == "--from=build /rootfs /"
    with open(os.path.join(TOP, ".dockerignore")) as f:
        ignored = [line.strip() for line in f if line.strip() and not line.startswith("#")]
    for source in (rest.split()[0] for word, rest in rows[:words.index("FROM", 2)] if word == "COPY"):
        assert os.path.exists(os.path.join(TOP, source)) and not any(fnmatch.fnmatch(source, pattern) for pattern in ignored), source
    runs = " ".join(rest for word, rest in rows if word == "RUN")
    assert "/packages | DEBIAN_FRONTEND=noninteractive xargs apt-get install" in runs and "--no-install-recommends" in runs and "rm -rf /var/lib/apt/lists/*" in runs
    for program in os.listdir(os.path.join(TOP, "deploy/systemd")):
        assert program.removesuffix(".service") in runs.split(), "every program is built"
    with open(os.path.join(TOP, "docs/config.md")) as f:
        documented = f.read()
    for name in (e.split("=")[0] for word, rest in last if word == "ENV" for e in rest.split()):
        section, key = name.removeprefix("FLAMETREE_").lower().split("_", 1)
        assert re.search(r"^## %s$.*?^\| `%s` " % (section, key), documented, re.M | re.S), name


@pytest.mark.skipif(os.environ.get("FLAMETREE_NIGHTLY") != "1", reason="it compiles everything; nightly does it")
def test_the_dockerfile_builds_on_a_bare_debian(needs_runc, root, tmp_path):
    """By buildah. No registry is asked: the base is what debootstrap made."""
    context = tmp_path / "context"
    context.mkdir()
    subprocess.run("git ls-files -z | xargs -0 cp --parents -t %s" % context, shell=True, check=True, cwd=TOP)
    tool = ["buildah", "--root", str(tmp_path / "storage"), "--runroot", str(tmp_path / "run"), "--storage-driver", "vfs"]

    def run(*args):
        done = subprocess.run(tool + list(args), capture_output=True, text=True)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        return done.stdout.strip()
    base = run("from", "scratch")
    run("add", "--quiet", base, bare(), "/")
    run("commit", "--quiet", base, "localhost/bare")
    run("rm", base)
    run("bud", "--isolation", "chroot", "-f", str(context / "deploy/image/Dockerfile"), "--build-arg", "BASE=localhost/bare", "-t", "localhost/flametree", str(context))
    made = run("from", "localhost/flametree")
    mounted = run("mount", made)
    try:
        assert files(mounted) == files(root)
        config = json.loads(run("inspect", "--type", "image", "--format", "{{.Config}}", "localhost/flametree"))["config"]
        with Container(mounted, config, seccomp()) as c:
            c.ready()
            assert c.stop() == 0, c.said()
    finally:
        run("umount", made)
        run("rm", made)
