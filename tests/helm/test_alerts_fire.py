# SPDX-License-Identifier: Apache-2.0
"""Each alert of the chart fires by its real cause: processes that meet it, and a Prometheus that asks them and has the chart's rules.

Times of the rules are shorter here, all by the same factor; what they compare is as in the chart.
"""
import contextlib
import json
import os
import re
import shutil
import subprocess
import threading
import time
import urllib.parse
import urllib.request

import pytest
import yaml
from chart import NAMESPACE
from client import CPU, QUERIER, Pprof, now_ms
from faultclock import FaultClock
from flametree import AT_ONCE, Cluster, Flametree, await_, flush, own_host
from ledger import Ledger
from test_monitoring import alerts

FASTER = 150
UNITS = {"s": 1, "m": 60, "h": 3600}
HOUR = 3600 * 10**9
DAY = 24 * HOUR
SERVICE = {"__name__": "process_cpu", "service_name": "shop"}
TESTED = set()
QUIET = ["--compactor.workers=0", "--compactor.interval=1h"]  # the compactor works when it is told to
PATIENCE = 180


def faster(text):
    """Durations in a rule, in milliseconds."""
    return re.sub(r"\b(\d+)([smh])\b", lambda m: "%dms" % (int(m[1]) * UNITS[m[2]] * 1000 // FASTER), text)


def rules():
    spec, _ = alerts()
    for group in spec["groups"]:
        group["interval"] = "400ms"
        for rule in group["rules"]:
            rule["expr"] = re.sub(r"\[(\w+)\]|offset (\w+)", lambda m: faster(m[0]), rule["expr"])
            if "for" in rule:
                rule["for"] = faster(rule["for"])
    return {"groups": spec["groups"]}


class Prometheus:
    """Asks processes for their metrics as it asks pods of a release."""

    def __init__(self, folder):
        self.folder, self.address, self.targets = str(folder), own_host() + ":9090", {}
        with open(os.path.join(self.folder, "rules.yaml"), "w") as f:
            yaml.safe_dump(rules(), f)
        self.write_targets()
        with open(os.path.join(self.folder, "prometheus.yaml"), "w") as f:
            yaml.safe_dump({
                "global": {"scrape_interval": "400ms", "scrape_timeout": "400ms", "evaluation_interval": "400ms"}, "rule_files": ["rules.yaml"],
                "scrape_configs": [{"job_name": "flametree", "scrape_timeout": "400ms", "file_sd_configs": [{"files": ["targets.json"], "refresh_interval": "200ms"}]}]}, f)
        self.log = open(os.path.join(self.folder, "log"), "wb")  # pylint: disable=consider-using-with
        self.process = subprocess.Popen(["prometheus", "--config.file=" + os.path.join(self.folder, "prometheus.yaml"), "--storage.tsdb.path=" + os.path.join(self.folder, "data"),
                                         "--web.listen-address=" + self.address], stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL)
        await_("Prometheus", self.is_ready, 60)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.log.close()

    def write_targets(self):
        path = os.path.join(self.folder, "targets.json")
        with open(path + ".new", "w") as f:
            json.dump([{"targets": [at], "labels": {"namespace": NAMESPACE, "pod": pod}} for pod, at in self.targets.items()], f)
        os.rename(path + ".new", path)

    def get(self, path):
        with urllib.request.urlopen("http://%s%s" % (self.address, path), timeout=30) as answer:
            return answer.read()

    def is_ready(self):
        assert self.process.poll() is None, "Prometheus ended"
        with contextlib.suppress(OSError):
            return b"ready" in self.get("/-/ready").lower()
        return False

    def query(self, expr):
        return json.loads(self.get("/api/v1/query?query=" + urllib.parse.quote(expr)))["data"]["result"]

    @contextlib.contextmanager
    def asks(self, **members):
        """{name of a pod: process}; each was asked once before this goes on."""
        pods = {"ft-flametree-" + name.replace("_", "-"): m.admin_url.split("//")[1] for name, m in members.items()}
        self.targets.update(pods)
        self.write_targets()
        for pod in pods:
            await_("Prometheus to ask " + pod, lambda pod=pod: self.query('up{pod="%s"} == 1' % pod), PATIENCE, 0.2)
        try:
            yield
        finally:
            for pod in pods:
                del self.targets[pod]
            self.write_targets()

    def firing(self, name):
        return [a["labels"] for a in json.loads(self.get("/api/v1/alerts"))["data"]["alerts"] if a["labels"]["alertname"] == name and a["state"] == "firing"]

    def await_alert(self, name, **labels):
        def fires():
            return [found for found in self.firing(name) if labels.items() <= found.items()]
        return await_("the alert %s" % name, fires, PATIENCE, 0.2)[0]


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory):
    p = Prometheus(tmp_path_factory.mktemp("prometheus"))
    yield p
    p.close()


def alert(*names):
    """What a test makes fire."""
    TESTED.update(names)
    return lambda test: test


def push(s, at_ns=None, value=1, pod="a"):
    return s.push({**SERVICE, "pod": pod}, Pprof(("main;a", value), time_ns=at_ns or time.time_ns()))


def ask(s):
    return s.query("SelectMergeStacktraces", {}, profileTypeID=CPU, labelSelector='{service_name="shop"}', start=now_ms() - 3_600_000, end=now_ms() + 1000)


def files(f, part):
    top = os.path.join(f.store, "o")
    return sorted(os.path.join(path, name) for path, _, names in os.walk(top) for name in names if part in os.path.relpath(os.path.join(path, name), top))


def spoil(path):
    with open(path, "r+b") as f:
        content = bytearray(f.read())
        content[::16] = bytes(b ^ 0xa5 for b in content[::16])
        f.seek(0)
        f.write(content)


def run(f, **more):
    return f.operator().call("POST", "/compactor/run?" + "&".join(["timeout=20s"] + ["%s=%s" % pair for pair in more.items()])).expect(200).json()


def fill(f, hours=3):
    """Profiles of hours that are over for long, in segments."""
    start = (time.time_ns() // DAY - 3) * DAY
    for hour in range(hours):
        push(f.server(), start + hour * HOUR + HOUR // 2).expect(200)
    flush(f)


def await_old_counters(prometheus, tenant):
    """Counters of the tenant are no longer new, as the rules see it."""
    await_("counters of " + tenant, lambda: prometheus.query('flametree_distributor_discarded_samples_total{tenant="%s"} offset %s' % (tenant, faster("15m"))), PATIENCE, 0.2)


@alert("FlametreePushesRefused")
def test_one_refused_push_is_told(prometheus):
    """As a tenant's first request, as a later one, and as its first request to another distributor."""
    flags = ("--auth.multitenancy_enabled=true", "--admin.listen=public", *QUIET)
    with Flametree(*flags) as f, Flametree(*flags) as g, prometheus.asks(distributor_0=f, distributor_1=g):
        for tenant in ("later", "elsewhere"):
            push(f.server(tenant)).expect(200)
        assert push(f.server("first"), 10**18).status == 400
        found = prometheus.await_alert("FlametreePushesRefused", tenant="first")
        assert found["reason"] == "not_in_ingestion_window"
        for tenant, server in (("later", f), ("elsewhere", g)):
            await_old_counters(prometheus, tenant)
            assert push(server.server(tenant), 10**18).status == 400
            prometheus.await_alert("FlametreePushesRefused", tenant=tenant, reason="not_in_ingestion_window")
        assert not [a for a in prometheus.firing("FlametreePushesRefused") if a["reason"] != found["reason"]], "what is 0 does not fire"


@alert("FlametreeFlushFailing", "FlametreeHeadNearlyFull", "FlametreeNotice")
def test_a_store_that_is_away_is_told_and_then_that_heads_fill_up(prometheus, tmp_path):
    store, away = tmp_path / "store", tmp_path / "away"
    with Flametree("--storage.dir", str(store), "--ingester.cut_age", "1s", "--ingester.head_memory", "2MiB", *QUIET) as f, prometheus.asks(ingester_full=f):
        book = Ledger(f)
        assert book.push("first") == 200
        os.rename(store, away)
        for i in range(2000):
            if book.push("n%d" % i, *("n%d;%s" % (i, "y" * 100 + str(j)) for j in range(300))) != 200:
                break
        assert book.last.status == 429
        for i in range(2000):  # smaller ones still find room
            if f.metric("flametree_ingester_head_bytes") > 0.9 * f.metric("flametree_ingester_head_limit_bytes"):
                break
            book.push("s%d" % i, "s%d;%s" % (i, "z" * 2000))
        for name in ("FlametreeFlushFailing", "FlametreeHeadNearlyFull", "FlametreeNotice"):
            prometheus.await_alert(name, pod="ft-flametree-ingester-full")
        os.rename(away, store)


@alert("FlametreeDown", "FlametreeMemberDead", "FlametreeAnswersIncomplete")
def test_an_ingester_that_died_is_told_by_those_who_miss_it(prometheus):
    names = ("ingester-1", "ingester-2", "distributor", "querier")
    with Cluster("--querier.wait_for_streams=100ms", names=names) as c, prometheus.asks(ingester_dead=c["ingester-2"], querier_0=c["querier"]):
        for i in range(20):
            push(c.server(), pod="p%d" % i).expect(200)
        c["ingester-2"].kill()
        prometheus.await_alert("FlametreeDown", pod="ft-flametree-ingester-dead")
        prometheus.await_alert("FlametreeMemberDead", kind="ingester", member="ingester-2")
        assert ask(c.server()).expect(200).headers["Flametree-Exact"] != "exact"
        prometheus.await_alert("FlametreeAnswersIncomplete", pod="ft-flametree-querier-0")
        c["ingester-2"].start()


@alert("FlametreeListsDiffer")
def test_a_distributor_with_another_list_is_told(prometheus):
    names = ("ingester-1", "ingester-2", "distributor")
    with Cluster("--cluster.probe_interval=200ms", spread=False, names=names) as c:
        with open(c.config_file("distributor")) as f:
            first = re.search(r"^ *- (ingester-1=\S+)$", f.read(), re.M)[1]
        other = c.another("distributor-2", "distributor", 4842, "--cluster.ingesters=" + first)
        other.start()
        with prometheus.asks(distributor_other=other, distributor_same=c["distributor"]):
            prometheus.await_alert("FlametreeListsDiffer", pod="ft-flametree-distributor-other")
            assert {a["pod"] for a in prometheus.firing("FlametreeListsDiffer")} == {"ft-flametree-distributor-other"}
        other.kill()


@alert("FlametreeLogDamaged")
def test_a_log_whose_files_are_gone_is_told(prometheus, tmp_path):
    with Flametree("--storage.kind", "none", data=str(tmp_path)) as f:
        with prometheus.asks(ingester_before=f):
            push(f.server()).expect(200)
            noted = tmp_path / "ingester/log/ACKNOWLEDGED"
            pushed = time.time()
            await_("the log to note how far it was acknowledged", lambda: noted.exists() and noted.stat().st_mtime > pushed, 60)
        f.kill()
        for entry in os.scandir(tmp_path / "ingester/log"):
            if entry.name.endswith(".log"):
                os.unlink(entry.path)
        f.start()
        with prometheus.asks(ingester_log=f):  # a Prometheus that sees this process for the first time
            prometheus.await_alert("FlametreeLogDamaged", pod="ft-flametree-ingester-log")


@alert("FlametreeCompactorFailing", "FlametreeCompactorBehind")
def test_a_compactor_whose_disk_is_full_fails_and_is_behind(prometheus):
    with Flametree(*AT_ONCE, "--compactor.workers=0", "--compactor.interval=1h", env={"FLAMETREE_FAULTS": "compact.write=enospc"}) as f, prometheus.asks(compactor_full=f):
        fill(f)
        run(f)
        prometheus.await_alert("FlametreeCompactorBehind")
        prometheus.await_alert("FlametreeCompactorFailing", pod="ft-flametree-compactor-full")


@alert("FlametreeObjectsDamaged")
def test_a_damaged_segment_is_told(prometheus):
    with Flametree(*AT_ONCE, *QUIET, "--limits.reject_older_than=0") as f, prometheus.asks(compactor_damaged=f):
        fill(f)
        spoil(files(f, "/live/a/")[0])
        run(f)
        prometheus.await_alert("FlametreeObjectsDamaged")


@alert("FlametreeInspectionsFail")
def test_a_manifest_that_cannot_be_read_is_told(prometheus):
    with Flametree(*AT_ONCE, *QUIET) as f:
        fill(f)
        run(f)
        f.stop()
        spoil(files(f, "/live/m/")[-1])
        f.start()
        with prometheus.asks(compactor_blind=f):
            run(f)
            prometheus.await_alert("FlametreeInspectionsFail", pod="ft-flametree-compactor-blind")


@alert("FlametreeClocksApart")
def test_clocks_that_are_days_apart_are_told(prometheus, tmp_path):
    clock = FaultClock(tmp_path / "clock")
    with Flametree(*AT_ONCE, *QUIET) as f:
        fill(f)
        run(f)
        f.stop()
        clock.set(days=-2)
        f.env.update(clock.env)
        f.start()
        with prometheus.asks(compactor_clock=f):
            run(f, sweep="true")
            clock.pass_(27 * HOUR)
            run(f, sweep="true")
            prometheus.await_alert("FlametreeClocksApart", pod="ft-flametree-compactor-clock")


@alert("FlametreeBlocksVanished")
def test_blocks_that_somebody_deletes_before_they_are_named_are_told(prometheus):
    with Flametree(*AT_ONCE, *QUIET, env={"FLAMETREE_FAULTS": "manifest.page.before=delay:3000"}) as f, prometheus.asks(compactor_robbed=f):
        fill(f)
        asked = threading.Thread(target=run, args=(f,))
        asked.start()
        for path in await_("a new block", lambda: files(f, "/raw/"), PATIENCE, 0.001):
            os.unlink(path)
        prometheus.await_alert("FlametreeBlocksVanished", pod="ft-flametree-compactor-robbed")
        asked.join()


@alert("FlametreeManifestsNotKept")
def test_manifests_without_room_are_told(prometheus):
    """Deletions that are under way are in the manifest, with what they match."""
    with Flametree(*QUIET, "--querier.manifest_memory=64KiB", "--compactor.manifest_memory=64KiB") as f, prometheus.asks(querier_small=f):
        fill(f)
        for n in range(40):
            match = '{pod=~"%d(%s)"}' % (n, "|".join("%040d" % i for i in range(50)))
            f.operator().call("POST", "/compactor/delete?" + urllib.parse.urlencode({"match": match})).expect(200)
        ask(f.server()).expect(200)
        prometheus.await_alert("FlametreeManifestsNotKept", pod="ft-flametree-querier-small")


@alert("FlametreeTenantsSkipped")
def test_tenants_without_room_are_told(prometheus):
    with Flametree(*AT_ONCE, *QUIET, "--server.memory_limit=64MiB", "--ingester.head_memory=16MiB", "--ingester.log_memory=4MiB", "--ingester.disk_reserve=8MiB",
                   "--compactor.worker_memory=16MiB", "--compactor.manifest_memory=64KiB", "--querier.manifest_memory=64KiB") as f, prometheus.asks(compactor_crowded=f):
        push(f.server()).expect(200)
        flush(f)
        for n in range(64000):
            with open(os.path.join(f.store, "o/v1/tenants/t%05d" % n), "wb"):
                pass
        run(f)
        prometheus.await_alert("FlametreeTenantsSkipped", pod="ft-flametree-compactor-crowded")


def test_each_alert_of_the_chart_was_made_to_fire():
    assert TESTED == {rule["alert"] for rule in alerts()[1]}
