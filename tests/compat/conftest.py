"""Real clients, got once into build/compat in the versions that go.sum, requirements.txt and package-lock.json name, and
the servers that all cases share: one process, and the processes of deploy/examples. In a bucket, with the log in it and
members found by name, if the environment says so (tests/lib/flametree.py)."""
import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
import time

import pytest
from client import Server
from flametree import BY_NAME, TOPOLOGIES, deploy

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.join(HERE, "../..")
# What tools say of a network that is away, or that breaks off: it may be back in a moment.
TROUBLE = re.compile(
    r"dial tcp|no such host|i/o timeout|proxyconnect|handshake timeout|(?:read|write) tcp|unexpected EOF|: EOF$|stream error|GOAWAY|deadline exceeded|: (?:429|5\d\d) [A-Z][\w ]+$"  # go
    r"|Read timed out|Connection(?: aborted|Error| broken|ResetError)|ReadTimeoutError|Max retries exceeded|IncompleteRead|ProtocolError|Temporary failure in name resolution"
    r"|No matching distribution found"  # pip, also when it reached nobody
    r"|Could not transfer artifact"  # maven
    r"|error: (?:failed to (?:download|get)|download of)|spurious network error"  # cargo
    r"|npm (?:error|ERR!) code (?:E(?:429|5\d\d|NOTFOUND|CONN\w+|TIMEDOUT|AI_AGAIN|NETUNREACH|HOSTUNREACH|PIPE)|ERR_\w+|FETCH_ERROR)$", re.M)
CANNOT_BE_HAD = re.compile(
    TROUBLE.pattern + r"|: 4\d\d [A-Z][\w ]+$"  # go
    r"|ensurepip is not available"  # venv
    r"|Could not (?:find artifact|resolve dependencies)|or one of its dependencies could not be resolved"  # maven
    r"|npm (?:error|ERR!) code (?:E4\d\d|EBADENGINE|ENOTCACHED)$", re.M)
ATTEMPTS, PAUSE_SECONDS = 3, 5


@pytest.fixture(scope="session", params=TOPOLOGIES)
def server(request):
    with deploy(request.param, "--runtime_config.file=" + os.path.join(HERE, "overrides.yaml")) as f:
        yield f
        if os.environ.get("FLAMETREE_INGESTER_LOG") == "object":
            assert f.metric("flametree_ingester_log_objects_total"), "the log is not in the store"
        if BY_NAME and request.param == "cluster":
            assert f.own_dns.asked, "members are not found by name"


@pytest.fixture
def asked(server):
    """The typed client of the conformance suite."""
    return Server(server.url, server.push_url, strict=True)


def own(name, kind):
    """The path of the tool that tests/lib/KIND finds; skips without it."""
    found = subprocess.run([os.path.join(TOP, "tests/lib", kind)], capture_output=True, text=True)
    if found.returncode:
        pytest.skip("tests/compat/%s needs %s: %s" % (name, kind, found.stderr.strip()))
    return found.stdout.strip()


held = []


@contextlib.contextmanager
def alone():
    """Of runs at the same time (tests/run has two) one fills build/compat, and the others wait."""
    if held:
        yield
        return
    os.makedirs(os.path.join(TOP, "build/compat"), exist_ok=True)
    with open(os.path.join(TOP, "build/compat/lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        held.append(lock)
        try:
            yield
        finally:
            held.pop()


def get(name, *command, cwd=HERE, env=None):
    with alone():
        get_alone(name, *command, cwd=cwd, env=env)


def get_alone(name, *command, cwd, env):
    """Runs what downloads, again if the network was in trouble; skips when a package cannot be had."""
    for attempt in range(ATTEMPTS):
        ran = subprocess.run(command, cwd=cwd, env={**os.environ, **(env or {})}, stdin=subprocess.DEVNULL, capture_output=True, text=True)
        said = ran.stderr + ran.stdout
        if ran.returncode == 0:
            return
        if attempt + 1 < ATTEMPTS and TROUBLE.search(said):
            time.sleep(PAUSE_SECONDS * (attempt + 1))
            continue
        why = [line for line in said.splitlines() if CANNOT_BE_HAD.search(line)]
        assert why, said
        pytest.skip("packages of tests/compat/%s cannot be had: %s" % (name, why[-1].strip()))


def installed(name, lock, install):
    """build/compat/NAME, filled by install(folder) when the file LOCK is not the one it was filled for."""
    folder, mark = os.path.join(TOP, "build/compat", name), os.path.join(TOP, "build/compat", name, "installed")
    with open(os.path.join(HERE, name, lock)) as f:
        wanted = sys.executable + "\n" + f.read()
    with alone():
        if not os.path.exists(mark) or open(mark).read() != wanted:
            shutil.rmtree(folder, ignore_errors=True)
            os.makedirs(folder)
            install(folder)
            with open(mark, "w") as f:
                f.write(wanted)
    return folder


@pytest.fixture(scope="session")
def go_program():
    """go_program(name, *verb): builds the module tests/compat/NAME by `go VERB`."""
    def build(name, *verb):
        out = os.path.join(TOP, "build/compat", name + ".bin")
        env = {"GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local"}
        get(name, own(name, "go"), *verb, "-o", out, ".", cwd=os.path.join(HERE, name), env=env)
        return [out]
    return build


@pytest.fixture
def go_source_program(tmp_path):
    """go_source_program(name, code): builds the code with the modules of tests/compat/go."""
    def build(name, code):
        for file in ("go.mod", "go.sum"):
            shutil.copy(os.path.join(HERE, "go", file), tmp_path)
        (tmp_path / "main.go").write_text(code)
        out = str(tmp_path / name)
        get("go", own("go", "go"), "build", "-o", out, ".", cwd=str(tmp_path), env={"GOFLAGS": "-mod=readonly -buildvcs=false", "GOTOOLCHAIN": "local"})
        return [out]
    return build


@pytest.fixture(scope="session")
def python_program():
    """The busy program of tests/compat/python under pyroscope-io."""
    def install(folder):
        get("python", sys.executable, "-m", "venv", folder)
        get("python", os.path.join(folder, "bin/pip"), "install", "-q", "--disable-pip-version-check", "--retries=1", "--only-binary=:all:",
            "-r", os.path.join(HERE, "python/requirements.txt"))
    return [os.path.join(installed("python", "requirements.txt", install), "bin/python"), os.path.join(HERE, "python/busy.py")]


@pytest.fixture(scope="session")
def node_program():
    """The busy program of tests/compat/node under @pyroscope/nodejs."""
    bin = own("node", "node")

    def install(folder):
        for file in ("package.json", "package-lock.json"):
            shutil.copy(os.path.join(HERE, "node", file), folder)
        get("node", os.path.join(bin, "npm"), "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--engine-strict", "--fetch-retries=1",
            cwd=folder, env={"PATH": bin + os.pathsep + os.environ["PATH"]})
    folder = installed("node", "package-lock.json", install)
    shutil.copy(os.path.join(HERE, "node/busy.js"), folder)
    return [os.path.join(bin, "node"), os.path.join(folder, "busy.js")]


@pytest.fixture(scope="session")
def java_program(tmp_path_factory):
    """The busy program of tests/compat/java under io.pyroscope:agent and io.pyroscope:otel."""
    for tool in ("java", "javac", "mvn"):
        if not shutil.which(tool):
            pytest.skip("tests/compat/java needs %s" % tool)

    def install(folder):
        get("java", "mvn", "-q", "-B", "-f", os.path.join(HERE, "java/pom.xml"), "dependency:copy-dependencies", "-DoutputDirectory=" + folder)
    jars = os.path.join(installed("java", "pom.xml", install), "*")
    classes = str(tmp_path_factory.mktemp("classes"))
    done = subprocess.run(["javac", "-cp", jars, "-d", classes, os.path.join(HERE, "java/Busy.java")], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ["java", "-cp", jars + os.pathsep + classes, "Busy"]


@pytest.fixture(scope="session")
def rust_program():
    """The busy program of tests/compat/rust under the crate pyroscope."""
    if not shutil.which("cargo"):
        pytest.skip("tests/compat/rust needs cargo")
    target = os.path.join(TOP, "build/compat/rust")
    get("rust", "cargo", "build", "-q", "--locked", "--manifest-path", os.path.join(HERE, "rust/Cargo.toml"), "--target-dir", target)
    return [os.path.join(target, "debug/busy")]
