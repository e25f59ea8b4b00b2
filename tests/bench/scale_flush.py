# SPDX-License-Identifier: Apache-2.0
"""The flush of one cut with 1,000 tenants of 100 services each, and how long questions wait while it is written and dropped."""
import threading
import time

from client import Server
from flametree import Flametree

TENANTS, SERVICES = 1000, 100


def ask_on(f, over, waits):
    """The smallest question there is, of a tenant with one row, again and again."""
    s = Server(f.url, tenant="other")
    now = int(time.time() * 1000)
    while not over.is_set():
        began = time.monotonic()
        s.query("LabelNames", start=now - 3600_000, end=now + 60_000).expect(200)
        waits.append((time.monotonic() - began) * 1000)
        time.sleep(0.005)


def cpu_seconds(f):
    with open("/proc/%d/stat" % f.process.pid) as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def run(bench):
    tenants = TENANTS // 4 if bench.short else TENANTS
    with Flametree("--auth.multitenancy_enabled", "true", "--ingester.cut_age", "2h", "--ingester.cut_bytes", "2GiB", "--server.memory_limit", "8GiB",
                   "--ingester.head_memory", "4GiB", "--compactor.leaf_delay", "24h") as f:
        bench.driver.load(f, minutes=50, interval="49m", tenants=tenants, services=SERVICES, series=1, stacks=5, service_stacks=10, concurrency=64)
        rows = f.metric("flametree_ingester_head_rows")
        over, waits = threading.Event(), []
        asker = threading.Thread(target=ask_on, args=(f, over, waits))
        asker.start()
        cpu, began = cpu_seconds(f), time.monotonic()
        f.operator().call("POST", "/ingester/flush?wait=true", b"").expect(200)
        wall, cpu = time.monotonic() - began, cpu_seconds(f) - cpu
        over.set()
        asker.join()
        name = "a cut of %d tenants, %d services, %d rows: " % (tenants, tenants * SERVICES, rows)
        bench.row(name + "flush", cpu, "core-s", "< %g" % (2 * tenants / TENANTS))
        bench.row(name + "flush, clock", wall, "s")
        bench.row(name + "longest question meanwhile", max(waits), "ms")
