# SPDX-License-Identifier: Apache-2.0
"""Where a distributor places 1,000 tenants of 1,000 services, most of them tiny, on 20 ingesters with default settings."""
import subprocess

TENANTS, SERVICES, INGESTERS = 1000, 1000, 20


def run(bench):
    bench.build("cmake", "--build", "--preset", "release", "--target", "bench.placement")
    seconds = 300 if bench.short else 900
    out = subprocess.run([bench.program("bench.placement"), *map(str, (TENANTS, SERVICES, INGESTERS, seconds))], stdout=subprocess.PIPE, text=True, check=True).stdout
    for line in out.splitlines():
        name, *rest = line.split("\t")
        v = [float(x) for x in rest]
        if name == "tiny":
            bench.row("a tiny tenant: ingesters, mean", v[0], "ingesters", "1-2")
            bench.row("a tiny tenant: ingesters, max", v[1], "ingesters", "1-2")
        elif name == "heads":
            for which, value in zip(("min", "mean", "max"), v):
                bench.row("heads of an ingester, %s" % which, value, "services", "~ %.0f" % v[1])
            bench.row("heads: the fullest ingester to its share", v[2] / v[1], "times", "~ 1")
        elif name == "service":
            wanted = min(1 + int(v[0] // 16), INGESTERS)
            bench.row("a service of %.0f MiB/s: ingesters, min" % v[0], v[1], "ingesters", wanted)
            bench.row("a service of %.0f MiB/s: ingesters, max" % v[0], v[2], "ingesters", wanted)
        elif name == "homes":
            bench.row("a tiny tenant, profiles with ids, home_ingesters %.0f: mean" % v[0], v[1], "ingesters", "all" if v[0] == 0 else "1-2")
        elif name == "changes":
            minutes = seconds / 120
            bench.row("rates wobble by 20 %%: changes, first %.1f minutes" % minutes, v[0], "changes")
            bench.row("rates wobble by 20 %%: changes, next %.1f minutes" % minutes, v[1], "changes", "few")
            bench.row("rates wobble by 20 %: of these to fewer ingesters", v[2], "changes", "0")
            bench.row("rates wobble by 20 %%: services that moved, of %.0f" % v[4], v[3], "services", "few")
        elif name == "cpu":
            bench.row("CPU of a placement decision", v[0] / 1000, "us")
            bench.row("CPU of noting a push's rate", v[1] / 1000, "us")
