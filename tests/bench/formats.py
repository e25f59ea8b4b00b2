# SPDX-License-Identifier: Apache-2.0
"""The group `formats` of tests/bench/run: how fast each format is decoded on one core, and how fast other programs' readers
decode the same bytes: google/pprof, the Collector's pdata and the JDK's jdk.jfr.consumer (tests/bench/others), and Python's json
for formats that are JSON, which is not even a decoder but only the first step of one.

Files are those of the corpus, and made-up ones that are larger. A reader that is not to be had here, or refuses a file, has no figure."""
import concurrent.futures
import gzip
import http.client
import json
import os
import random
import shutil
import subprocess
import time

# format, files of the corpus, what is wanted (MB of inflated input a core-second)
FILES = [
    ("pprof", ["pprof/go-heap-large.pb.gz", "pprof/go-cpu.pb.gz", "pprof/java-dump2-cpu.pb.gz", "pprof/python-austin.pb"], 0),
    ("jfr", ["jfr/async-profiler.jfr.gz", "jfr/uint64-ref-id.jfr.gz", "jfr/wall.jfr.gz", "jfr/dump1.jfr.gz"], 150),
    ("otlp", ["otlp/ebpf-1.8-2025-10.pb", "otlp/ebpf-profile-1.8.pb", "derived/otlp-p-1.10-packed.pb", "derived/otlp-p-json-hex-ids.json"], 300),
    ("folded", ["collapsed/perf-rust-Yamakaky-dcpu.collapsed.txt", "collapsed/perf-iperf-stacks-pidtid-01.collapsed.txt"], 400),
    ("lines", ["collapsed/perf-rust-Yamakaky-dcpu.collapsed.txt"], 0),
    ("perf", ["perf/perf-iperf-stacks-pidtid-01.perf.txt", "perf/perf-rust-Yamakaky-dcpu.perf.txt"], 0),
    ("legacy", ["legacy/jemalloc.heap", "legacy/cppbench.cpu", "legacy/cppbench.heap"], 0),
    ("speedscope", ["speedscope/v0.0.1-simple.json"], 0),
    ("cpuprofile", ["cpuprofile/chrome-sucrase.cpuprofile", "cpuprofile/node-hello.cpuprofile"], 0),
    ("heapprofile", ["heapprofile/node10.heapprofile"], 0),
    ("tree", ["tree/diff-left.tree.bin", "derived/iperf.tree"], 0),
    ("trie", ["derived/iperf.trie"], 0),
]
OTHERS = {"pprof": "google/pprof", "legacy": "google/pprof", "otlp": "pdata of the Collector", "jfr": "jdk.jfr.consumer"}
JSON = ("speedscope", "cpuprofile", "heapprofile")


def made_up(folder):
    """Larger files of formats that are written by hand: [(format, path)]."""
    rng = random.Random(7)
    names = ["package/module%d.function_%d" % (i % 40, i) for i in range(3000)]
    stacks = [[rng.choice(names) for _ in range(rng.randint(5, 39))] for _ in range(8000)]
    folded, speedscope = os.path.join(folder, "generated.folded"), os.path.join(folder, "generated.speedscope.json")
    with open(folded, "w") as f:
        f.writelines("%s %d\n" % (";".join(s), rng.randint(1, 900)) for s in stacks)
    at = {name: i for i, name in enumerate(names)}
    profile = {"type": "sampled", "name": "all", "unit": "milliseconds", "startValue": 0, "endValue": 8000,
               "samples": [[at[name] for name in s] for s in stacks], "weights": [1] * len(stacks)}
    with open(speedscope, "w") as f:
        json.dump({"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {"frames": [{"name": n} for n in names]},
                   "profiles": [profile]}, f)
    return [("folded", folded), ("speedscope", speedscope)]


def figures(command):
    """{path: bytes a second of CPU time} of one of the readers; empty if it does not run here."""
    out = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    lines = [line.split("\t")[-3:] for line in out.stdout.splitlines()]
    return {path: (int(size), float(speed)) for path, size, speed in lines if float(speed) > 0}


def python_json(paths):
    speeds = {}
    for path in paths:
        with (gzip.open if path.endswith(".gz") else open)(path, "rb") as f:
            data = f.read()
        began, runs = time.process_time(), 0
        while time.process_time() - began < 0.5:
            json.loads(data)
            runs += 1
        speeds[path] = (len(data), runs * len(data) / (time.process_time() - began))
    return speeds


def others(top, go, form, paths):
    if form in JSON:
        return python_json(paths)
    if form == "jfr":
        java = shutil.which("java")
        return figures([java, os.path.join(top, "tests/bench/others/Recordings.java"), *paths]) if java else {}
    program = os.path.join(top, "build/bench-others")
    built = go and subprocess.run([go, "build", "-o", program, "."], cwd=os.path.join(top, "tests/bench/others"), stderr=subprocess.DEVNULL)
    return figures([program, form, *paths]) if built and built.returncode == 0 and form in OTHERS else {}


# Pushed as agents push them: format, file, path, headers
PUSHED = [
    ("jfr", "jfr/async-profiler.jfr.gz", "/ingest?name=bench&format=jfr&spyName=javaspy&sampleRate=100", {"Content-Type": "application/octet-stream"}),
    ("jfr", "jfr/dump1.jfr.gz", "/ingest?name=bench&format=jfr&spyName=javaspy&sampleRate=100", {"Content-Type": "application/octet-stream"}),
    ("otlp", "otlp/ebpf-1.8-2025-10.pb", "/v1development/profiles", {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}),
    ("otlp", "derived/otlp-p-1.10-packed.pb", "/v1development/profiles", {"Content-Type": "application/x-protobuf", "Content-Encoding": "gzip"}),
]
SENDERS = 8


def send_all(url, path, headers, body, count, taken):
    """One sender: a connection that is kept; milliseconds until each push was acknowledged."""
    host = url.removeprefix("http://")
    connection = http.client.HTTPConnection(host, timeout=60)
    for _ in range(count):
        began = time.monotonic()
        connection.request("POST", path, body, headers)
        answer = connection.getresponse()
        said = answer.read()
        assert answer.status == 200, (path, answer.status, said[:300])
        taken.append((time.monotonic() - began) * 1000)
    connection.close()


def pushes(corpus, server, cpu_seconds, short, row):
    for form, name, path, headers in PUSHED:
        source = os.path.join(corpus, name)
        if not os.path.exists(source):
            continue
        with open(source, "rb") as f:
            body = f.read()
        packed = body if body[:2] == b"\x1f\x8b" else gzip.compress(body, 6)
        size = len(gzip.decompress(packed))
        count, taken = max(1, (20 if short else 100) * 10**6 // size // SENDERS), []
        with server("--limits.reject_older_than=0s", "--ingester.head_age=3650d") as f, concurrent.futures.ThreadPoolExecutor(SENDERS) as pool:
            send_all(f.url, path, headers, packed, 1, [])
            cpu = cpu_seconds(f.process.pid)
            for done in [pool.submit(send_all, f.url, path, headers, packed, count, taken) for _ in range(SENDERS)]:
                done.result()
            cpu = cpu_seconds(f.process.pid) - cpu
        taken.sort()
        what = "%s pushed: %s" % (form, os.path.basename(name))
        row("formats", what + ": inflated MB a core-second", SENDERS * count * size / 1e6 / cpu, "MB/core-s")
        row("formats", what + ": acknowledged, p50", taken[len(taken) // 2], "ms")


def run(top, decoder, corpus, go, folder, row, note):
    made = made_up(folder)
    for form, names, wanted in FILES:
        paths = [p for p in (os.path.join(corpus, name) for name in names) if os.path.exists(p)] + [p for f, p in made if f == form]
        if not paths:
            note("%s: no files at %s" % (form, corpus))
            continue
        ours, theirs = figures([decoder, "--format", form, *paths]), others(top, go, form, paths)
        for path in paths:
            size, speed = ours[path]
            there = "%.0f MB/core-s" % (theirs[path][1] / 1e6) if path in theirs else ""
            by = "json of Python" if form in JSON else OTHERS.get(form, "")
            row("formats", "%s: %s, %.2f MB" % (form, os.path.basename(path), size / 1e6), speed / 1e6, "MB/core-s",
                ">= %d" % wanted if wanted else "", "%s %s" % (by, there) if there else "")
