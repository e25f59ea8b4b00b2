# SPDX-License-Identifier: Apache-2.0
"""Builds what a cluster is made of: Kubernetes with CoreDNS, and Helm, from their Go modules, and the image out of deploy/image/rootfs.

The programs are in build/kube, or in the folder that FLAMETREE_KUBE names if it has them. Building takes minutes, once."""
import fcntl
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
TOP = os.path.realpath(os.path.join(HERE, "../.."))
FOLDER = os.path.realpath(os.environ.get("FLAMETREE_KUBE") or os.path.join(TOP, "build/kube"))
PROGRAMS = os.environ.get("FLAMETREE_KUBE_PROGRAMS") or os.path.join(TOP, "build/release")  # of Flametree, for the image
VERSION = "v1.31.4"
HELM = "helm.sh/helm/v3/cmd/helm@v3.16.4"


def program(name):
    return os.path.join(FOLDER, "bin", name)


def run(*command, **kw):
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **kw)
    if done.returncode:
        raise RuntimeError("%s ended with %d: %s" % (" ".join(command[:4]), done.returncode, "\n".join(done.stdout.strip().splitlines()[-20:])))
    return done.stdout


def build():
    """What is missing of the programs. Of runs at the same time one builds and the others wait."""
    os.makedirs(os.path.join(FOLDER, "bin"), exist_ok=True)
    with open(os.path.join(FOLDER, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(program("pause")):
            run("cc", "-static", "-O2", "-o", program("pause"), os.path.join(HERE, "pause.c"))
        stamp, wanted = os.path.join(FOLDER, "bin/kube.of"), of_kubernetes()
        old = not os.path.exists(program("kube")) or text_of(stamp) != wanted
        if os.path.exists(program("helm")) and not old:
            return
        go = run(os.path.join(TOP, "tests/lib/go")).strip()
        env = {**os.environ, "GOTOOLCHAIN": "local", "CGO_ENABLED": "0", "GOBIN": os.path.join(FOLDER, "bin"), "GOFLAGS": "-buildvcs=false"}
        if not os.path.exists(program("helm")):
            run(go, "install", HELM, env=env)
        if old:
            source = os.path.join(FOLDER, "src")
            shutil.rmtree(source, ignore_errors=True)
            shutil.copytree(os.path.join(HERE, "kubernetes"), source)
            env["GOFLAGS"] += " -mod=mod"
            run(go, "mod", "tidy", cwd=source, env=env)
            major, minor = VERSION[1:].split(".")[:2]
            flags = "-s -w" + "".join(" -X k8s.io/component-base/version.git%s=%s" % pair for pair in (("Version", VERSION), ("Major", major), ("Minor", minor)))
            run(go, "build", "-o", program("kube") + ".new", "-ldflags", flags, ".", cwd=source, env=env)
            os.rename(program("kube") + ".new", program("kube"))
            with open(stamp, "w") as f:
                f.write(wanted)


def text_of(path):
    if not os.path.exists(path):
        return None
    with open(path) as f:
        return f.read()


def of_kubernetes():
    """Changes with whatever the program is built from."""
    digest = hashlib.sha256(VERSION.encode())
    for name in sorted(os.listdir(os.path.join(HERE, "kubernetes"))):
        with open(os.path.join(HERE, "kubernetes", name), "rb") as f:
            digest.update(f.read())
    return digest.hexdigest()


def archive(path, name, layer, **config):
    """An image of one layer, given as a tar's bytes, that `ctr images import` takes."""
    digest = hashlib.sha256(layer).hexdigest()
    config = json.dumps({"architecture": "amd64", "os": "linux", "config": config, "rootfs": {"type": "layers", "diff_ids": ["sha256:" + digest]},
                         "history": [{"created_by": "tests/kube"}]}).encode()
    of_config = hashlib.sha256(config).hexdigest() + ".json"
    manifest = json.dumps([{"Config": of_config, "RepoTags": [name], "Layers": ["layer.tar"]}]).encode()
    with tarfile.open(path, "w") as tar:
        for member, data in ((of_config, config), ("layer.tar", layer), ("manifest.json", manifest)):
            info = tarfile.TarInfo(member)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))


def layer_of(folder):
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar:
        tar.add(folder, arcname=".")
    return data.getvalue()


def image(path, name):
    """The image as deploy/image/Dockerfile makes it, out of the same root directory."""
    with tempfile.TemporaryDirectory(prefix="ftk-root-") as root:
        run(os.path.join(TOP, "deploy/image/rootfs"), PROGRAMS, root)
        archive(path, name, layer_of(root), User="65532:65532", Entrypoint=["/usr/bin/flametree"],
                Env=["FLAMETREE_SERVER_LISTEN=:4040", "FLAMETREE_SERVER_DATA_DIR=/data"])


def pause_image(path, name):
    with tempfile.TemporaryDirectory(prefix="ftk-root-") as root:
        shutil.copy(program("pause"), os.path.join(root, "pause"))
        archive(path, name, layer_of(root), Entrypoint=["/pause"])
