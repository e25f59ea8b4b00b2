#!/usr/bin/env python3
"""What a server stores of each file of the corpus: a table of sums, to be compared with that of another version of the programs.

usage: FLAMETREE_BIN=DIR tests/corpus/sums.py >sums.tsv
       tests/corpus/sums.py --compare before.tsv after.tsv

Columns: file, profile type, its sum as SelectSeries has it, as the profile has it that is exported, and as the flame graph has it, profiles. What is refused
has its status and message instead. Every file is pushed as test_server.py pushes it; besides those of the manifest, the exports below otlp/ebpf-2026.
"""
import concurrent.futures
import glob
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
for folder in (".", "../lib", "../conformance"):
    sys.path.insert(0, os.path.join(HERE, folder))

import check  # noqa: E402
import reader  # noqa: E402
import test_server as corpus  # noqa: E402
from client import now_ms  # noqa: E402
from flametree import Flametree  # noqa: E402

# Exports that the manifest does not list.
MORE = sorted(os.path.relpath(path, check.CORPUS) for path in glob.glob(os.path.join(check.CORPUS, "otlp/ebpf-2026/*.pb.gz")))


def files():
    for name in MORE:
        corpus.FILES.setdefault(name, ("otlp", {}))
    return [name for name in corpus.FILES if name not in corpus.NO_PROFILES]


def sums(s, of, type):
    """(series, exported profile, flame graph, profiles) of all time."""
    first, last = 10**12, now_ms() // 1000 * 1000 + 3_600_000
    whole = {"profileTypeID": type, "labelSelector": of, "start": first, "end": last}
    rows = s.ok("SelectSeries", step=(last - first) / 1000, **whole).get("series", [])  # two points, whatever a version makes of what lies before the first
    series = sum(float(p.get("value", 0)) for row in rows for p in row["points"])
    graph = s.ok("SelectMergeStacktraces", maxNodes=1 << 20, **whole)["flamegraph"]
    profiles = s.last.headers.get("Flametree-Profiles", "")
    exported = sum(x["values"][0] for x in reader.pprof(export(s, of, type, first, last))[1])
    return "%d" % series, str(exported), str(graph.get("total", 0)), profiles


def export(s, of, type, first, last):
    body = corpus.pb((1, type), (2, of), (3, first), (4, last))
    return s.call("POST", "/" + corpus.QUERIER + "SelectMergeProfile", body, {"Content-Type": "application/proto"}).expect(200).body


def rows_of(f, name):
    s = f.server()
    reply = corpus.send(f, name)
    out = [] if reply.status == 200 else [(name, "refused", "%d %s" % (reply.status, " ".join(reply.message().split())[:200]))]
    of = corpus.selector(name)
    for type in sorted(corpus.types(s, of)):
        try:
            out.append((name, type, *sums(s, of, type)))
        except AssertionError as e:
            out.append((name, type, "no answer: " + " ".join(str(e).split())[:200]))
    return out or [(name, "nothing")]


def show():
    with Flametree(*corpus.SETTINGS) as f, concurrent.futures.ThreadPoolExecutor(2) as pool:
        for rows in pool.map(lambda name: rows_of(f, name), files()):
            for row in rows:
                print("\t".join(row), flush=True)


def compare(before, after):
    """Each row that differs, as a table for people."""
    def read(path):
        with open(path, encoding="utf-8") as f:
            return {tuple(line.rstrip("\n").split("\t")[:2]): line.rstrip("\n").split("\t")[2:] for line in f}
    old, new = read(before), read(after)
    differ = [key for key in sorted({*old, *new}) if old.get(key) != new.get(key)]
    for key in differ:
        print("%s %s\n    before: %s\n    after:  %s" % (*key, " ".join(old.get(key, ["absent"])), " ".join(new.get(key, ["absent"]))))
    print("%d rows before, %d after, %d differ" % (len(old), len(new), len(differ)))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--compare"] and len(sys.argv) == 4:
        compare(*sys.argv[2:])
    elif len(sys.argv) == 1:
        sys.exit("no corpus at %s" % check.CORPUS) if not corpus.FILES else show()
    else:
        sys.exit(__doc__)
