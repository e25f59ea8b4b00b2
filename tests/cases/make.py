"""Inputs of tests/cases that are made and not kept as files: profiles in which something is odd, and what they hold.

    python3 tests/cases/make.py            # writes the files of the folders beside this one again; they are kept so that a person can push one by hand
"""
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
BOM = b"\xef\xbb\xbf"


def cpuprofile(samples, deltas, start=1000, end=1400):
    """Node 2 is a, 3 is b, 4 is c, all called by the root."""
    names = ["(root)", "a", "b", "c"]
    nodes = [{"id": i + 1, "callFrame": {"functionName": n, "scriptId": "1", "url": "f.js", "lineNumber": i, "columnNumber": 1}} for i, n in enumerate(names)]
    nodes[0]["children"] = [2, 3, 4]
    return json.dumps({"nodes": nodes, "startTime": start, "endTime": end, "samples": samples, "timeDeltas": deltas}).encode()


def times_of(samples, deltas, start=1000, end=1400):
    """{name: ns} of samples in the order of their times, each until the next one, the last one until the end."""
    at, rows = start, []
    for node, delta in zip(samples, deltas):
        at += delta
        rows.append((at, "abc"[node - 2]))
    rows.sort(key=lambda row: row[0])
    out = {}
    for (begin, name), then in zip(rows, [t for t, _ in rows[1:]] + [max(end, rows[-1][0])]):
        out[name] = out.get(name, 0) + 1000 * (then - begin)
    return {name: ns for name, ns in out.items() if ns}


NEGATIVE_DELTAS = {  # samples, deltas, end
    "in-the-middle": ([2, 3, 2, 3], [0, 100, -50, 250], 1400),
    "at-the-start": ([3, 2, 4], [-50, 100, 200], 1300),
    "at-the-end": ([2, 3, 4, 2], [0, 100, 100, -150], 1200),
    "one-after-the-other": ([2, 3, 4, 2, 3], [0, 300, -100, -100, 250], 1500),
    "more-than-there-was": ([2, 3, 4], [0, 100, -100], 1250),
}


def speedscope(*profiles, frames=("m", "a", "b", "c")):
    return json.dumps({"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {"frames": [{"name": f} for f in frames]}, "profiles": list(profiles)}).encode()


def evented(events, end=10, unit="milliseconds", name="p1"):
    """Events are "O 0 1.5": frame 0 opens at 1.5."""
    rows = [e.split() for e in events]
    return {"type": "evented", "name": name, "unit": unit, "startValue": 0, "endValue": end, "events": [{"type": t, "frame": int(f), "at": float(at)} for t, f, at in rows]}


def sampled(unit, samples, weights, name="p1"):
    return {"type": "sampled", "name": name, "unit": unit, "startValue": 0, "endValue": sum(weights), "samples": samples, "weights": weights}


UNCLOSED = {  # events, what is stored in ns
    "two": (["O 0 0", "O 1 1.5"], {"m": 1_500_000, "m;a": 8_500_000}),
    "one": (["O 0 4"], {"m": 6_000_000}),
    "on-several-levels": (["O 0 0", "O 1 1", "O 2 2", "C 2 3", "O 3 5"], {"m": 1_000_000, "m;a": 3_000_000, "m;a;b": 1_000_000, "m;a;c": 5_000_000}),
    "after-others-that-close": (["O 0 0", "C 0 2", "O 1 2", "O 2 2", "C 2 9"], {"m": 2_000_000, "a;b": 7_000_000, "a": 1_000_000}),
    "the-same-frame-twice": (["O 0 0", "O 0 3", "O 0 6"], {"m": 3_000_000, "m;m": 3_000_000, "m;m;m": 4_000_000}),
}
COUNTS = {  # profiles of unit none, {(profile_name, stack): count}
    "two": ([sampled("none", [[0, 1]], [5], "p1"), sampled("none", [[0, 2]], [7], "p2")], {("p1", "m;a"): 5, ("p2", "m;b"): 7}),
    "one": ([sampled("none", [[0, 1], [0]], [5, 2], "p1")], {("p1", "m;a"): 5, ("p1", "m"): 2}),
    "three-of-which-one-has-events": ([sampled("none", [[1]], [1], "x"), evented(["O 0 0", "C 0 4"], 4, "none", "y"), sampled("none", [[2]], [9], "z")],
                                      {("x", "a"): 1, ("y", "m"): 4, ("z", "b"): 9}),
}
FILES = {
    **{"v8-negative-delta/%s.cpuprofile" % k: cpuprofile(s, d, end=end) for k, (s, d, end) in NEGATIVE_DELTAS.items()},
    **{"speedscope-unclosed/%s.speedscope.json" % k: speedscope(evented(e)) for k, (e, _) in UNCLOSED.items()},
    **{"speedscope-unit-none/%s.speedscope.json" % k: speedscope(*p) for k, (p, _) in COUNTS.items()},
    "byte-order-mark/two-lines.folded": BOM + b"m;a 5\nm;b 7\n",
    "byte-order-mark/windows.folded": BOM + b"m;a 5\r\nm;b 7\r\n",
    "byte-order-mark/comment.folded": BOM + b"# of a tool\nm;a 5\nm;b 7\n",
    "byte-order-mark/each.lines": BOM + 5 * b"m;a\n" + 7 * b"m;b\n",
    "byte-order-mark/speedscope.json": BOM + speedscope(sampled("bytes", [[0, 1], [0, 2]], [5, 7])),
    "byte-order-mark/v8.cpuprofile": BOM + cpuprofile([2, 3, 4], [0, 5, 7], end=1012),
    "byte-order-mark/v8.heapprofile": BOM + json.dumps({"head": {"callFrame": {"functionName": "(root)", "scriptId": "0", "url": "", "lineNumber": 0, "columnNumber": 0}, "selfSize": 0,
                                                                 "id": 1, "children": [{"callFrame": {"functionName": "m", "scriptId": "0", "url": "", "lineNumber": 0, "columnNumber": 0},
                                                                                        "selfSize": 12, "id": 2, "children": []}]}}).encode(),
    "byte-order-mark/go.legacy": BOM + b"goroutine profile: total 12\n5 @ 0x10 0x20\n7 @ 0x30\n",
    "byte-order-mark/script.perf": BOM + b"".join(b"app 7/7 1.%06d: cpu-clock: \n\t400010 %s (/bin/app)\n\t400000 m (/bin/app)\n\n" % (i, f) for i, f in enumerate([b"a"] * 5 + [b"b"] * 7)),
}


def file_of(name):
    """Bytes of a file of this folder."""
    with open(os.path.join(HERE, name), "rb") as f:
        return f.read()


def write():
    for name, data in FILES.items():
        os.makedirs(os.path.dirname(os.path.join(HERE, name)), exist_ok=True)
        with open(os.path.join(HERE, name), "wb") as f:
            f.write(data)


if __name__ == "__main__":
    write()
    print("%d files" % len(FILES), file=sys.stderr)
