"""Text and JSON with faults and in other encodings: what can be read is stored, by way of /ingest and of push, and the client's own reading of the file agrees with it."""
import json

import pytest
from cli import fails, ok, run, url
from client import CPU, Server, unique
from flametree import TOPOLOGIES, deploy

COUNT = "samples:samples:count::"
WALL = "wall:wall:nanoseconds:wall:nanoseconds"
MS = 10**6
FOLDED = "m;a 5\nm;b 7\n"
TWO = {"m;a": 5, "m;b": 7}


pytestmark = pytest.mark.each_value  # each case on one process or on six


@pytest.fixture(scope="module", params=TOPOLOGIES)
def shared(request):
    """With our own limits: Pyroscope's refuse names that are not UTF-8."""
    with deploy(request.param) as f:
        yield f


def times(factor, stacks):
    return {k: v * factor for k, v in stacks.items()}


def scope(*profiles):
    return json.dumps({"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {"frames": [{"name": "m"}, {"name": "a"}, {"name": "b"}]}, "profiles": list(profiles)}).encode()


def sampled(unit, name, samples, weights):
    return {"type": "sampled", "name": name, "unit": unit, "startValue": 0, "endValue": sum(weights), "samples": samples, "weights": weights}


def v8_node(id, name, **more):
    return {"id": id, "callFrame": {"functionName": name, "scriptId": "0", "url": "f.js", "lineNumber": 3, "columnNumber": 0}, **more}


def v8(**more):
    return {"nodes": [v8_node(1, "r", children=[2, 3]), v8_node(2, "a"), v8_node(3, "b")], **more}


FRAME = "\t7f0012 f (/a)\n\n"
CLOCK = "shop 77 12.5: 5025125 cpu-clock:u:\n" + FRAME
OPEN = scope({"type": "evented", "name": "p1", "unit": "milliseconds", "startValue": 0, "endValue": 10, "events": [{"type": "O", "frame": 0, "at": 0}, {"type": "O", "frame": 1, "at": 1.5}]})
LATE = json.dumps(v8(startTime=1000, endTime=1400, samples=[2, 3, 2, 3], timeDeltas=[0, 100, -50, 250])).encode()
LACKS = json.dumps([{"name": "ProfileChunk", "ph": "P", "pid": 7, "tid": 9, "id": "0x1", "ts": 9,
                     "args": {"data": {"cpuProfile": {"nodes": [v8_node(3, "leaf", parent=2)], "samples": [3, 2]}, "timeDeltas": [0, 40]}}}]).encode()

# Name, format, bytes, what is stored of which type, and the reasons that are told.
FILES = [
    ("byte-order-mark", "folded", b"\xef\xbb\xbf" + FOLDED.encode(), {CPU: times(10 * MS, TWO)}, ()),
    ("utf-16-little", "folded", ("\ufeff" + FOLDED).encode("utf-16-le"), {CPU: times(10 * MS, TWO)}, ()),
    ("utf-16-big", "folded", ("\ufeff" + FOLDED.replace("\n", "\r\n")).encode("utf-16-be"), {CPU: times(10 * MS, TWO)}, ()),
    ("bad-lines", "folded", b"m;a 5\nno count\n# a comment\nnocount\nm;b 7\n", {CPU: times(10 * MS, TWO)}, ("bad_line",)),
    ("long-line", "folded", b"m;a 5\n" + b"m;" * 40000 + b"x 1\nm;b 7\n", None, ()),
    ("separator-at-the-end", "folded", b"m;a; 5\nm;b;\t7 \n", {CPU: times(10 * MS, TWO)}, ()),
    ("empty-frames", "folded", b"m;;a 5\n 7\n", {CPU: times(10 * MS, {"m;[unknown];a": 5, "[unknown]": 7})}, ("unknown_stack",)),
    ("fractions", "folded", b"m;a 4.5\nm;b 7.5\n", {CPU: times(10 * MS, {"m;a": 4, "m;b": 8})}, ()),
    ("no-utf-8", "folded", b"m;\xff 5\n", {CPU: {"m;\ufffd": 50 * MS}}, ("bad_text",)),
    ("interval", "folded", b"# interval 5ms\n" + FOLDED.encode(), {CPU: times(5 * MS, TWO)}, ()),
    ("rate-that-is-no-whole-number", "folded", b"# interval: 3ms\n" + FOLDED.encode(), {CPU: times(3 * MS, TWO)}, ()),
    ("austin", "folded", b"# austin: 3.6.0\n# interval: 100\n# mode: wall\n" + FOLDED.encode(), {CPU: times(1000, TWO)}, ()),
    ("marked-lines", "lines", b"\xef\xbb\xbfm;a\nm;a\n", {CPU: {"m;a": 20 * MS}}, ()),
    ("periods", "perf", (CLOCK + CLOCK).encode(), {CPU: {"shop;f": 10050250}}, ()),
    ("rate-of-the-head", "perf", ("# event : name = cycles:P, , { sample_period, sample_freq } = 199, freq = 1\nshop 77 12.5: 9 cycles:P:\n" + FRAME).encode(), {CPU: {"shop;f": 5025125}}, ()),
    ("events", "perf", (CLOCK + "shop 77 12.5: 3 page-faults:\n" + FRAME).encode(), {CPU: {"shop;f": 5025125}, "perf:page_faults:count::": {"shop;f": 3}}, ()),
    ("frames-alone", "perf", b"\t  7f0012 f+0x1\n\t  7f0013 main\n\n\t  7f0012 f+0x2\n\t  7f0013 main\n\n", {CPU: {"main;f": 20 * MS}}, ()),
    ("no-pid", "perf", b"shop \n\t  7f0012 f+0x1\n\nshop \n\t  7f0012 f\n\n", {CPU: {"shop;f": 20 * MS}}, ()),
    ("marked-perf", "perf", b"\xef\xbb\xbf" + CLOCK.encode(), {CPU: {"shop;f": 5025125}}, ()),
    ("open-frames", "speedscope", OPEN, {CPU: {"m": 1500000, "m;a": 8500000}}, ("unclosed_frame",)),
    ("count", "speedscope", scope(sampled("none", "p1", [[0, 1], [0, 2]], [5, 7])), {COUNT: TWO}, ()),
    ("counts", "speedscope", scope(sampled("none", "p1", [[0, 1]], [5]), sampled("none", "p2", [[0, 2]], [7])), {COUNT: TWO}, ()),
    ("bytes", "speedscope", scope(sampled("bytes", "p1", [[0, 1], [0, 2]], [5, 7])), {"memory:samples:bytes::": TWO}, ()),
    ("marked-speedscope", "speedscope", b"\xef\xbb\xbf" + scope(sampled("none", "p1", [[0, 1], [0, 2]], [5, 7])), {COUNT: TWO}, ()),
    ("wide-speedscope", "speedscope", ("\ufeff" + scope(sampled("none", "p1", [[0, 1], [0, 2]], [5, 7])).decode()).encode("utf-16-le"), {COUNT: TWO}, ()),
    ("weights", "speedscope", scope(sampled("none", "p1", [[0, 1], [0, 9]], [5, 7, 9])), {COUNT: {"m;a": 5, "m;[unknown]": 7, "[unknown]": 9}}, ("unknown_frame", "unknown_stack")),
    ("late-samples", "cpuprofile", LATE, {WALL: {"r;a": 100_000, "r;b": 300_000}, "wall:samples:count:wall:nanoseconds": {"r;a": 2, "r;b": 2}}, ("unordered_time",)),
    ("marked-cpuprofile", "cpuprofile", b"\xef\xbb\xbf" + LATE, {WALL: {"r;a": 100_000, "r;b": 300_000}, "wall:samples:count:wall:nanoseconds": {"r;a": 2, "r;b": 2}}, ("unordered_time",)),
    ("missing-chunks", "chrome", LACKS, {WALL: {"[unknown];leaf": 40_000}, "wall:samples:count:wall:nanoseconds": {"[unknown];leaf": 1, "[unknown]": 1}}, ("unknown_frame", "unknown_stack")),
    ("no-utf-8-legacy", "legacy", b"goroutine 1 [running]:\nmain.\xff(0x1)\n\t/src/m.go:12 +0x1d\n", {"goroutines:goroutine:count:goroutine:count": {"main.\ufffd": 1}}, ("bad_text",)),
]
each_file = pytest.mark.parametrize("format, data, wanted, reasons", [f[1:] for f in FILES], ids=[f[0] for f in FILES])


def named(format):
    """Bytes do not tell lines from other text."""
    return ["--format", format] if format == "lines" else []


def stored(s, service):
    return {type: s.stacks(service, type) for type in s.types(service)}


@each_file
def test_what_can_be_read_is_stored(url, tmp_path, format, data, wanted, reasons):
    s, sent, pushed = Server(url), unique(), unique()
    Server(url.push or url).ingest(sent, data, format=format).expect(200)
    path = tmp_path / "file"
    path.write_bytes(data)
    ok("push", str(path), "-l", "service_name=" + pushed, *named(format), url=url)
    if wanted is None:
        wanted = {CPU: {"m;a": 50 * MS, "m;b": 70 * MS, ";".join(["m"] * 1023 + ["[truncated stack]"]): 10 * MS}}
        got = stored(s, sent)
        assert sum(got[CPU].values()) == sum(wanted[CPU].values()) and got[CPU]["m;b"] == 70 * MS
    else:
        s.check(lambda: stored(s, sent), wanted)
    s.check(lambda: stored(s, pushed), stored(s, sent))


@each_file
def test_the_client_reads_a_file_as_the_server_does(tmp_path, format, data, wanted, reasons):
    path = tmp_path / "file"
    path.write_bytes(data)
    said = run("convert", str(path), "-", "--to", "folded", *named(format))
    assert said.returncode == 0, said
    assert sorted({line.split(": ")[2] for line in said.stderr.splitlines() if line.count(": ") > 2 and line.split(": ")[2] in REASONS}) == sorted(reasons), said.stderr
    assert run("top", str(path), *named(format)).returncode == 0 and run("flame", str(path), *named(format)).returncode == 0
    if wanted is None:
        return
    got = {}
    for line in said.stdout.splitlines():
        stack, _, n = line.rpartition(" ")
        got[stack] = int(n)
    # Without a rate the client shows counts, and the server makes time of them.
    assert got in [stacks for stacks in wanted.values()] or times(10 * MS, got) in wanted.values() or len(data.split(b'"p2"')) == 2, got


REASONS = ("bad_line", "bad_sample", "unknown_stack", "unknown_frame", "unclosed_frame", "unordered_time", "no_time", "bad_text")


def test_profiles_of_one_file_keep_their_names_and_counts(url, tmp_path):
    s, service = Server(url), unique()
    (tmp_path / "p.speedscope.json").write_bytes(scope(sampled("none", "p1", [[0, 1]], [5]), sampled("none", "p2", [[0, 2]], [7])))
    ok("push", str(tmp_path / "p.speedscope.json"), "-l", "service_name=" + service, url=url)
    s.check(lambda: s.stacks(service, COUNT, 'profile_name="p1"'), {"m;a": 5})
    s.check(lambda: s.stacks(service, COUNT, 'profile_name="p2"'), {"m;b": 7})


@pytest.mark.parametrize("data, said", [
    (FOLDED.encode(), True), (b"# interval 5ms\n" + FOLDED.encode(), False), (CLOCK.encode(), False), (b"shop 77 12.5: 1 cycles:\n" + FRAME.encode(), True),
    (b"shop 77 12.5: 1 page-faults:\n" + FRAME.encode(), False), (OPEN, False), (scope(sampled("none", "p1", [[0]], [5])), False), (LATE, False),
])
def test_a_rate_that_nobody_stated_is_told(url, data, said):
    told = lambda *more: "is taken for 10 ms" in run("push", "-", "-l", "service_name=" + unique(), *more, data=data, text=False, url=url).stderr.decode()
    assert told() == said
    assert not told("--sample-rate", "50") and not told("--quiet")
    assert b"is taken for 10 ms" not in run("top", "-", data=data, text=False).stderr


def test_push_tells_what_it_changes_itself(url):
    """Of formats that it makes pprof of, since the server does not see the file."""
    said = run("push", "-", "-l", "service_name=" + unique(), data=LATE, text=False, url=url)
    assert said.returncode == 0 and b"unordered_time: 1 samples out of order; they were sorted by time" in said.stderr, said


def test_a_rate_that_is_given_counts_more_than_the_file(url):
    s = Server(url)
    for data, stack, n in ((b"# interval 5ms\nm;a 3\n", "m;a", 3), ((CLOCK + CLOCK).encode(), "shop;f", 2), (scope(sampled("none", "p1", [[0, 1]], [5])), "m;a", 5)):
        service = unique()
        ok("push", "-", "-l", "service_name=" + service, "--sample-rate", "50", data=data, text=False, url=url)
        s.check(lambda: s.stacks(service, CPU), {stack: n * 20 * MS})
        out = ok("convert", "-", "-", "--to", "folded", "--sample-rate", "50", data=data, text=False)
        assert out.decode() == "%s %d\n" % (stack, n * 20 * MS)


def test_a_type_without_a_value_is_not_the_one_that_is_shown(tmp_path):
    (tmp_path / "x.cpuprofile").write_text(json.dumps(v8(samples=[2, 3, 3])))
    for command in ("top", "flame"):
        out = ok(command, str(tmp_path / "x.cpuprofile"))
        assert out.startswith("samples/count\n3 total"), out


def test_what_cannot_be_read_is_refused_with_its_reason(tmp_path):
    for data, args, reason in [
        (("\ufeff" + FOLDED).encode("utf-32-le"), (), "text in UTF-32; UTF-8 and UTF-16 can be read"),
        (b"# x\nno count\nnocount\n", ("--format", "folded"), 'line 2: bad count: "no count"'),
        (b"hello world\n", ("--format", "perf"), 'line 1 is neither the head nor a frame of one: "hello world"'),
        (scope({"type": "evented", "name": "x", "unit": "none", "events": [{"type": "C", "frame": 0, "at": 1}]}), (), "event 0: frame 0 is closed and not the innermost one open"),
        (scope({"type": "evented", "name": "x", "unit": "none", "events": [{"type": "O", "frame": 0, "at": 2}, {"type": "C", "frame": 0, "at": 1}]}), (), "events out of order, 1 < 2"),
        (json.dumps([{"name": "Profile", "ph": "P", "pid": 1, "id": "0x1", "args": {"data": {"startTime": 5}}}]).encode(), (), "1 begin, and their pieces (ProfileChunk) are missing"),
        (LACKS[:-20], (), "JSON"),
    ]:
        (tmp_path / "file").write_bytes(data)
        # A trace is sent as it is, and the server refuses it.
        for command in ("top", "flame") if b'"ph"' in data else ("push", "top", "flame"):
            assert reason in fails(1, command, str(tmp_path / "file"), *args, url="http://127.0.0.1:1"), (command, data)
