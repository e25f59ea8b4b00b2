"""flametree push: every format, refusals that lose nothing, and labels and types that arrive as they were given."""
import gzip
import json
import os
import subprocess
import urllib.error
import urllib.request

import cli
import pytest
from cli import fails, ok, run, service, url
from client import Pprof, read_pprof, unique
from jfr import Jfr
from otlp import otlp_request


def test_pushed_text_comes_back_the_same(url, tmp_path):
    name, path = unique("cli"), tmp_path / "stacks.txt"
    lines = ["main;work;f%d %d" % (i, i + 1) for i in range(200)] + ["main 7", "häufig;日本語 3"]
    path.write_text("\n".join(lines) + "\n")
    answer = run("push", str(path), "-l", "service_name=" + name, "--sample-rate", "0", url=url)
    assert answer.returncode == 0 and "1 file" in answer.stderr, answer
    got = ok("query", "--service", name, "--format", "folded", url=url)
    assert sorted(got.splitlines()) == sorted(lines)


def test_pushed_pprof_comes_back_as_pprof(url, service, tmp_path):
    path = tmp_path / "out.pb.gz"
    assert ok("query", "cpu", "-s", service, "--format", "pprof", "-o", str(path), url=url) == ""
    profile = read_pprof(path.read_bytes())
    assert profile["stacks"] == {"main;work": [60_000_000], "main;idle": [30_000_000], "gc": [10_000_000]}
    assert profile["types"] == [("cpu", "nanoseconds")] and os.listdir(tmp_path).count("out.pb.gz.partial") == 0
    piped = run("query", "cpu", "-s", service, "--format", "pprof", url=url, text=False)
    assert read_pprof(piped.stdout)["stacks"] == profile["stacks"]
    again = unique("cli")
    ok("push", str(path), "--time", "now", "-l", "service_name=" + again, url=url)
    assert sorted(ok("query", "cpu", "-s", again, "-F", "folded", url=url).split("\n")) == ["", "gc 10000000", "main;idle 30000000", "main;work 60000000"]


def test_pprof_from_standard_input_and_service_from_the_name(url, tmp_path):
    base = unique("shop")
    path = tmp_path / (base + ".heap.pb.gz")
    path.write_bytes(gzip.compress(Pprof(("a", (3, 4)), types=(("inuse_objects", "count"), ("inuse_space", "bytes")), period_type=("space", "bytes")).encode()))
    ok("push", str(path), url=url)
    assert set(ok("types", "-s", base, url=url).split()) == {"memory:inuse_objects:count:space:bytes", "memory:inuse_space:bytes:space:bytes"}
    other = unique("cli")
    ok("push", "-", "-l", "service_name=" + other, "--name", "made_up", data=path.read_bytes(), text=False, url=url)
    assert "made_up:inuse_space:bytes:space:bytes" in ok("types", "-s", other, url=url)


def test_old_profile_is_refused_with_a_hint_and_sent_with_time_now(url, tmp_path):
    name, path = unique("cli"), tmp_path / "old.pb"
    path.write_bytes(Pprof(("a", 5), time_ns=10**18).encode())
    said = fails(1, "push", str(path), "-l", "service_name=" + name, url=url)
    assert str(path) in said and "400 invalid_argument" in said and "ingestion window" in said and "--time now" in said, said
    ok("push", str(path), "-l", "service_name=" + name, "--time", "now", url=url)
    assert ok("query", "-s", name, "-F", "folded", url=url) == "a 5\n"


def test_a_bad_file_does_not_stop_the_others(url, tmp_path):
    name = unique("cli")
    for i in range(9):
        (tmp_path / ("%d.txt" % i)).write_text("f%d 1\n" % i)
    (tmp_path / "4.txt").write_bytes(b"\xff\xfe\x00garbage")
    (tmp_path / "5.txt").write_bytes(b"")
    (tmp_path / "6.jfr").write_bytes(b"FLR\0" + b"\0" * 80)
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "more.txt").write_text("deep 1\n")
    (tmp_path / ".hidden").write_text("hidden 1\n")
    said = fails(1, "push", str(tmp_path), "/no/such/file", "-l", "service_name=" + name, "--sample-rate", "0", url=url)
    assert "4.txt: it is neither pprof nor JFR nor collapsed stacks nor text of perf script" in said and "5.txt: it is empty" in said, said
    assert "6.jfr" in said and "malformed JFR: the chunk at byte 0 has not version 2 but 0" in said, said
    assert "/no/such/file: No such file" in said and "4 of 12 files failed" in said, said
    got = ok("query", "-s", name, "-F", "folded", url=url)
    assert sorted(got.split("\n")) == [""] + sorted(["deep 1"] + ["f%d 1" % i for i in (0, 1, 2, 3, 6, 7, 8)])


def speedscope(*profiles):
    return json.dumps({"profiles": list(profiles), "shared": {"frames": [{"name": "main"}, {"name": "work"}]},
                       "$schema": "https://www.speedscope.app/file-format-schema.json"}).encode()


def sampled(unit, weight, name):
    return {"type": "sampled", "name": name, "unit": unit, "startValue": 0, "endValue": weight, "samples": [[0, 1]], "weights": [weight]}


def test_speedscope_is_found_from_its_bytes(url, tmp_path):
    one, several = unique("cli"), unique("cli")
    path = tmp_path / "x.y.json"
    path.write_bytes(speedscope(sampled("milliseconds", 1.5, "a")))
    ok("push", str(path), "-l", "service_name=" + one, url=url)
    assert ok("query", "-s", one, "-F", "folded", url=url) == "main;work 1500000\n"
    path.write_bytes(speedscope(sampled("seconds", 2, "a"), sampled("bytes", 7, "b")))
    ok("push", str(path), "-l", "service_name=" + several, url=url)
    assert ok("query", "-s", several, "--type", "wall:wall:nanoseconds:cpu:nanoseconds", "-F", "folded", url=url) == "main;work 2000000000\n"
    assert ok("query", "-s", several, "--type", "memory:samples:bytes::", "-F", "folded", url=url) == "main;work 7\n"
    assert "has 2 profiles" in fails(1, "push", str(path), "--name", "cpu", url=url)


@pytest.mark.parametrize("format, data", [("trie", b"\0\0\1\5main;\0\1\4work\3\0"), ("tree", b"\0\0\1\4main\0\1\4work\3\0")])
def test_binary_stacks_are_sent_as_they_are(url, tmp_path, format, data):
    name = unique("cli")
    (tmp_path / "stacks").write_bytes(data)
    ok("push", str(tmp_path / "stacks"), "--format", format, "--sample-rate", "0", "-l", "service_name=" + name, url=url)
    assert ok("query", "-s", name, "-F", "folded", url=url) == "main;work 3\n"


def v8_node(id, name, children=(), **more):
    return {"id": id, "callFrame": {"functionName": name, "scriptId": "0", "url": "file:///app.js", "lineNumber": 3, "columnNumber": 0}, "children": list(children), **more}


def test_profiles_of_v8_are_found_from_their_bytes(url, tmp_path):
    cpu, heap = unique("cli"), unique("cli")
    nodes = [v8_node(1, "(root)", [2], hitCount=0), v8_node(2, "", [3], hitCount=1), v8_node(3, "work", hitCount=2)]
    (tmp_path / "a.cpuprofile").write_text(json.dumps({"nodes": nodes, "startTime": 5, "endTime": 905, "samples": [3, 2, 3], "timeDeltas": [100, 200, 300]}))
    (tmp_path / "a.heapprofile").write_text(json.dumps({"head": v8_node(1, "(root)", [v8_node(2, "alloc", selfSize=64)], selfSize=0)}))
    ok("push", str(tmp_path / "a.cpuprofile"), "-l", "service_name=" + cpu, url=url)
    ok("push", str(tmp_path / "a.heapprofile"), "-l", "service_name=" + heap, url=url)
    assert ok("query", "-s", cpu, "--type", "wall:wall:nanoseconds:wall:nanoseconds", "-F", "folded", url=url) == "(root);(anonymous) 300000\n(root);(anonymous);work 500000\n"
    assert ok("query", "-s", cpu, "--type", "wall:samples:count:wall:nanoseconds", "-F", "folded", url=url) == "(root);(anonymous) 1\n(root);(anonymous);work 2\n"
    assert ok("query", "-s", heap, "-F", "folded", url=url) == "(root);alloc 64\n"


TRACE = [
    {"args": {"name": "CrRendererMain"}, "name": "thread_name", "ph": "M", "pid": 7, "tid": 8, "ts": 0},
    {"args": {"data": {"startTime": 5}}, "name": "Profile", "ph": "P", "pid": 7, "tid": 8, "id": "0x1", "ts": 5},
    {"args": {"data": {"cpuProfile": {"nodes": [v8_node(1, "(root)"), v8_node(2, "traceEvents", parent=1)], "samples": [2, 1]}, "timeDeltas": [10, 20]}},
     "name": "ProfileChunk", "ph": "P", "pid": 7, "tid": 99, "id": "0x1", "ts": 9},
]


@pytest.mark.parametrize("text", [json.dumps(TRACE), json.dumps(TRACE)[:-1] + ",\n", json.dumps({"traceEvents": TRACE}, indent=1)], ids=["list", "no-end", "object"])
@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
def test_traces_of_chrome_are_found_from_their_bytes(url, tmp_path, text, packed):
    name, path = unique("cli"), tmp_path / "trace.json"
    path.write_bytes(gzip.compress(text.encode()) if packed else text.encode())
    ok("push", str(path), "-l", "service_name=" + name, url=url)
    assert ok("query", "-s", name, "--type", "wall:wall:nanoseconds:wall:nanoseconds", "-F", "folded", url=url) == "(root);traceEvents 20000\n"
    assert ok("labels", "profile_name", "-s", name, url=url) == "CrRendererMain\n" and ok("labels", "pid", "-s", name, url=url) == "7\n"
    assert "a trace of Chrome has types of its own" in fails(1, "push", str(path), "--name", "cpu", url=url)


def test_a_trace_without_a_cpu_profile_is_refused(url, tmp_path):
    (tmp_path / "trace.json").write_text(json.dumps(TRACE[:2]))
    assert "there is no CPU profile in this trace" in fails(1, "push", str(tmp_path / "trace.json"), url=url)


def test_profiles_before_pprof_are_found_from_their_bytes(url, tmp_path):
    (tmp_path / "goroutines.txt").write_text(
        "goroutine profile: total 3\n2 @ 0x5 0x9\n#\t0x4\tmain.wait+0x1\t/m.go:3\n#\t0x8\tmain.main+0x2\t/m.go:9\n\n"
        "1 @ 0x9\n#\t0x8\tmain.main+0x2\t/m.go:9\n")
    (tmp_path / "locks.txt").write_text("--- mutex:\ncycles/second=1000000000\nsampling period=1\n40 2 @ 0x5\n#\t0x4\tsync.Unlock+0x1\t/m.go:3\n")
    counts, locks, named = unique("cli"), unique("cli"), unique("cli")
    ok("push", str(tmp_path / "goroutines.txt"), "-l", "service_name=" + counts, url=url)
    ok("push", str(tmp_path / "goroutines.txt"), "--format", "legacy", "-l", "service_name=" + named, url=url)
    ok("push", str(tmp_path / "locks.txt"), "-l", "service_name=" + locks, "--name", "mutex", url=url)
    for service in (counts, named):
        assert ok("query", "-s", service, "-F", "folded", url=url) == "main.main 1\nmain.main;main.wait 2\n"
    assert ok("query", "-s", locks, "--type", "mutex:delay:nanoseconds:contentions:count", "-F", "folded", url=url) == "sync.Unlock 40\n"
    (tmp_path / "bad.txt").write_text("goroutine profile: total 3\n2 @ 0x5 9\n")
    assert "line 2: bad address" in fails(1, "push", str(tmp_path / "bad.txt"), url=url)


SPEEDSCOPE = speedscope(sampled("seconds", 1, "a"))

FLAMEBEARER = json.dumps({"version": 1, "flamebearer": {"names": ["total", "main", "work"], "levels": [[0, 5, 0, 0], [0, 5, 1, 1], [1, 4, 4, 2]], "numTicks": 5, "maxSelf": 4},
                          "metadata": {"format": "single", "units": "samples", "sampleRate": 100, "name": "cpu"}}).encode()

FIREFOX = json.dumps({
    "meta": {"interval": 1, "preprocessedProfileVersion": 57}, "libs": [{"name": "libc.so.6"}],
    "threads": [{"name": "main", "pid": "7", "samples": {"stack": [1, 2, 1], "weight": [1, 2, 3], "weightType": "samples"}}],
    "shared": {"stringArray": ["main", "work", "0x40"], "stackTable": {"frame": [0, 1, 2], "prefix": [None, 0, 0]}, "frameTable": {"func": [0, 1, 2]},
               "funcTable": {"name": [0, 1, 2], "resource": [-1, -1, 0]}, "resourceTable": {"lib": [0]}}}).encode()

DURATIONS = json.dumps([
    {"ph": "M", "name": "thread_name", "pid": 7, "tid": 8, "args": {"name": "main"}}, {"ph": "X", "name": "work", "pid": 7, "tid": 8, "ts": 2, "dur": 3},
    {"ph": "B", "name": "run", "pid": 7, "tid": 8, "ts": 1}, {"ph": "E", "name": "run", "pid": 7, "tid": 8, "ts": 9}]).encode()

CALLGRIND = b"# callgrind format\nevents: Ir Dr\nfn=(1) main\n1 30 2\ncfn=(2) work\ncalls=1 9\n1 400 5\nfn=(2)\n9 400 5\nsummary: 430 7\n"

STACKPROF = json.dumps({"mode": "wall", "interval": 1000, "samples": 5, "raw": [1, 70, 1, 2, 70, 80, 4], "frames": {
    "70": {"name": "main", "file": "/a.rb", "line": 1, "total_samples": 5, "samples": 1}, "80": {"name": "work", "file": "/a.rb", "line": 3, "total_samples": 4, "samples": 4}}}).encode()

SAMPLE = b"""Analysis of sampling shop (pid 7) every 1 millisecond
Call graph:
    5 Thread_12   DispatchQueue_1: com.apple.main-thread  (serial)
    + 5 main  (in shop) + 1  [0x1]
    +   4 work  (in shop) + 8,20  [0x2,0x3]
"""

# Of formats that the client makes pprof of: the file, and what is stored of it.
TOOLS = {
    "flamebearer": (FLAMEBEARER, {"cpu": ["main 10000000", "main;work 40000000"], "samples": ["main 1", "main;work 4"]}, {}),
    "firefox": (FIREFOX, {"samples": ["main;libc.so.6!0x40 2", "main;work 4"], "wall": ["main;libc.so.6!0x40 2000000", "main;work 4000000"]}, {"thread": ["main"], "pid": ["7"]}),
    "callgrind": (CALLGRIND, {"instructions": ["main 30", "main;work 400"], "dr": ["main 2", "main;work 5"]}, {}),
    "stackprof": (STACKPROF, {"samples": ["main 1", "main;work 4"], "wall": ["main 1000000", "main;work 4000000"]}, {}),
    "sample": (SAMPLE, {"samples": ["main 1", "main;work 4"], "wall": ["main 1000000", "main;work 4000000"]}, {"thread": ["com.apple.main-thread"], "pid": ["7"]}),
    "trace": (DURATIONS, {"wall": ["run 5000", "run;work 3000"]}, {"thread": ["main"], "pid": ["7"]}),
}


PACKERS = {"plain": bytes, "gzip": gzip.compress, "zstd": lambda file: subprocess.run(["zstd", "-qc"], input=file, capture_output=True, check=True).stdout}


@pytest.mark.each_value
@pytest.mark.parametrize("packed", PACKERS)
@pytest.mark.parametrize("tool", TOOLS)
def test_files_of_other_tools_are_found_from_their_bytes(url, tmp_path, tool, packed):
    file, types, labels = TOOLS[tool]
    name, path = unique("cli"), tmp_path / "x"
    path.write_bytes(PACKERS[packed](file))
    ok("push", str(path), "-l", "service_name=" + name, "-l", "zone=b,c", url=url)
    got, have = stored(url, name)
    assert {t.split(":")[1]: stacks for t, stacks in got.items()} == types
    assert {k: v for k, v in have.items() if k in ("thread", "pid")} == labels and have["zone"] == ["b,c"]
    for kind, stacks in types.items():
        assert sorted(ok("convert", str(path), "-", "--to", "folded", "--type", kind).splitlines()) == stacks
        total = sum(int(line.rsplit(" ", 1)[1]) for line in stacks)
        assert json.loads(ok("convert", str(path), "-", "--to", "flamebearer", "--type", kind))["flamebearer"]["numTicks"] == total
    assert ok("top", str(path)) and ok("flame", str(path))


def test_what_a_file_lacks_is_told(url, tmp_path):
    (tmp_path / "x").write_text('[{"ph":"B","name":"a","ts":1},{"ph":"X","name":"b","ts":2,"dur":3},{"ph":"X","name":"c","ts":2,"dur":-3}]')
    for command in (["push", str(tmp_path / "x")], ["top", str(tmp_path / "x")], ["convert", str(tmp_path / "x"), "-", "--to", "folded"]):
        said = run(*command, url=url)
        assert said.returncode == 0 and "1 samples whose values cannot be read; they are left out\n" in said.stderr, said
        assert "1 frames that never end; they end with the profile\n" in said.stderr, said


@pytest.fixture
def perf(tmp_path, monkeypatch):
    """A `perf` that prints what it is to print if the file is whole; and an empty folder of programs."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "none").mkdir()
    program = tmp_path / "bin" / "perf"
    program.write_text('#!/bin/sh\n[ "$1 $2 $4 $5" = "script -i -F +pid" ] || exit 9\n[ -z "$(cat)" ] || exit 8\n'
                       'case "$(head -c 12 "$3")" in "PERFILE2 ok"*) cat "$(dirname "$0")/text"; exit 0;; esac\n'
                       'i=0; while [ $i -lt 3000 ]; do echo "a warning of many" >&2; i=$((i + 1)); done\necho "incompatible file format" >&2\nexit 3\n')
    program.chmod(0o755)
    (tmp_path / "bin" / "text").write_text(PERF * 400)
    (tmp_path / "perf.data").write_bytes(b"PERFILE2 ok " + bytes(100000))
    (tmp_path / "bad.data").write_bytes(b"PERFILE2 bad" + bytes(100))
    monkeypatch.setitem(cli.NOTHING_THERE, "PATH", str(tmp_path / "bin") + ":" + os.environ["PATH"])
    return tmp_path


def test_perf_data_is_read_by_perf(url, perf):
    name, stdin = unique("perf"), unique("perf")
    stacks = ["shop;main;do_read_[k] 400", "shop;main;work 400"]
    ok("push", str(perf / "perf.data"), "-l", "service_name=" + name, "--sample-rate", "0", url=url)
    said = run("push", "-", "--format", "perf.data", "-l", "service_name=" + stdin, "--sample-rate", "0", data=(perf / "perf.data").read_bytes().decode(), url=url)
    assert said.returncode == 0, said
    for service in (name, stdin):
        assert sorted(ok("query", "process_cpu:samples:count::", "-s", service, "-F", "folded", url=url).splitlines()) == stacks
    assert sorted(ok("convert", str(perf / "perf.data"), "-", "--to", "folded").splitlines()) == stacks
    for command in (["push", str(perf / "bad.data")], ["top", str(perf / "bad.data")]):
        said = fails(1, *command, url=url)
        assert "`perf script` cannot read this perf.data: " in said and said.rstrip().endswith("incompatible file format"), said
    (perf / "other").write_text("a;b 1\n")
    assert "it is not perf.data" in fails(1, "push", "--format", "perf.data", str(perf / "other"), url=url)
    (perf / "packed").write_bytes(gzip.compress((perf / "perf.data").read_bytes()))
    assert "it is perf.data, and compressed" in fails(1, "push", str(perf / "packed"), url=url)


def test_without_perf_it_is_said_what_to_do(url, perf, monkeypatch):
    monkeypatch.setitem(cli.NOTHING_THERE, "PATH", str(perf / "none"))
    for command in ("push", "top"):
        assert "there is no `perf` here; where it was recorded, `flametree push perf.data` sends it" in fails(1, command, str(perf / "perf.data"), url=url)


def test_servers_refuse_perf_data(url, perf):
    for format in ("perf.data", "perf", "folded", "pprof"):
        request = urllib.request.Request("%s/ingest?format=%s&name=%s" % (url.push, format, unique("perf")), data=(perf / "perf.data").read_bytes(), method="POST")
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(request)
        assert refused.value.code == 422 and b"servers cannot read perf.data; where it was recorded" in refused.value.read()


# One upload of each format; what the table says about it is what the server does with it.
UPLOADS = {
    "pprof": ("/ingest?format=pprof", Pprof(("main;work", 60)).encode()),
    "folded": ("/ingest?format=folded", b"main;work 1\n"),
    "lines": ("/ingest?format=lines", b"main;work\n"),
    "perf": ("/ingest?format=perf", b"shop 7 1.5: 1 cycles:\n\t12 f (/a)\n"),
    "cpuprofile": ("/ingest?format=cpuprofile", json.dumps({"nodes": [v8_node(1, "(root)")], "samples": [1]}).encode()),
    "heapprofile": ("/ingest?format=heapprofile", json.dumps({"head": v8_node(1, "(root)", selfSize=1)}).encode()),
    "legacy": ("/ingest?format=legacy", b"goroutine profile: total 1\n1 @ 0x5 0x9\n"),
    "chrome": ("/ingest?format=chrome", json.dumps(TRACE).encode()),
    "jfr": ("/ingest?format=jfr", Jfr().sample(1).encode()),
    "speedscope": ("/ingest?format=speedscope", SPEEDSCOPE),
    "perf.data": ("/ingest?format=perf.data", b"PERFILE2"),
    **{tool: ("/ingest?format=" + tool, file) for tool, (file, _, _) in TOOLS.items()},
    "trie": ("/ingest?format=trie", b""),
    "tree": ("/ingest?format=tree", b""),
    "otlp": ("/v1development/profiles?", otlp_request(unique("cli"))),
}


def test_formats_are_as_the_table_says(url):
    formats = json.loads(ok("formats", "-F", "json"))["formats"]
    assert [f["name"] for f in formats if f["name"] not in UPLOADS] == []
    for f in formats:
        path, body = UPLOADS[f["name"]]
        headers = {"Content-Type": "application/x-protobuf"} if f["name"] == "otlp" else {}
        request = urllib.request.Request(url.push + path + "&name=" + unique("format"), data=body, headers=headers, method="POST")
        try:
            with urllib.request.urlopen(request) as answer:
                status = answer.status
        except urllib.error.HTTPError as e:
            status = e.code
        if f["name"] == "perf.data":  # works in the client, which has it read by perf
            assert status == 422
            continue
        assert (status == 200) == f["works"] and (f["works"] or status in (404, 501)), (f, status)


PERF = """# ========
# captured on: now
#
shop  77 [001] 12.500000:     250000 cycles:u:
\t          401b97 work+0x1f (/usr/bin/shop)
\t          401b00 main+0x2 (/usr/bin/shop)

shop  77 [001] 12.510000:     250000 cycles:u:
\tffffffff9b201293 do_read+0x1 ([kernel.kallsyms])
\t          401b00 main+0x2 (/usr/bin/shop)

shop  77 [001] 12.510000:     1 faults:
\t          401b00 main+0x2 (/usr/bin/shop)
"""


def stored(url, name):
    """What there is of a service: the stacks of each type, and the labels of its series besides the agent's name."""
    types = sorted(ok("types", "-s", name, url=url).split())
    keys = sorted(set(ok("labels", "-s", name, url=url).split()) - {"pyroscope_spy", "service_name", "__service_name__"})
    return {t: sorted(ok("query", "-s", name, "--type", t, "-F", "folded", url=url).splitlines()) for t in types}, {k: sorted(ok("labels", k, "-s", name, url=url).splitlines()) for k in keys}


@pytest.mark.parametrize("format", ["perf", "cpuprofile", "heapprofile", "legacy", "chrome", *TOOLS])
def test_push_stores_what_ingest_stores(url, tmp_path, format):
    """Also of formats that the client makes pprof of."""
    pushed, sent = unique("cli"), unique("cli")
    files = {
        **{tool: file for tool, (file, _, _) in TOOLS.items()},
        "perf": PERF.encode(), "chrome": json.dumps(TRACE).encode(),
        "cpuprofile": json.dumps({"nodes": [v8_node(1, "(root)", [2], hitCount=1), v8_node(2, "", hitCount=2)], "startTime": 5, "endTime": 905, "samples": [1, 2, 2], "timeDeltas": [1, 2, 3]}).encode(),
        "heapprofile": json.dumps({"head": v8_node(1, "(root)", [v8_node(2, "alloc", selfSize=64)], selfSize=0)}).encode(),
        "legacy": b"heap profile: 1: 8 [2: 16] @ heap/1\n1: 8 [2: 16] @ 0x10 0x20\n#\t0xf\tmain.make+0x1\t/m.go:3\n#\t0x1f\tmain.main+0x2\t/m.go:9\n",
    }
    (tmp_path / "x").write_bytes(files[format])
    ok("push", str(tmp_path / "x"), "-l", "service_name=" + pushed, url=url)
    request = urllib.request.Request("%s/ingest?format=%s&sampleRate=100&name=%s" % (url.push, format, sent), data=files[format], method="POST")
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200
    assert stored(url, pushed) == stored(url, sent)
    assert stored(url, sent)[0]


@pytest.mark.parametrize("options", [(), ("--format", "perf")])
def test_text_of_perf_script_is_found_from_its_bytes(url, options):
    name = unique("perf")
    said = run("push", "-", "-l", "service_name=" + name, "--sample-rate", "0", *options, data=PERF, url=url)
    assert said.returncode == 0 and "is taken for" not in said.stderr, said
    of = lambda type: sorted(ok("query", "-s", name, "--type", type, "-F", "folded", url=url).splitlines())
    assert of("process_cpu:samples:count::") == ["shop;main;do_read_[k] 1", "shop;main;work 1"]
    assert of("perf:faults:count::") == ["shop;main 1"]
    assert sorted(ok("labels", "profile_name", "-s", name, url=url).split()) == ["cycles:u", "faults"]
    assert ok("labels", "comm", "-s", name, url=url) == "shop\n" and ok("labels", "pid", "-s", name, url=url) == "77\n"
    assert "no sample in this text" in fails(1, "push", "--format", "perf", "-", data="hello\n", url=url)


@pytest.mark.parametrize("label, said", [
    ("service name=x", "the name 'service name' must have only letters"),
    ("région=x", "the name 'région' must have only letters"),
    (" a=x", "the name ' a' must have only letters"),
    ("1a=x", "the name '1a' must have only letters"),
    (".a=x", "the name '.a' must have only letters"),
    ("__name__=cpu", "--name sets the first part of the profile type"),
    ("__session_id__=1", "names that begin with __ are the server's own"),
    ("a=", "not KEY=VALUE"),
    ("b=y", "--label b is given twice"),
])
@pytest.mark.parametrize("file", ["text", "pprof"])
def test_a_label_that_would_be_lost_is_refused(tmp_path, label, said, file):
    path = tmp_path / "shop"
    path.write_bytes(b"x 1\n" if file == "text" else Pprof(("main", 1)).encode())
    assert said in fails(2, "push", str(path), "-l", "b=x", "-l", label, url="http://127.0.0.1:1")


@pytest.mark.parametrize("options, said", [
    (("-l", "profile_id=1"), "with text servers do not store it"),
    (("-l", "pyroscope_spy=me"), "with text servers do not store it"),
    (("-l", "a= x"), "cannot begin or end with a space"),
    (("--name", "shop.cpu"), "--name shop.cpu: text may be cpu, wall"),
    (("--name", "heap"), "--name heap: text may be cpu, wall"),
    (("--name", "alloc_space", "--sample-rate", "9"), "--sample-rate is for CPU and wall time"),
])
def test_what_text_cannot_carry_is_refused(options, said):
    assert said in fails(1, "push", "-", *options, data="x 1\n", url="http://127.0.0.1:1")


def test_text_without_a_stack_is_refused_before_it_is_sent():
    assert "line 2: no count behind a space: \"main;work\"" in fails(1, "push", "-", "--format", "folded", data="# x\nmain;work\nb x\n", url="http://127.0.0.1:1")


def test_labels_arrive_as_they_were_given(url, tmp_path):
    """Whatever the client accepts is stored under the same name with the same value."""
    labels = {"region": "eu", "_a": "b=c", "otel.scope.name": "a b+c", "B2": "x/y;z", "team": "ü"}
    for file, body in (("text", b"main 1\n"), ("pprof", Pprof(("main", 1)).encode())):
        name = unique("cli")
        (tmp_path / file).write_bytes(body)
        ok("push", str(tmp_path / file), "-l", "service_name=" + name, *[x for k, v in labels.items() for x in ("-l", "%s=%s" % (k, v))], url=url)
        for key, value in labels.items():
            assert ok("labels", key, "--service", name, url=url) == value + "\n", (file, key)


def test_a_sample_rate_for_pprof_is_told(url, tmp_path):
    (tmp_path / "shop").write_bytes(Pprof(("main", 1)).encode())
    said = run("push", str(tmp_path / "shop"), "--sample-rate", "9", "-l", "service_name=" + unique("cli"), url=url)
    assert said.returncode == 0 and "--sample-rate is for formats that count samples" in said.stderr, said


@pytest.mark.parametrize("args, said", [
    (("query", "--depth", "3", "--format", "folded"), "--depth is for --format flame and tree"),
    (("query", "--depth", "3", "--top", "3"), "--depth is for --format flame and tree"),
    (("query", "--min", "3"), "--min is for --format tree"),
    (("diff", "cpu", "--before", "1h", "--base-from", "now-2h"), "both set the baseline's range"),
    (("block", "show", "x", "--match", "{}"), "--match selects what --keys and --nodes list"),
    (("block", "show", "x", "--top", "3"), "--top is for the stacks of --node and --row"),
    (("ready", "--bearer", "x", "--user", "a:b"), "two ways to log in"),
    (("ready", "--bearer", "x", "--url", "http://a:b@127.0.0.1:1"), "two ways to log in"),
    (("ready", "--ca-file", "/etc/hosts"), "--ca-file is for https"),
    (("help", "query", "--man"), "print all commands"),
    (("help", "--markdown", "--man"), "print all commands"),
])
def test_an_option_that_would_be_ignored_is_refused(args, said):
    assert said in fails(2, *args)


def test_service_that_ingest_cannot_spell(url):
    name = unique("cli") + " with spaces"
    ok("push", "-", "-l", "service_name=" + name, "-l", "a=b=c", "--sample-rate", "0", data="x 1\n", url=url)
    assert name in ok("labels", "service_name", url=url).splitlines()
    assert "cannot have ','" in fails(1, "push", "-", "-l", "a=b,c", data="x 1\n", url=url)


def test_quiet_push_says_nothing(url):
    answer = run("push", "-", "-q", "-l", "service_name=" + unique("cli"), data="x 1\n", url=url)
    assert (answer.returncode, answer.stdout, answer.stderr) == (0, "", "")


@pytest.mark.parametrize("packed", [False, True])
def test_recording_is_known_by_its_bytes(url, tmp_path, packed):
    name, path = unique("cli"), tmp_path / "recording.bin"
    recording = Jfr().setting("event", "itimer").sample(1, times=3).sample(2).tlab(2, 4096).encode()
    path.write_bytes(gzip.compress(recording) if packed else recording)
    ok("push", str(path), "-l", "service_name=" + name, url=url)
    assert sorted(ok("query", "cpu", "-s", name, "-F", "folded", url=url).splitlines()) == ["App.work 30000000", "App.work;App.idle 10000000"]
    assert "memory:alloc_in_new_tlab_bytes:bytes:space:bytes" in ok("types", "-s", name, url=url)
    assert "a JFR recording has types of its own" in fails(1, "push", str(path), "--name", "cpu", url=url)
