"""The oracle with deletions: what is deleted is taken out of the list of what was pushed, and every answer must go on to equal brute force, from the
answer of the deletion on: over random selectors and ranges, in heads, segments and blocks of all levels, while these are rewritten and after.
"""
import random
import urllib.parse

import pytest
from client import unique
from flametree import AT_ONCE, SAYS_SOON, Cluster, Flametree, await_, check_blocks, compact, flush
from fleet import ROUNDS, SEED, Days, Month
from model import OPS

USUAL = ["--compactor.raw_retention=0", SAYS_SOON, *AT_ONCE]
STAYS = "--compactor.deletion_stay=36500d"  # until the end of the test: what is pushed later into the range is hidden too
GOES = "--compactor.deletion_stay=0s"


class Rows(list):
    """Pushed rows without those that a deletion which stands hides."""

    def __init__(self):
        super().__init__()
        self.deleted = []

    def hides(self, row):
        return any((tenant is None or row.tenant == tenant) and start * 10**6 <= row.time_ns <= end * 10**6 and all(OPS[op](row.labels.get(k, ""), v) for k, op, v in matchers)
                   for tenant, matchers, start, end in self.deleted)

    def __iadd__(self, rows):
        self.extend(row for row in rows if not self.hides(row))
        return self

    def delete(self, *deletion):
        self.deleted.append(deletion)
        self[:] = [row for row in self if not self.hides(row)]


def operator(f):
    return (f["compactor"] if isinstance(f, Cluster) else f).operator()


def delete_one(rng, f, fleet):
    """Deletes something at random that leaves most of it."""
    rows = fleet.model.rows
    for _ in range(20):
        tenant = rng.choice(fleet.tenants) if fleet.tenants else None
        matchers = fleet.matchers()
        start, end = sorted((fleet.edge(), fleet.edge())) if rng.random() < 0.7 else (0, 1 << 42)
        trial = Rows()
        trial.deleted.append((tenant, matchers, start, end))
        if 0 < sum(map(trial.hides, rows)) < len(rows) / 4:
            break
    else:
        return
    query = urllib.parse.urlencode({"tenant": tenant or "anonymous", "match": fleet.selector(matchers), "start": start, "end": end})
    made = operator(f).call("POST", "/compactor/delete?" + query).expect(200).json()
    rows.delete(tenant, matchers, start, made["end"])


def deletions(f, tenant):
    return operator(f).call("GET", "/compactor/deletions?tenant=" + tenant).expect(200).json()["deletions"]


def finish(f, tenants=("anonymous",)):
    def done():
        flush(f)
        compact(f)
        return not any(deletions(f, tenant) for tenant in tenants)
    await_("all deletions to be done", done, 300)


def change(rng, f):
    if rng.random() < 0.6:
        flush(f)
    if rng.random() < 0.6:
        compact(f)


def lives(rng, f, fleet, count):
    fleet.model.rows = Rows()
    for _ in range(ROUNDS):
        fleet.push(count)
        change(rng, f)
        delete_one(rng, f, fleet)
        for _ in range(40):
            fleet.check_one()
        change(rng, f)
        if rng.random() < 0.2 and isinstance(f, Flametree):
            f.kill()
            f.start()
            fleet.ask_at(f.server())
        for _ in range(20):
            fleet.check_one()
    assert fleet.model.rows.deleted


@pytest.mark.parametrize("part", range(2))
def test_answers_with_deletions_equal_brute_force(part):
    rng = random.Random(SEED + part)
    print("seed", SEED)
    cut = ["--compactor.pack_bytes=4KiB"] if part else []  # services go into several blocks
    with Flametree("--compactor.interval=1h", *USUAL, STAYS, *cut) as f:
        fleet = Days(rng, f.server(), unique("oracle"))
        lives(rng, f, fleet, 60 if part else 25)
        flush(f)
        compact(f)
        for _ in range(40):
            fleet.check_one()
        check_blocks(f.store)


def test_answers_of_several_tenants_with_deletions_equal_brute_force():
    rng = random.Random(SEED + 2)
    print("seed", SEED)
    with Flametree("--auth.multitenancy_enabled", "true", "--compactor.interval=1h", *USUAL, STAYS) as f:
        lives(rng, f, Days(rng, f.server(), unique("oracle"), ["ta", "tb", "tc"]), 40)


def test_answers_after_deletions_are_done_equal_brute_force():
    """Rewritten blocks say what is left; and what is pushed into the range later counts."""
    rng = random.Random(SEED + 3)
    print("seed", SEED)
    with Flametree("--compactor.interval=1h", *USUAL, GOES) as f:
        fleet = Month(rng, f.server(), unique("oracle"))
        fleet.model.rows = Rows()
        for _ in range(max(ROUNDS // 2, 2)):
            fleet.push(40)
            change(rng, f)
            delete_one(rng, f, fleet)
            for _ in range(20):
                fleet.check_one()
            finish(f)
            fleet.model.rows.deleted.clear()
            for _ in range(30):
                fleet.check_one()
            check_blocks(f.store)


def test_answers_with_deletions_equal_brute_force_while_everything_moves():
    rng = random.Random(SEED + 5)
    print("seed", SEED)
    with Flametree("--compactor.interval=50ms", "--compactor.sweep_interval=50ms", "--ingester.cut_age=1s", *USUAL, STAYS) as f:
        fleet = Days(rng, f.server(), unique("oracle"))
        fleet.model.rows = Rows()
        for _ in range(2 * ROUNDS):
            fleet.push(12)
            delete_one(rng, f, fleet)
            for _ in range(30):
                fleet.check_one()


def test_answers_of_a_cluster_with_deletions_equal_brute_force():
    rng = random.Random(SEED + 6)
    print("seed", SEED)
    with Cluster("--ingester.cut_age", rng.choice(["1s", "10m"]), "--compactor.interval=1h", *USUAL, STAYS) as c:
        lives(rng, c, Days(rng, c.server(), unique("oracle")), 25)
