"""What holds for every service: the tests of stores pass on it, and a Flametree on a bucket works and comes back from the bucket alone."""
import os
import random
import subprocess

import pytest
from bucket import NO_KEYS, flags, on_bucket, refused
from client import unique
from copies import accept_loss
from flametree import AT_ONCE, BIN, TOPOLOGIES, compact, deploy, flush
from fleet import SEED, Days
from s3_service import BUCKET


def test_the_tests_of_every_store_pass_on_a_bucket(each_service):
    done = subprocess.run([os.path.join(BIN, "s3.store"), *each_service.table()], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_a_bucket_of_another_cluster_or_of_a_later_format_is_refused(service, tmp_path):
    mine, other = unique("mine"), unique("other")
    for prefix in (mine, other):
        (tmp_path / prefix).mkdir()
        with on_bucket(service, prefix=prefix, data=str(tmp_path / prefix)):
            pass
    code, said = refused(*flags(service, other), "--server.data_dir", str(tmp_path / mine))
    assert code == 1 and "v1/cluster: it is cluster" in said and str(tmp_path / mine) in said, said
    path = "/%s/%s/v1/cluster" % (BUCKET, mine)
    status, claim = service.call("GET", path)
    assert status == 200 and claim[:2] == b"\x08\x01", claim
    assert service.call("PUT", path, body=b"\x08\x02" + claim[2:])[0] == 200
    code, said = refused(*flags(service, mine), "--server.data_dir", str(tmp_path / mine))
    assert code == 1 and "v1/cluster" in said and "format 2" in said, said


@pytest.mark.each_value
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
