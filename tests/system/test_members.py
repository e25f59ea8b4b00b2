"""Six processes of which one dies or stops answering for a while: the others know it soon, go on without it, say so, and take it back when it answers."""
import contextlib
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from client import CPU, PUSH, Pprof, now_ms, pb, select
from flametree import Cluster, await_

PODS = 24  # label sets of SERVICE: each ingester owns some of them
SERVICE = "shop"
VALUE = sum(1 + i for i in range(PODS))  # of a push of all pods


@pytest.fixture
def cluster():
    with Cluster() as c:
        await_members(c, "alive", 3)  # one that was asked before it listened counts as dead until it is asked again
        yield c


def push_pod(s, at, i):
    """A profile of pod i, of millisecond `at`, with an id of the client."""
    profile = Pprof(("main;work", 1 + i), time_ns=at * 10**6).encode()
    labels = [("__name__", "process_cpu"), ("service_name", SERVICE), ("pod", "p%d" % i)]
    series = pb((1, [pb((1, k), (2, v)) for k, v in labels]), (2, pb((1, profile), (2, "%d-%d" % (at, i)))))
    return s.call("POST", PUSH, pb((1, series)), {"Content-Type": "application/proto"}, push=True)


def push_all(s, at):
    """A profile of each pod: what was not taken is sent again, and counts once."""
    def push(i):
        await_("a push to be taken", lambda: push_pod(s, at, i).expect((200, 503, 504)).status == 200, 120)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(push, range(PODS)))


def ask(s, start=None, end=None, **headers):
    return s.query("SelectMergeStacktraces", headers, profileTypeID=CPU, labelSelector=select(SERVICE), start=start or now_ms() - 1_800_000, end=end or now_ms() + 300_000)


def count_of(s, start=None, end=None):
    """(sum of the tree, number of profiles) of an answer that lacks nothing."""
    reply = await_("a whole answer", lambda: (lambda r: r if r.status == 200 else None)(ask(s, start, end)), 120)
    assert "Flametree-Missing" not in reply.headers, reply.headers
    return int(reply.json()["flamegraph"]["total"]), int(reply.headers["Flametree-Profiles"])


def rows(m):
    """Profiles that the process acknowledged since it was started."""
    return m.metric("flametree_ingester_append_profiles_total") or 0


def loose(c, at):
    """Of the profiles of about that millisecond, how many records may be with a second ingester too: a query has to look for them twice."""
    named = lambda: c["querier"].metric("flametree_querier_loose_rows_total") or 0
    before = named()
    count_of(c.server(), start=at - 5_000, end=at + 5_000)
    return named() - before


def passed(c):
    return c["distributor"].metric('flametree_distributor_appends_total{result="passed"}') or 0


def members(m, state):
    return m.metric('flametree_cluster_members{state="%s"}' % state)


def named(m, what, name="ingester-1"):
    return m.metric('flametree_cluster_%s{kind="ingester",member="%s"}' % (what, name))


def await_members(c, state, n):
    for name in ("distributor", "querier"):
        await_("the %s to know %d members that are %s" % (name, n, state), lambda name=name: members(c[name], state) == n, 60)


def shares(c, s, at):
    """{ingester: profiles that it gets of a push of all pods}: of one for which nobody was passed over, as a late answer may cause on a busy machine.
    Profiles of an `at` that were pushed before count once."""
    def undisturbed():
        before, over = {m: rows(m) for m in c.ingesters()}, passed(c)
        push_all(s, at)
        return passed(c) == over and members(c["distributor"], "alive") == 3 and {m: rows(m) - before[m] for m in c.ingesters()}
    return await_("a push for which nobody is passed over", undisturbed, 120)


def test_an_ingester_that_was_dead_gets_its_share_again(cluster):
    s, at = cluster.server(), now_ms() - 300_000
    share = shares(cluster, s, at)
    assert all(share.values()), "the pods are not spread"
    gone = cluster["ingester-2"]
    gone.kill()
    await_("the distributor to know that it is dead", lambda: push_all(s, at + 1) or members(cluster["distributor"], "dead") == 1, 60)
    before = passed(cluster)
    push_all(s, at + 2)
    assert passed(cluster) == before, "a dead ingester is still asked first"

    gone.start()
    await_members(cluster, "alive", 3)
    assert shares(cluster, s, at + 3) == share
    assert named(cluster["distributor"], "member_alive", "ingester-2") == 1
    assert named(cluster["distributor"], "member_deaths_total", "ingester-2") >= 1


def test_after_a_rolling_restart_everybody_has_its_share_again(cluster):
    s, at = cluster.server(), now_ms() - 300_000
    share = shares(cluster, s, at)
    for m in cluster.ingesters():
        m.kill()
        await_("the distributor to know that it is dead", lambda: push_all(s, at + 1) or members(cluster["distributor"], "dead") == 1, 60)
        m.start()
        await_members(cluster, "alive", 3)
    assert shares(cluster, s, at + 2) == share


def test_after_a_rolling_restart_records_are_not_loose_any_more(cluster):
    """While the home of a series is away its records with ids may be with two ingesters. Once it is back, new ones are at home again and at one only."""
    s, at = cluster.server(), now_ms() - 600_000
    push_all(s, at)
    assert loose(cluster, at) == 0
    for i, m in enumerate(cluster.ingesters(), 1):
        away = at + i * 20_000
        m.kill()
        await_("the distributor to know that it is dead", lambda: members(cluster["distributor"], "dead") == 1, 60)
        push_all(s, away)
        m.start()
        await_members(cluster, "alive", 3)
        push_all(s, away + 10_000)
        assert loose(cluster, away) > 0
        assert loose(cluster, away + 10_000) == 0
    assert loose(cluster, at) == 0
    assert count_of(s) == (7 * VALUE, 7 * PODS)


def test_a_frozen_ingester_is_passed_over_named_and_taken_back(cluster):
    s, at, frozen = cluster.server(), now_ms() - 300_000, cluster["ingester-1"]
    share = shares(cluster, s, at)[frozen]
    assert share > 0
    frozen.signal(signal.SIGSTOP)
    try:
        push_all(s, at + 1)
        refused = ask(s, **{"Flametree-Partial": "deny"})
        marked = [ask(s), ask(s, **{"Flametree-Partial": "allow"})]
        await_members(cluster, "dead", 1)
        before = passed(cluster)
        push_all(s, at + 2)
        assert passed(cluster) == before, "a silent ingester is still asked first"

        # Not deadline_exceeded: nobody waited for the end of the query's time.
        refused.expect(503, "missing: ingester-1", code="unavailable")
        ask(s, **{"Flametree-Partial": "deny"}).expect(503, "missing: ingester-1", code="unavailable")
        for reply in (*marked, ask(s), ask(s, **{"Flametree-Partial": "allow"})):
            assert reply.expect(200).headers["Flametree-Missing"] == "ingester-1", reply.headers
        for name in ("distributor", "querier"):
            m = cluster[name]
            assert named(m, "member_alive") == 0 and named(m, "failed_calls_total") >= 1
            assert "event=member.dead kind=ingester id=ingester-1 address=%s:4071" % cluster.host in m.tail(1000)
    finally:
        frozen.signal(signal.SIGCONT)
    await_members(cluster, "alive", 3)
    assert "event=member.alive kind=ingester id=ingester-1" in cluster["distributor"].tail(1000)
    # It may now store what it was given before it froze, and others have.
    assert count_of(s) == (3 * VALUE, 3 * PODS)
    rounds = 3
    def has_its_share():  # on a busy machine a late answer may pass it over once more
        nonlocal rounds
        held = rows(frozen)
        push_all(s, at + rounds)
        rounds += 1
        return rows(frozen) - held >= share
    await_("the ingester to have its share again", has_its_share, 120)
    assert count_of(s) == (rounds * VALUE, rounds * PODS)


@contextlib.contextmanager
def holding(point, *args):
    """A cluster in which ingester-1 keeps the first call that reaches the fault point for an hour; it answers probes and other calls. It ends by a kill."""
    hour = "3600000"
    with Cluster("--server.request_timeout=1h", *args, env_of={"ingester-1": {"FLAMETREE_FAULTS": "%s=delay:%s@1" % (point, hour)}}) as c:
        try:
            yield c
        finally:
            c["ingester-1"].kill()


def await_probes(m):
    """Every member has answered a probe of m since the call, or is dead."""
    def answered():
        return m.metric('flametree_cluster_probes_total{result="answered"}') or 0
    before = answered()
    await_("probes to be answered", lambda: answered() >= before + 2 * len(Cluster.NAMES))


def test_pushes_in_flight_at_a_freeze_are_stored_elsewhere_while_it_lasts():
    """The one that is under way has seen the ingester answer probes and other pushes, and only the silence can end it: its own time limit is an hour."""
    with holding("append.ack.before", "--distributor.append_timeout=1h") as c, ThreadPoolExecutor(PODS) as pool:
        s, at, distributor, frozen = c.server(), now_ms() - 300_000, c["distributor"], c["ingester-1"]
        first = [pool.submit(push_pod, s, at, i) for i in range(PODS)]
        await_("one push to be under way", lambda: sum(not f.done() for f in first) == 1, 60)
        await_probes(distributor)
        held = next(f for f in first if not f.done())
        taken, over = [0] * PODS, threading.Event()

        def push_on(i):
            while not over.is_set():
                push_pod(s, at + 1 + taken[i], i).expect(200)
                taken[i] += 1
        crowd = [pool.submit(push_on, i) for i in range(PODS) if first[i] is not held]
        try:
            await_("every pod to push", lambda: all(taken[i] for i in range(PODS) if first[i] is not held))
            frozen.signal(signal.SIGSTOP)
            held.result(120).expect(200)
            await_("the ingester to be dead", lambda: members(distributor, "dead") == 1)
            before = list(taken)
            await_("every pod to push on", lambda: all(taken[i] > before[i] + 1 for i in range(PODS) if first[i] is not held))
        finally:
            over.set()
        for f in crowd:
            f.result(120)
        assert [f.result().status for f in first] == [200] * PODS
        assert "event=member.dead kind=ingester id=ingester-1" in distributor.tail(1000)


def test_a_query_in_flight_at_a_freeze_is_answered_and_marked_while_it_lasts():
    with holding("read.before") as c, ThreadPoolExecutor(1) as pool:
        s = c.server()
        push_all(s, now_ms() - 300_000)
        asked = pool.submit(ask, s, **{"Flametree-Partial": "allow"})
        await_("the query to be under way", lambda: c["ingester-2"].metric('flametree_ingester_read_seconds_count'))
        await_probes(c["querier"])
        assert not asked.done()
        c["ingester-1"].signal(signal.SIGSTOP)
        assert asked.result(120).expect(200).headers["Flametree-Missing"] == "ingester-1"


def test_a_slow_ingester_that_answers_probes_is_waited_for():
    """A late answer is no silence: the push goes to nobody else, and nothing is counted as dead."""
    with Cluster(env_of={"ingester-1": {"FLAMETREE_FAULTS": "append.ack.before=delay:5000@1"}}) as c:
        s = c.server()
        push_all(s, now_ms() - 300_000)
        assert passed(c) == 0
        assert members(c["distributor"], "alive") == 3 and not named(c["distributor"], "member_deaths_total")
        assert count_of(s) == (VALUE, PODS)


def test_an_ingester_whose_log_hangs_is_passed_over_until_it_stores_again():
    """It answers probes and queries, but every append waits: it says itself that it is not ready."""
    with Cluster(env_of={"ingester-1": {"FLAMETREE_FAULTS": "append.log.before=delay:25000"}}) as c:
        s, at, distributor = c.server(), now_ms() - 300_000, c["distributor"]
        push_all(s, at)
        assert passed(c) > 0
        await_("the distributor to know it", lambda: members(distributor, "unready") == 1, 15)
        before = passed(c)
        push_all(s, at + 1)
        assert passed(c) == before, "an ingester whose log hangs is still asked first"
        assert not named(distributor, "member_deaths_total")
        ready = c["ingester-1"].server().call("GET", "/ready").expect(503, "the log has stored nothing for")
        assert "pushes wait for it" in ready.text, ready
        await_members(c, "alive", 3)  # the append that hung is over, and nobody waits
        assert count_of(s) == (2 * VALUE, 2 * PODS)
