"""Runs Flametree's programs for black-box tests: real processes, free ports, own directories, nothing left running.

    with Flametree() as f:            # all in one
        f.url, f.kill(), f.start()    # kill is SIGKILL; start again on the same data
    with Cluster() as f:              # the processes of deploy/examples, each a Flametree: f["ingester-1"].kill()
        f.url, f.push_url             # the querier, the distributor
    with deploy("cluster") as f:      # either, by name
        f.server()                    # the protocol client of tests/conformance, asking and pushing where it is right
Logs are printed only when something fails. A stop must end with exit code 0, which under the sanitizers also means that
nothing leaked.
"""
import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import zlib

import azurite
import s3_service
from dns import Dns
from s3_service import BUCKET

TOP = os.path.join(os.path.dirname(__file__), "../..")
BIN = os.environ.get("FLAMETREE_BIN", os.path.join(TOP, "build/asan"))
WITHOUT_SETTINGS = {name: value for name, value in os.environ.items() if not name.startswith("FLAMETREE_")}  # for a program that gets its own
EXAMPLES = os.path.join(TOP, "deploy/examples")
TOPOLOGIES = ("one", "cluster")
START_SECONDS = 120  # under sanitizers on a busy machine
SETTLE_SECONDS = 3600 if os.environ.get("FLAMETREE_NIGHTLY") == "1" else 300  # for all that is due to be compacted


def await_(what, get, seconds=30, pause=0.02):
    """Polls get() until it returns something true, and returns that; fails naming what was awaited."""
    deadline = time.monotonic() + seconds
    while True:
        got = get()
        if got:
            return got
        if time.monotonic() > deadline:
            raise AssertionError("waited %d s for %s" % (seconds, what))
        time.sleep(pause)


@contextlib.contextmanager
def fetched(store):
    """The folder of a store's objects; of a bucket a copy that goes at the end."""
    if not store.startswith(("s3://", "azure://")):
        yield os.path.join(store, "o")
        return
    with tempfile.TemporaryDirectory(prefix="flametree-test-") as copy:
        if AZURE:
            AZURE.fetch(store, copy)
        else:
            s3_service.fetch(S3, store, copy)
        yield copy


def check_blocks(store):
    """Every block of a store agrees with itself: nodes with rows, wide with narrow ones, and so on."""
    with fetched(store) as top:
        done = subprocess.run([os.path.join(BIN, "flametree"), "block", "verify", top], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, "\n".join(line for line in done.stdout.splitlines() if ": ok, " not in line) + done.stderr


# Flags with which everything is due for the compactor at once; how often is looked for it says the test.
AT_ONCE = ["--compactor.%s=0s" % delay for delay in ("leaf_delay", "hour_delay", "day_delay", "repack_interval", "fold_interval", "window_interval", "delete_delay")]


def flush(f):
    """All that was acknowledged is in segments then."""
    for m in f.ingesters() if isinstance(f, Cluster) else [f]:
        m.operator().call("POST", "/ingester/flush?wait=true", b"").expect(200)


def compact(f):
    """All jobs that are due are done then, and what nothing names any more is gone. (What a run has begun to write it ends, after its time as well.)"""
    server = (f["compactor"] if isinstance(f, Cluster) else f).operator()
    await_("the compactor to be done", lambda: server.call("POST", "/compactor/run?timeout=55s&sweep=true").expect(200).json()["settled"], SETTLE_SECONDS)


# With it streams of ingesters end soon, and raw blocks may expire.
SAYS_SOON = "--ingester.stream_age=50ms"


def expire(f):
    """Raw blocks that are past their time are gone then: ingesters have flushed what they held, and the compactor has seen it."""
    server = (f["compactor"] if isinstance(f, Cluster) else f).operator()

    def gone():
        compact(f)
        return not any("held_raw_blocks" in tenant for tenant in server.call("GET", "/compactor/status").expect(200).json()["tenants"])
    await_("raw blocks to expire", gone, SETTLE_SECONDS)


def own_host():
    """A loopback address that no other test uses, so that all its ports are free, also for who comes back; but for those above 32767, out of which
    connections are made."""
    pick = random.SystemRandom().randrange
    return "127.%d.%d.%d" % (pick(1, 255), pick(256), pick(1, 255))


# With FLAMETREE_TEST_S3=URL the suite runs on a bucket (tests/lib/radosgw.py), with FLAMETREE_TEST_AZURE=URL in a container (tests/lib/azurite.py),
# each server on a part of it. Servers and the client find the service and its keys in the environment.
S3 = os.environ.get("FLAMETREE_TEST_S3")
if S3:
    os.environ.update(AWS_ENDPOINT_URL_S3=S3, AWS_ACCESS_KEY_ID=s3_service.KEYS[0], AWS_SECRET_ACCESS_KEY=s3_service.KEYS[1])
AZURE = azurite.Azurite.at(os.environ["FLAMETREE_TEST_AZURE"]) if "FLAMETREE_TEST_AZURE" in os.environ else None
if AZURE:
    os.environ.update(AZURE.client_env())


def prefix_of(folder):
    """Of the part of the bucket that belongs to a folder: the same each time."""
    return "%s-%08x" % (os.path.basename(folder), zlib.crc32(os.path.realpath(folder).encode()))


def store_flags(folder, args):
    """Settings of an own part of the bucket, if the suite runs on one and the test names no store of its own."""
    if not (S3 or AZURE) or any("--storage." in arg for arg in args):
        return []
    if AZURE:
        return AZURE.flags(prefix_of(folder))
    return ["--storage.kind=s3", "--s3.endpoint=" + S3, "--s3.bucket=" + BUCKET, "--s3.prefix=" + prefix_of(folder)]


def copy_data(data, own):
    """A data directory as a process left it, with the part of the bucket that is its store."""
    shutil.copytree(data, own, ignore=shutil.ignore_patterns("*.sock"))
    if S3:
        s3_service.copy(S3, BUCKET, prefix_of(data), prefix_of(own))


def objects_of(store):
    """{name: size} of all objects of a store, as its servers name them."""
    if store.startswith("s3://"):
        bucket, prefix = store[len("s3://"):].split("/", 1)
        return {key[len(prefix) + 1:]: size for key, size in s3_service.keys(S3, bucket, prefix + "/").items()}
    top = os.path.join(store, "o")
    found = {}
    for at, _, names in os.walk(top):
        for path in (os.path.join(at, name) for name in names):
            with contextlib.suppress(FileNotFoundError):  # deleted since
                found[os.path.relpath(path, top)] = os.path.getsize(path)
    return found


def windows_of(store):
    """How many blocks cover 28 days."""
    return sum(name.split("/")[3:4] == ["d"] and name.split("/")[4].endswith("-02a0") for name in objects_of(store))  # 672 hours


def store_of(folder, on_bucket=bool(S3 or AZURE), place="store"):
    """As the client takes it: the URL of the part of the bucket, or the directory, in which objects are below o/."""
    if on_bucket and AZURE:
        return AZURE.store_url(prefix_of(folder))
    return "s3://%s/%s" % (BUCKET, prefix_of(folder)) if on_bucket else os.path.join(folder, place)


# With FLAMETREE_TEST_DNS=1 processes of a cluster find each other by name: the ids are those of the nodes themselves then. (The log of ingesters is
# chosen by the product's own variable, FLAMETREE_INGESTER_LOG=object.)
BY_NAME = os.environ.get("FLAMETREE_TEST_DNS") == "1"

# Tests run side by side, and the ports of OTLP's listeners are the same for all servers.
for protocol in ("GRPC", "HTTP"):
    os.environ.setdefault("FLAMETREE_DISTRIBUTOR_OTLP_%s_ADDRESS" % protocol, "")


class Flametree:
    """One process. `store` is where all in one keeps its objects if no test names another place. With `listen` None addresses and the data directory are those of its configuration file."""

    def __init__(self, *args, program="flametree", data=None, self_profile=False, env=None, listen="127.0.0.1:0", cwd=None):
        self.program, self.cwd = os.path.join(BIN, program), cwd
        self.own_data = data is None
        self.data = data or tempfile.mkdtemp(prefix="flametree-test-")
        self.args = ["--server.listen", listen, "--server.data_dir", self.data] if listen else []
        own_store = store_flags(self.data, args) if listen else []
        self.store = store_of(self.data, bool(own_store))
        self.args += ["--self_profile.enabled", "true" if self_profile else "false", *own_store, *args]
        # New streams settle as soon as they may, or each start of an ingester would take five seconds.
        settle = {"FLAMETREE_INGESTER_STREAM_SETTLE": "1100ms"} if program in ("flametree", "flametree-ingester") else {}
        self.own_env = env or {}
        self.env = {**os.environ, **settle, **self.own_env}
        self.process = self.url = self.admin_url = None
        self.host = (listen or "127.0.0.1").rsplit(":", 1)[0]
        self.log = os.path.join(self.data, "test.log")

    @property
    def push_url(self):
        return self.url

    def server(self, tenant=None):
        from client import Server
        return Server(self.url, self.push_url, self.url, tenant, strict=True)

    def operator(self):
        """Of the pages that tell about all tenants."""
        from client import Server
        return Server(self.admin_url)

    def start(self, wait=True):
        assert self.process is None, "it runs already"
        ports = os.path.join(self.data, "run", "ports.json")
        if os.path.exists(ports):
            os.unlink(ports)
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen([self.program, *self.args], stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=self.env, cwd=self.cwd)
        if wait:
            self.await_ready()
        return self

    def await_listening(self):
        def listening():
            self.check_alive()
            try:
                with open(os.path.join(self.data, "run", "ports.json")) as f:
                    return json.load(f)
            except (OSError, ValueError):
                return None
        self.ports = await_("ports.json of %s" % self.program, listening, START_SECONDS)
        self.url = "http://%s:%d" % (self.host, self.ports["public"])
        self.admin_url = "http://" + self.ports["admin"] if "admin" in self.ports else self.url

    def await_ready(self):
        self.await_listening()

        def ready():
            self.check_alive()
            try:
                with urllib.request.urlopen(self.url + "/ready", timeout=30) as answer:
                    return answer.status == 200
            except (OSError, urllib.error.URLError):
                return False
        await_("/ready of %s\n%s" % (self.program, self.tail()), ready, START_SECONDS)

    def check_alive(self):
        if self.process.poll() is not None:
            code, self.process = self.process.returncode, None
            raise AssertionError("%s ended with %d\n%s" % (self.program, code, self.tail()))

    def tail(self, n=60):
        try:
            with open(self.log, errors="replace") as f:
                return "".join(f.readlines()[-n:])
        except OSError:
            return ""

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        """A clean stop; returns the exit code after checking that it is 0."""
        if self.process is None:
            return 0
        process, self.process = self.process, None
        process.send_signal(signal.SIGTERM)
        return self.stopped(process)

    def stopped(self, process):
        try:
            code = process.wait(START_SECONDS)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            process.wait()
            raise AssertionError("%s does not stop\n%s" % (self.program, self.tail()))
        assert code == 0, "%s ended with %d\n%s" % (self.program, code, self.tail())
        return code

    def rss_bytes(self, row="VmRSS"):
        with open("/proc/%d/status" % self.process.pid) as f:
            return next(int(line.split()[1]) * 1024 for line in f if line.startswith(row))

    def peak_rss_bytes(self):
        return self.rss_bytes("VmHWM")

    def metric(self, name):
        """Value of a metric as /metrics prints it, its labels part of the name."""
        with urllib.request.urlopen(self.admin_url + "/metrics", timeout=60) as answer:
            for line in answer.read().decode().splitlines():
                key, _, value = line.rpartition(" ")
                if key == name:
                    return float(value)
        return None

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__(AssertionError, None, None)
            raise

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                self.stop()
            elif self.process:
                self.process.kill()
                self.process.wait()
                self.process = None
            if kind is not None:
                print("---- log of %s\n%s" % (self.program, self.tail()))
        finally:
            if self.own_data:
                shutil.rmtree(self.data, ignore_errors=True)


def is_sanitized(f):
    """AddressSanitizer keeps what is freed and shadows the rest: its memory says nothing of the program's."""
    with open("/proc/%d/maps" % f.process.pid) as maps:
        return "libasan" in maps.read()


# Every ingester gets some of every service: without it one is enough for what a test pushes.
SPREAD = ["--distributor.tenant_ingesters=1000", "--distributor.service_ingesters=1000"]


class Cluster:
    """The processes of deploy/examples from these very files: only 127.0.0.1 in them becomes a loopback address that no
    other test uses, so that their ports are free, also for a member that comes back. Data are below an own directory.

    Flags go to every process, those of a service's section (--ingester.…) to that service alone; a further --config
    FILE is added to each process' file. env_of: {"ingester-1": {"NAME": "value"}}. spread: services go to all ingesters."""

    NAMES = ("ingester-1", "ingester-2", "ingester-3", "distributor", "querier", "compactor")

    def __init__(self, *args, self_profile=False, env=None, env_of=None, names=NAMES, spread=True):
        self.folder = tempfile.mkdtemp(prefix="flametree-test-")
        self.host = own_host()
        own_store = store_flags(self.folder, args)
        self.store = store_of(self.folder, bool(own_store), "data/store")
        further, flags = self.split([*own_store, *args])
        self.own_dns = Dns() if BY_NAME else None
        by_name = self.dns_env(names) if BY_NAME else {}
        self.members = {}
        for name in names:
            service = name.split("-")[0]
            with open(self.config_file(name), "w") as out:
                for source in [os.path.join(EXAMPLES, name + ".yaml"), *further]:
                    with open(source) as f:
                        out.write(f.read().replace("127.0.0.1", self.host))
            own = [flag for section, flag in flags if section not in ("distributor", "ingester", "querier", "compactor") or section == service]
            if service == "distributor" and spread:
                own = SPREAD + own
            # A distributor that has just been made knows of no list before: all records with ids would be loose for minutes.
            if service == "distributor" and not any(flag.startswith("--cluster.settle_time=") for flag in own):
                own = ["--cluster.settle_time=0s"] + own
            data = os.path.join(self.folder, "data", name)
            os.makedirs(data)
            self.members[name] = Flametree("--config", self.config_file(name), *own, program="flametree-" + service, data=data, self_profile=self_profile,
                                           env={**by_name, **(env or {}), **(env_of or {}).get(name, {})}, listen=None, cwd=self.folder)
            self.members[name].host = self.host

    def dns_env(self, names):
        """Lists of members by name, and a DNS server that knows the processes of these names."""
        env = {"FLAMETREE_CLUSTER_DNS_SERVERS": self.own_dns.address, "FLAMETREE_CLUSTER_DNS_INTERVAL": "200ms", "FLAMETREE_CLUSTER_PROBE_INTERVAL": "200ms"}
        for kind in ("ingester", "querier", "compactor"):
            record = "_internal._tcp.%ss.test" % kind
            self.own_dns.srv[record] = []
            for name in (name for name in names if name.split("-")[0] == kind):
                with open(os.path.join(EXAMPLES, name + ".yaml")) as f:
                    port = re.search(r"^internal:\n  listen: [\d.]+:(\d+)", f.read(), re.M).group(1)
                self.own_dns.srv[record].append((self.host, int(port)))
            env["FLAMETREE_CLUSTER_%sS" % kind.upper()] = "dns:" + record
        return env

    @staticmethod
    def split(args):
        """(files of --config, [(section, --section.key=value)])"""
        files, flags, args = [], [], list(args)
        while args:
            flag = args.pop(0)
            if "=" not in flag:
                flag += "=" + args.pop(0)
            if flag.startswith("--config="):
                files.append(flag[len("--config="):])
            else:
                flags.append((re.match(r"--(\w+)\.", flag).group(1), flag))
        return files, flags

    def another(self, name, like, port, *flags):
        """One more process with the settings of a member, at this port and the next one; who calls this starts it, and ends it."""
        old = self[like]
        data = os.path.join(self.folder, "data", name)
        os.makedirs(data)
        m = Flametree(*old.args, "--server.id=" + name, "--server.listen=%s:%d" % (self.host, port), "--internal.listen=%s:%d" % (self.host, port + 1),
                      "--server.data_dir=" + data, *flags, program=os.path.basename(old.program), data=data, env=old.own_env, listen=None, cwd=self.folder)
        m.host = self.host
        return m

    def config_file(self, name):
        return os.path.join(self.folder, name + ".yaml")

    def __getitem__(self, name):
        return self.members[name]

    def ingesters(self):
        return [m for name, m in self.members.items() if name.startswith("ingester")]

    @property
    def url(self):
        return self["querier"].url

    @property
    def push_url(self):
        return self["distributor"].url

    server = Flametree.server

    def start(self):
        """Starts what does not run, all at once, and waits for it; the first time also until all ingesters get traffic: who asked one before it was
        ready passes it over until the next probe."""
        began = [m for m in self.members.values() if m.process is None]
        for m in began:
            m.start(wait=False)
        for m in began:
            m.await_ready()
        if len(began) == len(self.members):
            self.await_alive()
        return self

    def await_alive(self):
        for name in ("distributor", "querier"):
            # Peers of the querier, which may be in its list too, start later.
            if name in self.members:
                await_("the %s to pass over no ingester" % name, lambda: (self[name].metric('flametree_cluster_members{state="alive"}') or 0) >= len(self.ingesters())
                       and not self[name].metric('flametree_cluster_members{state="unready"}'))

    def kill(self):
        for m in self.members.values():
            if m.process:
                m.kill()

    def stop(self):
        """A clean stop of all: those that ask others first, so that nobody is asked who is gone."""
        for asked in (False, True):
            ended = [(m, m.process) for name, m in self.members.items() if m.process and name.startswith("ingester") == asked]
            for m, process in ended:
                m.process = None
                process.send_signal(signal.SIGTERM)
            for m, process in ended:
                m.stopped(process)

    def check_alive(self):
        for m in self.members.values():
            if m.process:
                m.check_alive()

    def rss_bytes(self):
        return sum(m.rss_bytes() for m in self.members.values() if m.process)

    def metric(self, name):
        """Sum over the processes that have it."""
        values = [v for v in (m.metric(name) for m in self.members.values() if m.process) if v is not None]
        return sum(values) if values else None

    def tail(self, n=60):
        return "\n".join("---- %s\n%s" % (name, m.tail(n)) for name, m in self.members.items())

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__(AssertionError, None, None)
            raise

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                self.stop()
            else:
                print(self.tail())
        finally:
            for m in self.members.values():
                with contextlib.suppress(ProcessLookupError):
                    if m.process:
                        m.kill()
            if self.own_dns:
                self.own_dns.close()
            shutil.rmtree(self.folder, ignore_errors=True)


def deploy(topology, *args, **kw):
    """A Flametree or a Cluster, by the name of the topology."""
    return {"one": Flametree, "cluster": Cluster}[topology](*args, **kw)
