# SPDX-License-Identifier: Apache-2.0
"""The group `s3` of tests/bench/run: the peer's month in a bucket of Ceph's radosgw on this machine, asked by a querier that has
just started, directly and through a proxy that adds 30 ms to each request; an outage; requests of an hour."""
import statistics
import tempfile
import threading
import time

import month
from client import Pprof
from flametree import Flametree, await_
from radosgw import BUCKET, Radosgw
from s3_proxy import S3Proxy

SLOW_MS = 30


def storage(service, endpoint, prefix):
    return ["--storage.kind", "s3", "--s3.endpoint", endpoint, "--s3.bucket", BUCKET, "--s3.prefix", prefix, "--s3.access_key", service.access_key,
            "--s3.secret_key", service.secret_key]


def requests(f, *operations):
    import urllib.request
    text = urllib.request.urlopen(f.admin_url + "/metrics", timeout=60).read().decode()
    lines = [line.rsplit(" ", 1) for line in text.splitlines() if line.startswith("flametree_s3_requests_total{")]
    return sum(float(n) for name, n in lines if any('operation="%s"' % o in name for o in operations))


def cold(x, service, endpoint, name, reps):
    """Milliseconds and GETs of the first flame graph of 30 days, each of a querier that has nothing in its caches."""
    c, times, gets = x.c, [], []
    for _ in range(reps):
        c.processes.pop("querier").stop()
        c.storage = storage(service, endpoint, "month")
        f = c.start("querier")
        await_("the querier to be ready", lambda: f.url)
        before = requests(f, "get")
        began = time.monotonic()
        told = x.explain("month-0-0")
        times.append((time.monotonic() - began) * 1000)
        gets.append(requests(f, "get") - before)
        assert told["exact"] == "exact", told
    x.note("%s: %s ms; %s GETs" % (name, " ".join("%.0f" % t for t in sorted(times)), " ".join("%.0f" % n for n in gets)))
    return statistics.median(times), max(gets)


def figures_of_flames(driver, short, row, note, service, slow):
    with month.Cluster(storage=storage(service, service.url, "month")) as c, tempfile.TemporaryDirectory() as expect:
        flags = {"interval": "5m", "series": 2 if short else 10, "stacks": 50}
        x = month.Loaded(c, driver, expect, note, prefix="month", services=1, **flags)
        ms, gets = cold(x, service, service.url, "radosgw", 5 if short else 15)
        row("flame graph of 30 days, all caches empty, p50", ms, "ms", "< 250", "")
        row("the same, GETs", gets, "", "<= 30", "2029")
        ms, _ = cold(x, service, slow.url, "%d ms slower" % SLOW_MS, 5 if short else 15)
        row("the same, every request %d ms slower, p50" % SLOW_MS, ms, "ms", "< 400", "")


def figures_of_an_outage(row, note, service, seconds):
    """Profiles are pushed ten a second while the bucket is away, and for a while before."""
    with S3Proxy(service.url) as proxy, Flametree(*storage(service, proxy.url, "outage"), "--ingester.cut_age", "10s") as f:
        refused, stop, pushed = [], threading.Event(), [0]

        def push():
            while not stop.wait(0.1):
                reply = f.server().push({"__name__": "process_cpu", "service_name": "shop"}, Pprof(*[("main;f%d;g%d" % (i, pushed[0] % 50), 1 + i) for i in range(50)]))
                pushed[0] += 1
                if reply.status != 200:
                    refused.append(reply)
        pusher = threading.Thread(target=push)
        pusher.start()
        time.sleep(15)
        proxy.away = True
        time.sleep(seconds)
        proxy.away = False
        began = time.monotonic()
        await_("the backlog to be flushed", lambda: f.operator().call("POST", "/ingester/flush?wait=true&timeout=10s", b"").status == 200, 600)
        took = time.monotonic() - began
        stop.set()
        pusher.join()
        note("away for %d s: %d profiles pushed, %d refused" % (seconds, pushed[0], len(refused)))
        row("bucket away %d s: profiles refused" % seconds, len(refused), "", "0", "")
        row("the same: peak RSS", f.peak_rss_bytes() / 1e6, "MB", "< 2048", "")
        row("the same: all is flushed after", took, "s", "< 300", "")


def figures_of_requests(driver, row, service):
    """Cuts of seconds instead of ten minutes: each is as many requests."""
    with month.Cluster("--ingester.cut_age", "2s", storage=storage(service, service.url, "puts")) as c:
        f = c["ingester"]
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        before = requests(f, "put", "list", "begin", "part", "end")
        driver.ask("load", "-url", c["distributor"].url, "-end=" + end, "-start=-1m", "-interval=1s", "-series=10", "-rate=60")
        month.post(f.url + "/ingester/flush")
        cuts = await_("cuts to be flushed", lambda: f.metric("flametree_ingester_flushed_cuts_total"))
        row("PUTs, LISTs and uploads per ingester and hour, one tenant, cuts of 10 min", (requests(f, "put", "list", "begin", "part", "end") - before) / cuts * 6, "", "<= 20", "7200")


def run(driver, short, row, note):
    with Radosgw() as service, S3Proxy(service.url) as slow:
        slow.trouble, slow.late_seconds = {"late": 1.0}, SLOW_MS / 1000
        figures_of_flames(driver, short, row, note, service, slow)
        figures_of_requests(driver, row, service)
        figures_of_an_outage(row, note, service, 60 if short else 600)
