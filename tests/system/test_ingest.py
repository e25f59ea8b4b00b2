"""POST /ingest as SDKs send it, and what a tenant's rules make of it: what the conformance suite does not ask."""
import gzip
import http.client
import json
import time
import urllib.parse

import pytest
from client import CPU, Pprof, Server, multipart, unique
from flametree import Flametree
from jfr import Jfr

SAMPLES = "process_cpu:samples:count::milliseconds"


@pytest.fixture(scope="module")
def f():
    with Flametree("--limits.reject_older_than", "1h") as f:
        yield f


@pytest.fixture(scope="module")
def s(f):
    return Server(f.url, strict=True)


def chunked(s, path, body, headers, size=7):
    """A body without a length, in chunks of `size` bytes, as Java's client sends it."""
    base = urllib.parse.urlsplit(s.push_url)
    connection = http.client.HTTPConnection(base.hostname, base.port, timeout=60)
    try:
        pieces = (body[i:i + size] for i in range(0, len(body), size))
        connection.request("POST", path, pieces, {**headers, "Transfer-Encoding": "chunked"}, encode_chunked=True)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_chunked_bodies(s):
    service = unique()
    form, headers = multipart(profile=gzip.compress(Pprof(("a;b", 3)).encode()))
    query = "/ingest?" + urllib.parse.urlencode({"name": service, "spyName": "gospy"})
    assert chunked(s, query, form, headers) == (200, b"")
    assert chunked(s, query, b"c;d 4\n" * 3, {}) == (200, b"")
    assert s.stacks(service) == {"a;b": 3, "c;d": 120_000_000}


def test_as_pyroscope_go_sends(s):
    service, now = unique(), time.time_ns()
    name = service + "{__session_id__=0102030405060708,kit=go,otel.scope.name=com.grafana.pyroscope/go,runtime=OpenJDK 17.0.15+6}"
    config = {"contentions": {"units": "lock_samples", "display-name": "block_count"}, "delay": {"units": "lock_nanoseconds", "display-name": "block_duration"}}
    types = (("contentions", "count"), ("delay", "nanoseconds"))
    profile = Pprof(("main;lock", [2, 50]), types=types, period_type=("contentions", "count"), time_ns=0).encode()
    form, headers = multipart(profile=gzip.compress(profile), sample_type_config=json.dumps(config).encode())
    old = headers["Content-Type"].split("=")[1]
    boundary = "8f" * 30
    reply = s.ingest(name, form.replace(old.encode(), boundary.encode()), {"Content-Type": "multipart/form-data; boundary=" + boundary, "User-Agent": "Go-http-client/1.1"},
                     spyName="gospy", sampleRate="0", units="", aggregationType="", **{"from": str(now - 10**10), "until": str(now)}).expect(200)
    assert reply.body == b""
    assert s.types(service) == ["block:contentions:count:contentions:count", "block:delay:nanoseconds:contentions:count"]
    assert s.stacks(service, "block:delay:nanoseconds:contentions:count") == {"main;lock": 50}
    assert s.series(service, "kit", "otel.scope.name", "runtime", "__session_id__", "app_name", "pyroscope_spy") == [
        {"kit": "go", "otel.scope.name": "com.grafana.pyroscope/go", "runtime": "OpenJDK 17.0.15+6", "pyroscope_spy": "gospy"}]


def test_as_node_sends(s):
    """A gzipped body as it is, times in seconds, a sample rate that scales nothing."""
    service, now = unique(), int(time.time())
    profile = Pprof(("(anonymous);work", [2, 1700]), types=(("samples", "count"), ("wall", "nanoseconds")), period_type=("wall", "nanoseconds"), time_ns=0)
    s.ingest(service + "{process.runtime.name=nodejs}", gzip.compress(profile.encode()), {"Content-Type": "application/octet-stream"}, format="pprof", spyName="nodespy",
             sampleRate="17", **{"from": str(now - 60), "until": str(now)}).expect(200)
    assert s.stacks(service, "wall:wall:nanoseconds:wall:nanoseconds") == {"(anonymous);work": 1700}


def scripted(filename, time_ns=0):
    p = Pprof(time_ns=time_ns, types=(("samples", "count"),), period_type=("", "milliseconds"))
    p.add([p.location("func1"), p.location("main")], 10)
    for f in p.functions:
        f[3] = p.text(filename)
    return p.encode()


@pytest.mark.parametrize("filename, stack", [("qwe.py", "qwe.py func1;qwe.py main"), ("/abs/qwe.py", "func1;main")])
def test_as_older_python_sends(s, filename, stack):
    """Times in milliseconds where nanoseconds belong are of 1970: the request's time counts."""
    service = unique()
    form, headers = multipart(profile=scripted(filename, int(time.time() * 1000)))
    s.ingest(service, form, headers, spyName="pyspy").expect(200)
    assert s.stacks(service, SAMPLES) == {stack: 10}


NOTHING = [
    ("empty-raw", b"", {}, {"format": "pprof"}), ("empty-part", *multipart(profile=b""), {}), ("only-previous", *multipart(prev_profile=b"x"), {}),
    ("profile-of-a-span", b"a 1\n", {}, {"name": "%s{profile_id=0102030405060708}"}),
]


@pytest.mark.parametrize("name, body, headers, params", NOTHING, ids=[n[0] for n in NOTHING])
def test_nothing_is_accepted(s, name, body, headers, params):
    service = unique()
    s.call("POST", "/ingest?" + urllib.parse.urlencode({"name": service, **{k: v.replace("%s", service) for k, v in params.items()}}), body, headers, push=True).expect(200)
    s.send(("seen", 1), service=service)
    assert s.stacks(service) == {"seen": 1}


def test_first_of_several_parts_counts(s):
    service = unique()
    one, headers = multipart(profile=Pprof(("first", 1)).encode())
    two, _ = multipart(profile=Pprof(("second", 1)).encode())
    end = one.rindex(b"--conformance-boundary--")
    reply = s.ingest(service, one[:end] + two, headers).expect(200)
    assert s.stacks(service) == {"first": 1} and reply.headers["Flametree-Discarded"] == "ignored_part=1"


def test_part_with_an_empty_file_name_is_a_value(s):
    service = unique()
    form, headers = multipart(profile=Pprof(("a", 3)).encode())
    reply = s.ingest(service, form.replace(b'filename="profile.bin"', b'filename=""'), headers).expect(200)
    s.send(("seen", 1), service=service)
    assert s.stacks(service) == {"seen": 1} and reply.headers["Flametree-Discarded"] == "ignored_part=1"


def test_part_of_another_name_is_told(f, s):
    told = 'flametree_distributor_discarded_parts_total{reason="ignored_part",tenant="anonymous"}'
    before = f.metric(told) or 0
    form, headers = multipart(file=Pprof(("a", 3)).encode())
    assert s.ingest(unique(), form, headers).expect(200).headers["Flametree-Discarded"] == "ignored_part=1"
    form, headers = multipart(jfr=Jfr().setting("interval", "5 ms").sample(1).encode(), profile=b"")
    assert s.ingest(unique(), form, headers, format="jfr").expect(200).headers["Flametree-Discarded"] == "ignored_part=1"
    form, headers = multipart(profile=Pprof(("a", 3)).encode(), sample_type_config=b"{}")
    assert "Flametree-Discarded" not in s.ingest(unique(), form, headers).expect(200).headers
    assert f.metric(told) == before + 2


FORM, FORM_HEADERS = multipart(profile=Pprof(("a", 1)).encode())
REFUSED = [
    ("form-as-raw-pprof", FORM, FORM_HEADERS, {"format": "pprof"}, 422, "parsing IngestInput-pprof failed"),
    ("no-boundary", FORM, {"Content-Type": "multipart/form-data"}, {}, 422, "no multipart boundary param"),
    ("cut-form", FORM[:-30], FORM_HEADERS, {}, 422, "parsing IngestInput-pprof failed"),
    ("bad-configuration", *multipart(profile=Pprof(("a", 1)).encode(), sample_type_config=b"{"), {}, 422, "sample_type_config"),
    ("no-good-line", b"\nmain;work\na x\n", {}, {}, 422, 'line 2: no count behind a space'),
    ("utf-32", "\ufeffa 1\n".encode("utf-32-le"), {}, {}, 422, "text in UTF-32"),
    ("unknown-suffix", b"a 1\n", {}, {"name": "app.gizmo"}, 400, "pyroscopeIngesterAdapter failed to convert metadata: unknown profile type: gizmo"),
    ("count-that-overflows", b"a 9223372036854775807\n", {}, {}, 400, "does not fit 64 bits"),
]


@pytest.mark.parametrize("name, body, headers, params, status, text", REFUSED, ids=[r[0] for r in REFUSED])
def test_refusals(s, name, body, headers, params, status, text):
    s.call("POST", "/ingest?" + urllib.parse.urlencode({"name": unique(), **params}), body, headers, push=True).expect(status, text)


BAD_TIMES = [
    ("no-time", {"from": "abc"}, "from: 'abc' is not a time; examples: now-1h30m"), ("negative", {"from": "-5"}, "from: '-5' is not a time"),
    ("until", {"from": "now-1m", "until": "tomorrow"}, "until: 'tomorrow' is not a time"), ("backwards", {"from": "now-10s", "until": "now-20s"}, "from: 'now-10s' is after until 'now-20s'"),
    ("before-1970", {"from": "1969-12-31T23:59:59Z"}, "from: '1969-12-31T23:59:59Z' is before 1970"), ("unit", {"from": "now-5parsecs"}, "from: 'now-5parsecs' is not a time"),
    ("no-date", {"from": "2026-02-30T00:00:00Z"}, "is not a time"), ("exponent", {"from": "1.7e9"}, "is not a time"),
    ("far-backwards", {"from": "now+1d", "until": "now"}, "is after until 'now', and outside of ingestion window"),
]
FORMS = {"text": (b"a 1\n", {}), "pprof": (Pprof(("a", 1)).encode(), {"format": "pprof"}), "jfr": (b"FLR\0", {"format": "jfr"})}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("params, told", [row[1:] for row in BAD_TIMES], ids=[row[0] for row in BAD_TIMES])
def test_times_that_cannot_be_are_refused_by_name(s, form, params, told):
    service, (body, more) = unique(), FORMS[form]
    reply = s.call("POST", "/ingest?" + urllib.parse.urlencode({"name": service, **params, **more}), body, push=True).expect(400, code="invalid_argument")
    assert told in reply.message(), reply
    assert service not in s.ok("LabelValues", name="service_name").get("names", [])


def test_an_end_that_an_agent_cut_to_its_period_is_taken(s):
    """Go's agent ends its last upload at a multiple of its period, which may lie before that upload's begin."""
    service, at = unique(), int(time.time()) - 60
    s.ingest(service, b"a 1\n", sampleRate="0", **{"from": "%d258135135" % at, "until": "%d000000000" % (at // 15 * 15)}).expect(200)
    assert s.stacks(service, "process_cpu:samples:count::", start=at * 1000, end=at * 1000 + 999) == {"a": 1}
    s.ingest(unique(), b"a 1\n", **{"from": "%d000000000" % at, "until": "%d000000000" % (at - 1)}).expect(400, "is after until")
    s.ingest(unique(), b"a 1\n", **{"from": "%d258135135" % at, "until": "%d000000000" % (at - 60)}).expect(400, "is after until")


def test_refused_times_and_names_are_counted(s):
    def count(reason):
        text = s.call("GET", "/metrics").expect(200).text
        return sum(float(line.split()[-1]) for line in text.splitlines() if line.startswith("flametree_distributor_discarded_samples_total{") and 'reason="%s"' % reason in line)
    before = count("malformed_profile"), count("invalid_labels")
    s.ingest(unique(), b"a 1\n", **{"from": "abc"}).expect(400)
    s.ingest("app{=x}", b"a 1\n").expect(400)
    assert (count("malformed_profile"), count("invalid_labels")) == (before[0] + 1, before[1] + 1)


GOOD_TIMES = [("%d", 1), ("%d.25", 1), ("%d", 1000), ("%d", 1000_000), ("%d", 1000_000_000), ("%d.5", 1000)]


@pytest.mark.parametrize("text, unit", GOOD_TIMES)
def test_times_are_read_by_their_digits(s, text, unit):
    service, at = unique(), int(time.time()) - 100
    s.ingest(service, b"a 1\n", sampleRate="0", **{"from": text % (at * unit), "until": None}).expect(200)
    assert s.stacks(service, "process_cpu:samples:count::", start=at * 1000 - 1, end=at * 1000 + 999) == {"a": 1}


def test_rfc3339_is_read_with_its_zone_even_if_nobody_escaped_it(s):
    at = int(time.time()) - 100
    local = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at + 5400))
    for text in (local + "%2B01:30", local + "+01:30", local.replace("T", "%20") + ".5%2B01:30"):
        service = unique()
        s.call("POST", "/ingest?name=%s&sampleRate=0&from=%s" % (service, text), b"a 1\n", push=True).expect(200)
        assert s.stacks(service, "process_cpu:samples:count::", start=at * 1000 - 1, end=at * 1000 + 999) == {"a": 1}


OTHER_NAMES = ["my shop", "größe", "shop 2.1", "example.org/shop", "https://example.org/a?b", "日本", "a:b|c"]


@pytest.mark.parametrize("name", OTHER_NAMES)
def test_services_with_any_name_are_the_same_by_every_way(s, name):
    """By a push, and as text, pprof and JFR would have it on /ingest."""
    service = name + " " + unique()
    labels = {"process-description": "x y", "k8s.io/part-of": "ü", "1st": "z"}
    pairs = ",".join("%s=%s" % pair for pair in labels.items())
    s.ingest("%s{%s}" % (service, pairs), b"a 1\n", sampleRate="0").expect(200)
    s.ingest("%s{%s}" % (service, pairs), Pprof(("b", 2)).encode(), format="pprof").expect(200)
    s.push({"__name__": "process_cpu", "service_name": service, **labels}, Pprof(("c", 3))).expect(200)
    rows = s.series(service, "service_name", *labels)
    assert rows == [{"service_name": service, **labels}]
    assert s.stacks(service) == {"b": 2, "c": 3} and s.stacks(service, "process_cpu:samples:count::") == {"a": 1}


def test_times_of_pprof_that_cannot_be_are_told(s):
    service = unique()
    reply = s.push({"__name__": "process_cpu", "service_name": service}, Pprof(("a", 1), time_ns=-5)).expect(400, code="invalid_argument")
    assert "has the time -5 ns (time_nanos), which is before 1970" in reply.message()
    s.ingest(service, Pprof(("a", 1), time_ns=-5).encode(), format="pprof").expect(422, "before 1970")
    assert service not in s.ok("LabelValues", name="service_name").get("names", [])


SERVICES = [
    ("given-as-text", "%s.cpu{service_name=%s-s}", "text", {"service_name": "%s-s", "app_name": "%s"}), ("given-as-pprof", "%s{service_name=%s-s}", "pprof", {"service_name": "%s-s"}),
    ("application-of-its-own", "%s{service_name=%s-s,app_name=mine}", "text", {"service_name": "%s-s", "app_name": "mine"}),
    ("pprof-keeps-the-suffix", "%s.cpu", "pprof", {"service_name": "%s.cpu"}), ("private-labels-are-left-out", "%s{__x__=1,y=2}", "text", {"service_name": "%s", "y": "2"}),
]


@pytest.mark.parametrize("name, app, kind, labels", SERVICES, ids=[r[0] for r in SERVICES])
def test_services(s, name, app, kind, labels):
    unit = unique()
    wanted = {k: v.replace("%s", unit) for k, v in labels.items()}
    body = b"a 1\n" if kind == "text" else Pprof(("a", 1)).encode()
    s.ingest(app.replace("%s", unit), body, format="pprof" if kind == "pprof" else None).expect(200)
    assert s.series(wanted["service_name"], "service_name", "app_name", "y", "__x__") == [wanted]


def test_counts_of_a_stack_may_be_taken_back(s):
    service = unique()
    s.ingest(service + ".alloc_objects", "a;b 5\na;b -3\r\nc -1\nd +2\n").expect(200)
    assert s.stacks(service, "memory:alloc_objects:count::") == {"a;b": 2, "c": -1, "d": 2}


# ---- files of other tools

FRAME = "\t401b97 work+0x1f (/usr/bin/shop)\n\t401b00 main+0x2 (/usr/bin/shop)\n\n"
PERF = "shop  77/77 [001] 12.5: 1 cycles:\n" + FRAME + "shop  77/79 [001] 12.5: 1 cycles:\n" + FRAME + "a b  80/80 [001] 12.6: 1 cycles:\n" + FRAME + "shop 77/77 12.7: 1 faults:\n" + FRAME
WALL = "wall:wall:nanoseconds:wall:nanoseconds"


def v8_node(id, name, **more):
    return {"id": id, "callFrame": {"functionName": name, "scriptId": "0", "url": "file:///app.js", "lineNumber": 3, "columnNumber": 0}, **more}


def piece(pid, ts, nodes, samples, deltas, id="0x1"):
    return {"args": {"data": {"cpuProfile": {"nodes": nodes, "samples": samples}, "timeDeltas": deltas}}, "name": "ProfileChunk", "ph": "P", "pid": pid, "tid": 99, "id": id, "ts": ts}


CPUPROFILE = json.dumps({"nodes": [v8_node(1, "(root)", children=[2]), v8_node(2, "work")], "startTime": 5, "endTime": 905, "samples": [2, 1, 2], "timeDeltas": [100, 200, 300]})
HEAPPROFILE = json.dumps({"head": v8_node(1, "(root)", selfSize=0, children=[v8_node(2, "alloc", selfSize=64, children=[])])})
TRACE = [
    {"args": {"name": "CrRendererMain"}, "name": "thread_name", "ph": "M", "pid": 7, "tid": 8, "ts": 0},
    {"args": {"data": {"startTime": 5}}, "name": "Profile", "ph": "P", "pid": 7, "tid": 8, "id": "0x1", "ts": 5},
    {"args": {"data": {"url": "x"}}, "name": "RunTask", "ph": "X", "pid": 7, "tid": 8, "ts": 6, "dur": 1},
    piece(7, 9, [v8_node(1, "(root)"), v8_node(2, "work", parent=1)], [2, 1], [10, 20]),
    piece(7, 12, [v8_node(3, "leaf", parent=2)], [3, 2], [30, 40]),
    piece(6, 9, [v8_node(1, "(root)")], [1, 1], [0, 5]),
]
LEGACY = "goroutine profile: total 3\n2 @ 0x5 0x9\n#\t0x4\tmain.wait+0x1\t/m.go:3\n#\t0x8\tmain.main+0x2\t/m.go:9\n\n1 @ 0x9\n#\t0x8\tmain.main+0x2\t/m.go:9\n"
HEAP = "heap profile: 1: 8 [2: 16] @ heap/1\n1: 8 [2: 16] @ 0x10 0x20\n"

TOOLS = [
    ("perf", PERF, {CPU: {"shop;main;work": 20_000_000, "a_b;main;work": 10_000_000}, "perf:faults:count::": {"shop;main;work": 1}}),
    ("legacy", LEGACY, {"goroutines:goroutine:count:goroutine:count": {"main.main": 1, "main.main;main.wait": 2}}),
    ("cpuprofile", CPUPROFILE, {WALL: {"(root)": 300_000, "(root);work": 500_000}, "wall:samples:count:wall:nanoseconds": {"(root)": 1, "(root);work": 2}}),
    ("heapprofile", HEAPPROFILE, {"memory:inuse_space:bytes::": {"(root);alloc": 64}}),
    ("chrome", json.dumps(TRACE), {WALL: {"(root)": 35_000, "(root);work": 20_000, "(root);work;leaf": 40_000},
                                   "wall:samples:count:wall:nanoseconds": {"(root)": 3, "(root);work": 2, "(root);work;leaf": 1}}),
]


@pytest.mark.parametrize("packed", [False, True], ids=["plain", "gzip"])
@pytest.mark.parametrize("format, body, wanted", TOOLS, ids=[t[0] for t in TOOLS])
def test_files_of_other_tools(s, format, body, wanted, packed):
    service, bytes = unique(), body.encode()
    s.ingest(service + "{region=eu}", gzip.compress(bytes) if packed else bytes, {"Content-Encoding": "gzip"} if packed else {}, format=format, spyName="me").expect(200)
    assert s.types(service) == sorted(wanted)
    for kind, stacks in wanted.items():
        assert s.stacks(service, kind) == stacks
    assert all(one == {"region": "eu", "pyroscope_spy": "me"} for one in s.series(service, "region", "pyroscope_spy"))


def test_samples_of_perf_have_their_command_and_process(s):
    service = unique()
    s.ingest(service, PERF.encode(), format="perf").expect(200)
    by = lambda labels: sorted(labels.items())
    assert sorted(s.series(service, "comm", "pid"), key=by) == [{"comm": "a b", "pid": "80"}, {"comm": "shop", "pid": "77"}]
    assert s.stacks(service, selector='pid="77"') == {"shop;main;work": 20_000_000}


def test_perf_is_typed_as_text_is(s):
    wall, counts = unique(), unique()
    s.ingest(wall + ".wall", PERF.encode(), format="perf", sampleRate="1000").expect(200)
    assert s.stacks(wall, "wall:wall:nanoseconds:cpu:nanoseconds") == {"shop;main;work": 2_000_000, "a_b;main;work": 1_000_000}
    s.ingest(counts + ".exceptions", PERF.encode(), format="perf").expect(200)
    assert s.stacks(counts, "exceptions:samples:count::") == {"shop;main;work": 2, "a_b;main;work": 1}


def test_profiles_of_a_trace_have_their_thread_and_process(s):
    service = unique()
    # Chrome that was killed left no end.
    s.ingest(service, json.dumps(TRACE)[:-1].encode() + b",\n", format="chrome").expect(200)
    series = {(one["profile_name"], one["pid"]) for one in s.series(service, "profile_name", "pid")}
    assert series == {("CrRendererMain", "7"), ("0x1", "6")}
    assert s.stacks(service, WALL, 'pid="6"') == {"(root)": 5_000}
    whole = unique()
    event = {"args": {"data": {"cpuProfile": json.loads(CPUPROFILE)}}, "name": "CpuProfile", "ph": "I", "pid": 3, "tid": 4, "ts": 1}
    s.ingest(whole, json.dumps({"traceEvents": [event], "metadata": {}}).encode(), format="chrome").expect(200)
    assert s.stacks(whole, WALL) == {"(root)": 300_000, "(root);work": 500_000}


def test_values_of_a_heap_before_pprof(s):
    service = unique()
    s.ingest(service, HEAP.encode(), format="legacy").expect(200)
    assert {kind.split(":")[1] for kind in s.types(service)} == {"inuse_objects", "inuse_space", "alloc_objects", "alloc_space"}


BAD_FILES = [
    ("perf", b"", 422, "parsing IngestInput-perf failed"), ("perf", b"main;work 12\n", 422, "no sample in this text of perf script"),
    ("legacy", b"", 422, "parsing IngestInput-legacy failed"), ("legacy", b"goroutine profile: total 3\n2 @ 0x5 9\n", 422, "line 2: bad address"),
    ("cpuprofile", b"", 422, "parsing IngestInput-cpuprofile failed"), ("cpuprofile", CPUPROFILE[:-1].encode(), 422, "JSON"),
    ("cpuprofile", HEAPPROFILE.replace("head", "x").encode(), 422, "no nodes"), ("cpuprofile", b'{"nodes":' + b"[" * 5000, 422, "parsing IngestInput-cpuprofile failed"),
    ("heapprofile", b"{}", 422, "parsing IngestInput-heapprofile failed"), ("heapprofile", HEAPPROFILE.replace("64", "1e300").encode(), 422, "does not fit 64 bits"),
    ("chrome", b"", 422, "parsing IngestInput-chrome failed"), ("chrome", b"[]", 422, "no CPU profile in this trace"), ("chrome", json.dumps(TRACE)[:-3].encode(), 422, "JSON"),
    ("chrome", json.dumps(TRACE[:2]).encode(), 422, "1 begin, and their pieces (ProfileChunk) are missing"), ("chrome", b"[" * 5000, 422, "parsing"),
]


@pytest.mark.parametrize("format, body, status, text", BAD_FILES, ids=["%s-%d" % (b[0], i) for i, b in enumerate(BAD_FILES)])
def test_bad_files_of_other_tools(s, format, body, status, text):
    s.ingest(unique(), body, format=format).expect(status, text)


BAD_TEXTS = [("perf", PERF.replace("work", "\x80").encode("latin-1")), ("perf", PERF.replace("a b", "a\x80").replace("work", "x").encode("latin-1")),
             ("legacy", LEGACY.replace("main.wait", "\x80").encode("latin-1"))]


@pytest.mark.parametrize("format, body", BAD_TEXTS)
def test_names_that_are_no_utf8_are_mended_and_told(s, format, body):
    service = unique()
    assert "bad_text=" in s.ingest(service, body, format=format).expect(200).headers["Flametree-Discarded"]
    text = json.dumps([s.series(service, "comm"), [sorted(s.stacks(service, type)) for type in s.types(service)]], ensure_ascii=False)
    assert "\ufffd" in text, text


def test_names_and_sizes_of_files_of_other_tools(s):
    s.ingest(unique() + ".gizmo", PERF.encode(), format="perf").expect(400, "unknown profile type: gizmo")
    dotted = unique() + ".gizmo"
    s.ingest(dotted, CPUPROFILE.encode(), format="cpuprofile").expect(200)  # has types of its own, so this is the whole name
    assert s.stacks(dotted, WALL) == {"(root)": 300_000, "(root);work": 500_000}
    s.ingest("a{", PERF.encode(), format="cpuprofile").expect(422)
    with Flametree("--limits.ingestion_body_limit_mb", "0.001", "--limits.max_profile_size_bytes", "20") as f:
        small = Server(f.url, strict=True)
        for format, body, _ in TOOLS:
            small.ingest(unique(), b" " * 2000 + body.encode(), format=format).expect(413, "request body too large")
            small.ingest(unique(), body.encode(), format=format).expect(413 if len(body) > 1048 else 400 if format == "perf" else 422, "too large" if len(body) > 1048 else "exceeds")


# ---- rules

RULES = """[{action: drop, separator: /, source_labels: [__name__, span_name], regex: process_cpu/noise},
 {action: uppercase, source_labels: [region], target_label: region}, {action: labelmap, regex: 'meta_(.*)'}, {action: labeldrop, regex: 'meta_.*'}]"""
TYPES = "[{action: drop, source_labels: [__name__, __type__], separator: /, regex: 'memory/alloc_.*'}]"


@pytest.fixture(scope="module")
def ruled():
    with Flametree("--limits.ingestion_relabeling_rules", RULES, "--limits.sample_type_relabeling_rules", TYPES, "--limits.max_sessions_per_series", "2",
                   "--limits.disable_label_sanitization=false") as f:
        yield f, Server(f.url, strict=True)


def test_rules_of_series_and_sample_types(ruled):
    f, s = ruled
    dropped = 'flametree_distributor_discarded_%s_total{reason="dropped_by_relabel_rules",tenant="anonymous"}'
    service = unique()
    s.ingest(service + "{region=eu,meta_a.b=1,__session_id__=0300000000000000}", Pprof(("a", 2, {"span_name": "noise"}), ("b", 3)).encode(), format="pprof").expect(200)
    assert s.stacks(service) == {"b": 3}
    assert s.series(service, "region", "a_b", "meta_a.b", "meta_a_b", "__session_id__") == [{"region": "EU", "a_b": "1", "__session_id__": "0100000000000000"}]
    assert f.metric(dropped % "bytes") > 0 and not f.metric(dropped % "samples")
    s.ingest(unique(), Pprof(("a", 2, {"span_name": "noise"})).encode(), format="pprof").expect(200)
    assert f.metric(dropped % "samples") == 1
    types = (("alloc_space", "bytes"), ("inuse_space", "bytes"))
    heap = unique()
    s.ingest(heap, Pprof(("a", [5, 0]), ("b", [7, 9]), types=types, period_type=("space", "bytes")).encode(), format="pprof").expect(200)
    assert s.types(heap) == ["memory:inuse_space:bytes:space:bytes"]
    assert s.stacks(heap, "memory:inuse_space:bytes:space:bytes") == {"b": 9}
    dropped_bytes = f.metric(dropped % "bytes")
    body = Pprof(("a", 5), types=(("alloc_space", "bytes"),), period_type=("space", "bytes")).encode()
    s.ingest(unique(), body, format="pprof").expect(200)  # nothing of it is left
    assert f.metric(dropped % "samples") == 2 and f.metric(dropped % "bytes") == dropped_bytes + len(body)


def test_bad_rules_are_told_at_start():
    f = Flametree("--limits.ingestion_relabeling_rules", "[{action: drop}, {action: keep, regex: '('}]")
    with pytest.raises(Exception, match=r"ingestion_relabeling_rules.*regex: error parsing regexp: missing \)"):
        with f:
            pass
