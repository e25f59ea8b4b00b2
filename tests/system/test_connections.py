"""Many connections at once, too many of them, and clients that leave at every stage: what a connection costs, that the limit says so and is
over when they leave, and that nothing is left behind or half stored."""
import os
import resource
import selectors
import socket
import struct

import pytest
from client import PUSH, Pprof, pb, table, unique
from flametree import Flametree, await_
from hostile import LEAN, MERGE, ask, idle, metrics, push_large
from wire import CANCEL, DATA, END_HEADERS, END_STREAM, H2, Wire, frame, head, headers, rst

MANY = 10000
SPARE = 200
COST = 4096         # bytes of memory for each idle connection, at most; sanitizers included
COST_H2 = 64 << 10  # with its session, windows and tables
READY = b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n"


def allow_files(n):
    """As many descriptors as it takes, or the test is skipped with the reason."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < n:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (n, n))
        except ValueError:
            pytest.skip("%d descriptors are not allowed here (limit %d)" % (n, hard))
    elif soft != resource.RLIM_INFINITY and soft < n:
        resource.setrlimit(resource.RLIMIT_NOFILE, (n, hard))


def connect_many(f, n):
    """n connections, from as many addresses as their ports need; connected, nothing sent."""
    out = []
    for i in range(n):
        s = socket.socket()
        s.bind(("127.0.0.%d" % (2 + i // 5000), 0))
        s.connect((f.host, f.ports["public"]))
        s.setblocking(False)
        out.append(s)
    return out


def say_and_read(sockets, data, until):
    """Sends on all, and reads until each has got so much of an answer; the answers."""
    got = {s: b"" for s in sockets}
    with selectors.DefaultSelector() as selector:
        for s in sockets:
            s.sendall(data)
            selector.register(s, selectors.EVENT_READ)
        left = len(sockets)
        while left:
            ready = selector.select(60)
            assert ready, "%d of %d connections got no answer" % (left, len(sockets))
            for key, _ in ready:
                part = key.fileobj.recv(65536)
                assert part, "a connection was closed: %r" % got[key.fileobj]
                got[key.fileobj] += part
                if until(got[key.fileobj]):
                    selector.unregister(key.fileobj)
                    left -= 1
    return got


def connections(f):
    return f.metric('flametree_net_connections{listener="public"}')


def test_ten_thousand_connections(record_property):
    allow_files(MANY + SPARE)
    with Flametree("--server.connections_max", str(MANY + 100), "--server.head_timeout", "300s", "--server.idle_timeout", "300s", env=LEAN) as f:
        before = f.rss_bytes()
        sockets = connect_many(f, MANY)
        await_("all connections", lambda: connections(f) >= MANY)
        opened = f.rss_bytes()
        with Wire(f) as neighbour:
            ask(neighbour)
            for at in range(0, MANY, 500):  # each asks once, some hundreds at a time
                answers = say_and_read(sockets[at:at + 500], b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n", lambda b: b.endswith(b"404 page not found\n"))
                assert all(a.startswith(b"HTTP/1.1 404 ") for a in answers.values())
            ask(neighbour)
        with Wire(f) as late:
            ask(late)
        served = f.rss_bytes()
        for name, bytes_ in (("opened", opened - before), ("served", served - before)):
            record_property("bytes_for_a_connection_" + name, bytes_ // MANY)
            print("%s: %d bytes of memory for a connection" % (name, bytes_ // MANY))
            assert bytes_ < MANY * COST, name
        assert connections(f) >= MANY
        for s in sockets:
            s.close()
        idle(f, connections=0)


def test_a_thousand_connections_of_http2(record_property):
    allow_files(1000 + SPARE)
    with Flametree(env=LEAN) as f:
        before = f.rss_bytes()
        wires = [H2(f) for _ in range(1000)]
        for w in wires:
            w.request(1, path="/nowhere")
        assert all(w.await_end(1).status == 404 for w in wires)
        cost = (f.rss_bytes() - before) // len(wires)
        record_property("bytes_for_a_connection_of_http2", cost)
        assert cost < COST_H2, cost
        with Wire(f) as neighbour:
            ask(neighbour)
        for w in wires:
            w.close()
        idle(f, connections=0)


def metric_over(wire, name):
    """As Flametree.metric, over a connection that is there."""
    wire.send(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
    lines = wire.answer().body.decode().splitlines()
    return next((float(value) for key, _, value in (line.rpartition(" ") for line in lines) if key == name), 0)


def test_the_limit_of_connections_says_so_and_recovers():
    limit = 40
    with Flametree("--server.connections_max", str(limit), env=LEAN) as f, Wire(f) as first:
        def refused():
            return metric_over(first, 'flametree_net_refused_total{reason="connections"}')

        def inside():
            return metric_over(first, 'flametree_net_connections{listener="public"}')
        await_("the connections of the start to end", lambda: inside() == 1)
        kept = [Wire(f) for _ in range(limit - 1)]
        for w in kept:
            ask(w)
        assert (refused(), inside()) == (0, limit)
        # Each has sent its request before it is told; more than are told at once may see nothing but the end.
        over = [Wire(f) for _ in range(50)]
        for w in over:
            w.send(READY)
        for w in over:
            answers = w.answers()
            assert [a.status for a in answers] == [503] and answers[0].headers["retry-after"] == "1", answers
            assert w.end == "fin"
        for w in kept:
            ask(w)  # those inside do not notice
        assert refused() == 50
        for w in over + kept[:20]:
            w.close()
        await_("those who left to be gone", lambda: inside() == limit - 20)
        again = [Wire(f) for _ in range(20)]
        for w in again:
            ask(w)
        assert (refused(), inside()) == (50, limit)
        for w in again + kept[20:]:
            w.close()
        idle(f, connections=1)


def admitted(f):
    """Is there room for one more?"""
    with Wire(f) as w:
        w.send(READY)
        w.await_("an answer or the end", lambda: w.end or w.input)
        answer = w.take()
        return answer is not None and answer.status == 200


def test_a_storm_beyond_the_limit_is_over_when_it_ends():
    with Flametree("--server.connections_max", "40", env=LEAN) as f:
        await_("the connections of the start to end", lambda: connections(f) <= 1)
        with Wire(f) as neighbour:
            ask(neighbour)
            for _ in range(5):
                storm = [Wire(f) for _ in range(300)]
                for w in storm:
                    w.send(READY)
                ask(neighbour)
                for w in storm:
                    w.reset()
        await_("room", lambda: admitted(f))
        idle(f, connections=0)


def test_out_of_descriptors_those_inside_stay_and_others_are_told():
    with Flametree(env=LEAN) as f, Wire(f) as inside:
        ask(inside)
        used = max(int(fd) for fd in os.listdir("/proc/%d/fd" % f.process.pid))
        before = resource.prlimit(f.process.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(f.process.pid, resource.RLIMIT_NOFILE, (used + 20, before[1]))
        wires = [Wire(f) for _ in range(40)]
        statuses = []
        for w in wires:
            w.send(READY)
            w.await_("an answer or the end", lambda: w.end or w.input)
            answer = w.take()
            statuses.append(answer.status if answer else None)  # a reset may overtake the answer: nothing could be waited for
        assert statuses.count(200) >= 10 and statuses.count(200) + statuses.count(503) + statuses.count(None) == 40, statuses
        assert statuses.count(200) < 40, statuses
        ask(inside)
        for w in wires:
            w.close()
        await_("room", lambda: admitted(f))
        resource.prlimit(f.process.pid, resource.RLIMIT_NOFILE, before)
        assert f.metric('flametree_net_refused_total{reason="descriptors"}') >= 1
        idle(f, connections=1)


# ---- clients that leave

@pytest.fixture(scope="module")
def f():
    with Flametree(env=LEAN) as server:
        push_large(server)
        yield server


def push_body(service):
    labels = [pb((1, name), (2, value)) for name, value in (("__name__", "process_cpu"), ("service_name", service))]
    profile = Pprof(*[("a;b;f%d" % i, 1) for i in range(2000)]).encode()
    return pb((1, pb((1, labels), (2, pb((1, profile))))))


def post(path, kind, body, *lines):
    return b"\r\n".join([b"POST " + path.encode() + b" HTTP/1.1", b"Host: localhost", b"Content-Type: application/" + kind, *lines, b"Content-Length: %d" % len(body)]) + b"\r\n\r\n" + body


def chunks(body, size=1000):
    return b"".join(b"%x\r\n%s\r\n" % (len(body[at:at + size]), body[at:at + size]) for at in range(0, len(body), size)) + b"0\r\n\r\n"


def push_h1(body):
    return post(PUSH, b"proto", body)


def push_chunked(body):
    return post(PUSH, b"proto", b"").replace(b"Content-Length: 0", b"Transfer-Encoding: chunked") + chunks(body)


def stream(path, kind, body, stream_id=1):
    data = headers(stream_id, head("POST", path, [("content-type", "application/" + kind)]), END_HEADERS)
    parts = [body[at:at + 1000] for at in range(0, len(body), 1000)]
    return data + b"".join(frame(DATA, END_STREAM if i == len(parts) - 1 else 0, stream_id, part) for i, part in enumerate(parts))


def push_h2(body):
    return stream(PUSH, "proto", body)


def leave_fin(w):
    w.close()


def leave_rst(w):
    w.reset()


def leave_half(w):
    w.half_close()
    w.await_over()
    w.close()


LEAVINGS = [("fin", leave_fin), ("rst", leave_rst), ("half-close", leave_half)]
PUSHES = [("h1", Wire, push_h1), ("h1-chunked", Wire, push_chunked), ("h2", H2, push_h2)]


@table("leave", LEAVINGS)
@table("client, make", PUSHES)
def test_push_whose_client_leaves_in_the_middle_stores_nothing(f, client, make, leave):
    service = unique()
    data = make(push_body(service))
    for cut in (1, 20, 100, len(data) // 3, len(data) // 2, len(data) - 2000, len(data) - 1):
        with Wire(f) as neighbour:
            w = client(f)
            if client is H2:
                w.await_pong()  # nothing else is sent after the piece, which would fill it up
            w.send(data[:cut])
            ask(neighbour)  # by now what was sent was most likely read
            leave(w)
    idle(f, connections=0)
    assert f.server().stacks(service) == {}


@table("leave", LEAVINGS[:2])
@table("client, make", PUSHES)
def test_push_whose_client_leaves_after_it_is_whole_or_not_there(f, client, make, leave):
    """Whoever does not wait for the answer does not know; but it is all or nothing."""
    services = [unique() for _ in range(10)]
    for service in services:
        w = client(f)
        w.send(make(push_body(service)))
        leave(w)
    idle(f, connections=0)
    for service in services:
        stacks = f.server().stacks(service)
        assert stacks == {} or (len(stacks) == 2000 and set(stacks.values()) == {1}), len(stacks)


def test_stream_that_is_reset_in_the_middle_of_a_push(f):
    """The connection stays, and so do the other streams."""
    service, other = unique(), unique()
    data = push_h2(push_body(service))
    with H2(f) as h:
        h.send(b"".join(whole_frames(data)[:-3]))
        h.send(rst(1, CANCEL) + stream(PUSH, "proto", push_body(other), 3))
        assert h.await_end(3).status == 200
    idle(f, connections=0)
    assert f.server().stacks(service) == {} and len(f.server().stacks(other)) == 2000


def whole_frames(data):
    out = []
    while data:
        n = 9 + int.from_bytes(data[:3], "big")
        out.append(data[:n])
        data = data[n:]
    return out


def query_h1(f):
    return post(MERGE, b"json", f.question)


def query_h2(f):
    return stream(MERGE, "json", f.question)


STAGES = ("at-once", "while-it-is-made", "after-the-head", "in-the-body")


@table("leave", LEAVINGS[:2])
@pytest.mark.parametrize("stage", STAGES)
@table("client, make", [("h1", Wire, query_h1), ("h2", H2, query_h2)])
def test_query_whose_client_leaves(f, client, make, stage, leave):
    for _ in range(3):
        w = client(f, receive_buffer=4096)
        w.grant = False
        w.send(make(f), reading=False)
        if stage == "while-it-is-made":
            with Wire(f) as neighbour:
                ask(neighbour)
        elif stage == "after-the-head":
            w.receive(60)
        elif stage == "in-the-body":
            w.await_("some of the body", lambda: len(w.input) > 30000 or (client is H2 and 1 in w.streams and w.streams[1].bytes > 30000))
        leave(w)
    idle(f, connections=0)


def test_requests_waiting_in_a_pipeline_go_with_their_client(f):
    with Wire(f, receive_buffer=4096) as w:
        w.send(query_h1(f) * 20, reading=False)
        w.receive(60)
        w.reset()
    idle(f, connections=0)


def test_clients_that_leave_are_counted(f):
    before = f.metric("flametree_net_client_gone_total") or 0
    for _ in range(5):
        w = Wire(f)
        w.send(push_h1(push_body(unique()))[:-1])
        await_("its body to be begun", lambda: metrics(f).get('flametree_net_exchanges{state="body"}', 0) > 0)  # else nobody knows of a request
        w.reset()
    idle(f, connections=0)
    assert f.metric("flametree_net_client_gone_total") >= before + 5


def test_half_closed_client_gets_an_answer_to_all_that_it_asked_for(f):
    """A pipeline, then FIN. What needs a worker may find that its client looks gone (499); none is left out and none is told twice."""
    with Wire(f, receive_buffer=4096) as w:
        w.send(b"GET /nowhere HTTP/1.1\r\nHost: localhost\r\n\r\n" * 2000 + query_h1(f) + READY, reading=False)
        w.half_close()
        statuses = [a.status for a in w.answers()]
        assert statuses[:2000] == [404] * 2000 and len(statuses) == 2002 and set(statuses[2000:]) <= {200, 499}, statuses[1990:]
    idle(f, connections=0)


def test_client_that_connects_and_goes(f):
    for _ in range(300):
        s = socket.create_connection((f.host, f.ports["public"]))
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        s.close()
    idle(f, connections=0)
