"""HTTP/2 clients that send too much of what is legal: each is ended with ENHANCE_YOUR_CALM (or another clear word), is counted by kind, leaves
neither requests nor memory behind, and others are answered meanwhile."""
import signal
import time

import pytest
from client import Pprof, Server, table, unique
from faultclock import FaultClock
from flametree import Flametree
from hostile import LEAN, MERGE, MIB, ask, idle, push_large
from wire import (ACK, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, FLOW_CONTROL_ERROR, GOAWAY, H2, HEADERS, NO_ERROR, PADDED, PING, PRIORITY,
                  PROTOCOL_ERROR, SETTINGS, WAIT_SECONDS, Wire, fields, frame, head, headers, rst, settings, window_update)

ASK = "/querier.v1.QuerierService/ProfileTypes"
GROWTH = 64 * MIB  # of the process, beyond what its budgets explain
POST = head("POST", ASK, [("content-type", "application/json")])
N = 3000


@pytest.fixture(scope="module")
def f():
    with Flametree(env=LEAN) as server:
        for _ in range(3):  # what the first requests of each kind set up
            with H2(server) as h:
                h.send(b"".join(headers(i, head(path="/nowhere")) + headers(i + 2, POST, END_HEADERS) + frame(DATA, END_STREAM, i + 2, b"{}") for i in range(1, 100, 4)))
                h.await_pong()
        yield server


@pytest.fixture(scope="module")
def neighbour(f):
    with Wire(f) as wire:
        yield wire


def each(make):
    """A batch for each hundred streams, so that no more are open at once than the server allows."""
    return [b"".join(make(2 * i + 1) for i in range(at, at + 100)) for at in range(0, N, 100)]


def after_first(first, make):
    return [first] + [b"".join(make(2 * i + 1) for i in range(at, at + 100)) for at in range(1, N, 100)]


def asking(*after, more=()):
    """A stream that has sent a request without its end, then this."""
    return lambda i: headers(i, POST + list(more), END_HEADERS) + b"".join(a(i) for a in after)


OPEN = headers(1, POST, END_HEADERS)
BODY = [lambda i: frame(DATA, END_STREAM, i, b"{}")]
HALF_HEAD = frame(HEADERS, END_STREAM, 1, fields(head()))
KEPT = fields([("x", "a" * 4000)], indexed=True)  # one byte stands for it from now on
KEEP = frame(HEADERS, END_HEADERS | END_STREAM, 1, fields(head()) + KEPT)


def bomb(bytes_each):
    return lambda i: frame(HEADERS, END_HEADERS | END_STREAM, i, fields(head()) + b"\xbe" * bytes_each)


FLOODS = [
    ("rapid-reset", [b"".join(headers(2 * i + 1, head()) + rst(2 * i + 1) for i in range(N))], "flood_reset"),
    ("rapid-reset-with-body", [b"".join(asking(*BODY, rst)(2 * i + 1) for i in range(N))], "flood_reset"),
    ("rapid-reset-half-body", [b"".join(asking(rst)(2 * i + 1) for i in range(N))], "flood_reset"),
    ("rapid-reset-paced", each(lambda i: headers(i, head()) + rst(i)), "flood_reset"),
    ("resets-of-one-stream", [headers(1, head()) + rst(1) * N], "flood_reset"),
    ("made-to-reset-by-window", each(asking(lambda i: window_update(i, 2**31 - 1))), "flood_fault"),
    ("made-to-reset-while-running", each(asking(*BODY, lambda i: window_update(i, 2**31 - 1))), "flood_fault"),
    ("made-to-reset-by-short-length", each(asking(*BODY, more=[("content-length", "1")])), "flood_fault"),
    ("made-to-reset-by-long-length", each(asking(*BODY, more=[("content-length", "9")])), "flood_fault"),
    ("made-to-reset-by-field", each(lambda i: headers(i, POST + [("connection", "close")], END_HEADERS)), "flood_fault"),
    ("made-to-reset-by-pseudo", each(lambda i: headers(i, POST[:3])), "flood_fault"),
    ("made-to-reset-by-trailers", each(asking(lambda i: frame(HEADERS, END_HEADERS, i, fields([("x", "y")])))), "flood_fault"),
    ("made-to-reset-by-trailers-length", each(asking(lambda i: headers(i, [("content-length", "9")]))), "flood_fault"),
    ("settings", [frame(SETTINGS, 0, 0) * N], "flood_settings"),
    ("settings-windows", [headers(1, POST, END_HEADERS) + b"".join(settings(INITIAL_WINDOW_SIZE=65535 + i) for i in range(N))], "flood_settings"),
    ("settings-many-values", [frame(SETTINGS, 0, 0, b"\0\1\0\0\0\0" * 2700) * 200], None),
    ("settings-ack", [frame(SETTINGS, ACK, 0) * N], PROTOCOL_ERROR),
    ("ping", [frame(PING, 0, 0, b"12345678") * 20000], None),
    ("ping-ack", [frame(PING, ACK, 0, b"12345678") * 20000], "flood_ping"),
    ("empty-data", [OPEN + frame(DATA, 0, 1) * N], "flood_empty_data"),
    ("padding-only", [OPEN + frame(DATA, PADDED, 1, b"\x05" + b"\0" * 5) * N], "flood_empty_data"),
    ("continuation", [HALF_HEAD + frame(CONTINUATION, 0, 1, fields([("x", "y")])) * N], "flood_continuation"),
    ("continuation-empty", [HALF_HEAD + frame(CONTINUATION, 0, 1) * N], "flood_continuation"),
    ("continuation-large", [HALF_HEAD + frame(CONTINUATION, 0, 1, fields([("x", "y" * 16000)])) * 200], "flood_continuation"),
    ("continuation-of-trailers", [OPEN + frame(HEADERS, END_STREAM, 1) + frame(CONTINUATION, 0, 1, fields([("x", "y")])) * N], "flood_continuation"),
    ("priority", [frame(PRIORITY, 0, 1, b"\0\0\0\0\0") * N], "flood_other"),
    ("priority-of-new-streams", [b"".join(frame(PRIORITY, 0, 2 * i + 1, b"\0\0\0\0\0") for i in range(N))], "flood_other"),
    ("goaway", [frame(GOAWAY, 0, 0, b"\0" * 8) * N], "flood_other"),
    ("window-of-connection", [window_update(0, 1) * 20000], "flood_window"),
    ("window-of-stream", [OPEN + window_update(1, 1) * 20000], "flood_window"),
    ("window-of-closed-stream", [headers(1, head()) + window_update(1, 1) * 20000], "flood_window"),
    ("head-bomb", after_first(KEEP, bomb(16000))[:3], "flood_head"),
    ("head-bomb-in-trailers", [frame(HEADERS, END_HEADERS, 1, fields(POST) + KEPT), frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\xbe" * 16000)], "flood_head"),
    ("heads-over-the-limit", after_first(KEEP, bomb(20)), "flood_fault"),
    ("many-fields", [HALF_HEAD + frame(CONTINUATION, 0, 1, fields([("x", "")] * 3000)) * 6], "flood_head"),
]


@table("batches, why", FLOODS)
def test_flood_is_ended(f, neighbour, batches, why):
    """why: the reason in flametree_net_refused_total; None: one of those that nghttp2 and we see, as reading goes; a number: another GOAWAY."""
    def refused():
        return f.metric('flametree_net_refused_total{reason="%s"}' % why) or 0
    before, rss = refused(), f.rss_bytes()
    with H2(f) as h:
        h.await_pong()
        for batch in batches:
            h.send(batch)
            if not h.end:
                ask(neighbour)
            if len(batches) > 1 and not h.await_pong():
                break
        h.await_over()
        assert h.goaway == (why if isinstance(why, int) else ENHANCE_YOUR_CALM), h.goaways
    ask(neighbour)
    assert why is None or isinstance(why, int) or refused() == before + 1
    assert f.rss_bytes() < rss + GROWTH
    idle(f)


def frames_of_other_kinds():
    return b"".join(frame(kind, 0, 0, b"x" * 10) for kind in (0x10, 0x42, 0xa, 0xff)) * N


IGNORED = [
    ("unknown-frames", frames_of_other_kinds()),
    ("data-after-the-answer", b"".join(headers(2 * i + 3, head("POST", "/nowhere"), END_HEADERS) + frame(DATA, 0, 2 * i + 3, b"x" * 16384) * 4 for i in range(100))),
    ("few-resets", b"".join(headers(2 * i + 3, head()) + rst(2 * i + 3) for i in range(300))),
    ("few-pings", frame(PING, 0, 0, b"12345678") * 300),
    ("table-of-fields-resized", b"".join(frame(HEADERS, 5, 2 * i + 3, b"\x20\x3f\xe1\x1f" + fields(head(path="/nowhere"))) for i in range(100))),
]


@table("data", IGNORED)
def test_what_honest_clients_do_is_no_flood(f, neighbour, data):
    with H2(f) as h:
        h.await_pong()
        rss = f.rss_bytes()
        h.send(data)
        ask(neighbour)
        assert h.await_pong(), h.goaways
        h.request(90001)
        assert h.await_end(90001).status in (200, 429)
        assert f.rss_bytes() < rss + GROWTH
    idle(f)


def test_window_updates_that_answer_data_are_no_flood(f):
    """As clients do that give back each frame's bytes at once, twice."""
    with H2(f) as h:
        h.keep_bodies = False
        for i in range(1, 6001, 2):
            h.request(i, path="/nowhere")
            if i % 100 == 99:
                h.await_end(i)
        h.await_end(5999)
        assert h.goaway is None and all(s.status == 404 for s in h.streams.values())


def test_floods_one_after_the_other_leave_nothing(f, neighbour):
    """The same again from new connections: what each may do before it is ended does not add up."""
    attack = b"".join(asking(*BODY, rst)(2 * i + 1) for i in range(1500))
    rss = None
    for round_ in range(12):
        with H2(f) as h:
            h.send(attack)
            h.await_over()
            assert h.goaway == ENHANCE_YOUR_CALM
        ask(neighbour)
        if round_ == 1:
            rss = f.rss_bytes()
    idle(f)
    assert f.rss_bytes() < rss + GROWTH


# ---- streams, windows, large answers

def test_more_streams_than_allowed(f, neighbour):
    with H2(f) as h:
        h.await_pong()
        assert h.max_streams == 128
        h.send(b"".join(headers(2 * i + 1, POST, END_HEADERS) for i in range(128)))
        assert h.await_pong()
        h.send(b"".join(frame(DATA, END_STREAM, 2 * i + 1, b"{}") for i in range(128)))
        assert all(h.await_end(2 * i + 1).status in (200, 429) for i in range(128))
        h.send(b"".join(headers(2 * i + 1, POST, END_HEADERS) for i in range(200, 329)))
        h.await_over()
        assert h.goaway == PROTOCOL_ERROR
    ask(neighbour)
    idle(f)


def test_body_over_its_limit_is_not_kept():
    with Flametree("--server.body_max", "64KiB", env=LEAN) as f:
        with H2(f) as h:
            rss = f.rss_bytes()
            h.send(OPEN)
            for _ in range(4096):
                if not h.send_data(1, b"x" * 16384):
                    break
            stream = h.await_end(1)
            assert stream.status == 429 and b"65536" in stream.body, stream.body
            h.send(frame(DATA, 0, 1, b"x" * 1000))
            assert h.await_pong()  # DATA that was under way is no fault
            assert f.rss_bytes() < rss + GROWTH
        idle(f)


def test_windows_past_their_end(f):
    with H2(f) as h:
        h.send(OPEN + window_update(1, 2**31 - 1 - 65535) + window_update(1, 1))
        stream = h.await_end(1)
        assert stream.reset == FLOW_CONTROL_ERROR
        h.send(headers(3, POST, END_HEADERS) + settings(INITIAL_WINDOW_SIZE=2**31 - 1) + window_update(3, 1))
        assert h.await_end(3).reset == FLOW_CONTROL_ERROR
    idle(f)


MANY = 32
PATIENCE = 100  # seconds with clients that do not read; they pass when a test says so
ENDLESS = ("head_timeout", "body_timeout", "idle_timeout", "request_timeout")


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Little memory, and a service whose profile is large."""
    clock = FaultClock(tmp_path_factory.mktemp("time") / "clock")
    flags = [x for name in ENDLESS for x in ("--server." + name, "10h")] + [x for lane in ("public", "ingester") for x in ("--lanes.%s_queue_age" % lane, "10h")]
    with Flametree("--server.memory_limit", "128MiB", "--server.write_timeout", "%ds" % PATIENCE, *flags, env={**LEAN, **clock.env}) as f:
        f.clock = clock
        push_large(f)
        with H2(f) as h:
            h.request(1, "POST", MERGE, [("content-type", "application/json")], f.question)
            stream = h.await_end(1)
            assert stream.status == 200 and stream.bytes > MIB, stream
        yield f


def limit_holds(f):
    used, limit = (f.metric('flametree_memory_%s_bytes{budget="server.memory_limit"}' % what) for what in ("peak", "limit"))
    assert used <= limit * 1.1, (used, limit)
    assert f.metric('flametree_memory_peak_bytes{budget="refusals"}') <= 16 * MIB


UNREAD = [
    ("zero-window", {"INITIAL_WINDOW_SIZE": 0}, b""), ("one-byte-windows", {"INITIAL_WINDOW_SIZE": 1}, b""),
    ("zero-then-small-window", {"INITIAL_WINDOW_SIZE": 0}, settings(INITIAL_WINDOW_SIZE=1000)),
    ("connection-window-only", {"INITIAL_WINDOW_SIZE": 2**31 - 1}, b""),
]


@table("values, then", UNREAD)
def test_large_answers_that_nobody_takes(small, values, then):
    """So many at once are more than the memory: those that do not fit are refused, the others given up after a while."""
    f = small
    def given_up():
        """For want of progress, or because the time for all of an answer was over."""
        return sum(f.metric('flametree_net_timeouts_total{kind="%s"}' % kind) or 0 for kind in ("write", "answer"))
    gone = given_up()
    with H2(f, **values) as h, Wire(f) as neighbour:
        h.grant = False
        h.send(b"".join(headers(2 * i + 1, head("POST", MERGE, [("content-type", "application/json")]), END_HEADERS) + frame(DATA, END_STREAM, 2 * i + 1, f.question)
                        for i in range(MANY)) + then)
        ask(neighbour)
        assert f.rss_bytes() < (128 + 16) * MIB + 160 * MIB  # limit and refusals; the rest is the program, under sanitizers
        streams = [2 * i + 1 for i in range(MANY)]
        deadline = time.monotonic() + WAIT_SECONDS
        while not all(h.over(i) for i in streams):
            assert time.monotonic() < deadline and not h.end, (h.end, h.streams)
            f.clock.wait(PATIENCE + 1)
            h.receive(0.2)
        for stream in map(h.over, streams):
            assert stream.reset is not None or stream.status in (200, 429), stream
        assert any(s.reset is not None for s in h.streams.values())
        ask(neighbour)
    assert given_up() > gone
    idle(f)
    limit_holds(f)


def test_connections_that_read_nothing_at_all(small):
    """Neither frames nor bytes: the socket is full, and what waits for it is counted."""
    f = small
    wires = [H2(f, receive_buffer=4096, INITIAL_WINDOW_SIZE=2**31 - 1) for _ in range(12)]
    one = head("POST", MERGE, [("content-type", "application/json")])
    for w in wires:
        w.send(window_update(0, 2**30) + b"".join(headers(2 * i + 1, one, END_HEADERS) + frame(DATA, END_STREAM, 2 * i + 1, f.question) for i in range(8)), reading=False)
    with Wire(f) as neighbour:
        ask(neighbour)
    idle(f, meanwhile=lambda: f.clock.wait(PATIENCE + 1))  # while they are there: what the kernel did not take was given up
    limit_holds(f)
    for w in wires:
        w.close()


# ---- GOAWAY

def test_client_that_says_goodbye_is_still_answered(f):
    with H2(f) as h:
        h.send(OPEN + frame(GOAWAY, 0, 0, b"\0" * 8) + frame(DATA, END_STREAM, 1, b"{}"))
        assert h.await_end(1).status == 200
        h.await_over()


def test_a_server_that_stops_says_which_streams_it_answers():
    with Flametree() as f:
        with H2(f) as h:
            h.send(OPEN)
            h.await_pong()
            f.signal(signal.SIGTERM)
            h.await_("GOAWAY", lambda: len(h.goaways) >= 2)
            assert [g[1] for g in h.goaways] == [NO_ERROR, NO_ERROR] and h.goaways[-1][0] == 1, h.goaways
            h.send(headers(3, head()) + frame(DATA, END_STREAM, 1, b"{}"))
            assert h.await_end(1).status == 200
            h.await_over()
            assert 3 not in h.streams and len(h.goaways) == 2
        process, f.process = f.process, None
        f.stopped(process)


def test_push_over_a_connection_that_was_reset_before(f):
    """An honest client beside all this."""
    service = unique()
    s = Server(f.url, f.push_url, f.url, None, strict=True)
    s.push({"__name__": "process_cpu", "service_name": service}, Pprof(("a;b", 3))).expect(200)
    assert s.stacks(service) == {"a;b": 3}
