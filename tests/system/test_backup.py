"""flametree backup and restore: a copy that is made while everything runs is what was there at one moment, and gives it back."""
import os
import shutil
import signal
import subprocess
import threading

import pytest
from cli import PROGRAM, env_of, run
from client import unique
from copies import Pusher, accept_loss, numbers, tool
from flametree import AT_ONCE, TOPOLOGIES, Cluster, Flametree, await_, check_blocks, compact, deploy, flush


def store_of(f):
    """Where the processes have their objects."""
    for at, names, _ in os.walk(f.folder if isinstance(f, Cluster) else f.data):
        if "o" in names:
            return at
    raise AssertionError("no store")


def objects(folder):
    out = {}
    for at, _, names in os.walk(os.path.join(folder, "o")):
        for name in names:
            path = os.path.join(at, name)
            out[os.path.relpath(path, folder)] = os.stat(path).st_ino
    return out


def restored(copy, tmp_path, *args):
    data = tmp_path / unique("data")
    data.mkdir()
    tool("restore", copy, data / "store")
    return Flametree(*args, data=str(data))


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_copy_made_while_all_runs_is_consistent_and_comes_back(topology, tmp_path):
    service, copy = unique("kept"), tmp_path / "copy"
    with deploy(topology, *AT_ONCE, "--compactor.interval", "50ms", "--compactor.sweep_interval", "100ms", "--ingester.cut_age", "1s") as f:
        pusher = Pusher(f.server(), service)
        pusher.push(50)
        flush(f)
        sure = pusher.n
        thread = threading.Thread(target=pusher.run)
        thread.start()
        compactor = threading.Thread(target=lambda: [(flush(f), compact(f)) for _ in range(6)])
        compactor.start()
        try:
            for _ in range(4):
                tool("backup", store_of(f), copy)
        finally:
            compactor.join()
            pusher.stopped = True
            thread.join()
        flush(f)
        before = pusher.n
        tool("backup", store_of(f), copy)
        pusher.push(5)
    assert "0 wrong" in tool("restore", "--check", copy)
    tool("manifest", "verify", copy)
    check_blocks(str(copy))
    with restored(copy, tmp_path) as g:
        accept_loss(g)
        assert numbers(g, service) == set(range(before)) and before > sure
        compact(g)
        assert numbers(g, service) == set(range(before))


def test_a_copy_of_logs_in_the_store_has_what_is_not_flushed(tmp_path):
    """Taken while cuts are flushed and their logs go: each profile that was acknowledged before is in the copy once."""
    service, copy = unique("kept"), tmp_path / "copy"
    log = ("--ingester.log=object", "--ingester.log_linger=10ms")
    (tmp_path / "first").mkdir()
    with Flametree(*log, "--ingester.cut_age=1s", data=str(tmp_path / "first")) as f:
        pusher = Pusher(f.server(), service)
        pusher.push(20)
        thread = threading.Thread(target=pusher.run)
        thread.start()
        try:
            for _ in range(4):
                sure = pusher.n
                tool("backup", store_of(f), copy)
        finally:
            pusher.stopped = True
            thread.join()
    assert [name for name in objects(copy) if name.startswith("o/v1/log/")]
    check_blocks(str(copy))
    with restored(copy, tmp_path, *log) as g:
        await_("the logs to be taken over", lambda: not set(range(sure)) - numbers(g, service), 60)


def test_every_copy_on_the_way_is_whole(tmp_path):
    """Each copy has at least what was flushed before it began, and nothing twice."""
    service = unique("kept")
    with Flametree(*AT_ONCE, "--compactor.interval", "20ms", "--compactor.sweep_interval", "50ms", "--compactor.raw_retention", "0s") as f:
        pusher = Pusher(f.server(), service)
        sure, copies = [], []
        for round in range(4):
            pusher.push(20)
            flush(f)
            sure.append(pusher.n)
            worker = threading.Thread(target=compact, args=(f,))
            worker.start()
            copies.append(tmp_path / ("copy%d" % round))
            tool("backup", f.data, copies[-1])
            worker.join()
    for n, copy in zip(sure, copies):
        with restored(copy, tmp_path) as g:
            accept_loss(g)
            assert numbers(g, service) == set(range(n))


def test_only_what_is_new_is_copied_and_what_nothing_names_goes(tmp_path):
    service, copy = unique("kept"), tmp_path / "copy"
    with Flametree(*AT_ONCE, "--compactor.interval", "1h") as f:
        pusher = Pusher(f.server(), service, (7200, 14400))  # of hours that are over
        pusher.push(30)
        flush(f)
        tool("backup", f.data, copy)
        first = objects(copy)
        said = tool("backup", f.data, copy)
        assert "; 0 of them" in said, said
        assert {k: v for k, v in objects(copy).items() if "/backup/" not in k} == {k: v for k, v in first.items() if "/backup/" not in k}
        pusher.push(5)
        flush(f)
        said = tool("backup", f.data, copy)
        second = objects(copy)
        kept = [k for k in first if second.get(k) == first[k]]
        assert any("/live/a/" in k for k in kept) and len(set(second) - set(first)) >= 1, said
        compact(f)  # segments become blocks, and go
        tool("backup", f.data, copy)
        assert not any("/live/a/" in k and k in first for k in objects(copy))
        assert sum("/live/m/" in k for k in objects(copy)) == 1
        tool("manifest", "verify", copy)
        assert "0 that nobody names" in subprocess.run([PROGRAM, "manifest", "verify", str(copy)], capture_output=True, text=True).stdout


def damage(copy, part):
    """Changes a byte of an object, its size as it was; returns its name."""
    path = next(p for p in sorted(copy.rglob("*")) if p.is_file() and part in str(p))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    os.chmod(path, 0o644)
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("part", ["/live/a/", "/raw/", "/page/", "/live/m/", "/backup/"])
def test_a_damaged_copy_is_found_and_not_restored(tmp_path, part):
    service, copy = unique("kept"), tmp_path / "copy"
    with Flametree(*AT_ONCE, "--compactor.interval", "1h") as f:
        for _ in range(2):
            Pusher(f.server(), service).push(10)
            flush(f)
        if part != "/live/a/":
            compact(f)
        tool("backup", f.data, copy)
        assert "0 wrong" in tool("restore", "--check", copy)
        path = damage(copy, part)
        said = tool("restore", "--check", copy, status=1)
        assert "damaged" in said and path.name in said, said
        said = tool("restore", copy, tmp_path / "elsewhere", status=1)
        assert path.name in said or part == "/live/m/" and "manifest version" in said, said
        if part == "/backup/":
            assert path.name in tool("backup", f.data, copy, status=1)
            path.unlink()
            assert "--adopt" in tool("backup", f.data, copy, status=1)
            tool("backup", "--adopt", f.data, copy)
        else:
            assert "copied again" in tool("backup", "--verify", f.data, copy)
        assert "0 wrong" in tool("restore", "--check", copy)


def test_a_backup_that_was_killed_goes_on(tmp_path):
    service, copy = unique("kept"), tmp_path / "copy"
    with Flametree(*AT_ONCE, "--compactor.interval", "1h") as f:
        pusher = Pusher(f.server(), service)
        for _ in range(10):
            pusher.push(4)
            flush(f)
        for done in (1, 3, 6):
            process = subprocess.Popen([PROGRAM, "backup", f.data, str(copy), "--rate", "0.02"], stderr=subprocess.DEVNULL)
            await_("%d objects" % done, lambda: (copy / "o").exists() and len(objects(copy)) >= done or process.poll() is not None, 60, 0.002)
            process.kill()
            process.wait()
        tool("backup", f.data, copy)
    with restored(copy, tmp_path) as g:
        accept_loss(g)
        assert numbers(g, service) == set(range(pusher.n))


def test_a_backup_that_is_killed_while_it_deletes_leaves_a_whole_copy(tmp_path):
    """What goes is of the versions before, and the new one is there first."""
    with Flametree(*AT_ONCE, "--compactor.interval", "1h") as f:
        for _ in range(3):
            Pusher(f.server(), unique("kept"), (7200, 14400)).push(4)
            flush(f)
        tool("backup", f.data, tmp_path / "first")
        compact(f)
        for deleted in range(1, 100):
            copy = tmp_path / str(deleted)
            shutil.copytree(tmp_path / "first", copy)
            answer = run("backup", f.data, str(copy), env=env_of(FLAMETREE_FAULTS="store.deleted=die@%d" % deleted))
            assert answer.returncode in (0, -signal.SIGKILL), answer
            tool("manifest", "verify", copy)
            assert "0 wrong" in tool("restore", "--check", copy)
            if answer.returncode == 0:
                break
    assert 4 < deleted < 99


def test_what_is_deleted_while_it_is_copied_is_found_again_as_its_successor(tmp_path):
    service, copy = unique("kept"), tmp_path / "copy"
    with Flametree(*AT_ONCE, "--compactor.interval", "1h") as f:
        pusher = Pusher(f.server(), service, (7200, 14400))
        for _ in range(8):
            pusher.push(4)
            flush(f)
        process = subprocess.Popen([PROGRAM, "backup", f.data, str(copy), "--rate", "0.002"], stderr=subprocess.PIPE, text=True)
        await_("a segment", lambda: (copy / "o").exists() and any("/live/a/" in k for k in objects(copy)), 60, 0.002)
        compact(f)
        assert process.poll() is None
        said = process.communicate(timeout=120)[1]
        assert process.returncode == 0 and "2 snapshots of 1 tenants" in said, said
        tool("manifest", "verify", copy)
        assert not any("/live/a/" in k for k in objects(copy))
    with restored(copy, tmp_path) as g:
        accept_loss(g)
        assert numbers(g, service) == set(range(pusher.n))


def test_wrong_places_are_refused(tmp_path):
    with Flametree() as f, Flametree() as g:
        for one in (f, g):
            Pusher(one.server(), "a").push(1)
            flush(one)
        tool("backup", f.data, tmp_path / "copy")
        assert "another cluster" in tool("backup", g.data, tmp_path / "copy", status=1)
        assert "another cluster" in tool("restore", tmp_path / "copy", g.data, status=1)
        tool("restore", tmp_path / "copy", f.data)  # nothing has changed
        Pusher(f.server(), "a", (7200, 14400)).push(1)
        flush(f)
        compact(f)
        assert "not of this copy" in tool("restore", tmp_path / "copy", f.data, status=1)
        before = objects(os.path.join(f.data, "store"))
        assert "no catalog" in tool("backup", tmp_path / "copy", f.data, status=1)  # the wrong way round
        assert objects(os.path.join(f.data, "store")) == before
        assert "no catalog" in tool("restore", f.data, tmp_path / "x", status=1)
        assert "no store" in tool("backup", tmp_path / "nothing", tmp_path / "x", status=1)
        tool("restore", tmp_path / "copy", status=2)
        tool("restore", "--check", tmp_path / "copy", tmp_path / "x", status=2)
