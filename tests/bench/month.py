# SPDX-License-Identifier: Apache-2.0
"""The group `month` of tests/bench/run: thirty days are pushed with their own times, flushed, compacted until nothing is due,
and asked. Each service runs alone, over one directory of objects, so that each one's memory and CPU time are its own.

The days end at the last whole hour but two, so that every hour of them is old enough for the compactor, whatever the clock
says; the compactor starts when all is flushed, as it would find an hour in life."""
import json
import os
import re
import shutil
import subprocess
import tempfile
import time
import urllib.request

from faultclock import FaultClock
from flametree import Flametree, await_

DAYS = 30
TYPE = "process_cpu:cpu:nanoseconds:cpu:nanoseconds"
COMPACTOR_MEMORY = 512 << 20
SETTLE_SECONDS = 3600
LEVELS = {"raw": "raw blocks", "h": "hours", "d": "days and windows"}  # by the folder below the tenant's
REST = {"peer's month": "<= 1.5", "100 pods": "<= 2.0", "fleet": "<= 2.5"}  # bytes at rest per (stack, value)
VALUES = 2  # of a stack in every profile of the loads: samples or objects, and what they are worth


class Cluster:
    """One process of each service."""

    def __init__(self, *ingester_flags, programs="", env=None, storage=None):
        self.ingester_flags, self.programs, self.env, self.storage = ingester_flags, programs, env, storage
        self.folder = tempfile.mkdtemp(prefix="flametree-bench-")
        self.objects = os.path.join(self.folder, "objects")
        self.processes = {}

    def start(self, name, *args):
        data = os.path.join(self.folder, name)
        os.makedirs(data, exist_ok=True)
        socket = "unix:%s/%s.sock" % (self.folder, name)
        flags = ["--server.id", name, "--internal.listen", socket, "--cluster.ingesters", "ingester=unix:%s/ingester.sock" % self.folder,
                 "--server.request_timeout", "600s", "--limits.reject_older_than", "31d"]
        if name != "distributor":
            flags += self.storage or ["--storage.dir", self.objects]
        self.processes[name] = Flametree(*flags, *args, program=os.path.join(self.programs, "flametree-" + name), data=data, env=self.env)
        return self.processes[name].start()

    def __getitem__(self, name):
        return self.processes[name]

    def __enter__(self):
        self.start("ingester", "--server.memory_limit", "4GiB", *self.ingester_flags)
        for name in ("distributor", "querier"):
            self.start(name)
        return self

    def __exit__(self, kind, value, trace):
        for name in ("compactor", "querier", "distributor", "ingester"):
            if name in self.processes:
                self.processes[name].__exit__(kind, value, trace)
        shutil.rmtree(self.folder, ignore_errors=True)

    def pids(self, *names):
        return ",".join(str(self[name].process.pid) for name in names)


def post(url, timeout=600, body=b"", headers=None):
    request = urllib.request.Request(url, data=body, headers=headers or {}, method="POST")
    with urllib.request.urlopen(request, timeout=timeout) as answer:
        return answer.read().decode(), answer.headers


def get_json(url):
    with urllib.request.urlopen(url, timeout=60) as answer:
        return json.load(answer)


def settle(c, note):
    """Flushes, starts the compactor and waits until nothing is due."""
    done = json.loads(post(c["ingester"].url + "/ingester/flush")[0])
    note("the last flush: %(cuts)d cuts, %(segments)d segments" % done)
    began = time.monotonic()
    at_once = [flag for name in ("delete_delay", "hour_delay", "day_delay", "repack_interval") for flag in ("--compactor." + name, "0s")]
    f = c.start("compactor", "--compactor.worker_memory", str(COMPACTOR_MEMORY), "--compactor.raw_retention", "0", "--compactor.interval", "1s", *at_once)
    status = f.url + "/compactor/status"
    until = time.monotonic() + SETTLE_SECONDS

    def settled():
        post(f.url + "/compactor/run?timeout=500s&sweep=true")
        now = get_json(status)
        assert not any(t["failures"] for t in now["tenants"]), now
        return now["backlog"] == 0 and now["settled"]
    await_("the compactor to settle", settled, until - time.monotonic(), 0.5)
    cpu = cpu_seconds(f)
    note("compacted in %.0f s, %.1f core-s" % (time.monotonic() - began, cpu))
    return cpu


def cpu_seconds(f):
    with open("/proc/%d/stat" % f.process.pid) as stat:
        fields = stat.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def of_kinds(folder):
    """Objects and bytes by what they are: the folder below the tenant's."""
    out = {}
    for at, _, names in os.walk(os.path.join(folder, "o")):
        parts = os.path.relpath(at, os.path.join(folder, "o")).split(os.sep)
        kind = "/".join(parts[3:5] if len(parts) > 4 and parts[3] == "live" else parts[3:4]) or "/".join(parts)
        for name in names:
            n, bytes_ = out.get(kind, (0, 0))
            out[kind] = (n + 1, bytes_ + os.path.getsize(os.path.join(at, name)))
    return out


def sections_of(program, folder):
    """{level: {section: bytes}} of all blocks: what each level's bytes are."""
    out = {}
    for at, _, names in os.walk(os.path.join(folder, "o")):
        level = LEVELS.get(os.path.basename(os.path.dirname(at)))
        for name in names if level else ():
            shown = subprocess.run([program, "block", "show", "-F", "json", os.path.join(at, name)], capture_output=True, text=True)
            for block in json.loads(shown.stdout) if shown.returncode == 0 else ():  # not one that has just been deleted
                sums = out.setdefault(level, {})
                for section, v in block["sections"].items():
                    sums[section] = sums.get(section, 0) + v["stored"]
    return out


class Loaded:
    """A cluster with thirty days of a fleet in it, settled."""

    def __init__(self, c, driver, expect, note, **flags):
        self.c, self.driver, self.expect, self.note = c, driver, expect, note
        self.end = int(time.time()) // 3600 * 3600 - 2 * 3600
        self.stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.end))
        out = self.ask("load", c["distributor"].url, c.pids("distributor", "ingester"), end=self.stamp, start="-%dd" % DAYS, expect=expect,
                       concurrency=64, **flags)
        got = dict(line.split("\t", 1) for line in out.splitlines() if "\t" in line)
        if float(got["failed"]):
            note("%s profiles failed: %s" % (got["failed"], got.get("error")))
        self.got = {k: float(v) for k, v in got.items() if k != "error"}
        note("pushed %(profiles).0f profiles, %(entries).0f stacks and values, %(raw_MB).0f MB raw in %(wall_s).0f s, %(server_cpu_s).0f core-s" % self.got)
        self.compact_cpu = settle(c, note)

    def ask(self, command, url, pids, **flags):
        return self.driver.ask(command, "-url", url, "-pids", pids, *["-%s=%s" % (k.replace("_", "-"), v) for k, v in flags.items()])

    def query(self, service, ranges="30d", **flags):
        """{(kind, range, select): {"p50_ms", "cpu_ms", "peak_RSS_MB", ...}}; says which answers are wrong."""
        flags = {"reps": 20, "kinds": "flame-8192", "one_pod": "false", **flags}
        out = self.ask("query", self.c["querier"].url, self.c.pids("querier", "ingester"), service=service, end=self.stamp, ranges=ranges, expect=self.expect,
                       **flags)
        lines = [line.split("\t") for line in out.splitlines() if not line.startswith("#")]
        found = {}
        for cells in lines[1:]:
            one = dict(zip(lines[0], cells))
            name = "%(kind)s %(range)s %(select)s" % one
            lost = one["lost(+)/extra(-)"]
            if lost not in ("-", "0") or "FAILED" in one["note"]:
                self.note("WRONG: %s is off by %s: %s" % (name, lost, one["note"]))
            tree = re.search(r"missing=(\d+) differing=(\d+)", one["note"])
            one["wrong_nodes"] = sum(map(int, tree.groups())) if tree else None
            found[one["kind"], one["range"], one["select"]] = {k: number(v) for k, v in one.items()}
        return found

    def explain(self, service, days=DAYS):
        """What a flame graph was made of, as the querier tells it, and what its processes read meanwhile."""
        body = json.dumps({"profileTypeID": TYPE, "labelSelector": '{service_name="%s"}' % service, "start": (self.end - days * 86400) * 1000,
                           "end": self.end * 1000 - 1, "maxNodes": 8192}).encode()
        headers = {"Content-Type": "application/json", "Flametree-Explain": "1", "X-Scope-OrgID": "tenant-0"}
        f = self.c["querier"]
        before = f.metric("flametree_store_reads_total") or 0
        _, answered = post(f.url + "/querier.v1.QuerierService/SelectMergeStacktraces", body=body, headers=headers)
        told = json.loads(answered["Flametree-Explain"])
        told["exact"] = answered["Flametree-Exact"]
        told["store_reads"] = (f.metric("flametree_store_reads_total") or 0) - before
        return told

    def query_memory(self, ask):
        """Bytes by which the querier's resident memory grows above what it has before."""
        f = self.c["querier"]
        before = f.rss_bytes()
        with open("/proc/%d/clear_refs" % f.process.pid, "w") as clear:
            clear.write("5")
        ask()
        return f.peak_rss_bytes() - before

    def written(self, *names):
        return sum(self.c[name].metric('flametree_store_bytes_total{direction="written"}') or 0 for name in names)


def number(text):
    try:
        return float(text)
    except (TypeError, ValueError):
        return text


# ---- figures

def figures_of_storage(x, row, name):
    kinds = of_kinds(x.c.objects)
    segments, all_ = x.written("ingester"), x.written("ingester", "compactor")
    for kind, (n, part) in sorted(kinds.items()):
        x.note("at rest: %-10s %6d objects %12d bytes" % (kind, n, part))
    # A day's versions of the manifest stay; here it saw the commits of thirty days.
    roots = kinds.pop("live/m", (0, 0))[1]
    pairs = x.got["entries"] * VALUES
    rest = sum(part for _, part in kinds.values())
    row("month", name + ": bytes at rest per profile, all levels", rest / x.got["profiles"], "bytes", "", "4963")
    row("month", name + ": bytes at rest per (stack, value), all levels", rest / pairs, "bytes", REST[name], "49.6")
    sections = sections_of(os.path.join(x.c.programs or os.environ["FLAMETREE_BIN"], "flametree"), x.c.objects)
    for kind, level in LEVELS.items():
        row("month", name + ": of these, " + level, kinds.get(kind, (0, 0))[1] / pairs, "bytes")
        shares = sorted(sections.get(level, {}).items(), key=lambda s: -s[1])
        x.note(level + ": " + ", ".join("%s %.3f" % (section, n / pairs) for section, n in shares if n / pairs >= 0.001))
    row("month", name + ": segments per (stack, value)", segments / pairs, "bytes")
    row("month", name + ": PUT bytes / segment bytes", all_ / segments, "", "<= 3.0", "3")
    row("month", name + ": the same without roots of the manifest", (all_ - roots) / segments, "")
    row("month", name + ": PUTs of the compactor", x.c["compactor"].metric('flametree_store_operations_total{operation="create",result="ok"}') or 0, "")
    row("month", name + ": compactor, core-seconds", x.compact_cpu, "core-s")
    row("month", name + ": compactor, peak RSS", x.c["compactor"].peak_rss_bytes() / 1e6, "MB", "<= %.0f" % (COMPACTOR_MEMORY * 1.1 / 1e6), "1187")


def figures_of_flames(x, row, name, service):
    first = x.explain(service)
    grew = x.query_memory(lambda: x.explain(service))
    warm = x.query(service, reps=100, ranges="1d,30d", kinds="flame-8192,flame-1048576,label-values,series,series-by-pod")
    told = x.explain(service)
    cold = x.query(service, cold=x.c.objects, label="cold", reps=10)
    month, day = warm["flame-8192", "30d", "service"], warm["flame-8192", "1d", "service"]
    exact = warm["flame-1048576", "30d", "service"]["wrong_nodes"] == 0
    x.note("explained: first %(objects)s objects %(reads)s reads; " % first + "warm %(objects)s objects, %(nodes)s nodes, %(rows)s rows, %(reads)s reads, "
           "%(bytes)s bytes, %(store_reads).0f reads of files; %(exact)s" % told)
    row("month", name + ": flame graph of 30 days, warm, p50", month["p50_ms"], "ms", "< 50", "6900")
    row("month", name + ": the same, CPU", month["cpu_ms"], "core-ms", "<= 80", "12700")
    row("month", name + ": the same, reads (first time)", first["reads"], "", "<= 60", "2029")
    row("month", name + ": the same, reads (warm)", told["reads"], "", "<= 60", "2029")
    row("month", name + ": the same, page cache empty, p50", cold["flame-8192", "30d", "service"]["p50_ms"], "ms", "< 150", "29500")
    row("month", name + ": the whole tree equals brute force", float(exact), "1: it does", "1")
    row("month", name + ": querier's RSS above idle", grew / 1e6, "MB", "<= 64")
    row("month", name + ": 30 days / 1 day, p50", month["p50_ms"] / day["p50_ms"], "", "<= 1.5", "20")
    row("month", name + ": 30 days / 1 day, CPU", month["cpu_ms"] / max(day["cpu_ms"], 0.1), "", "<= 1.5", "20")
    by_pod = warm["series-by-pod", "30d", "service"]
    row("month", name + ": SelectSeries of 30 days by pod, CPU", by_pod["cpu_ms"], "core-ms", "<= 40", "1740")
    row("month", name + ": SelectSeries of 30 days by pod, p50", by_pod["p50_ms"], "ms", "< 200")
    for kind in ("label-values", "series"):
        row("month", "%s: %s over 30 days, CPU" % (name, kind), warm[kind, "30d", "service"]["cpu_ms"], "core-ms", "<= 5", "300")
    return month


def figures_of_pods(x, row, name, service):
    got = x.query(service, kinds="flame-8192,series-by-pod", pods=".+-.+", reps=10)
    row("month", name + ": flame graph of 30 days, a matcher that takes every pod", got["flame-8192", "30d", "pods"]["cpu_ms"], "core-ms", "< 1000")
    row("month", name + ": the same, p50", got["flame-8192", "30d", "pods"]["p50_ms"], "ms")


def figures_of_puts(driver, row):
    """Cuts of seconds instead of ten minutes: each is as many PUTs."""
    with Cluster("--ingester.cut_age", "2s") as c:
        end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        driver.ask("load", "-url", c["distributor"].url, "-end=" + end, "-start=-1m", "-interval=1s", "-series=10", "-rate=60")
        f = c["ingester"]
        post(f.url + "/ingester/flush")
        cuts = await_("cuts to be flushed", lambda: f.metric("flametree_ingester_flushed_cuts_total"))
        puts = f.metric('flametree_store_operations_total{operation="create",result="ok"}') - 1  # the trial at the start
        row("month", "PUTs per ingester and hour, one tenant, cuts of 10 min", puts / cuts * 6, "", "<= 20", "7200")


def figures_of_life(driver, row, programs, short):
    """Profiles are pushed as they are made, cuts close as they do, the compactor works with its own delays: only the clock is
    moved, ten minutes at a time, beginning with a day. Needs programs with fault points."""
    with tempfile.TemporaryDirectory() as folder:
        clock = FaultClock(os.path.join(folder, "clock"))
        now = (int(time.time()) // 86400 + 1) * 86400

        def pass_until(seconds):
            clock.pass_(seconds * 10**9 - clock.now_ns())
        pass_until(now)
        with Cluster(programs=programs, env=clock.env) as c:
            compactor, ingester = c.start("compactor", "--compactor.interval", "1h"), c["ingester"]
            steps = (8 if short else 30) * 6
            for _ in range(steps):
                now += 600
                pass_until(now + 5)
                end = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(now))
                driver.ask("load", "-url", c["distributor"].url, "-end=" + end, "-start=-10m", "-interval=5m", "-series=10", "-stacks=50")
                post(ingester.url + "/ingester/flush")
                post(compactor.url + "/compactor/run?timeout=60s&sweep=true")
            segments, merged = (c[name].metric('flametree_store_bytes_total{direction="written"}') for name in ("ingester", "compactor"))
            puts = ingester.metric('flametree_store_operations_total{operation="create",result="ok"}')
            row("month", "in life: PUT bytes / segment bytes", (segments + merged) / segments, "", "<= 3.0", "3")
            row("month", "in life: PUTs per ingester and hour, one tenant", puts / steps * 6, "", "<= 20", "7200")


LOADS = [  # name, prefix, flags, what is measured
    ("peer's month", "month", {"interval": "5m", "series": 10, "stacks": 50}, (figures_of_storage, figures_of_flames)),
    ("a tenth of it", "tenth", {"interval": "50m", "series": 10, "stacks": 50}, (figures_of_flames,)),
    ("100 pods", "wide", {"interval": "50m", "series": 100, "stacks": 50}, (figures_of_storage, figures_of_flames, figures_of_pods)),
    ("fleet", "fleet", {"preset": "small"}, (figures_of_storage, figures_of_flames, figures_of_pods)),
]
SHORT = {"month": {"series": 2}, "tenth": {"series": 2}, "wide": {"interval": "8h"}}


def month(driver, short, row, note, only=None, with_faults=None):
    """with_faults() builds programs with fault points and says where they are."""
    flames = {}
    if not only or "puts" in only:
        figures_of_puts(driver, row)
    if not only or "life" in only:
        figures_of_life(driver, row, with_faults(), short)
    for name, prefix, flags, parts in LOADS:
        rest = only and "rest" in only and figures_of_storage in parts
        if only and prefix not in only and not rest:
            continue
        if rest and prefix not in only:
            parts = (figures_of_storage,)
        flags = {**flags, **(SHORT.get(prefix, {}) if short else {})}
        with Cluster() as c, tempfile.TemporaryDirectory() as expect:
            x = Loaded(c, driver, expect, note, prefix=prefix, services=flags.pop("services", None) or (2 if "preset" in flags else 1), **flags)
            for part in parts:
                if part is figures_of_storage:
                    part(x, row, name)
                else:
                    flames[prefix, part] = part(x, row, name, prefix + "-0-0")
    a, b = flames.get(("month", figures_of_flames)), flames.get(("tenth", figures_of_flames))
    if a and b:
        row("month", "10 times the profiles: flame graph of 30 days, CPU", a["cpu_ms"] / max(b["cpu_ms"], 0.1), "", "<= 1.2", "linear")
        row("month", "10 times the profiles: flame graph of 30 days, p50", a["p50_ms"] / b["p50_ms"], "", "<= 1.2", "linear")
