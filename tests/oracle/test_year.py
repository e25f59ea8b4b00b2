"""The life of a small fleet's profiles: imported from files, compacted into all levels, the finest dropped, one service deleted and looked for in all
bytes, the store copied while it is written, and restored elsewhere. At each step answers lie where brute force says.

An ordinary run has 60 days and few profiles of each; FLAMETREE_NIGHTLY=1 a year with many. Figures are printed, a line each that begins with "year:".
"""
import collections
import gzip
import json
import os
import random
import threading
import time
import urllib.request

import pytest
from client import Pprof, unique
from copies import Pusher, accept_loss, numbers, tool
from exported import MARK
from faultclock import FaultClock
from flametree import AT_ONCE, SAYS_SOON, TOPOLOGIES, Cluster, check_blocks, compact, deploy, expire, fetched, flush, objects_of, windows_of
from fleet import HOUR_NS, SEED, Old
from model import Sample, rows_of
from searched import files_with

LONG = os.environ.get("FLAMETREE_NIGHTLY") == "1"
DAYS, EACH_DAY, QUESTIONS = (365, 12, 100) if LONG else (60, 4, 15)
KEPT = [] if LONG else ["--compactor.raw_retention=10d", "--compactor.hours_retention=30d"]
CALM = ["--compactor.interval=1h", "--compactor.days_retention=0", "--compactor.deletion_stay=0s", "--limits.reject_older_than=0", SAYS_SOON, *AT_ONCE, *KEPT]
OWNER, FUNCTION = "owner-5e1f8a", "handleDoomed7c40d2"


class Year(Old):
    """Profiles of all days until a day ago. The last service is the one that will be deleted, and has names of its own."""

    hours = (DAYS - 1) * 24
    widths = (HOUR_NS, 24 * HOUR_NS, 24 * HOUR_NS, 7 * 24 * HOUR_NS, 28 * 24 * HOUR_NS)
    others = False  # somebody else pushes too
    fresh = False  # what is pushed is of the last hours

    def __init__(self, *args):
        super().__init__(*args)
        self.doomed = self.services[-1]

    def time_ns(self):
        return time.time_ns() - self.rng.randrange(60, 20 * 3600) * 10**9 if self.fresh else super().time_ns()

    def profile(self):
        labels, types, period_type, time_ns, samples = super().profile()
        if labels["service_name"] == self.doomed:
            labels["owner"] = OWNER
            samples.append(Sample("main;" + FUNCTION, [7] * len(types), {}))
        return labels, types, period_type, time_ns, samples

    def write(self, folder, count):
        """So many profiles as files that know their series."""
        for n in range(count):
            labels, types, period_type, time_ns, samples = row = self.profile()
            p = Pprof(*[(s.stack, s.values, s.labels) for s in samples], types=types, time_ns=time_ns, period_type=period_type if any(period_type) else None)
            p.comments.append(p.text(MARK + json.dumps(labels)))
            with open(os.path.join(folder, "%d.pb.gz" % n), "wb") as f:
                f.write(gzip.compress(p.encode(), 1))
            self.model.rows += rows_of(*row)

    def check(self, count=QUESTIONS):
        for _ in range(count):
            self.check_one()

    def check_profile_stats(self):
        if not self.others:
            super().check_profile_stats()

    def delete_doomed(self, url):
        tool("delete", '{service_name="%s"}' % self.doomed, "--yes", "--url", url)
        self.services.remove(self.doomed)
        self.model.rows = [row for row in self.model.rows if row.labels["service_name"] != self.doomed]


class Figures:
    """Seconds, requests and what is stored, step by step."""

    def __init__(self, f):
        self.f, self.at, self.requests = f, time.monotonic(), 0

    def tell(self, step, more=""):
        asked, now = requests_of(self.f), time.monotonic()
        stored = objects_of(self.f.store)
        kinds = collections.Counter(name.split("/")[3] for name in stored if name.split("/")[3:4] in (["raw"], ["h"], ["d"], ["page"], ["live"]))
        print("year: %-10s %6.1f s, %6d requests; stored: %8.3f MB in %5d objects (%s) %s" % (
            step, now - self.at, asked - self.requests, sum(stored.values()) / 1e6, len(stored), ", ".join("%s %d" % kind for kind in sorted(kinds.items())), more))
        self.at, self.requests = time.monotonic(), asked


def requests_of(f):
    """To the service of the bucket, of all processes."""
    n = 0
    for m in f.members.values() if isinstance(f, Cluster) else [f]:
        with urllib.request.urlopen(m.admin_url + "/metrics", timeout=60) as answer:
            n += sum(float(line.split()[-1]) for line in answer.read().decode().splitlines() if line.startswith("flametree_s3_requests_total"))
    return n


def of_operators(f):
    return (f["compactor"] if isinstance(f, Cluster) else f).admin_url


def finish(f, clock):
    """Deletions are done then, in all objects. Of the day that expires just now rows are left, which go with the day."""
    clock.pass_(25 * HOUR_NS)
    for _ in range(10):
        flush(f)
        compact(f)
        expire(f)
        left = (f["compactor"] if isinstance(f, Cluster) else f).operator().call("GET", "/compactor/deletions").expect(200).json()["deletions"]
        if not left:
            return
    raise AssertionError("the deletion is not done: %s" % left)


def has_levels(f):
    """Single profiles of the newest days, hours of more of them, days of all, and windows."""
    names = [name.split("/")[3:5] for name in objects_of(f.store) if name.split("/")[3:4] in (["raw"], ["h"], ["d"])]
    days = {kind: len({int(of.split("-")[0], 16) // 24 for k, of in names if k == kind}) for kind in ("raw", "h", "d")}
    windows = windows_of(f.store)
    assert 5 < days["raw"] < days["h"] < DAYS * 2 // 3 and days["d"] > DAYS * 2 // 3 and windows >= DAYS // 28 - 1, (days, windows)


def copied_while_written(f, copy):
    """A copy that is begun while profiles arrive, are flushed and compacted; how many of them it has at least, and how many were sent."""
    pusher = Pusher(f.server(), unique("late"), (1, 3 * 3600))
    pusher.push(20)
    flush(f)
    least = pusher.n
    workers = [threading.Thread(target=pusher.run), threading.Thread(target=lambda: [(flush(f), compact(f)) for _ in range(2)])]
    for w in workers:
        w.start()
    try:
        said = tool("backup", f.store, copy)
    finally:
        workers[1].join()
        pusher.stopped = True
        workers[0].join()
    print("year: " + said.strip().splitlines()[-1])
    assert "0 wrong" in tool("restore", "--check", copy)
    return pusher.service, least, pusher.n


@pytest.mark.parametrize("topology", TOPOLOGIES)
def test_a_fleets_profiles_through_their_life(topology, tmp_path):
    rng = random.Random(SEED + TOPOLOGIES.index(topology))
    print("seed", SEED)
    files, copy, clock = tmp_path / "files", tmp_path / "copy", FaultClock(tmp_path / "clock")
    files.mkdir()
    with deploy(topology, *CALM, env=clock.env) as f:
        fleet, figures = Year(rng, f.server(), unique("year")), Figures(f)
        fleet.write(files, DAYS * EACH_DAY)
        figures.tell("written", "%d profiles of %d days" % (DAYS * EACH_DAY, DAYS))
        tool("import", files, "--no-compact", "--url", of_operators(f))
        figures.tell("imported")
        fleet.check()
        figures.tell("asked", "%d questions" % QUESTIONS)
        compact(f)
        expire(f)
        figures.tell("compacted")
        has_levels(f)
        fleet.check()
        fleet.delete_doomed(of_operators(f))
        fleet.check()
        finish(f, clock)
        figures.tell("deleted", "a service of three")
        with fetched(f.store) as top:
            assert not files_with(top, OWNER, FUNCTION)
        fleet.check()
        assert {"exact", "rounded"} <= fleet.seen, fleet.seen
        check_blocks(f.store)
        fleet.fresh = True
        fleet.push(5)
        flush(f)
        figures.tell("asked")
        fleet.others = True
        service, least, most = copied_while_written(f, copy)
        figures.tell("copied", "while %d profiles came" % (most - least))
    g = deploy(topology, *CALM, env=clock.env)
    tool("restore", copy, g.store)
    with g:
        figures = Figures(g)
        accept_loss(g)
        fleet.ask_at(g.server())
        figures.tell("restored")
        there = numbers(g, service)
        assert set(range(least)) <= there <= set(range(most)), there
        fleet.check(2 * QUESTIONS)
        finish(g, clock)
        fleet.check()
        with fetched(g.store) as top:
            assert not files_with(top, OWNER, FUNCTION)
        check_blocks(g.store)
