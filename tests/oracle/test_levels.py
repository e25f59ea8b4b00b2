"""The oracle over what leaves the heads: profiles of more than a day, flushed and compacted in between, late ones among
them, asked for from hour border to hour border and to the nanosecond beside them. Every answer must equal brute force and
say that it is exact.
"""
import base64
import json
import math
import os
import random
import signal
import subprocess
import time

import pytest
from client import QUERIER, tree_bytes, unique
from flametree import BIN, Cluster, Flametree, check_blocks
from test_oracle import ROUNDS, SEED, Fleet

HOUR_NS, MS = 3600 * 10**9, 10**6
HOURS = 30


class Days(Fleet):
    """Profiles of 30 hours, on borders of slots and beside them as often as anywhere else."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.base_ns = (time.time_ns() // HOUR_NS - HOURS) * HOUR_NS

    def border_ns(self):
        rng = self.rng
        hour = self.base_ns + rng.randrange(HOURS + 1) * HOUR_NS
        if rng.random() < 0.2:
            return hour // (24 * HOUR_NS) * 24 * HOUR_NS
        return hour - rng.choice([0, 0, 0, 1, 2, 11]) * 300 * 10**9

    def time_ns(self):
        rng = self.rng
        if rng.random() < 0.4:
            return self.border_ns() + rng.choice([0, 0, 1, -1, 10**6, -10**6, 500000])
        return self.base_ns + rng.randrange(HOURS * 3600) * 10**9 + rng.choice([0, 1, 10**9 - 1])

    def profile(self):
        labels, types, period_type, _, samples = super().profile()
        return labels, types, period_type, self.time_ns(), samples

    def edge(self):
        rng = self.rng
        if rng.random() < 0.3:
            return rng.choice(self.model.rows).time_ns // MS + rng.choice([-1, 0, 0, 1])
        return self.border_ns() // MS + rng.choice([0, 0, 0, 0, 1, -1, 777])

    def range(self):
        edges = self.edge(), self.edge()
        return min(edges), max(edges)

    def steps(self, start, end):
        rng = self.rng
        step = rng.choice([15_000, 60_000, 300_000, 3_600_000, 7_200_000, 86_400_000])
        if rng.random() < 0.7:
            start -= start % step
        if (end - start) // step > 5_000:
            step = 60_000
        return start, max(start, end), step

    def check_stats(self, matchers, start, end):
        """Samples of what is in blocks are not counted, the rest is."""
        kind, typed = self.of_type(matchers)
        rows = list(self.model.select(typed, start, end))
        answer = self.server.ok("AnalyzeQuery", query=kind + self.selector(matchers), start=start, end=end)
        got = answer.get("queryScopes", [{}])[0]
        self.expect(int(got.get("profileCount", 0)), len(rows))
        if self.model.tenants is None or len(self.model.tenants) == 1:
            times = [r.time_ns for r in self.model.select([], -(1 << 40), 1 << 50)]
            want = (bool(times), min(times) // MS, -(-max(times) // MS)) if times else (False, 0, 0)
            stats = self.server.ok("GetProfileStats")
            self.expect((stats.get("dataIngested", False), int(stats.get("oldestProfileTime", 0)), int(stats.get("newestProfileTime", 0))), want)

    def check_one(self):
        super().check_one()
        reply = self.server.call("POST", "/querier.v1.QuerierService/SelectMergeStacktraces",
                                 '{"profileTypeID": "%s", "labelSelector": "{}", "start": %d, "end": %d}' % (self.type_id(), *self.range()),
                                 {"Content-Type": "application/json"}).expect(200)
        self.expect(reply.headers["Flametree-Exact"], "exact")


def flush(f):
    """All that was acknowledged is in segments then."""
    for m in f.ingesters() if isinstance(f, Cluster) else [f]:
        reply = m.server().call("POST", "/ingester/flush?wait=true", b"", {})
        assert reply.status == 200, reply.body


def compact(f):
    """All jobs that are due are done then, and what nothing names any more is gone."""
    server = (f["compactor"] if isinstance(f, Cluster) else f).server()
    reply = server.call("POST", "/compactor/run?timeout=60s&sweep=true").expect(200)
    assert reply.json()["settled"], reply.body


# Everything is due at once; how often is looked for it says the test.
AT_ONCE = ["--compactor.%s=0s" % delay for delay in ("leaf_delay", "hour_delay", "day_delay", "repack_interval", "fold_interval", "window_interval", "delete_delay")]


def change(rng, f):
    """Flushes or compacts, or both, or nothing."""
    if rng.random() < 0.6:
        flush(f)
    if rng.random() < 0.6:
        compact(f)


@pytest.mark.parametrize("part", range(2))
def test_answers_of_segments_equal_brute_force(part):
    rng = random.Random(SEED + part)
    print("seed", SEED)
    with Flametree("--ingester.cut_age", rng.choice(["1s", "10m"])) as f:
        fleet, objects = Days(rng, f.server(), unique("oracle")), 0
        for round_ in range(ROUNDS):
            fleet.push(20)
            if round_ % 2 == 0:
                flush(f)
            for _ in range(40):
                fleet.check_one()
            objects += f.metric("flametree_querier_read_objects_total")
            if rng.random() < 0.3:
                f.kill()
                f.start()
                fleet.all = fleet.server = f.server()
        assert objects, "nothing was read of the store"


def test_answers_of_several_tenants_in_segments_equal_brute_force():
    rng = random.Random(SEED + 2)
    print("seed", SEED)
    with Flametree("--auth.multitenancy_enabled", "true", "--ingester.cut_age", "1s") as f:
        fleet = Days(rng, f.server(), unique("oracle"), ["ta", "tb", "tc"])
        for _ in range(ROUNDS):
            fleet.push(20)
            for _ in range(40):
                fleet.check_one()


@pytest.mark.parametrize("part", range(3))
def test_answers_of_levels_equal_brute_force(part):
    """Leaves, delta leaves of what came late, hours and days, in any mixture with segments and heads."""
    rng = random.Random(SEED + part)
    print("seed", SEED)
    cut = ["--compactor.pack_bytes=4KiB"] if part == 2 else []  # services go into several blocks
    with Flametree("--compactor.interval=1h", *AT_ONCE, *cut) as f:
        fleet, nodes = Days(rng, f.server(), unique("oracle")), 0
        for _ in range(ROUNDS):
            fleet.push(20)
            change(rng, f)
            for _ in range(40):
                fleet.check_one()
            nodes += f.metric("flametree_querier_block_nodes_total")
            if rng.random() < 0.2:
                f.kill()
                f.start()
                fleet.all = fleet.server = f.server()
        flush(f)
        compact(f)
        for _ in range(40):
            fleet.check_one()
        assert nodes + f.metric("flametree_querier_block_nodes_total"), "no sums were read"
        shown = subprocess.run([os.path.join(BIN, "flametree"), "manifest", "show", "--format", "json", f.data], capture_output=True, text=True, check=True).stdout
        assert (part == 2) == ('"parts":2' in shown or '"parts":3' in shown), shown
        check_blocks(os.path.join(f.data, "store"))


def test_answers_equal_brute_force_while_everything_moves():
    """Cuts close, segments and leaves come and go under the questions."""
    rng = random.Random(SEED + 5)
    print("seed", SEED)
    with Flametree("--compactor.interval=50ms", "--compactor.sweep_interval=50ms", "--ingester.cut_age=1s", *AT_ONCE) as f:
        fleet = Days(rng, f.server(), unique("oracle"))
        for _ in range(2 * ROUNDS):
            fleet.push(10)
            for _ in range(30):
                fleet.check_one()


@pytest.mark.parametrize("part", range(2))
def test_answers_equal_brute_force_whatever_ingesters_do(part, tmp_path):
    """A stopped ingester stores what it had received when it goes on, others have stored it meanwhile: copies of a row
    lie in heads and in segments, in any combination."""
    rng = random.Random(SEED + part)
    print("seed", SEED)
    with Cluster("--distributor.append_timeout", "1s", "--ingester.cut_age", rng.choice(["1s", "3s", "10m"]),
                 "--compactor.interval=1h", *AT_ONCE, "--storage.dir", str(tmp_path / "store")) as c:
        fleet = Days(rng, c.server(), unique("oracle"))
        for _ in range(ROUNDS):
            fleet.push(8)
            victim = rng.choice(c.ingesters())
            if rng.random() < 0.7:
                victim.signal(signal.SIGSTOP)
                fleet.push(6)
                victim.signal(signal.SIGCONT)
            else:
                victim.kill()
                fleet.push(8)
                victim.start()
            change(rng, c)
            for _ in range(25):
                fleet.check_one()
        assert c["querier"].metric("flametree_querier_loose_rows_total"), "no row was in two ingesters"
        check_blocks(tmp_path / "store")


class Old(Days):
    """Single profiles are kept for hours only: what is older is exact between whole hours or days, or said to be rounded,
    and then lies between brute force over the range and over one that is wider by that much."""

    def check_one(self):
        matchers, (start, end) = self.matchers(), self.range()
        kind, typed = self.of_type(matchers)
        body = json.dumps({"profileTypeID": kind, "labelSelector": self.selector(matchers), "start": start, "end": end, "maxNodes": 1 << 20,
                           "format": "PROFILE_FORMAT_TREE"})
        reply = self.server.call("POST", "/" + QUERIER + "SelectMergeStacktraces", body, {"Content-Type": "application/json"}).expect(200)
        got = tree_bytes(base64.b64decode(reply.json().get("tree", "")))
        said, _, seconds = reply.headers["Flametree-Exact"].partition("=")
        self.seen.add(said)
        least = self.model.tree(typed, start, end)
        if said == "exact":
            return self.expect(got, least)
        if said == "partial":  # no sums of these labels are left
            wider = self.model.tree(typed, start, end)
            assert all(v <= wider.get(k, 0) for k, v in got.items()), (SEED, got, wider, self.server.last)
            return None
        assert said == "rounded", reply.headers["Flametree-Exact"]
        by = math.ceil(float(seconds) * 1000)
        # An edge that is a ms beside a border lies on it.
        least = self.model.tree(typed, start + 1, end - 1)
        most = self.model.tree(typed, start - by, end + by)
        assert all(v <= got.get(k, 0) for k, v in least.items()), "seed %d\nleast: %s\ngot: %s%s" % (SEED, least, got, self.server.last)
        assert all(v <= most.get(k, 0) for k, v in got.items()), "seed %d\nmost: %s\ngot: %s%s" % (SEED, most, got, self.server.last)
        return None


def test_what_is_rounded_lies_between_brute_force_over_both_ranges():
    rng = random.Random(SEED + 6)
    print("seed", SEED)
    with Flametree("--compactor.interval=1h", *AT_ONCE, "--compactor.raw_retention=3h") as f:
        fleet = Old(rng, f.server(), unique("oracle"))
        fleet.seen = set()
        for _ in range(ROUNDS):
            fleet.push(25)
            flush(f)
            compact(f)
            compact(f)
            for _ in range(60):
                fleet.check_one()
        assert {"exact", "rounded"} <= fleet.seen, fleet.seen
