# SPDX-License-Identifier: Apache-2.0
"""A backlog that k workers of one compactor, or k compactors of one worker, work off over a store (in memory) that takes 30 ms for each operation.

Workers wait for the store instead of computing, so two cores are enough for eight. The backlog is one leaf for each hour of a tenant or of many; the
sums above them follow. Figures are relative to one worker.
"""
import subprocess

MS = 30
BACKLOGS = [("one tenant", 1, 192), ("24 tenants", 24, 8)]


def run(bench):
    bench.build("cmake", "--build", "--preset", "release", "--target", "bench.workers")

    def measure(how, k, tenants, hours):
        out = subprocess.run([bench.program("bench.workers"), how, *map(str, (k, tenants, hours, MS))], stdout=subprocess.PIPE, text=True, check=True).stdout
        return [float(x) for x in out.split("\t")]
    for name, tenants, hours in BACKLOGS:
        hours = hours // 2 if bench.short else hours
        leaves = tenants * hours
        absorbed, settled, _, waits = measure("workers", 1, tenants, hours)
        bench.row("%s, 1 worker: leaves a second" % name, leaves / absorbed, "1/s")
        bench.row("%s, 1 worker: operations waited for, a leaf" % name, waits / leaves, "operations")
        for how, of in (("workers", "workers"), ("compactors", "processes")):
            for k in (8,) if bench.short else (2, 4, 8):
                some, all_, made, waits = measure(how, k, tenants, hours)
                wanted = ">= %.1f" % (0.8 * k)
                bench.row("%s, %d %s: leaves a second, to one's" % (name, k, of), absorbed / some, "times", wanted)
                bench.row("%s, %d %s: until nothing is due, to one's" % (name, k, of), settled / all_, "times", wanted)
                bench.row("%s, %d %s: leaves made in vain" % (name, k, of), made - leaves, "of %d" % leaves)
                bench.row("%s, %d %s: operations waited for, a leaf" % (name, k, of), waits / leaves, "operations")
