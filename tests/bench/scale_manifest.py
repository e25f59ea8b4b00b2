# SPDX-License-Identifier: Apache-2.0
"""What the manifest of a tenant costs: memory of 400 days, bytes of a commit to a busy day, LISTs of queries."""
import re
import subprocess
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor

from client import Pprof
from flametree import Flametree
from hostile import metrics

HOUR_MS = 3600_000
TESTS = ("unit.manifest.year", "unit.manifest.busy", "unit.manifest.snapshot")


def said(bench, test, pattern):
    out = subprocess.run([bench.program(test)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True).stdout
    return [float(x) for x in re.search(pattern, out).groups()]


def run(bench):
    bench.build("cmake", "--build", "--preset", "release", "--target", *TESTS)
    pages, encoded, asked, idle = said(bench, TESTS[0], r"(\d+) pages, (\d+) KB; asked (\d+) KB, idle (\d+) KB")
    bench.note("400 days: %d pages of %d KB in the store" % (pages, encoded))
    bench.row("manifest of 400 days, resident while asked", asked, "KiB", "<= 1024")
    bench.row("manifest of 400 days, resident when idle", idle, "KiB", "<= 300")
    sources, commit = said(bench, TESTS[1], r"(\d+) sources: (\d+) bytes created by a commit")
    bench.row("a further leaf of a day of %d sources, created" % sources, commit / 1024, "KiB")
    keys, known, first = said(bench, TESTS[2], r"(\d+) live keys: (\d+) pages of a LIST, (\d+) where no version is known")
    bench.row("LIST of %d live keys, mostly old versions" % keys, known, "pages", "<= %d" % -(-keys // 1000))
    bench.row("the same where no version is known yet", first, "pages", "<= %d" % -(-keys // 1000))
    shared(bench)


def shared(bench):
    with tempfile.TemporaryDirectory() as data, Flametree(data=data) as f:
        f.server().push({"__name__": "process_cpu", "service_name": "shop"}, Pprof(("main;a", 1)))
        now = time.time_ns() // 10**6
        ask = {"profileTypeID": "process_cpu:cpu:nanoseconds:cpu:nanoseconds", "labelSelector": "{}", "start": now - HOUR_MS, "end": now + HOUR_MS}
        for askers in (1, 16):
            before, n = metrics(f), 0
            with ThreadPoolExecutor(askers) as pool:
                n = len(list(pool.map(lambda _: f.server().ok("SelectMergeStacktraces", **ask), range(50 * askers))))
            after = metrics(f)
            lists = after["flametree_manifest_lists_total"] - before.get("flametree_manifest_lists_total", 0)
            bench.row("LISTs per query, %d ask at a time" % askers, lists / n, "LISTs", "<= 1")
