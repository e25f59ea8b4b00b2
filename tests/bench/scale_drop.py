# SPDX-License-Identifier: Apache-2.0
"""How long a reader waits while a cut is dropped from memory, by the size of the cut."""
import subprocess


def run(bench):
    bench.build("cmake", "--build", "--preset", "release", "--target", "bench.drop")
    for rows in (10_000, 300_000) if bench.short else (10_000, 300_000, 3_000_000):
        out = subprocess.run([bench.program("bench.drop"), str(rows)], stdout=subprocess.PIPE, text=True, check=True).stdout
        dropped, took, before, during = (float(x) for x in out.split())
        name = "a cut of %d rows of a series is dropped: " % dropped
        bench.row(name + "clock", took, "ms")
        bench.row(name + "longest question before", before, "ms")
        bench.row(name + "longest question meanwhile", during, "ms", "< 5")
