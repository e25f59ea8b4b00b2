"""flametree backup and restore to and from buckets: as tests/system/test_backup.py has it for directories, between every two kinds of places."""
import signal
import subprocess
import threading

import pytest
from bucket import BUCKET, NO_KEYS, flags, on_bucket
from cli import PROGRAM, env_of
from client import unique
from copies import Pusher, accept_loss, numbers, tool
from flametree import AT_ONCE, TOPOLOGIES, Flametree, await_, check_blocks, compact, deploy, flush
from s3_service import call, keys

BUSY = (*AT_ONCE, "--compactor.interval=50ms", "--compactor.sweep_interval=100ms", "--ingester.cut_age=1s")
CALM = (*AT_ONCE, "--compactor.interval=1h")
HOURS_OVER = (7200, 14400)


def env(service):
    """Of the client: the service and its keys."""
    return env_of(**{**NO_KEYS, **service.client_env()})


def bucket_url(prefix, bucket=BUCKET):
    return "s3://%s/%s" % (bucket, prefix)


def backed_up_while_written(f, service, source, copy, env):
    """Several backups while profiles arrive and all is compacted, then one of what was flushed; the number of profiles that the last one has."""
    pusher = Pusher(f.server(), service)
    pusher.push(50)
    flush(f)
    workers = [threading.Thread(target=pusher.run), threading.Thread(target=lambda: [(flush(f), compact(f)) for _ in range(4)])]
    for w in workers:
        w.start()
    try:
        for _ in range(3):
            tool("backup", source, copy, env=env)
    finally:
        workers[1].join()
        pusher.stopped = True
        workers[0].join()
    flush(f)
    there = pusher.n
    tool("backup", source, copy, env=env)
    pusher.push(5)
    assert "0 wrong" in tool("restore", "--check", copy, env=env)
    tool("manifest", "verify", copy, env=env)
    assert there > 50
    return there


def has_all(g, service, n):
    """Before and after compaction."""
    accept_loss(g)
    assert numbers(g, service) == set(range(n))
    compact(g)
    assert numbers(g, service) == set(range(n))


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_from_a_bucket_to_a_directory_and_back_to_a_bucket(topology, service, tmp_path):
    name, prefix, copy, back = unique("kept"), unique("source"), tmp_path / "copy", unique("back")
    with deploy(topology, *BUSY, *flags(service, prefix)) as f:
        n = backed_up_while_written(f, name, bucket_url(prefix), copy, env(service))
    check_blocks(str(copy))
    tool("restore", copy, bucket_url(back), env=env(service))
    with on_bucket(service, *CALM, prefix=back) as g:
        has_all(g, name, n)


def test_from_a_directory_to_a_bucket_and_back(each_service, tmp_path):
    name, copy, data = unique("kept"), each_service.store_url(unique("copy")), tmp_path / "data"
    with Flametree(*BUSY) as f:
        n = backed_up_while_written(f, name, f.data, copy, env(each_service))
    data.mkdir()
    tool("restore", copy, data / "store", env=env(each_service))
    with Flametree(*CALM, data=str(data)) as g:
        has_all(g, name, n)


@pytest.mark.parametrize("other", [False, True], ids=["another prefix", "another bucket"])
def test_from_a_bucket_to_a_bucket_and_back(service, other):
    name, prefix, back = unique("kept"), unique("source"), unique("back")
    bucket = service.bucket(unique("copies").lower().replace("_", "-")) if other else BUCKET
    copy = bucket_url(unique("copy"), bucket)
    with on_bucket(service, *BUSY, prefix=prefix) as f:
        n = backed_up_while_written(f, name, bucket_url(prefix), copy, env(service))
    tool("restore", copy, bucket_url(back), env=env(service))
    with on_bucket(service, *CALM, prefix=back) as g:
        has_all(g, name, n)


def test_only_what_is_new_goes_to_a_bucket_and_what_nothing_names_goes(each_service):
    prefix = unique("copy")
    copy, pair = each_service.store_url(prefix), env(each_service)

    def objects():
        return {k for k in each_service.keys(BUCKET, prefix + "/") if "/backup/" not in k}
    with Flametree(*CALM) as f:
        pusher = Pusher(f.server(), unique("kept"), HOURS_OVER)
        pusher.push(30)
        flush(f)
        tool("backup", f.data, copy, env=pair)
        first = objects()
        assert "; 0 of them" in tool("backup", f.data, copy, env=pair)
        assert objects() == first
        pusher.push(5)
        flush(f)
        tool("backup", f.data, copy, env=pair)
        assert any("/live/a/" in k for k in first & objects()) and objects() - first
        compact(f)  # segments become blocks, and go
        tool("backup", f.data, copy, env=pair)
        assert not any("/live/a/" in k for k in objects())
        assert sum("/live/m/" in k for k in objects()) == 1
        assert sum("/backup/" in k for k in each_service.keys(BUCKET, prefix + "/")) == 1


@pytest.mark.parametrize("part", ["/live/a/", "/raw/", "/live/m/"])
def test_a_damaged_copy_in_a_bucket_is_found_and_mended(service, tmp_path, part):
    prefix, pair = unique("copy"), env(service)
    copy, admin = bucket_url(prefix), (service.access_key, service.secret_key)
    with Flametree(*CALM) as f:
        for _ in range(2):
            Pusher(f.server(), unique("kept")).push(10)
            flush(f)
        if part != "/live/a/":
            compact(f)
        tool("backup", f.data, copy, env=pair)
        key = next(k for k in sorted(keys(service.url, BUCKET, prefix + "/")) if part in k)
        path = "/%s/%s" % (BUCKET, key)
        data = bytearray(call(service.url, admin, "GET", path)[1])
        data[len(data) // 2] ^= 1
        assert call(service.url, admin, "PUT", path, body=bytes(data))[0] == 200
        said = tool("restore", "--check", copy, status=1, env=pair)
        assert "damaged" in said and key.rsplit("/", 1)[1] in said, said
        tool("restore", copy, tmp_path / "elsewhere", status=1, env=pair)
        assert "copied again" in tool("backup", "--verify", f.data, copy, env=pair)
        assert "0 wrong" in tool("restore", "--check", copy, env=pair)


def test_a_backup_to_a_bucket_that_was_killed_goes_on(each_service, tmp_path):
    name, prefix, data = unique("kept"), unique("copy"), tmp_path / "data"
    copy, pair = each_service.store_url(prefix), env(each_service)
    with Flametree(*CALM) as f:
        pusher = Pusher(f.server(), name)
        for _ in range(10):
            pusher.push(4)
            flush(f)
        for done in (1, 3, 6):
            process = subprocess.Popen([PROGRAM, "backup", f.data, copy, "--rate", "0.02"], stderr=subprocess.DEVNULL, env=pair)
            await_("%d objects" % done, lambda: len(each_service.keys(BUCKET, prefix + "/")) >= done or process.poll() is not None, 60, 0.01)
            process.kill()
            assert process.wait() == -signal.SIGKILL
        tool("backup", f.data, copy, env=pair)
    data.mkdir()
    tool("restore", copy, data / "store", env=pair)
    with Flametree(*CALM, data=str(data)) as g:
        has_all(g, name, pusher.n)


def test_wrong_places_are_refused(service, tmp_path):
    prefix, copy, pair = unique("source"), bucket_url(unique("copy")), env(service)
    source = bucket_url(prefix)
    with on_bucket(service, *CALM, prefix=prefix) as f, Flametree(*CALM) as g:
        for one in (f, g):
            Pusher(one.server(), "a", HOURS_OVER).push(1)
            flush(one)
        assert "the same store" in tool("backup", source, source + "/", status=1, env=pair)
        assert "the same store" in tool("backup", g.data, g.data + "/store", status=1, env=pair)
        tool("backup", source, copy, env=pair)
        assert "another cluster" in tool("backup", g.data, copy, status=1, env=pair)
        assert "another cluster" in tool("restore", copy, g.data, status=1, env=pair)
        compact(f)
        assert "not of this copy" in tool("restore", copy, source, status=1, env=pair)
        assert "no catalog" in tool("restore", source, tmp_path / "x", status=1, env=pair)
        assert "no store of a server" in tool("backup", bucket_url(unique("nothing")), tmp_path / "x", status=1, env=pair)
        said = tool("backup", source, bucket_url("x", "no-such-bucket"), status=1, env=pair)
        assert "NoSuchBucket" in said, said
        said = tool("backup", source, tmp_path / "y", status=1, env={**pair, "AWS_SECRET_ACCESS_KEY": "wrong"})
        assert "AWS_SECRET_ACCESS_KEY is wrong" in said and service.secret_key not in said, said
