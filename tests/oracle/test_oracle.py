"""Random profiles pushed through HTTP, random queries, equality with brute force; SIGKILL and restart in between. On the
cluster ingesters also hang or are away while profiles are pushed, so that others get them too.

The seed is printed; ORACLE_SEED repeats a run, ORACLE_ROUNDS makes it longer.
"""
import base64
import os
import random
import signal
import threading
import time
from collections import Counter

import pytest
from client import Pprof, Server, flame, read_pprof, tree_bytes, unique
from flametree import Cluster, Flametree
from model import Model, Sample, rows_of

SEED = int(os.environ.get("ORACLE_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
ROUNDS = int(os.environ.get("ORACLE_ROUNDS", "4"))
TYPES = [
    ("process_cpu", (("samples", "count"), ("cpu", "nanoseconds")), ("cpu", "nanoseconds")),
    ("memory", (("alloc_objects", "count"), ("alloc_space", "bytes")), ("space", "bytes")),
    ("wall", (("wall", "nanoseconds"),), ("", "")),
]
FUNCTIONS = ["main", "main.run", "runtime.gc", "größe", "函数", "a b", "x;y".replace(";", ":"), "net/http.(*conn).serve", "other", "total", "f" * 200]


class Fleet:
    """Pushes random profiles to a server and remembers each acknowledged one."""

    def __init__(self, rng, server, mark):
        self.rng, self.server, self.model, self.mark = rng, server, Model(), mark
        self.services = ["%s-%d" % (mark, i) for i in range(3)]
        self.base_ns = time.time_ns() - 20 * 60 * 10**9

    def stack(self):
        depth = self.rng.choice([0, 1, 1, 2, 3, 5, 8, 40])
        return ";".join(self.rng.choice(FUNCTIONS) for _ in range(depth))

    def profile(self):
        rng = self.rng
        name, types, period_type = rng.choice(TYPES)
        labels = {"__name__": name, "service_name": rng.choice(self.services), "mark": self.mark}
        for k in ("region", "pod", "k8s.node"):
            if rng.random() < 0.6:
                labels[k] = "%s-%d" % (k, rng.randrange(3))
        time_ns = self.base_ns + rng.randrange(15 * 60) * 10**9 + rng.choice([0, 0, 1, 499999, 500000, 10**6, 10**9 - 1])
        samples = []
        for _ in range(rng.choice([1, 2, 10, 60])):
            first = rng.choice([0, 1, 7, -3, 10**6, rng.randrange(10**9)])
            values = [first, first * 10_000_000 if rng.random() < 0.5 else rng.randrange(10**9)][:len(types)]
            own = {}
            if rng.random() < 0.3:
                own["endpoint"] = rng.choice(["/a", "/b", ""])
            if rng.random() < 0.1:
                own["bytes"] = rng.randrange(1, 4096)
            if rng.random() < 0.1:
                own["pod"] = "from-sample"
            samples.append(Sample(self.stack(), values, own))
        return labels, types, period_type, time_ns, samples

    def push(self, count):
        for _ in range(count):
            batch = [self.profile() for _ in range(self.rng.choice([1, 1, 1, 4]))]
            series = []
            for labels, types, period_type, time_ns, samples in batch:
                p = Pprof(*[(s.stack, s.values, s.labels) for s in samples], types=types, time_ns=time_ns,
                          period_type=period_type if any(period_type) else None)
                series.append((labels, [p]))
            self.server.push_series(series).expect(200)
            for row in batch:
                self.model.rows += rows_of(*row)

    # ---- queries

    def matchers(self):
        rng = self.rng
        out = [("mark", "=", self.mark)]
        for _ in range(rng.randrange(3)):
            k = rng.choice(["service_name", "region", "pod", "k8s.node", "endpoint", "absent"])
            v = rng.choice([r.labels.get(k, "") for r in rng.sample(self.model.rows, min(4, len(self.model.rows)))] + ["", "nothing"])
            op = rng.choice(["=", "!=", "=~", "!~"])
            if op in ("=~", "!~"):
                v = rng.choice([v.replace("/", "[/]"), v[:3] + ".*", "(%s|nothing)" % v, ".+", ".*"])
            out.append((k, op, v))
        return out

    def selector(self, matchers):
        return "{%s}" % ",".join('"%s"%s"%s"' % (k, op, v.replace("\\", "\\\\").replace('"', '\\"')) for k, op, v in matchers)

    def range(self):
        """A range in ms; half of the time its ends lie on profiles or just beside them."""
        rng = self.rng
        if rng.random() < 0.5:
            picks = [rng.choice(self.model.rows).time_ns // 10**6 + rng.choice([-1, 0, 0, 1]) for _ in range(2)]
            return min(picks), max(picks)
        low = self.base_ns // 10**6 + rng.randrange(-60_000, 15 * 60_000)
        return low, low + rng.randrange(1, 16 * 60_000)

    def type_id(self):
        return self.rng.choice(self.model.rows).labels["__profile_type__"]

    def check_one(self):
        kind = self.rng.choice([self.check_tree, self.check_tree, self.check_tree_bytes, self.check_truncated, self.check_series, self.check_pprof,
                                self.check_labels])
        kind(self.matchers(), *self.range())

    def ask(self, method, matchers, start, end, **more):
        return self.server.ok(method, labelSelector=self.selector(matchers), start=start, end=end, **more)

    def expect(self, got, want):
        assert got == want, "seed %d\nexpected: %s\ngot:      %s%s" % (SEED, want, got, self.server.last)

    def check_tree(self, matchers, start, end):
        kind = self.type_id()
        graph = self.ask("SelectMergeStacktraces", matchers, start, end, profileTypeID=kind, maxNodes=1 << 20)["flamegraph"]
        want = self.model.tree(matchers + [("__profile_type__", "=", kind)], start, end)
        got = {k: v[0] for k, v in flame(graph).items() if v[0] and k != "total"} if "total" not in {s.split(";")[0] for s in want} else None
        if got is not None:
            self.expect(got, want)
        self.expect(int(graph.get("total", 0)), sum(want.values()))

    def check_tree_bytes(self, matchers, start, end):
        kind = self.type_id()
        data = self.ask("SelectMergeStacktraces", matchers, start, end, profileTypeID=kind, maxNodes=1 << 20, format="PROFILE_FORMAT_TREE").get("tree", "")
        self.expect(tree_bytes(base64.b64decode(data)), self.model.tree(matchers + [("__profile_type__", "=", kind)], start, end))

    def check_truncated(self, matchers, start, end):
        kind = self.type_id()
        nodes = self.rng.choice([1, 2, 3, 10, 100])
        graph = self.ask("SelectMergeStacktraces", matchers, start, end, profileTypeID=kind, maxNodes=nodes)["flamegraph"]
        want = self.model.tree(matchers + [("__profile_type__", "=", kind)], start, end)
        self.expect(int(graph.get("total", 0)), sum(want.values()))
        levels = [list(map(int, level["values"])) for level in graph["levels"]]
        self.expect(sum(v for level in levels for v in level[2::4]), sum(want.values()))

    def check_pprof(self, matchers, start, end):
        kind = self.type_id()
        from client import QUERIER, pb
        body = pb((1, kind), (2, self.selector(matchers)), (3, start), (4, end))
        reply = self.server.call("POST", "/" + QUERIER + "SelectMergeProfile", body, {"Content-Type": "application/proto"}).expect(200)
        got = {k: v[0] for k, v in read_pprof(reply.body)["stacks"].items() if k} if reply.body else {}
        self.expect(got, self.model.tree(matchers + [("__profile_type__", "=", kind)], start, end))

    def check_series(self, matchers, start, end):
        kind, step = self.type_id(), self.rng.choice([1, 7, 1000, 15_000, 60_000, 3_600_000])
        if (end - start) // step > 10_000:
            step = 15_000
        group_by = self.rng.sample(["service_name", "region", "pod", "endpoint", "k8s.node"], self.rng.randrange(3))
        answer = self.ask("SelectSeries", matchers, start, end, profileTypeID=kind, step=step / 1000, groupBy=group_by)
        got = {}
        for row in answer.get("series", []):
            labels = tuple((p["name"], p["value"]) for p in row.get("labels", []))
            got[tuple(sorted(labels))] = {int(p["timestamp"]): int(p.get("value", 0)) for p in row["points"]}
        want = self.model.series(matchers + [("__profile_type__", "=", kind)], start, end, step, group_by)
        # points are doubles on the wire: above 2^53 the exact sum is rounded once
        self.expect(got, {tuple(sorted(k)): {t: int(float(v)) for t, v in points.items()} for k, points in want.items()})

    def check_labels(self, matchers, start, end):
        name = self.rng.choice(["service_name", "pod", "endpoint", "__profile_type__", "k8s.node"])
        selector = [self.selector(matchers)]
        got = self.server.ok("LabelValues", name=name, matchers=selector, start=start, end=end).get("names", [])
        self.expect(got, self.model.values(name, matchers, start, end))
        names = ["service_name", "region", "endpoint"]
        answer = self.server.ok("Series", matchers=selector, labelNames=names, start=start, end=end).get("labelsSet", [])
        sets = sorted(tuple(sorted((p["name"], p["value"]) for p in row.get("labels", []))) for row in answer)
        self.expect(sets, self.model.label_sets(names, matchers, start, end))


@pytest.mark.parametrize("part", range(2))
def test_answers_equal_brute_force_across_kills(part):
    rng = random.Random(SEED + part)
    print("seed", SEED)
    with Flametree() as f:
        fleet = Fleet(rng, Server(f.url, strict=True), unique("oracle"))
        for round_ in range(ROUNDS):
            fleet.push(25)
            for _ in range(25):
                fleet.check_one()
            if round_ % 2 == 0:
                f.kill()
                f.start()
                fleet.server = Server(f.url, strict=True)
                for _ in range(15):
                    fleet.check_one()


@pytest.mark.parametrize("part", range(2))
def test_answers_equal_brute_force_whatever_ingesters_do(part):
    """A stopped ingester stores what it had received when it goes on, others have stored it meanwhile."""
    rng = random.Random(SEED + part)
    print("seed", SEED)
    with Cluster("--distributor.append_timeout", "1s") as c:
        fleet = Fleet(rng, c.server(), unique("oracle"))
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
            for _ in range(25):
                fleet.check_one()
        assert c["querier"].metric("flametree_querier_loose_rows_total"), "no row was in two ingesters"


@pytest.mark.parametrize("point", ["", "wal.write.before=die@7", "wal.sync.after=die@7", "append.ack.before=die@7"])
def test_what_was_acknowledged_before_a_kill_is_there_once(point):
    """Writers push while the process is killed (by us, or by itself at a named point of the write path)."""
    with Flametree(env={"FLAMETREE_FAULTS": point}) as f:
        service, acked, tried, stop = unique("acked"), set(), set(), threading.Event()

        def write(writer):
            server = Server(f.url, strict=True)
            for i in range(10_000):
                name = "w%d_%d" % (writer, i)
                tried.add(name)
                try:
                    if server.push({"__name__": "process_cpu", "service_name": service}, Pprof((name, 1 + i))).status == 200:
                        acked.add(name)
                except AssertionError:
                    return
                if stop.is_set():
                    return

        writers = [threading.Thread(target=write, args=(w,)) for w in range(4)]
        for w in writers:
            w.start()
        if point:
            f.process.wait(60)
            f.process = None
        else:
            while len(acked) < 40:
                f.check_alive()
                stop.wait(0.01)
            f.kill()
        for w in writers:
            w.join()
        f.env.pop("FLAMETREE_FAULTS")
        f.start()
        got = Counter(Server(f.url, strict=True).stacks(service, maxNodes=1 << 20))
        wrong = {n: got.get(n) for n in acked if got.get(n) != 1 + int(n.split("_")[1])}
        assert not wrong, "acknowledged, but lost or doubled: %s" % wrong
        strange = {n: v for n, v in got.items() if n != "total" and (n not in tried or v != 1 + int(n.split("_")[1]))}
        assert not strange, "in the answer, but not as sent: %s" % strange
