"""What limits and decoders leave out or mend of profiles that are stored: nothing of it is silent."""
import datetime
import re
import struct
import time

import pytest
from cli import run
from client import CPU, Pprof, fixed64, multipart, packed, pb, unique, unpb
from flametree import Flametree
from jfr import Jfr
from otlp import grpc_export, otlp_request

LIMITS = ("--limits.max_profile_stacktrace_samples=4", "--limits.max_profile_stacktrace_sample_labels=2", "--limits.max_label_names_per_series=6",
          "--limits.max_profile_symbol_value_length=4000")
SURPLUS = "[too many samples]"


@pytest.fixture(scope="module")
def f():
    with Flametree("--auth.multitenancy_enabled=true", *LIMITS) as server:
        yield server


def parts(f, tenant):
    """Counters of a tenant: {(discarded or mended, reason): n}, without those that are 0."""
    text = f.operator().call("GET", "/metrics").body.decode()
    rows = re.findall(r'flametree_distributor_(discarded|mended)_parts_total\{reason="(\w+)",tenant="%s"\} (\d+)' % tenant, text)
    return {(kind, reason): int(n) for kind, reason, n in rows if int(n)}


def lines(f, tenant):
    with open(f.log, encoding="utf-8", errors="strict") as log:
        rows = [dict(re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)', line)) for line in log if " event=push.mended " in line]
    return [row for row in rows if row.get("tenant") == tenant]


def labels(service, **more):
    return {"__name__": "process_cpu", "service_name": service, **more}


def many(n):
    return Pprof(*[("f%d" % i, 1 + i) for i in range(n)])


def test_surplus_samples_keep_their_value_and_are_told(f):
    s, service = f.server("samples"), unique()
    reply = s.push(labels(service), many(6)).expect(200)
    assert reply.headers["Flametree-Discarded"] == "samples_limit=3"
    assert s.stacks(service) == {"f3": 4, "f4": 5, "f5": 6, SURPLUS: 1 + 2 + 3}
    assert parts(f, "samples") == {("mended", "samples_limit"): 3}
    (row,) = lines(f, "samples")
    assert (row["level"], row["reason"], row["parts"], row["stored"], row["protocol"], row["service"]) == ("warn", "samples_limit", "3", "true", "push", service), row
    for _ in range(5):
        s.push(labels(service), many(5)).expect(200)
    assert len(lines(f, "samples")) == 1  # the others are counted, and told by the next line
    assert parts(f, "samples") == {("mended", "samples_limit"): 3 + 5 * 2}


def test_surplus_stays_in_its_label_set(f):
    s, service = f.server("sets"), unique()
    profile = Pprof(*[("f%d" % i, 1 + i, {"pod": "ab"[i % 2]}) for i in range(8)])
    s.push(labels(service), profile).expect(200)
    for pod, total in (("a", 1 + 3 + 5 + 7), ("b", 2 + 4 + 6 + 8)):
        assert sum(s.stacks(service, selector='pod="%s"' % pod).values()) == total


def test_equal_samples_lose_nothing(f):
    s, service = f.server("equal"), unique()
    reply = s.push(labels(service), Pprof(*[("a;b", 1)] * 50)).expect(200)
    assert "Flametree-Discarded" not in reply.headers
    assert s.stacks(service) == {"a;b": 50} and parts(f, "equal") == {} and lines(f, "equal") == []


def test_surplus_labels_of_samples_are_left_out(f):
    s, service = f.server("sample-labels"), unique()
    reply = s.push(labels(service), Pprof(("a", 5, {"z": "1", "y": "2", "x": "3"}))).expect(200)
    assert reply.headers["Flametree-Discarded"] == "labels_limit=1"
    assert s.series(service, "x", "y", "z") == [{"x": "3", "y": "2"}]
    assert parts(f, "sample-labels") == {("mended", "labels_limit"): 1}


def test_labels_of_samples_and_storage_do_not_count(f):
    s, service = f.server("series"), unique()
    own = {"l%d" % i: "v" for i in range(5)}
    reply = s.push(labels(service, **own), Pprof(("a", 5, {"y": "2", "x": "3"}))).expect(200)
    assert "Flametree-Discarded" not in reply.headers
    reply = s.push(labels(service, l5="v", **own), Pprof(("a", 5, {"y": "2", "x": "3"}))).expect(200)
    assert reply.headers["Flametree-Discarded"] == "labels_limit=1"
    assert s.series(service, *own, "l5", "x", "y") == [{**own, "x": "3", "y": "2"}]


def test_long_labels_are_cut_and_told(f):
    """As those that a Collector has of a command line: the profile stays."""
    s, service = f.server("lengths"), unique()
    reply = s.push(labels(service, command="é" * 1200, **{"n" * 1100: "1"}), Pprof(("a", 5, {"line": "v" * 3000}))).expect(200)
    assert reply.headers["Flametree-Discarded"] == "label_length=3"
    assert s.series(service, "command", "line") == [{"command": "é" * 1024, "line": "v" * 2048}] and s.stacks(service) == {"a": 5}
    body = otlp_request(unique(), resource=[("process.command_line", "x" * 5000)])
    (partial,) = unpb(s.call("POST", "/v1development/profiles", body, {"Content-Type": "application/x-protobuf"}, push=True).expect(200).body)[1]
    assert b"label_length (stored, but mended): 1 labels that are too long" in unpb(partial)[2][0], partial


@pytest.mark.parametrize("way", ["pprof", "folded", "jfr", "otlp"])
def test_names_that_are_too_long_are_told(f, way):
    tenant = "symbols-" + way
    s, service, name = f.server(tenant), unique(), "x" * 9 + "y" * 4000
    if way == "pprof":
        s.push(labels(service), Pprof(("main;" + name, 3), ("main;%s;work" % name, 4))).expect(200)
    elif way == "otlp":
        s.call("POST", "/v1development/profiles", otlp_request(service, ("main;" + name, 7)), {"Content-Type": "application/x-protobuf"}, push=True).expect(200)
    else:
        body = Jfr(symbols=("App", name, "idle")).sample(1, times=7).encode() if way == "jfr" else ("main;%s 3\nmain;%s;work 4\n" % (name, name)).encode()
        s.ingest(service, body, sampleRate="1000000000", **({"format": "jfr"} if way == "jfr" else {})).expect(200)
    assert any(stack.split(";")[-1] == "y" * 4000 for stack in s.stacks(service))
    assert parts(f, tenant) == {("mended", "symbol_length"): 1}


def test_resources_with_many_attributes_are_stored(f):
    s, service = f.server("resource"), unique()
    body = otlp_request(service, resource=[*(("process.attribute.%d" % i, "v") for i in range(40)), ("k8s.pod.name", "p")])
    (partial,) = unpb(s.call("POST", "/v1development/profiles", body, {"Content-Type": "application/x-protobuf"}, push=True).expect(200).body)[1]
    said = unpb(partial)
    assert 1 not in said and b"labels_limit (stored, but mended): 37 labels beyond the limit" in said[2][0], said
    assert sum(s.stacks(service).values()) == 30_000_000
    assert s.series(service, "k8s.pod.name") == [{"k8s.pod.name": "p"}]
    # service.name, service_name and the pod stay
    assert parts(f, "resource") == {("mended", "labels_limit"): 37}
    status, code, _, answer = grpc_export(f.url, body, headers=["x-scope-orgid: resource"])
    assert (status, code) == (200, "0") and b"labels_limit" in unpb(unpb(answer)[1][0])[2][0]


def test_names_that_are_no_utf8_are_mended(f):
    s, service = f.server("text"), unique()
    reply = s.ingest(service, b"main;w\xffrk 3\nmain;idle 4\n", sampleRate="1000000000").expect(200)
    assert reply.headers["Flametree-Discarded"] == "bad_text=1"
    assert s.stacks(service) == {"main;w\ufffdrk": 3, "main;idle": 4}
    assert parts(f, "text") == {("mended", "bad_text"): 1}


def test_who_wants_it_gets_refusals():
    with Flametree("--limits.faulty_profiles=refuse", *LIMITS) as f:
        s = f.server()
        s.push(labels(unique()), many(5)).expect(400, "max_profile_stacktrace_samples, actual: 5, limit: 4")
        s.push(labels(unique(), **{"l%d" % i: "v" for i in range(5)}), many(1)).expect(400, "label names; limit 6")
        s.ingest(unique(), b"w\xffrk 3\n").expect(400, "invalid utf8 string")


def test_the_client_tells_what_the_server_did(f, tmp_path):
    path = tmp_path / "many.pb"
    path.write_bytes(many(6).encode())
    answer = run("push", "--tenant", "client", str(path), url=f.url)
    said = answer.stderr
    assert answer.returncode == 0, answer
    assert "many.pb: stored, with parts left out or mended: samples_limit=3" in said, said


def otlp_samples(*samples, type=("samples", "count"), period=True):
    """One profile of the stack main: (values, timestamps) of each sample, in the layout of 1.10."""
    kinds = [pb((1, 1), (2, 2)), pb((1, 3), (2, 4))]
    rows = [pb((1, 1), (4, packed(values)), (5, struct.pack("<%dQ" % stamps, *range(1, stamps + 1)))) for values, stamps in samples]
    profile = pb((1, kinds[0]), (2, rows)) + fixed64(3, time.time_ns()) + (pb((5, kinds[1]), (6, 10_000_000)) if period else b"")
    tables = pb((2, [b"", pb((3, pb((1, 1))))]), (3, [b"", pb((1, 5))]), (5, ["", *type, "cpu", "nanoseconds", "main"]), (7, [b"", pb((1, packed([1])))]))
    return lambda service: pb((1, pb((1, pb((1, pb((1, "service.name"), (2, pb((1, service))))))), (2, pb((2, profile))))), (2, tables))


def export(s, body):
    return s.call("POST", "/v1development/profiles", body, {"Content-Type": "application/x-protobuf"}, push=True)


def test_otlp_samples_that_contradict_themselves_are_refused_by_name(f):
    s, service = f.server("contradicts"), unique()
    body = otlp_samples(([3], 0), ([4, 5], 2), ([7, 8], 5))(service)
    partial = unpb(unpb(export(s, body).expect(200).body)[1][0])
    assert 1 not in partial and b"bad_sample (not stored): 1 " in partial[2][0], partial
    assert b"profile 0 has a sample of stack 1 with 2 values and 5 timestamps" in partial[2][0]
    assert s.stacks(service) == {"main": 120_000_000}
    assert parts(f, "contradicts") == {("discarded", "bad_sample"): 1}
    export(s, otlp_samples(([7, 8], 5))(service)).expect(400, "2 values and 5 timestamps")


def test_otlp_types_without_a_period_have_the_name_of_their_type(f):
    s, service = f.server("no-period"), unique()
    export(s, otlp_samples(([30_000_000], 0), type=("cpu", "ns"), period=False)(service)).expect(200)
    assert s.types(service) == ["cpu:cpu:ns::"]
    assert s.stacks(service, "cpu:cpu:ns::") == {"main": 30_000_000}


def test_recordings_take_their_own_rate(f, tmp_path):
    s, service = f.server("jfr"), unique()
    recording = Jfr().setting("event", "itimer").setting("interval", "5000000").sample(1, times=3).sample(0, times=2).encode()
    reply = s.ingest(service, recording, format="jfr", spyName="javaspy", sampleRate="100").expect(200)
    assert reply.headers["Flametree-Discarded"] == "unknown_stack=2"
    assert s.stacks(service) == {"App.work": 15_000_000, "[unknown]": 10_000_000}
    path = tmp_path / "r.jfr"
    path.write_bytes(recording)
    for rate, ns in (([], 5_000_000), (["--sample-rate", "500"], 2_000_000)):
        service = unique()
        assert run("push", "--tenant", "jfr", "-l", "service_name=" + service, *rate, str(path), url=f.url).returncode == 0
        assert s.stacks(service) == {"App.work": 3 * ns, "[unknown]": 2 * ns}
    silent = unique()
    reply = s.ingest(silent, Jfr().sample(1).encode(), format="jfr").expect(200)
    assert reply.headers["Flametree-Discarded"] == "assumed_rate=1" and s.stacks(silent) == {"App.work": 10_000_000}


def test_recordings_without_their_end_or_labels_keep_their_value(f):
    """A program that was killed leaves a last chunk of no size; a snapshot may lack labels that samples name."""
    s, service, chunk = f.server("jfr-cut"), unique(), Jfr().setting("event", "cpu").setting("interval", "5000000").sample(1, times=3)
    running = chunk.encode()
    reply = s.ingest(service, chunk.encode() + running[:8] + bytes(8) + running[16:], format="jfr").expect(200)
    assert reply.headers["Flametree-Discarded"] == "cut_chunk=1" and s.stacks(service) == {"App.work": 15_000_000}
    s.ingest(unique(), running[:-1], format="jfr").expect(422, "a size that is not that of what is left")
    strings = [pb((1, 1), (2, "k")), pb((1, 2), (2, "v"))]
    snapshot = pb((1, [pb((1, context), (2, pb((1, pb((1, 1), (2, value)))))) for context, value in ((7, 2), (8, 9))]), (2, strings))
    body, headers = multipart(jfr=chunk.sample(1, context=7).sample(1, context=8).sample(1, context=9).encode(), labels=snapshot)
    named = unique()
    assert s.ingest(named, body, headers, format="jfr").expect(200).headers["Flametree-Discarded"] == "unknown_labels=2"
    assert s.stacks(named) == {"App.work": 6 * 5_000_000} and s.stacks(named, selector='k="v"') == {"App.work": 5_000_000}
    assert parts(f, "jfr-cut") == {("discarded", "cut_chunk"): 1, ("mended", "unknown_labels"): 2}


def test_a_sum_of_a_recording_that_does_not_fit_takes_no_other_profile_with_it(f):
    s, service = f.server("jfr-sums"), unique()
    recording = Jfr().setting("event", "cpu").setting("interval", "5000000").sample(1, times=3).tlab(2, 1 << 62).tlab(1, 7).tlab(2, 1 << 62).encode()
    s.ingest(service, recording, format="jfr").expect(422, "the sum of the values of alloc_in_new_tlab_bytes does not fit 64 bits")
    assert s.stacks(service) == {"App.work": 15_000_000} and s.types(service) == [CPU]
    assert f.metric('flametree_distributor_discarded_samples_total{reason="malformed_profile",tenant="jfr-sums"}') == 1


# ---- the page's status

def losses(s):
    return s.call("GET", "/distributor/losses").expect(200).json()


def test_the_status_has_each_reason_of_the_tenant(f):
    s, other, service = f.server("status"), f.server("status-2"), unique()
    assert losses(s)["losses"] == []
    s.push(labels(service), many(6)).expect(200)
    s.push(labels(service), Pprof(("a", 1), time_ns=10**18)).expect(400)
    s.ingest(service, b"main;work 3\nno number\n").expect(200)
    s.ingest(service, b"main" + b";f" * 2000 + b" 5\n").expect(200)
    other.ingest(unique(), b"main;work 3\nno number\nnor here\n").expect(200)
    answer = losses(s)
    assert answer["complete"] is True and abs(datetime.datetime.fromisoformat(answer["since"].replace("Z", "+00:00")).timestamp() - time.time()) < 3600, answer
    rows = {(row["kind"], row["reason"]): row for row in answer["losses"]}
    assert set(rows) == {("refused", "not_in_ingestion_window"), ("left_out", "bad_line"), ("mended", "samples_limit"), ("mended", "stack_depth_limit"), ("mended", "assumed_rate")}, answer
    refused = rows["refused", "not_in_ingestion_window"]
    assert refused["profiles"] == 1 and refused["bytes"] > 0 and "parts" not in refused
    assert {row["parts"] for row in rows.values() if row["kind"] != "refused"} >= {1, 3}
    assert rows["left_out", "bad_line"] == {"reason": "bad_line", "kind": "left_out", "text": "lines that are no stack with a number", "parts": 1}
    # The metrics say the same.
    assert {key: row["parts"] for key, row in rows.items() if key[1] == "bad_line"} == {("left_out", "bad_line"): parts(f, "status")["discarded", "bad_line"]}
    for row in answer["losses"]:
        assert row["text"] and row["text"][0] != " ", row


def test_the_status_of_several_tenants_adds_them_up(f):
    for tenant, n in (("sum-a", 1), ("sum-b", 2)):
        assert losses(f.server(tenant))["losses"] == []
        f.server(tenant).push(labels(unique()), many(4 + n)).expect(200)
    (row,) = losses(f.server("sum-a|sum-b"))["losses"]
    assert (row["kind"], row["reason"], row["parts"]) == ("mended", "samples_limit", sum(parts(f, t)["mended", "samples_limit"] for t in ("sum-a", "sum-b"))), row
    f.server().call("GET", "/distributor/losses").expect(401)


def test_more_tenants_than_there_are_counters_are_told(f):
    """A metric has room for 2,048 combinations of reason and tenant; the rest is counted as \"other\"."""
    names = ["crowd-%04d" % i for i in range(2100)]
    for name in names:
        f.server(name).ingest("crowd", b"no number\nmain;work 3\n", sampleRate="1000000000").expect(200)
    answers = [losses(f.server(name)) for name in (names[0], names[-1])]
    assert [(a["complete"], [row["parts"] for row in a["losses"]]) for a in answers] == [(True, [1]), (False, [])], answers
    assert "Some counts may be missing" in answers[1]["note"] and "note" not in answers[0]
