"""Three queriers that share the blocks of a large question: the answer is that of one alone, whatever becomes of the peers."""
import glob
import os
import signal

import pytest
from client import CPU, Pprof, now_ms, select
from flametree import AT_ONCE, Cluster, await_, compact, flush
from queriers import Queriers
from test_cancel import CANCELED, ask_h2, question, reset_stream
from test_same_answers import NARROW, WIDE, of
from test_same_answers import ask as all_answers
from test_same_answers import compare, push

HOURS, PODS, SERVICE = 6, 8, "shop"
STACKS = {"main;work;%s" % name: 3 + len(name) for name in ("read", "write", "sum;of;numbers")}


@pytest.fixture
def queriers():
    with Queriers(Cluster("--cluster.probe_interval=200ms")) as q:
        at = now_ms() // 3_600_000 * 3_600_000 - 60_000
        s = q.cluster.server()
        for hour in range(HOURS):
            for pod in range(PODS):
                profile = Pprof(*STACKS.items(), time_ns=(at - hour * 3_600_000 - pod * 1000) * 10**6)
                await_("a push to be taken", lambda p=profile, pod=pod: s.push({"__name__": "process_cpu", "service_name": SERVICE, "pod": "p%d" % pod}, p).status == 200)
        flush(q.cluster)
        q.range = {"start": at - (HOURS + 1) * 3_600_000, "end": at + 60_000}
        await_("peers to be known", lambda: (q.first.metric('flametree_cluster_members{state="alive"}') or 0) >= 6)
        yield q


def ask(m, q, what="SelectMergeStacktraces", labels="", headers=None, **more):
    selector = select(SERVICE) if not labels else select(SERVICE)[:-1] + "," + labels + "}"
    return m.server().query(what, headers or {}, profileTypeID=CPU, labelSelector=selector, **q.range, **more)


def tree(reply):
    body = reply.expect(200).json()["flamegraph"]
    return body["total"], body["names"], body["levels"]


QUESTIONS = [("SelectMergeStacktraces", "", {}), ("SelectMergeStacktraces", 'pod=~"p[0-3]"', {}), ("SelectMergeStacktraces", 'pod!="p1"', {"maxNodes": "3"})]


def same_answers(q):
    for what, labels, more in QUESTIONS:
        shared, alone = ask(q.first, q, what, labels, **more), ask(q.alone, q, what, labels, **more)
        assert tree(shared) == tree(alone), (labels, more)
        assert shared.headers["Flametree-Profiles"] == alone.headers["Flametree-Profiles"]
        assert shared.headers["Flametree-Exact"] == alone.headers["Flametree-Exact"]
    shared, alone = (ask(m, q, "SelectMergeProfile").expect(200).json() for m in (q.first, q.alone))
    assert {k: v for k, v in shared.items() if k != "comment"} == {k: v for k, v in alone.items() if k != "comment"}


def test_a_shared_answer_is_that_of_one_querier(queriers):
    q, m = queriers, queriers.first
    total = HOURS * PODS * sum(STACKS.values())
    assert int(tree(ask(m, q))[0]) == total
    assert q.parts("peer") > 0 and q.parts("again") == 0
    assert all((p.metric("flametree_querier_peer_reads_total") or 0) > 0 for p in q.peers.values()), "each peer has a share"
    assert not q.alone.metric("flametree_querier_split_queries_total")
    same_answers(q)
    compact(q.cluster)  # leaves and sums instead of segments
    same_answers(q)
    assert int(tree(ask(m, q))[0]) == total


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
def test_a_peer_that_does_not_answer_is_done_without(queriers, how):
    q, m = queriers, queriers.first
    same_answers(q)
    peer = q.peers["querier-2"]
    peer.kill() if how == signal.SIGKILL else peer.process.send_signal(how)
    before = q.parts("peer")
    same_answers(q)  # at once: it does not count as dead yet
    await_("the peer to count as dead", lambda: m.metric('flametree_cluster_member_alive{kind="querier",member="querier-2"}') == 0)
    same_answers(q)
    assert q.parts("peer") > before, "the other one still has its share"
    if how == signal.SIGSTOP:
        peer.process.send_signal(signal.SIGCONT)


def test_an_object_that_a_peer_cannot_read_is_named(queriers):
    q, m = queriers, queriers.first
    for path in glob.glob(os.path.join(q.cluster.folder, "data/store/o/v1/*/*/live/a/*")):
        with open(path, "r+b") as f:
            f.truncate(os.path.getsize(path) // 2)
    for p in (m, q.alone):
        ask(p, q).expect(503, "missing: v1/", code="unavailable")
        assert ask(p, q, headers={"Flametree-Partial": "allow"}).expect(200).headers["Flametree-Missing"].startswith("v1/")


@pytest.fixture
def of_all_kinds():
    with Queriers(Cluster("--cluster.probe_interval=200ms", "--compactor.interval=1h", "--ingester.cut_age=10m", *AT_ONCE)) as q:
        push(q.cluster.server())
        flush(q.cluster)
        await_("peers to be known", lambda: (q.first.metric('flametree_cluster_members{state="alive"}') or 0) >= 6)
        yield q


SHARED = [("SelectMergeStacktraces", of('{service_name="shop"}')), ("SelectMergeStacktraces", of('{service_name="shop",pod!="p1"}')), ("SelectMergeProfile", of("{}")),
          ("SelectSeries", of('{service_name="shop"}', step=3600, groupBy=["pod"])),
          ("SelectSeries", of("{}", step=7200, stackTraceSelector={"callSite": [{"name": "main"}]})),
          ("SelectHeatmap", of('{service_name="shop"}', step=3600, queryType="HEATMAP_QUERY_TYPE_INDIVIDUAL"))]


def test_answers_of_every_kind_are_those_of_one_querier(of_all_kinds):
    q = of_all_kinds
    sides = {"left": {**of('{pod="p0"}'), **NARROW}, "right": {**of('{pod!="p0"}'), **NARROW}}
    for where, between in (("segments", WIDE), ("levels", NARROW)):
        compare(all_answers(q.first.server()), all_answers(q.alone.server()), where)
        for method, message in SHARED:
            before = q.parts("peer")
            q.first.server().query(method, **message, **between).expect(200)
            assert q.parts("peer") > before, (where, method, message)
        before = q.parts("peer")
        shared, alone = (m.server().rpc("querier.v1.QuerierService/Diff", sides).expect(200).json() for m in (q.first, q.alone))
        assert shared == alone and q.parts("peer") > before, where
        compact(q.cluster)
    assert q.parts("again") == 0


def test_peers_stop_when_the_client_leaves(queriers):
    """Each object takes long to open, at peers longer."""
    q = queriers
    for m in (q.first, *q.peers.values()):
        m.stop()
        m.env["FLAMETREE_FAULTS"] = "store.read=delay:%d" % (200 if m is q.first else 1000)
        m.start()
    await_("peers to be known", lambda: (q.first.metric('flametree_cluster_members{state="alive"}') or 0) >= 6)
    h = ask_h2(q.first, question(SERVICE, q.range["start"]))
    await_("the peers to read", lambda: all((p.metric("flametree_querier_peer_reads_total") or 0) > 0 for p in q.peers.values()), 120)
    reset_stream(h)
    await_("the query to end", lambda: (q.first.metric(CANCELED) or 0) == 1, 60)
    await_("the peers to end", lambda: all(p.metric('flametree_querier_peer_read_failures_total{code="canceled"}') == 1 for p in q.peers.values()), 60)
    h.close()
