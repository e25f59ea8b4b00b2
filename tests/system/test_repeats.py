"""A client that saw no answer sends its push again, with the same id. An ingester that has started anew meanwhile may not have the ids any more of what an
earlier process of it took and gave to the store. Then what it takes is loose, and each answer counts it once, at once, not only after compaction."""
import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import pytest
from client import CPU, now_ms, select, unique
from flametree import AT_ONCE, Cluster, Flametree, await_, compact, flush
from test_members import await_members
from test_object_log import registered
from test_topology import push_with_id

PODS = 12
WANT = sum(1 + i for i in range(PODS))
LOGS = {"local": ["--ingester.log=local"], "object": ["--ingester.log=object", "--ingester.log_linger=20ms"]}
EACH_LOG = pytest.mark.parametrize("log", sorted(LOGS))


def push(c, service, at):
    s = c.server()
    with ThreadPoolExecutor(8) as pool:
        for reply in list(pool.map(lambda i: push_with_id(s, service, i, "id-%d" % i, at), range(PODS))):
            reply.expect(200)


def ask(c, service, at):
    """(is it complete, tree, profiles, series, pprof)"""
    s, of = c.server(), {"start": at - 600_000, "end": at + 600_000}
    reply = s.query("SelectMergeStacktraces", {"Flametree-Partial": "allow"}, profileTypeID=CPU, labelSelector=select(service), **of).expect(200)
    points = s.ok("SelectSeries", profileTypeID=CPU, labelSelector=select(service), step=15, **of).get("series", [])
    return (reply.headers["Flametree-Exact"], int(reply.json()["flamegraph"]["total"]), int(reply.headers["Flametree-Profiles"]),
            sum(int(p["value"]) for row in points for p in row["points"]), sum(v[0] for v in s.export(service, **of)["stacks"].values()))


def is_once(c, service, at):
    """What an ingester left that is gone may have to be read first."""
    def complete():
        found = ask(c, service, at)
        return found if found[0] == "exact" else None
    assert await_("a complete answer", complete, 90, 0.2)[1:] == (WANT, PODS, WANT, WANT)


def is_once_all_along(c, service, at):
    """In heads, in segments, in leaves and their parents; and if it comes once more."""
    is_once(c, service, at)
    flush(c)
    is_once(c, service, at)
    push(c, service, at)
    is_once(c, service, at)
    compact(c)
    is_once(c, service, at)
    flush(c)
    compact(c)
    push(c, service, at)
    is_once(c, service, at)


def ingesters(c):
    return c.ingesters() if isinstance(c, Cluster) else [c]


def unsure(c):
    return sum(m.metric("flametree_ingester_unsure_profiles_total") or 0 for m in ingesters(c))


def wipe(m):
    """All but the store, which may be in the same directory."""
    for name in os.listdir(m.data):
        if name not in ("store", "format", "test.log"):
            path = os.path.join(m.data, name)
            shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)


def at_of_levels():
    """A time whose hour is over, so that sums of it are made at once."""
    return now_ms() - 3 * 3_600_000


@EACH_LOG
@pytest.mark.parametrize("stored", ["segments", "leaves"])
def test_all_ingesters_come_back_without_their_directories(log, stored):
    with Cluster(*LOGS[log], *AT_ONCE, "--compactor.interval=1h") as c:
        service, at = unique(), at_of_levels()
        push(c, service, at)
        assert unsure(c) == 0, "in an empty store there is nothing to repeat"
        flush(c)
        if stored == "leaves":
            compact(c)
        for m in c.ingesters():
            # A wiped directory with a log on disk is a loss that answers tell, but for what a clean stop left.
            if log == "object":
                m.kill()
            else:
                m.stop()
            wipe(m)
        c.start()
        await_members(c, "alive", 3)
        push(c, service, at)
        assert unsure(c) > 0
        is_once_all_along(c, service, at)


def test_all_ingesters_are_killed_and_keep_their_directories():
    """What an ingester of this node finds again is known, and no row is loose."""
    with Cluster(*AT_ONCE, "--compactor.interval=1h") as c:
        service, at = unique(), at_of_levels()
        push(c, service, at)
        flush(c)
        for m in c.ingesters():
            m.kill()
        c.start()
        await_members(c, "alive", 3)
        push(c, service, at)
        assert unsure(c) == 0 and sum(m.metric("flametree_ingester_duplicate_profiles_total") for m in c.ingesters()) == PODS
        is_once_all_along(c, service, at)
        assert c["querier"].metric("flametree_querier_loose_rows_total") == 0


def test_a_stream_that_others_took_over_is_not_known_to_its_node():
    """The owner is killed before it flushed, others flush what it had, and then it comes back with its directory."""
    with Cluster(*LOGS["object"], "--ingester.stream_settle=2s", *AT_ONCE, "--compactor.interval=1h") as c:
        service, at = unique(), at_of_levels()
        push(c, service, at)
        name = next(name for name, m in c.members.items() if m in c.ingesters() and m.metric("flametree_ingester_head_rows"))
        gone = c[name]
        gone.kill()
        others = [m for m in c.ingesters() if m.process]

        def flushed():
            for m in others:
                m.operator().call("POST", "/ingester/flush?wait=true", b"").expect(200)
            return not registered(others[0], name)
        await_("others to take over and flush all of its streams", flushed, 90, 0.2)
        gone.start()
        await_members(c, "alive", 3)
        push(c, service, at)
        assert gone.metric("flametree_ingester_unsure_profiles_total") > 0
        is_once_all_along(c, service, at)


@EACH_LOG
@pytest.mark.parametrize("wiped", [False, True], ids=["kept", "wiped"])
def test_all_in_one(log, wiped, tmp_path):
    with Flametree(*LOGS[log], "--storage.dir=%s" % (tmp_path / "store"), *AT_ONCE, "--compactor.interval=1h") as f:
        service, at = unique(), at_of_levels()
        push(f, service, at)
        flush(f)
        if wiped and log == "local":
            f.stop()
        else:
            f.kill()
        if wiped:
            wipe(f)
        f.start()
        push(f, service, at)
        assert unsure(f) == (PODS if wiped else 0)
        is_once_all_along(f, service, at)
        # The next process of this directory has the ids since then, and goes on to be unsure of those before.
        f.kill()
        f.start()
        push(f, service + "-b", at)
        assert unsure(f) == (PODS if wiped else 0)
        is_once(f, service, at)


def test_a_profile_that_is_later_than_all_of_before_is_not_loose(tmp_path):
    """Its time says that it is none of the earlier process: that one would have refused it as too far ahead."""
    flags = ["--limits.reject_newer_than=1s", "--cluster.clock_difference=1s"]
    with Flametree(*flags, "--storage.dir=%s" % (tmp_path / "store")) as f:
        service = unique()
        push(f, service, now_ms())
        f.stop()
        wipe(f)
        f.start()
        push(f, service, now_ms() - 60_000)
        assert unsure(f) == PODS
        began = now_ms()

        def sure():
            before = unsure(f)
            push(f, service, now_ms())
            return unsure(f) == before
        await_("a push that is not unsure", sure, 60, 0.5)
        assert now_ms() - began < 1_500_000
