"""Queries that nobody needs: refused with the name and value of the limit they meet, or answered; never a blow-up."""
import pytest

from client import CPU, now_ms
from flametree import Flametree


@pytest.fixture(scope="module")
def f():
    with Flametree() as f:
        yield f


@pytest.fixture(scope="module")
def s(f):
    return f.server()


@pytest.fixture(scope="module")
def service(s):
    name = s.send(("main;a", 3), labels={"pod": "a" * 1000 + "b"})
    s.check(lambda: s.stacks(name), {"main;a": 3})
    return name


HOUR = {"start": now_ms() - 3_600_000, "end": now_ms() + 60_000}
REFUSED = [
    ("points", "SelectSeries", {"step": 0.001}, "(querier.max_points, limit: 1000000)"),
    ("points-of-all-time", "SelectSeries", {"step": 1, "start": -(1 << 62), "end": 1 << 62}, "max_query_length"),
    ("no-step", "SelectSeries", {"step": 0}, "step must be >= 1ms"), ("step-backwards", "SelectSeries", {"step": -5}, "step must be >= 1ms"),
    ("step-that-is-no-number", "SelectSeries", {"step": "NaN"}, "step must be >= 1ms"),
    ("cells", "SelectHeatmap", {"step": 0.05, "queryType": 1}, "(querier.max_points, limit: 1000000)"),
    ("labels-to-group-by", "SelectSeries", {"step": 15, "groupBy": ["l%d" % i for i in range(257)]}, "257 labels, which exceeds the limit (querier.max_labels, limit: 256)"),
    ("labels-of-a-heat-map", "SelectHeatmap", {"step": 15, "queryType": 1, "groupBy": ["x"] * 100_000}, "100000 labels"),
    ("matchers", "SelectSeries", {"step": 15, "labelSelector": "{%s}" % ",".join('a=~"x%d.*"' % i for i in range(10_000))}, "10001 matchers, which exceeds the limit (querier.max_matchers, limit: 256)"),
    ("regexes", "SelectSeries", {"step": 15, "labelSelector": "{%s}" % ",".join('a=~"x%d.*"' % i for i in range(65))}, "65 regular expressions, which exceeds the limit (querier.max_regexes, limit: 64)"),
    ("costly-regexes", "SelectMergeStacktraces", {"labelSelector": "{%s}" % ",".join('a=~"\\\\pL{300}%d"' % i for i in range(40))}, "pattern too large"),
    ("costly-regexes-too-many-to-be-compiled", "SelectMergeStacktraces", {"labelSelector": "{%s}" % ",".join('a=~"\\\\pL{300}%d"' % i for i in range(400))}, "401 matchers"),
    ("regex-of-many-classes", "SelectMergeStacktraces", {"labelSelector": '{a=~"%s"}' % ("\\\\pL" * 2400)}, "2400 Unicode classes"),
    ("regex-of-many-stars", "SelectMergeStacktraces", {"labelSelector": '{a=~"%s"}' % ("x*" * 20_000)}, "40000 bytes, limit 32768"),
    ("nodes", "SelectMergeStacktraces", {"maxNodes": 1 << 40}, "max flamegraph nodes limit 1099511627776 is greater than allowed 1048576"),
    ("nodes-below-zero", "SelectMergeStacktraces", {"maxNodes": -1}, "(max allowed 1048576)"),
    ("regex-that-multiplies", "SelectMergeStacktraces", {"labelSelector": '{pod=~"((a{1000}){1000}){1000}"}'}, "label selector"),
    ("regex-of-no-end", "SelectMergeStacktraces", {"labelSelector": '{pod=~"%s"}' % ("(" * 20_000)}, "label selector"),
]


@pytest.mark.parametrize("method, change, text", [r[1:] for r in REFUSED], ids=[r[0] for r in REFUSED])
def test_refused_by_name_and_value(f, s, service, method, change, text):
    request = {"profileTypeID": CPU, "labelSelector": '{service_name="%s"}' % service, **HOUR, **change}
    s.query(method, **request).expect(400, text, code="invalid_argument")
    f.check_alive()


ANSWERED = [
    ("one-huge-step", "SelectSeries", {"step": 1e300}), ("infinite-step", "SelectSeries", {"step": "Infinity"}),
    ("a-point-a-ms", "SelectSeries", {"step": 0.004}), ("a-long-call-site", "SelectSeries", {"step": 15, "stackTraceSelector": {"callSite": [{"name": "main"}] * 50_000}}),
    ("regex-that-backtracks", "SelectMergeStacktraces", {"labelSelector": '{pod=~"(a*)*(a|aa)+c"}'}),
    ("regex-of-many-words", "SelectMergeStacktraces", {"labelSelector": '{pod=~"%s"}' % "|".join("w%d" % i for i in range(20_000))}),
    ("the-pods-of-a-dashboard", "SelectMergeStacktraces", {"labelSelector": '{pod=~"%s"}' % "|".join("checkout-%08x-%05d" % (i * 2654435761 % 2**32, i) for i in range(500))}),
    ("prefixes-of-pods", "SelectMergeStacktraces", {"labelSelector": '{pod=~"%s"}' % "|".join("checkout-%08x-%05d.*" % (i * 2654435761 % 2**32, i) for i in range(500))}),
    ("many-spans", "SelectMergeStacktraces", {"spanSelector": ["%016x" % i for i in range(20_000)]}),
    ("huge-limit", "SelectHeatmap", {"step": 15, "queryType": 1, "limit": (1 << 63) - 1}),
    ("unknown-field-of-a-newer-client", "SelectSeries", {"step": 15, "stackTraceSelector": {"frameFilter": {"includeNames": ["x"]}}}),
]


@pytest.mark.parametrize("method, change", [r[1:] for r in ANSWERED], ids=[r[0] for r in ANSWERED])
def test_answered_all_the_same(f, s, service, method, change):
    request = {"profileTypeID": CPU, "labelSelector": '{service_name="%s"}' % service, **HOUR, **change}
    s.query(method, **request).expect(200)
    f.check_alive()
