"""What holds for every service: the tests of stores pass on it, and a Flametree on a bucket works and comes back from the bucket alone."""
import os
import random
import subprocess

import pytest
from bucket import NO_KEYS, flags
from client import unique
from copies import accept_loss
from flametree import AT_ONCE, BIN, TOPOLOGIES, compact, deploy, flush
from fleet import SEED, Days


def test_the_tests_of_every_store_pass_on_a_bucket(each_service):
    done = subprocess.run([os.path.join(BIN, "s3.store"), *each_service.table()], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_everything_that_was_flushed_is_there_after_all_directories_are_gone(each_service, topology):
    """All processes are killed, and others come with nothing but the bucket."""
    rng = random.Random(SEED)
    print("seed", SEED)
    settings = (*flags(each_service, unique("recover")), *AT_ONCE, "--compactor.interval=1h")
    with deploy(topology, *settings, env=NO_KEYS) as f:
        fleet = Days(rng, f.server(), unique("recover"))
        for _ in range(2):
            fleet.push(15)
            flush(f)
            compact(f)
        fleet.push(10)
        flush(f)
        f.kill()
    with deploy(topology, *settings, env=NO_KEYS) as f:
        accept_loss(f)
        fleet.ask_at(f.server())
        for _ in range(25):
            fleet.check_one()
        compact(f)
        for _ in range(10):
            fleet.check_one()
