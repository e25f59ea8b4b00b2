"""The wall clock is set by hours and days while the process runs: nothing waits for it, nothing that was acknowledged goes because of it, and
names, rates and ages stay what they are."""
import os
import re

import pytest
from flametree import Flametree, await_
from faultclock import FaultClock
from ledger import Ledger

HOUR = 3600 * 10**9
DAY = 24 * HOUR
FLAGS = ("--ingester.cut_bytes", "4KiB", "--ingester.head_age", "24h", "--limits.reject_older_than", "0", "--limits.reject_newer_than", "0", "--limits.max_query_length", "0")


@pytest.fixture
def clock(tmp_path):
    return FaultClock(tmp_path / "clock")


def found(book):
    """All that there is, whatever the time is now."""
    return book.found(start=1, end=4 * 10**12)


def streams(f):
    """Log lines tell nothing of streams; the names of the log's families do."""
    names = set()
    folder = os.path.join(f.data, "ingester/log")
    for name in os.listdir(folder):
        if name.startswith("MANIFEST"):
            with open(os.path.join(folder, name), "rb") as manifest:
                names |= set(re.findall(rb"([0-9A-HJKMNP-TV-Z]{26})\.[0-9a-f]{16}", manifest.read()))
    return names


# Cuts stay where they are, or go to the store as they close.
KEPT, STORED = ("--storage.kind", "none"), ("--ingester.cut_age", "1s")
JUMPS = [dict(hours=3), dict(hours=-3), dict(days=40), dict(days=-40), dict(days=8000), dict(days=-8000)]


@pytest.mark.parametrize("where,jump", [(KEPT, jump) for jump in JUMPS] + [(STORED, jump) for jump in JUMPS[:2]], ids=str)
def test_nothing_is_lost_by_a_jump_and_back(clock, where, jump):
    with Flametree(*FLAGS, *where, env=clock.env) as f:
        book = Ledger(f, now_ns=clock.now_ns)
        number = iter(range(1000))
        push = lambda n: [book.push("p%d" % next(number), weight=2400) for _ in range(n)]
        assert push(15) == [200] * 15
        jumps = 0
        for shift in (jump, {}, jump):
            clock.set(**shift)
            jumps += 1
            await_("the jump to be noticed", lambda: f.tail(10000).count("event=clock.jumped") == jumps)
            assert push(8) == [200] * 8, book.last.error()
            assert len(found(book)) == len(book.acked)
        assert f.metric("flametree_ingester_expired_cuts_total") == 0
        if where is KEPT:
            assert f.metric('flametree_ingester_cuts{state="closed"}') >= 3
        # A later process, once while the clock is off and once when it is right again.
        for shift in (jump, {}):
            f.kill()
            clock.set(**shift)
            f.start()
            assert push(2) == [200] * 2
            await_("cuts to be looked at", lambda: (f.metric("flametree_ingester_expired_cuts_total") or 0) == 0)
            assert found(book) == {name: 1 for name in book.acked}
        ids = sorted(streams(f)) if where is KEPT else [1, 2, 3]
        assert len(ids) == 3 and len(set(ids)) == 3, ids
        clock.set()


def test_what_is_old_goes_when_time_goes_by_and_not_when_the_clock_is_set(clock):
    with Flametree(*FLAGS, *KEPT, env=clock.env) as f:
        book = Ledger(f, now_ns=clock.now_ns)
        for i in range(20):
            assert book.push("old%d" % i, weight=2400) == 200
        clock.set(days=3)
        await_("the jump to be noticed", lambda: "event=clock.jumped" in f.tail(10000))
        clock.set()
        clock.pass_(25 * HOUR)
        assert book.push("new", weight=2400) == 200
        await_("old cuts to go", lambda: "old0" not in found(book))
        assert found(book)["new"] == 1


def test_rates_and_deadlines_go_by_their_own_clock(clock):
    """A bucket is neither filled by a jump forward nor shut by one back; a query that runs is not ended."""
    with Flametree(*FLAGS, "--limits.ingestion_rate_mb", "0.0002", "--limits.ingestion_burst_size_mb", "0.02", env=clock.env) as f:
        book = Ledger(f, now_ns=clock.now_ns)
        taken = 0
        while book.push("p%d" % taken, weight=2000) == 200:
            taken += 1
        assert 2 <= taken < 40 and book.last.status == 429
        for days in (30, -30):
            clock.set(days=days)
            refused = [book.push("r%d.%d" % (days, i), weight=18000) for i in range(3)]
            assert refused == [429] * 3, refused  # a jump of a month would have filled it 25 times over; without one it takes more than a minute
        clock.set(days=-400)
        f.check_alive()
        await_("tokens to come back", lambda: book.push("later", weight=200) == 200)
        clock.set()


def test_a_push_that_lies_in_the_future_after_a_jump_back_is_refused_by_name(clock):
    with Flametree(env=clock.env) as f:
        book = Ledger(f)
        assert book.push("now") == 200
        clock.set(days=-2)
        book.push("ahead")
        assert book.last.status == 400 and "outside of ingestion window" in book.last.error()[1], book.last.body
        clock.set(days=40)
        book.push("behind")
        assert book.last.status == 400 and "outside of ingestion window" in book.last.error()[1], book.last.body
        clock.set()
        assert book.push("now again") == 200
        assert set(book.found()) == {"now", "now again"}
