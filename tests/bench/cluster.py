# SPDX-License-Identifier: Apache-2.0
"""The group `cluster` of tests/bench/run: what it costs to be many. 2 distributors and 3 ingesters with their log in a bucket of Ceph's radosgw, each a
process of this machine, against one process with its log on the disk.

    cpu       core-seconds for what is pushed, summed over processes; and how long a push waits for its acknowledgement
    requests  to the store, of ingesters that are busy, and of idle ones, behind a proxy that counts
    kill      seconds from the kill of an ingester until answers are complete without it
    split     core-seconds of one question about a month, of one querier and of four that share it
"""
import collections
import json
import os
import statistics
import tempfile
import threading
import time
import urllib.parse

import month as months
from client import CPU, Pprof, Server, select
from flametree import Cluster, Flametree, await_, flush
from radosgw import Radosgw
from s3_proxy import S3Proxy
from s3_service import BUCKET

STACKS, SERVICES, SERIES, RATE = 100, 10, 50, 148  # of `push`: 76 KB, 10 services, paced
NODES = ("ingester-1", "ingester-2", "ingester-3", "distributor")
SECOND_PORT = 4140  # of the second distributor
DAYS, PODS, QUERIERS = 30, 400, 4
BUSY_SECONDS, IDLE_SECONDS = 60, 180


class Counting(S3Proxy):
    """Requests by what they are about: the log, streams, everything else."""

    def __init__(self, upstream):
        super().__init__(upstream)
        self.seen = collections.Counter()

    def change(self, method, path, headers, body):
        url = urllib.parse.urlsplit(path)
        name = urllib.parse.parse_qs(url.query).get("prefix", [url.path])[0] if "list-type" in url.query else url.path
        about = "log" if "/v1/log/" in "/" + name else "streams" if "/v1/streams/" in "/" + name else "rest"
        with self.lock:
            self.seen[about, method] += 1
        return headers

    def of(self, about):
        return sum(n for (what, _), n in self.seen.items() if what == about)


def on_bucket(url, prefix):
    return ["--storage.kind=s3", "--s3.endpoint=" + url, "--s3.bucket=" + BUCKET, "--s3.prefix=" + prefix]


class Nodes(Cluster):
    """2 distributors and 3 ingesters, and what is named besides."""

    def __init__(self, *flags, more=(), **kw):
        super().__init__("--ingester.stream_settle=5s", *flags, names=(*NODES, *more), spread=False, **kw)
        self.members["distributor-2"] = self.another("distributor-2", "distributor", SECOND_PORT)

    def pushed_to(self):
        return self["distributor"].url + "," + self["distributor-2"].url

    def pids(self):
        return ",".join(str(m.process.pid) for name, m in self.members.items() if name.split("-")[0] in ("distributor", "ingester"))


def load(bench, urls, pids, seconds, **flags):
    flags = {"stacks": STACKS, "services": SERVICES, "series": SERIES, "rate": RATE, "limit": RATE * seconds, "interval": "15s", "concurrency": 128, **flags}
    end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() // 60 * 60))
    out = bench.driver.ask("load", "-url", urls, "-pids", pids, "-end=" + end, "-start=-50m", *["-%s=%s" % (k.replace("_", "-"), v) for k, v in flags.items()])
    got = dict(line.split("\t", 1) for line in out.splitlines() if "\t" in line)
    if float(got["failed"]) or float(got["refused"]):
        bench.note("%s profiles failed, %s tries were refused: %s" % (got["failed"], got["refused"], got.get("error")))
    return {k: float(v) for k, v in got.items() if k != "error"}


def figures_of_cpu(bench, service, env):
    """One after the other, and again: others may be at work on the machine."""
    seconds, rounds = (10, 2) if bench.short else (20, 3)
    found = collections.defaultdict(list)

    def measure(name, urls, pids):
        load(bench, urls, pids, 4)  # names and stacks are told once, at the beginning
        found[name].append(load(bench, urls, pids, seconds))
    for n in range(rounds):
        with Flametree() as f:
            measure("one", f.url, str(f.process.pid))
        with Nodes("--ingester.log=object", *on_bucket(service.url, "cpu-%d" % n), env=env) as c:
            measure("object", c.pushed_to(), c.pids())
        with Nodes() as c:
            measure("local", c.pushed_to(), c.pids())
    middle = {name: {key: statistics.median(one[key] for one in all_) for key in ("raw_MB_per_core_s", "ack_ms_p50", "ack_ms_p99")} for name, all_ in found.items()}
    cost = {name: 1000 / one["raw_MB_per_core_s"] for name, one in middle.items()}
    bench.row("one process, log on the disk: CPU of a raw MB", cost["one"], "core-ms")
    bench.row("2 + 3 processes, log in the bucket: CPU of a raw MB", cost["object"], "core-ms")
    bench.row("the same / one process", cost["object"] / cost["one"], "", "<= 1.5")
    bench.row("2 + 3 processes, logs on disks / one process", cost["local"] / cost["one"], "")
    bench.row("log in the bucket: acknowledged, p50", middle["object"]["ack_ms_p50"], "ms", "<= 400", "283")
    bench.row("log in the bucket: acknowledged, p99", middle["object"]["ack_ms_p99"], "ms", "<= 1000", "553")
    bench.row("logs on disks, over the network: acknowledged, p50", middle["local"]["ack_ms_p50"], "ms", "<= 5")
    bench.row("logs on disks, over the network: acknowledged, p99", middle["local"]["ack_ms_p99"], "ms")


def figures_of_requests(bench, service, env):
    busy, idle = (20, 60) if bench.short else (BUSY_SECONDS, IDLE_SECONDS)
    with Counting(service.url) as proxy:
        spread = ["--distributor.tenant_ingesters=1000", "--distributor.service_ingesters=1000"]
        with Nodes("--ingester.log=object", *spread, *on_bucket(proxy.url, "requests"), env=env) as c:
            per_hour = lambda about, seconds: proxy.of(about) / seconds * 3600 / len(c.ingesters())  # noqa: E731
            load(bench, c.pushed_to(), c.pids(), 2)  # all have begun their streams
            proxy.seen.clear()
            began = time.monotonic()
            load(bench, c.pushed_to(), c.pids(), busy, stacks=5)
            took = time.monotonic() - began
            bench.row("requests of an ingester and hour for the log, busy", per_hour("log", took), "", "<= 7300", "7200")
            bench.row("the same, for registered streams", per_hour("streams", took), "")
            bench.row("the same, for all else", per_hour("rest", took), "")
            bench.note("busy: %s" % dict(proxy.seen))
            flush(c)
            await_("logs without entries", lambda: all(f.metric("flametree_ingester_log_bytes") == 0 for f in c.ingesters()), 120)
            proxy.seen.clear()
            time.sleep(idle)
            bench.row("requests of an ingester and hour for the log, idle", per_hour("log", idle), "", "<= 60")
            bench.row("the same, for registered streams", per_hour("streams", idle), "")
            bench.row("the same, for all else", per_hour("rest", idle), "")
            bench.note("idle: %s" % dict(proxy.seen))


class Pushes:
    """A profile of one of many pods every 20 ms, and what was not taken at the first try."""

    def __init__(self, urls):
        self.servers = [Server(url, url) for url in urls]
        self.acked, self.failed, self.over = 0, [], threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(n,)) for n in range(32)]

    def run(self, n):
        s = self.servers[n % len(self.servers)]
        while not self.over.is_set():
            reply = s.push({"__name__": "process_cpu", "service_name": "killed", "pod": "p%d" % n}, Pprof(("main;work", 1)))
            if reply.status == 200:
                self.acked += 1
            else:
                self.failed.append(str(reply))

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *_):
        self.over.set()
        for t in self.threads:
            t.join()


def exactness(s):
    now = int(time.time() * 1000)
    reply = s.query("SelectMergeStacktraces", {"Flametree-Partial": "allow"}, profileTypeID=CPU, labelSelector=select("killed"), start=now - 1800_000,
                    end=now + 300_000)
    return reply.headers.get("Flametree-Exact") if reply.status == 200 else str(reply.status)


def figures_of_kill(bench, service, env):
    took, failed = [], 0
    for n in range(1 if bench.short else 3):
        spread = ["--distributor.tenant_ingesters=1000", "--distributor.service_ingesters=1000"]
        with Nodes("--ingester.log=object", *spread, *on_bucket(service.url, "kill-%d" % n), env=env, more=("querier",)) as c:
            s = Server(c.url)
            with Pushes([c[name].url for name in ("distributor", "distributor-2")]) as pushes:
                await_("pushes to go on", lambda: pushes.acked > 300, 60)
                await_("complete answers", lambda: exactness(s) == "exact", 60)
                c["ingester-2"].kill()
                began = time.monotonic()
                await_("an answer that lacks the one that was killed", lambda: exactness(s) != "exact", 30)
                await_("complete answers without it", lambda: exactness(s) == "exact", 180, 0.1)
                took.append(time.monotonic() - began)
            failed += len(pushes.failed)
            if pushes.failed:
                bench.note("a push that failed: " + pushes.failed[0][:300])
    bench.row("an ingester is killed: answers complete again, slowest of %d" % len(took), max(took), "s", "<= 25")
    bench.row("an ingester is killed: pushes that failed", failed, "", "0")


def about(told):
    """What a question read, without the names."""
    explained = json.loads(told["Flametree-Explain"])
    return {name: explained[name] for name in ("objects", "nodes", "rows", "reads", "bytes", "ms")}


def figures_of_split(bench):
    """A block has a day or an hour, so a month of them is read by one querier, or shared. The blocks have been read before."""
    def cpu_of(f, ask, repeat):
        before = {name: months.cpu_seconds(m) for name, m in f.items()}
        for _ in range(repeat):
            ask()
        return {name: (months.cpu_seconds(m) - before[name]) * 1000 / repeat for name, m in f.items()}
    with months.Cluster() as c, tempfile.TemporaryDirectory() as expect:
        x = months.Loaded(c, bench.driver, expect, bench.note, interval="8h" if bench.short else "3h", series=PODS, stacks=20, prefix="split", services=1, batch=20)
        body = json.dumps({"profileTypeID": months.TYPE, "labelSelector": '{service_name="split-0-0",pod=~".+-.+"}', "start": (x.end - DAYS * 86400) * 1000,
                           "end": x.end * 1000 - 1, "maxNodes": 8192}).encode()
        headers = {"Content-Type": "application/json", "X-Scope-OrgID": "tenant-0", "Flametree-Explain": "1"}
        names = ["querier"] + ["querier-%d" % n for n in range(2, QUERIERS + 1)]
        listed = ",".join("%s=unix:%s/%s.sock" % (name, c.folder, name) for name in names)

        def measured(*flags):
            f = {name: c.processes[name] for name in names if name in c.processes}

            def ask():
                answer, told = months.post(f["querier"].url + "/querier.v1.QuerierService/SelectMergeStacktraces", body=body, headers=headers)
                return json.loads(answer)["flamegraph"]["total"], told
            for _ in range(3):
                total, told = ask()
            return total, cpu_of(f, ask, 10), told
        alone, before, told = measured()
        bench.note("one querier: %s" % about(told))
        c["querier"].stop()
        for name in names:
            c.processes[name] = another_querier(c, name, listed)
        shared, after, told = measured()
        bench.note("four queriers: %s; %s" % (about(told), {name: round(ms, 1) for name, ms in after.items()}))
        try:
            assert alone == shared, (alone, shared)
            bench.row("30 days of %d pods, each by its name: CPU of one querier" % PODS, before["querier"], "core-ms")
            bench.row("the same, shared by %d: CPU of the busiest" % QUERIERS, max(after.values()), "core-ms")
            bench.row("the same, CPU of all", sum(after.values()), "core-ms")
            bench.row("one querier / the busiest of %d" % QUERIERS, before["querier"] / max(after.values()), "", ">= 2.5")
        finally:
            for name in names[1:]:
                c.processes.pop(name).stop()


def another_querier(c, name, listed):
    data = os.path.join(c.folder, name)
    os.makedirs(data, exist_ok=True)
    return Flametree("--server.id", name, "--internal.listen", "unix:%s/%s.sock" % (c.folder, name), "--cluster.ingesters",
                     "ingester=unix:%s/ingester.sock" % c.folder, "--cluster.queriers", listed, "--server.request_timeout", "600s",
                     "--querier.split_bytes=1", *c.store_flags(), program="flametree-querier", data=data, env=c.env).start()


def run(bench):
    with Radosgw() as service:
        env = {"AWS_ACCESS_KEY_ID": service.access_key, "AWS_SECRET_ACCESS_KEY": service.secret_key}
        for part, figures in (("cpu", figures_of_cpu), ("requests", figures_of_requests), ("kill", figures_of_kill)):
            if bench.wants(part):
                figures(bench, service, env)
    if bench.wants("split"):
        figures_of_split(bench)
