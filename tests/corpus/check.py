#!/usr/bin/env python3
"""Decoders against real recordings and the facts about them that were computed independently.

usage: check.py CORPUS_DUMP [NAME...]

The corpus is the directory FLAMETREE_CORPUS, by default ../shared/corpus beside the repository; it belongs to
other projects, so it is not part of this one. Every file of its MANIFEST.tsv in one of FORMATS is decoded and
every fact compared. Where there is no corpus, the exit code is 77: skipped."""
import itertools
import json
import os
import re
import subprocess
import sys
from collections import Counter, defaultdict

HERE = os.path.dirname(os.path.abspath(__file__))
CORPUS = os.environ.get("FLAMETREE_CORPUS") or os.path.join(HERE, "..", "..", "..", "shared", "corpus")

MANIFEST = os.path.join(CORPUS, "MANIFEST.tsv")

# Files that are refused, with the format to read them as and a part of the message.
REFUSED = {
    "pprof/dotnet-73-function-ids-0.pb": ("pprof", "function id is 0"),
    "derived/pprof-concatenated.pb": ("pprof", "sample value length mismatch"),
    "derived/pprof-value-count-mismatch.pb": ("pprof", "sample value length mismatch"),
    "derived/pprof-group-wiretype.pb": ("pprof", "wire type"),
    "derived/pprof-gzip-bomb.pb.gz": ("pprof-4mb", "larger than 4194304 bytes"),
    "derived/truncated.trie": ("trie", "byte "),
    "derived/huge-name-length.tree": ("tree", "tree node name length 1099511627776 exceeds"),
    "speedscope/invalid-out-of-order-events.json": ("speedscope", "event "),
}
FORMATS = ("otlp", "pprof", "collapsed", "perf", "jfr", "trie", "tree", "speedscope", "cpuprofile", "heapprofile", "legacy")
# A location that does not exist is one without address and lines.
DANGLING = {"derived/pprof-dangling-location.pb": {"locations": 1, "distinct_frames": 1, "locations_without_lines": 1}}
# A string that is not UTF-8 is mended; facts have it in escapes.
MENDED = {"pprof/invalid-utf8.pb.gz"}


def dump_by(program):
    """What `check` reads files with: dump(form, path) gives the lines of corpus_dump. Tests of the command line have one of their own."""
    def dump(form, path):
        lines = subprocess.run([program, form, path], check=True, capture_output=True).stdout.decode().split("\n")
        return [json.loads(line) for line in lines if line]
    return dump


def in_utf8(facts):
    """What is no UTF-8 becomes U+FFFD, which is another place in the order of names."""
    for k in ("top_self", "top_total"):
        facts[k] = sorted(([re.sub(r"\\x[89a-f][0-9a-f]", "\ufffd", f), v] for f, v in facts[k]), key=lambda row: (-row[1], row[0]))
    return facts


def inputs():
    """(name, format, facts) of every profile of the manifest; none where there is no corpus."""
    if not os.path.exists(MANIFEST):
        return
    with open(MANIFEST, encoding="utf-8") as f:
        rows = [line.rstrip("\n").split("\t") for line in f][1:]
    for row in rows:
        if row[6] == "input":
            facts = json.loads(row[12])
            yield row[2], row[4] if row[3] == "derived" else row[3], in_utf8(facts) if row[2] == "derived/edge.collapsed" else facts


def top(counts):
    return [list(kv) for kv in sorted(counts.items(), key=lambda kv: (-kv[1], kv[0]))[:5]]


def measures(samples, column):
    """Sum, stacks, tree nodes and largest functions of one sample type; frames innermost first."""
    own, total, nodes, merged, whole = defaultdict(int), defaultdict(int), set(), defaultdict(int), 0
    for s in samples:
        value = s["values"][column]
        whole += value
        if value == 0:
            continue
        merged[tuple(s["stack"])] += value
        if s["stack"]:
            own[s["stack"][0]] += value
        for frame in set(s["stack"]):
            total[frame] += value
    for stack in merged:
        path = 0
        for frame in reversed(stack):
            path = hash((path, frame))
            nodes.add(path)
    return {"sum": whole, "nonzero_stacks": len(merged), "tree_nodes": len(nodes), "top_self": top(own), "top_total": top(total)}


def pprof_facts(head, samples):
    labels = defaultdict(set)
    for s in samples:
        for key, value in s["labels"]:
            labels[key].add(value)
    got = {k: v for k, v in head.items() if k not in ("types", "language_hint")}
    got["period_type"] = "/".join(head["period_type"])
    got.update(
        samples=len(samples), stacks=len({tuple(s["stack"]) for s in samples}), labels={k: len(v) for k, v in labels.items()},
        distinct_frames=len({f for s in samples for f in s["stack"]}), max_depth=max((len(s["stack"]) for s in samples), default=0),
        samples_without_location=sum(not s["stack"] for s in samples), samples_negative=sum(min(s["values"]) < 0 for s in samples),
        by_type=[{"type": t, "unit": u, **measures(samples, i)} for i, (t, u) in enumerate(head["types"])])
    return got


def collapsed_facts(head, samples):
    got = measures(samples, 0)
    got.update(rows=len(samples), stacks=len({tuple(s["stack"]) for s in samples}), max_depth=max(len(s["stack"]) for s in samples),
               distinct_frames=len({f for s in samples for f in s["stack"]}))
    return got


# The facts of other formats describe their own form (nodes, deltas) too; these are those of the stacks.
STACK_FACTS = ("sum", "tree_nodes", "top_self", "top_total")
SCALES = {"seconds": 10**9, "milliseconds": 10**6, "microseconds": 1000}


def stack_facts(name, form, samples, expected):
    """A corpus_dump of the first profile against what the manifest says of its stacks."""
    scale = 1
    if form == "speedscope":
        expected = expected["profiles"][0]
        scale = SCALES.get(expected["unit"], 1)
    want = {k: expected[k] for k in STACK_FACTS}
    want["sum"] *= scale
    for k in ("top_self", "top_total"):
        want[k] = [[frame, value * scale] for frame, value in want[k]]
    return compare(name, measures(samples, 0), want)


def legacy_facts(name, head, samples, expected):
    """Types and sums, and every row of values that google/pprof printed of the same file, in its order."""
    got = {"sample_types": ["/".join(t) for t in head["types"]], "samples": len(samples),
           "sums": [sum(s["values"][i] for s in samples) for i in range(len(head["types"]))]}
    wrong = compare(name, got, {k: expected[k] for k in got})
    golden = os.path.join(CORPUS, "legacy/golden", os.path.basename(name) + ".golden.txt")
    if os.path.exists(golden):
        with open(golden, encoding="utf-8") as f:
            text = f.read()
        rows, places = [], {}
        for line in text.splitlines():
            row = re.match(r"^ *([-0-9 ]+): ([0-9 ]*)$", line)
            place = re.match(r"^ *(\d+): 0x([0-9a-f]+) (?:M=\d+ ?)?(\S*)", line)
            if row:
                rows.append(([int(v) for v in row[1].split()], row[2].split()))
            elif place:
                places.setdefault(place[1], place[3] or "0x" + place[2])
        want = [[values, [places[i] for i in stack]] for values, stack in rows]
        mine = [[s["values"], s["stack"]] for s in samples]
        wrong += ["google/pprof has %s, got %s" % pair for pair in zip(want, mine) if pair[0] != pair[1]][:3]
        if not want or len(want) != len(mine):
            wrong.append("google/pprof has %d stacks, got %d" % (len(want), len(mine)))
    return wrong


def compare(name, got, expected):
    """Every fact that the manifest gives, except what describes the manifest's own reader."""
    wrong = []
    for key, want in expected.items():
        if key in ("violations", "bad_lines", "first_bad", "error"):
            continue
        if key == "period_type" and want is None:
            want = "/"
        if isinstance(want, int):
            want += DANGLING.get(name, {}).get(key, 0)
        if name in DANGLING and key == "by_type":
            want = [dict(t, tree_nodes=t["tree_nodes"] + 1, top_self=g["top_self"]) for t, g in zip(want, got[key])]
        if name in MENDED and key == "by_type":
            want = [dict(t, top_self=g["top_self"], top_total=g["top_total"]) for t, g in zip(want, got[key])]
        if got.get(key) != want:
            wrong.append("%s: expected %s, got %s" % (key, json.dumps(want)[:400], json.dumps(got.get(key))[:400]))
    return wrong


def check_perf(dump, name, expected):
    """perf script as collapsed stacks: every sample that the manifest counts, and the stacks of stackcollapse-perf.pl --all."""
    head, *samples = dump("perf", os.path.join(CORPUS, name))
    samples = [line for line in samples if "types" not in line]  # of all events
    if "error" in head:
        return ["refused: %s" % head["message"]]
    counts = Counter()  # of all processes
    for s in samples:
        counts[";".join(reversed(s["stack"]))] += s["values"][0]
    wrong = ["a sample without pid"] if any("pid" not in dict(s["labels"]) for s in samples) else []
    if expected.get("sum") and sum(counts.values()) != expected["sum"]:
        wrong.append("%d samples, expected %d" % (sum(counts.values()), expected["sum"]))
    golden = os.path.join(CORPUS, "perf/golden", os.path.basename(name).replace(".perf.txt", ".collapsed-all.golden.txt"))
    if os.path.exists(golden):
        with open(golden, encoding="utf-8") as f:
            theirs = Counter({stack: int(n) for stack, n in (line.rsplit(" ", 1) for line in f.read().splitlines())})
        if sum(theirs.values()) > 2 * sum(counts.values()):  # theirs are periods, ours are samples
            counts, theirs = Counter(dict.fromkeys(counts, 1)), Counter(dict.fromkeys(theirs, 1))
        more = counts - theirs
        if theirs - counts or sum(more.values()) > 1:  # theirs leaves the last sample out where no empty line follows
            wrong.append("expected %s, got %s" % (list((theirs - counts).items())[:3], list(more.items())[:3]))
    return wrong


def recording_facts(lines):
    """The profiles of a recording, by the types they have; samples without a value count too."""
    profiles = {}
    for line in lines:
        if "types" in line:
            samples = profiles.setdefault(tuple(map(tuple, line["types"])), [])
        else:
            samples.append(line)
    return {types: {"samples": len(samples), "stacks": len({tuple(s["stack"]) for s in samples}),
                    "by_type": [{"type": t, "unit": u, **measures(samples, i)} for i, (t, u) in enumerate(types)]}
            for types, samples in profiles.items()}


# Sleeping samples of async-profiler's wall clock beside another event, which the facts leave out: {types: their sum and number}, of 100 Hz.
SLEEPING = {"jfr/async-profiler.jfr.gz": {(("wall", "nanoseconds"),): (199551 * 10**7, 199551)}}
UNKNOWN = ["[unknown]"]


def without_unknown(lines):
    """The lines without samples of unknown stacks, which the facts leave out, and without profiles that have no others; and the number of these samples."""
    kept, lost = [], 0
    for line in lines:
        if "types" in line:
            count = 10**7 if line["types"][0][1] == "nanoseconds" else 1
        elif line["stack"] == UNKNOWN:
            lost += line["values"][0] // count
            continue
        kept.append(line)
    return [line for line, after in zip(kept, [*kept[1:], {"types": 0}]) if "types" not in line or "types" not in after], lost


def check_jfr(dump, name, expected):
    lines = dump("jfr", os.path.join(CORPUS, name))
    error = lines[0].get("message") if lines else None
    if "error" in expected or error:
        return [] if "error" in expected and error else ["expected %s, got %s" % (expected.get("error", "profiles"), error)]
    lines, lost = without_unknown(lines)
    got, wrong = recording_facts(lines), []
    if lost != expected.get("missing_stack", 0):
        wrong.append("%d samples without a stack, expected %d" % (lost, expected.get("missing_stack", 0)))
    for types, (want, _) in SLEEPING.get(name, {}).items():
        total = sum(t["sum"] for t in got.pop(types, {"by_type": []})["by_type"])
        if total != want:
            wrong.append("%s: sum %d, expected %d" % (types, total, want))
    wanted = {tuple((t["type"], t["unit"]) for t in p["by_type"]): p for p in expected["profiles"].values()}
    if set(got) != set(wanted):
        wrong.append("expected the types %s, got %s" % (sorted(wanted), sorted(got)))
    for types in set(got) & set(wanted):
        for t in got[types]["by_type"]:
            del t["nonzero_stacks"]
        wrong += compare(name, got[types], {k: wanted[types][k] for k in ("samples", "stacks", "by_type")})
    return wrong


def otlp_facts(lines):
    """The profiles of a request by their type as it was sent: CPU samples are stored as the time that they stand for."""
    types = {}
    for line in lines:
        if "types" not in line:
            at["samples"].append(line)
            continue
        (type, unit), period_type, period = line["types"][0], line["period_type"], line["period"]
        cpu = [type, unit] == ["cpu", "nanoseconds"] == period_type
        sent = "%s/%s per %s:%d" % ("samples" if cpu else type, "count" if cpu else unit, "/".join(period_type), period)
        at = types.setdefault(sent, {"profiles": 0, "samples": [], "scale": period if cpu else 1})
        at["profiles"] += 1
    facts = []
    for sent, t in sorted(types.items()):
        for s in t["samples"]:
            assert s["values"][0] % t["scale"] == 0, s
            s["values"][0] //= t["scale"]
        facts.append({"type": sent, "profiles": t["profiles"], "samples": len(t["samples"]), "stacks": len({tuple(s["stack"]) for s in t["samples"]}),
                      **measures(t["samples"], 0)})
        del facts[-1]["nonzero_stacks"]
    return facts


def check_otlp(dump, name, expected):
    head, *lines = dump("otlp", os.path.join(CORPUS, name))
    if "error" in head:
        return ["expected profiles, got %s" % head]
    (layout,) = expected["layouts"]
    wrong = [] if head["layout"] == {"1.9": "1.8", "json": "1.10"}.get(layout, layout) else ["layout %s, expected %s" % (head["layout"], layout)]
    # Of samples whose stack is not in the file the facts count no stack.
    wanted = [{**{k: v for k, v in t.items() if k != "timestamps"}, "stacks": t["stacks"] + ("problems" in expected)} for t in expected["by_type"]]
    linked = sum(any(key == "span_id" for key, _ in line["labels"]) for line in lines if "labels" in line)
    return wrong + compare(name, {"by_type": otlp_facts(lines), "samples_with_link": linked}, {"by_type": wanted, "samples_with_link": expected["samples_with_link"]})


def check(dump, name, form, expected):
    if form == "otlp":
        return check_otlp(dump, name, expected)
    if form == "jfr":
        return check_jfr(dump, name, expected)
    if form == "perf":
        return check_perf(dump, name, expected)
    path = os.path.join(CORPUS, name)
    if name in REFUSED:
        form, text = REFUSED[name]
        answer = dump(form, path)[0]
        wanted = "resource_exhausted" if form == "pprof-4mb" else "invalid_argument"
        good = answer.get("error") == wanted and text in answer["message"]
        return [] if good else ["expected a refusal with %r, got %s" % (text, str(answer)[:300])]
    head, *samples = dump(form, path)
    if "error" in head:
        return ["refused: %s" % head["message"]]
    samples = list(itertools.takewhile(lambda line: "types" not in line, samples))  # of the first profile
    if form == "legacy":
        return legacy_facts(name, head, samples, expected)
    if form not in ("pprof", "collapsed"):
        return stack_facts(name, form, samples, expected)
    return compare(name, (collapsed_facts if form == "collapsed" else pprof_facts)(head, samples), expected)


def check_repair(dump):
    """A .NET agent that sends 0 for all function ids: with repair the names are there and the sums are the facts'."""
    name = "pprof/dotnet-73-function-ids-0.pb"
    head, *samples = dump("pprof-repair", os.path.join(CORPUS, name))
    names = {f for s in samples for f in s.get("stack", [])}
    return [] if len(samples) == 2819 and len(names) > 12 and not any(n.startswith("0x") for n in names) else [str(head)[:300] + " " + str(sorted(names)[:5])]


def main():
    dump, wanted = dump_by(sys.argv[1]), sys.argv[2:]
    if not os.path.exists(MANIFEST):
        print("skipped: no corpus at %s" % CORPUS)
        return 77
    passed, failed = 0, 0
    for name, form, expected in inputs():
        if form not in FORMATS or (wanted and not any(w in name for w in wanted)):
            continue
        wrong = check(dump, name, form, expected)
        if not wrong and name.startswith("pprof/dotnet-73"):
            wrong = check_repair(dump)
        passed, failed = passed + (not wrong), failed + bool(wrong)
        for line in wrong:
            print("FAIL %s: %s" % (name, line))
    print("%d files passed, %d failed" % (passed, failed))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
