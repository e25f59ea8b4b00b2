"""Section storage: where objects are kept, how, and what is said when they cannot be."""
import contextlib
import os
import shutil
import subprocess
import sys

import pytest
from flametree import BIN, TOP, Flametree, await_
from ledger import Ledger
from test_flush import call, cuts
from test_full_disk import fill, mounted

WITHOUT_URING = os.path.join(TOP, "tests/lib/without_uring.py")


def refused(*args, program="flametree"):
    """What a program says that does not start; one line."""
    done = subprocess.run([os.path.join(BIN, program), "--server.listen", "127.0.0.1:0", *args], capture_output=True, text=True, timeout=60)
    said = [line for line in done.stderr.splitlines() if not line.startswith("ts=")]
    assert done.returncode in (1, 2) and len(said) == 1, done.stderr
    return done.returncode, said[0]


def io_mode(f):
    modes = {mode: f.metric('flametree_store_io{mode="%s"}' % mode) for mode in ("uring", "threads")}
    assert sorted(modes.values()) == [0, 1], modes
    return max(modes, key=modes.get)


@pytest.mark.parametrize("args,says", [
    (["--storage.kind", "tape"], "storage.kind: 'tape' is none of local, s3, azure, none"),
    (["--storage.kind", "s3"], "s3.bucket: storage.kind s3 needs the name of a bucket"),
    (["--storage.io", "aio"], "storage.io: 'aio' is none of auto, threads"),
    (["--storage.width", "0"], "storage.width"),
], ids=["kind", "bucket", "io", "width"])
def test_wrong_settings_are_named(tmp_path, args, says):
    code, said = refused("--server.data_dir", str(tmp_path), *args)
    assert code == 2 and says in said, said


@pytest.mark.parametrize("where", ["/proc/self/objects", "{tmp}/" + "long/" * 700], ids=["not writable", "too long"])
def test_a_directory_that_cannot_be_used_is_told_in_one_line(tmp_path, where):
    where = where.format(tmp=tmp_path)
    code, said = refused("--server.data_dir", str(tmp_path / "data"), "--storage.dir", where)
    assert code == 1 and "store " + where[:200] in said, said


def test_a_file_in_the_place_of_a_directory_is_a_wrong_setting(tmp_path):
    (tmp_path / "file").write_text("not a directory")
    code, said = refused("--server.data_dir", str(tmp_path / "data"), "--storage.dir", str(tmp_path / "file"))
    assert code == 2 and said == "flametree: storage.dir: '%s' is not a directory" % (tmp_path / "file"), said


def test_all_in_one_keeps_objects_in_its_data_directory(tmp_path):
    with Flametree(data=str(tmp_path)) as f:
        assert os.path.isdir(tmp_path / "store" / "o")
        assert io_mode(f) in ("uring", "threads")
        assert f.metric('flametree_store_operations_total{operation="create",result="ok"}') >= 1
    assert os.listdir(tmp_path / "store" / "t") == ["lock"]


def test_objects_of_a_format_that_is_not_known_are_left_alone(tmp_path):
    claim = tmp_path / "store" / "o" / "v1" / "cluster"
    with Flametree(data=str(tmp_path)) as f:
        mine = claim.read_bytes()
        assert len(mine) == 20 and f.tail().count("event=storage.opened cluster=") == 1
    with Flametree(data=str(tmp_path)):
        assert claim.read_bytes() == mine
    claim.parent.chmod(0o700)
    claim.unlink()
    claim.write_bytes(b"\x08\x02" + mine[2:])
    code, said = refused("--server.data_dir", str(tmp_path))
    assert code == 1 and "v1/cluster" in said and "format 2" in said, said
    for service in ("distributor", "ingester", "querier", "compactor"):  # of a cluster, with a new disk
        code, said = refused("--server.data_dir", str(tmp_path / service), "--internal.listen", "127.0.0.1:0", "--storage.dir", str(tmp_path / "store"), program="flametree-" + service)
        assert code == 1 and "v1/cluster" in said and "format 2" in said, said


def test_an_empty_or_another_store_is_not_taken_for_the_own_one(tmp_path):
    data, store = tmp_path / "data", tmp_path / "store"
    data.mkdir()
    (tmp_path / "new").mkdir()
    args = ("--server.data_dir", str(data), "--storage.dir", str(store))
    with Flametree("--storage.dir", str(store), data=str(data)):
        pass
    store.rename(tmp_path / "aside")
    for _ in range(2):  # it is not made by the first try
        code, said = refused(*args)
        assert code == 1 and "is it mounted?" in said and str(data / "cluster") in said, said
    with Flametree("--storage.dir", str(tmp_path / "other"), data=str(tmp_path / "new")):
        pass
    code, said = refused("--server.data_dir", str(data), "--storage.dir", str(tmp_path / "other"))
    assert code == 1 and "it is cluster" in said, said
    shutil.rmtree(store)
    (tmp_path / "aside").rename(store)
    with Flametree("--storage.dir", str(store), data=str(data)):
        pass
    (data / "cluster").unlink()
    with Flametree("--storage.dir", str(tmp_path / "other"), data=str(data)):
        pass


def test_another_store_that_is_found_to_be_one_only_later_ends_the_process(tmp_path):
    """Before anything is written to it: the heads would be."""
    mine, other = ("--storage.dir", str(tmp_path / "mine")), ("--storage.dir", str(tmp_path / "other"))
    for name, store in (("data", mine), ("new", other)):
        (tmp_path / name).mkdir()
        with Flametree(*store, data=str(tmp_path / name)):
            pass
    f = Flametree(*other, data=str(tmp_path / "data"), env={"FLAMETREE_FAULTS": "manifest.claim=eio@1"})
    f.start(wait=False)
    try:
        assert f.process.wait(timeout=60) == 1
    finally:
        if f.process.poll() is None:
            f.kill()
    assert "event=storage.unasked" in f.tail() and "it is cluster" in f.tail().splitlines()[-1], f.tail()


def alone(tmp_path, name, program, *args):
    (tmp_path / name).mkdir()
    return Flametree("--internal.listen", "127.0.0.1:0", *args, program=program, data=str(tmp_path / name))


def test_a_service_alone_has_no_storage_unless_it_is_set(tmp_path):
    with alone(tmp_path, "none", "flametree-ingester") as f:
        assert f.tail().count("event=storage.none") == 1
    shared = str(tmp_path / "shared")
    with alone(tmp_path, "ingester", "flametree-ingester", "--storage.dir", shared) as f, \
            alone(tmp_path, "compactor", "flametree-compactor", "--storage.dir", shared) as g:
        for one in (f, g):
            assert "event=storage.none" not in one.tail() and io_mode(one)
    assert os.listdir(os.path.join(shared, "t")) == ["lock"]


def test_threads_are_used_when_they_are_wanted(tmp_path):
    with Flametree("--storage.io", "threads", data=str(tmp_path)) as f:
        assert io_mode(f) == "threads" and "event=store.no_uring" not in f.tail()


def test_threads_are_used_where_io_uring_is_forbidden(tmp_path):
    f = Flametree(data=str(tmp_path), program=sys.executable)
    f.args = [WITHOUT_URING, os.path.join(BIN, "flametree"), *f.args]
    with f:
        assert io_mode(f) == "threads"
        assert f.tail().count("event=store.no_uring") == 1 and 'why="Operation not permitted"' in f.tail()


def test_what_a_killed_process_left_unfinished_is_swept(tmp_path):
    with Flametree(data=str(tmp_path)) as f:
        f.kill()
        f.start()
        (tmp_path / "store/t/01ARZ3NDEKTSV4RRFFQ69G5FAV").write_text("half of a segm")
        f.kill()
        f.start()
        # A kill may leave a file of its own.
        assert f.metric("flametree_store_swept_total") >= 1
        await_("a folder without files of others; an own one may be under way", lambda: os.listdir(tmp_path / "store" / "t") == ["lock"])


@pytest.fixture
def small(tmp_path):
    yield from mounted(tmp_path / "small", "-t", "tmpfs", "-o", "size=%d" % (4 << 20), "none")


def make_full(path):
    fill(path / "junk")
    return lambda: os.unlink(path / "junk")


def make_read_only(path):
    """Not while a file is open for writing, as one may still be for a moment."""
    await_("the disk to be read-only", lambda: subprocess.run(["mount", "-o", "remount,ro", str(path)], capture_output=True).returncode == 0)
    return lambda: subprocess.run(["mount", "-o", "remount,rw", str(path)], check=True)


@pytest.mark.parametrize("spoil, says", [(make_full, "No space left on device"), (make_read_only, "Read-only file system")], ids=["full", "read-only"])
@pytest.mark.parametrize("io", ["auto", "threads"])
def test_objects_are_created_again_when_their_disk_has_room_again(small, io, spoil, says):
    with Flametree("--storage.dir", str(small / "store"), "--storage.io", io, "--ingester.cut_age", "1h") as f:
        book = Ledger(f)
        for name in ("before.0", "before.1"):
            assert book.push(name, weight=4000) == 200
        assert call(f, "/ingester/flush")[0] == 200
        mend = spoil(small)
        for i in range(20):
            assert book.push("meanwhile.%d" % i, weight=4000) == 200
        status, why = call(f, "/ingester/flush")
        assert status == 503 and says in str(why) and "object v1/" in str(why), (status, why)
        book.check()
        assert f.metric('flametree_store_operations_total{operation="create",result="unavailable"}') or spoil is make_read_only
        mend()
        assert call(f, "/ingester/flush")[0] == 200
        await_("the log to be empty", lambda: cuts(f) == [])
        book.check()
        await_("nothing unfinished to be left", lambda: os.listdir(small / "store" / "t") == ["lock"])  # the compactor may be writing


def test_a_store_that_was_moved_away_is_no_empty_store(tmp_path):
    """Its disk is not mounted any more, say: nothing is answered from what is left, and nothing is lost when it is back."""
    store, away = tmp_path / "store", tmp_path / "away"
    with Flametree("--storage.dir", str(store), "--ingester.cut_age", "1h") as f:
        book = Ledger(f)
        assert book.push("stored") == 200
        assert call(f, "/ingester/flush")[0] == 200
        book.check()
        os.rename(store, away)
        for leftover in (False, True):
            if leftover:
                os.makedirs(store / "o")
            assert book.push("meanwhile.%d" % leftover) == 200
            for path, body in (("/querier.v1.QuerierService/LabelNames", b'{"start":1,"end":2}'), ("/ingester/flush", b"")):
                reply = f.server().call("POST", path, body, {"Content-Type": "application/json"}).expect(503)
                assert "store %s: " % store in reply.message(), reply
        os.removedirs(store / "o")
        os.rename(away, store)
        book.check()
        assert call(f, "/ingester/flush")[0] == 200
        book.check()


# ---- what the store must guarantee

def test_a_store_is_tried_out_at_the_start(tmp_path):
    with Flametree(data=str(tmp_path)) as f:
        line = next(line for line in f.tail().splitlines() if "event=storage.tried" in line)
        assert "store=%s/store" % tmp_path in line and "seen and listed at once" in line and "created only once" in line and "deletions" in line, line
        assert "storage.untried" not in f.server().call("GET", "/ready").expect(200).text


def test_a_store_that_is_away_at_the_start_is_tried_out_when_it_is_there(tmp_path):
    f = alone(tmp_path, "data", "flametree-compactor", "--storage.dir", str(tmp_path / "store"))
    f.env["FLAMETREE_FAULTS"] = "store.link=eio@3"
    with f:
        await_("the store to be tried out", lambda: "event=storage.tried" in f.tail(500))
        log = f.tail(500)
        assert "event=storage.untried" in log and "Input/output error" in log, log
        assert log.index("event=storage.untried") < log.index("event=storage.tried") and "event=notice.over of=storage.untried" in log, log
        assert f.server().call("GET", "/ready").expect(200).text == "ready"


def test_a_store_that_cannot_be_tried_out_is_told(tmp_path):
    with Flametree("--storage.dir", str(tmp_path / "store")) as f:  # so that it is a cluster's
        pass
    f = alone(tmp_path, "data", "flametree-compactor", "--storage.dir", str(tmp_path / "store"))
    f.env["FLAMETREE_FAULTS"] = "store.link=eio@3+"
    with f:
        assert "storage.untried" in f.server().call("GET", "/ready").expect(200, "Input/output error").text


def test_a_store_that_breaks_a_promise_when_it_is_tried_out_late_is_refused(tmp_path):
    """What one client created the other one does not find, because the test takes it away between the two."""
    f = alone(tmp_path, "data", "flametree-compactor", "--storage.dir", str(tmp_path / "store"))
    f.env["FLAMETREE_FAULTS"] = "store.link=eio@3;store.created=delay:2000"
    folder = tmp_path / "store/o/v1/check"
    try:
        f.start(wait=False)

        def lost():
            if folder.is_dir():
                folder.chmod(0o700)
                for name in os.listdir(folder):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(folder / name)
            return f.process.poll() is not None
        await_("the process to end", lost, 60)
        assert f.process.returncode == 1 and "event=process.ready" in f.tail(500), f.tail(500)
        assert "event=storage.refused" in f.tail(500) and "flametree: storage %s/store: " % tmp_path in f.tail(500), f.tail(500)
    finally:
        if f.process.poll() is None:
            f.kill()
        f.process = None
