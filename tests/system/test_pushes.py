"""What becomes of a push that is not stored as it was sent: cut stacks, counts of profiles, refusals in the log."""
import pytest
from client import Pprof, Server, unique
from flametree import Flametree, compact, flush

CUT = "[truncated stack]"


@pytest.fixture(scope="module")
def shallow():
    with Flametree("--limits.max_profile_stacktrace_depth", "4", "--auth.multitenancy_enabled", "true") as f:
        yield f


def test_cut_stacks_end_in_a_marked_frame(shallow):
    s, service = Server(shallow.url, tenant="deep", strict=True), unique()
    s.push({"__name__": "process_cpu", "service_name": service},
           Pprof(("a;b;c;d;e;f", 1), ("a;b;c;d;e;g", 2), ("a;b;c;d", 4), ("a;b;c;d;e", 8), (["a", "b", "c", ["d", "in", "lined"], "e"], 16))).expect(200)
    wanted = {"a;b;c;d;" + CUT: 11, "a;b;c;d": 4, "a;b;c;d;in;lined;" + CUT: 16}
    assert s.stacks(service) == wanted
    assert s.graph(service)["total"] == (0, 31)
    assert shallow.metric('flametree_distributor_cut_stacks_total{tenant="deep"}') == 4
    flush(shallow)
    assert s.stacks(service) == wanted


def test_cut_stacks_of_text(shallow):
    s, service = Server(shallow.url, tenant="text", strict=True), unique()
    s.ingest(service, b"a;b;c;d;e;f 2\na;b 1\na;b;c;d;e 3\n").expect(200)
    s.ingest(service, b"a;b;c;d;e;g\na;b;c;d\n", format="lines").expect(200)
    assert s.stacks(service) == {"a;b;c;d;" + CUT: 60_000_000, "a;b;c;d": 10_000_000, "a;b": 10_000_000}
    assert shallow.metric('flametree_distributor_cut_stacks_total{tenant="text"}') == 3


def test_what_is_refused_has_no_cut_stacks(shallow):
    s, service = Server(shallow.url, tenant="refused", strict=True), unique()
    s.push({"__name__": "process_cpu", "service_name": service, "k": "v" * 3000}, Pprof(("a;b;c;d;e;f", 1))).expect(400, "label value too long")
    assert shallow.metric('flametree_distributor_cut_stacks_total{tenant="refused"}') is None
