"""Where profiles lie changes no answer: the same questions over heads, segments, leaves and sums of hours and days."""
import time

import pytest
from client import CPU, QUERIER, Pprof
from flametree import AT_ONCE, Flametree, compact, flush

MS = 10**6
HOUR = 3600 * 10**9
DAY = 24 * HOUR
START = (time.time_ns() // DAY - 5) * DAY
WIDE = {"start": START // MS, "end": (START + 2 * DAY) // MS}
NARROW = {"start": (START + 5 * HOUR + 7 * 60 * 10**9) // MS + 333, "end": (START + 31 * HOUR + 11 * 10**9) // MS + 1}
HEAP = "memory:alloc_space:bytes:space:bytes"
SPAN = "00000000000000aa"


def push(s):
    """Two days of two services with pods that come and go, two types of each profile, spans; no two values are alike."""
    value = 0
    for hour in range(0, 48, 3):
        for service, pods in (("shop", range(hour // 12, hour // 12 + 3)), ("till", range(1))):
            series = []
            for pod in pods:
                value += 1
                at = START + hour * HOUR + (pod * 977 + 1) * 10**9 + value
                labels = {"service_name": service, "pod": "p%d" % pod, "zone": "z%d" % (pod % 2)}
                cpu = Pprof(("main;serve;a%d" % (hour % 7), [value, 10 * value]), ("main;b", [1, 10], {"span_id": SPAN, "trace_id": "%032x" % (pod + 1)}), types=(("samples", "count"), ("cpu", "nanoseconds")), time_ns=at)
                heap = Pprof(("main;alloc;c%d" % pod, 1 << 20 | value), types=(("alloc_space", "bytes"),), period_type=("space", "bytes"), time_ns=at + 1)
                series += [({"__name__": "process_cpu", **labels}, [cpu]), ({"__name__": "memory", **labels}, [heap])]
            s.push_series(series).expect(200)


def of(selector, kind=CPU, **more):
    return {"profileTypeID": kind, "labelSelector": selector, **more}


def questions():
    """(method, message without its range)."""
    for selector in ('{service_name="shop"}', "{}", '{pod="p1"}', '{service_name="shop", zone!="z1"}', '{pod=~"p[0-3]", service_name!="till"}'):
        for kind in (CPU, HEAP):
            yield "SelectMergeStacktraces", of(selector, kind, maxNodes=1 << 20)
            yield "SelectMergeStacktraces", of(selector, kind, format="PROFILE_FORMAT_FUNCTIONS")
            yield "SelectMergeProfile", of(selector, kind)
            yield "SelectSeries", of(selector, kind, step=3600)
            yield "SelectSeries", of(selector, kind, step=86400, groupBy=["service_name", "pod"])
        yield "SelectSeries", of(selector, step=7200, groupBy=["zone"], aggregation="TIME_SERIES_AGGREGATION_TYPE_AVERAGE")
        yield "SelectSeries", of(selector, step=7200, groupBy=["service_name"], exemplarType="EXEMPLAR_TYPE_INDIVIDUAL")
        yield "SelectSeries", of(selector, step=7200, stackTraceSelector={"callSite": [{"name": "main"}, {"name": "serve"}]})
        yield "SelectHeatmap", of(selector, step=3600, queryType="HEATMAP_QUERY_TYPE_INDIVIDUAL")
        yield "SelectHeatmap", of(selector, step=3600, queryType="HEATMAP_QUERY_TYPE_SPAN", groupBy=["service_name"])
        yield "SelectMergeSpanProfile", of(selector, spanSelector=[SPAN])
        yield "LabelNames", {"matchers": [selector]}
        yield "LabelValues", {"name": "pod", "matchers": [selector]}
        yield "LabelValues", {"name": "service_name", "matchers": [selector]}
        yield "Series", {"matchers": [selector]}
        yield "Series", {"matchers": [selector], "labelNames": ["service_name", "__profile_type__"]}
        yield "AnalyzeQuery", {"query": CPU + selector}
    yield "ProfileTypes", {}
    yield "GetProfileStats", {}


def stacks_of(profile):
    """Which number a name has is as it happens."""
    text = profile["stringTable"]
    functions = {f["id"]: text[int(f["name"])] for f in profile.get("function", [])}
    frames = {x["id"]: tuple(functions[line["functionId"]] for line in x["line"]) for x in profile.get("location", [])}
    return sorted((tuple(frames[i] for i in sample["locationId"]), sample["value"]) for sample in profile.get("sample", []))


def ask(s):
    """Every answer by its question."""
    answers = {}
    for name, between in (("wide", WIDE), ("narrow", NARROW)):
        for method, message in questions():
            reply = s.rpc(QUERIER + method, {**message, **between} if method != "GetProfileStats" else {}).expect(200)
            assert reply.headers.get("Flametree-Exact", "exact") == "exact", reply
            answer = reply.json()
            if method == "AnalyzeQuery":  # bytes are those of where it lies
                scope = answer["queryScopes"][0]
                answer = {k: scope[k] for k in ("profileCount", "seriesCount")}
            if method == "SelectMergeProfile":
                answer = stacks_of(answer)
            answers[name, method, str(message)] = answer
    return answers


def compare(got, want, where):
    assert got.keys() == want.keys()
    other = [question for question, answer in want.items() if got[question] != answer]
    for question in other[:1]:
        assert got[question] == want[question], "%s, %s: other answers than out of heads" % (where, other)


@pytest.mark.parametrize("flags", [[], ["--compactor.day_leaf=false"]], ids=["day-leaf", "hour-leaves"])
def test_the_same_questions_have_the_same_answers_wherever_profiles_lie(flags, tmp_path):
    with Flametree("--compactor.interval=1h", "--ingester.cut_age=10m", *AT_ONCE, *flags, data=str(tmp_path)) as f:
        s = f.server()
        push(s)
        want = ask(s)
        assert want["wide", "SelectMergeStacktraces", str(of("{}", CPU, maxNodes=1 << 20))]["flamegraph"]["total"]
        flush(f)
        compare(ask(s), want, "segments")
        compact(f)
        compare(ask(s), want, "levels")
        f.stop()  # heads and caches are empty then
        f.start()
        compare(ask(f.server()), want, "levels, after a restart")
        assert f.metric("flametree_querier_block_nodes_total"), "no sums were read"
