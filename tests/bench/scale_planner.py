# SPDX-License-Identifier: Apache-2.0
"""What a compactor's plan of a tenant with 50,000 blocks costs, in the states of tests/unit/compactor/many.h."""
import subprocess


def run(bench):
    bench.build("cmake", "--build", "--preset", "release", "--target", "bench.planner")
    out = subprocess.run([bench.program("bench.planner"), "50000"], stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in out.splitlines():
        name, blocks, jobs, ms, used = line.split("\t")
        bench.row("plan of %d blocks, %s (%d jobs)" % (round(int(blocks), -3), name, int(jobs)), float(ms), "ms", "< 200")
