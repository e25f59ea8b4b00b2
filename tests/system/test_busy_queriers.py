"""Queries that wait for an ingester that hangs, or for a slow store: a querier takes as many as its lane has places, refuses the others at once with 429 and
Retry-After, answers everything else meanwhile, and is as before when the trouble is over. Clients that do not read: test_slow_readers.py."""
import signal
from concurrent.futures import ThreadPoolExecutor

from client import CPU, Pprof, now_ms, select, unique
from flametree import Cluster, Flametree, await_, flush

WIDTH, QUEUE, MANY, PODS = 2, 3, 24, 3
LANE = ["--lanes.public_width=%d" % WIDTH, "--lanes.public_queue=%d" % QUEUE, "--lanes.public_queue_age=10m", "--server.request_timeout=10m"]
JOBS, LIMIT, REFUSED = ('flametree_lane_%s{lane="querier.public"}' % what for what in ("jobs", "limit", "refused_total"))


def push(s, service, at=None):
    for pod in range(PODS):
        s.push({"__name__": "process_cpu", "service_name": service, "pod": "p%d" % pod}, Pprof(("main;work", 1), time_ns=(at or now_ms()) * 10**6)).expect(200)


def ask(m, service):
    return m.server().query("SelectMergeStacktraces", profileTypeID=CPU, labelSelector=select(service))


def whole(reply):
    reply.expect(200)
    assert (reply.headers["Flametree-Exact"], reply.headers["Flametree-Profiles"]) == ("exact", str(PODS)), reply.headers


def crowd(m, service, end_of_trouble):
    """Many ask at once."""
    with ThreadPoolExecutor(MANY) as pool:
        asked = [pool.submit(ask, m, service) for _ in range(MANY)]
        surplus = await_("the surplus to be refused", lambda: [a.result() for a in asked if a.done()] if sum(a.done() for a in asked) >= MANY - WIDTH - QUEUE else None)
        assert m.metric(JOBS) <= m.metric(LIMIT) == WIDTH + QUEUE
        assert m.metric("flametree_ready") == 1
        m.server().call("GET", "/ready").expect(200)
        end_of_trouble()
        replies = [a.result() for a in asked]
    surplus = [reply for reply in surplus if reply.status != 200]
    assert surplus
    for reply in surplus:
        reply.expect(429, code="resource_exhausted")
        assert int(reply.headers["Retry-After"]) >= 1
    taken = [reply for reply in replies if reply.status != 429]
    assert len(taken) >= WIDTH + QUEUE and m.metric(REFUSED) == MANY - len(taken), [reply.status for reply in replies]
    for reply in taken:
        whole(reply)
    whole(ask(m, service))
    await_("the lane to be empty", lambda: m.metric(JOBS) == 0)


def test_queries_that_wait_for_an_ingester_take_no_more_than_their_places():
    c, service = Cluster("--cluster.probe_interval=1h"), unique()
    c["querier"].args += [*LANE, "--querier.wait_for_ingesters=10m"]
    for ingester in c.ingesters():
        ingester.start()  # first: a probe that comes too early is repeated after an hour
    with c:
        c.await_alive()
        push(c.server(), service)
        c["ingester-1"].signal(signal.SIGSTOP)
        crowd(c["querier"], service, lambda: c["ingester-1"].signal(signal.SIGCONT))


def test_queries_that_wait_for_the_store_take_no_more_than_their_places(tmp_path):
    service = unique()
    with Flametree(data=str(tmp_path)) as f:
        push(f.server(), service)
        flush(f)
    with Flametree(*LANE, data=str(tmp_path), env={"FLAMETREE_FAULTS": "store.read=delay:700"}) as f:
        crowd(f, service, lambda: None)
