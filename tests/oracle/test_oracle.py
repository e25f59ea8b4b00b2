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

UTF8 = {"Accept": "*/*; allow-utf8-labelnames=true"}
SPANS = ["00000bac2a5ab0c7", "0123456789abcdef", "ffffffffffffffff"]
TRACES = ["0123456789abcdef0123456789abcdef", "f" * 32]
SEED = int(os.environ.get("ORACLE_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
ROUNDS = int(os.environ.get("ORACLE_ROUNDS", "4"))
TYPES = [
    ("process_cpu", (("samples", "count"), ("cpu", "nanoseconds")), ("cpu", "nanoseconds")),
    ("memory", (("alloc_objects", "count"), ("alloc_space", "bytes")), ("space", "bytes")),
    ("wall", (("wall", "nanoseconds"),), ("", "")),
]
FUNCTIONS = ["main", "main.run", "runtime.gc", "größe", "函数", "a b", "x;y".replace(";", ":"), "net/http.(*conn).serve", "other", "total", "f" * 200]


def labels_of(row):
    return tuple((p["name"], p["value"]) for p in row.get("labels", []))


class Fleet:
    """Pushes random profiles to a server and remembers each acknowledged one."""

    def __init__(self, rng, server, mark, tenants=None):
        self.rng, self.server, self.model, self.mark, self.tenants = rng, server, Model(), mark, tenants
        self.all = server
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
            if rng.random() < 0.3:
                own["span_id"] = rng.choice(SPANS)
            if rng.random() < 0.2:
                own["trace_id"] = rng.choice(TRACES)
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
            tenant = self.tenants and self.rng.choice(self.tenants)
            (self.all.as_tenant(tenant) if tenant else self.all).push_series(series).expect(200)
            for row in batch:
                self.model.rows += rows_of(*row, tenant)

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
        rng = self.rng
        if self.tenants:
            self.model.tenants = rng.sample(self.tenants, rng.randrange(1, len(self.tenants) + 1))
            self.server = self.all.as_tenant("|".join(self.model.tenants))
        kind = rng.choice([self.check_tree, self.check_tree, self.check_tree_bytes, self.check_truncated, self.check_pprof, self.check_call_site, self.check_spans,
                           self.check_series, self.check_series, self.check_exemplars, self.check_exemplars, self.check_heat, self.check_heat, self.check_diff,
                           self.check_labels, self.check_discovery, self.check_stats])
        kind(self.matchers(), *self.range())

    def steps(self, start, end):
        """A range and a step; often with a border of a point on a profile, or a ms beside it."""
        rng = self.rng
        step = rng.choice([1, 7, 1000, 15_000, 60_000, 3_600_000])
        if (end - start) // step > 10_000:
            step = 15_000
        if rng.random() < 0.5:
            at = rng.choice(self.model.rows).time_ns // 10**6 + rng.choice([-1, 0, 1])
            start = at - rng.randrange(-1, 4) * step
            end = start + rng.randrange(0, 20) * step + rng.choice([0, 0, 1, step // 2])
        return start, end, step

    def of_type(self, matchers):
        kind = self.type_id()
        return kind, matchers + [("__profile_type__", "=", kind)]

    def group_by(self):
        return self.rng.sample(["service_name", "region", "pod", "endpoint", "k8s.node"], self.rng.randrange(3))

    def site(self):
        row = self.rng.choice(self.model.rows)
        names = self.rng.choice(list(row.stacks) or [""]).split(";")
        return [n for n in names[:self.rng.randrange(1, 4)] if n] or ["main"]

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

    def flame_equals(self, graph, want):
        if "total" not in {s.split(";")[0] for s in want}:
            self.expect({k: v[0] for k, v in flame(graph).items() if v[0] and k != "total"}, want)
        self.expect(int(graph.get("total", 0)), sum(want.values()))

    def merged(self, kind, matchers, start, end, **more):
        return self.ask("SelectMergeStacktraces", matchers, start, end, profileTypeID=kind, maxNodes=1 << 20, **more)["flamegraph"]

    def check_call_site(self, matchers, start, end):
        (kind, typed), site = self.of_type(matchers), self.site()
        graph = self.merged(kind, matchers, start, end, stackTraceSelector={"callSite": [{"name": n} for n in site]})
        self.flame_equals(graph, self.model.tree(typed, start, end, site=site))

    def check_spans(self, matchers, start, end):
        kind, typed = self.of_type(matchers)
        if self.rng.random() < 0.3:
            traces = self.rng.sample(TRACES, self.rng.randrange(1, 3))
            return self.flame_equals(self.merged(kind, matchers, start, end, traceIdSelector=traces), self.model.tree(typed, start, end, traces=traces))
        spans = self.rng.sample(SPANS, self.rng.randrange(1, 3))
        want = self.model.tree(typed, start, end, spans=spans)
        self.flame_equals(self.merged(kind, matchers, start, end, spanSelector=spans), want)
        old = self.ask("SelectMergeSpanProfile", matchers, start, end, profileTypeID=kind, maxNodes=1 << 20, spanSelector=spans)["flamegraph"]
        self.flame_equals(old, want)

    def check_series(self, matchers, start, end):
        start, end, step = self.steps(start, end)
        (kind, typed), group_by, rng = self.of_type(matchers), self.group_by(), self.rng
        more, model = {}, {}
        if rng.random() < 0.4:
            model["site"] = self.site()
            more["stackTraceSelector"] = {"callSite": [{"name": n} for n in model["site"]]}
        if rng.random() < 0.4:
            model["average"], more["aggregation"] = True, "TIME_SERIES_AGGREGATION_TYPE_AVERAGE"
        if rng.random() < 0.4:
            model["limit"] = more["limit"] = rng.randrange(1, 4)
        answer = self.ask("SelectSeries", matchers, start, end, profileTypeID=kind, step=step / 1000, groupBy=group_by, **more)
        got = [(labels_of(row), [(int(p["timestamp"]), float(p.get("value", 0))) for p in row["points"]]) for row in answer.get("series", [])]
        self.expect(got, self.model.series(typed, start, end, step, group_by, **model))

    def check_exemplar(self, got, found, group_by, spans, kind):
        """An exemplar is the largest of [(value, row, span, trace)], then the earliest; ids are the server's own."""
        largest = max(f[0] for f in found)
        first = min(f[1].time_ns for f in found if f[0] == largest)
        best = [f for f in found if f[0] == largest and f[1].time_ns == first]
        self.expect((int(got.get("value", 0)), int(got["timestamp"])), (largest, first // 10**6))
        shown = lambda row: tuple(sorted((k, v) for k, v in row.labels.items() if k not in group_by))
        shows = (tuple(sorted(labels_of(got))), got.get("spanId"), got.get("traceId"))
        assert shows in [(shown(row), span, trace) for _, row, span, trace in best], "seed %d: %s%s" % (SEED, best, self.server.last)
        if spans:
            return
        row = next(f[1] for f in best if shown(f[1]) == shows[0])
        if sum(f[1].labels == row.labels for f in best) > 1:
            return
        graph = self.merged(kind, [], row.time_ns // 10**6, row.time_ns // 10**6 + 1, profileIdSelector=[got["profileId"]])
        self.flame_equals(graph, {k: v for k, v in row.stacks.items() if k})

    def check_exemplars(self, matchers, start, end):
        start, end, step = self.steps(start, end)
        (kind, typed), group_by, spans = self.of_type(matchers), self.group_by(), self.rng.random() < 0.4
        answer = self.ask("SelectSeries", matchers, start, end, profileTypeID=kind, step=step / 1000, groupBy=group_by,
                          exemplarType="EXEMPLAR_TYPE_" + ("SPAN" if spans else "INDIVIDUAL"))
        want, checked = self.model.points(typed, start, end, step, group_by), 0
        for row in answer.get("series", []):
            for p in row["points"]:
                rows = want[labels_of(row)][int(p["timestamp"])]
                found = [(v, r, s, t) for r in rows for s, t, v in (r.spans() if spans else [(None, None, r.total())])]
                self.expect(len(p.get("exemplars", [])), 1 if found else 0)
                if found and checked < 5:
                    checked += 1
                    self.check_exemplar(p["exemplars"][0], found, group_by, spans, kind)
        self.expect(sum(len(row["points"]) for row in answer.get("series", [])), sum(map(len, want.values())))

    def check_heat(self, matchers, start, end):
        start, end, step = self.steps(start, end)
        end = max(end, start + 1)
        (kind, typed), group_by, spans = self.of_type(matchers), self.group_by(), self.rng.random() < 0.4
        limit = self.rng.choice([0, 0, 1, 2])
        name = "SPAN" if spans else "INDIVIDUAL"
        answer = self.ask("SelectHeatmap", matchers, start, end, profileTypeID=kind, step=step / 1000, groupBy=group_by, limit=limit,
                          queryType="HEATMAP_QUERY_TYPE_" + name, exemplarType="EXEMPLAR_TYPE_" + name)
        bounds, want = self.model.heat(typed, start, end, step, group_by, spans)
        got, checked = {}, 0
        for row in answer.get("series", []):
            slots = got[labels_of(row)] = {}
            for slot in row["slots"]:
                self.expect(slot["yMin"], [float(b) for b in bounds])
                cells = want[labels_of(row)][int(slot["timestamp"])]
                slots[int(slot["timestamp"])] = {i: n for i, n in enumerate(slot["counts"]) if n}
                self.expect(len(slot["exemplars"]), len(cells))
                for (_, found), exemplar in zip(sorted(cells.items()), slot["exemplars"]):
                    checked += 1
                    if checked <= 5:
                        self.check_exemplar(exemplar, found, group_by, spans, kind)
        counts = {g: {t: {b: len(f) for b, f in cells.items()} for t, cells in slots.items()} for g, slots in want.items()}
        if limit:
            size = {g: sum(n for cells in slots.values() for n in cells.values()) for g, slots in counts.items()}
            counts = {g: counts[g] for g in sorted(counts, key=lambda g: (-size[g], sorted(g)))[:limit]}
        self.expect(got, counts)

    def check_diff(self, matchers, start, end):
        kind, sides, wants = self.type_id(), [], []
        for query in ((matchers, start, end), (self.matchers(), *self.range())):
            sides.append({"profileTypeID": kind, "labelSelector": self.selector(query[0]), "start": query[1], "end": query[2], "maxNodes": 1 << 20})
            wants.append(self.model.tree(query[0] + [("__profile_type__", "=", kind)], *query[1:]))
        graph = self.server.ok("Diff", left=sides[0], right=sides[1])["flamegraph"]
        self.expect((int(graph.get("leftTicks", 0)), int(graph.get("rightTicks", 0))), tuple(sum(w.values()) for w in wants))
        if any(s.split(";")[0] == "total" for w in wants for s in w):
            return
        got = {k: (v[0], v[2]) for k, v in flame(graph, 7).items() if k != "total" and (v[0] or v[2])}
        self.expect(got, {k: (wants[0].get(k, 0), wants[1].get(k, 0)) for k in {**wants[0], **wants[1]}})

    def check_discovery(self, matchers, start, end):
        selector = [self.selector(matchers)]
        names = self.model.names(matchers, start, end)
        self.expect(self.server.ok("LabelNames", UTF8, matchers=selector, start=start, end=end).get("names", []), names)
        plain = [n for n in names if n.replace("_", "a").isalnum() and n.isascii()]
        self.expect(self.server.ok("LabelNames", matchers=selector, start=start, end=end).get("names", []), plain)
        types = [t["ID"] for t in self.server.ok("ProfileTypes", start=start, end=end).get("profileTypes", [])]
        self.expect(types, self.model.values("__profile_type__", [], start, end))

    def check_stats(self, matchers, start, end):
        kind, typed = self.of_type(matchers)
        query = kind + self.selector(matchers)
        rows = list(self.model.select(typed, start, end))
        answer = self.server.ok("AnalyzeQuery", query=query, start=start, end=end)
        got = {k: int(v) for k, v in answer.get("queryScopes", [{}])[0].items() if k in ("profileCount", "sampleCount", "seriesCount")}
        series = len({(r.tenant, tuple(sorted(r.labels.items()))) for r in rows})
        want = {"profileCount": len(rows), "sampleCount": sum(len(r.stacks) for r in rows), "seriesCount": series} if rows else {}
        self.expect(got.get("profileCount"), want.get("profileCount"))
        # Those of rows that went to the store, as an ingester's do when it starts again, are not counted (querier/block_stats.c).
        assert got.get("sampleCount", 0) <= want.get("sampleCount", 0), self.server.last
        assert got.get("seriesCount", 0) >= want.get("seriesCount", 0), self.server.last  # a series may lie at several ingesters
        if self.model.tenants is None or len(self.model.tenants) == 1:
            times = [r.time_ns for r in self.model.select([], -(1 << 40), 1 << 50)]
            stats = self.server.ok("GetProfileStats")
            want = (bool(times), min(times) // 10**6, -(-max(times) // 10**6)) if times else (False, 0, 0)
            self.expect((stats.get("dataIngested", False), int(stats.get("oldestProfileTime", 0)), int(stats.get("newestProfileTime", 0))), want)

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
        fleet = Fleet(rng, f.server(), unique("oracle"))
        for round_ in range(ROUNDS):
            fleet.push(25)
            for _ in range(40):
                fleet.check_one()
            if round_ % 2 == 0:
                f.kill()
                f.start()
                fleet.all = fleet.server = f.server()
                for _ in range(20):
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


def test_answers_of_several_tenants_equal_brute_force():
    rng = random.Random(SEED + 2)
    print("seed", SEED)
    with Flametree("--auth.multitenancy_enabled", "true") as f:
        fleet = Fleet(rng, f.server(), unique("oracle"), ["ta", "tb", "tc"])
        for _ in range(ROUNDS):
            fleet.push(25)
            for _ in range(40):
                fleet.check_one()


def test_answers_of_several_ingesters_equal_brute_force():
    rng = random.Random(SEED + 3)
    print("seed", SEED)
    with Cluster() as f:
        fleet = Fleet(rng, f.server(), unique("oracle"))
        for _ in range(ROUNDS):
            fleet.push(25)
            for _ in range(40):
                fleet.check_one()


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
