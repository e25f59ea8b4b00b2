# SPDX-License-Identifier: Apache-2.0
"""How long a reader waits while a cut is dropped from memory, by the size of the cut and its number of services."""
import subprocess

# rows, services, tenants
CASES = ((10_000, 1, 1), (300_000, 1, 1), (3_000_000, 1, 1), (300_000, 100_000, 1), (300_000, 100_000, 1_000))


def run(bench):
    bench.build("cmake", "--build", "--preset", "release", "--target", "bench.drop")
    for rows, services, tenants in CASES[:2] if bench.short else CASES:
        out = subprocess.run(
            [bench.program("bench.drop"), str(rows), str(services), str(tenants)], stdout=subprocess.PIPE, text=True, check=True
        ).stdout
        dropped, took, *figures = (float(x) for x in out.split())
        name = "a cut of %d rows, %d services, %d tenants is dropped: " % (dropped, services, tenants)
        bench.row(name + "clock", took, "ms")
        for when, (longest, most, wait) in (("before", figures[:3]), ("meanwhile", figures[3:6])):
            wanted = ("< 5",) if when == "meanwhile" else ()
            bench.row(name + "longest question " + when, longest, "ms", *wanted)
            bench.row(name + "99.9 %% of the questions %s take less than" % when, most, "ms", *wanted)
            bench.row(name + "longest wait of a question " + when, wait, "ms", *wanted)
        hold, run_rows, moved = figures[6:]
        bench.row(name + "longest hold of a service's lock, processor", hold, "ms", "< 5")
        bench.row(name + "most rows under one hold", run_rows, "rows", "<= 1024")
        bench.row(name + "most ids moved at once", moved, "ids", "<= 1024")
