"""The image of a release, and containers of it by runc, as engines start them."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
import urllib.request

from client import Server
from flametree import TOP, await_, own_host

IMAGE = os.path.join(TOP, "deploy/image")
USER = 65532


def extracted(path, folder):
    """The root directory of an image."""
    with tarfile.open(path) as t:
        t.extract("layer.tar", folder)
    root = os.path.join(folder, "root")
    os.mkdir(root)
    subprocess.run(["tar", "-x", "-p", "--numeric-owner", "-C", root, "-f", os.path.join(folder, "layer.tar")], check=True)
    return root


def config_of(path):
    with tarfile.open(path) as t:
        manifest = json.load(t.extractfile("manifest.json"))[0]
        return json.load(t.extractfile(manifest["Config"]))["config"]


def seccomp(forbidden=()):
    """deploy/image/seccomp.json as runc has it, without some calls."""
    with open(os.path.join(IMAGE, "seccomp.json")) as f:
        profile = json.load(f)
    for rule in profile["syscalls"]:
        rule["names"] = [n for n in rule["names"] if n not in forbidden]
    return profile


class Container:
    """One container, with a read-only root, no capabilities and /data alone to write to, in the network of this machine."""

    def __init__(self, root, config, profile, args=None, env=None, binds=()):
        self.root, self.config, self.profile, self.args, self.env, self.binds = root, config, profile, args, env or {}, binds
        self.host = own_host()
        self.url = "http://%s:4040" % self.host

    def __enter__(self):
        self.top = tempfile.mkdtemp(prefix="flametree-container-")
        try:
            shutil.copytree(self.root, os.path.join(self.top, "rootfs"), symlinks=True)  # runc makes mount points in it
            self.data = os.path.join(self.top, "data")
            os.mkdir(self.data)
            os.chown(self.data, USER, USER)
            env = dict(e.split("=", 1) for e in self.config["Env"])
            env.update({"FLAMETREE_SERVER_LISTEN": self.host + ":4040", "FLAMETREE_DISTRIBUTOR_OTLP_GRPC_ADDRESS": "", "FLAMETREE_DISTRIBUTOR_OTLP_HTTP_ADDRESS": "", "FLAMETREE_SELF_PROFILE_ENABLED": "false", **self.env})
            user = [int(n) for n in self.config["User"].split(":")]
            mounts = [{"destination": "/proc", "type": "proc", "source": "proc"}, {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
                      {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"}, {"destination": "/data", "type": "bind", "source": self.data, "options": ["bind", "rw"]}]
            mounts += [{"destination": to, "type": "bind", "source": at, "options": ["bind", "ro"]} for at, to in self.binds]
            spec = {"ociVersion": "1.0.2", "root": {"path": "rootfs", "readonly": True}, "hostname": "flametree", "mounts": mounts,
                    "process": {"terminal": False, "cwd": "/", "user": {"uid": user[0], "gid": user[1]}, "args": self.args or self.config["Entrypoint"], "env": ["%s=%s" % e for e in env.items()],
                                "capabilities": {}, "noNewPrivileges": True},
                    "linux": {"namespaces": [{"type": t} for t in ("pid", "ipc", "uts", "mount")], "seccomp": self.profile}}
            with open(os.path.join(self.top, "config.json"), "w") as f:
                json.dump(spec, f)
            self.log = open(os.path.join(self.top, "log"), "w+")
            self.runc = ["runc", "--root", os.path.join(self.top, "state")]
            self.process = subprocess.Popen(self.runc + ["run", "--bundle", self.top, os.path.basename(self.top)], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log)
        except BaseException:
            shutil.rmtree(self.top)
            raise
        return self

    def said(self):
        with open(self.log.name) as f:
            return f.read()

    def ready(self):
        def answered():
            assert self.process.poll() is None, self.said()
            with contextlib.suppress(OSError):  # refused: HTTPError is one too
                return urllib.request.urlopen(self.url + "/ready", timeout=5).status == 200
        await_("the container to be ready", answered, 60)
        return Server(self.url, self.url, self.url, strict=True)

    def stop(self):
        """SIGTERM, as an engine does; the exit code."""
        subprocess.run(self.runc + ["kill", os.path.basename(self.top), "TERM"], check=True, capture_output=True)
        return self.process.wait(90)

    def __exit__(self, *_):
        if self.process.poll() is None:
            subprocess.run(self.runc + ["kill", os.path.basename(self.top), "KILL"], capture_output=True)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(30)
        subprocess.run(self.runc + ["delete", "--force", os.path.basename(self.top)], capture_output=True)
        self.log.close()
        shutil.rmtree(self.top, ignore_errors=True)


def instructions():
    """(word, rest) of each line of the Dockerfile, with continued lines as one."""
    with open(os.path.join(IMAGE, "Dockerfile")) as f:
        text = re.sub(r"\\\n\s*", "", re.sub(r"^#.*\n", "", f.read(), flags=re.M))
    return [tuple(line.split(" ", 1)) for line in text.splitlines() if line.strip()]
