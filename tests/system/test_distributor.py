"""Distributors in front of several ingesters: spreading, one that is away, a tenant's rate."""
import contextlib
import gzip

from client import Pprof, Server, unique
from flametree import SPREAD, Flametree, own_host

LABELS = {"__name__": "process_cpu"}


@contextlib.contextmanager
def cluster(*more, placed=SPREAD):
    """Two ingesters, a distributor and a querier as processes of their own."""
    places = ["%s:%d" % (own_host(), 4041 + i) for i in range(2)]
    members = ",".join("i%d=%s" % (i, place) for i, place in enumerate(places))
    known = ["--cluster.ingesters", members, "--limits.reject_older_than", "1h", *more]
    with contextlib.ExitStack() as stack:
        start = lambda program, *args: stack.enter_context(Flametree(*args, *known, program=program))
        ingesters = [start("flametree-ingester", "--server.id", "i%d" % i, "--internal.listen", place) for i, place in enumerate(places)]
        distributor = start("flametree-distributor", "--internal.listen", "127.0.0.1:0", *placed)
        querier = start("flametree-querier", "--internal.listen", "127.0.0.1:0")
        yield ingesters, distributor, Server(querier.url, push_url=distributor.url, strict=True)


def appends(distributor, result):
    return distributor.metric('flametree_distributor_appends_total{result="%s"}' % result) or 0


def test_series_are_spread_and_one_ingester_may_be_away():
    with cluster() as (ingesters, distributor, s):
        service = "spread"  # names decide who gets what: with this one each ingester gets some of both dozens
        push = lambda first: [s.push({**LABELS, "service_name": service, "pod": "p%d" % i}, Pprof(("main;work", 1))).expect(200) for i in range(first, first + 12)]
        push(0)
        assert s.stacks(service) == {"main;work": 12}
        heads = [f.metric("flametree_ingester_head_series") for f in ingesters]
        ingesters[0].kill()
        push(12)
        assert appends(distributor, "passed") > 0 and appends(distributor, "failed") == 0
        ingesters[0].start()
        assert s.stacks(service) == {"main;work": 24}
        assert all(heads), heads


def test_a_small_service_stays_on_one_ingester_and_a_large_one_is_spread():
    """16 MiB a second are large; here 1 KiB is."""
    for placed, used in ([], 1), (["--distributor.ingester_rate=1KiB"], 2):
        with cluster(placed=placed) as (ingesters, distributor, s):
            service, pushed = unique(), 0
            rows = lambda: [f.metric("flametree_ingester_head_rows") for f in ingesters]
            wide = lambda: distributor.metric("flametree_distributor_spread_wide") or 0
            while pushed < 24 or (used > 1 and not all(rows())):
                large = Pprof(("main;work", 1))
                large.text("x" * 30_000)
                s.push({**LABELS, "service_name": service, "pod": "p%d" % (pushed % 24)}, large).expect(200)
                pushed += 1
                assert pushed < 2000, (rows(), wide())
            assert sum(1 for n in rows() if n) == used and (wide() > 0) == (used > 1)
            assert s.stacks(service) == {"main;work": pushed}


def test_no_ingester_left_is_unavailable_and_nothing_is_pretended():
    with cluster() as (ingesters, distributor, s):
        service = unique()
        for ingester in ingesters:
            ingester.kill()
        s.push({**LABELS, "service_name": service}, Pprof(("main", 1))).expect(503, code="unavailable")
        assert appends(distributor, "failed") > 0
        for ingester in ingesters:
            ingester.start()
        assert s.stacks(service) == {}
        s.push({**LABELS, "service_name": service}, Pprof(("main", 1))).expect(200)
        assert s.stacks(service) == {"main": 1}


def test_rate_of_a_tenant():
    with Flametree("--limits.ingestion_rate_mb", "0.02", "--limits.ingestion_burst_size_mb", "0.02") as f:
        s, service = Server(f.url, strict=True), unique()
        large = Pprof(("a", 1))
        large.text("x" * 40_000)
        for reply in (s.push({**LABELS, "service_name": service}, large), s.ingest(service, gzip.compress(large.encode()), format="pprof")):
            reply.expect(429, "push rate limit (20 KiB) exceeded while adding 39 KiB", code="resource_exhausted")
        s.ingest(service, "a;%s 1\n" % ("x" * 40_000)).expect(429, "push rate limit", code="resource_exhausted")
        s.push({**LABELS, "service_name": service}, Pprof(("small", 2))).expect(200)
        assert s.stacks(service) == {"small": 2}
        assert f.metric('flametree_distributor_discarded_samples_total{reason="rate_limited",tenant="anonymous"}') == 3
