"""Values over time: points add up to the flame graph of the same range, at every level, and profiles of known duration are level lines."""
import json
import os
import random
import subprocess
import time
import urllib.parse

import pytest
from client import CPU, Pprof, select, table, unique
from flametree import AT_ONCE, TOPOLOGIES, Flametree, compact, deploy, flush

PROGRAM = os.path.join(os.environ.get("FLAMETREE_BIN", os.path.join(os.path.dirname(__file__), "../../build/asan")), "flametree")
MS, S, MINUTE, HOUR = 10**6, 10**9, 60 * 10**9, 3600 * 10**9
DAY = 24 * HOUR
START = (time.time_ns() // DAY - 3) * DAY
CORES = 4


def points(s, service, start, end, step, **more):
    """{time in seconds after start: sum over the groups}; times are ns."""
    got = s.ok("SelectSeries", profileTypeID=CPU, labelSelector=select(service), start=start // MS, end=end // MS, step=step, **more)
    out = {}
    for row in got.get("series", []):
        for p in row["points"]:
            at = (int(p["timestamp"]) - start // MS) / 1000
            out[at] = out.get(at, 0) + p.get("value", 0)
    return out


pytestmark = pytest.mark.each_value  # each case on one process or on six


@pytest.fixture(scope="module", params=TOPOLOGIES)
def own(request):
    """With our limits: those of the shared servers are Pyroscope's, which have a lead."""
    with deploy(request.param) as f:
        yield f


@pytest.fixture
def s(own):
    own.check_alive()
    return own.server()


# ---- the whole range

TAIL = ((0, 1), (30, 2), (70, 4), (100, 8))
RANGES = [
    ("all-of-it", 0, 100, 60, {0: 1, 60: 2, 120: 12}), ("one-step-longer-than-the-range", 0, 100, 1000, {0: 1, 1000: 14}),
    ("ends-on-a-step", 0, 120, 60, {0: 1, 60: 2, 120: 12}), ("nothing-before-the-start", 20, 100, 60, {60: 6, 120: 8}),
    ("both-ends-inside", 30, 70, 15, {0: 2, 45: 4}), ("an-instant", 70, 70, 60, {0: 4}), ("between-profiles", 31, 69, 7, {}),
]


@pytest.fixture(scope="module")
def tail(own):
    s, base = own.server(), time.time_ns() // MINUTE * MINUTE - 10 * MINUTE
    name = unique("tail")
    for at, value in TAIL:
        s.send(("a;b", value), service=name, time_ns=base + at * S)
    return name, base


@table("start, end, step, wanted", RANGES)
def test_points_add_up_to_the_graph_of_the_range(s, tail, start, end, step, wanted):
    name, base = tail
    got = points(s, name, base + start * S, base + end * S, step)
    assert got == {k: v for k, v in wanted.items()}, s.last
    graph = s.ok("SelectMergeStacktraces", profileTypeID=CPU, labelSelector=select(name), start=(base + start * S) // MS, end=(base + end * S) // MS)["flamegraph"]
    assert sum(got.values()) == int(graph.get("total", 0))


@table("seconds, at", [("ms-that-no-double-is", 1.001, 1001), ("a-hair-less", 1.0009999, 1000), ("binary", 1.25, 1250), ("one-ms", 0.001, 1)])
def test_a_step_is_the_ms_that_its_decimal_says(s, tail, seconds, at):
    """The product 1.001 * 1000 is less than 1001."""
    name, base = tail
    got = points(s, name, base + S, base + 31 * S, seconds)
    assert got == {-(-29_000 // at) * at / 1000: 2}


def test_the_starting_millisecond_is_of_the_first_point_to_its_last_ns(s):
    at = time.time_ns() // S * S - MINUTE
    name = unique("early")
    for ns, value in ((-1, 1), (749_897, 2), (999_999, 4), (MS, 8), (5 * S, 16), (5 * S + 1, 32)):
        s.send(("f", value), service=name, time_ns=at + ns)
    assert points(s, name, at, at + 5 * S, 1000) == {0: 6, 1000: 24}
    assert points(s, name, at, at + 5 * S, 1000, spread=True) == {0: 6, 1000: 24}  # they say no duration
    heat = s.ok("SelectHeatmap", profileTypeID=CPU, labelSelector=select(name), start=at // MS, end=at // MS + 5000, step=1000, queryType="HEATMAP_QUERY_TYPE_INDIVIDUAL")["series"]
    assert sum(sum(slot["counts"]) for slot in heat[0]["slots"]) == 4


def test_pyroscopes_step_before_the_start_is_a_limit_of_tenants():
    with Flametree("--limits.series_lead=true") as f:
        s, base = f.server(), time.time_ns() // MINUTE * MINUTE - 10 * MINUTE
        name = unique("lead")
        for at, value in TAIL:
            s.send(("a;b", value), service=name, time_ns=base + at * S)
        assert points(s, name, base + 70 * S, base + 100 * S, 60) == {0: 6, 60: 8}
        assert points(s, name, base + 70 * S, base + 100 * S, 60, spread=True) == {0: 4, 60: 8}


# ---- durations

def test_text_covers_the_time_that_its_upload_states(s):
    """From `from` to `until`, if both are sent."""
    at, name = time.time_ns() // MINUTE * MINUTE - 10 * MINUTE, unique("text")
    s.ingest(name, b"a 10\n", sampleRate="0", **{"from": str(at), "until": str(at + 10 * S)}).expect(200)
    s.ingest(name, b"a 7\n", sampleRate="0", **{"from": str(at), "until": None}).expect(200)
    ask = lambda **more: s.ok("SelectSeries", profileTypeID="process_cpu:samples:count::", labelSelector=select(name), start=at // MS, end=at // MS + 10_000, step=5, **more)
    assert [p["value"] for p in ask()["series"][0]["points"]] == [17]
    assert [p["value"] for p in ask(spread=True)["series"][0]["points"]] == [7, 5, 5]


@pytest.fixture(scope="module")
def busy(own):
    """Four busy cores for half an hour, in profiles of 15 s; no profile begins on a second."""
    s, base = own.server(), time.time_ns() // MINUTE * MINUTE - 40 * MINUTE
    name = unique("busy")
    profiles = [Pprof(("main;work", CORES * 15 * S), time_ns=base + 7_654_321 + i * 15 * S, duration_ns=15 * S) for i in range(120)]
    s.push({"__name__": "process_cpu", "service_name": name}, *profiles).expect(200)
    return name, base


def inner(got, step, length=1800):
    """Cores of the points that lie between the first and the last profile."""
    return {v / step / S for at, v in got.items() if step + 1 < at < length}


@table("step", [("shorter-than-a-profile", 7), ("longer", 20), ("a-multiple", 60), ("odd", 17.5)])
def test_busy_cores_are_a_level_line_if_values_are_spread(s, busy, step):
    name, base = busy
    got = points(s, name, base, base + 1900 * S, step, spread=True)
    assert s.last.headers["Flametree-Spread"] == "duration" and s.last.json()["spread"] == "duration"
    assert inner(got, step) == {CORES}
    assert sum(got.values()) == 120 * CORES * 15 * S
    plain = points(s, name, base, base + 1900 * S, step)
    assert s.last.headers["Flametree-Spread"] == "none" and "spread" not in s.last.json()
    assert sum(plain.values()) == sum(got.values())


def test_profiles_are_at_their_times_unless_a_spread_is_asked_for(s, busy):
    name, base = busy
    assert inner(points(s, name, base, base + 1800 * S, 20), 20) == {3, 6}


def test_a_header_asks_for_the_spread_too(s, busy):
    """For clients that cannot change their messages; Grafana's data sources can have headers."""
    name, base = busy
    got = s.ok("SelectSeries", {"Flametree-Spread": "duration"}, profileTypeID=CPU, labelSelector=select(name), start=base // MS, end=base // MS + 1_800_000, step=20)
    assert {p["value"] for p in got["series"][0]["points"][1:-1]} == {CORES * 20 * S} and "spread" not in got, s.last
    assert s.last.headers["Flametree-Spread"] == "duration"


def test_what_lies_behind_the_end_stays_in_the_last_point(s, busy):
    name, base = busy
    for end in (605, 610, 612):
        got = points(s, name, base + 300 * S, base + end * S, 20, spread=True)
        graph = s.ok("SelectMergeStacktraces", profileTypeID=CPU, labelSelector=select(name), start=base // MS + 300_000, end=base // MS + end * 1000)["flamegraph"]
        assert sum(got.values()) == int(graph["total"]), (end, got)


def test_a_mean_is_of_whole_profiles(s, busy):
    name, base = busy
    got = points(s, name, base, base + 1800 * S, 20, spread=True, aggregation="TIME_SERIES_AGGREGATION_TYPE_AVERAGE")
    assert set(got.values()) == {CORES * 15 * S} and s.last.headers["Flametree-Spread"] == "none"


def test_a_timeline_of_render_is_spread_on_request(s, busy):
    name, base = busy
    ask = lambda **more: s.call("GET", "/pyroscope/render?" + urllib.parse.urlencode({"query": '%s{service_name="%s"}' % (CPU, name), "from": base // S, "until": base // S + 1900, **more})).expect(200)
    plain, spread = ask(), ask(spread="duration")
    assert [x.headers["Flametree-Spread"] for x in (plain, spread)] == ["none", "duration"]
    samples = spread.json()["timeline"]["samples"]
    assert set(samples[1:120]) == {CORES * 15 * S} and sum(samples) == sum(plain.json()["timeline"]["samples"]) == spread.json()["flamebearer"]["numTicks"]


@table("step", [("20s", "20s"), ("odd", "17s"), ("a-minute", "1m")])
def test_the_client_shows_a_level_line(s, busy, step):
    name, base = busy
    run = lambda *args: subprocess.run([PROGRAM, "series", "cpu", "-s", name, "--step", step, *args], capture_output=True, text=True, timeout=120, check=True,
                                       env={**os.environ, "FLAMETREE_URL": s.query_url, "NO_COLOR": "1"}).stdout
    span = lambda start, end: ("--from", str(base // S + start), "--until", str(base // S + end))
    shown = run(*span(300, 1200))
    numbers = next(line for line in shown.splitlines() if line.startswith("all")).split()[-4:]
    assert {float(n) for n in numbers[2:]} == {CORES} and float(numbers[0]) <= CORES, shown
    whole = json.loads(run(*span(0, 1900), "--format", "json"))
    assert sum(p["value"] for p in whole["series"][0]["points"]) == 120 * CORES * 15 * S


def test_an_absurd_duration_loses_nothing(s):
    name, at = unique("absurd"), time.time_ns() // S * S - MINUTE
    for value, duration in ((1, 1), (10, 2**63 - 1), (100, 86_400 * S), (1000, -5)):
        s.send(("f", value), service=name, time_ns=at + 1500 * MS, duration_ns=duration)
    for step in (0.001, 1, 60):
        got = points(s, name, at, at + 30 * S, step, spread=True)
        assert sum(got.values()) == 1111, (step, got)


# ---- wherever profiles lie

def push_days(s, rng):
    """Two days of a service: (time, value, duration, pod) of each profile; some lie on borders of slots, or beside them."""
    facts = []
    for _ in range(300):
        at = START + rng.randrange(1, 48 * 60) * MINUTE + rng.choice([0, 1, -1, 749_897, MS, 7 * S, 31_234_567_890])
        facts.append((at, rng.randrange(1, 10**12), rng.choice([0, S, 15 * S, 60 * S, 700 * S]), "p%d" % rng.randrange(3)))
    for at, value, duration, pod in facts:
        s.push({"__name__": "process_cpu", "service_name": "days", "pod": pod}, Pprof(("main;f", value), time_ns=at, duration_ns=duration)).expect(200)
    return facts


def graph_total(s, start, end, pod=""):
    graph = s.ok("SelectMergeStacktraces", profileTypeID=CPU, labelSelector=select("days", pod), start=start // MS, end=end // MS)["flamegraph"]
    return int(graph.get("total", 0))


def check_law(s, facts, where, rng):
    edges = [START, START + 2 * DAY, START + DAY, START + 11 * HOUR, START + 30 * HOUR + 7 * MINUTE]
    for _ in range(40):
        start, end = sorted(rng.choice([rng.choice(edges), rng.choice(facts)[0] // MS * MS + rng.choice([-MS, 0, MS])]) for _ in range(2))
        step = rng.choice([7, 20, 60, 299, 3600, 7200, 86_400, 10**6])
        while (end - start) // S // step > 20_000:
            step *= 10
        want = sum(f[1] for f in facts if start <= f[0] <= end)
        more = {"spread": True} if rng.random() < 0.6 else {}
        group = ["pod"] if rng.random() < 0.5 else []
        got = points(s, "days", start, end, step, groupBy=group, **more)
        said = s.last.headers.get("Flametree-Exact", "exact")
        assert said == "exact", (where, said, start, end, step)
        assert sum(got.values()) == want == graph_total(s, start, end), (where, start, end, step, more, s.last)


def test_the_sum_is_the_same_at_every_level(tmp_path):
    seed = int(os.environ.get("SERIES_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
    print("SERIES_SEED=%d" % seed)
    rng = random.Random(seed)
    with Flametree("--compactor.interval=1h", "--ingester.cut_age=10m", *AT_ONCE, data=str(tmp_path)) as f:
        s = f.server()
        facts = push_days(s, rng)
        hour = points(s, "days", START, START + 2 * DAY, 3600)
        short = points(s, "days", START, START + 2 * DAY, 60, spread=True)
        check_law(s, facts, "heads", rng)
        flush(f)
        check_law(s, facts, "segments", rng)
        assert points(s, "days", START, START + 2 * DAY, 60, spread=True) == short
        compact(f)
        check_law(s, facts, "levels", rng)
        assert points(s, "days", START, START + 2 * DAY, 3600) == hour
        # Short steps are still read of single profiles, long ones of sums, which have no durations.
        assert points(s, "days", START, START + 2 * DAY, 60, spread=True) == short and s.last.headers["Flametree-Spread"] == "duration"
        assert sum(points(s, "days", START, START + 2 * DAY, 3600, spread=True).values()) == sum(hour.values())
        assert s.last.headers["Flametree-Spread"] == "partly" and s.last.json()["spread"] == "partly"
        assert f.metric("flametree_querier_block_nodes_total"), "no sums were read"
