"""Small inputs in which value was once lost, and more of the same kinds. Each is sent as an agent or a person would, and what comes out is known: the sum, and
the frames that it lies in. Files are in folders beside this one; other inputs are made here (make.py).
"""
import concurrent.futures
import gzip
import json
import os
import re
import signal
import subprocess
import time
import urllib.parse

import pytest
from cli import ok, run
from client import CPU, PUSH, QUERIER, Pprof, multipart, now_ms, pb, read_pprof, select, unique
from flametree import BIN, Flametree, flush
from jfr import Jfr

import make
from totals import CLIENT, NATIVE, Question, check, law, totals

ALL = NATIVE + CLIENT
HERE = os.path.dirname(os.path.abspath(__file__))
MINUTE = 60 * 10**9
UNKNOWN = "[unknown]"
MEMORY = "memory:%s:%s:space:bytes"


@pytest.fixture(scope="module")
def f():
    with Flametree("--limits.reject_older_than=0", "--limits.max_query_length=0", "--ingester.head_age=20000d") as f:
        yield f


@pytest.fixture
def s(f):
    f.check_alive()
    return f.server()


def around(at_ns=None):
    """A range in ms that has the time well inside; without one the last minutes."""
    if at_ns is None:
        return now_ms() - 600_000, now_ms() + 60_000
    return at_ns // 10**6 - 60_000, at_ns // 10**6 + 60_000


def adds_up(s, service, total, type=CPU, at_ns=None, ways=ALL):
    """All ways to ask say the total; returns {stack: self}."""
    check(s, Question(type, select(service), *around(at_ns), step_ms=20_000, group_by=["service_name"]), total, ways)
    start, end = around(at_ns)
    return s.stacks(service, type, start=start, end=end, maxNodes=1 << 20)


def types(s, service):
    start, end = around()
    return set(s.types(service)) if start else set()


def told(f):
    """{reason: parts} of all that was told since the start."""
    found = {}
    for line in f.operator().call("GET", "/metrics").expect(200).text.splitlines():
        m = re.match(r'flametree_distributor_(?:discarded|mended)_parts_total\{.*reason="(\w+)".*\} (\d+)$', line)
        if m:
            found[m[1]] = found.get(m[1], 0) + int(m[2])
    return found


def told_since(f, before):
    return {k: n - before.get(k, 0) for k, n in told(f).items() if n != before.get(k, 0)}


def push_file(f, path, service, *args):
    """By the client, as a person does."""
    return ok("push", path, "--time", "now", "--label", "service_name=" + service, *args, url=f.url)


def converted(path, *args):
    """{stack: value} that the client makes of a file."""
    done = run("convert", path, "-", "--to", "folded", *args)
    assert done.returncode == 0, done
    return {stack: int(n) for stack, n in (line.rsplit(" ", 1) for line in done.stdout.splitlines())}


# ---- sums that do not fit

HUGE = [("two-of-half", [2**62, 2**62]), ("the-largest-alone", [2**63 - 1]), ("the-largest-and-one", [2**63 - 1, 1]), ("many-of-half", [2**62] * 5), ("two-of-the-least", [-2**62, -2**62, -2**62])]


@pytest.mark.parametrize("values", [h[1] for h in HUGE], ids=[h[0] for h in HUGE])
def test_a_sum_that_does_not_fit_spoils_no_answer_of_others(values):
    """One tenant has services whose sums fit and one whose sum may not."""
    with Flametree() as f:
        s, at = f.server(), time.time_ns() - MINUTE
        for i, value in enumerate(values):
            s.push({"__name__": "process_cpu", "service_name": "bad", "k": str(i)}, Pprof(("m;x", value), time_ns=at + i))
        for service, function, value in (("good", "fits", 12), ("other", "fits_too", 30)):
            s.push({"__name__": "process_cpu", "service_name": service}, Pprof(("m;" + function, value), time_ns=at)).expect(200)
        for _ in range(2):  # from memory, then from the store
            others_are_right(s, at)
            flush(f)


def others_are_right(s, at):
    start, end = around(at)
    ask = {"profileTypeID": CPU, "start": start, "end": end}
    for everything in ("{}", '{service_name=~".+"}'):
        rows = s.ok("SelectSeries", labelSelector=everything, step=60, groupBy=["service_name"], **ask)["series"]
        sums = {row["labels"][0]["value"]: sum(p["value"] for p in row["points"]) for row in rows}
        assert (sums.get("good"), sums.get("other")) == (12, 30), sums
        graph = s.ok("SelectMergeStacktraces", labelSelector=everything, maxNodes=1 << 20, **ask)["flamegraph"]
        own = dict(zip_selves(graph))
        assert (own.get("fits"), own.get("fits_too")) == (12, 30), s.last
        table = s.ok("SelectMergeStacktraces", labelSelector=everything, format="PROFILE_FORMAT_FUNCTIONS", **ask)["functions"]
        assert {r["name"]: r.get("self") for r in table["functions"]}.get("fits") == "12", s.last
        s.ok("SelectHeatmap", labelSelector=everything, step=60, queryType=1, groupBy=["service_name"], **ask)
        for shape in ("TREE", "DOT", "PPROF"):
            s.ok("SelectMergeStacktraces", labelSelector=everything, format="PROFILE_FORMAT_" + shape, **ask)
        s.call("GET", "/pyroscope/render?" + urllib.parse.urlencode({"query": CPU + everything, "from": start, "until": end})).expect(200)
    assert adds_up(s, "good", 12, at_ns=at) == {"m;fits": 12}
    assert {"good", "other", "bad"} >= set(s.ok("LabelValues", name="service_name", matchers=["{}"], start=start, end=end)["names"]) >= {"good", "other"}


def zip_selves(graph):
    for level in graph["levels"]:
        values = list(map(int, level["values"]))
        for i in range(0, len(values), 4):
            yield graph["names"][values[i + 3]], values[i + 2]


def test_the_largest_value_is_itself(s):
    """It fits, so it is told like any other."""
    service = s.send(("a", 2**63 - 1))
    graph = s.flamegraph(service)
    assert int(graph["total"]) == 2**63 - 1, graph


# ---- frames without a name

def located(*samples, mappings=(), types=(("cpu", "nanoseconds"),)):
    """A profile of samples (frames root first, value); a frame is a name, or (address, number of its mapping or 0)."""
    p = Pprof(types=types, time_ns=time.time_ns() - MINUTE)
    for file in mappings:
        p.mappings.append([len(p.mappings) + 1, 0x1000 * 2**len(p.mappings), 0x1000 * 2**(len(p.mappings) + 8), 0, p.text(file), p.text("abcdef%d" % len(p.mappings)), 0])
    for frames, value in samples:
        ids = []
        for frame in frames:
            if isinstance(frame, str):
                ids.append(p.location(frame))
            else:
                address, mapping = frame
                ids.append(p.once(p.locations, frame, [len(p.locations) + 1, mapping and mapping + 1, address, []], len(p.locations) + 1))
        p.add(ids, value)
    return p


ADDRESS = [  # profile, {stack as a regular expression: value}
    ("as-libraries-without-symbols-have-them",
     located((["m", (0x1234, 1)], 7), ([(0x1234, 1), (0x5678, 1)], 8), (["m", (0x9abc, 0), "k"], 9), mappings=["/usr/lib/libc.so.6"]),
     {r"m;libc\.so\.6[!+]0x[0-9a-f]*234": 7, r"libc\.so\.6[!+]0x[0-9a-f]*234;libc\.so\.6[!+]0x[0-9a-f]*678": 8, "m;0x9abc;k": 9}),
    ("several-mappings", located(([(0x2100, 1)], 1), ([(0x4100, 2)], 2), ([(0x2100, 1), (0x4100, 2)], 4), mappings=["/a/liba.so", "/b/libb.so.1"]),
     {r"liba\.so[!+]0x[0-9a-f]+": 1, r"libb\.so\.1[!+]0x[0-9a-f]+": 2, r"liba\.so[!+]0x[0-9a-f]+;libb\.so\.1[!+]0x[0-9a-f]+": 4}),
    ("address-zero", located((["m", (0, 0)], 3), (["m"], 4)), {r"m;\[unknown\]": 3, "m": 4}),
    ("address-zero-in-a-mapping", located((["m", (0, 1)], 3), (["m"], 4), mappings=["/usr/lib/libc.so.6"]), {r"m;(\[?libc\.so\.6\]?([!+]0x0|!?\[unknown\])?|\[unknown\])": 3, "m": 4}),
    ("mapping-without-file", located((["m", (0x2345, 1)], 3), ([(0x2345, 1)], 4), mappings=[""]), {r"m;([^;]*[!+])?0x[0-9a-f]*345": 3, r"([^;]*[!+])?0x[0-9a-f]*345": 4}),
    ("the-same-address-in-two-mappings", located(([(0x4100, 1)], 1), ([(0x4100, 2)], 2), mappings=["/a/liba.so", "/b/libb.so"]), {r"liba\.so[!+]0x[0-9a-f]+": 1, r"libb\.so[!+]0x[0-9a-f]+": 2}),
    ("no-frame-has-a-name", located(([(0x10, 0), (0x20, 0), (0x30, 0)], 6)), {"0x10;0x20;0x30": 6}),
    ("address-of-64-bits", located((["m", (2**64 - 16, 0)], 5)), {"m;0xfffffffffffffff0": 5}),
    ("sample-without-location", located(([], 5), (["m"], 2)), {r"\[unknown\]": 5, "m": 2}),
]


@pytest.mark.parametrize("profile, wanted", [a[1:] for a in ADDRESS], ids=[a[0] for a in ADDRESS])
def test_frames_without_a_name_are_nodes(f, s, profile, wanted, tmp_path):
    service = unique()
    s.push({"__name__": "process_cpu", "service_name": service}, profile).expect(200)
    for _ in range(2):
        has(adds_up(s, service, sum(wanted.values())), wanted)
        flush(f)
    path = tmp_path / "p.pb"
    path.write_bytes(profile.encode())
    assert sum(converted(str(path)).values()) == sum(wanted.values())


def has(got, wanted):
    """Stacks by regular expressions, one for one."""
    found = {pattern: sum(v for stack, v in got.items() if re.fullmatch(pattern, stack)) for pattern in wanted}
    assert found == wanted, got
    assert all(stack and all(stack.split(";")) for stack in got), got


EMPTY = [
    ("alone-and-as-leaf", [([""], 6), (["m", ""], 5), (["m", "ok"], 1)]), ("at-the-root", [(["", "m"], 3)]), ("in-the-middle", [(["m", "", "k"], 3), (["m", "k"], 2)]),
    ("one-below-the-other", [(["m", "", ""], 3), (["", "", ""], 4)]), ("only-these", [([""], 1)]),
]


@pytest.mark.parametrize("address", [0, 0x4711])
@pytest.mark.parametrize("samples", [e[1] for e in EMPTY], ids=[e[0] for e in EMPTY])
def test_functions_with_an_empty_name_are_nodes(s, samples, address, tmp_path):
    p, service = Pprof(), unique()
    for frames, value in samples:
        p.add([p.location(frame, address=address if not frame else 0) for frame in frames], value)
    s.push({"__name__": "process_cpu", "service_name": service}, p).expect(200)
    got = adds_up(s, service, sum(v for _, v in samples))
    depth = sorted((len(frames), v) for frames, v in samples)
    assert sorted((len(stack.split(";")), v) for stack, v in got.items()) == depth and all(all(stack.split(";")) for stack in got), got
    path = tmp_path / "p.pb"
    path.write_bytes(p.encode())
    assert sum(converted(str(path)).values()) == sum(v for _, v in samples)


def test_a_location_that_says_nothing_does_not_take_its_sample_with_it(s):
    p, service = Pprof(), unique()
    p.locations.append([1, 0, 0, []])
    p.add([p.location("m"), 1, p.location("k")], 6)
    p.add([p.location("m"), p.location("k")], 5)
    s.push({"__name__": "process_cpu", "service_name": service}, p).expect(200)
    has(adds_up(s, service, 11), {r"m;[^;]+;k|m;k": 11})


DANGLING = [("location", lambda p: p.add([p.location("m"), 777], 3)), ("only-location", lambda p: p.add([777], 3)),
            ("function", lambda p: (p.locations.append([900, 1, 0, [[888, 1]]]), p.add([p.location("m"), 900], 3))),
            ("mapping", lambda p: (p.locations.append([900, 99, 0xbeef, []]), p.add([p.location("m"), 900], 3))),
            ("mapping-of-a-name", lambda p: (p.locations.append([900, 99, 0xbeef, [[p.function("f"), 1]]]), p.add([p.location("m"), 900], 3)))]


@pytest.mark.parametrize("kind, spoil", DANGLING, ids=[d[0] for d in DANGLING])
def test_ids_that_are_not_in_the_file_keep_the_value(f, s, kind, spoil):
    p, service, before = Pprof(("m;ok", 4)), unique(), told(f)
    spoil(p)
    s.push({"__name__": "process_cpu", "service_name": service}, p).expect(200)
    assert adds_up(s, service, 7)["m;ok"] == 4
    if kind in ("location", "only-location", "function"):
        assert sum(told_since(f, before).get(r, 0) for r in ("unknown_frame", "unknown_stack")) >= 1


# ---- negative values

def lines(*samples, types=(("alloc_objects", "count"), ("alloc_space", "bytes")), name="memory", period=("space", "bytes")):
    """Samples (frames root first, line of the leaf, values)."""
    p = Pprof(types=types, period_type=period, time_ns=time.time_ns() - MINUTE)
    for frames, line, values in samples:
        p.add([p.location(f) for f in frames[:-1]] + [p.location(frames[-1], line=line)], values)
    return name, p


NEGATIVE = [  # samples, {type: total}, {stack: bytes}
    ("pair-at-two-lines", [(["work", "start"], 480, [-10923, -524312]), (["work", "start"], 483, [10923, 524312]), (["work", "z"], 1, [3, 300])], [3, 300], {"work;z": 300}),
    ("pair-at-one-line", [(["a"], 1, [-5, -50]), (["a"], 1, [5, 50]), (["b"], 1, [1, 10])], [1, 10], {"b": 10}),
    ("more-than-one-pair", [(["a"], 1, [-5, -50]), (["a"], 2, [2, 20]), (["a"], 3, [4, 40]), (["b"], 1, [1, 10])], [2, 20], {"a": 10, "b": 10}),
    ("one-type-only", [(["a"], 1, [0, -50]), (["a"], 2, [7, 50]), (["b"], 1, [1, 10])], [8, 10], {"b": 10}),
    ("first-the-positive", [(["a"], 1, [5, 50]), (["b"], 1, [1, 10]), (["a"], 1, [-5, -50])], [1, 10], {"b": 10}),
    ("what-stays-is-negative", [(["a"], 1, [-5, -50]), (["a"], 2, [3, 30]), (["b"], 1, [9, 90])], [7, 70], None),
    ("all-is-negative", [(["a"], 1, [-5, -50])], [-5, -50], None),
    ("nothing-stays", [(["a"], 1, [-5, -50]), (["a"], 2, [5, 50])], [0, 0], {}),
]


@pytest.mark.parametrize("samples, sums, stacks", [n[1:] for n in NEGATIVE], ids=[n[0] for n in NEGATIVE])
def test_negative_values_are_merged_by_stack_and_kept(f, s, samples, sums, stacks):
    name, profile = lines(*samples)
    service = unique()
    s.push({"__name__": name, "service_name": service}, profile).expect(200)
    positive = stacks is not None
    for ways in (ALL if positive else NATIVE, NATIVE):
        for (type, unit), total in zip((("alloc_objects", "count"), ("alloc_space", "bytes")), sums):
            start, end = around()
            q = Question(MEMORY % (type, unit), select(service), start, end)
            wrong = law(totals(s, q, ways), q, total)
            assert wrong is None, "\n" + wrong
        if positive:
            assert s.stacks(service, MEMORY % ("alloc_space", "bytes"), maxNodes=1 << 20) == stacks
        flush(f)


# ---- V8

@pytest.mark.parametrize("name", make.NEGATIVE_DELTAS)
def test_samples_out_of_order_are_sorted_by_time(f, s, name, tmp_path):
    samples, deltas, end = make.NEGATIVE_DELTAS[name]
    wanted, path = make.times_of(samples, deltas, end=end), os.path.join(HERE, "v8-negative-delta", name + ".cpuprofile")
    for way in ("push", "ingest"):
        service = unique()
        if way == "push":
            push_file(f, path, service)
        else:
            s.ingest(service, make.file_of("v8-negative-delta/%s.cpuprofile" % name), format="cpuprofile").expect(200)
        wall = [t for t in s.types(service) if ":nanoseconds:" in t]
        count = [t for t in s.types(service) if t.split(":")[1:3] == ["samples", "count"]]
        got = adds_up(s, service, sum(wanted.values()), wall[0])
        assert {stack.split(";")[-1]: v for stack, v in got.items()} == wanted
        assert sum(s.stacks(service, count[0]).values()) == len(samples)
    assert {stack.split(";")[-1]: v for stack, v in converted(path, "--type", "wall").items()} == wanted


# ---- speedscope

@pytest.mark.parametrize("name", make.UNCLOSED)
def test_frames_left_open_close_at_the_end(f, s, name):
    wanted, path = make.UNCLOSED[name][1], os.path.join(HERE, "speedscope-unclosed", name + ".speedscope.json")
    for way in ("push", "ingest"):
        service, before = unique(), told(f)
        if way == "push":
            push_file(f, path, service)
        else:
            s.ingest(service, make.file_of("speedscope-unclosed/%s.speedscope.json" % name), format="speedscope").expect(200)
        assert adds_up(s, service, sum(wanted.values()), one_type(s, service, "nanoseconds")) == wanted
        assert told_since(f, before).get("unclosed_frame", 0) >= 1
    assert converted(path) == wanted


def one_type(s, service, unit):
    found = [t for t in s.types(service) if t.split(":")[2] == unit]
    assert len(found) == 1 == len(s.types(service)), s.types(service)
    return found[0]


@pytest.mark.parametrize("name", make.COUNTS)
def test_unit_none_is_a_count(f, s, name):
    wanted = make.COUNTS[name][1]
    for way in ("push", "ingest"):
        service = unique()
        if way == "push":
            push_file(f, os.path.join(HERE, "speedscope-unit-none", name + ".speedscope.json"), service)
        else:
            s.ingest(service, make.file_of("speedscope-unit-none/%s.speedscope.json" % name), format="speedscope").expect(200)
        kind = one_type(s, service, "count")
        adds_up(s, service, sum(wanted.values()), kind)
        got = {(part, stack): v for part in {p for p, _ in wanted} for stack, v in s.stacks(service, kind, 'profile_name="%s"' % part).items()}
        assert got == wanted


# ---- byte order marks

MARKED = {"two-lines.folded": "folded", "windows.folded": "folded", "comment.folded": "folded", "each.lines": "lines", "speedscope.json": "speedscope", "v8.cpuprofile": "cpuprofile",
          "v8.heapprofile": "heapprofile", "go.legacy": "legacy", "script.perf": "perf"}


@pytest.mark.parametrize("name", MARKED)
def test_a_byte_order_mark_is_no_part_of_a_name(f, s, name, tmp_path):
    """The same file without it is stored the same, by each way."""
    form, data, path = MARKED[name], make.file_of("byte-order-mark/" + name), tmp_path / ("plain-" + name)
    assert data.startswith(make.BOM)
    path.write_bytes(data[len(make.BOM):])
    seen = []
    for way in ("push", "push plain", "ingest", "ingest plain"):
        service = unique()
        if way.startswith("push"):
            push_file(f, str(path) if "plain" in way else os.path.join(HERE, "byte-order-mark", name), service, *(["--format", "lines"] if form == "lines" else []))
        else:
            s.ingest(service, data[len(make.BOM):] if "plain" in way else data, format=form).expect(200)
        seen.append({t: s.stacks(service, t, maxNodes=1 << 20) for t in sorted(s.types(service))})
    assert seen[0] and seen[0] == seen[1] and seen[2] == seen[3], seen
    stacks = next(iter(seen[0].values()))
    assert not any("\ufeff" in stack for stack in stacks) and len({stack.split(";")[0] for stack in stacks}) <= (1 if form in ("folded", "lines") else 3), stacks
    options = ["--format", "lines"] if form == "lines" else []
    assert converted(os.path.join(HERE, "byte-order-mark", name), *options) == converted(str(path), *options)


def test_a_byte_order_mark_before_a_trace_of_chrome(f, s, tmp_path):
    event = {"name": "CpuProfile", "ph": "I", "pid": 1, "tid": 2, "ts": 1, "cat": "x", "args": {"data": {"cpuProfile": json.loads(make.cpuprofile([2, 3, 4], [0, 5, 7], end=1012))}}}
    sums = []
    for mark in (b"", make.BOM):
        path, service = tmp_path / "trace.json", unique()
        path.write_bytes(mark + json.dumps({"traceEvents": [event]}).encode())
        push_file(f, str(path), service)
        sums.append({t: s.stacks(service, t) for t in s.types(service)})
    assert sums[0] and sums[0] == sums[1], sums


# ---- values over time

def test_a_profile_of_known_duration_counts_in_the_steps_that_it_covers(f):
    """Four busy cores, told every 15 s: each step of 20 s has 80 s of CPU, by the client and by the API that is asked for it."""
    s, service, base = f.server(), unique(), (now_ms() // 60_000 - 40) * 60_000
    for i in range(120):
        s.push({"__name__": "process_cpu", "service_name": service}, Pprof(("m;x", 60 * 10**9), time_ns=(base + 15_000 * i) * 10**6, duration_ns=15 * 10**9)).expect(200)
    start, end = base, base + 1_800_000
    for step in (20, 7, 15, 40, 60, 110):
        rows = s.ok("SelectSeries", profileTypeID=CPU, labelSelector=select(service), start=start, end=end, step=step, spread=True)["series"]
        inner = [(int(p["timestamp"]), p["value"]) for p in rows[0]["points"]][2:-2]
        assert {round(v / step / 1e9, 6) for _, v in inner} == {4.0}, (step, inner[:6])
        assert sum(p["value"] for p in rows[0]["points"]) == 120 * 60 * 10**9
        said = json.loads(ok("series", CPU + select(service), "--from", str(start), "--until", str(end), "--step", "%ds" % step, "--format", "json", url=f.url))["series"][0]["points"]
        by = {(int(b["timestamp"]) - int(a["timestamp"])) / 1000 for a, b in zip(said, said[1:])}
        assert len(by) == 1, said[:5]
        assert {round(p["value"] / next(iter(by)) / 1e9, 6) for p in said[2:-2]} == {4.0} or {round(p["value"], 6) for p in said[2:-2]} == {4.0}, (step, said[:6])
    check(s, Question(CPU, select(service), start, end, 20_000), 120 * 60 * 10**9, ALL, 120)


TAILS = [  # seconds of profiles, step, end
    ("what-lies-after-the-last-step", [0, 30, 70, 100], 60, 100), ("a-step-that-divides", [0, 30, 60, 120], 60, 120), ("a-step-that-is-longer", [0, 3, 7, 10], 60, 10),
    ("one-millisecond-after", [0, 60, 60.001, 60.002], 60, 60.002), ("at-one-time", [0, 0, 0, 0], 15, 0), ("in-the-first-millisecond", [0.000749, 1, 2, 3], 2, 3),
    ("days", [0, 86_400, 86_400 * 30, 86_400 * 30 + 43_200], 86_400, 86_400 * 30 + 43_200),
]


@pytest.mark.parametrize("seconds, step, end", [t[1:] for t in TAILS], ids=[t[0] for t in TAILS])
def test_points_add_up_to_the_flame_graph_of_the_range(f, s, seconds, step, end):
    base, service = 1_700_000_000_000, unique()
    for i, at in enumerate(seconds):
        s.push({"__name__": "process_cpu", "service_name": service, "k": str(i)}, Pprof(("m;x", 2**i), time_ns=base * 10**6 + round(at * 10**9))).expect(200)
    for group in ([], ["k"]):
        check(s, Question(CPU, select(service), base, base + round(end * 1000), step * 1000, group), 15, ALL, 4)
    flush(f)
    check(s, Question(CPU, select(service), base, base + round(end * 1000), step * 1000), 15, NATIVE, 4)


# ---- names

NAMES = [("dash", {"process-description": "x"}), ("dot", {"process.description": "x"}), ("slash", {"k8s.io/name": "a/b"}), ("umlaut", {"größe": "ß"}), ("digit", {"1st": "2nd"}),
         ("underscore", {"_a": "b"}), ("several", {"a-b": "1", "a.b": "2", "a_b": "3"})]


@pytest.mark.parametrize("labels", [n[1] for n in NAMES], ids=[n[0] for n in NAMES])
def test_a_name_of_a_label_that_push_takes_is_taken_by_ingest(s, labels):
    one, other = unique(), unique()
    s.push({"__name__": "process_cpu", "service_name": one, **labels}, Pprof(("m;a", 5))).expect(200)
    s.ingest("%s{%s}" % (other, ",".join("%s=%s" % kv for kv in labels.items())), "m;a 5\n").expect(200)
    assert s.series(one, *labels) == s.series(other, *labels) == [labels]
    adds_up(s, other, 5 * 10**7)


@pytest.mark.parametrize("service", ["my shop", "größe", "a-b", "shop/eu", "shop:1"])
def test_a_name_of_a_service_that_push_takes_is_taken_by_ingest(s, service):
    own = "%s %s" % (unique(), service) if " " in service else unique() + service
    s.ingest(own, "m;a 5\n").expect(200)
    adds_up(s, own, 5 * 10**7)


TWICE = [("service", [("service_name", "%s"), ("service_name", "%s")], 200), ("label", [("service_name", "%s"), ("k", "1"), ("k", "1")], 200),
         ("three-times", [("k", "1"), ("service_name", "%s"), ("k", "1"), ("k", "1")], 200), ("name", [("service_name", "%s"), ("__name__", "process_cpu")], 200),
         ("two-values", [("service_name", "%s"), ("k", "1"), ("k", "2")], 400), ("two-services", [("service_name", "%s"), ("service_name", "other")], 400)]


@pytest.mark.parametrize("labels, status", [t[1:] for t in TWICE], ids=[t[0] for t in TWICE])
def test_a_label_twice_with_one_value_is_one_label(s, labels, status):
    service = unique()
    named = [("__name__", "process_cpu")] + [(k, v.replace("%s", service)) for k, v in labels]
    series = pb((1, [pb((1, k), (2, v)) for k, v in named]), (2, pb((1, gzip.compress(Pprof(("m;x", 3)).encode())))))
    s.call("POST", PUSH, pb((1, series)), {"Content-Type": "application/proto"}, push=True).expect(status)
    adds_up(s, service, 3 if status == 200 else 0, ways=NATIVE)
    if status == 200:
        assert s.series(service, "service_name", "k") == [dict((k, v) for k, v in named if k != "__name__")]


# ---- JFR

def jfr(kind):
    r = Jfr()
    if kind == "stack-0":
        r.sample(1, times=2).sample(2).sample(0, times=3)
    elif kind == "unknown-id":
        r.sample(1, times=2).sample(2).sample(9, times=3)
    elif kind == "only-stack-0":
        r.sample(0, times=6)
    else:
        r.sample(1, times=2).sample(2).sample(0).sample(9, times=2)
    return r


@pytest.mark.parametrize("kind", ["stack-0", "unknown-id", "only-stack-0", "both"])
def test_samples_of_java_without_a_stack_are_unknown(f, s, kind):
    service, before = unique(), told(f)
    body, headers = multipart(jfr=jfr(kind).encode())
    s.ingest(service, body, headers, format="jfr").expect(200)
    got, lost = adds_up(s, service, 60_000_000), 60_000_000 if kind == "only-stack-0" else 30_000_000
    assert got[UNKNOWN] == lost and (kind == "only-stack-0" or (got["App.work"], got["App.work;App.idle"]) == (20_000_000, 10_000_000)), got
    assert told_since(f, before).get("unknown_stack") == lost // 10**7


def test_allocations_of_java_without_a_stack_are_unknown(f, s):
    service, before = unique(), told(f)
    body, headers = multipart(jfr=Jfr().tlab(1, 100).tlab(0, 300).tlab(9, 500).encode())
    s.ingest(service, body, headers, format="jfr").expect(200)
    got = adds_up(s, service, 900, MEMORY % ("alloc_in_new_tlab_bytes", "bytes"))
    assert got == {"App.work": 100, UNKNOWN: 800}
    assert adds_up(s, service, 3, MEMORY % ("alloc_in_new_tlab_objects", "count"))[UNKNOWN] == 2
    assert told_since(f, before).get("unknown_stack") == 2


# ---- times

BAD_TIMES = ["abc", "-5", "now-", "2026-13-45T00:00:00Z", "1e400", "tuesday"]


@pytest.mark.parametrize("value", BAD_TIMES)
@pytest.mark.parametrize("name", ["from", "until"])
def test_a_time_that_cannot_be_read_is_refused_by_name(s, name, value):
    service = unique()
    other = {"from": str(int(time.time()) - 60), "until": str(int(time.time()) - 50)}
    s.ingest(service, "m;a 5\n", **{**other, name: value}).expect(400, name)
    assert s.types(service) == []
    query = urllib.parse.urlencode({"query": CPU + select(service), **other, name: value})
    s.call("GET", "/pyroscope/render?" + query).expect(400, name)
    sides = {"leftQuery": CPU + select(service), "rightQuery": CPU + select(service), "leftFrom": other["from"], "leftUntil": other["until"], "rightFrom": other["from"],
             "rightUntil": other["until"]}
    for side in ("left", "right"):
        parameter = side + name.capitalize()
        s.call("GET", "/pyroscope/render-diff?" + urllib.parse.urlencode({**sides, parameter: value})).expect(400, parameter)


def test_a_range_that_ends_before_it_begins_is_refused_by_name(s):
    service, now = unique(), int(time.time())
    for first, last in ((now, now - 10), (now - 50, now - 3600)):
        reply = s.ingest(service, "m;a 5\n", **{"from": str(first), "until": str(last)}).expect(400)
        assert "from" in reply.message() and "until" in reply.message(), reply
    assert s.types(service) == []


def test_times_that_can_be_read_are_read(s):
    at = int(time.time()) - 100
    for text in (str(at), "%d000" % at, "%d000000" % at, "%d000000000" % at, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at)), time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(at)),
                 time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(at))):
        service = unique()
        s.ingest(service, "m;a 5\n", **{"from": text, "until": None}).expect(200)
        check(s, Question(CPU, select(service), at * 1000, at * 1000), 5 * 10**7)


# ---- periods

@pytest.mark.parametrize("name, types, period_type, period, type", [
    ("process_cpu", (("cpu", "nanoseconds"),), ("cpu", "nanoseconds"), 10_000_000, CPU), ("process_cpu", (("cpu", "nanoseconds"),), ("cpu", "nanoseconds"), 5_025_125, CPU),
    ("memory", (("alloc_space", "bytes"),), ("space", "bytes"), 1_048_576, MEMORY % ("alloc_space", "bytes")),
    ("mutex", (("delay", "nanoseconds"),), ("contentions", "count"), 7, "mutex:delay:nanoseconds:contentions:count"),
], ids=["cpu-100-hz", "cpu-199-hz", "memory", "mutex"])
def test_exported_profiles_have_the_period_that_was_pushed(f, s, name, types, period_type, period, type, tmp_path):
    service = unique()
    for at in (1, 2):  # two with one period
        s.push({"__name__": name, "service_name": service}, Pprof(("m;x", 30_000_000), types=types, period_type=period_type, period=period, time_ns=time.time_ns() - at * MINUTE)).expect(200)
    for state in range(2):
        start, end = around()
        body = pb((1, type), (2, select(service)), (3, start), (4, end))
        exported = read_pprof(s.call("POST", "/" + QUERIER + "SelectMergeProfile", body, {"Content-Type": "application/proto"}).expect(200).body)
        assert exported["fields"][12] == [period], state
        whole = s.ok("SelectMergeStacktraces", profileTypeID=type, labelSelector=select(service), format="PROFILE_FORMAT_PPROF")["pprof"]["profile"]
        assert int(whole["period"]) == period
        path = tmp_path / ("%d.pb.gz" % state)
        ok("query", type + select(service), "--format", "pprof", "--output", str(path), url=f.url)
        assert read_pprof(path.read_bytes())["fields"][12] == [period]
        flush(f)
    adds_up(s, service, 60_000_000, type)


# ---- settings of a store

GOOD = {"storage.kind": "s3", "s3.bucket": "prof", "s3.endpoint": "http://127.0.0.1:1", "s3.access_key": "a", "s3.secret_key": "b"}
BAD_SETTINGS = [
    ("s3.endpoint", "s3.eu-west-1.amazonaws.com"), ("s3.endpoint", "ftp://s3.example"), ("s3.endpoint", "http://127.0.0.1:1/path"), ("s3.endpoint", "http://"),
    ("s3.endpoint", "http://host:99999"), ("s3.bucket", "s3://x/y"), ("s3.bucket", "My_Bucket"), ("s3.bucket", "ab"), ("s3.bucket", "a/b"), ("s3.bucket", "x" * 64),
]


@pytest.mark.parametrize("name, value", BAD_SETTINGS, ids=["%s=%s" % b for b in BAD_SETTINGS])
@pytest.mark.parametrize("form", ["file", "flags"])
def test_the_check_of_settings_says_what_a_start_says(name, value, form, tmp_path):
    settings = {**GOOD, name: value}
    if form == "file":
        path = tmp_path / "c.yaml"
        path.write_text("".join("%s:\n%s" % (section, "".join("  %s: %s\n" % (k.split(".")[1], json.dumps(v)) for k, v in settings.items() if k.startswith(section + ".")))
                                for section in ("storage", "s3")))
        args = ["--config", str(path)]
    else:
        args = ["--%s=%s" % kv for kv in settings.items()]
    checks = [[*args, "--check-config"]] + ([["config", "check", str(path)]] if form == "file" else [])
    said = [subprocess.run([os.path.join(BIN, "flametree"), *check], capture_output=True, text=True, timeout=60) for check in checks]
    assert all(done.returncode and name in done.stderr for done in said), said
    started = start_of(args, tmp_path)
    assert started is None or name not in started or started == said[0].stderr.splitlines()[-1], (started, said)


def start_of(args, tmp_path):
    """The last line of a start that fails; None if it does not within the time that it needs to begin to listen."""
    process = subprocess.Popen([os.path.join(BIN, "flametree"), *args, "--server.listen=127.0.0.1:0", "--server.data_dir", str(tmp_path / "data"), "--self_profile.enabled=false"],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            reading = pool.submit(lambda: [line.rstrip("\n") for line in process.stderr])
            try:
                return reading.result(20)[-1]
            except concurrent.futures.TimeoutError:
                return None
            finally:
                if process.poll() is None:
                    process.send_signal(signal.SIGKILL)
    finally:
        process.wait()


def test_good_settings_of_a_store_are_valid():
    done = subprocess.run([os.path.join(BIN, "flametree"), "--check-config", *["--%s=%s" % kv for kv in GOOD.items()]], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done
