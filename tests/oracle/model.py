"""The brute-force side of the oracle: a list of what was pushed, and every answer computed from it sample by sample.

A pushed profile is normalised as the product promises: samples with only zeros vanish, negative values count, string sample
labels become series labels unless the profile has the name already, numeric ones are dropped, empty label values mean no
label. A sample without frames is the node [unknown] below the root. span_id and trace_id of a sample are no labels: what a
row has of one (span, trace) is its part of it.
"""
import re
from collections import Counter, defaultdict


class Sample:
    __slots__ = ("stack", "values", "labels")

    def __init__(self, stack, values, labels):
        self.stack, self.values, self.labels = stack, values, labels


class Row:
    """One series of one profile: labels as stored, time, {stack: value}, {(span, trace): {stack: value}}."""
    __slots__ = ("labels", "time_ns", "stacks", "parts", "tenant")

    def __init__(self, labels, time_ns, stacks, parts, tenant):
        self.labels, self.time_ns, self.stacks, self.parts, self.tenant = labels, time_ns, stacks, parts, tenant

    def total(self, site=()):
        return sum(v for k, v in self.stacks.items() if under(k, site))

    def spans(self):
        """[(span, trace, value)] of the spans that it has anything of."""
        return [(span, trace, sum(part.values())) for (span, trace), part in self.parts.items() if span and part]


ORIGIN = ("span_id", "trace_id")
UNKNOWN = "[unknown]"


def under(stack, site):
    """Does a stack begin, from the root, with the names of a call site?"""
    return not site or stack.split(";")[:len(site)] == list(site)


def rows_of(labels, types, period_type, time_ns, samples, tenant=None):
    groups = defaultdict(lambda: [(Counter(), defaultdict(Counter)) for _ in types])
    for s in samples:
        if not any(s.values):
            continue
        stack = s.stack or UNKNOWN
        own = {k: v for k, v in s.labels.items() if isinstance(v, str) and v and k not in ORIGIN}
        origin = tuple(s.labels.get(k) for k in ORIGIN)
        merged = {**own, **{k: v for k, v in labels.items() if v}}
        columns = groups[tuple(sorted(merged.items()))]
        for (column, parts), value in zip(columns, s.values):
            column[stack] += value
            if any(origin) and value:
                parts[origin][stack] += value
    rows = []
    for key, columns in groups.items():
        base = dict(key)
        for (kind, unit), (stacks, parts) in zip(types, columns):
            if not any(stacks.values()):
                continue
            name = base["__name__"]
            stored = {**base, "__type__": kind, "__unit__": unit, "__service_name__": base["service_name"],
                      "__profile_type__": ":".join((name, kind, unit, *period_type))}
            if period_type[0]:
                stored["__period_type__"] = period_type[0]
            if period_type[1]:
                stored["__period_unit__"] = period_type[1]
            rows.append(Row(stored, time_ns, {k: v for k, v in stacks.items() if v}, parts, tenant))
    return rows


OPS = {
    "=": lambda have, want: have == want, "!=": lambda have, want: have != want,
    "=~": lambda have, want: re.fullmatch(want, have, re.S) is not None,
    "!~": lambda have, want: re.fullmatch(want, have, re.S) is None,
}


class Model:
    def __init__(self):
        self.rows = []
        self.tenants = None  # those that are asked; None: all

    def select(self, matchers, start_ms, end_ms):
        """Rows with start <= time <= end (ms taken exactly)."""
        low = start_ms * 10**6
        for row in self.rows:
            if self.tenants is not None and row.tenant not in self.tenants:
                continue
            if low <= row.time_ns <= end_ms * 10**6 and all(OPS[op](row.labels.get(k, ""), v) for k, op, v in matchers):
                yield row

    def tree(self, *query, spans=None, traces=None, site=()):
        """{stack: self} of all frames below the root; of these spans or traces only, or of stacks under a call site."""
        total = Counter()
        for row in self.select(*query):
            if spans is None and traces is None:
                sources = [row.stacks]
            else:
                sources = [part for (span, trace), part in row.parts.items() if span in (spans or ()) or trace in (traces or ())]
            for stacks in sources:
                for stack, value in stacks.items():
                    if under(stack, site):
                        total[stack] += value
        return {stack: value for stack, value in total.items() if value}

    def points(self, matchers, start_ms, end_ms, step_ms, group_by):
        """{group: {t_ms: rows}}; point t_k = start + k * step has what of the range lies in (t_k - step, t_k], the first one the whole
        starting ms; the last one may be later than the end."""
        out = defaultdict(lambda: defaultdict(list))
        for row in self.select(matchers, start_ms, end_ms):
            out[group_of(row, group_by)][start_ms + point_of(row, start_ms, step_ms) * step_ms].append(row)
        return out

    def spread(self, matchers, start_ms, end_ms, step_ms, group_by):
        """{group: {t_ms: value}} without zeros, of profiles that count in all steps [t_k - step, t_k) that they cover. What is later than
        the last point is in that one."""
        out = defaultdict(lambda: defaultdict(int))
        start, step = start_ms * 10**6, step_ms * 10**6
        last = -(-(end_ms - start_ms) // step_ms)
        for row in self.select(matchers, start_ms, end_ms):
            duration, points = duration_of(row.time_ns), out[group_of(row, group_by)]
            first = min((row.time_ns - start) // step + 1, last)
            if not duration or min((row.time_ns + duration - 1 - start) // step + 1, last) - first >= 4096:
                points[start_ms + min(point_of(row, start_ms, step_ms), last) * step_ms] += row.total()
                continue
            borders, k = [row.time_ns], first
            while k < last and start + k * step < row.time_ns + duration:
                borders.append(start + k * step)
                k += 1
            borders.append(row.time_ns + duration)
            for i, share in enumerate(shares_of(row.total(), [b - a for a, b in zip(borders, borders[1:])])):
                points[start_ms + (first + i) * step_ms] += share
        kept = {g: {t: v for t, v in points.items() if v} for g, points in out.items()}
        return {g: points for g, points in kept.items() if points}

    def series(self, matchers, start_ms, end_ms, step_ms, group_by, site=(), average=False, limit=0):
        """[(group, [(t_ms, value)])] as answered: largest sum first, then by labels."""
        out = []
        for group, points in self.points(matchers, start_ms, end_ms, step_ms, group_by).items():
            values = [(t, float(sum(r.total(site) for r in rows)) / (len(rows) if average else 1)) for t, rows in sorted(points.items())]
            out.append((group, values))
        out.sort(key=lambda row: (-ordered_sum(v for _, v in row[1]), row[0]))
        return out[:limit] if limit else out

    def heat(self, matchers, start_ms, end_ms, step_ms, group_by, spans=False):
        """(lower bounds, {group: {t_ms: {bucket: [(value, row, span, trace)]}}})"""
        found = []
        for row in self.select(matchers, start_ms, end_ms):
            values = row.spans() if spans else [(None, None, row.total())]
            found += [(value, row, span, trace) for span, trace, value in values]
        if not found:
            return [], {}
        low, width = min(f[0] for f in found), max(f[0] for f in found) - min(f[0] for f in found)
        bounds = [low + int(i * (float(max(width, 1)) / 20)) for i in range(20)]
        slots = (end_ms - start_ms) // step_ms
        out = defaultdict(lambda: defaultdict(lambda: defaultdict(list)))
        for f in found:
            k = min(point_of(f[1], start_ms, step_ms), slots)
            bucket = max(i for i, b in enumerate(bounds) if b <= f[0])
            out[group_of(f[1], group_by)][start_ms + k * step_ms][bucket].append(f)
        return bounds, out

    def label_sets(self, names, *query):
        return sorted({tuple(sorted((n, row.labels[n]) for n in names if n in row.labels)) for row in self.select(*query)})

    def values(self, name, *query):
        return sorted({row.labels[name] for row in self.select(*query) if name in row.labels})

    def names(self, *query):
        return sorted({n for row in self.select(*query) for n in row.labels}, key=lambda n: n.encode())


def point_of(row, start_ms, step_ms):
    """The number of the point, by ms at the start and by ns from then on."""
    if row.time_ns // 10**6 <= start_ms:
        return 0
    return -((start_ms * 10**6 - row.time_ns) // (step_ms * 10**6))


def duration_of(time_ns):
    """What a profile says that it covers, which the oracle knows by its time: nothing, less than a step, or more."""
    return (0, 0, 10**9, 15 * 10**9, 60 * 10**9 + 1, 3600 * 10**9)[time_ns // 10**9 % 6]


def shares_of(value, parts):
    """A whole number in proportion to parts, the odd units to the largest remainders, of equal ones to the first."""
    sign, whole = (-1 if value < 0 else 1), sum(parts)
    shares = [abs(value) * p // whole for p in parts]
    order = sorted(range(len(parts)), key=lambda i: (-(abs(value) * parts[i] % whole), i))
    for i in order[:abs(value) - sum(shares)]:
        shares[i] += 1
    return [sign * n for n in shares]


def group_of(row, group_by):
    return tuple((g, row.labels[g]) for g in group_by if g in row.labels)


def ordered_sum(values):
    """Added one by one, as a double."""
    total = 0.0
    for v in values:
        total += v
    return total
