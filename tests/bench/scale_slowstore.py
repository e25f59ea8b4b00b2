# SPDX-License-Identifier: Apache-2.0
"""10,000 small segments absorbed and deleted over a store (in memory) that takes 30 ms for each operation and does 16 at once."""
import subprocess


def run(bench):
    bench.build("cmake", "--build", "--preset", "release", "--target", "bench.slowstore")
    out = subprocess.run([bench.program("bench.slowstore"), "10000", "30", "16"], stdout=subprocess.PIPE, text=True, check=True).stdout
    absorbed, deleted, turns = out.split("\t")
    bench.row("10,000 segments at 30 ms an operation: absorbed", float(absorbed), "s")
    bench.row("10,000 segments at 30 ms an operation: deleted", float(deleted), "s")
    bench.row("10,000 segments at 30 ms an operation: together", float(absorbed) + float(deleted), "s", "< 60")
    bench.row("of it, operations one after the other", int(turns), "operations", "< 2000")
