"""The brute-force side of the oracle: a list of what was pushed, and every answer computed from it sample by sample.

A pushed profile is normalised as the product promises: samples with a negative value or only zeros vanish, string sample
labels become series labels unless the profile has the name already, numeric ones are dropped, empty label values mean no
label. A sample without frames counts in totals and is in no tree.
"""
import re
from collections import Counter, defaultdict


class Sample:
    __slots__ = ("stack", "values", "labels")

    def __init__(self, stack, values, labels):
        self.stack, self.values, self.labels = stack, values, labels


class Row:
    """One series of one profile: labels as stored, time, {stack: value}."""
    __slots__ = ("labels", "time_ns", "stacks")

    def __init__(self, labels, time_ns, stacks):
        self.labels, self.time_ns, self.stacks = labels, time_ns, stacks


def rows_of(labels, types, period_type, time_ns, samples):
    groups = defaultdict(lambda: [Counter() for _ in types])
    for s in samples:
        if min(s.values) < 0 or not any(s.values):
            continue
        own = {k: v for k, v in s.labels.items() if isinstance(v, str) and v}
        merged = {**own, **{k: v for k, v in labels.items() if v}}
        columns = groups[tuple(sorted(merged.items()))]
        for column, value in zip(columns, s.values):
            column[s.stack] += value
    rows = []
    for key, columns in groups.items():
        base = dict(key)
        for (kind, unit), stacks in zip(types, columns):
            if not any(stacks.values()):
                continue
            name = base["__name__"]
            stored = {**base, "__type__": kind, "__unit__": unit, "__service_name__": base["service_name"],
                      "__profile_type__": ":".join((name, kind, unit, *period_type))}
            if period_type[0]:
                stored["__period_type__"] = period_type[0]
            if period_type[1]:
                stored["__period_unit__"] = period_type[1]
            rows.append(Row(stored, time_ns, {k: v for k, v in stacks.items() if v}))
    return rows


OPS = {
    "=": lambda have, want: have == want, "!=": lambda have, want: have != want,
    "=~": lambda have, want: re.fullmatch(want, have, re.S) is not None,
    "!~": lambda have, want: re.fullmatch(want, have, re.S) is None,
}


class Model:
    def __init__(self):
        self.rows = []

    def select(self, matchers, start_ms, end_ms, first_ns=None):
        """Rows with start <= time <= end (ms taken exactly); first_ns replaces the start."""
        low = start_ms * 10**6 if first_ns is None else first_ns
        for row in self.rows:
            if low <= row.time_ns <= end_ms * 10**6 and all(OPS[op](row.labels.get(k, ""), v) for k, op, v in matchers):
                yield row

    def tree(self, *query):
        """{stack: self} of all frames below the root."""
        total = Counter()
        for row in self.select(*query):
            for stack, value in row.stacks.items():
                if stack:
                    total[stack] += value
        return dict(total)

    def series(self, matchers, start_ms, end_ms, step_ms, group_by):
        """{group: {t_ms: sum}}; point t_k = start + k * step covers (t_k - step, t_k], the first one also its left end."""
        out = defaultdict(Counter)
        last = start_ms + (end_ms - start_ms) // step_ms * step_ms
        for row in self.select(matchers, start_ms, last, (start_ms - step_ms) * 10**6):
            k = max(0, -((start_ms * 10**6 - row.time_ns) // (step_ms * 10**6)))
            group = tuple((g, row.labels[g]) for g in group_by if g in row.labels)
            out[group][start_ms + k * step_ms] += sum(row.stacks.values())
        return {g: dict(points) for g, points in out.items()}

    def label_sets(self, names, *query):
        return sorted({tuple(sorted((n, row.labels[n]) for n in names if n in row.labels)) for row in self.select(*query)})

    def values(self, name, *query):
        return sorted({row.labels[name] for row in self.select(*query) if name in row.labels})
