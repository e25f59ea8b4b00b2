"""A tenant that fills an ingester's head with series stops itself and nobody else: the head closes its open cut early, the tenant has a share of
the head and a limit of active series, and what is refused is not spread over the other ingesters.
"""
import itertools
import threading

import pytest
from beside import Beside
from client import Pprof
from flametree import Cluster, Flametree, await_
from ledger import Ledger

SERIES = 15_900  # of a push, which has 70 KB on the wire and takes 28 MiB of the head
MANY = ("--auth.multitenancy_enabled=true", "--ingester.cut_age=1h", "--ingester.cut_bytes=1GiB")


def greedy_push(f, number, series=SERIES, tenant="greedy", service="greedy"):
    """One profile whose samples all have another value of a label, so that each becomes a series."""
    profile = Pprof(*[("main;work", 1, {"request": "%d-%d" % (number, i)}) for i in range(series)])
    return f.server(tenant).push({"__name__": "process_cpu", "service_name": service}, profile)


class Neighbour(Beside):
    """Another tenant, which pushes all the time."""

    def __init__(self, f):
        super().__init__(stays=False)
        self.book, self.statuses = Ledger(f, service="neighbour", tenant="neighbour"), []

    def step(self):
        self.statuses.append(self.book.push("p%d" % len(self.statuses)))


def refused(f, reason):
    return f.metric('flametree_ingester_refused_total{reason="%s"}' % reason) or 0


def tenants(f):
    page = f.operator().call("GET", "/ingester/tenants").expect(200).json()
    return page, {t["tenant"]: t for t in page["tenants"]}


def test_a_tenant_that_fills_the_head_stops_itself_alone():
    with Flametree(*MANY, "--ingester.head_memory=128MiB", "--limits.max_local_series_per_tenant=0") as f:
        answers, lock = [], threading.Lock()

        def push(thread):
            for i in range(4):
                reply = greedy_push(f, 10 * thread + i)
                with lock:
                    answers.append(reply)
        with Neighbour(f) as neighbour:
            threads = [threading.Thread(target=push, args=(i,)) for i in range(3)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            assert set(neighbour.statuses) == {200}, neighbour.book.last.error()
            turned_away = [a for a in answers if a.status != 200]
            assert len(answers) == 12 and turned_away and len(turned_away) < 10, answers
            for reply in turned_away:
                reply.expect(429, "tenant greedy has ", code="resource_exhausted")
                assert "limits.ingester_head_share" in reply.text and reply.headers["Retry-After"], reply
            assert refused(f, "tenant_memory") == len(turned_away)
            page, found = tenants(f)
            assert page["count"] == 2 and page["limit_bytes"] == 128 << 20 and sum(t["bytes"] for t in page["tenants"]) <= page["bytes"], page
            assert found["greedy"]["share_bytes"] == 64 << 20 and found["neighbour"]["bytes"] < 16 << 20, page
            # Nobody asks for the flush, and the cut is not old: the head makes the room by itself.
            before = len(neighbour.statuses)
            await_("room for the greedy one", lambda: greedy_push(f, 100).status == 200, 120)
            await_("more pushes of the neighbour", lambda: len(neighbour.statuses) > before + 20 or neighbour.faults, 120)
        assert not neighbour.faults, neighbour.faults
        assert set(neighbour.statuses) == {200}, neighbour.book.last.error()
        assert refused(f, "memory") == 0 and f.metric("flametree_ingester_early_cuts_total") >= 1
        assert f.metric("flametree_ingester_flushed_cuts_total") >= 1
        neighbour.book.check()


def test_active_series_of_a_tenant_have_a_limit(tmp_path):
    overrides = tmp_path / "overrides.yaml"
    overrides.write_text("overrides: {}\n")
    with Flametree(*MANY, "--limits.max_local_series_per_tenant=20000", "--runtime_config.file", str(overrides), "--runtime_config.reload_period=20ms") as f:
        greedy_push(f, 1).expect(200)
        reply = greedy_push(f, 2).expect(429, "Maximum active series limit exceeded (31800/20000) of tenant greedy", code="resource_exhausted")
        assert "limits.max_local_series_per_tenant" in reply.text and reply.headers["Retry-After"]
        greedy_push(f, 2, service="other").expect(429, "(31800/20000)")  # it is the tenant's, not the service's
        assert refused(f, "series") == 2 and f.metric("flametree_ingester_head_series") == SERIES == f.metric("flametree_ingester_head_active_series")
        greedy_push(f, 1).expect(200)  # series that are there take more profiles
        greedy_push(f, 3, tenant="modest").expect(200)
        overrides.write_text("overrides:\n  greedy: {max_local_series_per_tenant: 40000}\n")
        await_("the tenant's own limit", lambda: greedy_push(f, 2).status == 200)
        assert tenants(f)[1]["greedy"]["active_series"] == 2 * SERIES and tenants(f)[1]["greedy"]["max_series"] == 40000
        overrides.write_text("overrides: {}\n")
        fresh = itertools.count(10)
        await_("the limit of all", lambda: greedy_push(f, next(fresh), 1).status == 429)
        # They are active as long as the head has profiles of them.
        f.operator().call("POST", "/ingester/flush").expect(200)
        await_("the head to be empty", lambda: f.metric("flametree_ingester_head_active_series") == 0)
        greedy_push(f, 5).expect(200)


@pytest.mark.parametrize("limit", ["--limits.max_local_series_per_tenant=100", "--limits.ingester_head_share=0.001"])
def test_what_a_tenant_has_too_much_of_is_not_spread_over_other_ingesters(limit):
    names = ("ingester-1", "ingester-2", "ingester-3", "distributor", "querier")
    flags = () if "series" in limit else ("--ingester.head_memory=1MiB", "--storage.dir=")
    with Cluster("--auth.multitenancy_enabled=true", limit, *flags, names=names) as c:
        passed = lambda: c["distributor"].metric('flametree_distributor_appends_total{result="passed"}') or 0
        for i in range(3):
            greedy_push(c, i, 2000).expect(429, code="resource_exhausted")
        assert passed() == 0
        assert sum(refused(m, "series") + refused(m, "tenant_memory") for m in c.ingesters()) == 3
        assert sum(m.metric("flametree_ingester_head_rows") for m in c.ingesters()) == 0
