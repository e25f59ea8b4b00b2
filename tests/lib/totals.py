"""All totals of a question: what every way to ask says that the profiles of one selector, type and range add up to.

    q = Question(type_id, selector, start_ms, end_ms, step_ms=20_000, group_by=["pod"])
    got = totals(server, q)                      # {way: total}
    wrong = law(got, q, want=15)                 # None, or a sentence that says which ways differ

Value is conserved: all ways say the same, and that is what was sent. Nothing here uses code of the product: answers are decoded by
tests/conformance/client.py and by the few lines below. `NATIVE` are ways over HTTP, `CLIENT` those of the command line client, which take a
process each.

A heat map counts profiles and does not add up values, so its way is a count, which must be that of the headers. A graph of DOT has rounded numbers, so its total may be off by as much as rounding is.
"""
import base64
import gzip
import json
import os
import re
import subprocess
import tempfile
import urllib.parse

from client import QUERIER, pb, tree_bytes, unpack, unpb
from flametree import BIN, WITHOUT_SETTINGS

ALL_NODES = 1 << 20
# As common/model/dot.c writes them, from the smallest.
DOT_UNITS = {"": 1, "ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9, "mins": 6e10, "hrs": 3.6e12, "days": 8.64e13, "B": 1, "kB": 1 << 10, "MB": 1 << 20, "GB": 1 << 30,
             "TB": 1 << 40, "PB": 1 << 50}


class Question:
    """start_ms and end_ms belong to the range."""

    def __init__(self, type_id, selector, start_ms, end_ms, step_ms=15_000, group_by=()):
        assert start_ms <= end_ms and step_ms > 0
        self.type_id, self.selector, self.start_ms, self.end_ms, self.step_ms, self.group_by = type_id, selector, start_ms, end_ms, step_ms, list(group_by)

    def __repr__(self):
        return "%s%s of [%d, %d] ms, step %d ms, by %s" % (self.type_id, self.selector, self.start_ms, self.end_ms, self.step_ms, self.group_by)

    def message(self, **more):
        return {"profileTypeID": self.type_id, "labelSelector": self.selector, "start": self.start_ms, "end": self.end_ms, **more}

    def merged(self, server, shape, **more):
        """An answer of SelectMergeStacktraces with all nodes."""
        return server.ok("SelectMergeStacktraces", format="PROFILE_FORMAT_" + shape, **self.message(maxNodes=ALL_NODES, **more))


def signed(n):
    return n - (1 << 64) if n >= 1 << 63 else n


# ---- ways over HTTP: each gives {name: total}

def selves(graph, first, width):
    return sum(int(v) for level in graph.get("levels", []) for v in level["values"][first::width])


def of_flame_graph(server, q):
    graph = q.merged(server, "FLAMEGRAPH")["flamegraph"]
    return {"flame graph": int(graph.get("total", 0)), "flame graph, self of all frames": selves(graph, 2, 4),
            "profiles": int(server.last.headers.get("Flametree-Profiles", -1))}


def of_tree(server, q):
    return {"TREE": sum(map(signed, tree_bytes(base64.b64decode(q.merged(server, "TREE").get("tree", ""))).values()))}


def of_functions(server, q):
    table = q.merged(server, "FUNCTIONS", formatOptions={"functions": {"limit": "0"}}).get("functions", {})
    return {"FUNCTIONS": int(table.get("total", 0)), "FUNCTIONS, self of all": sum(int(r.get("self", 0)) for r in table.get("functions", []))}


def of_dot(server, q):
    return {"DOT": dot_total(q.merged(server, "DOT").get("dot", ""))}


class About(float):
    """A number that was rounded where it was printed; `by` is how far off it may be."""
    by = 0.0

    def __new__(cls, value, by):
        made = super().__new__(cls, value)
        made.by = by
        return made


def dot_total(text):
    """What the legend says that the total is; no graph is a total of 0."""
    said = re.search(r"of (-?)([\d.]+)(?: ?([A-Za-z]*)) total", text)
    if not said:
        assert not text, text[:500]
        return 0
    unit = DOT_UNITS.get(said[3], 1)
    return About(float(said[1] + said[2]) * unit, 0.006 * unit if "." in said[2] or unit > 1 else 0)


def pprof_total(data):
    """The sum of all samples of a pprof message with one type."""
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    return sum(signed(v) for sample in unpb(data).get(2, []) for v in unpack(unpb(sample).get(2, [])))


def of_pprof(server, q):
    body = pb((1, q.type_id), (2, q.selector), (3, q.start_ms), (4, q.end_ms))
    reply = server.call("POST", "/" + QUERIER + "SelectMergeProfile", body, {"Content-Type": "application/proto"}).expect(200)
    whole = q.merged(server, "PPROF").get("pprof", {}).get("profile", {})
    return {"pprof": pprof_total(reply.body), "PPROF": sum(int(v) for s in whole.get("sample", []) for v in s.get("value", []))}


def render_query(q):
    """The type before the selector, or, of a type that is no name of PromQL, in it."""
    return q.type_id + q.selector if re.fullmatch(r"[\w:]*", q.type_id, re.A) else '{__name__="%s",%s' % (q.type_id, q.selector[1:])


def of_render(server, q):
    query = urllib.parse.urlencode({"query": render_query(q), "from": q.start_ms, "until": q.end_ms, "maxNodes": ALL_NODES})
    answer = server.call("GET", "/pyroscope/render?" + query).expect(200).json()
    got = {"/render": answer["flamebearer"]["numTicks"], "/render, timeline": sum(answer["timeline"]["samples"])}
    if q.group_by:
        grouped = server.call("GET", "/pyroscope/render?%s&groupBy=%s" % (query, urllib.parse.quote(q.group_by[0]))).expect(200).json()
        got["/render, timelines of groups"] = sum(sum(t["samples"]) for t in (grouped["groups"] or {}).values())
    return got


def of_diff(server, q):
    side = q.message(maxNodes=ALL_NODES)
    graph = server.rpc(QUERIER + "Diff", {"left": side, "right": side}).expect(200).json()["flamegraph"]
    return {"Diff, left": int(graph.get("leftTicks", 0)), "Diff, right": int(graph.get("rightTicks", 0)), "Diff, half of both": int(graph.get("total", 0)) // 2,
            "Diff, self on the left": selves(graph, 2, 7), "Diff, self on the right": selves(graph, 5, 7)}


def points_total(answer):
    return sum(float(p.get("value", 0)) for row in answer.get("series", []) for p in row["points"])


def of_series(server, q):
    asked = q.message(step=q.step_ms / 1000 + 1e-7)  # of which whole milliseconds count
    got = {"SelectSeries": points_total(server.ok("SelectSeries", **asked)), "SelectSeries, spread": points_total(server.ok("SelectSeries", spread=True, **asked))}
    if q.group_by:
        got["SelectSeries, groups"] = points_total(server.ok("SelectSeries", groupBy=q.group_by, **asked))
        got["SelectSeries, spread, groups"] = points_total(server.ok("SelectSeries", groupBy=q.group_by, spread=True, **asked))
    return got


def of_heat_map(server, q):
    """How many profiles it has. It refuses a range of one millisecond."""
    if q.start_ms == q.end_ms:
        return {}
    answer = server.ok("SelectHeatmap", queryType="HEATMAP_QUERY_TYPE_INDIVIDUAL", groupBy=q.group_by, **q.message(step=q.step_ms / 1000 + 1e-7))
    return {"heat map": sum(n for row in answer.get("series", []) for slot in row["slots"] for n in slot["counts"])}


NATIVE = (of_flame_graph, of_tree, of_functions, of_dot, of_pprof, of_render, of_diff, of_series, of_heat_map)

# Ways that count profiles and do not add up values.
COUNTS = ("profiles", "heat map")


# ---- ways of the client

def client(server, *args, text=True):
    done = subprocess.run([os.path.join(BIN, "flametree"), *args], capture_output=True, text=text, timeout=120, stdin=subprocess.DEVNULL,
                          env={**WITHOUT_SETTINGS, "FLAMETREE_URL": server.query_url, **({"FLAMETREE_TENANT": server.tenant} if server.tenant else {})})
    assert done.returncode in (0, 3), done  # 3: no data
    return done.stdout


def folded_total(text):
    """Of collapsed stacks, whose last word is a number."""
    return sum(int(line.rsplit(" ", 1)[1]) for line in text.splitlines())


def asked(q):
    return [q.selector, "--type", q.type_id, "--from", str(q.start_ms), "--until", str(q.end_ms)]


def of_client_flame(server, q):
    return {"client, query as folded": folded_total(client(server, "query", *asked(q), "--format", "folded"))}


def of_client_top(server, q):
    text = client(server, "query", *asked(q), "--format", "json", "--top", "1000000")
    table = json.loads(text) if text else {"total": 0, "functions": []}
    return {"client, top": table["total"], "client, self of top": sum(f["self"] for f in table["functions"])}


def of_client_series(server, q):
    step = ["--step", "%dms" % q.step_ms] if q.step_ms < q.end_ms - q.start_ms else []
    groups = [x for name in q.group_by for x in ("--group-by", name)]
    text = client(server, "series", *asked(q), "--format", "json", "--aggregation", "sum", *step, *groups)
    return {"client, series": points_total(json.loads(text)) if text else 0}


def of_client_convert(server, q):
    """What `query` writes as pprof, read again by `convert`."""
    with tempfile.TemporaryDirectory(prefix="flametree-test-") as folder:
        path = os.path.join(folder, "whole.pb.gz")
        client(server, "query", *asked(q), "--format", "pprof", "--output", path)
        if not os.path.exists(path):
            return {"client, query as pprof": 0}
        with open(path, "rb") as f:
            data = f.read()
        return {"client, query as pprof": pprof_total(data), "client, convert": folded_total(client(server, "convert", path, "-", "--to", "folded")) if data else 0}


CLIENT = (of_client_flame, of_client_top, of_client_series, of_client_convert)


def totals(server, q, ways=NATIVE):
    """{way: total}. Each answer that has said how exact it is says "exact"."""
    got = {}
    for way in ways:
        got.update(way(server, q))
        said = server.last.headers.get("Flametree-Exact") if way in NATIVE and server.last else None
        assert said in (None, "exact"), "%r: %s says %r, though all frames of all profiles were asked for%s" % (q, way.__name__, said, server.last)
    return got


def law(got, q, want=None, count=None):
    """None if all ways say the same, and that is `want`, which may be several totals that are right; else a sentence with all that they say.
    `count`: how many profiles there are."""
    values = {way: v for way, v in got.items() if way not in COUNTS}
    wants = [want] if isinstance(want, (int, float)) else list(want) if want is not None else [next(iter(values.values()))]
    wrong = {way: v for way, v in values.items() if not any(same(v, w) for w in wants)}
    if not wrong and want is not None and len(wants) > 1:  # which of them, all must agree on
        first = next(iter(values.values()))
        wrong = {way: v for way, v in values.items() if not same(v, first)}
    counts = {way: got[way] for way in COUNTS if way in got and got[way] >= 0}
    counts_wrong = len(set(counts.values())) > 1 or (count is not None and any(n not in (count if isinstance(count, (list, tuple, set)) else [count]) for n in counts.values()))
    if not wrong and not counts_wrong:
        return None
    lines = ["%-34s %s%s" % (way, plain(v), "   <--" if way in wrong else "") for way, v in values.items()]
    lines += ["%-34s %d profiles%s" % (way, n, "   <--" if counts_wrong else "") for way, n in counts.items()]
    return "%r\nexpected %s%s\n%s" % (q, " or ".join(plain(w) for w in wants), "" if count is None else ", %s profiles" % (count,), "\n".join(lines))


def same(v, w):
    """Sums of points are doubles."""
    if isinstance(v, About) or isinstance(w, About):
        by = max(getattr(v, "by", 0), getattr(w, "by", 0))
        return abs(float(v) - float(w)) <= by + 1e-9 * abs(float(w))
    if isinstance(v, int) and isinstance(w, int):
        return v == w
    return abs(v - w) <= 1e-9 * max(abs(v), abs(w))


def plain(v):
    return "%d" % v if float(v).is_integer() else repr(float(v))


def check(server, q, want=None, ways=NATIVE, count=None):
    """Fails if the law does not hold."""
    wrong = law(totals(server, q, ways), q, want, count)
    assert wrong is None, "\n" + wrong
