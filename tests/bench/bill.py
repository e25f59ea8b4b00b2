# SPDX-License-Identifier: Apache-2.0
"""The part `s3:bill` of tests/bench/run: what a month of 1,000 pods costs in a bucket, at Amazon's list prices.

Thirty-six hours pass in steps of ten minutes, as in `month:life`: profiles are pushed as they are made, cuts close as they do, and
the compactor works with its own delays; only the clock is moved. The last twenty-four hours are counted. A tenth of the pods
push. Requests depend on cuts, hours and days, not on pods, so they are taken as they are; bytes are those that `flametree plan`
tells for all of them.

The compactor looks at its tenants ten times a second instead of once a minute, so that it finds soon what has become due; its LISTs
are not those of life. Looks in vain are watched at the end: if they make LISTs alone, a day in life has 1,440 for them instead.
`--short`: a profile of a pod a minute instead of one in fifteen seconds."""
import json
import os
import subprocess
import tempfile
import time

import month as months
from faultclock import FaultClock
from flametree import await_

PODS, TENTH = 1000, 100
STEP_SECONDS, HOURS, COUNTED_HOURS = 600, 36, 24
DAYS = 30
WRITE, READ, GB_MONTH = 0.005 / 1000, 0.0004 / 1000, 0.023  # dollars: a PUT, POST or LIST; a GET or HEAD; 10**9 bytes for a month
WRITES, READS, FREE = ("put", "list", "begin", "part", "end", "pending"), ("get", "head"), ("delete", "delete_many", "drop")
INGESTERS = 3
FIRST_QUESTIONS, GETS_OF_ONE = 1000, 17  # a day; GETs of a month's flame graph with nothing cached (docs/benchmarks.md)
# Pyroscope 2 writes an object twice a second for each busy shard, has four shards a writer, and no more than one of the twelve
# shards of three writers may be busy; at rest it was measured to have 49.6 bytes a (stack, value), 5.7 in large blocks alone.
PEER_PUTS_A_SECOND, PEER_BYTES = (2, 24), (5.7, 49.6)


def plus(a, b, times=1):
    return {name: a[name] + times * b[name] for name in a}


def dollars(counted):
    return WRITE * sum(counted[name] for name in WRITES) + READ * sum(counted[name] for name in READS)


def told(counted):
    return ", ".join("%s %.0f" % (name, n) for name, n in sorted(counted.items(), key=lambda one: -one[1]) if n)


def lived(bench, cluster, requests, folder):
    """Requests of a day: the ingester's and the compactor's, without its LISTs."""
    clock = FaultClock(os.path.join(folder, "clock"))
    now = (int(time.time()) // 86400 + 1) * 86400

    def pass_until(seconds):
        clock.pass_(seconds * 10**9 - clock.now_ns())
    pass_until(now)
    with cluster(env=clock.env) as c:
        ingester = c["ingester"]
        compactor = c.start("compactor", "--compactor.interval", "100ms", "--compactor.sweep_interval", "10s")

        def looked_in_vain():
            """Three LISTs and nothing else: until then some request was under way that belongs to work."""
            before = requests(compactor)
            await_("three looks", lambda: requests(compactor)["list"] >= before["list"] + 3, 900, 0.05)  # a day is one job
            since = plus(requests(compactor), before, -1)
            return months.get_json(compactor.url + "/compactor/status")["backlog"] == 0 and not sum(n for name, n in since.items() if name != "list")
        began, profiles = None, 0
        for step in range(HOURS * 3600 // STEP_SECONDS):
            if step == (HOURS - COUNTED_HOURS) * 3600 // STEP_SECONDS:
                began = requests(ingester), requests(compactor)
            now += STEP_SECONDS
            pass_until(now + 5)
            end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
            out = bench.driver.ask("load", "-url", c["distributor"].url, "-end=" + end, "-start=-10m", "-interval=" + ("1m" if bench.short else "15s"),
                                   "-services=10", "-series=%d" % (TENTH // 10), "-stacks=50", "-prefix=bill")
            got = dict(line.split("\t", 1) for line in out.splitlines() if "\t" in line)
            assert float(got["failed"]) == 0, got
            profiles += float(got["profiles"])
            months.post(ingester.url + "/ingester/flush")
            await_("the compactor to have done what is due", looked_in_vain, 1800, 0)
        of_ingester, of_compactor = plus(requests(ingester), began[0], -1), plus(requests(compactor), began[1], -1)
        segments = ingester.metric('flametree_store_bytes_total{direction="written"}')
        bench.note("%.0f profiles in %d hours, %.0f MB of segments" % (profiles, HOURS, segments / 1e6))
        return of_ingester, {**of_compactor, "list": 0}


def planned(program):
    """Bytes at rest of all pods, all levels full, as the capacity calculator tells them, and (stack, value) pairs a day."""
    shown = subprocess.run([program, "plan", "--pods", str(PODS), "--types", "2", "-F", "json"], capture_output=True, text=True, check=True)
    plan = json.loads(shown.stdout)
    return plan["raw_bytes"] + plan["hours_bytes"] + plan["days_bytes"], plan["profiles_per_second"] * 86400 * plan["stacks"]  # a profile has one value of each stack


def run(bench, cluster, requests_of):
    """cluster(env): a cluster on a bucket, of programs with fault points; requests_of(f, operation): a process' requests."""
    def requests(f):
        return {name: requests_of(f, name) for name in WRITES + READS + FREE}
    with tempfile.TemporaryDirectory() as folder:
        ingester, compactor = lived(bench, cluster, requests, folder)
    compactor["list"] = 24 * 60  # a look a minute
    bench.note("a day of an ingester: " + told(ingester))
    bench.note("a day of a compactor: " + told(compactor))
    at_rest, pairs = planned(bench.program)
    parts = {
        "requests of %d ingesters" % INGESTERS: INGESTERS * DAYS * dollars(ingester),
        "requests of the compactor": DAYS * dollars(compactor),
        "GETs of %d first questions a day" % FIRST_QUESTIONS: DAYS * FIRST_QUESTIONS * GETS_OF_ONE * READ,
        "%.1f GB at rest, default retention" % (at_rest / 1e9): at_rest / 1e9 * GB_MONTH,
    }
    for name, cost in parts.items():
        bench.row("a month of 1,000 pods: " + name, cost, "dollars")
    all_ = sum(parts.values())
    peer = [rate * DAYS * 86400 * WRITE + per * pairs * DAYS / 1e9 * GB_MONTH for rate, per in zip(PEER_PUTS_A_SECOND, PEER_BYTES)]
    bench.row("a month of 1,000 pods: all", all_, "dollars", "", "%.0f - %.0f" % tuple(peer))
    bench.row("a month of 1,000 pods: times cheaper than the peer's least", peer[0] / all_, "", ">= 5")
    bench.row("PUTs, LISTs and uploads per ingester and hour, in life", sum(ingester[name] for name in WRITES) / COUNTED_HOURS, "", "<= 20", "7200")
