"""Clients that keep a connection by sending or reading as slowly as they can: each kind ends at its time limit, with a word where one can be
said, is counted, and holds nobody else up.

The limits are far longer than anything takes here, and time passes when a test says so (clock.wait): as soon as the server has read what decides how
the connection ends. So a busy machine passes no limit of its own. A trickle sends a byte whenever the server said nothing for a moment."""
import fcntl
import socket
import struct
import subprocess
import termios
import time

import pytest
from client import table
from faultclock import FaultClock
from flametree import Flametree, await_
from hostile import LEAN, MERGE, ask, idle, push_large
from wire import (CANCEL, CONTINUATION, DATA, END_HEADERS, END_STREAM, ENHANCE_YOUR_CALM, H2, HEADERS, NO_ERROR, PING, PREFACE, WAIT_SECONDS, Wire, fields, frame, head,
                  headers, settings, window_update)

MOMENT = 0.02
ASK = "/querier.v1.QuerierService/ProfileTypes"
LIMIT = 150  # seconds: of idle connections and of writing, the longest
LIMITS = ("--server.body_timeout", "100s", "--server.idle_timeout", "150s", "--server.write_timeout", "150s", "--server.answer_timeout", "10h",
          "--server.request_timeout", "10h", "--lanes.public_queue_age", "10h", "--lanes.ingester_queue_age", "10h")


@pytest.fixture(scope="module")
def certificate(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    cert, key = str(folder / "cert.pem"), str(folder / "key.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", key, "-out", cert, "-days", "2",
                    "-subj", "/CN=localhost"], check=True, capture_output=True)
    return cert, key


def limited(tmp_path_factory, *args):
    clock = FaultClock(tmp_path_factory.mktemp("time") / "clock")
    server = Flametree(*LIMITS, *args, env={**LEAN, **clock.env})
    server.clock = clock
    return server


@pytest.fixture(scope="module")
def f(certificate, tmp_path_factory):
    with limited(tmp_path_factory, "--server.head_timeout", "100s", "--server.tls_cert_file", certificate[0], "--server.tls_key_file", certificate[1]) as server:
        yield server


def timeouts(f, kind):
    return f.metric('flametree_net_timeouts_total{kind="%s"}' % kind) or 0


def queues(wire):
    """(bytes that the server wrote and this side has not acknowledged, bytes that the server has not read), as the kernel counts them; None: it has no
    such connection any more. Linux' table of sockets says so of the server's end."""
    mine, its = ("%02X%02X%02X%02X:%04X" % (*reversed(socket.inet_aton(host)), port) for host, port in (wire.socket.getsockname(), wire.socket.getpeername()))
    with open("/proc/net/tcp") as table:
        for words in (line.split() for line in table):
            if words[1:3] == [its, mine]:
                return [int(n, 16) for n in words[4].split(":")]
    return None


def await_read(wire):
    """Waits until the server has read all that was sent."""
    def has_read():
        try:
            sent, = struct.unpack("i", fcntl.ioctl(wire.socket, termios.TIOCOUTQ, bytes(4)))
            at = queues(wire)
        except OSError:  # it ended the connection
            return True
        return at is None or (sent == 0 and at[1] == 0)
    await_("all to be read", has_read, WAIT_SECONDS, 0.002)


def expire(f, wire):
    """Time goes by until the server has had enough."""
    deadline = time.monotonic() + WAIT_SECONDS
    while not wire.end:
        assert time.monotonic() < deadline, "the server still waits"
        f.clock.wait(LIMIT)
        wire.receive(0.2)


def trickle(f, wire, data):
    """A byte at a time, from the start again when they are all sent, until the server has had enough."""
    deadline, at = time.monotonic() + WAIT_SECONDS, 0
    while not wire.end:
        assert time.monotonic() < deadline, "the server still listens after %d bytes" % at
        wire.send(data[at % len(data):at % len(data) + 1])
        if at == 0:
            await_read(wire)
        wire.receive(MOMENT)
        f.clock.wait(LIMIT / 20)
        at += 1
    return at


def neighbour(f):
    with Wire(f) as wire:
        ask(wire)


def post(*lines):
    return b"\r\n".join([b"POST " + ASK.encode() + b" HTTP/1.1", b"Host: localhost", b"Content-Type: application/json", *lines]) + b"\r\n\r\n"


CHUNKED = post(b"Transfer-Encoding: chunked")
NOTHING = b""
LATE = 504  # deadline_exceeded of Connect
# name, sent at once, trickled, statuses of the answers, kind of time limit
H1 = [
    ("silence", NOTHING, None, [], "head"), ("first-byte", b"G", None, [408], "head"), ("half-a-line", b"GET /ready HT", None, [408], "head"),
    ("head-without-end", b"GET /ready HTTP/1.1\r\nHost: localhost\r\n", None, [408], "head"), ("head-byte-by-byte", NOTHING, b"GET /ready HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 1000, [408], "head"),
    ("endless-headers", b"GET /ready HTTP/1.1\r\nHost: localhost\r\n", b"X: y\r\n", [408], "head"), ("endless-empty-lines", NOTHING, b"\r\n", [408], "head"),
    ("half-the-preface", PREFACE[:20], None, [], "head"), ("second-head", b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\nGET", None, [200, 408], "head"),
    ("second-head-byte-by-byte", b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n", b"GET /ready HTTP/1.1\r\nX: " + b"y" * 10000, [200, 408], "head"),
    ("idle", b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n", None, [200], "idle"),
    ("no-body", post(b"Content-Length: 10"), None, [LATE], "body"), ("half-a-body", post(b"Content-Length: 10") + b"12345", None, [LATE], "body"),
    ("body-byte-by-byte", post(b"Content-Length: 100000"), b"x", [LATE], "body"), ("chunks-byte-by-byte", CHUNKED, b"1\r\nx\r\n", [LATE], "body"),
    ("half-a-size", CHUNKED + b"1", None, [LATE], "body"), ("extension-byte-by-byte", CHUNKED + b"1;", b"a", [LATE], "body"),
    ("trailer-byte-by-byte", CHUNKED + b"0\r\n", b"a: b\r\n", [LATE], "body"), ("expected-body", post(b"Content-Length: 2", b"Expect: 100-continue"), None, [100, LATE], "body"),
    ("body-nobody-reads", b"POST /nowhere HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n", b"x", [404], "body"),
    ("half-a-handshake", b"\x16\x03\x01\x02\x00\x01\x00", None, None, "handshake"), ("handshake-byte-by-byte", NOTHING, b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"x" * 500, None, "handshake"),
]


@table("at_once, slowly, statuses, kind", H1)
def test_http1(f, at_once, slowly, statuses, kind):
    before = timeouts(f, kind)
    with Wire(f) as wire:
        wire.send(at_once)
        neighbour(f)
        await_read(wire)
        if slowly:
            trickle(f, wire, slowly)
        expire(f, wire)
        if statuses is not None:
            assert [a.status for a in wire.answers()] == statuses
    assert timeouts(f, kind) == before + 1
    idle(f)


OPEN = headers(1, head("POST", ASK, [("content-type", "application/json")]), END_HEADERS)
# name, sent at once, trickled, status of stream 1, code of GOAWAY, kind
H2_ = [
    ("silence", NOTHING, None, None, NO_ERROR, "idle"), ("half-a-frame-header", b"\0\0\x10", None, None, NO_ERROR, "idle"),
    ("half-a-frame", frame(PING, 0, 0, b"1234", length=8), None, None, NO_ERROR, "idle"), ("unknown-frame-byte-by-byte", b"\0\x40\0\x42\0\0\0\0\0", b"x", None, NO_ERROR, "idle"),
    ("head-without-end", frame(HEADERS, END_STREAM, 1, fields(head())), None, None, ENHANCE_YOUR_CALM, "head"),
    ("continuation-byte-by-byte", frame(HEADERS, END_STREAM, 1, fields(head())) + frame(CONTINUATION, 0, 1, length=16384), fields([("x", "y")]), None, ENHANCE_YOUR_CALM, "head"),
    ("no-body", OPEN, None, LATE, NO_ERROR, "body"), ("body-byte-by-byte", OPEN, frame(DATA, 0, 1, b"x"), LATE, NO_ERROR, "body"),
    ("data-frame-byte-by-byte", OPEN + frame(DATA, 0, 1, length=16384), b"x", LATE, NO_ERROR, "body"), ("idle", headers(1, head()), None, 200, NO_ERROR, "idle"),
    ("idle-with-pings", headers(1, head()), frame(PING, 0, 0, b"12345678"), 200, NO_ERROR, "idle"), ("idle-with-windows", headers(1, head()), window_update(0, 1), 200, NO_ERROR, "idle"),
]


@table("at_once, slowly, status, code, kind", H2_)
def test_http2(f, at_once, slowly, status, code, kind):
    before = timeouts(f, kind)
    with H2(f) as h:
        h.await_pong()
        h.grant = False  # nothing but this goes over the connection from now on
        h.send(at_once)
        neighbour(f)
        await_read(h)
        if slowly:
            trickle(f, h, slowly)
        expire(f, h)
        assert (h.goaway, h.streams[1].status if 1 in h.streams else None) == (code, status), (h.goaways, h.streams)
    assert timeouts(f, kind) == before + 1
    idle(f)


def test_many_slow_heads_do_not_keep_others_out(f):
    wires = [Wire(f) for _ in range(300)]
    for i, w in enumerate(wires):
        w.send((b"GET /ready HTTP/1.1\r\nX: ", b"", PREFACE[:9], post(b"Content-Length: 5"), PREFACE + settings() + frame(HEADERS, 0, 1, fields(head())))[i % 5])
    neighbour(f)
    for w in wires:
        expire(f, w)
        w.close()
    idle(f)


# ---- answers read slowly

@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Answers of more bytes than sockets buffer for clients with small windows."""
    with limited(tmp_path_factory, "--server.head_timeout", "10h") as server:
        push_large(server)
        yield server


def question(f, path=MERGE):
    return b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (path.encode(), len(f.question)) + f.question


def await_cut_off(f, before):
    """Time goes by until the limit of writing has passed."""
    def cut_off():
        f.clock.wait(LIMIT / 8)
        return timeouts(f, "write") == before + 1
    await_("the slow reader to be cut off", cut_off)


def test_answer_that_is_never_read(large):
    """Several answers on one connection, more than the kernel takes."""
    before = timeouts(large, "write")
    with Wire(large, receive_buffer=4096) as wire:
        wire.send(question(large) * 8, reading=False)
        await_cut_off(large, before)
        neighbour(large)
        wire.await_over()
        assert wire.end == "reset"
    idle(large)


def written(wire):
    """So many bytes has the server written at least: those that came, and those on their way but for what is counted twice."""
    at = queues(wire)
    return len(wire.input) + (max(0, at[0] - WINDOW) if at else 0)


WINDOW = 1 << 17  # the kernel makes it of a receive buffer half as large


def test_answers_that_are_read_at_the_least_rate_are_written_to_their_end(large):
    """64 KiB within each time limit are enough, however long it takes: here each 64 KiB take a third of it."""
    before, waited, seen = timeouts(large, "write"), 0, 0
    with Wire(large, receive_buffer=WINDOW // 2) as wire:
        wire.send(question(large) * 8 + b"GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", reading=False)
        while not wire.end:
            assert wire.receive(WAIT_SECONDS), "nothing came"
            if written(wire) >= seen + (64 << 10):
                seen = written(wire)
                waited += LIMIT / 3
                large.clock.wait(LIMIT / 3)
        *answers, last = wire.answers()
        assert [a.status for a in answers] == [200] * 8, [a for a in answers if a.status != 200]
        assert last.status == 200 and min(len(a.body) for a in answers) > 1 << 20
    print("it took %d s of a limit of %d s" % (waited, LIMIT))
    assert waited > LIMIT and timeouts(large, "write") == before
    idle(large)


WINDOWS = [("never", None), ("byte-by-byte", window_update(1, 1) + window_update(0, 1))]


@table("update", WINDOWS)
def test_stream_whose_window_stays_small(large, update):
    before = timeouts(large, "write") + timeouts(large, "answer")
    with H2(large, INITIAL_WINDOW_SIZE=10) as h:
        h.grant = False
        h.request(1, "POST", MERGE, [("content-type", "application/json")], large.question)
        h.await_("the answer's head", lambda: h.streams.get(1) and h.streams[1].status)
        deadline = time.monotonic() + WAIT_SECONDS
        while h.streams[1].reset is None and time.monotonic() < deadline:
            if update:
                h.send(update)
            h.receive(MOMENT)
            large.clock.wait(LIMIT / 20)
        assert h.streams[1].reset == CANCEL, h.streams
        h.request(3)
        h.grant = True
        h.send(settings(INITIAL_WINDOW_SIZE=65535))
        assert h.await_end(3).status == 200  # the connection goes on
    assert timeouts(large, "write") + timeouts(large, "answer") >= before + 1
    idle(large)


def fill(wire, data):
    """Sends it again and again, until the kernel takes no more, because the server reads no more."""
    deadline = time.monotonic() + WAIT_SECONDS
    while time.monotonic() < deadline:
        try:
            wire.socket.send(data)
        except BlockingIOError:
            return
    raise AssertionError("the server still takes requests")


def test_pipeline_that_is_not_read(large):
    """Small answers, endlessly asked for: no more are made than wait to be sent."""
    before = timeouts(large, "write")
    with Wire(large, receive_buffer=4096) as wire:
        rss = large.rss_bytes()
        line = b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n"
        fill(wire, line * 1000)
        await_cut_off(large, before)
        assert large.rss_bytes() < rss + (16 << 20)
    neighbour(large)
    idle(large)
