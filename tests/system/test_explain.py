"""What an answer over levels says of itself, and what becomes of it when objects are damaged or gone."""
import glob
import json
import os
import subprocess
import time

import pytest
from client import CPU, QUERIER, Pprof, flame
from flametree import AT_ONCE, BIN, SAYS_SOON, Flametree, compact, expire, flush

HOUR = 3600 * 10**9
DAY = 24 * HOUR
MS = 10**6
START = (time.time_ns() // DAY - 4) * DAY


def push(s, at_ns, value):
    s.push({"__name__": "process_cpu", "service_name": "shop", "hour": "h%02d" % ((at_ns - START) // HOUR)}, Pprof(("main;a", value), time_ns=at_ns)).expect(200)


def ask(s, start, end, selector='{service_name="shop"}', **headers):
    headers = {k.replace("_", "-"): v for k, v in headers.items()}
    body = json.dumps({"profileTypeID": CPU, "labelSelector": selector, "start": start // MS, "end": end // MS})
    return s.call("POST", "/" + QUERIER + "SelectMergeStacktraces", body, {"Content-Type": "application/json", **headers})


def total(reply):
    return int(reply.expect(200).json()["flamegraph"].get("total", 0))


@pytest.fixture
def shop(tmp_path):
    """Two days with a profile of value 1 half past each hour, all of it compacted; nothing of it is in memory."""
    with Flametree("--compactor.interval=1h", *AT_ONCE, "--compactor.day_leaf=false", data=str(tmp_path)) as f:
        s = f.server()
        for hour in range(48):
            push(s, START + hour * HOUR + HOUR // 2, 1)
        flush(f)
        compact(f)
        f.stop()
        f.start()
        yield f


def objects(f, kind):
    found = sorted(glob.glob(os.path.join(f.data, "store", "o", "v1", "*", "anonymous", kind, "*", "*")))
    assert found, "no object of kind %s" % kind
    return found


def spoil(path):
    with open(path, "r+b") as f:
        size = os.fstat(f.fileno()).st_size
        for at in range(0, size, 16):
            f.seek(at)
            f.write(b"\xa5")


def test_a_plan_is_told_to_those_who_ask(shop):
    s = shop.server()
    plain = ask(s, START, START + 2 * DAY)
    assert total(plain) == 48 and plain.headers["Flametree-Exact"] == "exact" and plain.headers["Flametree-Profiles"] == "48"
    assert "Flametree-Explain" not in plain.headers
    for phase in ("query", "heads", "snapshot", "plan", "read", "merge"):
        assert phase + ";dur=" in plain.headers["Server-Timing"], plain.headers["Server-Timing"]
    told = json.loads(ask(s, START, START + 2 * DAY, Flametree_Explain="1").headers["Flametree-Explain"])
    assert told["profiles"] == 48 and told["objects"] == len({line.split()[-1] for line in told["plan"]}) and told["more"] == 0, told
    assert told["rounds"] == 1 and told["rounded_ns"] == 0 and told["missing"] == [], told
    assert any(line.startswith("days") for line in told["plan"]) and not any(line.startswith("raw") for line in told["plan"]), told
    assert set(told["ms"]) == {"heads", "snapshot", "plan", "read", "merge", "query"}, told


def test_the_command_line_explains(shop):
    run = [os.path.join(BIN, "flametree"), "query", CPU, "-s", "shop", "--from", str(START // 10**9), "--until", str((START + 2 * DAY) // 10**9), "-F", "folded", "--url", shop.url]
    got = subprocess.run(run + ["--explain"], capture_output=True, text=True, timeout=60)
    assert got.returncode == 0 and got.stdout == "main;a 48\n", (got.stdout, got.stderr)
    summary = got.stderr.splitlines()
    assert len(summary) == 2 and summary[0].startswith("exact: 48 profiles in ") and " ms, of which " in summary[0] and summary[1].startswith("store: "), got.stderr
    full = subprocess.run(run + ["--explain=full"], capture_output=True, text=True, timeout=60).stderr.splitlines()
    assert full[2].startswith("ms: ") and any(line.startswith("  days    nodes  (") for line in full), full
    wrong = subprocess.run(run + ["--explain=half"], capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 2 and "--explain takes no value but [=full]" in wrong.stderr, wrong
    assert subprocess.run(run, capture_output=True, text=True, timeout=60).stderr == ""


def test_what_few_series_are_left_out_of_is_all_less_these(tmp_path):
    """Sixteen pods, which the projections leave out: all but one are the sums of all less those of the one."""
    with Flametree("--compactor.interval=1h", *AT_ONCE, data=str(tmp_path)) as f:
        s = f.server()
        for hour in range(0, 48, 6):
            s.push_series([({"__name__": "process_cpu", "service_name": "shop", "pod": "p%d" % pod},
                            [Pprof(*[("main;a%d" % i, 1 + i) for i in range(40)], ("main;p%d" % pod, 1 + pod), time_ns=START + hour * HOUR + HOUR // 2)]) for pod in range(16)]).expect(200)
        flush(f)
        compact(f)

        def stacks(selector):
            reply = ask(s, START - 1, START + 2 * DAY, selector=selector, Flametree_Explain="1")
            graph, plan = flame(reply.expect(200).json()["flamegraph"]), json.loads(reply.headers["Flametree-Explain"])["plan"]
            assert reply.headers["Flametree-Exact"] == "exact"
            return {k: v[0] for k, v in graph.items() if v[0] and k != "total"}, plan, int(reply.headers["Flametree-Profiles"])

        def want(pods):
            return {**{"main;p%d" % pod: 8 * (1 + pod) for pod in pods}, **{"main;a%d" % i: 8 * (1 + i) * len(pods) for i in range(40)}}

        got, plan, profiles = stacks('{service_name="shop", pod!="p3"}')
        assert (got, profiles) == (want([pod for pod in range(16) if pod != 3]), 120), plan
        assert any(line.startswith("minus ") for line in plan) and any(line.startswith("days    nodes") for line in plan), plan
        got, plan, profiles = stacks('{service_name="shop", pod!~"p(1|2|3)"}')
        assert (got, profiles) == (want([pod for pod in range(16) if pod not in (1, 2, 3)]), 104), plan
        assert any(line.startswith("minus ") for line in plan), plan
        got, plan, profiles = stacks('{service_name="shop", pod!~"p1.*", pod!~"p[2-9]"}')
        assert (got, profiles) == (want([0]), 8), plan
        assert not any(line.startswith("minus ") for line in plan), plan


def test_children_serve_where_a_parent_is_damaged(shop):
    for path in objects(shop, "d"):
        spoil(path)
    reply = ask(shop.server(), START, START + 2 * DAY, Flametree_Explain="1")
    assert total(reply) == 48 and reply.headers["Flametree-Exact"] == "exact"
    plan = json.loads(reply.headers["Flametree-Explain"])["plan"]
    assert any(line.startswith("hours") for line in plan) and not any(line.startswith("days") for line in plan), plan
    assert shop.metric("flametree_querier_plans_repeated_total") > 0
    for path in objects(shop, "h"):
        spoil(path)
    reply = ask(shop.server(), START, START + 2 * DAY)
    assert total(reply) == 48 and reply.headers["Flametree-Exact"] == "exact"


def test_parents_serve_where_a_leaf_is_damaged_and_its_edges_are_missing(shop):
    for path in objects(shop, "raw"):
        spoil(path)
    s = shop.server()
    assert total(ask(s, START, START + 2 * DAY)) == 48
    refused = ask(s, START + HOUR // 4, START + 2 * DAY)
    assert refused.status == 503 and "would be incomplete, missing: v1/" in refused.text, refused.text
    marked = ask(s, START + HOUR // 4, START + 2 * DAY, Flametree_Partial="allow")
    assert total(marked) == 47, "all but the first hour"
    assert marked.headers["Flametree-Exact"].startswith("partial=v1/") and "/raw/" in marked.headers["Flametree-Missing"], marked.headers


def test_headers_count_what_is_missing_and_the_explanation_names_all_of_it(shop):
    gone = []
    for kind in ("d", "h", "raw"):
        for path in objects(shop, kind):
            os.unlink(path)
            gone.append(path.split("/o/")[1])
    s = shop.server()
    s.push({"__name__": "process_cpu", "service_name": "shop", "pod": "late"}, Pprof(("main;late", 1), time_ns=START + 47 * HOUR)).expect(200)
    marked = ask(s, START, START + 2 * DAY, Flametree_Partial="allow", Flametree_Explain="1").expect(200)
    told = json.loads(marked.headers["Flametree-Explain"])
    missing = told["missing"]
    assert len(missing) > 1 and told["missing_more"] == 0 and set(missing) <= set(gone), (missing, gone)
    assert marked.headers["Flametree-Exact"] == "partial=%s, and %d more could not be read" % (missing[0], len(missing) - 1)
    assert len(marked.headers["Flametree-Missing"]) < 600


LATE = {"start": (START + HOUR // 4) // MS + 777, "end": (START + 2 * DAY) // MS}  # begins within the first hour: that needs rows
SHOP = {"labelSelector": '{service_name="shop"}', "profileTypeID": CPU, **LATE}


def values_of_series(answer):
    return sorted(p["value"] for row in answer.get("labelsSet", []) for p in row["labels"])


@pytest.mark.parametrize("method, question, count", [
    ("SelectMergeStacktraces", SHOP, lambda a: int(a["flamegraph"]["total"])),
    ("SelectMergeSpanProfile", {**SHOP, "spanSelector": ["00000000000000aa"]}, lambda a: 47 + int(a["flamegraph"].get("total", 0))),
    ("SelectSeries", {**SHOP, "step": 3600, "end": (START + 2 * DAY) // MS + 3_600_000}, lambda a: sum(p["value"] for p in a["series"][0]["points"])),
    ("SelectHeatmap", {**SHOP, "step": 3600, "queryType": "HEATMAP_QUERY_TYPE_INDIVIDUAL"}, lambda a: sum(sum(slot["counts"]) for slot in a["series"][0]["slots"])),
    ("LabelValues", {"name": "hour", "matchers": [SHOP["labelSelector"]], **LATE}, lambda a: len(a["names"])),
    ("Series", {"labelNames": ["hour"], "matchers": [SHOP["labelSelector"]], **LATE}, lambda a: len(values_of_series(a))),
    ("AnalyzeQuery", {"query": CPU + SHOP["labelSelector"], **LATE}, lambda a: int(a["queryScopes"][0]["profileCount"])),
    ("Diff", {"left": SHOP, "right": SHOP}, lambda a: int(a["flamegraph"]["leftTicks"])),
], ids=lambda v: v if isinstance(v, str) else "")
def test_every_answer_names_what_is_damaged_and_gives_the_rest(shop, method, question, count):
    s = shop.server()
    assert count(s.ok(method, **question)) == (47 if "Span" in method else 48)
    spoil(objects(shop, "raw")[0])
    shop.stop()  # forgets what it read
    shop.start()
    s = shop.server()
    refused = s.rpc(QUERIER + method, question)
    assert refused.status == 503 and "would be incomplete, missing: v1/" in refused.text and "/raw/" in refused.text, refused
    marked = s.rpc(QUERIER + method, question, {"Flametree-Partial": "allow"}).expect(200)
    assert count(marked.json()) == 47, marked
    assert marked.headers["Flametree-Exact"].startswith("partial=v1/") and "/raw/" in marked.headers["Flametree-Missing"], marked.headers


def test_an_object_that_is_gone_is_missing_too(shop):
    for kind in ("d", "h"):
        for path in objects(shop, kind):
            os.unlink(path)
    s = shop.server()
    assert total(ask(s, START, START + 2 * DAY)) == 48
    os.unlink(objects(shop, "raw")[0])
    refused = ask(s, START, START + 2 * DAY)
    assert refused.status == 503 and "/raw/" in refused.text, refused.text
    assert total(ask(s, START, START + 2 * DAY, Flametree_Partial="allow")) == 47


def test_edges_in_rows_that_are_no_longer_kept_are_rounded(tmp_path):
    with Flametree("--compactor.interval=1h", *AT_ONCE, "--compactor.raw_retention=24h", SAYS_SOON, data=str(tmp_path)) as f:
        s = f.server()
        for hour in range(48):
            push(s, START + hour * HOUR + HOUR // 2, 1)
        flush(f)
        for _ in range(2):
            expire(f)
        assert not glob.glob(os.path.join(f.data, "store", "o", "v1", "*", "anonymous", "raw", "*", "*")), "leaves are still there"
        whole = ask(s, START - 1, START + 2 * DAY)
        assert total(whole) == 48
        cut = ask(s, START + HOUR + HOUR * 3 // 4, START + 2 * DAY)
        assert total(cut) == 47 and cut.headers["Flametree-Exact"] == "rounded=2700", cut.headers
        heat = s.call("POST", "/" + QUERIER + "SelectHeatmap", json.dumps({
            "profileTypeID": CPU, "labelSelector": "{}", "start": START // MS, "end": (START + 2 * DAY) // MS, "step": 3600, "queryType": "HEATMAP_QUERY_TYPE_INDIVIDUAL"}),
            {"Content-Type": "application/json"})
        assert heat.expect(200).headers["Flametree-Exact"].startswith("partial=single profiles of "), heat.headers
