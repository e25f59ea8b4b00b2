"""Facts of every file of the corpus, of what one server answers that got all of them: each pushed as an agent would, with the time that it has, under a
service of its own. Asked for profile types, sums, stacks, flame graphs and labels, of what is in memory and of what is in segments."""
import concurrent.futures
import gzip
import json
import os
import re

import pytest
from client import PUSH, QUERIER, UTF8, multipart, now_ms, pb, select, unpb
from flametree import Flametree, flush

import check
import reader

FILES = {name: (form, facts) for name, form, facts in check.inputs()}
needs_corpus = pytest.mark.skipif(not FILES, reason="no corpus at %s" % check.CORPUS)

# Recordings are old and some are large.
SETTINGS = ["--ingester.head_age=20000d", "--limits.reject_older_than=0", "--limits.max_query_length=0", "--limits.max_profile_size_bytes=%d" % (32 << 20), "--limits.max_profile_stacktrace_samples=200000"]
# Formats that /ingest takes, by the name that it has for them.
INGEST = {"collapsed": "folded", "trie": "trie", "tree": "tree", "jfr": "jfr", "speedscope": "speedscope", "perf": "perf", "legacy": "legacy",
          "cpuprofile": "cpuprofile", "heapprofile": "heapprofile"}
FROM = 1_700_000_000  # of what has no time of its own
LABELS_PART = {"jfr/dump1.jfr.gz": "jfr/aux/dump1.labels.pb.gz", "jfr/new_spancontext.jfr.gz": "jfr/aux/new_spancontext.labels.pb.gz"}

# ---- what a server does to profiles on purpose, by the sections of Pyroscope's reference, and which facts hold nevertheless

# Samples of CPU become the time that they stand for, which is that of the sample rate; other suffixes of a name are no time.
CPU_SAMPLE = 10**7
SAMPLES = {"perf/one-sample.perf.txt": 1, "perf/single-line-stacks.perf.txt": 2}  # of two events, which both count
SUFFIX = {"tree/diff-left.tree.bin": (".alloc_objects", "memory:alloc_objects:count::", 1)}  # its sum times 10^7 has more than 64 bits
ONLY = {
    # Cut stacks of Go's heap profiles are mended, and brackets of generic functions left out (3.3, 9).
    "pprof/go-(heap|stress|prometheus|alloc)": ("sum", "top_self"),
    # Where a mapping says that it has functions, addresses are cleared (3.5, 7): these have neither, after somebody took the names away.
    "pprof/unsymbolized-": ("sum",),
    # Two names that are no UTF-8 become one.
    "derived/edge.collapsed": ("sum",),
}
NEGATIVE = {"pprof/go-alloc-space-delta-negative.pb.gz"}
# Numbers are no labels (3.5, 2); profile_id is the span of a sample (3.6).
NO_LABELS = {"bytes", "profile_id"}
# Attributes that are sent without a value.
EMPTY = {"otlp/ebpf-corrupted-stack-index." + ending: {"container.id"} for ending in ("pb", "json")}
# Of what is refused the status and a part of the message.
REFUSED = {
    "pprof/invalid-utf8.pb.gz": (429, "a profile is"),  # of 1970; its text would be mended
    "derived/pprof-min-int64.pb": (400, "does not fit 64 bits"),
    "pprof/php-wordpress.pb": (400, "sample type contains -"),
    "pprof/dotnet-73-function-ids-0.pb": (400, "function id is 0"),
    "derived/pprof-concatenated.pb": (400, "sample value length mismatch"),
    "derived/pprof-value-count-mismatch.pb": (400, "sample value length mismatch"),
    "derived/pprof-group-wiretype.pb": (400, "wire type"),
    "derived/pprof-gzip-bomb.pb.gz": (400, "uncompressed profile payload size exceeds limit of 34 MB"),
    "derived/truncated.trie": (422, "tree node name length 323 exceeds"),
    "derived/huge-name-length.tree": (422, "tree node name length 1099511627776 exceeds"),
    "speedscope/invalid-out-of-order-events.json": (422, "event "),
}
NOTHING = {"jfr/jmc-pid1.jfr"}  # a valid recording without events of a profiler
NO_PROFILES = {"flamebearer/ui-selectmergestacktraces.json"}  # an answer to a query
NAMES = [name for name in FILES if name not in NO_PROFILES]

def service_of(name):
    return re.sub(r"[^A-Za-z0-9]+", "-", name)


def content(name):
    with open(os.path.join(check.CORPUS, name), "rb") as f:
        return f.read()


# ---- pushing

# Resources of OTLP name their services themselves.
MARK = "corpus.file"


def selector(name):
    return '{"%s"="%s"}' % (MARK, service_of(name)) if FILES[name][0] == "otlp" else select(service_of(name))


def marked(name, data):
    """An OTLP request whose resources have one attribute more."""
    if name.endswith(".json"):
        request = json.loads(data)
        for r in request["resourceProfiles"]:
            r.setdefault("resource", {}).setdefault("attributes", []).append({"key": MARK, "value": {"stringValue": service_of(name)}})
        return json.dumps(request).encode(), "application/json"
    request = unpb(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    attribute = pb((1, MARK), (2, pb((1, service_of(name)))))
    resources = []
    for resource in map(unpb, request[1]):
        own = resource.get(1, [b""])[0] + pb((1, attribute))
        resources.append(pb((1, own), *[(n, v) for n, v in resource.items() if n != 1]))
    return pb((1, resources), *[(n, v) for n, v in request.items() if n != 1]), "application/x-protobuf"


def send(f, name):
    s, (form, _), data = f.server(), FILES[name], content(name)
    service = service_of(name)
    if form == "pprof":
        series = pb((1, [pb((1, k), (2, v)) for k, v in {"__name__": "real", "service_name": service}.items()]), (2, pb((1, data))))
        return s.call("POST", PUSH, pb((1, series)), {"Content-Type": "application/proto"}, push=True)
    if form == "otlp":
        body, kind = marked(name, data)
        return s.call("POST", "/v1development/profiles", body, {"Content-Type": kind}, push=True)
    parts, headers = data, {}
    if form == "jfr":
        parts, headers = multipart(jfr=data, **({"labels": content(LABELS_PART[name])} if name in LABELS_PART else {}))
    if form == "trie" and data[:2] == b"\x1f\x8b":
        parts = gzip.decompress(data)
    app = service + SUFFIX.get(name, ("",))[0]
    spy = {"spyName": "flametree"} if form == "jfr" else {}  # the rate of the facts counts more than that of a recording
    return s.ingest(app, parts, headers, format=INGEST[form], **{"from": str(FROM), "until": str(FROM + 10), "sampleRate": "100"}, **spy)


@pytest.fixture(scope="module")
def f():
    with Flametree(*SETTINGS) as f:
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            f.replies = dict(zip(NAMES, pool.map(lambda name: send(f, name), NAMES)))
        yield f


@pytest.fixture(scope="module", params=["heads", "segments"])
def s(f, request):
    if request.param == "segments":
        flush(f)
    return f.server()


# ---- asking

TIME = {"start": 1, "end": now_ms() + 3_600_000}


def export(s, of, type):
    message = pb((1, type), (2, of), (3, TIME["start"]), (4, TIME["end"]))
    reply = s.call("POST", "/" + QUERIER + "SelectMergeProfile", message, {"Content-Type": "application/proto"})
    return reader.pprof(reply.expect(200).body)


def graph(s, of, type):
    g = s.ok("SelectMergeStacktraces", profileTypeID=type, labelSelector=of, maxNodes=1 << 20, **TIME)["flamegraph"]
    samples, nodes = reader.bars(g["names"], [level["values"] for level in g.get("levels", [])])
    got = check.measures(samples, 0)
    assert got["sum"] == int(g.get("total", 0))
    # A bar without width has none above it: where values are negative, not all nodes have bars of their own.
    assert got["tree_nodes"] == nodes or min(x["values"][0] for x in samples) < 0
    return got


def summed(s, of, type):
    """One step of all time."""
    got = s.ok("SelectSeries", profileTypeID=type, labelSelector=of, step=TIME["end"] / 1000, **TIME)
    return sum(p["value"] for row in got.get("series", []) for p in row["points"])


def types(s, of):
    rows = s.ok("Series", UTF8, matchers=[of], labelNames=["__profile_type__"], **TIME).get("labelsSet", [])
    return {label["value"] for row in rows for label in row.get("labels", [])}


def labels(s, of):
    """{name: number of values}"""
    rows = s.ok("Series", UTF8, matchers=[of], labelNames=[], **TIME).get("labelsSet", [])
    found = {}
    for row in rows:
        for label in row.get("labels", []):
            found.setdefault(label["name"], set()).add(label.get("value", ""))
    return {name: len(values) for name, values in found.items()}


# ---- what is wanted

def scaled(t, scale):
    return {"sum": t["sum"] * scale, **{k: t[k] for k in ("nonzero_stacks", "tree_nodes") if k in t},
            **{k: [[f, v * scale] for f, v in t[k]] for k in ("top_self", "top_total") if k in t}}


def of_pprof(name, facts):
    """{profile type: facts} of a file of pprof."""
    if name in NEGATIVE:  # no facts: counted here
        head, samples = reader.pprof(content(name))
        rows = [{"type": t, "unit": u, **check.measures(samples, i)} for i, (t, u) in enumerate(head["types"])]
    else:
        rows = [dict(t) for t in facts["by_type"]]
        if name in check.DANGLING:
            for t in rows:
                t["tree_nodes"] += 1
                t.pop("top_self")
    period = (facts["period_type"] or "/").replace("/", ":")
    return {"real:%s:%s:%s" % (t["type"], t["unit"], period): scaled(t, 1) for t in rows}


def of_otlp(name, facts):
    rows = {}
    for t in facts["by_type"]:
        sent, period = t["type"].rsplit(":", 1)
        if sent == "samples/count per cpu/nanoseconds":
            rows["process_cpu:cpu:nanoseconds:cpu:nanoseconds"] = scaled(t, int(period))
        else:  # without a period a type has its own name
            type, unit = sent.split(" per ")[0].split("/")
            rows["%s:%s:%s::" % (type, type, unit)] = scaled(t, 1)
    return rows


def of_speedscope(facts):
    rows = {}
    for p in facts["profiles"]:
        id, scale = {"none": ("process_cpu:cpu:nanoseconds:cpu:nanoseconds", CPU_SAMPLE), "seconds": ("wall:wall:nanoseconds:cpu:nanoseconds", 10**9),
                     "bytes": ("memory:samples:bytes::", 1)}[p["unit"]]
        one = scaled({k: p[k] for k in ("sum", "tree_nodes", "top_self", "top_total")}, scale * len(facts["profiles"]))
        if id in rows:
            assert rows[id] == one  # files of two profiles have the same stacks in both
        rows[id] = one
    return rows


def wanted(name):
    form, facts = FILES[name]
    if form == "pprof":
        return of_pprof(name, facts)
    if form == "otlp":
        return of_otlp(name, facts)
    if form == "speedscope":
        return of_speedscope(facts)
    if form == "jfr":
        periods = {"process_cpu": "cpu:nanoseconds", "wall": "wall:nanoseconds", "mutex": "mutex:count", "block": "block:count", "memory": "space:bytes"}
        period = lambda p, t: {"live": "objects:count", "malloc_objects": ":", "malloc_bytes": ":"}.get(t["type"], periods[p["__name__"]])
        rows = {"%s:%s:%s:%s" % (p["__name__"], t["type"], t["unit"], period(p, t)): scaled(t, 1) for p in facts["profiles"].values() for t in p["by_type"]}
        return rows | JFR_MORE.get(name, {})
    if form in ("collapsed", "trie", "tree"):
        _, id, scale = SUFFIX.get(name, ("", "process_cpu:cpu:nanoseconds:cpu:nanoseconds", CPU_SAMPLE))
        return {id: scaled(facts, scale)}
    return of_other(name, form, facts)


def of_other(name, form, facts):
    """What the client sends of formats that a server does not know by themselves."""
    if form == "perf":  # as stacks of stackcollapse-perf.pl, whose frames have no offsets; two files have no facts about it
        return {"process_cpu:cpu:nanoseconds:cpu:nanoseconds": {"sum": (facts["sum"] or SAMPLES[name]) * CPU_SAMPLE}}
    if form == "cpuprofile":  # wall is the time between samples, of which there are no facts but that of all
        return {"wall:samples:count:wall:nanoseconds": scaled(facts, 1), "wall:wall:nanoseconds:wall:nanoseconds": {}}
    if form == "heapprofile":
        return {"memory:inuse_space:bytes::": scaled(facts, 1)}
    kinds = {"contentionz": ("mutex", "contentions:count"), "cpu": ("process_cpu", "cpu:nanoseconds"), "java cpu": ("process_cpu", "cpu:nanoseconds"),
             "go count": ("threadcreate", "threadcreate:count")}
    first, period = kinds.get(facts["kind"], ("memory", "space:bytes"))
    return {"%s:%s:%s" % (first, type.replace("/", ":"), period): {"sum": value} for type, value in zip(facts["sample_types"], facts["sums"])}


def named(samples):
    """What flame graphs have of stacks: frames without a name are called by their address, the empty stack is one too."""
    return [{**x, "stack": x["stack"] or ["[unknown]"]} for x in samples]


# What the facts leave out: sleeping samples of the wall clock, and profiles of samples without a stack alone.
JFR_MORE = {"jfr/async-profiler.jfr.gz": {"wall:wall:nanoseconds:wall:nanoseconds": {"sum": 199551 * CPU_SAMPLE}},
            "jfr/jmc-flush-incremental-metadata.jfr": {"mutex:contentions:count:mutex:count": {}, "mutex:delay:nanoseconds:mutex:count": {}}}
LARGE = {"tree/diff-left.tree.bin"}  # 161,861 stacks: one way to ask is enough
GRAPH = ("sum", "tree_nodes", "top_self", "top_total")


@needs_corpus
@pytest.mark.parametrize("name", [n for n in NAMES if n not in REFUSED])
def test_answers_have_the_facts(f, s, name):
    reply, of, want = f.replies[name], selector(name), wanted(name)
    reply.expect(200)
    assert types(s, of) == {id for id, t in want.items() if t.get("sum", 1)}
    for id, t in want.items():
        if not t.get("sum", 1):
            continue
        if name in LARGE:
            assert not check.compare(of, graph(s, of, id), {k: v for k, v in t.items() if k in GRAPH})
            continue
        samples = export(s, of, id)[1]
        stacks = [x for x in samples if x["stack"] != check.UNKNOWN] if FILES[name][0] == "jfr" else samples
        got = check.measures(stacks, 0)
        facts = {k: v for k, v in t.items() if k in next((kept for names, kept in ONLY.items() if re.match(names, name)), t)}
        wrong = check.compare(of, got, facts)
        assert not wrong, (id, wrong)
        assert summed(s, of, id) == pytest.approx(sum(x["values"][0] for x in samples), rel=1e-12), id
        kept = ("sum",) if name in NEGATIVE else GRAPH
        wrong = check.compare(of, graph(s, of, id), {k: v for k, v in check.measures(named(samples), 0).items() if k in kept})
        assert not wrong, (id, wrong)


@needs_corpus
@pytest.mark.parametrize("name", [n for n, (form, facts) in FILES.items() if n not in REFUSED and facts.get("labels")])
def test_labels_of_samples_are_those_of_the_facts(f, s, name):
    want = {k: n for k, n in FILES[name][1]["labels"].items() if k not in NO_LABELS}
    assert {k: n for k, n in labels(s, selector(name)).items() if not k.startswith("__") and k != "service_name"} == want


@needs_corpus
@pytest.mark.parametrize("name", [n for n, (form, _) in FILES.items() if n not in REFUSED and form == "otlp"])
def test_attributes_become_labels(f, s, name):
    facts = FILES[name][1]
    want = {*facts["resource_attribute_keys"], *facts["sample_attribute_keys"], MARK} - EMPTY.get(name, set())
    assert {k for k in labels(s, selector(name)) if not k.startswith("__") and k != "service_name"} == want


@needs_corpus
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused_is_said(f, s, name):
    status, text = REFUSED[name]
    f.replies[name].expect(status, text)
    assert types(s, selector(name)) == set()
