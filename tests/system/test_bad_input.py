"""Bad input gets its status, code, message and discard reason, and what is valid beside it is kept."""
import gzip
import json
import random
import time

import pytest
from client import CPU, PUSH, Pprof, multipart, pb, table, unique

NOW = {"__name__": "process_cpu"}


def labels(service, **more):
    return {**NOW, "service_name": service, **more}


def good():
    return Pprof(("main;work", 3), ("main;idle", 4))


def raw():
    return good().encode()


def spoiled(table_name, row, column, value):
    p = good()
    rows = getattr(p, table_name)
    if column is None:
        rows[row] = value
    else:
        rows[row][column] = value
    return p.encode()


def bomb():
    return gzip.compress(b"\0" * 64_000_000, 9)


MALFORMED = "malformed_profile"
# name, profile bytes or further labels, part of the message, discard reason
REFUSED = [
    ("truncated", raw()[:-3], "", MALFORMED),
    ("cut-in-the-first-field", raw()[:1], "", MALFORMED),
    ("cut-gzip", gzip.compress(raw())[:-9], "", MALFORMED),
    ("garbage-after-gzip", gzip.compress(raw()) + b"garbage", "", MALFORMED),
    ("no-profile-at-all", b"GET / HTTP/1.1\r\n\r\n", "", MALFORMED),
    ("empty-profile", b"", "", MALFORMED),
    ("gzip-bomb", bomb(), "uncompressed profile payload size exceeds limit of 4.2 MB", "profile_size_limit"),
    ("ten-million-strings", raw() + b"2\0" * 10_000_000, "uncompressed profile payload size exceeds limit of 4.2 MB", "profile_size_limit"),
    ("sample-type-string", spoiled("types", 0, None, (99, 1)), "sample type type string index out of range", MALFORMED),
    ("function-name-string", spoiled("functions", 0, 1, 10**6), "function name string index out of range", MALFORMED),
    ("function-name-string-negative", spoiled("functions", 0, 1, -1), "function name string index out of range", MALFORMED),
    ("label-string", Pprof(("a", 1)).encode() + pb((2, pb((1, 1), (2, 1), (3, pb((1, 77), (2, 1)))))), "sample label string index out of range", MALFORMED),
    ("function-id-0", spoiled("functions", 0, 0, 0), "function id is 0", MALFORMED),
    ("location-id-0", spoiled("locations", 0, 0, 0), "location id is 0", MALFORMED),
    ("too-many-values", Pprof(("a", [1, 2])).encode(), "sample value length mismatch", MALFORMED),
    ("too-few-values", Pprof(("a", [1]), types=(("a", "b"), ("c", "d"))).encode(), "sample value length mismatch", MALFORMED),
    ("bad-utf8", Pprof(("a\udcff", 1)).encode(), "invalid utf8 string", MALFORMED),
    ("group-wire-type", raw() + bytes([15 << 3 | 3, 15 << 3 | 4]), "", MALFORMED),
    ("field-0", raw() + b"\0\0", "", MALFORMED),
    ("too-many-samples", Pprof(*[(["f"], 1)] * 16001).encode(), "max_profile_stacktrace_samples, actual: 16001, limit: 16000", "samples_limit"),
    ("too-many-sample-labels", Pprof(("a", 1, {"k%d" % i: "v" for i in range(101)})).encode(), "max_profile_stacktrace_sample_labels, actual: 101, limit: 100",
     "sample_labels_limit"),
    ("two-hours-old", Pprof(("a", 1), time_ns=time.time_ns() - 7200 * 10**9).encode(), "outside of ingestion window", "not_in_ingestion_window"),
    ("sum-over-int64", Pprof(("a", 2**63 - 1), ("a", 1)).encode(), "", MALFORMED),
    ("total-over-int64", Pprof(("a", 2**63 - 1), ("b", 1)).encode(), "", MALFORMED),
    ("31-labels", {"l%d" % i: "v" for i in range(29)}, "label names; limit 30", "max_label_names_per_series"),
    ("long-label-name", {"n" * 1025: "v"}, "has label name too long: ", "label_name_too_long"),
    ("long-label-value", {"n": "v" * 2049}, "has label value too long: ", "label_value_too_long"),
    ("bad-utf8-label", {"n": "\udcff"}, "", None),
    ("no-metric-name", {"__name__": ""}, "invalid metric name", "invalid_labels"),
]


def discarded(shared, reason):
    return shared.metric('flametree_distributor_discarded_samples_total{reason="%s",tenant="anonymous"}' % reason) or 0


@table("name, bad, text, reason", [(row[0], *row) for row in REFUSED])
def test_refused_with_its_reason_and_the_rest_kept(s, shared, name, bad, text, reason):
    service, other = unique(), unique()
    before = discarded(shared, reason)
    bad_labels = labels(service, **(bad if isinstance(bad, dict) else {}))
    reply = s.push_series([(bad_labels, [good() if isinstance(bad, dict) else bad]), (labels(other), [good()])])
    reply.expect(400, text, code="out_of_range" if name.endswith("-over-int64") else "invalid_argument")
    if reason is None:
        return  # the message as a whole is no protobuf with UTF-8 strings
    assert s.stacks(other) == {"main;work": 3, "main;idle": 4}
    assert s.stacks(service) == {}
    assert discarded(shared, reason) > before, "nothing counted as %s" % reason


# made when the test runs: of a time that it asks for
MENDED = [
    ("negative-values-stay", lambda: Pprof(("a", 5), ("b", -5)).encode(), {"a": 5, "b": -5}),
    ("zero-values-vanish", lambda: Pprof(("a", 5), ("b", 0)).encode(), {"a": 5}),
    ("unknown-location", lambda: Pprof(("a", 5)).encode() + pb((2, pb((1, 77), (2, 9)))), {"a": 5, "[unknown]": 9}),
    ("unknown-function", lambda: Pprof(("a", 5)).encode() + pb((4, pb((1, 50), (4, pb((1, 99)))))) + pb((2, pb((1, 50), (2, 9)))), {"a": 5, "[unknown]": 9}),
    ("unknown-mapping", lambda: spoiled("locations", 0, 1, 99), {"main;work": 3, "main;idle": 4}),
    ("huge-ids", lambda: Pprof(("a", 5)).encode() + pb((5, pb((1, 2**63 + 5), (2, 1))), (4, pb((1, 2**64 - 1), (4, pb((1, 2**63 + 5))))), (2, pb((1, 2**64 - 1), (2, 9)))),
     {"a": 5, "cpu": 9}),
]


@table("make, stacks", MENDED)
def test_mended(s, make, stacks):
    service = unique()
    s.push(labels(service), make()).expect(200)
    assert s.stacks(service) == stacks


def test_million_deep_stack_keeps_its_root_side(s):
    p = Pprof(("root;leaf", 1))
    root, leaf = p.samples[0][0][-1], p.samples[0][0][0]
    p.samples[0][0] = [leaf] * 1_000_000 + [root]
    service = unique()
    s.push(labels(service), p).expect(200)
    (stack, value), = s.stacks(service).items()
    frames = stack.split(";")
    assert value == 1 and frames == ["root"] + ["leaf"] * 999 + ["[truncated stack]"]


def test_flipped_bits_never_break_the_server(s, shared):
    rng = random.Random(7)
    data = Pprof(*[("main;f%d;g%d" % (i % 7, i), i + 1, {"k": "v%d" % (i % 3)}) for i in range(50)]).encode()
    for _ in range(150):
        broken = bytearray(data)
        for _ in range(rng.choice([1, 1, 2, 8])):
            broken[rng.randrange(len(broken))] ^= 1 << rng.randrange(8)
        packed = bytes(broken) if rng.random() < 0.8 else bytes(gzip.compress(bytes(broken)))
        reply = s.push(labels(unique()), packed)
        assert reply.status in (200, 400, 429), reply
    shared.check_alive()
    service = unique()
    s.push(labels(service), data).expect(200)
    assert sum(s.stacks(service).values()) == sum(range(1, 51))


def test_sum_over_int64_in_a_query_is_an_error_not_a_wrap(s):
    service = unique()
    for _ in range(2):
        s.push(labels(service), Pprof(("a", 2**62), ("b", 2**61))).expect(200)
    s.query("SelectMergeStacktraces", profileTypeID=CPU, labelSelector='{service_name="%s"}' % service).expect(400, "", code="out_of_range")


DEEP = "[" * 100_000
JSON = [
    ("depth", '{"series":%s' % DEEP), ("depth-in-unknown-field", '{"x":%s' % DEEP), ("objects", '{"a":' * 100_000), ("no-json", "series"), ("empty", ""),
    ("trailing", "{} {}"), ("wrong-type", '{"series":5}'), ("bad-escape", '{"series":[{"labels":[{"name":"\\ud800"}]}]}'), ("cut", '{"series":['),
]


@table("body", JSON)
def test_bad_json_is_invalid_argument(s, body):
    s.call("POST", PUSH, body, {"Content-Type": "application/json"}, push=True).expect(400, "unmarshal message", code="invalid_argument")


PROTO = [("text", b"hello"), ("cut", pb((1, b"\x0a\x05ab"))), ("group", b"\x0b\x0c"), ("nested", b"\x0a\xff\xff\xff\xff\x0f")]


@table("body", PROTO)
def test_bad_protobuf_is_invalid_argument(s, body):
    s.call("POST", PUSH, body, {"Content-Type": "application/proto"}, push=True).expect(400, "unmarshal message", code="invalid_argument")


@table("content_type", [("missing", None), ("text", "text/plain"), ("x-protobuf", "application/x-protobuf"), ("form", "multipart/form-data; boundary=x")])
def test_wrong_content_type(s, content_type):
    s.call("POST", PUSH, b"", {"Content-Type": content_type} if content_type else {}, push=True).expect(415)


BODIES = [
    ("no-boundary", b"--x\r\n\r\n--x--\r\n", {"Content-Type": "multipart/form-data"}), ("no-end", b"--x\r\nContent-Disposition: form-data; name=\"profile\"; filename=\"p\"\r\n\r\nabc", None),
    ("cut-head", b"--x\r\nContent-Disp", None),
]


@table("body, headers", BODIES)
def test_bad_multipart(s, body, headers):
    s.ingest(unique(), body, headers or {"Content-Type": "multipart/form-data; boundary=x"}).expect(422)


def test_ingest_refuses_what_push_refuses(s):
    for data in (raw()[:-3], b"junk", gzip.compress(raw())[:-9]):
        body, headers = multipart(profile=data)
        s.ingest(unique(), body, headers).expect(422)
    s.ingest(unique(), b"a;b x\n", format="folded").expect(422)
    s.ingest("", b"a;b 1\n", format="folded").expect(400)


def test_errors_name_the_method_not_the_inside(s):
    for method in ("SelectMergeStacktraces", "SelectSeries", "Series"):
        reply = s.rpc("querier.v1.QuerierService/" + method, "{}")
        assert reply.status in (400, 200), reply
        if reply.status == 400:
            assert json.loads(reply.body)["code"] == "invalid_argument"


@pytest.mark.parametrize("selector", ["", "{", "{a=}", '{a="b"', '{a=~"("}', '{a=~"(a{1000}){1000}"}', '{"', "{a=\"b\" c}", "{a='b',,}", "\0", "{" + "a" * 100_000])
def test_bad_selectors(s, selector):
    s.query("SelectMergeStacktraces", profileTypeID=CPU, labelSelector=selector).expect(400, "", code="invalid_argument")
