"""A bare Debian 12 that boots its own systemd in a container, to install packages in. Its network is its own, its files are a copy that goes at the end.

    with Machine({"/packages": folder}) as m:
        m.run("apt-get", "install", "-y", "/packages/x.deb")
The system itself is made once, by debootstrap from the mirror that apt of this machine uses, and kept in build/install.
"""
import contextlib
import fcntl
import hashlib
import os
import shutil
import signal
import subprocess
import tempfile

from flametree import TOP, await_

FOLDER = os.path.realpath(os.path.join(TOP, "build/install"))
# Of ours packages need these; with them in the kept system, tests install without a network.
WITH = "systemd,ca-certificates,curl,librocksdb7.8,libuv1,libnghttp2-14,libcurl4,libdeflate0,libdw1,libprotobuf-c1,libre2-9,libxxhash0,libyaml-0-2,liburing2,libc-ares2,libexpat1"

# Control groups that systemd-nspawn leaves behind.
GROUPS = ["/sys/fs/cgroup/%s/%s" % (kind, part) for kind in ("systemd", "unified") for part in ("payload", "supervisor")]


def why_not():
    """Why no machine can be had here; None: one can."""
    if os.geteuid() != 0:
        return "debootstrap and containers take root"
    if not os.access("/sys/fs/cgroup", os.W_OK):
        return "control groups cannot be made here"
    tried = subprocess.run(["unshare", "--mount", "--pid", "--net", "--fork", "mount", "-t", "proc", "proc", "/proc"], capture_output=True, text=True)
    return "namespaces are not allowed here: " + tried.stderr.strip() if tried.returncode else None


def mirror():
    """Where apt of this machine has Debian 12 from."""
    out = subprocess.run(["apt-get", "indextargets", "--format", "$(ORIGIN) $(CODENAME) $(COMPONENT) $(REPO_URI)", "Created-By: Packages"], capture_output=True, text=True, check=True).stdout
    found = [line.split()[3] for line in out.splitlines() if line.startswith("Debian bookworm main ")]
    assert found, "apt of this machine has no source of Debian 12:\n" + out
    return found[0]


def bare():
    """The kept system. Of tests at the same time one makes it and the others wait."""
    uri = mirror()
    path = os.path.join(FOLDER, "root-" + hashlib.sha256((WITH + uri).encode()).hexdigest()[:12])
    os.makedirs(FOLDER, exist_ok=True)
    with open(os.path.join(FOLDER, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not os.path.exists(path):
            for old in os.listdir(FOLDER):
                if old.startswith("root-"):
                    shutil.rmtree(os.path.join(FOLDER, old))
            with open(os.path.join(FOLDER, "debootstrap.log"), "w") as log:
                done = subprocess.run(["debootstrap", "--variant=minbase", "--include=" + WITH, "bookworm", path + ".part", uri], stdout=log, stderr=log)
            assert done.returncode == 0, "debootstrap failed; its log is %s" % log.name
            for name in os.listdir(os.path.join(path + ".part", "var/cache/apt/archives")):
                if name.endswith(".deb"):
                    os.unlink(os.path.join(path + ".part", "var/cache/apt/archives", name))
            os.rename(path + ".part", path)
    return path


class Machine:
    def __init__(self, folders=None):
        self.folders = folders or {}

    def __enter__(self):
        # One at a time, since containers without a manager outside share a control group, and would mix their services.
        self.lock = open("/run/lock/flametree-test-machine", "w")
        fcntl.flock(self.lock, fcntl.LOCK_EX)
        os.makedirs(FOLDER, exist_ok=True)
        for name in os.listdir(FOLDER):
            if name.startswith("flametree-machine-"):  # of a test that was killed
                shutil.rmtree(os.path.join(FOLDER, name), ignore_errors=True)
        self.top = tempfile.mkdtemp(prefix="flametree-machine-", dir=FOLDER)
        self.root = os.path.join(self.top, "root")
        self.process = None
        try:
            subprocess.run(["cp", "-a", "--reflink=auto", bare(), self.root], check=True)
            shutil.copy("/etc/resolv.conf", os.path.join(self.root, "etc/resolv.conf"))
            self.boot()
        except BaseException:
            self.__exit__()
            raise
        return self

    def boot(self):
        # Where both kinds of control groups are mounted, systemd-nspawn makes its groups in one and looks for them in the other too.
        for group in GROUPS:
            if os.path.exists(os.path.dirname(group) + "/cgroup.procs"):
                os.makedirs(group, exist_ok=True)
        binds = ["--bind-ro=%s:%s" % (here, there) for there, here in self.folders.items()]
        # Without nspawn's own filter of system calls: what units forbid is what counts.
        command = ["setpriv", "--pdeathsig", "KILL", "systemd-nspawn", "--quiet", "--register=no", "--keep-unit", "--private-network", "--console=pipe", "--machine=flametree-test", *binds,
                   "--directory", self.root, "--boot"]
        self.log = open(os.path.join(self.top, "log"), "w")
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, env={**os.environ, "SYSTEMD_SECCOMP": "0"})
        self.leader = await_("a container's first process", self.first_process, 60)
        await_("the container's systemd", lambda: self.run("systemctl", "is-system-running", check=False).stdout.strip() in ("running", "degraded"), 120)

    def first_process(self):
        if self.process.poll() is not None:
            with open(self.log.name) as f:
                raise AssertionError("systemd-nspawn ended: " + f.read()[-2000:])
        for pid in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if open("/proc/%s/comm" % pid).read().strip() == "systemd" and open("/proc/%s/stat" % pid).read().rpartition(")")[2].split()[1] == str(self.process.pid):
                    return int(pid)
        return None

    def run(self, *command, check=True, stdin=None):
        """A command in there, as root."""
        into = ["nsenter", "--target", str(self.leader), "--mount", "--uts", "--ipc", "--net", "--pid", "--root", "--wdns=/", "--"]
        kept = {k: v for k, v in os.environ.items() if k.lower() in ("http_proxy", "https_proxy", "no_proxy")}
        env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LANG": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", "HOME": "/root", **kept}
        done = subprocess.run(into + list(command), capture_output=True, text=True, input=stdin if stdin is not None else "", env=env, timeout=300)
        assert not check or done.returncode == 0, "%s: %d\n%s%s" % (" ".join(command), done.returncode, done.stdout, done.stderr)
        return done

    def get(self, url):
        """Of a server in there, by curl of this machine."""
        return subprocess.run(["nsenter", "--target", str(self.leader), "--net", "curl", "-sf", "--noproxy", "*", url], capture_output=True, text=True, check=True).stdout

    def path(self, name):
        return os.path.join(self.root, name.lstrip("/"))

    def __exit__(self, *_):
        if self.process:
            with contextlib.suppress(AttributeError, ProcessLookupError):
                os.kill(self.leader, signal.SIGRTMIN + 4)  # systemd powers off
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.log.close()
        shutil.rmtree(self.top, ignore_errors=True)
        for group in GROUPS:
            for at, _, _ in os.walk(group, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(at)
        self.lock.close()

