"""Services in processes of their own: they find each other by their internal listeners, in the clear or by mutual TLS."""
import contextlib
import json
import re
import socket
import ssl
import subprocess
import threading
import urllib.error
import urllib.request

import pytest
from certificates import certificates
from client import Pprof, Server, unique
from faultclock import FaultClock
from flametree import Flametree, await_


def node(program, *args, env=None):
    return Flametree("--internal.listen", "127.0.0.1:0", *args, program="flametree-" + program, env=env)


def push_and_query(tls):
    with node("ingester", *tls) as ingester:
        at = ["--cluster.ingesters", "a=" + ingester.ports["internal"]]
        with node("distributor", *at, *tls) as distributor, node("querier", *at, *tls) as querier:
            service = unique()
            Server(distributor.url).push({"__name__": "process_cpu", "service_name": service}, Pprof(("a", 3), ("a;b", 4))).expect(200)
            assert Server(querier.url, strict=True).stacks(service) == {"a": 3, "a;b": 4}


def test_services_work_apart():
    push_and_query([])


def test_services_work_apart_with_mutual_tls(tmp_path):
    push_and_query(certificates(tmp_path))


def test_a_node_without_a_certificate_is_refused(tmp_path):
    with node("ingester", *certificates(tmp_path)) as ingester:
        with node("distributor", "--cluster.ingesters", "a=" + ingester.ports["internal"]) as distributor:
            reply = Server(distributor.url).push({"__name__": "process_cpu", "service_name": "x"}, Pprof(("a", 1)))
            assert reply.status >= 500, (reply.status, reply.body)
        answer = subprocess.run(["curl", "-sS", "--cacert", str(tmp_path / "ca.pem"), "https://" + ingester.ports["internal"] + "/ready"], capture_output=True, text=True)
        assert answer.returncode != 0 and "certificate" in answer.stderr, answer


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def internal(f, path, body=b"", **headers):
    """A request of another node, as anybody may send it who reaches the internal listener: (status, body)."""
    sum_ = "%08x" % crc32c(path.encode() + headers.get("X-Scope-OrgID", "").encode() + body)
    sent = {"Content-Type": "application/proto", "Flametree-CRC32C": sum_, **headers}
    request = urllib.request.Request("http://%s%s" % (f.ports["internal"], path), body, sent, method="POST")
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode(errors="replace")
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


@pytest.mark.parametrize("method", ["Append", "HeadRead", "Streams"])
def test_what_another_node_says_of_a_tenant_is_checked(method, tmp_path):
    with node("ingester", "--storage.dir", str(tmp_path / "store")) as ingester:
        for tenant in ("../../evil", "a/b", "..", "a||b", "x" * 151, "a b"):
            status, said = internal(ingester, "/flametree.v1.IngesterService/" + method, **{"X-Scope-OrgID": tenant})
            assert status == 401 and "tenant" in said, (tenant, status, said)
        status, said = internal(ingester, "/flametree.v1.IngesterService/Append", **{"X-Scope-OrgID": "a|b"})
        assert status == 400 and "tenant 'a|b' is not one name" in said, (status, said)
        status, said = internal(ingester, "/flametree.v1.IngesterService/" + method, **{"Flametree-CRC32C": "00000000"})
        assert status == 503 and "damaged on the way" in said, (status, said)


def test_an_internal_listener_for_all_says_so_unless_it_has_tls(tmp_path):
    with Flametree("--internal.listen", "0.0.0.0:0", program="flametree-ingester") as f:
        said = f.tail()
        assert said.count("event=internal.exposed listen=0.0.0.0:0") == 1 and "internal.tls_cert_file" in said, said
    with Flametree("--internal.listen", "0.0.0.0:0", *certificates(tmp_path), program="flametree-ingester") as f:
        assert "internal.exposed" not in f.tail()
    with node("ingester") as f:
        assert "internal.exposed" not in f.tail()


def test_the_compactor_runs_alone():
    with node("compactor") as compactor:
        with urllib.request.urlopen(compactor.url + "/compactor/duties") as answer:
            assert {d["state"] for d in json.load(answer)["duties"]} == {"not built", "off"}  # without a store


@pytest.mark.parametrize("path", ["/config", "/compactor/duties"])
def test_the_internal_listener_shows_only_what_nodes_need(path):
    with node("compactor") as compactor:
        inside = "http://" + compactor.ports["internal"]
        with urllib.request.urlopen(inside + "/ready") as answer:
            assert answer.read() == b"ready"
        with urllib.request.urlopen(inside + "/metrics") as answer:
            assert b"flametree_ready 1" in answer.read()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(inside + path)
        assert refused.value.code == 404


# ---- forged and replayed calls

def handshakes(port, folder, authority):
    """Is a connection with this folder's certificate served?"""
    context = ssl.create_default_context(cafile=authority / "ca.pem")
    context.load_cert_chain(folder / "node.pem", folder / "node.key")
    try:
        with context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=30), server_hostname="127.0.0.1") as c:
            c.sendall(b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n")
            return c.recv(4096).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def test_calls_that_are_forged_or_in_the_clear_are_refused(tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    ours.mkdir()
    theirs.mkdir()
    flags = certificates(ours)
    certificates(theirs)
    with node("ingester", *flags) as ingester:
        port = int(ingester.ports["internal"].rsplit(":", 1)[1])
        assert handshakes(port, ours, ours)
        assert not handshakes(port, theirs, ours), "a certificate of another authority"
        with contextlib.suppress(OSError):
            status, said = internal(ingester, "/flametree.v1.IngesterService/Append", b"")
            assert status == 400, (status, said)
        assert not ingester.metric('flametree_rpc_request_seconds_count{route="/flametree.v1.IngesterService/Append"}')


class Recorder:
    """Passes connections on to a port and keeps what each client sent."""

    def __init__(self, port):
        self.port, self.sent, self.open = port, [], []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self.listener.accept()
                server = socket.create_connection(("127.0.0.1", self.port))
                self.open += [client, server]
                kept = bytearray()
                self.sent.append(kept)
                threading.Thread(target=self.pump, args=(client, server, kept), daemon=True).start()
                threading.Thread(target=self.pump, args=(server, client, None), daemon=True).start()

    @staticmethod
    def pump(source, sink, kept):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if kept is not None:
                    kept += data
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def close(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for each in self.open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


@contextlib.contextmanager
def replayed(port, sent):
    """Recorded bytes of connections are sent again, each on a new one; these are given, still open."""
    with contextlib.ExitStack() as opened:
        connections = [opened.enter_context(socket.create_connection(("127.0.0.1", port), timeout=60)) for _ in sent]
        for c, data in zip(connections, sent):
            with contextlib.suppress(OSError):
                c.sendall(data)
        yield connections


def read_to_end(c):
    with contextlib.suppress(OSError):
        c.shutdown(socket.SHUT_WR)
        while c.recv(65536):
            pass


@pytest.mark.parametrize("secure", [False, True], ids=["clear", "tls"])
def test_calls_that_are_replayed_are_refused(secure, tmp_path):
    """In the clear a recorded Append is handled again, so the test would notice one; by TLS none is."""
    tls = certificates(tmp_path) if secure else []
    with node("ingester", *tls) as ingester:
        port = int(ingester.ports["internal"].rsplit(":", 1)[1])
        recorder = Recorder(port)
        try:
            with node("distributor", "--cluster.ingesters", "a=" + recorder.address, *tls) as distributor:
                Server(distributor.url).push({"__name__": "process_cpu", "service_name": "x"}, Pprof(("a", 1))).expect(200)
            appended = lambda: ingester.metric('flametree_rpc_request_seconds_count{route="/flametree.v1.IngesterService/Append"}') or 0
            before = appended()
            assert before >= 1 and recorder.sent
            with replayed(port, [bytes(sent) for sent in recorder.sent]) as connections:
                if secure:
                    for c in connections:
                        read_to_end(c)  # the other side has given up
                    assert appended() == before
                else:
                    await_("the replayed call", lambda: appended() > before)
        finally:
            recorder.close()


# ---- lists that are out of date

def told(f, event, *words):
    """The line of /ready, once it is there; the log has it too."""
    def line():
        with urllib.request.urlopen(f.url + "/ready") as answer:
            return next((x for x in answer.read().decode().splitlines() if x.startswith(event + " ") and all(w in x for w in words)), None)
    return await_("%s with %s" % (event, words), line, 60)


def test_an_own_id_that_the_list_lacks_is_told(tmp_path):
    for program, key in (("ingester", "ingesters"), ("compactor", "compactors")):
        with node(program, "--server.id", "mine", "--storage.dir", str(tmp_path / "store"), "--cluster.%s" % key, "a=127.0.0.1:1,b=127.0.0.1:2") as f:
            told(f, "cluster.unlisted", "mine", "cluster.%s is 'a=127.0.0.1:1,b=127.0.0.1:2'" % key, "server.id mine")
    with node("compactor", "--server.id", "mine", "--storage.dir", str(tmp_path / "store"), "--cluster.compactors", "other=127.0.0.1:1,mine=127.0.0.1:2") as f:
        assert "cluster.unlisted" not in f.tail()


def test_a_node_with_another_id_or_service_than_the_list_says_is_told(tmp_path):
    with node("ingester", "--server.id", "new", "--storage.dir", str(tmp_path / "store")) as ingester:
        at = ingester.ports["internal"]
        with node("distributor", "--cluster.ingesters", "old=" + at) as f:
            told(f, "member.differs", "cluster.ingesters has old=" + at, "has the id new")
        with node("compactor", "--storage.dir", str(tmp_path / "store"), "--cluster.compactors", "new=%s,me=127.0.0.1:1" % at, "--server.id", "me") as f:
            told(f, "member.differs", "cluster.compactors has new=" + at, "is no compactor")
        with node("distributor", "--cluster.ingesters", "new=%s,b=127.0.0.1:1,copy=%s" % (at, at)) as f:
            told(f, "member.twice", "cluster.ingesters has 'new=%s' and 'copy=%s'" % (at, at))


# ---- clocks

def test_a_node_whose_clock_is_far_off_is_refused_by_name(tmp_path):
    clock = FaultClock(tmp_path / "clock")
    with node("ingester", "--server.id", "right", "--storage.dir", str(tmp_path / "store")) as ingester:
        at = ["--cluster.ingesters", "right=" + ingester.ports["internal"], "--server.id", "wrong"]
        with node("distributor", *at, env=clock.env) as f:
            push = lambda: Server(f.url).push({"__name__": "process_cpu", "service_name": "x"}, Pprof(("a", 1)))
            push().expect(200)
            clock.set(seconds=-200)
            push().expect(200)
            clock.set(hours=2)
            reply = push().expect(503, code="unavailable")
            assert re.search(r"the clock of wrong is 7(199|200|201) s ahead of that of right", reply.message()), reply.message()
            told(ingester, "clock.differs", "wrong", "s ahead of this node's (right)", "cluster.clock_difference")
            told(f, "clock.differs", "right", "s behind this node's (wrong)")
            clock.set()
            push().expect(200)
        with node("distributor", *at, "--limits.reject_newer_than", "0", env=clock.env) as f:
            clock.set(hours=-2)
            assert "s behind that of right" in Server(f.url).push({"__name__": "process_cpu", "service_name": "x"}, Pprof(("a", 1))).expect(503).message()
    with node("ingester", "--cluster.clock_difference", "0") as ingester, node("distributor", "--cluster.ingesters", "a=" + ingester.ports["internal"], env=clock.env) as f:
        Server(f.url).push({"__name__": "process_cpu", "service_name": "x"}, Pprof(("a", 1)))
        assert "clock.differs" not in ingester.tail()
