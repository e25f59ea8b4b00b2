"""Clients that ask for much and read slowly hold what they asked for, in memory of its own and only so much of it: pushes keep theirs, other tenants and
connections are answered, and an answer has a time in which all of it has to be read, however steadily that is done."""
import json

import pytest
from client import Pprof, Server, table, unique
from faultclock import FaultClock
from flametree import Flametree, await_
from hostile import LEAN, MERGE, idle, metrics, push_large
from wire import CANCEL, H2, Wire, window_update

MIB = 1 << 20
MEMORY = 128 * MIB
PLAIN = [("content-type", "application/json")]
# Nothing ends by time here, unless a test says so.
PATIENT = ["--server.%s=10h" % name for name in ("write_timeout", "answer_timeout", "idle_timeout", "request_timeout")] + [
    "--lanes.%s_queue_age=10h" % lane for lane in ("public", "ingester")]
SMALL = ["--server.memory_limit=%d" % MEMORY, "--ingester.head_memory=24MiB", "--ingester.log_memory=4MiB", "--lanes.public_width=4"]


@pytest.fixture(scope="module")
def f():
    with Flametree(*PATIENT, *SMALL, env=LEAN) as f:
        push_large(f)
        yield f


def greedy(f, streams, tenant=None, **window):
    """A connection that asks so often and reads nothing but heads."""
    h = H2(f, INITIAL_WINDOW_SIZE=10, **window)
    h.grant = False
    more = PLAIN + ([("x-scope-orgid", tenant)] if tenant else [])
    for i in range(streams):
        h.request(1 + 2 * i, "POST", MERGE, more, f.question)
    h.await_("the heads of all answers", lambda: len(h.streams) == streams and all(s.status for s in h.streams.values()))
    return h


def statuses(h):
    return [s.status for _, s in sorted(h.streams.items())]


def held(f):
    return metrics(f).get('flametree_memory_bytes{budget="answers"}')


def body(h, stream):
    """All of an answer, now that somebody reads it."""
    h.grant = True
    h.send(window_update(0, 1 << 24) + window_update(stream, 1 << 24))
    return bytes(h.await_end(stream).body)


KINDS = [("one-connection", 1, 110), ("some-connections", 11, 10), ("many-connections", 40, 3)]


@table("connections, streams", KINDS)
def test_pushes_have_their_memory_whoever_does_not_read(f, connections, streams):
    """Answers of half as much again as the memory are asked for."""
    readers = []
    try:
        for _ in range(connections):
            readers.append(greedy(f, streams))
        for _ in range(5):
            f.server().push({"__name__": "process_cpu", "service_name": unique()}, Pprof(*[("%s%d" % ("g" * 500, i), 1) for i in range(300)])).expect(200)
        f.server().call("GET", "/ready").expect(200)
        got = [s for h in readers for s in statuses(h)]
        assert set(got) <= {200, 429} and got.count(200) > 1 and got.count(429) > 0, got
        assert held(f) < MEMORY / 4 + 2 * MIB, held(f)
        h = next(h for h in readers if 200 in statuses(h))
        assert len(body(h, 1 + 2 * statuses(h).index(200))) > MIB  # a whole one, at last
    finally:
        for h in readers:
            h.close()
    idle(f)
    await_("unread answers to be given up", lambda: held(f) == 0)


def test_a_connection_has_its_share(f):
    with greedy(f, 60) as h:
        got = statuses(h)
        refused = next(i for i, status in enumerate(got) if status == 429)
        said = body(h, 1 + 2 * refused).decode()
        assert "this connection has" in said and "server.answers_connection" in said and '"resource_exhausted"' in said, said
        assert got.count(200) <= 16, got  # a sixteenth of the memory, and what was under way
        other = Server(f.url).call("POST", MERGE, f.question, dict(PLAIN))
        assert other.status == 200 and len(other.body) > MIB, other
        h.request(1001, path="/ready")
        assert h.await_end(1001).status == 200  # it is not shut out of everything
    idle(f)


def test_small_answers_are_never_refused_for_large_ones(f):
    with greedy(f, 60) as h:
        for _ in range(3):
            f.server().call("POST", "/push.v1.PusherService/Push", b"", {"Content-Type": "application/proto"}).expect((200, 400))
            assert f.metric("flametree_ready") == 1
        assert f.metric('flametree_net_refused_total{reason="answers_unread"}') > 0
    idle(f)


def test_a_tenant_has_its_share():
    """One reads nothing, over many connections; another one notices nothing."""
    with Flametree(*PATIENT, *SMALL, "--auth.multitenancy_enabled=true", env=LEAN) as f:
        for tenant in ("greedy", "quiet"):
            push_large(f, tenant)
        readers = [greedy(f, 8, "greedy") for _ in range(8)]
        got = [s for h in readers for s in statuses(h)]
        assert 429 in got and 200 in got, got
        refused = Server(f.url, tenant="greedy").call("POST", MERGE, f.question, dict(PLAIN))
        assert refused.status == 429 and "this tenant has" in refused.text and "server.answers_tenant" in refused.text, refused
        assert refused.headers["Retry-After"] == "1"
        for _ in range(4):
            quiet = Server(f.url, tenant="quiet").call("POST", MERGE, f.question, dict(PLAIN))
            assert quiet.status == 200 and len(quiet.body) > MIB, quiet
        for h in readers:
            h.close()
        idle(f)


# ---- time

@pytest.fixture(scope="module")
def timed(tmp_path_factory):
    clock = FaultClock(tmp_path_factory.mktemp("time") / "clock")
    with Flametree("--server.write_timeout=300s", "--server.answer_timeout=1000s", "--server.answer_rate=100KiB", *PATIENT[2:], "--server.head_timeout=10h", env={**LEAN, **clock.env}) as f:
        f.clock = clock
        push_large(f)
        f.small = unique()
        f.server().push({"__name__": "process_cpu", "service_name": f.small}, Pprof(*[("h" * 100 + str(i), 1) for i in range(300)])).expect(200)
        yield f


def timeouts(f):
    return {kind: f.metric('flametree_net_timeouts_total{kind="%s"}' % kind) or 0 for kind in ("write", "answer")}


STEP = 70 << 10  # a little more than what renews the time without progress


def read_steadily(f, h, stream, seconds):
    """STEP bytes at a time, each after so many seconds. Returns how long it took."""
    took = 0
    while not h.over(stream):
        before = h.streams[stream].bytes
        h.send(window_update(0, STEP) + window_update(stream, STEP))
        h.await_("%d bytes" % STEP, lambda: h.over(stream) or h.streams[stream].bytes >= before + STEP)
        h.await_pong()
        f.clock.wait(seconds)
        took += seconds
        h.receive(1.2 if took > 1000 else 0.02)  # limits are looked at once a second
    return took


def test_a_large_answer_has_a_time_for_all_of_it(timed):
    before = timeouts(timed)
    with H2(timed, INITIAL_WINDOW_SIZE=10) as h:
        h.grant = False
        h.request(1, "POST", MERGE, PLAIN, timed.question)
        h.await_("the head", lambda: h.streams.get(1) and h.streams[1].status)
        took = read_steadily(timed, h, 1, 90)
        assert h.streams[1].reset == CANCEL and h.streams[1].bytes < MIB, h.streams
        assert 1000 < took < 1300, took
        h.request(3)
        h.grant = True
        h.send(window_update(3, 1000))
        assert h.await_end(3).status == 200  # the connection goes on
    after = timeouts(timed)
    assert after["answer"] == before["answer"] + 1 and after["write"] == before["write"], (before, after)
    idle(timed)


def test_a_large_answer_that_is_read_in_time(timed):
    """At a rate below answer_rate, but within answer_timeout."""
    before = timeouts(timed)
    with H2(timed, INITIAL_WINDOW_SIZE=10) as h:
        h.grant = False
        h.request(1, "POST", MERGE, PLAIN, timed.question)
        h.await_("the head", lambda: h.streams.get(1) and h.streams[1].status)
        took = read_steadily(timed, h, 1, 40)
        assert h.streams[1].ended and h.streams[1].bytes > MIB and took > 600, h.streams
    assert timeouts(timed) == before
    idle(timed)


def test_http1_as_well(tmp_path):
    """Several answers on one connection, more than the kernel takes. It takes them in lumps, so the limit of progress is none here."""
    clock = FaultClock(tmp_path / "clock")
    with Flametree("--server.answer_timeout=1000s", "--server.write_timeout=10h", *PATIENT[2:], "--server.head_timeout=10h", env={**LEAN, **clock.env}) as f:
        push_large(f)
        request = b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (MERGE.encode(), len(f.question)) + f.question
        with Wire(f, receive_buffer=1 << 16) as w:
            w.send(request * 8, reading=False)
            for i in range(5):
                w.await_("%d bytes" % STEP, lambda: len(w.input) >= (i + 1) * STEP)
                clock.wait(100)
            assert timeouts(f) == {"answer": 0, "write": 0}

            def cut_off():
                clock.wait(100)
                return timeouts(f)["answer"]
            await_("the end of its time", cut_off, pause=0.3)
            w.await_over()
            assert w.end == "reset" and len(w.input) < 8 * MIB, (w.end, len(w.input))
        assert timeouts(f) == {"answer": 1, "write": 0}
        idle(f)


def test_a_slow_but_steady_reader_of_little_is_let_be(timed):
    """40 kB within the limit of writing, a little at a time, while others want the memory."""
    before = timeouts(timed)
    question = timed.question.replace(json.loads(timed.question)["labelSelector"].split('"')[1].encode(), timed.small.encode())
    with H2(timed, INITIAL_WINDOW_SIZE=10) as h:
        h.grant = False
        h.request(1, "POST", MERGE, PLAIN, question)
        h.await_("the head", lambda: h.streams.get(1) and h.streams[1].status)
        took = 0
        while not h.over(1):
            h.send(window_update(0, 1000) + window_update(1, 1000))
            h.await_pong()
            timed.clock.wait(1.5)
            took += 1.5
        assert h.streams[1].ended and h.streams[1].bytes > 10_000 and took > 15, (h.streams, took)
    assert timeouts(timed) == before
    idle(timed)
