"""What was deleted may be imported again once its deletion has ended, and only that is added then. While it stays, an import of what it hides is refused
by name. (docs/decisions/0018-imports-make-leaves.md)"""
import gzip
import time

import pytest
from client import CPU, QUERIER, Pprof, pb
from faultclock import FaultClock
from flametree import AT_ONCE, SAYS_SOON, Flametree, await_, compact, expire, flush
from test_deletion import delete, deletions
from test_tenant_deletion import FLAGS, GONE, await_state, erase

HOUR = 3600 * 10**9
DAY = 24 * HOUR
OLD = (time.time_ns() // DAY - 3) * DAY
USUAL = [*AT_ONCE, SAYS_SOON, "--compactor.interval=1h", "--compactor.deletion_stay=0s"]
EXPIRING = ["--compactor.raw_retention=1s", "--compactor.hours_retention=0s", "--compactor.days_retention=0s"]


def row(service="shop", at=OLD + 60 * 10**9, value=5, pod="a"):
    return service, at, value, pod


ROWS = [row(service, OLD + hour * HOUR + minute * 60 * 10**9, 1 + hour + minute, pod)
        for service in ("shop", "cart") for hour in (2, 3) for minute in (1, 31) for pod in ("a", "b")]


def body(rows):
    """A message PushRequest, whose profiles have ids."""
    return pb(*((1, pb((1, [pb((1, k), (2, v)) for k, v in (("__name__", "process_cpu"), ("service_name", service), ("pod", pod))]),
                       (2, [pb((1, gzip.compress(Pprof(("main;a", value), time_ns=at).encode(), 1)), (2, "%s-%s-%d" % (service, pod, at)))])))
                for service, at, value, pod in rows))


def imports(f, rows, expect=200, **query):
    asked = "&".join("%s=%s" % item for item in query.items())
    return f.operator().call("POST", "/compactor/import?" + asked, body(rows), {"Content-Type": "application/proto"}).expect(expect)


def added(f, rows, **query):
    """How many rows were added, and how many were there."""
    said = imports(f, rows, **query).json()
    return said["rows"], said["rowsThere"]


def refused(f, rows, **query):
    reply = f.operator().call("POST", "/compactor/import?" + "&".join("%s=%s" % item for item in query.items()), body(rows), {"Content-Type": "application/proto"})
    assert 400 <= reply.status < 500, (reply.status, reply.text)
    return reply.text


def total(s, service):
    asked = {"profileTypeID": CPU, "labelSelector": '{service_name="%s"}' % service, "start": (OLD - DAY) // 10**6, "end": (OLD + 2 * DAY) // 10**6, "maxNodes": 0}
    reply = s.rpc(QUERIER + "SelectMergeStacktraces", asked).expect(200)
    assert reply.headers["Flametree-Exact"] == "exact"
    return int(reply.json().get("flamegraph", {}).get("total", 0))


def sums(s):
    return {service: total(s, service) for service in ("shop", "cart")}


def want(rows):
    return {service: sum(value for s, _, value, _ in rows if s == service) for service in ("shop", "cart")}


def end(f):
    """The deletions that there are end."""
    def over():
        flush(f)
        compact(f)
        return not deletions(f)["deletions"]
    await_("the deletion to end", over, 120)


def test_what_was_deleted_is_imported_again_as_often_as_it_is_deleted():
    with Flametree(*USUAL) as f:
        s = f.server()
        assert added(f, ROWS) == (16, 0)
        for _ in range(3):
            made = delete(f, "{}")
            assert sums(s) == {"shop": 0, "cart": 0}
            for again in ("false", "true"):
                said = refused(f, ROWS, again=again)
                assert made["id"] in said and "{}" in said and "not before 20" in said and "flametree deletions" in said, said
            assert "hides profiles of this import" in refused(f, ROWS, dry_run="true")
            end(f)
            assert added(f, ROWS, dry_run="true") == (16, 0) and sums(s) == {"shop": 0, "cart": 0}
            assert added(f, ROWS) == (16, 0)
            assert sums(s) == want(ROWS)
            assert added(f, ROWS) == (0, 16) and added(f, ROWS, again="true") == (0, 16)
            # Cut otherwise it is the same, and so it is once blocks are made anew.
            assert added(f, ROWS[:5]) == (0, 5) and added(f, ROWS[::3]) == (0, 6)
            compact(f)
            assert added(f, ROWS) == (0, 16) and added(f, ROWS[1:]) == (0, 15)
            assert sums(s) == want(ROWS)


@pytest.mark.parametrize("match, start, stop, gone", [
    ('{service_name="shop"}', None, None, lambda r: r[0] == "shop"),
    ('{pod="a",service_name="cart"}', None, None, lambda r: r[0] == "cart" and r[3] == "a"),
    ('{service_name=~"sh.*"}', OLD + 2 * HOUR, OLD + 2 * HOUR + 20 * 60 * 10**9, lambda r: r[0] == "shop" and r[1] < OLD + 2 * HOUR + 20 * 60 * 10**9),
    ("{}", OLD + 3 * HOUR, OLD + 4 * HOUR, lambda r: r[1] >= OLD + 3 * HOUR),
], ids=["service", "pod", "minutes", "hour"])
def test_of_a_part_that_was_deleted_only_that_part_is_added(match, start, stop, gone):
    lost, kept = [r for r in ROWS if gone(r)], [r for r in ROWS if not gone(r)]
    with Flametree(*USUAL) as f:
        s = f.server()
        assert added(f, ROWS) == (16, 0)
        made = delete(f, match, start, stop)
        assert made["id"] in refused(f, ROWS) and made["id"] in refused(f, lost[:1])
        # What it does not hide is not affected, in the same hours either.
        assert added(f, kept) == (0, len(kept))
        new = [(service, at + 7, value, pod) for service, at, value, pod in kept]
        assert added(f, new) == (len(new), 0)
        assert sums(s) == want(kept + new)
        end(f)
        assert added(f, ROWS) == (len(lost), len(kept))
        assert sums(s) == want(ROWS + new)
        assert added(f, ROWS) == (0, 16) and added(f, lost) == (0, len(lost))
        compact(f)
        assert added(f, ROWS) == (0, 16) and sums(s) == want(ROWS + new)


def test_what_was_deleted_after_it_expired_is_imported_again():
    with Flametree(*USUAL, *EXPIRING) as f:
        s = f.server()
        assert added(f, ROWS) == (16, 0)
        expire(f)
        assert sums(s) == want(ROWS) and added(f, ROWS) == (0, 16)
        made = delete(f, '{service_name="shop"}')
        assert made["id"] in refused(f, ROWS)
        end(f)
        assert sums(s) == {"shop": 0, "cart": want(ROWS)["cart"]}
        # Of others of these hours nobody can know.
        assert "cannot be known" in refused(f, [row("cart", OLD + 2 * HOUR + 61 * 10**9)])
        assert added(f, ROWS) == (8, 8)
        assert sums(s) == want(ROWS)
        assert added(f, ROWS) == (0, 16)
        expire(f)
        assert added(f, ROWS) == (0, 16) and sums(s) == want(ROWS)
        # Imported since the deletion: of a row in another piece it cannot be known any more.
        assert "cannot be known" in refused(f, ROWS[:1])
        delete(f, "{}")
        end(f)
        assert added(f, ROWS[:1]) == (1, 0) and added(f, ROWS[1:2]) == (1, 0)
        assert sums(s) == want(ROWS[:2])


def test_an_hour_of_which_all_was_deleted_takes_other_imports():
    shop, cart = [r for r in ROWS if r[0] == "shop"], [r for r in ROWS if r[0] == "cart"]
    with Flametree(*USUAL) as f:
        assert added(f, shop) == (8, 0)
        delete(f, '{service_name="shop"}')
        end(f)
        assert added(f, cart) == (8, 0)
        assert added(f, shop[:2] + cart) == (2, 8) and added(f, shop) == (6, 2)
        assert sums(f.server()) == want(ROWS)


def test_what_a_restart_remembers_of_deletions():
    with Flametree(*USUAL) as f:
        assert added(f, ROWS) == (16, 0)
        delete(f, '{service_name="shop"}')
        end(f)
        f.kill()
        f.start()
        assert added(f, ROWS) == (8, 8)
        f.kill()
        f.start()
        assert added(f, ROWS) == (0, 16) and sums(f.server()) == want(ROWS)


def test_a_deleted_tenant_takes_imports_again_once_nothing_of_it_is_left(tmp_path):
    clock = FaultClock(tmp_path / "clock")
    with Flametree(*FLAGS, env=clock.env) as f:
        s = f.server(tenant=GONE)
        assert added(f, ROWS, tenant=GONE) == (16, 0) and sums(s) == want(ROWS)
        erase(f, GONE)
        said = refused(f, ROWS, tenant=GONE)
        assert "tenant %s is being deleted" % GONE in said and "once that has ended" in said, said
        await_state(f, clock, None)
        assert sums(s) == {"shop": 0, "cart": 0}
        assert added(f, ROWS, tenant=GONE) == (16, 0) and sums(s) == want(ROWS)
        assert added(f, ROWS, tenant=GONE) == (0, 16)
        # It is compacted as any other.
        compact(f)
        assert any(t["tenant"] == GONE for t in f.operator().call("GET", "/compactor/status").expect(200).json()["tenants"])
        assert sums(s) == want(ROWS)

