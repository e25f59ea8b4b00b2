"""What holds for every service: the tests of stores pass on it, and a Flametree on a bucket works and comes back from the bucket alone."""
import os
import subprocess

from bucket import on_bucket, push, total
from client import unique
from flametree import BIN, compact, flush


def test_the_tests_of_every_store_pass_on_a_bucket(each_service):
    done = subprocess.run([os.path.join(BIN, "s3.store"), *each_service.table()], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_everything_that_was_flushed_is_there_after_all_directories_are_gone(each_service):
    prefix = unique("recover")
    with on_bucket(each_service, prefix=prefix) as f:
        push(f.server(), 9)
        flush(f)
        compact(f)
    with on_bucket(each_service, prefix=prefix) as f:  # a data directory of its own
        assert total(f.server()) == sum(range(1, 10))
