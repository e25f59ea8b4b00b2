# SPDX-License-Identifier: Apache-2.0
"""The flush of one cut with 1,000 tenants of 100 services each, and how long questions wait while it is written and dropped.

A cut is ten minutes of one hour, so that it becomes a segment for each tenant; the third one lies in two hours and becomes two, as every sixth
does in life. First the tenants are new: folders are made for each, and a note that it is there, all of which is synced. Questions go on all the while. What they cost is measured before the flush, at the same pace, and taken from the CPU
of the flush: its own is what is left. bench.flush is the same without a store, a log and questions: what making the segments takes on one core."""
import subprocess
import threading
import time

from client import Server
from flametree import Flametree

TENANTS, SERVICES = 1000, 100
QUESTIONS = 200


def ask_on(f, over, waits):
    """The smallest question there is, of a tenant with one row, again and again."""
    s = Server(f.url, tenant="other")
    now = int(time.time() * 1000)
    while not over.is_set():
        began = time.monotonic()
        s.query("LabelNames", start=now - 3600_000, end=now + 60_000).expect(200)
        waits.append((time.monotonic() - began) * 1000)
        time.sleep(0.005)


def cost_of_question(f):
    """CPU seconds of one, with all else idle."""
    over, waits = threading.Event(), []
    asker = threading.Thread(target=ask_on, args=(f, over, waits))
    before = cpu_seconds(f)
    asker.start()
    while len(waits) < QUESTIONS and asker.is_alive():
        time.sleep(0.01)
    over.set()
    asker.join()
    return (cpu_seconds(f) - before) / len(waits)


def cpu_seconds(f):
    with open("/proc/%d/stat" % f.process.pid) as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / 100


def flush(bench, f, tenants, which, until):
    """Pushes a cut of the ten minutes before `until`, flushes it and prints what that cost."""
    bench.driver.load(f, minutes=10, until=until, interval="10m", tenants=tenants, services=SERVICES, series=1, stacks=5, service_stacks=10, concurrency=64)
    rows, written = f.metric("flametree_ingester_head_rows"), f.metric("flametree_ingester_flush_bytes_total")
    segments = f.metric("flametree_ingester_flush_segments_total")
    cost = cost_of_question(f)
    over, waits = threading.Event(), []
    asker = threading.Thread(target=ask_on, args=(f, over, waits))
    asker.start()
    cpu, began = cpu_seconds(f), time.monotonic()
    f.operator().call("POST", "/ingester/flush?wait=true", b"").expect(200)
    wall, cpu = time.monotonic() - began, cpu_seconds(f) - cpu
    over.set()
    asker.join()
    asked = cost * len(waits)
    segments = f.metric("flametree_ingester_flush_segments_total") - segments
    name = "a cut of %d %s tenants, %d services, %d rows, %d segments: " % (tenants, which, tenants * SERVICES, rows, segments)
    bench.row(name + "flush", cpu - asked, "core-s", "< %g" % (2 * tenants / TENANTS))
    bench.row(name + "%d questions meanwhile" % len(waits), asked, "core-s")
    bench.row(name + "flush, clock", wall, "s")
    bench.row(name + "bytes a service", (f.metric("flametree_ingester_flush_bytes_total") - written) / tenants / SERVICES, "B")
    bench.row(name + "longest question meanwhile", max(waits), "ms")


def run(bench):
    tenants = TENANTS // 4 if bench.short else TENANTS
    with Flametree("--auth.multitenancy_enabled", "true", "--ingester.cut_age", "2h", "--ingester.cut_bytes", "2GiB", "--server.memory_limit", "8GiB",
                   "--ingester.head_memory", "4GiB", "--compactor.leaf_delay", "24h") as f:
        hour = time.time() // 3600 * 3600
        flush(bench, f, tenants, "new", hour - 1800)
        flush(bench, f, tenants, "known", hour - 1200)
        flush(bench, f, tenants, "known", hour - 3300)
    bench.build("cmake", "--build", "--preset", "release", "--target", "bench.flush")
    out = subprocess.run([bench.program("bench.flush"), str(tenants // 10), str(SERVICES)], stdout=subprocess.PIPE, text=True, check=True).stdout
    segments, rows, us, size = (float(x) for x in out.split())
    name = "%d segments of %d services, without a store: " % (segments, SERVICES)
    bench.row(name + "CPU a service", us, "us", "< 20")
    bench.row(name + "bytes a service", size, "B")
