# SPDX-License-Identifier: Apache-2.0
"""Hours of 1,000 tenants' pushes at 60 % of what the machine can take: memory that only grows, and refusals.

FLAMETREE_SOAK_MINUTES says for how long it goes on, 120 if nothing does; --short: 4. FLAMETREE_SOAK_RATE pushes that many profiles a
second instead of 60 %, on a machine that others need as well. The first sixth of the time, 20 minutes at most, is not counted:
heads, logs and caches fill. The driver repeats a push that was refused, so that a refusal is each answer 429 or 503, not a
profile that never landed.
"""
import os
import threading
import time
import urllib.request

from flametree import Flametree

TENANTS, SERVICES, SERIES, STACKS = 1000, 2, 1, 20


def slope_percent(samples):
    """(seconds, bytes) -> percent of the mean an hour, by least squares."""
    n = len(samples)
    mean_t, mean_b = sum(t for t, _ in samples) / n, sum(b for _, b in samples) / n
    below = sum((t - mean_t) ** 2 for t, _ in samples)
    return sum((t - mean_t) * (b - mean_b) for t, b in samples) / below * 3600 / mean_b * 100 if below else 0.0


def refused(f):
    """Profiles that were not stored, whatever the reason."""
    with urllib.request.urlopen(f.admin_url + "/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("flametree_distributor_discarded_samples_total"))


def paced(bench, f, minutes, rate, fleet):
    """Profiles have the times at which they are pushed, nearly."""
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + (minutes + 2) * 60))
    out = bench.driver.run("load", f, end=stamp, start="-%dm" % (minutes + 2), limit=int(rate * minutes * 60), rate="%.1f" % rate, prefix="soak", **fleet)
    got = dict(line.split("\t", 1) for line in out.splitlines() if "\t" in line)
    return {k: float(v) for k, v in got.items() if k != "error"}


def watch(f, over, every, samples):
    began = time.monotonic()
    while not over.wait(every):
        samples.append((time.monotonic() - began, f.rss_bytes()))


def rate_of(bench, f, fleet):
    """Profiles a second, and the load's name in the table."""
    given = os.environ.get("FLAMETREE_SOAK_RATE")
    if given:
        return float(given), "at %s/s" % given
    full = bench.driver.load(f, minutes=10, limit=4000 if bench.short else 12000, prefix="full", **fleet)["profiles_per_s"]
    bench.row("1,000 tenants: profiles a second, flat out", full, "1/s")
    return 0.6 * full, "at 60 %"


def run(bench):
    minutes = float(os.environ.get("FLAMETREE_SOAK_MINUTES", 4 if bench.short else 120))
    fleet = dict(tenants=TENANTS, services=SERVICES, series=SERIES, stacks=STACKS, service_stacks=200, interval="15s", concurrency=32)
    with Flametree("--auth.multitenancy_enabled", "true", "--limits.reject_newer_than", "1h", "--limits.reject_older_than", "100h") as f:
        rate, load = rate_of(bench, f, fleet)
        fleet["interval"] = "%dms" % max(1000, int(TENANTS * SERVICES * SERIES / rate * 1000))
        over, samples = threading.Event(), []
        watcher = threading.Thread(target=watch, args=(f, over, minutes * 60 / 240, samples))
        watcher.start()
        try:
            got = paced(bench, f, minutes, rate, fleet)
        finally:
            over.set()
            watcher.join()
        name = "1,000 tenants, %g min %s: " % (minutes, load)
        counted = [(t, b) for t, b in samples if t >= min(minutes * 60 / 6, 1200)]
        bench.row(name + "profiles a second", got["profiles_per_s"], "1/s")
        bench.row(name + "CPU of the server", got["server_cores"] * 100, "% of a core")
        bench.row(name + "RSS at the end", samples[-1][1] / 1e6, "MB")
        bench.row(name + "growth of RSS", slope_percent(counted), "%/h", "<= 1")
        bench.row(name + "growth of RSS, second half", slope_percent([s for s in samples if s[0] >= minutes * 30]), "%/h", "<= 1")
        bench.row(name + "answers 429 and 503", got["refused"], "", "0")
        bench.row(name + "other pushes that had to be repeated", got["retries"] - got["refused"], "", "0")
        bench.row(name + "profiles that did not land, or were discarded", got["failed"] + refused(f), "", "0")
