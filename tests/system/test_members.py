"""Six processes of which one dies or stops answering for a while: the others know it soon, go on without it, say so, and take it back when it answers."""
import signal
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
        yield c


def push_all(s, at):
    """A profile of each pod, of millisecond `at`, with an id of the client: what was not taken is sent again, and counts once."""
    def push(i):
        profile = Pprof(("main;work", 1 + i), time_ns=at * 10**6).encode()
        labels = [("__name__", "process_cpu"), ("service_name", SERVICE), ("pod", "p%d" % i)]
        series = pb((1, [pb((1, k), (2, v)) for k, v in labels]), (2, pb((1, profile), (2, "%d-%d" % (at, i)))))
        def taken():
            return s.call("POST", PUSH, pb((1, series)), {"Content-Type": "application/proto"}, push=True).expect((200, 503, 504)).status == 200
        await_("a push to be taken", taken, 120)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(push, range(PODS)))


def ask(s, **headers):
    return s.query("SelectMergeStacktraces", headers, profileTypeID=CPU, labelSelector=select(SERVICE), start=now_ms() - 1_800_000, end=now_ms() + 300_000)


def count_of(s):
    """(sum of the tree, number of profiles) of an answer that lacks nothing."""
    reply = await_("a whole answer", lambda: (lambda r: r if r.status == 200 else None)(ask(s)), 120)
    assert "Flametree-Missing" not in reply.headers, reply.headers
    return sum(s.stacks(SERVICE).values()), int(reply.headers["Flametree-Profiles"])


def rows(m):
    """Profiles that the process acknowledged since it was started."""
    return m.metric("flametree_ingester_append_profiles_total") or 0


def passed(c):
    return c["distributor"].metric('flametree_distributor_appends_total{result="passed"}') or 0


def members(m, state):
    return m.metric('flametree_cluster_members{state="%s"}' % state)


def named(m, what, name="ingester-1"):
    return m.metric('flametree_cluster_%s{kind="ingester",member="%s"}' % (what, name))


def await_members(c, state, n):
    for name in ("distributor", "querier"):
        await_("the %s to know %d members that are %s" % (name, n, state), lambda name=name: members(c[name], state) == n, 60)


def test_an_ingester_that_was_dead_gets_its_share_again(cluster):
    s, at = cluster.server(), now_ms() - 300_000
    push_all(s, at)
    share = {m: rows(m) for m in cluster.ingesters()}
    assert all(share.values()), "the pods are not spread"
    gone = cluster["ingester-2"]
    gone.kill()
    await_("the distributor to know that it is dead", lambda: push_all(s, at + 1) or members(cluster["distributor"], "dead") == 1, 60)
    before = passed(cluster)
    push_all(s, at + 2)
    assert passed(cluster) == before, "a dead ingester is still asked first"

    gone.start()
    held = rows(gone)
    await_members(cluster, "alive", 3)
    push_all(s, at + 3)
    assert rows(gone) - held == share[gone]
    assert named(cluster["distributor"], "member_alive", "ingester-2") == 1
    assert named(cluster["distributor"], "member_deaths_total", "ingester-2") >= 1


def test_after_a_rolling_restart_everybody_has_its_share_again(cluster):
    s, at = cluster.server(), now_ms() - 300_000
    push_all(s, at)
    share = {m: rows(m) for m in cluster.ingesters()}
    for m in cluster.ingesters():
        m.kill()
        await_("the distributor to know that it is dead", lambda: push_all(s, at + 1) or members(cluster["distributor"], "dead") == 1, 60)
        m.start()
        await_members(cluster, "alive", 3)
    before = {m: rows(m) for m in cluster.ingesters()}
    push_all(s, at + 2)
    assert {m: rows(m) - before[m] for m in cluster.ingesters()} == share


def test_a_frozen_ingester_is_passed_over_named_and_taken_back(cluster):
    s, at, frozen = cluster.server(), now_ms() - 300_000, cluster["ingester-1"]
    push_all(s, at)
    share = rows(frozen)
    assert share > 0
    frozen.signal(signal.SIGSTOP)
    try:
        push_all(s, at + 1)
        refused = ask(s)
        marked = ask(s, **{"Flametree-Partial": "allow"})
        await_members(cluster, "dead", 1)
        before = passed(cluster)
        push_all(s, at + 2)
        assert passed(cluster) == before, "a silent ingester is still asked first"

        # Not deadline_exceeded: nobody waited for the end of the query's time.
        refused.expect(503, "missing: ingester-1", code="unavailable")
        ask(s).expect(503, "missing: ingester-1", code="unavailable")
        for reply in (marked, ask(s, **{"Flametree-Partial": "allow"})):
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
    held = rows(frozen)
    push_all(s, at + 3)
    assert rows(frozen) - held >= share
    assert count_of(s) == (4 * VALUE, 4 * PODS)


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
