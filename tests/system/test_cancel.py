"""A query whose client leaves stops soon: what it waits for and what it would still read."""
import json
import signal

import pytest
from client import CPU, now_ms, select, table, unique
from flametree import Cluster, Flametree, await_, flush
from wire import CANCEL, END_HEADERS, END_STREAM, DATA, H2, Wire, frame, head, headers, rst

MERGE = "/querier.v1.QuerierService/SelectMergeStacktraces"
CANCELED = 'flametree_querier_query_failures_total{code="canceled"}'
RUNNING = 'flametree_net_exchanges{state="running"}'
OBJECTS = 40


def question(service, start_ms):
    return json.dumps({"profileTypeID": CPU, "labelSelector": select(service), "start": start_ms, "end": now_ms() + 60_000}).encode()


def ask_h1(where, body):
    w = Wire(where)
    w.send(b"POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % (MERGE.encode(), len(body)) + body)
    return w


def ask_h2(where, body):
    h = H2(where)
    h.send(headers(1, head("POST", MERGE, [("content-type", "application/json")]), END_HEADERS) + frame(DATA, END_STREAM, 1, body))
    return h


def close(w):
    w.close()


def reset_stream(h):
    h.send(rst(1, CANCEL))


LEAVINGS = [("h1-closed", ask_h1, close), ("h2-closed", ask_h2, close), ("h2-stream-reset", ask_h2, reset_stream)]


def begin(f, ask, body):
    """A query that runs: one that its own scrape of the metrics is not."""
    before = f.metric(RUNNING) or 0
    w = ask(f, body)
    await_("the query to run", lambda: (f.metric(RUNNING) or 0) > before)
    return w


def leaves(f, service, ask, leave):
    """Asks, leaves while the query runs, and waits until it has ended."""
    before = f.metric(CANCELED) or 0
    w = begin(f, ask, question(service, now_ms() - 3600_000))
    leave(w)
    await_("the query to end", lambda: (f.metric(CANCELED) or 0) == before + 1)
    w.close()


@pytest.fixture(scope="module")
def stuck():
    """A cluster of which one ingester answers nothing: a query waits for it until its deadline."""
    with Cluster() as c:
        s, service = c.server(), unique()
        for pod in range(12):
            s.send(("main;work", 1), service=service, labels={"pod": str(pod)})
        c["ingester-1"].signal(signal.SIGSTOP)
        try:
            yield c["querier"], service
        finally:
            c["ingester-1"].signal(signal.SIGCONT)


@table("ask, leave", LEAVINGS)
def test_a_query_that_waits_for_an_ingester_ends_with_its_client(stuck, ask, leave):
    leaves(*stuck, ask, leave)


@pytest.fixture(scope="module")
def slow(tmp_path_factory):
    """A store of which each object takes seconds to open."""
    data = str(tmp_path_factory.mktemp("slow"))
    service = unique()
    with Flametree(data=data) as f:
        for i in range(OBJECTS):
            f.server().send(("main;work%d" % i, 1), service=service)
            flush(f)
    with Flametree(data=data, env={"FLAMETREE_FAULTS": "store.read=delay:3000"}) as f:
        yield f, service


@table("ask, leave", LEAVINGS)
def test_a_query_that_reads_the_store_ends_with_its_client(slow, ask, leave):
    """All that it would read takes minutes; a batch of it is 32 objects."""
    leaves(*slow, ask, leave)
    assert (slow[0].metric("flametree_querier_read_objects_total") or 0) < 16
