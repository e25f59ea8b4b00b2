"""The oracle over what leaves the heads: profiles of more than a day, flushed and compacted in between, late ones among
them, asked for from hour border to hour border and to the nanosecond beside them. Every answer must equal brute force and
say that it is exact.
"""
import os
import random
import re
import subprocess

import pytest
from client import unique
from faultclock import FaultClock
from flametree import AT_ONCE, BIN, SAYS_SOON, Cluster, Flametree, check_blocks, compact, expire, flush
from fleet import AWAY, ROUNDS, SEED, Days, Life, Month, Old, OldMonth, disturbed
from queriers import Queriers


def change(rng, f):
    """Flushes or compacts, or both, or nothing."""
    if rng.random() < 0.6:
        flush(f)
    if rng.random() < 0.6:
        compact(f)


@pytest.mark.parametrize("part", range(2))
def test_answers_of_segments_equal_brute_force(part):
    rng = random.Random(SEED + part)
    print("seed", SEED)
    with Flametree("--ingester.cut_age", rng.choice(["1s", "10m"])) as f:
        fleet, objects = Days(rng, f.server(), unique("oracle")), 0
        for round_ in range(ROUNDS):
            fleet.push(20)
            if round_ % 2 == 0:
                flush(f)
            for _ in range(40):
                fleet.check_one()
            objects += f.metric("flametree_querier_read_objects_total")
            if rng.random() < 0.3:
                f.kill()
                f.start()
                fleet.ask_at(f.server())
        assert objects, "nothing was read of the store"


def test_answers_of_several_tenants_in_segments_equal_brute_force():
    rng = random.Random(SEED + 2)
    print("seed", SEED)
    with Flametree("--auth.multitenancy_enabled", "true", "--ingester.cut_age", "1s") as f:
        fleet = Days(rng, f.server(), unique("oracle"), ["ta", "tb", "tc"])
        for _ in range(ROUNDS):
            fleet.push(20)
            for _ in range(40):
                fleet.check_one()


@pytest.mark.parametrize("part", range(3))
def test_answers_of_levels_equal_brute_force(part):
    """Leaves, delta leaves of what came late, hours and days, in any mixture with segments and heads."""
    rng = random.Random(SEED + part)
    print("seed", SEED)
    cut = ["--compactor.pack_bytes=4KiB"] if part == 2 else []  # services go into several blocks
    with Flametree("--compactor.interval=1h", *AT_ONCE, *cut) as f:
        fleet, nodes = Days(rng, f.server(), unique("oracle")), 0
        for round_ in range(ROUNDS):
            fleet.push(200 if part == 2 and round_ == 0 else 20)
            change(rng, f)
            for _ in range(40):
                fleet.check_one()
            nodes += f.metric("flametree_querier_block_nodes_total")
            if rng.random() < 0.2:
                f.kill()
                f.start()
                fleet.ask_at(f.server())
        flush(f)
        compact(f)
        for _ in range(40):
            fleet.check_one()
        for _ in range(5):
            fleet.check_whole_day()
        assert nodes + f.metric("flametree_querier_block_nodes_total"), "no sums were read"
        shown = subprocess.run([os.path.join(BIN, "flametree"), "manifest", "show", "--format", "json", f.store], capture_output=True, text=True, check=True).stdout
        assert (part == 2) == any(int(n) > 1 for n in re.findall(r'"parts": *([0-9]+)', shown)), shown
        check_blocks(f.store)


@pytest.mark.parametrize("part", range(2))
def test_answers_of_a_month_equal_brute_force(part):
    """Whatever comes late: profiles of 31 days in any order, on borders of hours, days, weeks and windows of 28 days and
    beside them, some of them twice; questions of up to 400 days."""
    rng = random.Random(SEED + part)
    print("seed", SEED)
    with Flametree("--compactor.interval=1h", *AT_ONCE, "--compactor.raw_retention=0") as f:
        fleet = Month(rng, f.server(), unique("oracle"))
        for _ in range(ROUNDS):
            fleet.push(12)
            fleet.all.send_again(3)
            change(rng, f)
            for _ in range(30):
                fleet.check_one()
        flush(f)
        compact(f)
        for _ in range(60):
            fleet.check_one()
        assert fleet.all.plans.get("days nodes"), fleet.all.plans
        check_blocks(f.store)


def test_answers_equal_brute_force_while_everything_moves():
    """Cuts close, segments and leaves come and go under the questions."""
    rng = random.Random(SEED + 5)
    print("seed", SEED)
    with Flametree("--compactor.interval=50ms", "--compactor.sweep_interval=50ms", "--ingester.cut_age=1s", *AT_ONCE) as f:
        fleet = Days(rng, f.server(), unique("oracle"))
        for _ in range(2 * ROUNDS):
            fleet.push(10)
            for _ in range(30):
                fleet.check_one()


@pytest.mark.parametrize("part", range(2))
def test_answers_equal_brute_force_whatever_ingesters_do(part):
    """A stopped ingester stores what it had received when it goes on, others have stored it meanwhile: copies of a row
    lie in heads and in segments, in any combination."""
    rng = random.Random(SEED + part)
    print("seed", SEED)
    c = Cluster("--distributor.append_timeout", "1s", "--ingester.cut_age", rng.choice(["1s", "3s", "10m"]), "--compactor.interval=1h", *AT_ONCE, **AWAY)
    with Queriers(c, peers=1) as q:  # which share every flame graph
        fleet = Days(rng, c.server(), unique("oracle"))
        for regular in disturbed(fleet, c):
            if regular:
                change(rng, c)
            for _ in range(25):
                fleet.check_one()
        # Few questions of a seed may meet segments, so here is one that meets several.
        fleet.push(30)
        flush(c)
        fleet.check_all()
        assert q.parts("peer") > 0
        check_blocks(c.store)


@pytest.mark.parametrize("kind, kept, count", [
    (Old, ["--compactor.raw_retention=3h"], 25), (Old, ["--compactor.raw_retention=10h", "--compactor.hours_retention=2h"], 25), (OldMonth, [], 10),
], ids=["day", "rows_longer_than_hours", "month"])
def test_what_is_rounded_lies_between_brute_force_over_both_ranges(kind, kept, count):
    rng = random.Random(SEED + 6)
    print("seed", SEED)
    with Flametree("--compactor.interval=1h", SAYS_SOON, *AT_ONCE, *kept) as f:
        fleet = kind(rng, f.server(), unique("oracle"))
        for _ in range(ROUNDS):
            fleet.push(count)
            flush(f)
            compact(f)
            expire(f)
            for _ in range(50):
                fleet.check_one()
        assert {"exact", "rounded"} <= fleet.seen, fleet.seen


def test_answers_are_right_through_months_of_life(tmp_path):
    """Delays and intervals are those of the defaults; single profiles go after 14 days, hour nodes after 40."""
    rng = random.Random(SEED + 7)
    print("seed", SEED)
    clock = FaultClock(tmp_path / "clock")
    with Flametree("--compactor.interval=1h", "--compactor.hours_retention=40d", SAYS_SOON, env=clock.env) as f:
        fleet = Life(rng, f.server(), unique("oracle"), clock)
        fleet.push(3)
        for _ in range(ROUNDS * 45):
            fleet.push(rng.choice([0, 1, 1, 3]))
            fleet.pass_(rng.choice([1, 2, 7, 24]))
            flush(f)
            compact(f)
            for _ in range(4):
                fleet.check_one()
            if rng.random() < 0.02:
                f.kill()
                f.start()
                fleet.ask_at(f.server())
        assert {"exact", "rounded"} <= fleet.seen, fleet.seen
        check_blocks(f.store)
