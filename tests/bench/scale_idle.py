# SPDX-License-Identifier: Apache-2.0
"""10,000 tenants of which 10 are active, and two compactors that know of each other: LISTs, CPU and memory of these.

With an interval of 6 s instead of a minute, so that ten minutes are one: looks come ten times as often as by default, sweeps as often.
"""
import json
import os
import shutil
import subprocess
import tempfile
import time
import urllib.request

from flametree import Flametree, await_

TENANTS, ACTIVE, INTERVAL, WINDOW = 10000, 10, 6, 60
HERTZ = os.sysconf("SC_CLK_TCK")


def metric(f, name):
    with urllib.request.urlopen(f.url + "/metrics", timeout=60) as answer:
        return sum(float(line.split()[-1]) for line in answer.read().decode().splitlines() if line.split("{")[0].split(" ")[0] == name)


def cpu_seconds(f):
    with open("/proc/%d/stat" % f.process.pid) as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / HERTZ


def is_settled(f):
    with urllib.request.urlopen(f.url + "/compactor/status", timeout=60) as answer:
        return json.load(answer)["settled"]


def run(bench):
    bench.build("cmake", "--build", "--preset", "release", "--target", "bench.idle")
    folder = tempfile.mkdtemp(prefix="flametree-idle-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    compactors = []
    try:
        store = os.path.join(folder, "store")
        subprocess.run([bench.program("bench.idle"), store, str(TENANTS), str(ACTIVE)], check=True)
        hosts = ["127.0.0.1:%d" % port for port in free_ports(4)]
        known = ",".join("compactor-%d=%s" % (i, hosts[2 * i + 1]) for i in range(2))
        for i in range(2):
            compactors.append(Flametree("--server.id=compactor-%d" % i, "--internal.listen=" + hosts[2 * i + 1], "--cluster.compactors=" + known,
                                        "--storage.dir=" + store, "--compactor.interval=%ds" % INTERVAL, program="flametree-compactor",
                                        listen=hosts[2 * i]).start())
        for f in compactors:
            await_("all tenants to be looked at", lambda f=f: is_settled(f), 300, 1)
        time.sleep(2 * INTERVAL)  # also what was made for the first looks is given back
        began = [(metric(f, "flametree_manifest_lists_total"), cpu_seconds(f), time.monotonic()) for f in compactors]
        time.sleep(WINDOW)
        lists = seconds = cores = 0
        for f, (before, cpu, at) in zip(compactors, began):
            seconds = time.monotonic() - at
            cores = max(cores, (cpu_seconds(f) - cpu) / seconds)
            lists += metric(f, "flametree_manifest_lists_total") - before
        busy = ACTIVE * 2 * seconds / INTERVAL  # at most
        bench.row("10,000 tenants, 10 active: LISTs of an idle one in ten intervals, in all", (lists - busy) * WINDOW / seconds / TENANTS, "LISTs", "<= 1 (+ sweeps)")
        bench.row("10,000 tenants: CPU of a compactor, looks ten times as often", cores * 100, "% of a core", "< 1 by default")
        bench.row("10,000 tenants: RSS of a compactor", max(f.rss_bytes() for f in compactors) / 1e6, "MB", "< 50")
    finally:
        for f in compactors:
            f.stop()
        shutil.rmtree(folder, ignore_errors=True)


def free_ports(n):
    import socket
    sockets = [socket.socket() for _ in range(n)]
    for s in sockets:
        s.bind(("127.0.0.1", 0))
    ports = [s.getsockname()[1] for s in sockets]
    for s in sockets:
        s.close()
    return ports
