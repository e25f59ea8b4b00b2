"""Random profiles pushed through HTTP, random queries, equality with brute force; SIGKILL and restart in between. On the
cluster ingesters also hang or are away while profiles are pushed, so that others get them too.
"""
import random
import threading
from collections import Counter

import pytest
from client import Pprof, Server, unique
from flametree import Cluster, Flametree
from fleet import AWAY, ROUNDS, SEED, Fleet, disturbed


@pytest.mark.parametrize("part", range(2))
def test_answers_equal_brute_force_across_kills(part):
    rng = random.Random(SEED + part)
    print("seed", SEED)
    with Flametree() as f:
        fleet = Fleet(rng, f.server(), unique("oracle"))
        for round_ in range(ROUNDS):
            fleet.push(25)
            for _ in range(40):
                fleet.check_one()
            if round_ % 2 == 0:
                f.kill()
                f.start()
                fleet.ask_at(f.server())
                for _ in range(20):
                    fleet.check_one()


@pytest.mark.parametrize("part", range(2))
def test_answers_equal_brute_force_whatever_ingesters_do(part):
    """A stopped ingester stores what it had received when it goes on, others have stored it meanwhile."""
    rng = random.Random(SEED + part)
    print("seed", SEED)
    with Cluster("--distributor.append_timeout", "1s", **AWAY) as c:
        fleet = Fleet(rng, c.server(), unique("oracle"))
        for _ in disturbed(fleet, c):
            for _ in range(25):
                fleet.check_one()


def test_answers_of_several_tenants_equal_brute_force():
    rng = random.Random(SEED + 2)
    print("seed", SEED)
    with Flametree("--auth.multitenancy_enabled", "true") as f:
        fleet = Fleet(rng, f.server(), unique("oracle"), ["ta", "tb", "tc"])
        for _ in range(ROUNDS):
            fleet.push(25)
            for _ in range(40):
                fleet.check_one()


def test_answers_of_several_ingesters_equal_brute_force():
    rng = random.Random(SEED + 3)
    print("seed", SEED)
    with Cluster() as f:
        fleet = Fleet(rng, f.server(), unique("oracle"))
        for _ in range(ROUNDS):
            fleet.push(25)
            for _ in range(40):
                fleet.check_one()


@pytest.mark.parametrize("point", ["", "wal.write.before=die@7", "wal.sync.after=die@7", "append.ack.before=die@7"])
def test_what_was_acknowledged_before_a_kill_is_there_once(point):
    """Writers push while the process is killed (by us, or by itself at a named point of the write path)."""
    with Flametree(env={"FLAMETREE_FAULTS": point}) as f:
        service, acked, tried, stop = unique("acked"), set(), set(), threading.Event()

        def write(writer):
            server = Server(f.url, strict=True)
            for i in range(10_000):
                name = "w%d_%d" % (writer, i)
                tried.add(name)
                try:
                    if server.push({"__name__": "process_cpu", "service_name": service}, Pprof((name, 1 + i))).status == 200:
                        acked.add(name)
                except AssertionError:
                    return
                if stop.is_set():
                    return

        writers = [threading.Thread(target=write, args=(w,)) for w in range(4)]
        for w in writers:
            w.start()
        if point:
            f.process.wait(60)
            f.process = None
        else:
            while len(acked) < 40:
                f.check_alive()
                stop.wait(0.01)
            f.kill()
        for w in writers:
            w.join()
        f.env.pop("FLAMETREE_FAULTS")
        f.start()
        got = Counter(Server(f.url, strict=True).stacks(service, maxNodes=1 << 20))
        wrong = {n: got.get(n) for n in acked if got.get(n) != 1 + int(n.split("_")[1])}
        assert not wrong, "acknowledged, but lost or doubled: %s" % wrong
        strange = {n: v for n, v in got.items() if n != "total" and (n not in tried or v != 1 + int(n.split("_")[1]))}
        assert not strange, "in the answer, but not as sent: %s" % strange
