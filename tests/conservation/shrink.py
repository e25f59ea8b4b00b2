"""Makes a failure small: fewer profiles, then fewer samples, frames, labels, types and twists in each, then smaller values, as long as it fails.

    small, why = shrink(specs, fails, tries=80)      # fails(specs) gives the failure's text, or None

Each try is a push into a world of its own (test_conservation.py), so tries are counted."""
import copy
import json


class Tries:
    def __init__(self, fails, count):
        self.fails, self.left = fails, count

    def still(self, specs):
        if self.left <= 0 or not specs or not all(s["samples"] for s, _ in specs):
            return None
        self.left -= 1
        return self.fails(specs)


def fewer(items, keep):
    """A list without what keep() can do without: halves first, then quarters, then one by one."""
    size = max(1, len(items) // 2)
    while items:
        at = 0
        while at < len(items):
            less = items[:at] + items[at + size:]
            if less and keep(less):
                items = less
            else:
                at += size
        if size == 1:
            return items
        size //= 2
    return items


def simpler(spec):
    """Specs with one thing less: each sample's labels, frames, a type, a twist, the duration; then smaller values."""
    for twist in spec["twists"]:
        yield {**spec, "twists": {t: v for t, v in spec["twists"].items() if t != twist}}
    if spec["duration_ns"]:
        yield {**spec, "duration_ns": 0}
    if spec["format"] == "pprof":
        for i in range(len(spec["types"]) * (len(spec["types"]) > 1)):
            yield {**spec, "types": cut(spec["types"], i), "samples": [{**s, "values": cut(s["values"], i)} for s in spec["samples"]]}
    for n, s in enumerate(spec["samples"]):
        if s.get("labels"):
            yield with_sample(spec, n, {**s, "labels": {}})
        frames = len(s["stack"] or ())
        for i in range(frames if frames > 1 or spec["format"] in ("pprof", "perf") else 0):  # text without a frame is something else
            yield with_sample(spec, n, {**s, "stack": cut(s["stack"], i)})
        if spec["format"] in ("pprof", "folded", "speedscope", "heapprofile", "tree", "trie"):
            small = [max(-1, min(1, v)) for v in s["values"]]
            if small != s["values"]:
                yield with_sample(spec, n, {**s, "values": small})


def cut(items, i):
    return items[:i] + items[i + 1:]


def with_sample(spec, n, sample):
    return {**spec, "samples": spec["samples"][:n] + [sample] + spec["samples"][n + 1:]}


def shrink(specs, fails, tries=80):
    """specs: [(spec, labels)]"""
    specs, t = copy.deepcopy(specs), Tries(fails, tries)
    last = {"why": None}

    def keep(candidate):
        why = t.still(candidate)
        if why:
            last["why"] = why
        return why

    specs = fewer(specs, keep)
    for n in range(len(specs)):
        def with_samples(samples):
            return keep(specs[:n] + [({**specs[n][0], "samples": samples}, specs[n][1])] + specs[n + 1:])
        specs[n] = ({**specs[n][0], "samples": fewer(specs[n][0]["samples"], with_samples)}, specs[n][1])
        if specs[n][1] and keep(specs[:n] + [(specs[n][0], {})] + specs[n + 1:]):
            specs[n] = (specs[n][0], {})
    better = True
    while better and t.left > 0:
        better = False
        for n in range(len(specs)):
            for spec in simpler(specs[n][0]):
                if keep(specs[:n] + [(spec, specs[n][1])] + specs[n + 1:]):
                    specs[n], better = (spec, specs[n][1]), True
                    break
    return specs, last["why"]


def shown(specs):
    return "\n".join("%s with labels %s" % (json.dumps(spec, ensure_ascii=False), labels) for spec, labels in specs)
