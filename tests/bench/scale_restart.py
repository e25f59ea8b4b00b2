# SPDX-License-Identifier: Apache-2.0
"""What a restart after kill -9 costs: a fleet's profiles are pushed, nothing is flushed, the process is killed, and the log is
read. FLAMETREE_BENCH_RESTART (profiles of 76 KB) makes it as large as wanted: a log that had names in every entry had 17.8 KB of
each, so 107000 of them were 1.9 GB; the figure is also told for so many.

Then a log that is 2 GB on disk: 1,000 tenants' pushes, of which each cut has all names again; --short: a fifth of it."""
import os
import re

from flametree import Flametree

PROFILES = int(os.environ.get("FLAMETREE_BENCH_RESTART", "12000"))
TENANTS = 50000  # profiles of 1,000 tenants with two services
OF_OLD = 107000  # profiles of 76 KB, 10 services, in a log of 1.9 GB of format 3
# One cut, which stays open: read by one thread, so this is the worst case.
KEEP = ("--ingester.cut_age=10h", "--ingester.cut_bytes=64GiB", "--ingester.log_disk=0", "--ingester.head_memory=6GiB",
        "--server.memory_limit=10GiB")


def cpu_seconds(f):
    with open("/proc/%d/stat" % f.process.pid) as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def restarted(f):
    """Entries and seconds of the replay."""
    f.kill()
    f.start()
    said = re.search(r"event=log.replayed cuts=\d+ entries=(\d+) took_ms=(\d+)", f.tail())
    return int(said.group(1)), int(said.group(2)) / 1000


def of_many_tenants(bench):
    """Cuts of the default size, which nobody takes away: they are read side by side."""
    with Flametree("--auth.multitenancy_enabled", "true", "--storage.kind", "none", "--ingester.log_disk=0", "--ingester.head_memory=6GiB",
                   "--server.memory_limit=10GiB") as f:
        bench.driver.load(f, minutes=10, tenants=1000, services=2, series=1, stacks=20, service_stacks=200, interval="15s", concurrency=32,
                          limit=TENANTS // 5 if bench.short else TENANTS)
        log = f.metric("flametree_ingester_log_bytes")
        _, seconds = restarted(f)
        bench.row("restart: log of 1,000 tenants", log / 1e6, "MB")
        bench.row("restart: reading it", seconds, "s", "" if bench.short else "<= 20")
        bench.row("restart: CPU of that", cpu_seconds(f), "core-s")
        bench.row("restart: memory afterwards", f.rss_bytes() / 1e6, "MB")


def run(bench):
    with Flametree(*KEEP) as f:
        bench.driver.load(f, stacks=100, services=10, series=50, rate=0, limit=PROFILES, interval="15s", concurrency=64)
        log = f.metric("flametree_ingester_log_bytes")
        entries, seconds = restarted(f)
        bench.row("restart: log of %d profiles of 76 KB" % entries, log / 1e6, "MB")
        bench.row("restart: bytes of log a profile of 76 KB", log / entries, "B")
        bench.row("restart: reading it", seconds, "s")
        bench.row("restart: for the pushes that made 1.9 GB before", seconds / entries * OF_OLD, "s", "<= 20")
        bench.row("restart: log read", log / 1e6 / seconds, "MB/s")
        bench.row("restart: memory afterwards", f.rss_bytes() / 1e6, "MB")
    of_many_tenants(bench)
