"""What must work when nothing else does: /ready and /metrics have memory of their own, so a server whose memory is taken is neither restarted nor unseen; and
a server that stood still does not take its own absence for its clients'."""
import os
import signal
import time
import urllib.request

import pytest
from client import table
from faultclock import FaultClock
from flametree import Flametree, await_
from wire import DATA, END_HEADERS, END_STREAM, H2, Wire, frame, head, headers

ASK = "/querier.v1.QuerierService/ProfileTypes"
MIB = 1 << 20


@pytest.fixture(scope="module")
def taken():
    """A server whose memory for requests is held by bodies that do not end."""
    with Flametree("--server.memory_limit", "48MiB", "--ingester.head_memory", "8MiB", "--ingester.log_memory", "4MiB", "--server.body_timeout", "1h",
                   "--server.idle_timeout", "1h") as f:
        wires = []

        def full():
            """The last body did not fit, down to a request that needs next to nothing."""
            size = (4 * MIB, 256 << 10, 16 << 10, 1 << 10)[min(len(full.refused), 3)]
            wire = Wire(f)
            wires.append(wire)
            wire.send(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (ASK.encode(), size) + b"x" * (size - 1))
            wire.receive(0.1)
            if wire.input:
                assert wire.take().status == 429
                full.refused.append(size)
            return len(full.refused) > 4
        full.refused = []
        await_("all memory to be taken", full, 60)
        yield f
        for wire in wires:
            wire.close()


def test_others_are_refused_while_memory_is_taken(taken):
    with Wire(taken) as w:
        w.send(b"GET /pyroscope/render?query=process_cpu%7B%7D HTTP/1.1\r\nHost: localhost\r\nX: " + b"y" * 20000 + b"\r\n\r\n")
        assert w.answer().status == 429


@pytest.mark.parametrize("path", ["/ready", "/metrics", "/live"])
def test_readiness_and_metrics_have_a_reserve(taken, path):
    for _ in range(20):
        with urllib.request.urlopen(taken.url + path, timeout=60) as answer:
            assert answer.status == 200 and (path != "/metrics" or b"flametree_ready 1" in answer.read())
        with H2(taken) as h:
            h.request(1, "GET", path)
            assert h.await_end(1).status == 200, h.streams
    assert taken.metric('flametree_memory_bytes{budget="reserve"}') > 0  # by this very request
    with Wire(taken) as w:  # also with a head that is as large as heads may be
        w.send(b"GET %s HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nX: " % path.encode() + b"y" * 20000 + b"\r\n\r\n")
        assert w.answers()[0].status == 200

    with Wire(taken) as w:  # with a body there is no room in the reserve, but for the bare answer
        w.send(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: 3\r\n\r\nxyz")
        assert [(a.status, a.body) for a in w.answers()] == [(200, b"ready")]


# ---- clients that do not read what they asked for

HELD = ["--server.%s_timeout=10h" % kind for kind in ("write", "answer", "idle", "request", "body")]
RESERVE = 16 * MIB


@pytest.fixture
def patient():
    """It cuts nobody off."""
    with Flametree(*HELD) as f:
        yield f


def unread(f, path, streams=100):
    """A connection that asks so often and reads nothing but heads; the statuses of its answers."""
    h = H2(f, INITIAL_WINDOW_SIZE=0)
    h.grant = False
    for i in range(streams):
        h.request(1 + 2 * i, path=path)
    h.await_("the heads of all answers", lambda: len(h.streams) == streams and all(s.status for s in h.streams.values()))
    return h, [s.status for _, s in sorted(h.streams.items())]


def check_ready(f):
    """On new connections, by both protocols."""
    for _ in range(10):
        f.server().call("GET", "/ready").expect(200, "ready")
        with H2(f) as h:
            h.request(1, path="/ready")
            assert h.await_end(1).status == 200, h.streams


def reserved(f):
    return f.metric('flametree_memory_bytes{budget="reserve"}')


def test_metrics_that_are_not_read_leave_room_for_readiness(patient):
    """A connection has its share of the reserve. Others still get metrics, and anybody learns whether the server is ready."""
    readers = []
    try:
        for _ in range(6):
            h, got = unread(patient, "/metrics")
            readers.append(h)
            assert set(got) == {200, 429}, got  # threads answer, so the first one asked need not be the first one answered
            check_ready(patient)
        assert reserved(patient) < RESERVE / 2
        for _ in range(16):
            h, got = unread(patient, "/metrics")
            readers.append(h)
            assert set(got) <= {200, 429}, got
            check_ready(patient)
        for h in readers:  # on their own connections too
            h.request(1001, path="/ready")
            assert h.await_("an answer", lambda: h.streams.get(1001) and h.streams[1001].status) == 200
    finally:
        for h in readers:
            h.close()
    await_("the reserve to be given back", lambda: reserved(patient) < MIB)


def test_bodies_do_not_come_into_the_reserve(patient):
    wires = []
    try:
        for _ in range(4):
            wires.append(Wire(patient))
            wires[-1].send(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % (6 * MIB) + b"x" * (5 * MIB))
        await_("most of the bodies to be read", lambda: patient.metric('flametree_memory_bytes{budget="requests"}') + reserved(patient) > RESERVE - 2 * MIB)
        check_ready(patient)
    finally:
        for wire in wires:
            wire.close()


# ---- a server that stood still

LONG = 1000  # seconds
LIMITS = ["--server.%s_timeout=100s" % kind for kind in ("head", "body", "idle", "write")] + ["--server.request_timeout=10h", "--lanes.public_queue_age=10h", "--lanes.ingester_queue_age=10h"]
POST = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %%d\r\nConnection: close\r\n\r\n" % ASK.encode()
BODY = b'{"start": 1, "end": 2}'


@pytest.fixture(scope="module")
def still(tmp_path_factory):
    clock = FaultClock(tmp_path_factory.mktemp("time") / "clock")
    with Flametree(*LIMITS, env=clock.env) as f:
        f.clock = clock
        yield f


def states(f):
    """Of the process' threads, as the kernel has them."""
    for task in os.listdir("/proc/%d/task" % f.process.pid):
        with open("/proc/%d/task/%s/stat" % (f.process.pid, task)) as stat:
            yield stat.read().rpartition(")")[2].split()[0]


def stop_for_long(f):
    """It stands still, and when it goes on its clock says that all limits have passed. Still for more than the second after which it looks at limits."""
    f.signal(signal.SIGSTOP)
    await_("all threads to stand", lambda: set(states(f)) == {"T"})
    f.clock.wait(LONG)


def go_on(f):
    time.sleep(1.5)
    f.signal(signal.SIGCONT)


CUT = [
    ("head", b"GET /ready HT", b"TP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"), ("first-head", b"", b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
    ("body", POST % len(BODY) + BODY[:5], BODY[5:]), ("no-body-yet", POST % len(BODY), BODY),
]


@table("before, after", CUT)
def test_bytes_that_wait_are_read_before_anybody_is_cut_off(still, before, after):
    with Wire(still) as w:
        w.send(before)
        with Wire(still) as other:  # so that what was sent before has been read
            other.send(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert other.answer().status == 200
        stop_for_long(still)
        w.send(after)
        go_on(still)
        assert [a.status for a in w.answers()] == [200]


def test_an_idle_connection_that_asks_again(still):
    with Wire(still) as w:
        w.send(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert w.answer().status == 200
        stop_for_long(still)
        w.send(b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        go_on(still)
        assert [a.status for a in w.answers()] == [200]


def test_http2_streams_that_go_on(still):
    with H2(still) as h:
        h.send(headers(1, head("POST", ASK, [("content-type", "application/json")]), END_HEADERS) + frame(DATA, 0, 1, BODY[:5]))
        h.await_pong()
        stop_for_long(still)
        h.send(frame(DATA, END_STREAM, 1, BODY[5:]))
        go_on(still)
        assert h.await_end(1).status == 200, h.streams
        stop_for_long(still)
        h.send(headers(3, head()))
        go_on(still)
        assert h.await_end(3).status == 200, h.streams
