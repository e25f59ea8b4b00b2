"""The querier's cache on disk: what was read once is not read of the bucket again, not even by the next process."""
import os
import re

import pytest
from bucket import on_bucket, push, total
from client import unique
from flametree import await_, compact, flush
from s3_proxy import S3Proxy
from searched import files_with


def blocks_read(proxy):
    """GETs of blocks and segments; manifests are read by each process."""
    return sum(n for path, n in proxy.reads.items() if re.search(r"/(raw|h|d)/|/live/a/", path))


def metric(f, name):
    text = f.operator().call("GET", "/metrics").text
    return float(re.search(r"^%s (\S+)$" % name, text, re.M)[1])


def filled(service, prefix):
    with on_bucket(service, prefix=prefix) as f:
        push(f.server(), 30)
        flush(f)
        compact(f)


def test_a_querier_that_was_restarted_reads_no_block_of_the_bucket(service, tmp_path):
    prefix = unique("restarted")
    filled(service, prefix)
    with S3Proxy(service.url) as proxy:
        with on_bucket(service, prefix=prefix, data=str(tmp_path), endpoint=proxy.url) as f:
            assert total(f.server()) == sum(range(1, 31))
            cold = blocks_read(proxy)
            assert cold > 0
            assert metric(f, "flametree_querier_disk_cache_written_bytes_total") > 0
            f.stop()
        with on_bucket(service, prefix=prefix, data=str(tmp_path), endpoint=proxy.url) as f:
            assert total(f.server()) == sum(range(1, 31))
            assert blocks_read(proxy) == cold
            assert metric(f, "flametree_querier_disk_cache_hits_total") > 0
            assert metric(f, "flametree_querier_block_reads_total") == 0


def test_damage_on_disk_is_read_of_the_bucket_again(service, tmp_path):
    prefix = unique("damaged")
    filled(service, prefix)
    with on_bucket(service, prefix=prefix, data=str(tmp_path)) as f:
        assert total(f.server()) == sum(range(1, 31))
        f.stop()
    folder = tmp_path / "cache" / "blocks"
    tables = [folder / name for name in os.listdir(folder) if name.endswith(".sst")]
    assert tables
    for table in tables:
        bytes_ = bytearray(table.read_bytes())
        for at in range(200, len(bytes_) * 3 // 4, 100):
            bytes_[at] ^= 0xff
        table.write_bytes(bytes_)
    with on_bucket(service, prefix=prefix, data=str(tmp_path)) as f:
        assert total(f.server()) == sum(range(1, 31))
        assert metric(f, "flametree_querier_block_reads_total") > 0


def test_a_limit_of_nothing_is_no_cache(service, tmp_path):
    prefix = unique("none")
    filled(service, prefix)
    with on_bucket(service, "--querier.disk_cache=0", prefix=prefix, data=str(tmp_path)) as f:
        assert total(f.server()) == sum(range(1, 31))
        f.stop()
    assert not (tmp_path / "cache" / "blocks").exists()


def test_a_local_store_has_none(tmp_path):
    from flametree import Flametree
    with Flametree(data=str(tmp_path)) as f:
        push(f.server(), 3)
        flush(f)
        assert total(f.server()) == 6
        f.stop()
    assert not (tmp_path / "cache" / "blocks").exists()


def tables_with(data, name):
    """Files of the cache that have the text, as it is or packed."""
    return files_with(str(data / "cache"), name)


SECRET = "sekret-shop-7f3a"


def cached(service, prefix, data):
    """What a process leaves that was asked once."""
    with on_bucket(service, prefix=prefix, data=str(data)) as f:
        push(f.server(), 3, service=SECRET)
        flush(f)
        assert total(f.server(), SECRET) == 6
        f.stop()
    assert tables_with(data, SECRET)


def test_what_is_old_leaves_the_cache_though_nobody_asks(service, tmp_path):
    prefix = unique("old")
    cached(service, prefix, tmp_path)
    with on_bucket(service, "--querier.disk_cache_age=1s", prefix=prefix, data=str(tmp_path)):
        await_("the cache to have nothing of it", lambda: not tables_with(tmp_path, SECRET), 60)


@pytest.mark.parametrize("flags", [["--querier.disk_cache=0"], ["--storage.kind=local"]])
def test_a_process_without_a_cache_removes_what_an_earlier_one_left(service, tmp_path, flags):
    prefix = unique("left")
    cached(service, prefix, tmp_path)
    (tmp_path / "cluster").unlink()  # which store the directory belongs to
    with on_bucket(service, *flags, prefix=prefix, data=str(tmp_path)):
        assert not tables_with(tmp_path, SECRET)
