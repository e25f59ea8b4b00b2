"""The disk of the data directory is full or read-only: pushes are refused and say why, what was acknowledged stays, and space heals.

Failures of single calls are in test_kill_points.py."""
import os
import subprocess
from collections import Counter

import pytest
from client import Pprof, Server
from faultclock import FaultClock
from flametree import BIN, Flametree, await_
from ledger import Ledger

DISK_BYTES = 24 << 20


def mounted(path, *how):
    """Mounts a small file system for the time of a test; needs the right to."""
    path.mkdir()
    done = subprocess.run(["mount", *how, str(path)], capture_output=True, text=True)
    if done.returncode:
        pytest.skip("no right to mount: " + done.stderr.strip())
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.fixture
def disk(tmp_path):
    yield from mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=%d" % DISK_BYTES, "none")


@pytest.fixture
def real_disk(tmp_path):
    """One that a file system error makes read-only under a process that writes."""
    image = tmp_path / "image"
    with open(image, "wb") as f:
        f.truncate(2 * DISK_BYTES)
    if subprocess.run(["mke2fs", "-q", "-t", "ext4", str(image)], capture_output=True).returncode:
        pytest.skip("no ext4 can be made")
    yield from mounted(tmp_path / "disk", "-o", "loop,errors=remount-ro", str(image))


class Pusher:
    def __init__(self, f):
        self.acked, self.refused, self.n = [], Counter(), 0
        self.reach(f)

    def reach(self, f):
        self.server = Server(f.url, strict=True)

    def push(self, count):
        """Profiles of about 120 kB that do not compress; returns how many were taken."""
        before = len(self.acked)
        for _ in range(count):
            self.n += 1
            name = "p%d" % self.n
            samples = [("%s;%s" % (name, os.urandom(900).hex()), 1) for _ in range(60)]
            reply = self.server.push({"__name__": "process_cpu", "service_name": "disk"}, Pprof((name, 1), *samples))
            if reply.status == 200:
                self.acked.append(name)
            else:
                self.refused[(reply.status, reply.json()["code"])] += 1
        return len(self.acked) - before

    def check(self):
        got = self.server.stacks("disk", maxNodes=1 << 20)
        assert not [name for name in self.acked if got.get(name) != 1], "acknowledged, but lost or doubled"


def fill(path, leave=0):
    """Another program takes all that is left, but for so many pages."""
    with open(path, "wb", buffering=0) as junk:
        try:
            while True:
                junk.write(b"x" * 4096)
        except OSError:
            pass
        junk.truncate(max(0, os.path.getsize(path) - 4096 * leave))


def test_own_log_stops_at_the_reserve_and_others_may_take_the_rest(disk):
    data = disk / "data"
    data.mkdir()
    with Flametree("--ingester.disk_reserve", "8MiB", "--ingester.log_memory", "4MiB", data=str(data)) as f:
        f.log = str(disk.parent / "test.log")
        p = Pusher(f)
        assert p.push(200) > 20
        assert set(p.refused) == {(429, "resource_exhausted")}, p.refused
        fill(disk / "junk")
        assert p.push(3) == 0
        p.check()
        os.unlink(disk / "junk")

        f.kill()  # the reserve is enough to read the log again
        f.start()
        p.reach(f)
        p.check()


@pytest.mark.parametrize("mib", [1, 2, 4])
@pytest.mark.parametrize("shift", [0, 300_000, 700_000])
def test_the_least_reserve_is_enough_to_open_the_log_again(disk, mib, shift):
    data = disk / "data"
    data.mkdir()
    (disk / "junk").write_bytes(bytes(shift))  # so that pushes end elsewhere
    with Flametree("--ingester.disk_reserve", "%dMiB" % (2 * mib), "--ingester.log_memory", "%dMiB" % mib, data=str(data)) as f:
        f.log = str(disk.parent / "test.log")
        p = Pusher(f)
        assert p.push(20) == 20
        while p.push(10):
            pass
        assert set(p.refused) == {(429, "resource_exhausted")}, p.refused
        f.kill()
        f.start()
        p.reach(f)
        p.check()


@pytest.mark.parametrize("reserve, memory, well", [("0", "1GiB", True), ("2MiB", "1MiB", True), ("512MiB", "256MiB", True),
                                                   ("1", "1MiB", False), ("2097151", "1MiB", False), (None, "300MiB", False)])
def test_a_reserve_that_is_too_small_is_refused(reserve, memory, well):
    args = ["--check-config", "--ingester.log_memory", memory] + (["--ingester.disk_reserve", reserve] if reserve else [])
    answer = subprocess.run([os.path.join(BIN, "flametree"), *args], capture_output=True, text=True, timeout=60)
    assert answer.returncode == (0 if well else 2), answer
    for word in () if well else ("ingester.disk_reserve", "ingester.log_memory", {"1": "is 1 bytes", None: "is 536870912 bytes"}.get(reserve, reserve)):
        assert word in answer.stderr, answer.stderr


def test_a_disk_that_fills_up_under_writes_heals_without_a_restart(disk):
    data = disk / "data"
    data.mkdir()
    with Flametree("--ingester.disk_reserve", "0", "--ingester.log_memory", "2MiB", data=str(data)) as f:
        f.log = str(disk.parent / "test.log")
        p = Pusher(f)
        assert p.push(20) == 20
        fill(disk / "junk")
        p.push(10)
        assert p.refused and set(p.refused) <= {(429, "resource_exhausted"), (503, "unavailable")}, p.refused
        f.check_alive()
        p.check()
        os.unlink(disk / "junk")
        await_("pushes to be taken again", lambda: p.push(1), 30, 0.2)
        p.check()
        f.kill()
        f.start()
        p.reach(f)
        p.check()


# ---- in the middle of a commit

def why(answer):
    """Every refusal names the disk."""
    code, message = answer.error()
    if answer.status == 429:
        assert code == "resource_exhausted" and "the disk of the log has" in message and answer.headers["Retry-After"], message
    else:
        assert answer.status == 503 and code == "unavailable" and "No space left on device" in message, (answer.status, message)


def on(disk, *flags, **kw):
    (disk / "data").mkdir()
    f = Flametree("--ingester.disk_reserve", "0", *flags, data=str(disk / "data"), **kw)
    f.log = str(disk.parent / "test.log")
    return f


def logged(f, text):
    with open(f.log) as log:
        return log.read().count(text)


# Small cuts meet the end when one opens and closes (RocksDB's MANIFEST and tables), large profiles in the WAL, and small
# buffers when they are flushed meanwhile.
@pytest.mark.parametrize("cut, weight, pages", [("4KiB", 1500, (1, 2, 3, 5, 8, 12)), ("64KiB", 30_000, (8, 60)), ("64MiB", 60_000, (34, 90))])
def test_a_disk_that_fills_up_in_the_middle_of_a_commit_loses_nothing(disk, cut, weight, pages):
    with on(disk, "--ingester.log_memory", "1MiB", "--ingester.cut_bytes", cut) as f:
        book = Ledger(f)
        push = lambda name: book.push(name, weight=weight)
        assert [push("first.%d" % i) for i in range(8)] == [200] * 8
        for leave in pages:
            fill(disk / "junk", leave)
            for i in range(25):
                if push("%d.%d" % (leave, i)) != 200:
                    why(book.last)
            f.check_alive()
            book.check()
            os.unlink(disk / "junk")
            await_("pushes to be taken again", lambda: push("after.%d" % leave) == 200)
            book.check()
        assert logged(f, "event=log.failed"), "the disk never failed under a write"
        assert logged(f, "No space left on device")

        fill(disk / "junk", pages[-1])  # and the process ends in the middle of it
        for i in range(25):
            push("last.%d" % i)
        f.kill()
        f.start(wait=False)
        try:
            f.await_ready()
        except AssertionError:
            assert f.process is None and "No space left on device" in f.tail(3), f.tail()
        os.unlink(disk / "junk")
        if f.process is None:
            f.start()
        book.check()
        await_("pushes to be taken again", lambda: push("again") == 200)
        book.retry(book.unsure)
        book.check()


def test_a_disk_that_is_full_when_the_log_is_opened_again_is_tried_until_it_is_not(disk, tmp_path):
    faults, clock = "wal.write.before=enospc@12;wal.recover=delay:300", FaultClock(tmp_path / "clock")
    with on(disk, "--ingester.log_memory", "1MiB", env={"FLAMETREE_FAULTS": faults, **clock.env}) as f:
        book = Ledger(f)
        for i in range(11):
            assert book.push("first.%d" % i, weight=60_000) == 200
        assert book.push("failed", weight=60_000) == 503
        fill(disk / "junk")
        await_("opening to fail", lambda: logged(f, "event=log.reopen_failed") == 1)
        clock.wait(60)  # the same fault is told once a minute
        await_("opening to fail twice", lambda: logged(f, "event=log.reopen_failed") >= 2)
        assert book.push("meanwhile") == 503
        why(book.last)
        ready = Server(f.url).call("GET", "/ready")
        assert ready.status == 503 and "No space left on device" in ready.text, ready
        book.check()
        os.unlink(disk / "junk")
        await_("pushes to be taken again", lambda: book.push("after") == 200)
        assert Server(f.url).call("GET", "/ready").status == 200
        book.check()
        f.kill()
        f.start()
        book.check()


def test_a_file_system_that_turns_read_only_is_told_and_loses_nothing(real_disk):
    device = subprocess.run(["findmnt", "-n", "-o", "SOURCE", str(real_disk)], capture_output=True, text=True).stdout.strip()
    trigger = "/sys/fs/ext4/%s/trigger_fs_error" % os.path.basename(device)
    if not os.access(trigger, os.W_OK):
        pytest.skip("no %s" % trigger)
    with on(real_disk, "--ingester.log_memory", "1MiB", "--ingester.cut_bytes", "16KiB") as f:
        book = Ledger(f)
        for i in range(40):
            assert book.push("first.%d" % i, weight=2000) == 200
        with open(trigger, "w") as error:
            error.write("1")
        await_("a push to be refused", lambda: book.push("late.%d" % len(book.bodies), weight=2000) != 200)
        for i in range(5):
            assert book.push("refused.%d" % i, weight=2000) == 503
            assert "Read-only file system" in book.last.error()[1], book.last.body
        await_("opening to fail", lambda: logged(f, "event=log.reopen_failed"))
        f.check_alive()
        book.check()
        f.kill()

        ended = subprocess.run([f.program, *f.args], capture_output=True, text=True, timeout=60)
        assert ended.returncode == 1 and "Read-only file system" in ended.stderr, ended
        image = str(real_disk.parent / "image")
        # The kernel lets go of an io_uring and its files a little after the process that had them.
        await_("the disk to be let go of", lambda: subprocess.run(["umount", str(real_disk)], capture_output=True).returncode == 0)
        for step in (["e2fsck", "-fy", image], ["mount", "-o", "loop", image, str(real_disk)]):
            done = subprocess.run(step, capture_output=True, text=True)
            assert done.returncode <= 1, done
        f.start()
        book.check()
        book.retry()
        assert set(book.found()) == set(book.bodies)


def test_a_full_disk_stops_nothing_where_the_log_is_in_the_store(disk):
    """New streams begin meanwhile. The process is killed and starts again on the full disk: its streams are adopted out of the store."""
    store = str(disk.parent / "objects")
    with on(disk, "--ingester.log=object", "--ingester.log_linger=0ms", "--ingester.stream_age=100ms", "--ingester.cut_age=1s", "--storage.dir", store) as f:
        server, pods = Server(f.url, strict=True), []

        def push(count):
            for _ in range(count):
                pods.append("p%d" % len(pods))
                server.push({"__name__": "process_cpu", "service_name": "disk"}, Pprof((pods[-1], 1))).expect(200)

        def all_there():
            return {pod: server.stacks("disk", maxNodes=1 << 16).get(pod) for pod in pods} == dict.fromkeys(pods, 1)

        push(3)
        junk = disk / "junk"
        fill(junk)

        def unnoted():
            push(1)
            return logged(f, "event=log.streams_unnoted")
        await_("the file of streams not to be written", unnoted, 30, 0.1)
        push(3)
        assert all_there()
        f.kill()
        # A process needs a few files of its own at a start; none is of the log.
        junk.unlink()
        (disk / "data/ingester/log/STREAMS.tmp").unlink(missing_ok=True)
        (disk / "data/ingester/log/STREAMS.tmp").mkdir()
        f.start()
        server = Server(f.url, strict=True)
        await_("what was pushed to be there", all_there, 60, 0.2)
        push(3)
        assert all_there()
        (disk / "data/ingester/log/STREAMS.tmp").rmdir()
        await_("the file of streams to be written", lambda: logged(f, "event=log.streams_noted"))
