"""The disk of the data directory is full: pushes are refused and say why, what was acknowledged stays, and space heals."""
import os
import subprocess
from collections import Counter

import pytest
from client import Pprof, Server
from flametree import BIN, Flametree, await_

DISK_BYTES = 24 << 20


@pytest.fixture
def disk(tmp_path):
    """A small file system of its own; needs the right to mount."""
    path = tmp_path / "disk"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%d" % DISK_BYTES, "none", str(path)], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip("no right to mount: " + mounted.stderr.strip())
    try:
        yield path
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


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


def fill(path):
    """Another program takes all that is left."""
    with open(path, "wb", buffering=0) as junk:
        try:
            while True:
                junk.write(b"x" * 4096)
        except OSError:
            pass


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
