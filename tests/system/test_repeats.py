"""A client that saw no answer sends its push again, with the same id. An ingester that has started anew meanwhile may not have the ids any more of what an
earlier process of it took and gave to the store. Then what it takes is loose, and each answer counts it once, at once, not only after compaction."""
import gzip
import json
import os
import re
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import pytest
from client import CPU, PUSH, Pprof, now_ms, pb, select, unique
from flametree import AT_ONCE, BIN, Cluster, Flametree, await_, compact, flush
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


def of_other_list(c, *flags):
    """A second distributor that has not heard of ingester-3: its DNS answers nothing new, or nobody reloaded it."""
    with open(c.config_file("distributor")) as f:
        listed = re.findall(r"^ *- (ingester-[12]=\S+)$", f.read(), re.M)
    assert len(listed) == 2
    return c.another("distributor-2", "distributor", 4842, "--cluster.ingesters=" + ",".join(listed), *flags)


def push_to(m, service, at):
    for i in range(PODS):
        push_with_id(m.server(), service, i, "id-%d" % i, at).expect(200)


def differing(c):
    return c["querier"].metric("flametree_querier_differing_lists_total") or 0


@EACH_LOG
@pytest.mark.parametrize("settle", ["0s", "1s"])
def test_two_distributors_whose_lists_differ_for_ever(log, settle):
    """Each knows of no change, so both give a push with its id to the home that they know. Each answer counts it once, in heads, in segments and leaves, and
    says that it is exact."""
    with Cluster(*LOGS[log], *AT_ONCE, "--compactor.interval=1h", "--cluster.settle_time=" + settle, "--cluster.probe_interval=200ms", spread=False) as c:
        other = of_other_list(c)
        other.start()
        try:
            await_members(c, "alive", 3)
            if settle != "0s":
                await_("both to settle", lambda: all(placed(m, "any")["settled"] for m in (c["distributor"], other)), 60, 0.2)
            at = at_of_levels()
            service = next(s for s in iter(unique, None) if placed(other, s)["home"] != placed(c["distributor"], s)["home"])
            push_to(c["distributor"], service, at)
            before = sum(m.metric("flametree_ingester_head_rows") for m in c.ingesters())
            is_once(c, service, at)
            assert differing(c) == 0, "so far there is one list"
            push_to(other, service, at)
            assert sum(m.metric("flametree_ingester_head_rows") for m in c.ingesters()) > before, "some have two homes"
            is_once(c, service, at)
            assert differing(c) > 0
            # One ingester after the other, so that copies are in a segment and in a head, then in a leaf and in a head.
            for m in c.ingesters():
                m.operator().call("POST", "/ingester/flush?wait=true", b"").expect(200)
                is_once(c, service, at)
            compact(c)
            is_once(c, service, at)
            push_to(other, service, at)
            is_once_all_along(c, service, at)
        finally:
            other.kill()


def placed(m, service):
    """By this distributor, a profile with a client's id."""
    return m.operator().call("GET", "/distributor/place?" + urlencode({"labels": '{service_name="%s"}' % service, "id": "true"})).expect(200).json()


def test_who_places_differently_is_shown():
    with Cluster("--cluster.probe_interval=200ms", spread=False) as c:
        other = of_other_list(c)
        other.start()
        try:
            def told(m):
                return m.operator().call("GET", "/cluster").expect(200).json()
            await_("the lists of three ingesters", lambda: [x["last_answer"] and x["last_answer"]["list"] for x in told(c["querier"])["members"]].count(None) == 0)
            same = told(c["querier"])
            assert same["lists"] == 1 and {x["last_answer"]["list"] for x in same["members"]} == {same["node"]["list"]}, same
            assert c["querier"].metric("flametree_cluster_lists") == 1
            await_("the lists of two ingesters", lambda: told(other)["lists"] == 2)
            assert other.metric("flametree_cluster_lists") == 2 and told(other)["node"]["list"] != same["node"]["list"]
            page = other.operator().call("GET", "/cluster", headers={"Accept": "text/html"}).expect(200).text
            assert "Lists of ingesters differ" in page and same["node"]["list"] in page, page
            assert "Lists of ingesters differ" not in c["querier"].operator().call("GET", "/cluster", headers={"Accept": "text/html"}).expect(200).text
        finally:
            other.kill()


# So many others that neither their ids have room in a head of 8 MiB, nor filters of them.
OTHERS = {"faint": 20_000, "let go": 90_000}


@pytest.mark.parametrize("room", sorted(OTHERS))
def test_a_push_that_is_repeated_after_many_others(room):
    """Ids of flushed profiles are known for half an hour, and so many others came since that they have no room: exact all the same."""
    with Flametree("--ingester.head_memory=8MiB", "--ingester.lexicon_memory=1MiB", *AT_ONCE, "--compactor.interval=1h") as f:
        service, at = unique(), now_ms() - 1000
        push(f, service, at)
        push(f, service, at)
        flush(f)
        push(f, service, at)
        is_once(f, service, at)
        assert unsure(f) == 0 and f.metric("flametree_ingester_ids_known_seconds") == 1800
        fill(f, OTHERS[room])
        if room == "let go":
            assert f.metric("flametree_ingester_ids_known_seconds") < 1800
        push(f, service, at)
        assert unsure(f) >= PODS, "it may be known"
        is_once_all_along(f, service, at)


def fill(f, profiles):
    """Others without ids, flushed now and then."""
    s = f.server()
    one = gzip.compress(Pprof(("main;b", 1), time_ns=(now_ms() - 1000) * 10**6).encode(), 1)
    series = pb((1, [pb((1, k), (2, v)) for k, v in (("__name__", "process_cpu"), ("service_name", "filler"))]), (2, [pb((1, one))] * 1000))
    message = pb((1, [series]))
    for i in range(profiles // 1000):
        s.call("POST", PUSH, message, {"Content-Type": "application/proto"}, push=True).expect(200)
        if i % 5 == 4:
            flush(f)
    flush(f)


def shown(c, *flags):
    done = subprocess.run([os.path.join(BIN, "flametree"), "block", "show", c.store, *flags], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
    return done.stdout


def test_blocks_show_by_which_lists_their_profiles_were_placed():
    with Cluster(*AT_ONCE, "--compactor.interval=1h", "--cluster.settle_time=0s", "--storage.kind=local", spread=False) as c:
        other = of_other_list(c)
        other.start()
        try:
            await_members(c, "alive", 3)
            at = at_of_levels()
            service = next(s for s in iter(unique, None) if placed(other, s)["home"] != placed(c["distributor"], s)["home"])
            push_to(c["distributor"], service, at)
            flush(c)
            blocks = json.loads(shown(c, "--format", "json"))
            (first,) = {p for b in blocks for p in b["placings"]}
            assert re.fullmatch("[0-9a-f]{16}", first) and sum(t["placed"] for b in blocks for s in b["services"] for t in s["types"]) == PODS, blocks
            assert "placings    %s\n" % first in shown(c) and "they differ" not in shown(c)
            push_to(other, service, at)
            flush(c)
            compact(c)
            leaves = [b for b in json.loads(shown(c, "--format", "json")) if b["kind"] == "raw"]
            assert [len(b["placings"]) for b in leaves] == [2] and first in leaves[0]["placings"], leaves
            assert "placings    %s; they differ, so rows with clients' ids are loose\n" % ", ".join(leaves[0]["placings"]) in shown(c)
        finally:
            other.kill()
