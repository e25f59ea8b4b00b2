"""The checks of this folder can fail: a loss that is made up is found, whichever way to ask shows it, and made small."""
import json
import random
import time

import pytest
from client import CPU, Pprof, Reply, Server, pb, select, unique, unpb
from flametree import Flametree

import profiles
from shrink import shrink
from totals import CLIENT, COUNTS, NATIVE, About, Question, check, dot_total, law, totals
from world import Broken, World


@pytest.fixture(scope="module")
def f():
    with Flametree("--limits.reject_older_than=0") as f:
        yield f


@pytest.fixture
def asked(f):
    """A question, and its total."""
    s, service = f.server(), unique()
    for value in (2, 3, 5):
        s.push({"__name__": "process_cpu", "service_name": service, "pod": "p%d" % value}, Pprof(("main;work", value * 100), time_ns=time.time_ns() - value * 10**9)).expect(200)
    now = time.time_ns() // 10**6
    return Question(CPU, select(service), now - 60_000, now, 6000, ["pod"]), 1000


def test_each_way_that_says_something_else_is_named(f, asked):
    q, total = asked
    truth = totals(f.server(), q, NATIVE + CLIENT)
    assert law(truth, q, total, 3) is None
    for way in truth:
        for more in (-1, 1):
            wrong = law({**truth, way: truth[way] + (more * 100 if isinstance(truth[way], About) else more)}, q, total, 3)
            assert wrong and (way in COUNTS or any(line.startswith(way) and "<--" in line for line in wrong.splitlines())), (way, wrong)


def test_a_loss_that_all_ways_share_is_found(f, asked):
    q, total = asked
    truth = totals(f.server(), q)
    less = {way: v if way in COUNTS else v - 300 for way, v in truth.items()}
    assert law(less, q) is None and law(less, q, total)


def test_two_totals_that_are_right_must_not_be_mixed(f, asked):
    q, total = asked
    truth = totals(f.server(), q)
    assert law(truth, q, [total, total + 7]) is None
    assert law({**truth, "TREE": total + 7}, q, [total, total + 7])


class Doctored(Server):
    """A server whose answers of one kind lack something."""

    def __init__(self, server, part, doctor):
        super().__init__(server.query_url, server.push_url, server.query_url, server.tenant, server.strict)
        self.part, self.doctor = part, doctor

    def call(self, method, path, body=None, headers=None, push=False):
        reply = super().call(method, path, body, headers, push)
        if self.part not in path or reply.status != 200:
            return reply
        headers, doctored = self.doctor(dict(reply.headers), reply.body)
        made = reply.headers
        for name, value in headers.items():
            del made[name]
            made[name] = value
        self.last = Reply(reply.request, reply.status, made, doctored)
        return self.last


def without_last_sample(headers, body):
    m = unpb(body)
    return headers, pb(*[(n, v[:-1] if n == 2 else v) for n, v in m.items()])


def without_last_point(headers, body):
    answer = json.loads(body)
    for row in answer.get("series", []):
        row["points"].pop()
    return headers, json.dumps(answer).encode()


def without_a_slot(headers, body):
    answer = json.loads(body)
    answer["series"][0]["slots"].pop()
    return headers, json.dumps(answer).encode()


def left_smaller(headers, body):
    answer = json.loads(body)
    answer["flamegraph"]["leftTicks"] = "1"
    return headers, json.dumps(answer).encode()


def rounded(headers, body):
    return {**headers, "flametree-exact": "rounded=300"}, body


LIES = [("SelectMergeProfile", without_last_sample, "pprof"), ("SelectSeries", without_last_point, "SelectSeries"), ("SelectHeatmap", without_a_slot, "heat map"),
        ("Diff", left_smaller, "Diff, left"), ("SelectMergeStacktraces", rounded, "rounded=300"), ("SelectSeries", rounded, "rounded=300")]


@pytest.mark.parametrize("part, doctor, named", LIES, ids=["%s-%s" % (part, doctor.__name__) for part, doctor, _ in LIES])
def test_an_answer_that_lacks_something_is_found(f, asked, part, doctor, named):
    q, total = asked
    check(f.server(), q, total, count=3)
    with pytest.raises(AssertionError, match=named):
        check(Doctored(f.server(), part, doctor), q, total, count=3)


def test_a_value_that_is_lost_on_the_way_in_is_found_and_made_small(f, monkeypatch):
    """A sender that leaves out samples in which a certain function is the leaf."""
    rng = random.Random(7)
    honest = profiles.FORMATS["folded"]

    class Lossy(type(honest)):
        def encode(self, spec):
            return super().encode({**spec, "samples": [s for s in spec["samples"] if s["stack"][-1] != "idle"] or [{"stack": ["nothing"], "values": [0]}]})

    def fails(specs):
        world = World(f, random.Random(1))
        try:
            for spec, labels in specs:
                world.push(spec, labels)
            world.check_each()
        except Broken as e:
            return str(e)
        return None

    def generate():
        spec = honest.generate(rng, time.time_ns() - 10**12)
        spec["twists"] = {}
        return {**spec, "samples": spec["samples"] + [{"stack": ["main", "work", "idle"], "values": [12345]}]}
    specs = [(generate(), {"pod": "p%d" % i}) for i in range(3)]
    assert fails(specs) is None
    monkeypatch.setitem(profiles.FORMATS, "folded", Lossy())
    assert "expected" in fails(specs) or "there are the types" in fails(specs)
    small, why = shrink(specs, fails, 200)
    assert [s["samples"] for s, _ in small] == [[{"stack": ["idle"], "values": [1]}]], (small, why)


def test_questions_beside_a_profile_tell_it_apart(f):
    """Edges of ranges are on profiles and in their milliseconds."""
    world = World(f, random.Random(3))
    at = (time.time_ns() // 10**6 - 100_000) * 10**6
    for n, late in enumerate((0, 749_897, 999_999, 10**6)):
        spec = {"format": "pprof", "time_ns": at + late, "duration_ns": 0, "types": [["cpu", "nanoseconds"]], "samples": [{"stack": ["a"], "values": [10**n], "labels": {}}],
                "twists": {}, "name": "process_cpu", "period_type": ["cpu", "nanoseconds"], "period": 1}
        world.push(spec, {})
    q = world.whole(CPU)
    q.start_ms = q.end_ms = at // 10**6
    assert world.wanted(q) == [1, 111]
    q.end_ms += 1
    assert world.wanted(q) == [1111, 1111]
    q.start_ms += 1
    assert world.wanted(q) == [1000, 1000]


def test_rounded_numbers_of_a_graph_are_read():
    for text, value, by in (("of 37ns total", 37, 0), ("of 2.60s total", 2.6e9, 6e6), ("of -858 total", -858, 0), ("of 1.50MB total", 1.5 * (1 << 20), 6292), ("", 0, 0)):
        got = dot_total("Showing nodes accounting for 1 (1%) " + text + "\\l" if text else "")
        assert float(got) == value and abs(getattr(got, "by", 0) - by) <= by * 0.01 + 1e-9, (text, got)
