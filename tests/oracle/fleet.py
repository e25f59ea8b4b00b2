"""Fleets that push random profiles, remember each acknowledged one and ask random questions, whose answers must equal brute
force over what was pushed (model.py). `Fleet` has twenty minutes, `Days` more than a day, `Month` all that may be pushed.

The seed is printed; ORACLE_SEED repeats a run, ORACLE_ROUNDS makes it longer.
"""
import base64
import json
import math
import os
import random
import re
import signal
import time

import totals
from client import PUSH, QUERIER, Pprof, Server, flame, pb, read_pprof, tree_bytes
from model import UNKNOWN, Model, Sample, duration_of, rows_of

HOUR_NS, MS = 3600 * 10**9, 10**6
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


LATE = {"FLAMETREE_FAULTS": "append.ack.before=delay:6000@3"}  # an ingester's third acknowledgement comes later than anybody waits
AWAY = {"env_of": {"ingester-%d" % i: LATE for i in (1, 2, 3)}}


class Patient(Server):
    """A client that sends a push again, the same bytes with the same ids, when no ingester took it in time: ingesters get a second here,
    which is not always enough on a busy machine."""

    def __init__(self, server):
        super().__init__(server.query_url, server.push_url, server.query_url, server.tenant, server.strict)

    def as_tenant(self, tenant):
        return Patient(super().as_tenant(tenant))

    def call(self, method, path, body=None, headers=None, push=False):
        deadline = time.monotonic() + 60
        while True:
            reply = super().call(method, path, body, headers, push)
            if not push or reply.status not in (429, 503, 504) or time.monotonic() > deadline:
                return reply
            time.sleep(0.1)


class Fleet:
    """Pushes random profiles to a server and remembers each acknowledged one."""

    def __init__(self, rng, server, mark, tenants=None):
        self.rng, self.model, self.mark, self.tenants = rng, Model(), mark, tenants
        self.ask_at(server)
        self.services = ["%s-%d" % (mark, i) for i in range(3)]
        self.base_ns = time.time_ns() - 20 * 60 * 10**9

    def ask_at(self, server):
        """From now on; after a restart its address is another."""
        self.all = self.server = server if isinstance(server, Patient) else Patient(server)

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
                p = Pprof(*[(s.stack, s.values, s.labels) for s in samples], types=types, time_ns=time_ns, duration_ns=duration_of(time_ns),
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
                           self.check_labels, self.check_discovery, self.check_stats, self.check_totals])
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
        typed = matchers + [("__profile_type__", "=", kind)]
        profiles = int(self.server.last.headers["Flametree-Profiles"])
        self.flame_equals(graph, self.model.tree(typed, start, end))
        self.expect(profiles, len(list(self.model.select(typed, start, end))))

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
        body = pb((1, kind), (2, self.selector(matchers)), (3, start), (4, end))
        reply = self.server.call("POST", "/" + QUERIER + "SelectMergeProfile", body, {"Content-Type": "application/proto"}).expect(200)
        got = {k or UNKNOWN: v[0] for k, v in read_pprof(reply.body)["stacks"].items()} if reply.body else {}
        self.expect(got, self.model.tree(matchers + [("__profile_type__", "=", kind)], start, end))

    def flame_equals(self, graph, want):
        if min(want.values(), default=0) < 0:  # not all nodes have bars of their own then, but each value is in one
            self.expect(sum(v[0] for v in flame(graph).values()), sum(want.values()))
        elif "total" not in {s.split(";")[0] for s in want}:
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
        if not model:
            self.check_spread(kind, matchers, start, end, step, group_by)

    def check_spread(self, kind, matchers, start, end, step, group_by):
        """By duration the same values lie elsewhere: where, the model says; here, that they add up to what the graph has."""
        want = self.model.spread(matchers + [("__profile_type__", "=", kind)], start, end, step, group_by)
        answer = self.ask("SelectSeries", matchers, start, end, profileTypeID=kind, step=step / 1000, groupBy=group_by, spread=True)
        said = answer["spread"] if answer else "duration"
        self.expect(said in ("duration", "partly"), True)
        got = {labels_of(row): {int(p["timestamp"]): float(p["value"]) for p in row["points"] if p.get("value")} for row in answer.get("series", [])}
        got = {group: points for group, points in got.items() if points}
        if said == "duration":
            return self.expect(got, {group: {t: float(v) for t, v in points.items()} for group, points in want.items()})
        self.expect(got.keys(), want.keys())
        for group, points in got.items():  # doubles, of which each may be half a unit off
            assert math.isclose(sum(points.values()), sum(want[group].values()), rel_tol=1e-12), (SEED, group, points, want[group])

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
        self.flame_equals(graph, {k: v for k, v in row.stacks.items() if v})

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
        if any(s.split(";")[0] == "total" or v < 0 for w in wants for s, v in w.items()):
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
        # Those of rows that went to the store, as an ingester's do when it starts again, are not counted (querier/block/block_stats.c).
        assert got.get("sampleCount", 0) <= want.get("sampleCount", 0), self.server.last
        assert got.get("seriesCount", 0) >= want.get("seriesCount", 0), self.server.last  # a series may lie at several ingesters
        self.check_profile_stats()

    def check_profile_stats(self):
        if self.model.tenants is not None and len(self.model.tenants) != 1:
            return
        times = [r.time_ns for r in self.model.select([], -(1 << 40), 1 << 50)]
        stats = self.server.ok("GetProfileStats")
        want = (bool(times), min(times) // MS, -(-max(times) // MS)) if times else (False, 0, 0)
        self.expect((stats.get("dataIngested", False), int(stats.get("oldestProfileTime", 0)), int(stats.get("newestProfileTime", 0))), want)

    def check_totals(self, matchers, start, end):
        """All ways to ask say the same; now and then the client asks too."""
        start, end, step = self.steps(start, end)
        (kind, typed), client = self.of_type(matchers), self.rng.random() < 0.1
        q = totals.Question(kind, self.selector(matchers), start, max(start, end), step, self.group_by())
        rows = list(self.model.select(typed, q.start_ms, q.end_ms))
        got = totals.totals(self.server, q, totals.NATIVE + totals.CLIENT * client)
        wrong = totals.law(got, q, sum(row.total() for row in rows), len(rows))
        assert wrong is None, "seed %d\n%s" % (SEED, wrong)

    def check_labels(self, matchers, start, end):
        name = self.rng.choice(["service_name", "pod", "endpoint", "__profile_type__", "k8s.node"])
        selector = [self.selector(matchers)]
        got = self.server.ok("LabelValues", name=name, matchers=selector, start=start, end=end).get("names", [])
        self.expect(got, self.model.values(name, matchers, start, end))
        names = ["service_name", "region", "endpoint"]
        answer = self.server.ok("Series", matchers=selector, labelNames=names, start=start, end=end).get("labelsSet", [])
        sets = sorted(tuple(sorted((p["name"], p["value"]) for p in row.get("labels", []))) for row in answer)
        self.expect(sets, self.model.label_sets(names, matchers, start, end))


def push_while_one_is_away(fleet, cluster, stops):
    """One ingester hangs (`stops`) or is dead while others get what is pushed. Who hangs stores what it had received when it goes on."""
    victim = fleet.rng.choice(cluster.ingesters())
    if stops:
        victim.signal(signal.SIGSTOP)
        fleet.push(6)
        victim.signal(signal.SIGCONT)
    else:
        victim.kill()
        fleet.push(8)
        victim.start()


def disturbed(fleet, cluster):
    """Yields after each of ROUNDS disturbances, and of more if no query has met a row that lies at two ingesters by then. (One is for sure if the
    cluster is one of AWAY and the distributor does not stand still for seconds just then.)"""
    met, left = False, ROUNDS
    while left > 0 or not met:
        assert left > -20, "no row was in two ingesters"
        fleet.push(8)
        push_while_one_is_away(fleet, cluster, left <= 0 or fleet.rng.random() < 0.7)
        yield left > 0
        met = met or cluster["querier"].metric("flametree_querier_loose_rows_total") > 0
        left -= 1


class Watched(Patient):
    """Every answer says that it is exact, and how it came about; pushes are now and then sent again, as they are or much later."""

    def __init__(self, server, rng):
        super().__init__(server)
        self.rng, self.sent, self.plans = rng, [], {}

    def as_tenant(self, tenant):
        other = Watched(Server(self.query_url, self.push_url, self.query_url, tenant, self.strict), self.rng)
        other.sent, other.plans = self.sent, self.plans
        return other

    def call(self, method, path, body=None, headers=None, push=False):
        if push:
            reply = super().call(method, path, body, headers, push)
            self.sent.append((self.tenant, method, path, body, headers))
            if self.rng.random() < 0.1:
                super().call(method, path, body, headers, push).expect(200)
            return reply
        reply = super().call(method, path, body, {**(headers or {}), "Flametree-Explain": "1"})
        told = reply.headers.get("Flametree-Explain")
        if told:
            # A tree that max_nodes cut says so; its sums are no less exact.
            frames = re.match(r"sent=(\d+); all=(\d+); share=", reply.headers.get("Flametree-Frames") or "sent=0; all=0; share=")
            assert reply.headers["Flametree-Exact"] == ("exact" if frames[1] == frames[2] else "totals"), (dict(reply.headers), reply)
            for line in json.loads(told)["plan"]:
                words = line.split()
                kind = "minus" if words[0] == "minus" else " ".join(words[:2])
                self.plans[kind] = self.plans.get(kind, 0) + 1
        return reply

    def send_again(self, count):
        """Some of what was sent, with the same ids: it counts once."""
        for tenant, method, path, body, headers in self.rng.sample(self.sent, min(count, len(self.sent))):
            Patient(Server(self.query_url, self.push_url, self.query_url, tenant, self.strict)).call(method, path, body, headers, True).expect(200)


class Days(Fleet):
    """Profiles of 30 hours, on borders of slots and beside them as often as anywhere else."""

    hours = 30
    widths = (300 * 10**9, HOUR_NS, HOUR_NS, HOUR_NS, 24 * HOUR_NS)  # of slots, whose borders are taken

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.base_ns = (time.time_ns() // HOUR_NS - self.hours) * HOUR_NS

    def ask_at(self, server):
        super().ask_at(Watched(server, self.rng))

    def border_ns(self):
        rng = self.rng
        width = rng.choice(self.widths)
        borders = range((self.base_ns // width + 1) * width, self.base_ns + self.hours * HOUR_NS + 1, width)
        return rng.choice(borders) if borders else self.base_ns + HOUR_NS

    def time_ns(self):
        rng = self.rng
        if rng.random() < 0.4:
            return self.border_ns() + rng.choice([0, 0, 1, -1, 10**6, -10**6, 500000])
        return self.base_ns + rng.randrange(self.hours * 3600) * 10**9 + rng.choice([0, 1, 10**9 - 1])

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

    def check_all(self):
        self.check_tree([], self.base_ns // MS, (self.base_ns + self.hours * HOUR_NS) // MS)

    def check_whole_day(self):
        """The last day that is over: its sums serve at any time of the day, those of hours only if they save bytes."""
        end = (self.base_ns // HOUR_NS + self.hours) // 24 * 24 * HOUR_NS // MS
        self.check_tree([], end - 86_400_000, end)

    def steps(self, start, end):
        rng = self.rng
        step = rng.choice([15_000, 60_000, 300_000, 3_600_000, 7_200_000, 86_400_000, 7 * 86_400_000])
        if rng.random() < 0.7:
            start -= start % step
        if (end - start) // step > 5_000:
            step = 60_000 if self.hours < 100 else 3_600_000
        return start, max(start, end), step

    def check_stats(self, matchers, start, end):
        """Samples of what is in blocks are not counted, the rest is."""
        kind, typed = self.of_type(matchers)
        rows = list(self.model.select(typed, start, end))
        answer = self.server.ok("AnalyzeQuery", query=kind + self.selector(matchers), start=start, end=end)
        got = answer.get("queryScopes", [{}])[0]
        self.expect(int(got.get("profileCount", 0)), len(rows))
        self.check_profile_stats()


class Month(Days):
    """All that may be pushed: 31 days, but for the hour that has begun and one for the time that the test takes."""

    hours = 31 * 24 - 2
    widths = (300 * 10**9, HOUR_NS, HOUR_NS, 24 * HOUR_NS, 24 * HOUR_NS, 7 * 24 * HOUR_NS, 28 * 24 * HOUR_NS)

    def range(self):
        start, end = super().range()
        if self.rng.random() < 0.1:
            start = end - 390 * 86_400_000  # 400 days with steps that begin before it
        return start, end

    def steps(self, start, end):
        start, end, step = super().steps(start, end)
        return start, end, step if (end - start) // step <= 5_000 else 86_400_000


class Old(Days):
    """Single profiles are kept for hours only: what is older is exact between whole hours or days, or said to be rounded,
    and then lies between brute force over the range and over one that is wider by that much."""

    def ask_at(self, server):
        self.all = self.server = Patient(server)
        self.seen = set()

    def profile(self):
        """Without negative values, or a range that is wider might have less."""
        *head, samples = super().profile()
        for s in samples:
            s.values = [abs(v) for v in s.values]
        return *head, samples

    def bounds(self, start, end):
        """The ranges between which the last answer lies; none if sums of these labels are no longer kept."""
        said, _, seconds = self.server.last.headers["Flametree-Exact"].partition("=")
        self.seen.add(said)
        assert said != "totals", "all frames are asked for"
        if said == "exact":
            return (start, end), (start, end)
        if said == "partial":
            return (end, start), (start, end)
        assert said == "rounded", said
        by = math.ceil(float(seconds) * 1000)
        return (start + 1, end - 1), (start - by, end + by)  # an edge that is a ms beside a border lies on it

    def expect_between(self, got, least, most):
        for name, fits in (("least", all(v <= got.get(k, 0) for k, v in least.items())), ("most", all(v <= most.get(k, 0) for k, v in got.items()))):
            assert fits, "seed %d\nleast: %s\ngot: %s\nmost: %s\n%s wrong%s" % (SEED, least, got, most, name, self.server.last)

    def check_one(self):
        self.rng.choice([self.check_tree, self.check_tree, self.check_series, self.check_labels, self.check_stats])(self.matchers(), *self.range())

    def check_tree(self, matchers, start, end):
        kind, typed = self.of_type(matchers)
        tree = self.ask("SelectMergeStacktraces", matchers, start, end, profileTypeID=kind, maxNodes=1 << 20, format="PROFILE_FORMAT_TREE").get("tree", "")
        least, most = self.bounds(start, end)
        self.expect_between(tree_bytes(base64.b64decode(tree)), self.model.tree(typed, *least), self.model.tree(typed, *most))

    def check_series(self, matchers, start, end):
        """One step, so that only the edges of the range may move."""
        kind, typed = self.of_type(matchers)
        start, group_by = min(start, end - 1000), self.group_by()
        answer = self.ask("SelectSeries", matchers, start, end, profileTypeID=kind, step=(end - start) / 1000 + 1, groupBy=group_by)
        points = {labels_of(row): [float(p.get("value", 0)) for p in row["points"]] for row in answer.get("series", [])}
        # A point is the double that is nearest to its sum; beyond 2^53 that is beside it.
        beside = {group: sum(int(math.ulp(v)) for v in values) for group, values in points.items()}
        least, most = (self.sums(typed, group_by, *r) for r in self.bounds(start, end))
        self.expect_between({group: sum(map(int, values)) for group, values in points.items()},
                            {group: v - beside.get(group, 0) for group, v in least.items()}, {group: v + beside.get(group, 0) for group, v in most.items()})

    def sums(self, typed, group_by, start, end):
        out = {}
        for row in self.model.select(typed, start, end):
            group = tuple((g, row.labels[g]) for g in group_by if g in row.labels)
            out[group] = out.get(group, 0) + row.total()
        return out

    def check_labels(self, matchers, start, end):
        """Also of labels that projections leave out: series are kept as long as days are."""
        name = self.rng.choice(["service_name", "pod", "endpoint", "__profile_type__", "k8s.node"])
        got = self.server.ok("LabelValues", name=name, matchers=[self.selector(matchers)], start=start, end=end).get("names", [])
        least, most = self.bounds(start, end)
        self.expect_between(dict.fromkeys(got, 1), dict.fromkeys(self.model.values(name, matchers, *least), 1), dict.fromkeys(self.model.values(name, matchers, *most), 1))
        names = ["service_name", "region", "endpoint", "pod"]
        answer = self.server.ok("Series", matchers=[self.selector(matchers)], labelNames=names, start=start, end=end).get("labelsSet", [])
        sets = [tuple(sorted((p["name"], p["value"]) for p in row.get("labels", []))) for row in answer]
        least, most = self.bounds(start, end)
        self.expect_between(dict.fromkeys(sets, 1), dict.fromkeys(self.model.label_sets(names, matchers, *least), 1), dict.fromkeys(self.model.label_sets(names, matchers, *most), 1))

    def check_stats(self, matchers, start, end):
        kind, typed = self.of_type(matchers)
        answer = self.server.ok("AnalyzeQuery", query=kind + self.selector(matchers), start=start, end=end)
        got = int(answer.get("queryScopes", [{}])[0].get("profileCount", 0))
        least, most = ({"profiles": len(list(self.model.select(typed, *r)))} for r in self.bounds(start, end))
        self.expect_between({"profiles": got}, least, most)
        self.check_profile_stats()


class OldMonth(Old):
    hours, widths = Month.hours, Month.widths


class Life(Old):
    """Months go by: most profiles are pushed as they are made, some late, and each job of the compactor comes in its time."""

    late_hours = 30 * 24

    def __init__(self, rng, server, mark, clock):
        super().__init__(rng, server, mark)
        self.clock = clock
        self.base_ns = (clock.now_ns() // HOUR_NS - 1) * HOUR_NS
        self.pass_(0)

    def ask_at(self, server):
        seen = getattr(self, "seen", set())
        super().ask_at(server)
        self.seen = seen

    def pass_(self, hours):
        self.clock.pass_(int(hours * HOUR_NS))
        self.now_ns = self.clock.now_ns()
        self.hours = (self.now_ns - self.base_ns) // HOUR_NS

    def within(self, times, hours):
        """One of the times that are not older."""
        while True:
            at = times()
            if self.now_ns - hours * HOUR_NS < at < self.now_ns:
                return at

    def time_ns(self):
        rng = self.rng
        if rng.random() < 0.2:
            return self.within(super().time_ns, self.late_hours)
        return self.now_ns - rng.randrange(1, 6 * HOUR_NS)

    def edge(self):
        if self.rng.random() < 0.3:
            return (self.now_ns - self.rng.randrange(72 * HOUR_NS)) // MS
        return super().edge()
