"""A sum that does not fit 64 bits spoils its own group, and never the answers of others: over heads, segments and levels, and by peers."""
import os
import subprocess
import time

from client import CPU, QUERIER, Pprof
from flametree import AT_ONCE, BIN, Cluster, Flametree, await_, compact, flush
from queriers import Queriers

MS = 10**6
HOUR = 3600 * 10**9
DAY = 24 * HOUR
START = (time.time_ns() // DAY - 5) * DAY
RANGE = {"start": START // MS, "end": (START + 2 * DAY) // MS}
MOST = 2**63 - 1
PERIOD = 10**7


def run(*args):
    return subprocess.run([os.path.join(BIN, "flametree"), *args], capture_output=True, text=True, timeout=60)


def push(s, service, *stacks, hour=0, **labels):
    """One profile of nanoseconds."""
    at = START + hour * HOUR + 60 * 10**9
    profile = Pprof(*[(path, [value]) for path, value in stacks], types=(("cpu", "nanoseconds"),), time_ns=at, period=PERIOD * (2 if service == "bad" else 1))
    return s.push_series([({"__name__": "process_cpu", "service_name": service, **labels}, [profile])])


def ask(s, method, headers=None, **message):
    return s.rpc(QUERIER + method, {"profileTypeID": CPU, **RANGE, **message}, headers=headers)


def tree(s, selector="{}", **message):
    return ask(s, "SelectMergeStacktraces", labelSelector=selector, maxNodes=1 << 16, **message)


def total(reply):
    return int(reply.json().get("flamegraph", {}).get("total", 0))


def series(s, selector="{}", **message):
    return ask(s, "SelectSeries", labelSelector=selector, step=86400 * 2, **message)


def sums(reply):
    """By the value of the label; the points of a series added up."""
    return {tuple(x["value"] for x in row.get("labels", [])): sum(p["value"] for p in row["points"]) for row in reply.json().get("series", [])}


def exact(reply):
    assert reply.expect(200).headers["Flametree-Exact"] == "exact", reply.headers
    return reply


def marked(reply, *texts):
    """The answer is given, is not called exact, and says what it lacks."""
    reply.expect(200)
    assert reply.headers["Flametree-Exact"].startswith("partial="), reply.headers
    for text in texts:
        assert text in reply.headers["Flametree-Missing"], reply.headers
    return reply


def poison(s):
    """`bad` exceeds 64 bits with its second profile of an hour; `good` has 12, in two zones; `deep` is near the limit, and fits."""
    for hour in (0, 1, 26):
        push(s, "good", ("main;a", 3), ("main;b", 1), hour=hour, zone="x").expect(200)
        for k in ("1", "2"):
            push(s, "bad", ("main;a", MOST), hour=hour, k=k).expect(200)


def check_poisoned(s):
    left_out = "service bad is left out: its sum exceeds 64 bits"
    assert total(marked(tree(s), left_out)) == 12
    assert total(marked(tree(s, '{service_name=~".+"}'), left_out)) == 12
    assert total(exact(tree(s, '{service_name="good"}'))) == 12
    assert total(exact(tree(s, '{service_name!="bad"}'))) == 12
    assert total(marked(tree(s, '{zone!="y"}'), left_out)) == 12

    refused = tree(s, '{service_name="bad"}')
    assert refused.status == 400 and refused.json()["code"] == "out_of_range", refused
    assert "service bad exceeds 64 bits" in refused.json()["message"] and CPU in refused.json()["message"]
    assert tree(s, headers={"Flametree-Partial": "deny"}).expect(400).json()["code"] == "out_of_range"

    grouped = marked(series(s, groupBy=["service_name"]), "totals of service_name=bad are cut at 64 bits")
    assert sums(grouped) == {("good",): 12, ("bad",): float(MOST)}
    assert sums(marked(series(s), "totals are cut at 64 bits")) == {(): float(MOST)}
    assert sums(exact(series(s, '{service_name="good"}', groupBy=["service_name"]))) == {("good",): 12}
    by_k = series(s, '{service_name="bad"}', groupBy=["k"], stackTraceSelector={"callSite": [{"name": "main"}]})
    assert sums(marked(by_k, "totals of k=1 are")) == {("1",): float(MOST), ("2",): float(MOST)}

    functions = marked(tree(s, format="PROFILE_FORMAT_FUNCTIONS"), left_out).json()["functions"]
    assert {row["name"]: int(row.get("self", 0)) for row in functions["functions"]} == {"a": 9, "b": 3, "main": 0}
    assert "12ns" in marked(tree(s, format="PROFILE_FORMAT_DOT"), left_out).json()["dot"]
    profile = marked(ask(s, "SelectMergeProfile", labelSelector="{}"), left_out).json()
    assert (sum(int(x["value"][0]) for x in profile["sample"]), int(profile["period"])) == (12, PERIOD)
    side = {"profileTypeID": CPU, "labelSelector": "{}", **RANGE}
    both = marked(s.rpc(QUERIER + "Diff", {"left": {**side, "labelSelector": '{service_name=~"good|bad"}'}, "right": side}), left_out).json()
    assert (int(both["flamegraph"]["leftTicks"]), int(both["flamegraph"]["rightTicks"])) == (12, 12)
    drawn = s.call("GET", "/pyroscope/render?query=%s%%7B%%7D&from=%d&until=%d&groupBy=service_name" % (CPU, RANGE["start"], RANGE["end"])).expect(200)
    assert drawn.json()["flamebearer"]["numTicks"] == 12 and left_out in drawn.headers["Flametree-Missing"]
    exact(ask(s, "SelectHeatmap", labelSelector="{}", step=86400, queryType="HEATMAP_QUERY_TYPE_INDIVIDUAL"))
    s.rpc(QUERIER + "GetProfileStats", {}).expect(200)
    s.rpc(QUERIER + "AnalyzeQuery", {"query": CPU + "{}", **RANGE}).expect(200)


def test_a_service_whose_sum_does_not_fit_costs_no_other_service_its_answers(tmp_path):
    with Flametree("--compactor.interval=1h", "--ingester.cut_age=10m", *AT_ONCE, data=str(tmp_path)) as f:
        s = f.server()
        poison(s)
        check_poisoned(s)
        flush(f)
        check_poisoned(s)
        compact(f)
        check_poisoned(s)
        assert f.metric("flametree_querier_wide_questions_total") > 0
        push(s, "good", ("main;a", 5), hour=2).expect(200)
        push(s, "bad", ("main;a", MOST), hour=2).expect(200)
        assert total(marked(tree(s), "service bad is left out")) == 17


def test_the_largest_service_is_left_out_where_each_fits_and_all_do_not(tmp_path):
    with Flametree("--compactor.interval=1h", "--ingester.cut_age=10m", *AT_ONCE, data=str(tmp_path)) as f:
        s = f.server()
        for service, value in (("a", MOST // 2), ("b", MOST // 2 + 1), ("c", MOST // 2 + 1), ("d", 7)):
            push(s, service, ("main", value)).expect(200)

        def check():
            # b and c are equally large: the last by name goes, and then the rest fits
            assert total(marked(tree(s, '{service_name=~"b|c|d"}'), "service c is left out as the largest: the sum of all exceeds 64 bits")) == MOST // 2 + 1 + 7
            assert total(marked(tree(s), "service c is", "service b is")) == MOST // 2 + 7
            assert total(exact(tree(s, '{service_name=~"a|b"}'))) == MOST
            assert total(exact(tree(s, '{service_name="c"}'))) == MOST // 2 + 1
            sides = [{"profileTypeID": CPU, "labelSelector": selector, **RANGE} for selector in ('{service_name=~"b|c|d"}', '{service_name=~"c|d"}')]
            both = marked(s.rpc(QUERIER + "Diff", {"left": sides[0], "right": sides[1]}), "service c is left out").json()["flamegraph"]
            assert (int(both["leftTicks"]), int(both["rightTicks"])) == (MOST // 2 + 8, 7), "what one side leaves out, the other does not have"
            both = exact(s.rpc(QUERIER + "Diff", {"left": {**sides[0], "labelSelector": '{service_name="b"}'}, "right": sides[1]})).json()["flamegraph"]
            assert int(both["total"]) == MOST, "both sides fit, and their sum is only drawn"

        check()
        flush(f)
        check()
        compact(f)
        check()


def test_very_many_services_whose_sums_do_not_fit_do_not_stop_the_compactor(tmp_path):
    with Flametree("--compactor.interval=1h", "--ingester.cut_age=10m", *AT_ONCE, data=str(tmp_path)) as f:
        s = f.server()
        push(s, "good", ("main", 12)).expect(200)
        for n in range(50):
            for k in ("1", "2"):
                push(s, "bad-%02d" % n, ("main", MOST), k=k).expect(200)
        flush(f)
        compact(f)
        status = s.call("GET", "/compactor/status").expect(200).json()
        assert f.metric("flametree_compactor_overflows_total") > 0
        assert not any(t.get("failures") for t in status["tenants"]), status
        assert total(marked(tree(s), "service bad-00 is left out", "and 4")) == 12
        assert total(exact(tree(s, '{service_name="good"}'))) == 12


def test_an_asker_or_a_querier_that_takes_only_exact_answers_is_refused_by_name():
    with Flametree("--querier.incomplete=refuse", *AT_ONCE) as f:
        s = f.server()
        poison(s)
        refused = tree(s).expect(400).json()
        assert refused["code"] == "out_of_range" and "service bad is left out" in refused["message"]
        assert "totals of service_name=bad are cut" in series(s, groupBy=["service_name"]).expect(400).json()["message"]
        assert total(marked(tree(s, headers={"Flametree-Partial": "allow"}), "service bad is left out")) == 12
        assert total(exact(tree(s, '{service_name="good"}'))) == 12


def test_queriers_that_share_a_question_tell_each_other_what_does_not_fit():
    with Queriers(Cluster("--cluster.probe_interval=200ms", "--compactor.interval=1h", "--ingester.cut_age=10m", *AT_ONCE)) as q:
        s = q.cluster.server()
        poison(s)
        await_("peers to be known", lambda: (q.first.metric('flametree_cluster_members{state="alive"}') or 0) >= 6)
        check_poisoned(s)
        flush(q.cluster)
        check_poisoned(s)
        compact(q.cluster)
        check_poisoned(s)
        check_poisoned(q.alone.server())
        assert q.parts("peer") > 0, "no share was read by a peer"


def test_a_profile_whose_own_sum_does_not_fit_is_refused_by_name_and_one_that_fits_is_taken():
    with Flametree(*AT_ONCE) as f:
        s = f.server()
        refused = push(s, "bad", ("main;a", MOST), ("main;b", 1))
        assert refused.status == 400 and "64 bits" in refused.json()["message"], refused
        push(s, "good", ("main;a", MOST - 1), ("main;b", 1)).expect(200)
        assert total(exact(tree(s))) == MOST


def test_frames_that_max_nodes_adds_up_to_more_than_fits_are_told():
    """The whole fits, as values may be negative; what is left out of the graph does not."""
    with Flametree(*AT_ONCE) as f:
        s = f.server()
        for stack, value in (("a;x", MOST), ("b;y", -MOST), ("c", -MOST), ("d", 3)):
            push(s, "good", (stack, value)).expect(200)
        few = lambda n, method="SelectMergeStacktraces", headers=None, **more: ask(s, method, headers, labelSelector="{}", maxNodes=n, **more)
        assert total(exact(few(6))) == 3 - MOST
        cut = "sums of frames are cut at 64 bits"
        assert total(marked(few(1), cut)) == 3 - MOST
        for shape in ("TREE", "PPROF"):
            marked(few(1, format="PROFILE_FORMAT_" + shape), cut)
        marked(few(3, format="PROFILE_FORMAT_DOT"), cut)
        marked(few(1, "SelectMergeProfile"), cut)
        side = {"profileTypeID": CPU, "labelSelector": "{}", "maxNodes": 1, **RANGE}
        marked(s.rpc(QUERIER + "Diff", {"left": side, "right": side}), cut)
        marked(s.call("GET", "/pyroscope/render?query=%s%%7B%%7D&from=%d&until=%d&maxNodes=1" % (CPU, RANGE["start"], RANGE["end"])), cut)
        refused = few(1, headers={"Flametree-Partial": "deny"}).expect(400).json()
        assert cut in refused["message"] and "max_nodes" in refused["message"], refused


def test_the_client_says_what_an_answer_lacks():
    with Flametree(*AT_ONCE) as f:
        poison(f.server())
        where = ["--url", f.url, "--from", str(RANGE["start"]), "--until", str(RANGE["end"])]
        for args in (["query", "cpu"], ["query", "cpu", "--top", "3"], ["series", "cpu"], ["diff", "cpu", 'cpu{service_name!="x"}']):
            done = run(*args, *where)
            assert done.returncode == 0 and done.stderr.count("the answer is incomplete: ") == 1, (args, done)
            assert ("service bad is left out" if args[0] != "series" else "cut at 64 bits") in done.stderr, (args, done)
        assert "incomplete" not in run("query", 'cpu{service_name="good"}', *where).stderr
        refused = run("query", 'cpu{service_name="bad"}', *where)
        assert refused.returncode == 1 and "the sum of service bad exceeds 64 bits" in refused.stderr, refused
        at = time.time_ns()
        for k in ("1", "2"):
            f.server().push({"__name__": "process_cpu", "service_name": "bad", "k": k}, Pprof(("main", [MOST]), time_ns=at)).expect(200)
        f.server().push({"__name__": "process_cpu", "service_name": "good"}, Pprof(("main", [5]), time_ns=at)).expect(200)
        assert "the answer is incomplete: service bad is left out" in run("top", "cpu", "--url", f.url).stdout
