"""What was pushed, and random questions about it, whose totals must all be that.

    world = World(f, rng)
    world.push(spec, {"pod": "p1"})            # all of it is taken, and what is told is what the file has
    world.check(world.question())              # Broken if a way to ask says something else

A world has a mark of its own, so several can be on one server: a failure is pushed again, smaller, into a new one (shrink.py)."""
import json
import re
import urllib.request
from collections import Counter

from client import UTF8, unique
from flametree import Cluster

import profiles
from totals import CLIENT, NATIVE, Question, law, totals

MS = 10**6
DAY_MS = 86_400_000
STEPS = [1, 7, 999, 15_000, 20_000, 60_000, 90_000, 3_599_999, 3_600_000, 7_000_000, 86_400_000, 3 * 86_400_000 + 1]
MOST_POINTS = 3000
TOLD = re.compile(r'^flametree_distributor_(discarded|mended)_parts_total\{(.*)\} (\d+)$', re.M)


class Broken(AssertionError):
    """The law does not hold; for which question, and whether the client had to ask it."""

    def __init__(self, text, question=None, client=False):
        super().__init__(text)
        self.question, self.client = question, client


class Row:
    """One value of a profile, as a question sees it."""
    __slots__ = ("labels", "type_id", "time_ns", "value", "spec")

    def __init__(self, labels, type_id, time_ns, value, spec):
        self.labels, self.type_id, self.time_ns, self.value, self.spec = labels, type_id, time_ns, value, spec


def told_by(f):
    """{reason: parts} that the server has told as left out or mended since its start."""
    server = f["distributor"] if isinstance(f, Cluster) else f
    with urllib.request.urlopen(server.admin_url + "/metrics", timeout=60) as answer:
        text = answer.read().decode()
    found = Counter()
    for _, labels, n in TOLD.findall(text):
        found[re.search(r'reason="([^"]*)"', labels)[1]] += int(n)
    return found


class World:
    def __init__(self, f, rng):
        self.f, self.rng, self.mark = f, rng, unique("law").replace("-", "")
        self.specs, self.rows, self.plans = [], [], Counter()

    # ---- pushing

    def push(self, spec, labels):
        number = str(len(self.specs))
        own = {"service_name": "%s.%s" % (self.mark, "abc"[len(self.specs) % 3]), "mark": self.mark, "part": number, **labels}
        own["service_name"] = own["service_name"].replace(".", "-")  # what follows a dot is the type of the profile, where text is sent
        self.specs.append((spec, labels))
        before = told_by(self.f)
        reply = profiles.send(self.f.server(), spec, own)
        if reply.status != 200:
            raise Broken("a profile is refused, though its values can be read%s" % reply)
        self.check_told(spec, told_by(self.f) - before)
        ids = self.types_of(number)
        whole = profiles.sums(spec)
        named = {kind: self.named(kind, ids, whole[kind]) for kind in whole}
        for h in profiles.held(spec):
            if h.value and named[h.type, h.unit]:
                self.rows.append(Row({**h.labels, **{k: v for k, v in own.items() if v}}, named[h.type, h.unit], spec["time_ns"], h.value, spec))

    def types_of(self, number):
        at = self.specs[-1][0]["time_ns"] // MS
        rows = self.f.server().ok("Series", UTF8, matchers=['{mark="%s",part="%s"}' % (self.mark, number)], labelNames=["__profile_type__"], start=at - 1, end=at + 1).get("labelsSet", [])
        return {label["value"] for row in rows for label in row.get("labels", [])}

    def named(self, kind, ids, total):
        """The id that the server has given to a type of a file."""
        type, unit = kind
        fits = [i for i in ids if i.split(":")[2] == unit and type in (None, i.split(":")[1])]
        if len(fits) == 1:
            return fits[0]
        if total or fits:
            raise Broken("of the type %s of unit %s the sum is %d, and there are the types %s" % (type, unit, total, sorted(ids)))
        return None

    def check_told(self, spec, got):
        want = profiles.told(spec)
        for reasons, (least, most) in want.items():
            said = sum(got[r] for r in reasons.split("|"))
            if not least <= said <= most:
                raise Broken("%d to %d parts are to be told as %s, and told are %s" % (least, most, reasons, dict(got)))
        more = {r: n for r, n in got.items() if not any(r in reasons.split("|") for reasons in want)}
        if more:
            raise Broken("of what is not in the file is told: %s" % more)

    # ---- asking

    def matchers(self):
        rng, out = self.rng, [("mark", "=", self.mark)]
        for _ in range(rng.choice([0, 0, 1, 2])):
            name = rng.choice(["pod", "region", "service_name", "part", "endpoint", "absent"])
            value = rng.choice([rng.choice(self.rows).labels.get(name, ""), "", "nothing"])
            op = rng.choice(["=", "!=", "=~", "!~"])
            out.append((name, op, rng.choice(["%s|nothing" % re.escape(value).replace("\\", "\\\\"), ".+", ".*"]) if "~" in op else value))
        return out

    def edge(self):
        """On a profile, in its millisecond, beside it, or somewhere."""
        row = self.rng.choice(self.rows)
        return row.time_ns // MS + self.rng.choice([0, 0, 0, 1, -1, 1000, self.rng.randrange(-10**7, 10**7)])

    def question(self):
        rng = self.rng
        start, end = sorted((self.edge(), self.edge()))
        if rng.random() < 0.3:  # all of it
            start, end = min(r.time_ns for r in self.rows) // MS, max(r.time_ns for r in self.rows) // MS + 1
        step = rng.choice([s for s in STEPS + [end - start + 1] if (end - start) // s < MOST_POINTS])
        q = Question(rng.choice(self.rows).type_id, selector(self.matchers_now()), start, end, step, rng.sample(["pod", "region", "part", "endpoint", "service_name", "absent"], rng.randrange(3)))
        q.matchers = self.last_matchers
        return q

    def matchers_now(self):
        self.last_matchers = self.matchers()
        return self.last_matchers

    def wanted(self, q):
        """What may be right: a profile in the millisecond with which the range ends may belong to it or not; all ways agree on that."""
        rows = [r for r in self.rows if r.type_id == q.type_id and q.start_ms * MS <= r.time_ns and all(matches(r.labels.get(k, ""), op, v) for k, op, v in q.matchers)]
        return [sum(r.value for r in rows if r.time_ns < end) for end in (q.end_ms * MS + 1, (q.end_ms + 1) * MS)]

    def check(self, q, client=False, server=None):
        got = totals(Noting(server or self.f.server(), self.plans), q, NATIVE + CLIENT if client else NATIVE)
        wrong = law(got, q, self.wanted(q))
        if wrong:
            raise Broken(wrong, q, client and any("client" in line and "<--" in line for line in wrong.splitlines()))

    def whole(self, type_id):
        """The question for all that there is of a type, in whole days, so that sums of days can answer it."""
        times = [r.time_ns // MS for r in self.rows]
        start, end = min(times) // DAY_MS * DAY_MS, (max(times) // DAY_MS + 1) * DAY_MS
        q = Question(type_id, selector([("mark", "=", self.mark)]), start, end, (end - start) // 7 + 1, ["part"])
        q.matchers = [("mark", "=", self.mark)]
        return q

    def check_each(self, client=False):
        """All that there is, type by type."""
        for type_id in sorted({r.type_id for r in self.rows}):
            self.check(self.whole(type_id), client)


class Noting:
    """A server that notes how its answers came about."""

    def __init__(self, server, plans):
        self.server, self.plans = server, plans
        self.query_url, self.tenant = server.query_url, server.tenant

    @property
    def last(self):
        return self.server.last

    def note(self, reply):
        for line in json.loads(reply.headers.get("Flametree-Explain") or '{"plan":[]}')["plan"]:
            self.plans[" ".join(line.split()[:2])] += 1
        return reply

    def call(self, method, path, body=None, headers=None, push=False):
        return self.note(self.server.call(method, path, body, {**(headers or {}), "Flametree-Explain": "1"}, push))

    def rpc(self, method, message, headers=None, push=False):
        return self.note(self.server.rpc(method, message, {**(headers or {}), "Flametree-Explain": "1"}, push))

    def ok(self, method, **message):
        return self.note(self.server.query(method, {"Flametree-Explain": "1"}, **message)).expect(200).json()


def selector(matchers):
    return "{%s}" % ",".join('"%s"%s"%s"' % (k, op, v.replace('"', '\\"')) for k, op, v in matchers)


def matches(have, op, want):
    if op in ("=", "!="):
        return (have == want) == (op == "=")
    return (re.fullmatch(want.replace("\\\\", "\\"), have, re.S) is not None) == (op == "=~")

