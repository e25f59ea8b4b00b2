"""The older GET routes and exported graphs and profiles, beyond what the conformance suite asks."""
import json
import os
import re
import subprocess
import time
import urllib.parse

import pytest
from client import CPU, QUERIER, Pprof, now_ms, pb, select, table, unique

TOP = os.path.join(os.path.dirname(__file__), "../..")


def get(s, path, **params):
    return s.call("GET", "/pyroscope/%s?%s" % (path, urllib.parse.urlencode(params, doseq=True)))


def render(s, service, **more):
    return get(s, "render", **{"query": '%s{service_name="%s"}' % (CPU, service), "from": "now-15m", "until": "now", **more})


def test_json_is_exactly_as_documented(s):
    at = int(time.time()) // 15 * 15 - 60
    service = s.send(("a;b", 1), ("a;c", 2), time_ns=at * 10**9)
    reply = render(s, service, **{"from": str(at - 15), "until": str(at + 30)}).expect(200)
    assert reply.headers["Content-Type"] == "application/json"
    assert reply.text == (
        '{"version":1,"flamebearer":{"names":["total","a","c","b"],"levels":[[0,3,0,0],[0,3,0,1],[0,1,1,3,0,2,2,2]],"numTicks":3,"maxSelf":2},'
        '"metadata":{"format":"single","spyName":"","sampleRate":1000000000,"units":"samples","name":"cpu"},'
        '"timeline":{"startTime":%d,"samples":[0,3,0],"durationDelta":15,"watermarks":null},"groups":null,"heatmap":null}\n' % (at - 15))


def test_diff_json_is_exactly_as_documented(s):
    left, right = s.send(("a;b", 1)), s.send(("a;b", 4))
    query = '%s{service_name="%%s"}' % CPU
    reply = get(s, "render-diff", leftQuery=query % left, rightQuery=query % right, leftFrom="now-15m", leftUntil="now", rightFrom="now-15m", rightUntil="now")
    assert reply.expect(200).text == (
        '{"version":1,"flamebearer":{"names":["total","a","b"],"levels":[[0,1,0,0,4,0,0],[0,1,0,0,4,0,1],[0,1,1,0,4,4,2]],"numTicks":5,"maxSelf":4},'
        '"metadata":{"format":"double","spyName":"","sampleRate":1000000000,"units":"samples","name":"cpu"},'
        '"timeline":null,"groups":null,"heatmap":null,"leftTicks":1,"rightTicks":4}\n')


def test_samples_add_up_to_the_graph(s):
    """Also the profile of this second, whose slot is not over."""
    now = time.time_ns()
    service = s.send(("a", 1), time_ns=now - 899 * 10**9)
    for back in (0, 1, 14, 15, 16, 300):
        s.send(("a", 10), service=service, time_ns=now - back * 10**9)
    got = render(s, service, until="now+1s", **{"from": str(now // 10**9 - 900)}).expect(200).json()  # of the same now
    assert sum(got["timeline"]["samples"]) == got["flamebearer"]["numTicks"] == 61, got["timeline"]


def test_groups(s):
    service = s.send(("a", 4), labels={"pod": "1"})
    s.send(("a", 8), service=service, labels={"pod": "1"})
    s.send(("a", 16), service=service)
    sums = lambda **more: {k: sum(v["samples"]) for k, v in render(s, service, **more).expect(200).json()["groups"].items()}
    assert sums(groupBy="pod") == {"*": 16, "1": 12}
    assert sums(groupBy=["pod", "service_name"]) == {"*": 16, "1": 12}
    assert sums(groupBy="service_name") == {service: 28}
    assert sums(groupBy="none") == {"*": 28} and sums(groupBy="") == {"*": 28}


def test_the_timeline_is_that_of_the_graph_however_it_is_grouped(s):
    at = (int(time.time()) // 15 * 15 - 60) * 10**9
    service = s.send(("a", 4), labels={"pod": "1"}, time_ns=at)
    s.send(("a", 9), service=service, labels={"pod": "2"}, time_ns=at)
    s.send(("a", -20), service=service, time_ns=at + 15 * 10**9)
    got = lambda **more: render(s, service, **more).expect(200).json()
    plain, grouped = got(), got(groupBy="pod")
    assert grouped["timeline"] == plain["timeline"] and sum(plain["timeline"]["samples"]) == -7 == grouped["flamebearer"]["numTicks"]
    assert grouped["groups"].keys() == {"1", "2", "*"}
    means = [got(aggregation="avg", **more)["timeline"] for more in ({}, {"groupBy": "pod"})]
    assert means[0] == means[1] and sorted(set(means[0]["samples"])) == [-20, 0, 6]


def test_average(s):
    at = (int(time.time()) // 15 * 15 - 60) * 10**9
    service = s.send(("a", 4), time_ns=at)
    s.send(("a", 9), service=service, time_ns=at + 1)
    assert max(render(s, service, aggregation="avg").json()["timeline"]["samples"]) == 6
    assert max(render(s, service, aggregation="median").json()["timeline"]["samples"]) == 13


REFUSED = [
    ("huge-max-nodes", {"maxNodes": "1048577"}, "max flamegraph nodes limit 1048577 is greater than allowed 1048576"),
    ("max-nodes-beyond-int64", {"max-nodes": "9" * 40}, "limit 9223372036854775807 is greater than allowed 1048576"),
    ("dot-huge-max-nodes", {"format": "dot", "max-nodes": "1048577"}, "greater than allowed 1048576"),
    ("negative-max-nodes", {"maxNodes": "-1"}, "max flamegraph nodes limit must be set (max allowed 1048576)"),
    ("long-range", {"from": "now-48h"}, "max_query_length, actual: 48h0m0s, limit: 1d"),
    ("absurd-range", {"from": "now-1h", "until": "9" * 40}, "max_query_length, actual: "),
    ("backwards", {"from": "now", "until": "now-1h"}, "query start time is after end time"),
    ("no-time", {"from": "abc"}, "from: 'abc' is not a time"), ("negative", {"from": "-5"}, "from: '-5' is not a time"), ("no-until", {"until": "soon"}, "until: 'soon' is not a time"),
    ("hostile-regex", {"query": CPU + '{a=~"(a*)*("}'}, 'failed to parse "query"'),
    ("nul-in-a-group", {"groupBy": "a\0b"}, "a label to group by of the query holds a NUL byte"),
    ("bytes-in-a-group", {"groupBy": b"\xff"}, "a label to group by of the query is not valid UTF-8"),
    ("nul-in-a-value", {"query": CPU + '{a="\\x00"}'}, "the value of a matcher of the query holds a NUL byte"),
    ("bytes-in-a-value", {"query": CPU + '{a="\\xff"}'}, "the value of a matcher of the query is not valid UTF-8"),
    ("bad-type", {"query": "cpu{}"}, 'failed to parse "query": profile-type selection must be of the form'),
]


@table("change, text", REFUSED)
def test_refused(s, change, text):
    render(s, "x", **change).expect(400, text, code="invalid_argument")


def test_times_of_the_other_routes_are_refused_by_name(s):
    query = CPU + '{service_name="x"}'
    for name in ("leftFrom", "leftUntil", "rightFrom", "rightUntil"):
        get(s, "render-diff", leftQuery=query, rightQuery=query, **{name: "-5"}).expect(400, name + ": '-5' is not a time", code="invalid_argument")
    for name in ("from", "until"):
        get(s, "label-values", label="pod", **{name: "abc"}).expect(400, name + ": 'abc' is not a time", code="invalid_argument")


def test_rfc3339_means_its_moment(s):
    at = int(time.time()) // 15 * 15 - 60
    service = s.send(("a", 4), time_ns=at * 10**9)

    def total(shift):
        between = {name: time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(t + shift)) for name, t in (("from", at - 1), ("until", at + 1))}
        return render(s, service, **between).expect(200).json()["flamebearer"]["numTicks"]
    assert (total(0), total(-10), total(10)) == (4, 0, 0)


@table("path", [("render", "render"), ("render-diff", "render-diff"), ("label-values", "label-values")])
def test_only_get(s, path):
    for verb in "HEAD POST PUT DELETE PATCH OPTIONS".split():
        assert s.call(verb, "/pyroscope/" + path).expect(405).body == b""


def test_label_values(s):
    service = s.send(("a", 1), labels={"pod": 'p"1'})
    s.send(("a", 1), service=service, labels={"pod": "p0"})
    only = '{service_name="%s"}' % service
    assert get(s, "label-values", label="pod", query=only).expect(200).text == '["p\\"1","p0"]\n'
    assert get(s, "label-values", label="pod", query=CPU + only).expect(200).json() == ['p"1', "p0"]
    assert service in get(s, "label-values", label="service_name").expect(200).json()
    assert CPU in get(s, "label-values", label="__name__").expect(200).json()
    assert get(s, "label-values", label="__name__", query='{service_name="no"}').expect(200).text == "null\n"
    assert get(s, "label-values", label="pod", query=only, until="now-2h", **{"from": "now-3h"}).expect(200).text == "[]\n"


def test_label_values_of_a_name_with_nul(s):
    get(s, "label-values", label="a\0").expect(400, "a label name of the query holds a NUL byte", code="invalid_argument")


# ---- DOT

STRING = r'"(?:[^"\\\x00-\x1f]|\\["\\nl])*"'
ATTR = r'\[(?:\w+=(?:%s|[\w.]+) ?)+\]' % STRING
LINES = re.compile(r'digraph "unnamed" \{|node %s|subgraph cluster_L \{ "legend" %s \}|N\d+ %s|N\d+ -> N\d+ %s|\}' % ((ATTR,) * 4))


def check_dot(text):
    """Every line is a statement of the language; names of nodes that edges use exist. Returns labels."""
    lines = text.rstrip("\n").split("\n")
    for line in lines:
        assert LINES.fullmatch(line), line
    nodes = {m[1] for m in re.finditer(r"^(N\d+) \[", text, re.M)}
    for m in re.finditer(r"^(N\d+) -> (N\d+)", text, re.M):
        assert {m[1], m[2]} <= nodes, m[0]
    return re.findall(r'^N\d+ \[label="((?:[^"\\]|\\.)*)"', text, re.M)


HOSTILE = ['"];evil[label="', "back\\slash\\", "line\nbreak\ttab", "x&lt;y&#38;z", "const T& f", "ünïcödé 漢字 🦀", "\\N\\G\\l", "n" * 60000, "]", "->", "\x7f\x01", "%s%n", "<b>html</b>", ""]


def test_dot_with_hostile_names(s):
    p = Pprof(*[(["root", name], 1) for name in HOSTILE])
    service = unique()
    s.push({"__name__": "process_cpu", "service_name": service}, p).expect(200)
    reply = render(s, service, format="dot").expect(200)
    labels = check_dot(reply.text)
    assert len(reply.body) < 20_000 and any(label.startswith("x&amp;lt;y&amp;#38;z\\n") for label in labels), labels
    assert any(label.startswith("const T& f\\n") for label in labels) and any("🦀" in label for label in labels)
    assert not any("evil" in node for node in re.findall(r"^(\S+)", reply.text, re.M))


def test_dot_shows_so_many_nodes(s):
    service = s.send(*[("root;f%d;g%d" % (i, i), 1000 - i) for i in range(300)])
    assert len(check_dot(render(s, service, format="dot").text)) == 100
    assert len(check_dot(render(s, service, format="dot", **{"max-nodes": 7}).text)) == 7
    assert len(check_dot(render(s, service, format="dot", maxNodes=1000).text)) == 601
    by_rpc = s.ok("SelectMergeStacktraces", profileTypeID=CPU, labelSelector=select(service), format="PROFILE_FORMAT_DOT", maxNodes=7)
    assert len(check_dot(by_rpc["dot"])) == 7


# ---- profiles for Go's tools

@pytest.fixture(scope="module")
def go():
    found = subprocess.run([os.path.join(TOP, "tests/lib/go")], capture_output=True, text=True)
    if found.returncode:
        pytest.skip("no Go can be had: " + found.stderr.strip())
    return found.stdout.strip()


def export(s, service, *fields):
    body = pb((1, CPU), (2, select(service)), (3, now_ms() - 900_000), (4, now_ms() + 60_000), *fields)
    return s.call("POST", "/" + QUERIER + "SelectMergeProfile", body, {"Content-Type": "application/proto"}).expect(200).body


def tool(go, *args, **more):
    return subprocess.run([go, *args], capture_output=True, text=True, timeout=1200, env={**os.environ, "GOTOOLCHAIN": "local", "GOFLAGS": "-mod=mod"}, **more)


def test_go_tool_pprof_reads_profiles(s, go, tmp_path):
    service = s.send(("main;work", 30_000_000), ("main;idle", 10_000_000), ("main;idle;rare", 1_000_000))
    file = tmp_path / "cpu.pb"
    file.write_bytes(export(s, service))
    top = tool(go, "tool", "pprof", "-top", "-nodecount=20", str(file))
    assert top.returncode == 0, top.stderr
    rows = {line.split()[-1]: line.split()[0] for line in top.stdout.splitlines() if re.match(r"\s+\S+\s+\S+%", line)}
    assert rows["work"] == "30ms" and rows["idle"] == "10ms", top.stdout
    traces = tool(go, "tool", "pprof", "-traces", str(file))
    assert traces.returncode == 0 and traces.stdout.count("main") == 3, traces.stdout + traces.stderr
    file.write_bytes(export(s, service, (5, 2)))
    cut = tool(go, "tool", "pprof", "-top", str(file))
    assert cut.returncode == 0 and "other" in cut.stdout and "rare" not in cut.stdout, cut.stdout + cut.stderr


def test_go_build_takes_pgo_profiles(s, go, tmp_path):
    (tmp_path / "go.mod").write_text("module demo\n\ngo 1.21\n")
    (tmp_path / "main.go").write_text("package main\n\nfunc hot(n int) int {\n\treturn n * 3\n}\n\nfunc main() {\n\tprintln(hot(4))\n}\n")
    p = Pprof(("runtime.main;main.main;main.hot", 3_000_000_000), ("runtime.main;main.main", 10_000_000))
    for i, function in enumerate(p.functions):
        function[-1] = 3 + 4 * i  # the compiler places calls by lines from here
    service = unique()
    s.push({"__name__": "process_cpu", "service_name": service}, p).expect(200)
    (tmp_path / "cpu.pgo").write_bytes(export(s, service, (5, 1), (6, pb((2, pb((1, 2), (2, 1)))))))
    built = tool(go, "build", "-pgo=cpu.pgo", "-o", "demo", ".", cwd=tmp_path)
    assert built.returncode == 0, built.stderr
    traces = tool(go, "tool", "pprof", "-traces", str(tmp_path / "cpu.pgo"))
    assert "main.hot" in traces.stdout and "runtime.main" in traces.stdout and "other" not in traces.stdout, traces.stdout


# ---- status

def test_status_routes(s):
    everything = s.call("GET", "/api/v1/status/config").expect(200)
    assert s.call("GET", "/config").expect(200).text == everything.text and everything.headers["Content-Type"] == "text/plain; charset=utf-8"
    default = s.call("GET", "/api/v1/status/config/default").expect(200).text
    diff = s.call("GET", "/api/v1/status/config/diff").expect(200).text
    assert "max_query_length: 400d" in default or "max_query_length: 9600h" in default, default
    assert "max_query_length: " in diff and "max_label_names_per_series" not in diff, diff
    assert set(diff.splitlines()) <= set(everything.text.splitlines())
    assert json.loads(s.call("GET", "/api/v1/status/buildinfo").expect(200).text)["status"] == "success"
