"""Value is conserved: what a file holds is stored, or told as left out, and every way to ask about it has the same total. Over random profiles of all
formats, by random ranges, steps, groups and selectors, while they go from heads through segments, hours and days to windows, and after a restart.

A failure is made smaller before it is told (shrink.py). LAW_SEED repeats a run; FLAMETREE_NIGHTLY=1 asks much more.
"""
import copy
import os
import random
import time

import pytest
from flametree import AT_ONCE, Cluster, Flametree, compact, flush, windows_of

import profiles
from files import file_failure
from shrink import shown, shrink
from world import MS, Broken, World, selector

SEED = int(os.environ.get("LAW_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
LONG = os.environ.get("FLAMETREE_NIGHTLY") == "1"
EACH, QUESTIONS = (40, 300) if LONG else (6, 25)
DAY_NS = 86_400 * 10**9
# All that is pushed is taken, however old, and waits for nothing.
SETTINGS = ["--compactor.interval=1h", *AT_ONCE, "--compactor.raw_retention=0", "--limits.reject_older_than=0", "--ingester.head_age=20000d", "--limits.max_query_length=0"]
LABELS = [{}, {"pod": "p1"}, {"pod": "p2", "region": "eu"}, {"region": "us"}]


def heads(f):
    """All that was pushed is in memory."""


def levels(f):
    flush(f)
    compact(f)


def restarted(f):
    f.kill()
    f.start()


# What happens to what was pushed, in this order.
STATES = [("heads", heads), ("segments", flush), ("levels", levels), ("restarted", restarted)]


def explained(f, specs, state, why, question=None, client=False):
    """The failure as it is told: pushed again into a world of its own, and made smaller while it fails there."""
    def fails(smaller):
        return failure_of(f, smaller, state, question, client)
    again = fails(specs)
    if not again:
        return "seed %d, state %s; what follows did not fail when it was pushed again\n%s\n%s" % (SEED, state, why, shown(specs[:3]))
    small, last = shrink(specs, fails)
    return "seed %d, state %s\n%s\nfails for\n%s" % (SEED, state, last or again, shown(small))


def failure_of(f, specs, state, question=None, client=False):
    """What is wrong with a world that has only these profiles, if something is."""
    world = World(f, random.Random(SEED))
    try:
        for spec, labels in specs:
            world.push(spec, labels)
        if state != "heads":
            flush(f)
        if state in ("levels", "restarted"):
            compact(f)
        if question:
            world.check(moved(question, world), client)
        elif world.rows:
            world.check_each(client)
    except Broken as e:
        return str(e)
    return None


def moved(question, world):
    """The same question of another world."""
    q = copy.copy(question)
    q.matchers = [(k, op, v) if k != "mark" else (k, op, world.mark) for k, op, v in question.matchers if k != "part" and k != "service_name"]
    q.selector = selector(q.matchers)
    return q


def time_of(rng, days):
    """Any time of so many days; often on a border of a millisecond, a minute, an hour or a day, or a nanosecond beside it."""
    at = time.time_ns() - 3600 * 10**9 - rng.randrange(days * DAY_NS)
    if rng.random() < 0.5:
        width = rng.choice([MS, 60 * 10**9, 3600 * 10**9, DAY_NS])
        at = at // width * width + rng.choice([0, 0, 1, -1, 749_897, MS - 1])
    return at


@pytest.fixture(scope="module")
def one():
    with Flametree(*SETTINGS) as f:
        yield f


@pytest.mark.parametrize("format", profiles.FORMATS)
def test_what_a_file_holds_is_stored_or_told(one, format):
    """Each profile by itself."""
    rng = random.Random("%d %s" % (SEED, format))
    print("seed", SEED)
    for _ in range(4 * EACH):
        specs = [(profiles.generate(rng, format, time_of(rng, 2)), rng.choice(LABELS))]
        why = failure_of(one, specs, "heads")
        if why:
            raise AssertionError("\n" + explained(one, specs, "heads", why))


@pytest.mark.parametrize("format", profiles.FORMATS)
def test_files_of_the_client_hold_what_it_says(one, format, tmp_path):
    """`flame`, `top` and `convert` of a file add up to what it holds, as a push of it by the client does."""
    rng = random.Random("%d file %s" % (SEED, format))
    print("seed", SEED)
    for _ in range(EACH // 2):
        spec = profiles.generate(rng, format, time_of(rng, 1))
        why = file_failure(spec, tmp_path)
        if why:
            small, last = shrink([(spec, {})], lambda specs: file_failure(specs[0][0], tmp_path))
            raise AssertionError("\nseed %d\n%s\nfails for\n%s" % (SEED, last or why, shown(small)))


@pytest.mark.drawn(2)
@pytest.mark.parametrize("days", [1, 3, 65])
def test_all_ways_to_ask_say_what_was_sent(days):
    """In every state, of all formats at once."""
    rng = random.Random("%d days %d" % (SEED, days))
    print("seed", SEED)
    with Flametree(*SETTINGS) as f:
        live_through(f, rng, days)
        assert windows_of(f.store) >= days // 28 - 1  # so many are over, whenever the first day is


def test_all_ways_to_ask_a_cluster_say_what_was_sent():
    rng = random.Random("%d cluster" % SEED)
    print("seed", SEED)
    with Cluster(*SETTINGS) as f:
        live_through(f, rng, 2, restarts=False)


def live_through(f, rng, days, restarts=True):
    world = World(f, rng)
    for state, change in STATES:
        if state == "restarted" and not restarts:
            continue
        for format in profiles.FORMATS:
            for _ in range(EACH // 2 if state == "heads" else 1 if state != "restarted" else 0):
                spec, labels = profiles.generate(rng, format, time_of(rng, days)), rng.choice(LABELS)
                try:
                    world.push(spec, labels)
                except Broken as e:
                    raise AssertionError("\n" + explained(f, [(spec, labels)], "heads", str(e)))
        change(f)
        ask(f, world, rng, state)
    assert any(kind.endswith("nodes") for kind in world.plans), world.plans


def ask(f, world, rng, state):
    try:
        world.check_each(client=True)
        for n in range(QUESTIONS):
            world.check(world.question(), client=n % 8 == 0)
    except Broken as e:
        raise AssertionError("\n" + explained(f, world.specs, state, str(e), e.question, e.client))
