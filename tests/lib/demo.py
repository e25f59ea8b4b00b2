#!/usr/bin/env python3
"""Fills a running server with real profiles, so that every page and command has something to show.

    tests/lib/demo.py http://127.0.0.1:4040 [--hours 6] [--tenant NAME] [--quick]

Recorded profiles of nine services in seven languages come from the corpus (../shared/corpus beside the repository, or
FLAMETREE_CORPUS). Each is sent again and again over the last hours, by pods in two regions, with weights that rise and
fall. `shop-api` gets a new version half an hour ago that compresses far more: the regression to find. `storefront`
has a pod that began within the range and `blog` one that ended. Only formats are sent that every server takes: pprof
and collapsed stacks. The same arguments and corpus give the same profiles, but for the time. --quick sends a tenth.
"""
import argparse
import functools
import gzip
import math
import os
import random
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../conformance"))
from client import Server, pb, packed, read_pprof, unpack, unpb  # noqa: E402

CORPUS = os.environ.get("FLAMETREE_CORPUS") or os.path.join(HERE, "../../../shared/corpus")
STEPS = 240            # profiles of a pod over the whole range
HEAVY_EVERY = 10       # large heap profiles are sent only every so many steps
BATCH = 16             # profiles of one request
REGRESSION_S = 1800    # how long ago the new version of shop-api came
SAMPLE_RATE = 1000000  # collapsed stacks are sent in microseconds
PODS = [("eu", "a"), ("eu", "b"), ("us", "c")]

# service, name of the profile type, file, cores in use (None: the values stay), every so many steps
SOURCES = [
    ("shop-api", "process_cpu", "pprof/go-cpu.pb.gz", 1.6, 1),
    ("shop-api", "memory", "pprof/go-heap-large.pb.gz", None, HEAVY_EVERY),
    ("shop-api", "goroutines", "pprof/go-goroutine.pb.gz", None, 1),
    ("metrics", "memory", "pprof/go-prometheus-heap.pb", None, HEAVY_EVERY),
    ("metrics", "process_cpu", "pprof/go-default.pgo.pb.gz", 0.7, 1),
    ("orders", "process_cpu", "pprof/java-dump2-cpu.pb.gz", 0.9, 1),
    ("warehouse", "process_cpu", "perf/golden/perf-numa-stacks-01.collapsed-all.golden.txt", 2.4, 2),
    ("storefront", "process_cpu", "perf/golden/perf-js-stacks-01.collapsed-all.golden.txt", 0.8, 2),
    ("storefront", "wall", "pprof/nodejs-cpu.pb.gz", 1.0, 1),
    ("storefront", "memory", "pprof/nodejs-heap.pb.gz", None, 1),
    ("recommender", "wall", "pprof/python-austin.pb", None, 1),
    ("thumbnails", "process_cpu", "perf/golden/perf-rust-Yamakaky-dcpu.collapsed-all.golden.txt", 0.4, 2),
    ("gateway", "process_cpu", "perf/golden/perf-iperf-stacks-pidtid-01.collapsed-all.golden.txt", 0.25, 2),
    ("blog", "wall", "pprof/php-wordpress.pb", 1.0, HEAVY_EVERY),
]
SLOW = ("shop-api", "process_cpu", "compress/flate.", 7)  # what the new version does more of, and how much
NEW_POD, GONE_POD = ("storefront", "d"), ("blog", "c")
# Allocations of a recorded heap are those of the process's whole life: a push has what came since the one before.
SINCE_LAST = 0.001


class Pprof:
    """A recorded profile whose values can be multiplied."""

    def __init__(self, data):
        data = gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data
        read = read_pprof(data)
        self.fields, self.types = unpb(data), read["types"]
        of_types = {unpb(t)[1][0] for t in self.fields[1]}
        # Servers refuse a dash in a sample type, which PHP's profiler writes.
        self.fields[6] = [s.replace(b"-", b"_") if i in of_types else s for i, s in enumerate(self.fields[6])]
        text = lambda message: read["strings"][message.get(2, [0])[0]]
        functions = {f.get(1, [0])[0]: text(f) for f in map(unpb, self.fields.get(5, []))}
        names = {}
        for location in map(unpb, self.fields.get(4, [])):
            names[location[1][0]] = [functions.get(unpb(line).get(1, [0])[0], "") for line in location.get(4, [])]
        self.samples = []
        for sample in map(unpb, self.fields.get(2, [])):
            ids = unpack(sample.get(1, []))
            values = [v - (1 << 64) if v >> 63 else v for v in unpack(sample.get(2, []))]
            self.samples.append((ids, values, sample.get(3), {n for i in ids for n in names.get(i, [])}))
        self.rest = b"".join(pb((k, v)) for k, v in self.fields.items() if k not in (2, 9, 10))
        self.rows = functools.lru_cache(maxsize=32)(self.encode)

    def seconds(self):
        """Of the time that it holds, for a weight in cores."""
        unit = {"nanoseconds": 1e9, "microseconds": 1e6}
        at = next(i for i, (_, u) in enumerate(self.types) if u in unit)
        return sum(values[at] for _, values, _, _ in self.samples) / unit[self.types[at][1]]

    def encode(self, weight, slow):
        """Samples. `slow` is a part of names and a further weight for stacks with such a function."""
        since = [SINCE_LAST if t.startswith("alloc") else 1 for t, _ in self.types]
        part, more = slow or ("\0", 1)
        rows = []
        for ids, values, labels, names in self.samples:
            by = weight * (more if any(part in n for n in names) else 1)
            rows.append(pb((1, packed(ids)), (2, packed(round(v * by * s) for v, s in zip(values, since))), (3, labels)))
        return b"".join(pb((2, row)) for row in rows)

    def write(self, at, length, weight, slow):
        return gzip.compress(self.rows(weight, slow) + self.rest + pb((9, int(at * 1e9)), (10, int(length * 1e9))), 1)


class Collapsed:
    """Folded stacks with counts that can be multiplied."""

    def __init__(self, data):
        self.rows = [(stack, int(count)) for stack, count in (line.rsplit(" ", 1) for line in data.decode().splitlines() if line)]

    def seconds(self):
        return sum(count for _, count in self.rows) / SAMPLE_RATE

    def write(self, weight):
        return "\n".join("%s %d" % (stack, max(1, round(count * weight))) for stack, count in self.rows)


def load(path):
    with open(os.path.join(CORPUS, path), "rb") as f:
        data = f.read()
    return Collapsed(data) if path.endswith(".txt") else Pprof(data)


def pods_of(service, step, steps):
    """(region, pod) of a service at a step: one pod began, one ended within the range."""
    pods = PODS + ([("us", NEW_POD[1])] if service == NEW_POD[0] and step > steps * 0.6 else [])
    return [p for p in pods if not (service == GONE_POD[0] and p[1] == GONE_POD[1] and step > steps * 0.5)]


def pushes(hours, steps, seed=7):
    """(profile, service, type, labels, time, length, weight, slow) of all that is sent, oldest first."""
    length, end, rnd = hours * 3600 / steps, time.time() - 5, random.Random(seed)
    loaded = [(*source, load(source[2])) for source in SOURCES]
    for step in range(steps):
        at = end - (steps - step) * length
        for k, (service, name, _, cores, every, profile) in enumerate(loaded):
            if step % min(every, max(1, steps // 8)):
                continue
            released = service == "shop-api" and at > end - REGRESSION_S
            slow = SLOW[2:] if released and (service, name) == SLOW[:2] else None
            wave = 1 + 0.3 * math.cos(2 * math.pi * step / steps + k) + 0.1 * rnd.random()
            for i, (region, pod) in enumerate(pods_of(service, step, steps)):
                weight = round(wave * (1, 0.8, 0.5, 0.6)[i], 1)  # few different weights: large profiles are encoded once for each
                if cores:
                    weight *= cores / len(PODS) * length * every / profile.seconds()
                labels = {"region": region, "pod": "%s-%s" % (service, pod), "version": "v1.5.0" if released else "v1.4.1"}
                yield profile, service, name, labels, at, length * every, weight, slow


def send(server, hours, steps):
    """Returns how many profiles were sent."""
    batch, count = [], 0

    def flush():
        if batch:
            server.push_series(batch).expect(200)
        batch.clear()

    for profile, service, name, labels, at, length, weight, slow in pushes(hours, steps):
        count += 1
        if isinstance(profile, Pprof):
            batch.append(({"__name__": name, "service_name": service, **labels}, [profile.write(at, length, weight, slow)]))
            if len(batch) == BATCH:
                flush()
        else:
            series = "%s.cpu{%s}" % (service, ",".join("%s=%s" % pair for pair in labels.items()))
            server.ingest(series, profile.write(weight), **{"from": str(int(at)), "until": str(int(at + length))}, format="folded",
                          sampleRate=str(SAMPLE_RATE), spyName="perf").expect(200)
    flush()
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("url")
    parser.add_argument("--hours", type=float, default=6)
    parser.add_argument("--tenant")
    parser.add_argument("--quick", action="store_true")
    args = parser.parse_args()
    began = time.monotonic()
    count = send(Server(args.url.rstrip("/"), tenant=args.tenant), args.hours, STEPS // 10 if args.quick else STEPS)
    print("%d profiles of %d services over %g hours, in %.1f s" % (count, len({s[0] for s in SOURCES}), args.hours, time.monotonic() - began))


if __name__ == "__main__":
    main()
