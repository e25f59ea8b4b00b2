"""OTLP profiles: layouts, the listeners of exporters, gRPC with and without TLS and gzip, partial success, and files of the corpus through the client."""
import gzip
import json
import os
import subprocess

import grpc
import pytest
from cli import fails, ok
from client import CPU, Server, now_ms, pb, unique, unpb
from flametree import Flametree, await_
from otlp import EXPORT, LAYOUTS, grpc_export, otlp_request

CORPUS = os.environ.get("FLAMETREE_CORPUS") or os.path.join(os.path.dirname(__file__), "..", "..", "..", "shared", "corpus")
PROTO = {"Content-Type": "application/x-protobuf"}
PORTS = ("--distributor.otlp_grpc_address=:0", "--distributor.otlp_http_address=127.0.0.1:0")
EXPECTED = {"main;work": 30_000_000}


@pytest.fixture(scope="module")
def f():
    with Flametree(*PORTS) as server:
        yield server


@pytest.fixture(scope="module")
def s(f):
    return f.server()


def post(s, body, **headers):
    return s.call("POST", "/v1development/profiles", body, {**PROTO, **headers}, push=True)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_layout_is_stored(s, layout):
    service = unique()
    assert post(s, otlp_request(service, layout=layout)).expect(200).body == b""
    s.check(lambda: s.stacks(service), EXPECTED)


def test_ports_of_exporters(f, s):
    for port in (f.ports["otlp_grpc"], f.ports["otlp_http"]):
        url = "http://127.0.0.1:%d" % port
        there, one, two = Server(url), unique(), unique()
        assert grpc_export(url, otlp_request(one)) == (200, "0", "", b"")
        post(there, otlp_request(two)).expect(200)
        s.check(lambda: (s.stacks(one), s.stacks(two)), (EXPECTED, EXPECTED))
        there.call("POST", "/ingest?name=x", b"a 1\n").expect(404)


def test_a_port_that_is_taken_is_told_and_not_the_end(f):
    taken = "127.0.0.1:%d" % f.ports["otlp_grpc"]
    with Flametree("--distributor.otlp_grpc_address=" + taken) as other:
        assert "otlp_grpc" not in other.ports
        log = open(other.log).read()
        assert "event=listener.unavailable name=otlp_grpc" in log and taken in log and "distributor.otlp_grpc_address" in log, log
        assert grpc_export(other.url, otlp_request(unique()))[1] == "0"


def test_over_a_rate_limit_exporters_are_told_when_to_come_again():
    """An exporter drops what it gets RESOURCE_EXHAUSTED for, unless details say when to send it again."""
    with Flametree("--limits.ingestion_rate_mb=0.0001", "--limits.ingestion_burst_size_mb=0.001") as f:
        channel = grpc.insecure_channel(f.url.removeprefix("http://"))
        export = channel.unary_unary(EXPORT)
        with pytest.raises(grpc.RpcError) as refused:
            for _ in range(100):
                export(otlp_request(unique()))
        assert refused.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED and "rate limit" in refused.value.details()
        details = dict(refused.value.trailing_metadata())["grpc-status-details-bin"]
        status = unpb(details)
        assert status[1] == [8] and status[2] == [refused.value.details().encode()]
        (info,) = (unpb(any_) for any_ in status[3])
        assert info[1] == [b"type.googleapis.com/google.rpc.RetryInfo"] and unpb(unpb(info[2][0])[1][0]) == {1: [1]}
        channel.close()


@pytest.mark.parametrize("zip", [None, gzip.compress], ids=["plain", "gzip"])
def test_grpc(s, f, zip):
    service = unique()
    assert grpc_export(f.url, otlp_request(service), gzip=zip) == (200, "0", "", b"")
    s.check(lambda: s.stacks(service), EXPECTED)
    status, code, message, _ = grpc_export(f.url, b"\x0a\x02\x12\x00", gzip=zip)
    assert (status, code) == (200, "3") and "missing profile metadata dictionary" in message, message


def test_grpc_over_tls(tmp_path):
    key, cert = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out", cert,
                    "-days", "2", "-subj", "/CN=localhost"], check=True, capture_output=True)
    with Flametree("--server.tls_cert_file=" + cert, "--server.tls_key_file=" + key, *PORTS) as f:
        s, services = f.server(), [unique(), unique()]
        for service, port in zip(services, (f.ports["public"], f.ports["otlp_grpc"])):
            assert grpc_export("https://127.0.0.1:%d" % port, otlp_request(service), gzip=gzip.compress) == (200, "0", "", b"")
            s.check(lambda name=service: s.stacks(name), EXPECTED)


def test_partial_success_counts_what_was_refused(s, f):
    one, two, three = unique(), unique(), unique()
    stacks = (("main;work", 3), ("old", -1), ("old", -1))
    (answer,) = unpb(post(s, otlp_request(one, *stacks)).expect(200).body)[1]
    partial = unpb(answer)
    assert partial[1] == [2] and b"outside of ingestion window" in partial[2][0], partial
    (answer,) = unpb(grpc_export(f.url, otlp_request(two, *stacks))[3])[1]
    assert unpb(answer)[1] == [2]
    s.check(lambda: (s.stacks(one), s.stacks(two)), (EXPECTED, EXPECTED))
    reply = post(s, otlp_request(three, ("old", -1), ("old", -1))).expect(400)
    status = unpb(reply.body)  # nothing is stored: google.rpc.Status
    assert status[1] == [3] and b"outside of ingestion window" in status[2][0], status
    assert reply.headers["Content-Type"] == "application/x-protobuf"


def test_partial_success_in_json(s):
    kind = {"typeStrindex": 1, "unitStrindex": 2}
    profile = lambda at: {"sampleType": kind, "periodType": {"typeStrindex": 3, "unitStrindex": 4}, "period": 1, "timeUnixNano": at,
                          "samples": [{"stackIndex": 1, "values": [1]}]}
    request = {"resourceProfiles": [{"scopeProfiles": [{"profiles": [profile("0"), profile("5")]}]}], "dictionary": {
        "stringTable": ["", "samples", "count", "cpu", "nanoseconds", "f"], "functionTable": [{}, {"nameStrindex": 5}], "mappingTable": [{}],
        "locationTable": [{}, {"lines": [{"functionIndex": 1}]}], "stackTable": [{}, {"locationIndices": [1]}], "attributeTable": [{}], "linkTable": [{}]}}
    send = lambda r: s.call("POST", "/v1development/profiles", json.dumps(r).encode(), {"Content-Type": "application/json"}, push=True)
    assert send(request).expect(200).json()["partialSuccess"]["rejectedProfiles"] == "1"
    request["resourceProfiles"][0]["scopeProfiles"][0]["profiles"].pop()
    assert send(request).expect(200).json() == {}
    assert send({"dictionary": {}}).expect(400).json()["code"] == 3


def test_a_layout_that_nobody_knows_is_refused(s):
    """Samples of no layout: never 200 with nothing stored."""
    reply = post(s, otlp_request(unique(), ("a", 1)).replace(b"\x12\x05\x08\x01\x22\x01\x01", b"\x12\x05\x08\x01\x32\x01\x01")).expect(400)
    assert all(layout in reply.text for layout in ("1.10", "1.9", "1.8", "1.7")), reply


def test_metrics_and_log_name_the_protocol(f, s):
    text = f.operator().call("GET", "/metrics").expect(200).text
    assert 'flametree_distributor_received_profiles_total{protocol="otlp"}' in text


# ---- the client


def sums(s, mark, type):
    got = s.ok("SelectSeries", profileTypeID=type, labelSelector='{"mark"="%s"}' % mark, step=86400, start=now_ms() - 80_000_000, end=now_ms() + 1)
    return sum(p["value"] for row in got.get("series", []) for p in row["points"])


MANIFEST = os.path.join(CORPUS, "MANIFEST.tsv")
ROWS = [row.rstrip("\n").split("\t") for row in open(MANIFEST, encoding="utf-8")] if os.path.exists(MANIFEST) else []
FILES = {row[2]: json.loads(row[12]) for row in ROWS if row[2].startswith(("otlp/", "derived/otlp")) and row[4] != "malformed"}


def test_what_the_server_refused_of_a_file_is_told(f, tmp_path):
    service, path = unique(), tmp_path / "p.otlp"
    path.write_bytes(otlp_request(service, ("main;work", 3), ("old", -1)))
    said = fails(1, "push", str(path), url=f.url)
    assert "the others are stored, but 1 of its profiles were refused: profile with labels" in said, said
    path.write_bytes(otlp_request(service, ("old", -1)))
    said = fails(1, "push", str(path), url=f.url)
    assert "400 invalid_argument: profile with labels" in said and "--time now" in said, said
    path.write_bytes(b"\x0a\x02\x12\x00\x12\x02\x2a\x00")
    assert "it has no profiles with samples" in fails(1, "push", str(path), url=f.url)
    path.write_bytes(otlp_request(service))
    assert "OTLP profiles have types of their own" in fails(1, "push", str(path), "--name", "cpu", url=f.url)


@pytest.mark.parametrize("file", FILES)
def test_files_of_the_corpus(f, s, file):
    """What the client sends of a file has the sums of its facts; a sample may miss whose frame has neither name nor address."""
    mark, path = unique(), os.path.join(CORPUS, file)
    ok("push", path, "--time", "now", "-l", "mark=" + mark, "-l", "service_name=" + mark, url=f.url)
    for t in FILES[file]["by_type"]:
        kind, period = t["type"].split(" per ")[0], int(t["type"].rsplit(":", 1)[1])
        if kind == "samples/count":
            least = t["sum"] - 1
            await_("the sum of " + file, lambda: least * period <= sums(s, mark, CPU) <= t["sum"] * period)


def test_services_of_one_request_are_told_apart(s):
    """Those that are named after their program have names that live no longer than their profiles are read."""
    programs = [unique() for _ in range(6)]
    requests = [unpb(otlp_request("", ("main;work", 3), resource=[("process.executable.name", name)])) for name in programs]
    body = pb((1, [r for request in requests for r in 3 * request[1]]), (2, requests[0][2]))
    post(s, body).expect(200)
    assert [s.stacks("unknown_service:" + name) for name in programs] == [{"main;work": 90_000_000}] * 6
