# SPDX-License-Identifier: Apache-2.0
"""The group `import` of tests/bench/run: a folder with the profiles of a month is imported into an empty server, and again.

The files are those of ten pods, a CPU profile every five minutes: recorded ones where there are recordings, and made-up ones of 50 stacks elsewhere, with
their times in their names. Core-seconds are those of client and server together; the compactor's work after the import counts apart."""
import gzip
import os
import random
import resource
import shutil
import subprocess
import tempfile
import time

from client import CPU, Pprof
from flametree import Flametree

DAY = 86400
QUESTIONS = 20


def templates(corpus, names):
    """Uncompressed profiles."""
    if all(os.path.exists(os.path.join(corpus, name)) for name in names):
        for name in names:
            with open(os.path.join(corpus, name), "rb") as f:
                data = f.read()
            yield gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        return
    rng = random.Random(1)
    for _ in range(20):
        yield Pprof(*(("main;%s" % ";".join("layer%d.function%d" % (d, rng.randrange(30)) for d in range(20)), (rng.randrange(1, 9), rng.randrange(10**6)))
                      for _ in range(50)), types=(("samples", "count"), ("cpu", "nanoseconds"))).encode()


def fill(folder, days, profiles):
    """Returns the uncompressed bytes and the number of files. They are packed, as dumps of profiles are."""
    packed = [gzip.compress(p, 1) for p in profiles]
    begin = (int(time.time()) // DAY - days - 1) * DAY
    total = n = 0
    for day in range(days):
        for pod in range(10):
            at = os.path.join(folder, "%d" % day, "pod%d" % pod)
            os.makedirs(at)
            for k in range(288):
                which = (pod * 7 + k) % len(packed)
                with open(os.path.join(at, "shop.%d.pb.gz" % (begin + day * DAY + k * 300 + pod)), "wb") as f:
                    f.write(packed[which])
                total += len(profiles[which])
                n += 1
    return total, n, begin


def cpu_seconds(pid):
    with open("/proc/%d/stat" % pid) as f:
        fields = f.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def do_import(f, program, folder, *more):
    """Core-seconds of both, seconds, and the client's peak of memory."""
    before, began = cpu_seconds(f.process.pid), time.monotonic()
    child = subprocess.Popen([program, "import", folder, "--time", "name", "--pattern", "%s", "--no-compact", "--url", f.url, *more],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    said = child.stderr.read()
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = status
    assert status == 0, said
    return cpu_seconds(f.process.pid) - before + usage.ru_utime + usage.ru_stime, time.monotonic() - began, usage.ru_maxrss * 1024


def run(row, note, program, corpus, names, short):
    folder = tempfile.mkdtemp(prefix="flametree-bench-")
    days = 3 if short else 30
    try:
        profiles = list(templates(corpus, names))
        total, n, begin = fill(folder, days, profiles)
        note("%d profiles of %d days, %.0f MB uncompressed" % (n, days, total / 1e6))
        with Flametree() as f:
            idle = f.rss_bytes()
            core, wall, client = do_import(f, program, folder)
            row("import", "a month: uncompressed pprof imported", total / 1e6 / core, "MB/core-s", ">= 50")
            row("import", "a month: by the clock", total / 1e6 / wall, "MB/s")
            row("import", "a month: peak RSS of the server (%.0f MB idle)" % (idle / 1e6), f.peak_rss_bytes() / 1e6, "MB", "<= 300")
            row("import", "a month: peak RSS of the client", client / 1e6, "MB", "<= 300")
            began, cpu = time.monotonic(), cpu_seconds(f.process.pid)
            while not f.operator().call("POST", "/compactor/run?timeout=30s").expect(200).json()["settled"]:
                pass
            row("import", "a month: until its sums are made", time.monotonic() - began, "s", "< 300")
            row("import", "a month: core-seconds for its sums", cpu_seconds(f.process.pid) - cpu, "core-s")
            times = []
            for _ in range(QUESTIONS):
                began = time.monotonic()
                f.server().ok("SelectMergeStacktraces", profileTypeID=CPU, labelSelector='{service_name="shop"}', start=begin * 1000, end=(begin + days * DAY) * 1000)
                times.append((time.monotonic() - began) * 1000)
            row("import", "a month: its flame graph, p50", sorted(times)[QUESTIONS // 2], "ms", "< 50")
            core, wall, _ = do_import(f, program, folder)
            row("import", "the same again: recognised", total / 1e6 / core, "MB/core-s")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
