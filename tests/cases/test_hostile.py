"""More of the kinds of test_cases.py: what a reviewer tries next. Values stay, names are mended, and what is told is told once."""
import gzip
import json
import time

import pytest
from cli import ok, run
from client import CPU, Pprof, select, unique
from flametree import Flametree
from otlp import otlp_request

UNKNOWN = "[unknown]"
BINARY = {"Content-Type": "application/x-protobuf"}


@pytest.fixture(scope="module")
def f():
    with Flametree() as f:
        yield f


@pytest.fixture
def s(f):
    f.check_alive()
    return f.server()


def answers(s, service, type=CPU):
    """Every question that meets what was pushed is answered; returns {stack: self}."""
    for group in ([], ["k", "service_name"]):
        s.ok("SelectSeries", profileTypeID=type, labelSelector=select(service), step=15.0, groupBy=group)
    s.ok("Series", matchers=[select(service)], labelNames=[])
    s.ok("LabelValues", name="k", matchers=[select(service)])
    for shape in ("TREE", "DOT", "PPROF", "FUNCTIONS"):
        s.ok("SelectMergeStacktraces", profileTypeID=type, labelSelector=select(service), format="PROFILE_FORMAT_" + shape)
    return s.stacks(service, type)


SPEEDSCOPE = {"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {"frames": [{"name": "a\0b"}]},
              "profiles": [{"type": "sampled", "name": "n", "unit": "milliseconds", "startValue": 0, "endValue": 5, "samples": [[0]], "weights": [5]}]}
ZEROS = [
    ("pprof", lambda s, v: s.push({"__name__": "process_cpu", "service_name": v}, Pprof((["m", "a\0b"], 5_000_000))), {"m;a\ufffdb": 5_000_000}),
    ("label", lambda s, v: s.push({"__name__": "process_cpu", "service_name": v}, Pprof((["m"], 5_000_000, {"k": "v\0w"}))), {"m": 5_000_000}),
    ("folded", lambda s, v: s.ingest(v, "m;a\0b 1\n", sampleRate="200"), {"m;a\ufffdb": 5_000_000}),
    ("speedscope", lambda s, v: s.ingest(v, json.dumps(SPEEDSCOPE), format="speedscope"), {"a\ufffdb": 5_000_000}),
    ("otlp", lambda s, v: s.call("POST", "/v1development/profiles", otlp_request(v, ("m;a\0b", 3), resource=[("k", "v\0w")], time_ns=time.time_ns() - 10**9), BINARY, push=True), {"m;a\ufffdb": 30_000_000}),
]


@pytest.mark.parametrize("send, stacks", [z[1:] for z in ZEROS], ids=[z[0] for z in ZEROS])
def test_a_zero_in_a_name_spoils_no_answer(s, send, stacks):
    service = unique()
    send(s, service).expect(200)
    assert answers(s, service) == stacks


FILES = {"folded": b"m;a 5\nm;b 7\n", "lines": b"m;a\nm;a\n", "trace": b'[{"ph":"X","name":"a","ts":1,"dur":5,"pid":1,"tid":1}]', "callgrind": b"events: Ir\nfn=a\n1 4\n",
         "speedscope": json.dumps(SPEEDSCOPE).replace("\\u0000", "").encode(), "perf": b"app 13 7.000001: 5 cpu-clock: \n\t400000 f (/a)\n"}


@pytest.mark.parametrize("format", FILES)
def test_a_file_that_is_gzipped_is_stored_as_the_file_is(s, format):
    seen = []
    for data in (FILES[format], gzip.compress(FILES[format])):
        service = unique()
        s.ingest(service, data, format=format).expect(200)
        seen.append({t: s.stacks(service, t) for t in s.types(service)})
    assert seen[0] and seen[0] == seen[1], seen


TEXTS = [("long first line", b"x" * 70_000 + b";a 5\nm;b 7\n", 12), ("many frames", b";".join(b"f%d" % i for i in range(20_000)) + b" 5\nm 1\n", 6), ("returns", b"m;a 5\rm;b 7\r", 12),
         ("utf-16 without a mark", "m;a 5\nm;b 7\n".encode("utf-16-le"), 12), ("gzipped mark", gzip.compress(b"\xef\xbb\xbfm;a 5\nm;b 7\n"), 12)]


@pytest.mark.parametrize("data, samples", [t[1:] for t in TEXTS], ids=[t[0] for t in TEXTS])
def test_text_in_any_form_keeps_all_lines(f, s, data, samples, tmp_path):
    path, service = tmp_path / "t.folded", unique()
    path.write_bytes(data)
    folded = ok("convert", str(path), "-", "--to", "folded", *(["--format", "folded"] if b"\0" in data else []))
    assert sum(int(line.rsplit(" ", 1)[1]) for line in folded.splitlines()) == samples
    s.ingest(service, data, format="folded").expect(200)
    assert int(s.flamegraph(service)["total"]) == samples * 10**7


def test_an_assumed_rate_is_said_once(f, tmp_path):
    path = tmp_path / "x.folded"
    path.write_text("m;a 5\nno count\n")
    told = run("push", str(path), "--label", "service_name=" + unique(), url=f.url).stderr
    assert told.count("100 Hz") == 1 and "assumed_rate=" not in told and told.count("bad_line=1") == 1, told
    quiet = run("push", "--quiet", str(path), "--label", "service_name=" + unique(), url=f.url).stderr
    assert "100 Hz" not in quiet and "assumed_rate=" not in quiet and quiet.count("bad_line=1") == 1, quiet


def test_a_type_that_is_there_twice_has_both_values(s):
    service = unique()
    s.push({"__name__": "x", "service_name": service}, Pprof(("m;a", [5, 6]), types=(("x", "count"), ("x", "count")), period_type=None)).expect(200)
    (type,) = s.types(service)
    assert s.stacks(service, type) == {"m;a": 11}


def test_a_label_without_a_name_does_not_take_its_profile_with_it(s):
    service = unique()
    reply = s.push({"__name__": "process_cpu", "service_name": service}, Pprof(("m;a", 5, {"": "v"}), ("m;b", 6, {"k": "v"}))).expect(200)
    assert reply.headers["Flametree-Discarded"] == "labels_limit=1" and s.stacks(service) == {"m;a": 5, "m;b": 6}


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_otlp_as_json_may_have_a_byte_order_mark(s, encoding):
    service = unique()
    dictionary = {"stringTable": ["", "samples", "count", "cpu", "nanoseconds", "main"], "functionTable": [{}, {"nameStrindex": 5}], "locationTable": [{}, {"lines": [{"functionIndex": 1}]}],
                  "stackTable": [{}, {"locationIndices": [1]}], "mappingTable": [{}], "linkTable": [{}], "attributeTable": [{}]}
    profile = {"sampleType": {"typeStrindex": 1, "unitStrindex": 2}, "samples": [{"stackIndex": 1, "values": ["5"]}], "timeUnixNano": str(time.time_ns() - 10**9),
               "periodType": {"typeStrindex": 3, "unitStrindex": 4}, "period": "10000000"}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": service}}]}
    body = json.dumps({"resourceProfiles": [{"resource": resource, "scopeProfiles": [{"profiles": [profile]}]}], "dictionary": dictionary}).encode(encoding)
    s.call("POST", "/v1development/profiles", body, {"Content-Type": "application/json"}, push=True).expect(200)
    assert s.stacks(service) == {"main": 50_000_000}


SCRIPTS = [("tracepoint", "app 13 [001] 7.%06d: sched:sched_switch: prev_comm=app prev_pid=13 ==> next_comm=x next_pid=0\n\t400000 main+0x2 (/bin/app)\n\n"),
           ("without stacks", "app 13 [001] 7.%06d: cycles:u: \n\n")]


@pytest.mark.parametrize("lines", [x[1] for x in SCRIPTS], ids=[x[0] for x in SCRIPTS])
def test_perf_script_of_any_event_is_recognised(lines, tmp_path):
    path = tmp_path / "p.txt"
    path.write_text("".join(lines % i for i in range(3)))
    assert sum(int(line.rsplit(" ", 1)[1]) for line in ok("convert", str(path), "-", "--to", "folded").splitlines()) == 3


def test_a_sample_of_otlp_whose_stack_is_not_there_is_unknown(s):
    service = unique()
    body = otlp_request(service, ("main;work", 3), time_ns=time.time_ns() - 10**9)
    # Its only stack is row 1 of the table.
    at = body.index(b"\x08\x01\x22\x01\x03")
    s.call("POST", "/v1development/profiles", body[:at] + b"\x08\x09" + body[at + 2:], BINARY, push=True).expect(200, "unknown_stack")
    assert s.stacks(service) == {UNKNOWN: 30_000_000}
