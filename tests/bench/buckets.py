# SPDX-License-Identifier: Apache-2.0
"""The group `s3` of tests/bench/run: the peer's month in a bucket of Ceph's radosgw on this machine, and asked.

    cold     a querier that has just started, its data directory empty: nothing in memory, nothing on disk
    disk     the same querier started again: nothing in memory
    warm     asked again
    slow     the service behind a proxy that answers each request 30 ms later
    away     the service does not answer while profiles are pushed
    bill     what a month of 1,000 pods costs (bill.py)
"""
import json
import os
import shutil
import statistics
import tempfile
import threading
import time
import urllib.request
import uuid

import bill
import month as months
from flametree import await_
from radosgw import Radosgw
from s3_proxy import S3Proxy
from s3_service import BUCKET

SLOW_SECONDS = 0.03


class BucketCluster(months.Cluster):
    """One process of each service over a part of the bucket; each has the endpoint that `endpoint` names when it starts."""

    def __init__(self, service, *ingester_flags, programs="", env=None):
        keys = {"AWS_ACCESS_KEY_ID": service.access_key, "AWS_SECRET_ACCESS_KEY": service.secret_key}
        super().__init__(*ingester_flags, programs=programs, env={**keys, **(env or {})})
        self.endpoint, self.prefix = service.url, uuid.uuid4().hex

    def store_flags(self):
        return ["--storage.kind=s3", "--s3.endpoint=" + self.endpoint, "--s3.bucket=" + BUCKET, "--s3.prefix=" + self.prefix]

    def restart_querier(self, empty):
        self["querier"].stop()
        if empty:
            shutil.rmtree(os.path.join(self.folder, "querier"))
        return self.start("querier")


def requests_of(f, operation):
    """Tries, whatever came of them."""
    with urllib.request.urlopen(f.admin_url + "/metrics", timeout=60) as answer:
        lines = answer.read().decode().splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith('flametree_s3_requests_total{operation="%s"' % operation))


def asked(x, f):
    """Seconds of one question about thirty days, the requests that it cost, and what the answer says of itself."""
    body = json.dumps({"profileTypeID": months.TYPE, "labelSelector": '{service_name="month-0-0"}', "start": (x.end - months.DAYS * 86400) * 1000,
                       "end": x.end * 1000 - 1, "maxNodes": 8192}).encode()
    headers = {"Content-Type": "application/json", "X-Scope-OrgID": "tenant-0", "Flametree-Explain": "1"}
    before = {name: requests_of(f, name) for name in ("get", "list", "head")}
    began = time.monotonic()
    answer, told = months.post(f.url + "/querier.v1.QuerierService/SelectMergeStacktraces", body=body, headers=headers)
    seconds = time.monotonic() - began
    assert told["Flametree-Exact"] in ("exact", "totals"), told["Flametree-Exact"]
    return {"seconds": seconds, "total": json.loads(answer)["flamegraph"]["total"], "block_reads": json.loads(told["Flametree-Explain"])["reads"],
            **{name: requests_of(f, name) - n for name, n in before.items()}}


def figures_of_starts(x, row, name, wanted, n):
    """First questions of queriers that have just started, cold, and once more with the cache on disk."""
    cold, disk, warm = [], [], []
    for _ in range(n):
        cold.append(asked(x, x.c.restart_querier(empty=True)))
        disk.append(asked(x, x.c.restart_querier(empty=False)))
        warm.append(asked(x, x.c["querier"]))
    totals = {one["total"] for one in cold + disk + warm}
    assert len(totals) == 1, totals
    p50 = lambda v, key="seconds": statistics.median(one[key] for one in v)  # noqa: E731
    row("30 days, %s: nothing cached, p50" % name, p50(cold) * 1000, "ms", wanted[0])
    row("30 days, %s: the same, GETs" % name, max(one["get"] for one in cold), "", "<= 30")
    row("30 days, %s: the same, of these of blocks" % name, max(one["block_reads"] for one in cold), "")
    row("30 days, %s: the same, LISTs" % name, max(one["list"] for one in cold), "")
    row("30 days, %s: querier started again, p50" % name, p50(disk) * 1000, "ms", wanted[1])
    row("30 days, %s: the same, GETs of blocks" % name, max(one["block_reads"] for one in disk), "", "0")
    row("30 days, %s: asked again, p50" % name, p50(warm) * 1000, "ms")


def figures_of_outage(service, driver, row, minutes):
    """Pushes go on while the service is away; then the log is flushed. 100 profiles a second of 20 services."""
    with S3Proxy(service.url) as proxy:
        c = BucketCluster(service, "--ingester.cut_age", "30s")
        c.endpoint = proxy.url
        with c:
            f = c["ingester"]
            peak, over = [0], threading.Event()

            def watch():
                while not over.wait(0.5):
                    peak[0] = max(peak[0], f.rss_bytes())
            watcher = threading.Thread(target=watch)
            watcher.start()
            try:
                proxy.away = True
                stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + (minutes + 1) * 60))
                out = driver.ask("load", "-url", c["distributor"].url, "-pids", c.pids("ingester"), "-end=" + stamp, "-start=-%gm" % (minutes + 1),
                                 "-interval=2s", "-services=20", "-series=10", "-stacks=20", "-rate=100", "-limit=%d" % (minutes * 6000), "-prefix=away")
                got = dict(line.split("\t", 1) for line in out.splitlines() if "\t" in line)
                proxy.away = False
                began = time.monotonic()

                def flushed():
                    try:
                        return json.loads(months.post(f.url + "/ingester/flush?wait=true&timeout=20s")[0])
                    except OSError:
                        return None
                await_("the flush after the outage", flushed, 600, 0.2)
                caught_up = time.monotonic() - began
            finally:
                over.set()
                watcher.join()
            name = "%g minutes without the bucket: " % minutes
            row(name + "pushes that were refused or failed", float(got["refused"]) + float(got["failed"]), "", "0")
            row(name + "profiles", float(got["profiles"]), "")
            row(name + "ingester's peak RSS", peak[0] / 1e6, "MB", "its budget")
            row(name + "seconds until all is flushed", caught_up, "s", "< 300")


def figures_of_requests(service, driver, row):
    """Cuts of seconds instead of ten minutes: each is as many requests."""
    with BucketCluster(service, "--ingester.cut_age", "2s") as c:
        f = c["ingester"]

        def writes():
            return sum(requests_of(f, name) for name in ("put", "list", "begin", "part", "end"))
        before = writes()
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        driver.ask("load", "-url", c["distributor"].url, "-end=" + end, "-start=-1m", "-interval=1s", "-series=10", "-rate=60")
        months.post(f.url + "/ingester/flush")
        cuts = await_("cuts to be flushed", lambda: f.metric("flametree_ingester_flushed_cuts_total"))
        row("PUTs, LISTs and uploads per ingester and hour, one tenant, cuts of 10 min", (writes() - before) / cuts * 6, "", "<= 20", "7200")


def figures_of_parts(bench, service):
    """Figures of the parts that are named, or of all."""
    if bench.wants("starts"):
        flags = {"interval": "5m", "series": 2 if bench.short else 10, "stacks": 50, "prefix": "month", "services": 1}
        n = 5 if bench.short else 11
        with BucketCluster(service) as c, tempfile.TemporaryDirectory() as expect:
            x = months.Loaded(c, bench.driver, expect, bench.note, **flags)
            c["compactor"].stop()
            figures_of_starts(x, bench.row, "on radosgw", ("< 250", "< 30"), n)
            with S3Proxy(service.url) as proxy:
                proxy.trouble, proxy.late_seconds = {"late": 1.0}, SLOW_SECONDS
                c.endpoint = proxy.url
                figures_of_starts(x, bench.row, "30 ms later", ("< 400", ""), n)
    if bench.wants("requests"):
        figures_of_requests(service, bench.driver, bench.row)
    if bench.wants("away"):
        figures_of_outage(service, bench.driver, bench.row, 1 if bench.short else 10)
    if bench.wants("bill"):
        programs = bench.with_faults()
        bill.run(bench, lambda env: BucketCluster(service, programs=programs, env=env), requests_of)


def run(bench):
    with Radosgw() as service:
        bench.note("the service: Ceph's radosgw, one disk in memory, on this machine")
        figures_of_parts(bench, service)
