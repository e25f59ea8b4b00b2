"""A process from start to stop: settings, readiness, the data directory, reload, drain, protocols of the port."""
import glob
import json
import os
import re
import signal
import socket
import ssl
import subprocess
import threading
import time
import urllib.request

import pytest
from client import PUSH, Pprof, Server, envelope, pb, unenvelope, unique
from flametree import BIN, TOP, Flametree, await_

PROGRAM = os.path.join(BIN, "flametree")


def run(*args, **kw):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=60, **kw)


def get(f, path):
    with urllib.request.urlopen(f.url + path) as answer:
        return answer.status, answer.headers, answer.read().decode()


# ---- settings

def test_help_and_version():
    assert "--server.listen" in run("--help").stdout
    assert run("--version").stdout.startswith("flametree ")


CONFIGS = [
    ("server:\n  listne: 1\n", ("listne", ":2")), ("nothing:\n  a: 1\n", ("nothing",)), ("server:\n  connections_max: many\n", ("connections_max", "many")),
    ("server:\n  connections_max: -5\n", ("connections_max", "-5")), ("server: [\n", ("",)), ("limits:\n  reject_older_than: 5 parsecs\n", ("reject_older_than", "parsecs")),
]


@pytest.mark.parametrize("text, parts", CONFIGS, ids=[c[1][0] or "syntax" for c in CONFIGS])
def test_wrong_settings_are_told_with_file_and_key(tmp_path, text, parts):
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    answer = run("--check-config", "--config", str(path))
    assert answer.returncode == 2 and "bad.yaml" in answer.stderr, answer.stderr
    assert all(part in answer.stderr for part in parts), answer.stderr


def test_check_config_accepts_the_examples():
    folder = os.path.join(os.path.dirname(__file__), "../../deploy/examples")
    settings = [name for name in os.listdir(folder) if name.endswith(".yaml") and name != "overrides.yaml"]  # that one is runtime_config.file
    assert "distributor.yaml" in settings, settings
    for name in settings:
        answer = run("--check-config", "--config", os.path.join(folder, name))
        assert answer.returncode == 0, answer.stderr


VALUES = [
    ("server.listen", "banana", "the port is missing"), ("server.listen", "127.0.0.1:http", "a port is a number"), ("server.listen", "1.2.3:4040", "that is no host"),
    ("server.listen", "", "the port is missing"), ("internal.listen", "unix:", "the path is missing"), ("internal.listen", "host:70000", "a port is a number"),
    ("cluster.ingesters", "a=10.0.0.1:4041,b=10.0.0.2", "the port is missing"), ("cluster.ingesters", "a=h:1,a=h:2", "given twice"), ("cluster.queriers", "q=h:0", "port 0"),
    ("cluster.compactors", "=h:1", "not id=address"), ("self_profile.url", "localhost:4040", "not http://host:port"), ("self_profile.url", "http://:80", "not http://host:port"),
    ("self_profile.tenant", "a/b", "unsupported character"), ("server.id", "a=b", "has a blank"), ("server.data_dir", "/dev/null", "not a directory"), ("storage.dir", "/dev/null", "not a directory"),
    ("storage.kind", "tape", "local, s3, azure, none"), ("storage.io", "fast", "auto, threads"), ("log.level", "loud", "debug, info, warn, error"), ("runtime_config.file", "/nonexistent.yaml", "/nonexistent.yaml"),
    ("server.data_dir", "/dev/null/x", "Not a directory"), ("server.data_dir", "/tmp/" + "x" * 5000, "too long"), ("cluster.dns_servers", "banana", "not an address and a port"),
    ("cluster.dns_servers", "10.0.0.1,10.0.0.2:70000", "'10.0.0.2:70000'"), ("limits.ingestion_relabeling_default_rules_position", "middle", "middle"), ("server.head_timeout", "5 parsecs", "not a duration"), ("server.body_max", "lots", "not a number of bytes"),
]


SAME = [
    ("127.0.0.1:14040", "127.0.0.1:14040", True), ("0.0.0.0:14040", "127.0.0.1:14040", True), (":14040", "[::1]:14040", True), ("127.0.0.1:0", "127.0.0.1:0", False),
    ("127.0.0.1:14040", "127.0.0.2:14040", False), ("127.0.0.1:14040", "127.0.0.1:14041", False), ("unix:/tmp/a.sock", "unix:/tmp/a.sock", True), ("unix:/tmp/a.sock", "unix:/tmp/b.sock", False),
]


@pytest.mark.parametrize("key", ["admin.listen", "internal.listen"])
@pytest.mark.parametrize("one, two, same", SAME)
def test_check_config_knows_two_listeners_of_one_address(key, one, two, same):
    answer = run("--check-config", "--server.listen=" + one, "--%s=%s" % (key, two))
    assert answer.returncode == (2 if same else 0), answer
    assert not same or all(part in answer.stderr for part in (key, "server.listen", repr(one), repr(two))), answer.stderr


@pytest.mark.parametrize("key, value, why", VALUES, ids=["%s-%s" % (key, value) for key, value, _ in VALUES])
def test_check_config_looks_at_what_values_mean(key, value, why):
    answer = run("--check-config", "--%s=%s" % (key, value))
    assert answer.returncode == 2 and key.split(".")[1] in answer.stderr and why in answer.stderr, answer.stderr


def test_check_config_looks_into_certificates(tmp_path):
    path = tmp_path / "no.pem"
    path.write_text("this is no certificate")
    for section, more in (("server", []), ("internal", ["--internal.tls_ca_file", str(path)])):
        for file in (str(path), "/nonexistent.pem"):
            answer = run("--check-config", "--%s.tls_cert_file=%s" % (section, file), "--%s.tls_key_file=%s" % (section, path), *more)
            assert answer.returncode == 2 and file in answer.stderr and section in answer.stderr, answer.stderr


KEYS = {"access_key": "a", "secret_key": "b"}
S3 = {"bucket": "prof", "endpoint": "https://127.0.0.1:1", **KEYS}
AZURE = {"account": "shop", "container": "profiles", "account_key": "aGVsbG8="}
STORES = [
    ("no-scheme", "s3", {**S3, "endpoint": "s3.eu-west-1.amazonaws.com"}, "s3.endpoint: 's3.eu-west-1.amazonaws.com' begins with neither https:// nor http://"),
    ("path", "s3", {**S3, "endpoint": "https://host:9000/prof"}, "s3.endpoint: 'https://host:9000/prof' is no address; it is written https://host:port, without a path"),
    ("port", "s3", {**S3, "endpoint": "https://host:99999"}, "s3.endpoint: 'https://host:99999' is no address"),
    ("user", "s3", {**S3, "endpoint": "https://u:p@host"}, "is no address"), ("region", "s3", {"bucket": "prof", "region": "eu west", **KEYS}, "s3.endpoint: "),
    ("bucket-is-an-address", "s3", {"bucket": "s3://x/y", **KEYS}, "s3.bucket: 's3://x/y' has a ':' at 2"), ("capitals", "s3", {"bucket": "My_Bucket", **KEYS}, "s3.bucket: 'My_Bucket' has a 'M' at 0"), ("capitals-behind-an-endpoint", "s3", {**S3, "bucket": "My_Bucket"}, "s3.bucket: 'My_Bucket' has a 'M' at 0"),
    ("short", "s3", {**S3, "bucket": "ab"}, "s3.bucket: the name has 2 characters"), ("prefix", "s3", {**S3, "prefix": "a//b"}, "s3.prefix: "),
    ("authorities", "s3", {**S3, "ca_file": "/nonexistent.pem"}, "s3.ca_file: open /nonexistent.pem"), ("no-authorities", "s3", {**S3, "ca_file": "/etc/passwd"}, "s3.ca_file: "),
    ("no-account", "azure", {"container": "profiles"}, "azure.account: it is not set"), ("account", "azure", {**AZURE, "account": "Shop"}, "azure.account: 'Shop' has a 'S' at 0"),
    ("container", "azure", {**AZURE, "container": "my_profiles"}, "azure.container: 'my_profiles' has a '_' at 2"), ("key", "azure", {**AZURE, "account_key": "no base"}, "no base64"),
    ("key-file", "azure", {"account": "shop", "container": "profiles", "key_file": "/nonexistent"}, "azure.key_file: open /nonexistent"),
    ("azure-endpoint", "azure", {**AZURE, "endpoint": "shop.blob.core.windows.net"}, "azure.endpoint: "), ("azure-authorities", "azure", {**AZURE, "ca_file": "/nonexistent.pem"}, "azure.ca_file: "),
]
ALONE = {"HOME": "/nonexistent", "PATH": os.environ["PATH"]}  # no keys or accounts of this machine


@pytest.mark.parametrize("kind, settings, told", [row[1:] for row in STORES], ids=[row[0] for row in STORES])
def test_check_config_says_of_a_bucket_what_a_start_says(tmp_path, kind, settings, told):
    flags = ["--storage.kind", kind, *("--%s.%s=%s" % (kind, key, value) for key, value in settings.items()), "--server.data_dir", str(tmp_path / "data"), "--server.listen", "127.0.0.1:0"]
    checked, started = (subprocess.run([os.path.join(BIN, "flametree"), *more, *flags], capture_output=True, text=True, timeout=60, env=ALONE) for more in (["--check-config"], ["serve"]))
    assert (checked.returncode, started.returncode) == (2, 2) and told in checked.stderr, (checked, started)
    assert checked.stderr.splitlines()[-1] == started.stderr.splitlines()[-1]
    assert not (tmp_path / "data").exists(), "nothing was begun"


@pytest.mark.parametrize("kind, settings", [("s3", S3), ("s3", {**S3, "bucket": "my_bucket"}), ("s3", {"bucket": "prof", **KEYS}), ("azure", AZURE)], ids=["endpoint", "ceph", "amazon", "azure"])
def test_check_config_asks_no_bucket(kind, settings):
    flags = ["--%s.%s=%s" % (kind, key, value) for key, value in settings.items()]
    checked = subprocess.run([os.path.join(BIN, "flametree"), "--check-config", "--storage.kind", kind, *flags], capture_output=True, text=True, timeout=60, env=ALONE)
    assert (checked.returncode, checked.stdout) == (0, "the settings are valid\n"), checked


def test_a_log_in_a_store_needs_a_store():
    for program, flags, code in (("flametree", ["--storage.kind=none"], 2), ("flametree", [], 0), ("flametree-ingester", [], 2), ("flametree-ingester", ["--storage.dir=/tmp"], 0)):
        checked = subprocess.run([os.path.join(BIN, program), "--check-config", "--ingester.log=object", *flags], capture_output=True, text=True, timeout=60, env=ALONE)
        assert checked.returncode == code and (code == 0 or "there is no object store" in checked.stderr), checked


@pytest.mark.parametrize("program", ["flametree", "flametree-ingester"])
def test_check_config_says_of_memory_for_the_log_what_a_start_says(program, tmp_path):
    own = ["--server.data_dir", str(tmp_path / "data"), "--server.listen", "127.0.0.1:0", "--internal.listen", "127.0.0.1:0"]
    for limit, log in (("32MiB", "64MiB"), ("64MiB", "64MiB"), ("1GiB", "1048575KiB")):
        flags = ["--server.memory_limit", limit, "--ingester.log_memory", log, "--ingester.disk_reserve=0", *own]
        checked, started = (subprocess.run([os.path.join(BIN, program), *more, *flags], capture_output=True, text=True, timeout=60, env=ALONE) for more in (["--check-config"], []))
        assert (checked.returncode, started.returncode) == (2, 2) and checked.stderr == started.stderr, (checked, started)
        assert "server.memory_limit is" in checked.stderr and "ingester.log_memory, which is" in checked.stderr
    assert not (tmp_path / "data").exists(), "nothing was begun"
    least = Flametree("--server.memory_limit=33MiB", "--ingester.log_memory=32MiB", "--ingester.disk_reserve=0", "--internal.listen=127.0.0.1:0", program=program)
    with least:
        assert least.ports["public"]


@pytest.mark.parametrize("address", ["127.0.0.1:4040", ":4040", "[::1]:0", "[::]:4040", "host_a.example-1.com:65535", "unix:/run/flametree.sock"])
def test_check_config_takes_addresses(address):
    for key, other in (("--server.listen", "--internal.listen"), ("--internal.listen", "--server.listen")):
        answer = run("--check-config", key, address, other, "127.0.0.9:1")
        assert answer.returncode == 0, answer.stderr


KUBERNETES = {"FLAMETREE_SERVICE_HOST": "10.0.0.1", "FLAMETREE_SERVICE_PORT": "4040", "FLAMETREE_SERVICE_PORT_HTTP": "4040", "FLAMETREE_PORT": "tcp://10.0.0.1:4040",
              "FLAMETREE_PORT_4040_TCP": "tcp://10.0.0.1:4040", "FLAMETREE_PORT_4040_TCP_PROTO": "tcp", "FLAMETREE_PORT_4040_TCP_ADDR": "10.0.0.1",
              "FLAMETREE_DISTRIBUTOR_PORT": "tcp://10.0.0.2:4040", "FLAMETREE_INGESTER_0_PORT_4041_TCP_PORT": "4041"}
VARIABLES = [
    ({"FLAMETREE_SERVER_LISTN": "x"}, "FLAMETREE_SERVER_LISTN: unknown variable; the nearest is FLAMETREE_SERVER_LISTEN\n"),
    ({"FLAMETREE_INGESTER_HEADMEMORY": "1GiB"}, "the nearest is FLAMETREE_INGESTER_HEAD_MEMORY\n"), ({"FLAMETREE_ULR": "x"}, "the nearest is FLAMETREE_URL\n"),
    ({"FLAMETREE_PORT": "4040"}, "FLAMETREE_PORT: unknown variable"), ({"FLAMETREE_QQ": "1"}, "FLAMETREE_QQ: unknown variable"), ({"FLAMETREE_" + "A" * 5000: "1"}, "unknown variable"),
    (KUBERNETES, None), ({"FLAMETREE_SERVER_LISTEN": ":0", "FLAMETREE_LIMITS_REJECT_OLDER_THAN": "1h"}, None), ({"FLAMETREES_X": "1", "FLAMETREE": "1"}, None),
    ({"FLAMETREE_URL": "x", "FLAMETREE_STRICT": "1"}, None),
]


@pytest.mark.parametrize("variables, told", VARIABLES, ids=[list(v)[0][:40] for v, _ in VARIABLES])
def test_check_config_knows_every_variable(variables, told):
    answer = subprocess.run([os.path.join(BIN, "flametree"), "--check-config"], capture_output=True, text=True, timeout=60, env={**os.environ, **variables})
    assert (answer.returncode, told or "") == (2 if told else 0, told or "") and (told or "") in answer.stderr, answer.stderr


def test_variables_of_the_client_are_known():
    page = run("help", "--markdown").stdout
    names = set(re.findall(r"`(FLAMETREE_[A-Z_]+)`", page))
    assert "FLAMETREE_URL" in names
    answer = subprocess.run([os.path.join(BIN, "flametree"), "--check-config"], capture_output=True, text=True, timeout=60, env={**os.environ, **dict.fromkeys(names, "x")})
    assert answer.returncode == 0, answer.stderr


def test_variables_on_pages_about_tests_are_known():
    """They are set for a run of all tests, and --check-config is a part of that."""
    names = set()
    for page in ("CONTRIBUTING.md", "tests/README.md", "docs/benchmarks.md", "tests/conformance/README.md", "querier/ui/README.md"):
        with open(os.path.join(TOP, page)) as f:
            names |= set(re.findall(r"\bFLAMETREE_[A-Z0-9_]*[A-Z0-9]\b", f.read()))
    assert "FLAMETREE_KUBE" in names
    answer = subprocess.run([os.path.join(BIN, "flametree"), "--check-config"], capture_output=True, text=True, timeout=60,
                            env={**os.environ, **dict.fromkeys(names, "x"), "FLAMETREE_INGESTER_LOG": "local"})
    assert answer.returncode == 0, answer.stderr


def test_a_service_alone_knows_the_variables_of_the_others():
    program = os.path.join(BIN, "flametree-distributor")
    for name, code in (("FLAMETREE_INGESTER_HEAD_MEMORY", 0), ("FLAMETREE_DISTRIBUTOR_HEAD_MEMORY", 2)):
        answer = subprocess.run([program, "--check-config"], capture_output=True, text=True, timeout=60, env={**os.environ, name: "1GiB"})
        assert answer.returncode == code, answer.stderr


def test_a_start_warns_of_unknown_variables():
    with Flametree(env={"FLAMETREE_SERVER_LISTN": "a b", **KUBERNETES}) as f:
        assert "level=warn event=config.unknown_variable name=FLAMETREE_SERVER_LISTN nearest=FLAMETREE_SERVER_LISTEN\n" in f.tail()
        assert f.tail().count("config.unknown_variable") == 1


def test_unknown_flag_is_an_error():
    answer = run("--server.listne", "x")
    assert answer.returncode == 2 and "server.listne" in answer.stderr


def test_flag_over_environment_over_file(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("limits:\n  max_label_names_per_series: 11\n  max_label_name_length: 11\n  max_label_value_length: 11\n")
    env = {"FLAMETREE_LIMITS_MAX_LABEL_NAME_LENGTH": "12", "FLAMETREE_LIMITS_MAX_LABEL_VALUE_LENGTH": "12"}
    with Flametree("--config", str(path), "--limits.max_label_value_length", "13", env=env) as f:
        shown = get(f, "/config")[2]
    for key, value in (("max_label_names_per_series", 11), ("max_label_name_length", 12), ("max_label_value_length", 13)):
        assert "%s: %d" % (key, value) in shown, shown


def test_hangup_reloads_what_is_reloadable(tmp_path):
    path = tmp_path / "c.yaml"
    path.write_text("limits:\n  max_label_names_per_series: 30\n  faulty_profiles: refuse\n")
    with Flametree("--config", str(path)) as f:
        path.write_text("limits:\n  max_label_names_per_series: 3\n  faulty_profiles: refuse\n")
        f.signal(signal.SIGHUP)
        await_("the new limit", lambda: "max_label_names_per_series: 3\n" in get(f, "/config")[2])
        reply = Server(f.url, strict=True).push({"__name__": "process_cpu", "service_name": "x", "a": "1", "b": "2"}, Pprof(("a", 1)))
        reply.expect(400, "limit 3")
        path.write_text("limits:\n  max_label_names_per_series: nonsense\n")
        f.signal(signal.SIGHUP)
        await_("the refusal in the log", lambda: "nonsense" in f.tail(200))
        assert "max_label_names_per_series: 3\n" in get(f, "/config")[2]


# ---- the data directory and the port

def test_second_process_on_the_same_data_is_refused(tmp_path):
    with Flametree(data=str(tmp_path)):
        answer = run("--server.data_dir", str(tmp_path), "--server.listen", "127.0.0.1:0")
        assert answer.returncode == 1 and str(tmp_path) in answer.stderr, answer.stderr


def test_unknown_format_is_refused(tmp_path):
    (tmp_path / "format").write_text("flametree 999\n")
    answer = run("--server.data_dir", str(tmp_path), "--server.listen", "127.0.0.1:0")
    assert answer.returncode == 1 and "999" in answer.stderr, answer.stderr


def test_occupied_port(tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        at = "127.0.0.1:%d" % taken.getsockname()[1]
        answer = run("--server.data_dir", str(tmp_path), "--server.listen", at)
    assert answer.returncode == 1 and at in answer.stderr, answer.stderr


# ---- operational pages

def test_operational_pages(shared):
    assert get(shared, "/ready")[::2] == (200, "ready")
    build = json.loads(get(shared, "/api/v1/status/buildinfo")[2])
    assert build["status"] == "success" and build["data"]["version"], build
    assert "server:" in get(shared, "/config")[2]
    compactor = shared["compactor"] if hasattr(shared, "members") else shared
    duties = json.loads(get(compactor, "/compactor/duties")[2])
    assert any("not built" in json.dumps(d) for d in duties["duties"]), duties


def test_version_service(s):
    assert s.rpc("version.v1.Version/Version", "{}").expect(200).json() == {"QuerierAPI": "1"}


# ---- signals before it is ready

def start_with_signals(data, *pending, config):
    """Starts with signals blocked and pending, as the kernel leaves them when they come during exec."""
    def before():
        signal.pthread_sigmask(signal.SIG_BLOCK, pending)
        for number in pending:
            os.kill(os.getpid(), number)
    args = ["--config", config, "--server.listen", "127.0.0.1:0", "--server.data_dir", data, "--self_profile.enabled", "false"]
    return subprocess.Popen([PROGRAM, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=before)


def test_signals_sent_before_main_are_taken_later(tmp_path):
    config = tmp_path / "c.yaml"
    config.write_text("log:\n  level: info\n")
    with start_with_signals(str(tmp_path / "data"), signal.SIGHUP, signal.SIGTERM, config=str(config)) as p:
        log = p.communicate(timeout=60)[1]
    assert p.returncode == 0, log
    assert "config.reloaded" in log and "process.stopped" in log, log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stop_while_settings_are_read_ends_well(tmp_path, number):
    """The settings come through a pipe, so that it is known to be at work when the signals come."""
    pipe = tmp_path / "c.yaml"
    os.mkfifo(pipe)
    with start_with_signals(str(tmp_path / "data"), config=str(pipe)) as p:
        def opened():
            try:
                return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
            except OSError:  # nobody reads it yet
                assert p.poll() is None, p.stderr.read()
        with open(await_("the program to open its settings", opened), "w") as settings:
            p.send_signal(number)
            settings.write("log:\n  level: info\n")
        log = p.communicate(timeout=60)[1]
    assert p.returncode == 0 and "process.stopped" in log, log


def test_stop_while_the_start_waits_for_a_store(tmp_path):
    """The store accepts connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        args = ["--server.listen", "127.0.0.1:0", "--server.data_dir", str(tmp_path / "data"), "--self_profile.enabled", "false",
                "--storage.kind", "s3", "--s3.bucket", "profiles", "--s3.endpoint", "http://127.0.0.1:%d" % silent.getsockname()[1]]
        with subprocess.Popen([PROGRAM, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                              env={**os.environ, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"}) as p:
            silent.settimeout(300)
            asked, _ = silent.accept()
            p.send_signal(signal.SIGTERM)
            try:
                log = p.communicate(timeout=60)[1]
            finally:
                p.kill()
                asked.close()
    assert p.returncode == 0 and "process.stopped" in log, log


# ---- stop

def test_drain_finishes_what_runs(tmp_path):
    """A request whose body is half sent when the stop comes is answered; new connections are refused."""
    with Flametree(data=str(tmp_path)) as f:
        service = unique()
        message = pb((1, pb((1, [pb((1, "__name__"), (2, "process_cpu")), pb((1, "service_name"), (2, service))]), (2, pb((1, Pprof(("a", 7)).encode()))))))
        host = ("127.0.0.1", f.ports["public"])
        with socket.create_connection(host) as c:
            c.sendall(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/proto\r\nContent-Length: %d\r\n\r\n" % (PUSH.encode(), len(message)) + message[:20])
            stopping = threading.Thread(target=f.signal, args=(signal.SIGTERM,))
            stopping.start()
            stopping.join()

            def refused():
                try:
                    socket.create_connection(host, timeout=30).close()
                    return False
                except ConnectionError:
                    return True
            await_("new connections to be refused", refused)
            c.sendall(message[20:])
            assert c.recv(4096).startswith(b"HTTP/1.1 200"), f.tail()
        assert f.process.wait(60) == 0
        f.process = None
        f.start()
        assert Server(f.url, strict=True).stacks(service) == {"a": 7}


# ---- protocols of the one port

def curl(*args):
    return subprocess.run(["curl", "-sS", "-o", "-", "-w", "\n%{http_version} %{http_code}", *args], capture_output=True, text=True, timeout=60).stdout


def test_http2_without_tls(shared):
    assert curl("--http2-prior-knowledge", shared.url + "/ready") == "ready\n2 200"


def test_grpc_over_h2c(shared, tmp_path):
    body = tmp_path / "body"
    body.write_bytes(envelope(b""))
    out = tmp_path / "out"
    args = ["curl", "-sS", "--http2-prior-knowledge", "-D", str(tmp_path / "head"), "-o", str(out), "-H", "Content-Type: application/grpc", "-H", "TE: trailers",
            "--data-binary", "@%s" % body, shared.url + "/version.v1.Version/Version"]
    subprocess.run(args, check=True, timeout=60)
    assert unenvelope(out.read_bytes()) == [(0, b"\x08\x01")]
    assert "grpc-status: 0" in (tmp_path / "head").read_text()


def test_tls_with_alpn(tmp_path):
    key, cert = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    f = Flametree("--server.tls_cert_file", cert, "--server.tls_key_file", key)
    f.start(wait=False)
    try:
        ports = os.path.join(f.data, "run", "ports.json")
        await_("ports.json", lambda: os.path.exists(ports) and os.path.getsize(ports), 60)
        with open(ports) as p:
            url = "https://127.0.0.1:%d/ready" % json.load(p)["public"]
        await_("TLS to be ready", lambda: curl("--http1.1", "--cacert", cert, url) == "ready\n1.1 200", 60)
        assert curl("--http2", "--cacert", cert, url) == "ready\n2 200"
        context = ssl.create_default_context(cafile=cert)
        context.set_alpn_protocols(["h2"])
        with socket.create_connection(("127.0.0.1", int(url.split(":")[2].split("/")[0]))) as c, context.wrap_socket(c, server_hostname="127.0.0.1") as t:
            assert t.selected_alpn_protocol() == "h2"
        f.stop()
    finally:
        f.__exit__(None if f.process is None else AssertionError, None, None)


# ---- limits of the process

def test_memory_budget_refuses_with_retry_after(tmp_path):
    """Many large bodies at once against a small budget: each is accepted or refused with 429, and afterwards all is well."""
    with Flametree("--server.memory_limit", "96MiB", "--ingester.head_memory", "64MiB") as f:
        statuses, lock = [], threading.Lock()
        data = Pprof(*[("f@@;%s" % ("x" * 200 + str(j)), 1) for j in range(12_000)]).encode()

        def push(i):
            reply = Server(f.url).push({"__name__": "process_cpu", "service_name": "budget"}, data.replace(b"f@@", b"f%02d" % i))
            with lock:
                statuses.append((reply.status, reply.headers.get("Retry-After"), reply.text[:200]))
        threads = [threading.Thread(target=push, args=(i,)) for i in range(24)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        f.check_alive()
        assert len(statuses) == 24 and {status for status, *_ in statuses} <= {200, 429}, statuses
        assert all(retry for status, retry, _ in statuses if status == 429), statuses
        assert get(f, "/ready")[0] == 200


def test_full_head_refuses_instead_of_losing(tmp_path):
    with Flametree("--storage.kind", "none", "--ingester.head_memory", "4MiB") as f:  # a store would take what fills it
        s, accepted = Server(f.url, strict=True), 0
        for i in range(400):
            reply = s.push({"__name__": "process_cpu", "service_name": "full"}, Pprof(*[("p%d;%s" % (i, "y" * 100 + str(j)), 1) for j in range(300)]))
            if reply.status != 200:
                reply.expect(429, "head", code="resource_exhausted")
                break
            accepted += 300
        else:
            raise AssertionError("the head never filled")
        assert sum(s.stacks("full", maxNodes=1 << 20).values()) == accepted
        f.kill()
        f.start()
        assert sum(Server(f.url, strict=True).stacks("full", maxNodes=1 << 20).values()) == accepted


def test_slow_heads_do_not_hold_connections(tmp_path):
    with Flametree("--server.head_timeout", "300ms") as f:
        with socket.create_connection(("127.0.0.1", f.ports["public"])) as c:
            c.sendall(b"POST /ingest HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
            c.settimeout(60)
            got = c.recv(4096)
            assert got == b"" or b" 408 " in got.splitlines()[0], got


def test_time_is_wall_clock(s):
    """A profile without a time gets the server's now."""
    before, service = time.time_ns(), unique()
    s.push({"__name__": "process_cpu", "service_name": service}, Pprof(("a", 1), time_ns=0)).expect(200)
    after = time.time_ns()
    stats = s.ok("SelectMergeStacktraces", profileTypeID="process_cpu:cpu:nanoseconds:cpu:nanoseconds", labelSelector='{service_name="%s"}' % service,
                 start=before // 10**6, end=after // 10**6 + 1)
    assert stats["flamegraph"]["total"] == "1"


def test_counters_of_refusals_exist_with_0_for_every_reason_that_the_code_has():
    """A counter that is born with 1 never rose, as Prometheus sees it."""
    top = os.path.join(os.path.dirname(__file__), "../../common")
    source = "".join(open(path).read() for room in ("net", "rpc") for path in sorted(glob.glob(os.path.join(top, room, "*.c"))))
    refusal = r'(?:refuse|refuse_plainly|exchange_refuse|exchange_reject|end_session)\([^;]*?"([a-z_]+)"(?: : "([a-z_]+)")?\);'
    found = {
        ("flametree_net_refused_total", "reason"): re.findall(refusal, source) + re.findall(r'net_refused, S\("([a-z_]+)"\)', source) + re.findall(r'\{"(flood_[a-z_]+)", \d+\}', source),
        ("flametree_net_timeouts_total", "kind"): re.findall(r'conn_timed_out\([^")]*"([a-z]+)"(?: : "([a-z]+)")?\)', source),
        ("flametree_rpc_foreign_requests_total", "header"): re.findall(r'rpc_foreign, S\("([a-z-]+)"\)', source),
    }
    with Flametree() as f:
        for (metric, label), values in found.items():
            names = {name for value in values for name in (value if isinstance(value, tuple) else (value,)) if name}
            assert len(names) >= 3, (metric, names)
            assert {name: f.metric('%s{%s="%s"}' % (metric, label, name)) for name in names} == dict.fromkeys(names, 0)
