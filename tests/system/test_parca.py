"""Agents of Parca: WriteRaw by gRPC and Connect, the answer about symbols, and the calls that are refused."""
import base64
import gzip
import json

import pytest
from client import CPU, Pprof, now_ms, pb, unique
from flametree import Flametree

STORE, DEBUGINFO = "/parca.profilestore.v1alpha1.ProfileStoreService/", "/parca.debuginfo.v1alpha1.DebuginfoService/"


@pytest.fixture(scope="module")
def f(tmp_path_factory):
    with Flametree(data=str(tmp_path_factory.mktemp("parca"))) as f:
        yield f


@pytest.fixture(scope="module")
def channel(f):
    grpc = pytest.importorskip("grpc", reason="needs the grpcio package")
    with grpc.insecure_channel(f.url.split("//")[1]) as channel:
        yield channel


def profile(*samples, ago_s=60):
    return gzip.compress(Pprof(*samples, time_ns=(now_ms() - ago_s * 1000) * 10**6).encode())


def series(labels, *profiles):
    """With the field for addresses of executables, which is no client's id."""
    return pb((1, pb((1, [pb((1, k), (2, v)) for k, v in labels.items()]))), (2, [pb((1, p), (2, pb((1, 4096)))) for p in profiles]))


def write(channel, *rows):
    return channel.unary_unary(STORE + "WriteRaw")(pb((1, "ignored"), (2, list(rows)), (3, 1)), timeout=30)


def test_series_of_profiles_are_stored(f, channel):
    s, service = f.server(), unique("parca")
    answer = write(channel, series({"__name__": "process_cpu", "service_name": service, "pod": "a"}, profile(("main;work", 5)), profile(("main;work", 7), ago_s=50)),
                   series({"__name__": "process_cpu", "service_name": service, "pod": "b"}, profile(("main;idle", 3))))
    assert answer == b""
    assert s.stacks(service) == {"main;work": 12, "main;idle": 3}
    assert s.stacks(service, CPU, 'pod="b"') == {"main;idle": 3}


@pytest.mark.parametrize("labels, wanted", [({"job": "JOB", "comm": "java"}, "JOB"), ({"comm": "JOB"}, "JOB"), ({"job": "x", "service_name": "JOB"}, "JOB"), ({"node": "n1"}, None)],
                         ids=["job", "comm", "own_name", "none"])
def test_the_service_is_the_job_or_the_process(f, channel, labels, wanted):
    s, name = f.server(), unique("job")
    labels = {k: v.replace("JOB", name) for k, v in labels.items()}
    marker = unique("frame")
    write(channel, series({"__name__": "process_cpu", **labels}, profile(("main;" + marker, 4))))
    assert s.stacks(name if wanted else "unknown_service").get("main;" + marker) == 4


def test_connect_takes_it_as_json(f):
    s, service = f.server(), unique("parca")
    body = {"series": [{"labels": {"labels": [{"name": "__name__", "value": "process_cpu"}, {"name": "service_name", "value": service}]},
                        "samples": [{"rawProfile": base64.b64encode(profile(("a", 2))).decode()}]}]}
    s.call("POST", STORE + "WriteRaw", json.dumps(body).encode(), {"Content-Type": "application/json"}).expect(200)
    assert s.stacks(service) == {"a": 2}


def test_what_is_mended_is_told(f):
    s, service = f.server(), unique("parca")
    row = series({"__name__": "process_cpu", "service_name": service}, profile(([77], 5), ("a", 2)))
    reply = s.call("POST", STORE + "WriteRaw", pb((2, row)), {"Content-Type": "application/proto"}).expect(200)
    assert reply.headers["Flametree-Discarded"] == "unknown_frame=1"
    assert s.stacks(service) == {"[unknown]": 5, "a": 2}


def test_valid_profiles_of_a_request_are_stored_and_the_first_refusal_is_the_answer(f, channel):
    import grpc
    s, service = f.server(), unique("parca")
    with pytest.raises(grpc.RpcError) as e:
        write(channel, series({"__name__": "process_cpu", "service_name": service}, b"no profile", profile(("a", 2))))
    assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT, e.value
    assert s.stacks(service) == {"a": 2}


@pytest.mark.parametrize("body", [b"", pb((2, [])), pb((2, [pb((1, b""))]))], ids=["nothing", "no_series", "no_samples"])
def test_a_request_without_profiles_is_refused(channel, body):
    import grpc
    with pytest.raises(grpc.RpcError) as e:
        channel.unary_unary(STORE + "WriteRaw")(body, timeout=30)
    assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT and "no profiles received" in e.value.details()


@pytest.mark.parametrize("body", [b"\x12\x7f", b"\x12\x02\x0a\x7f", b"\xff" * 20, b"\x13"], ids=["cut", "cut_inside", "noise", "group"])
def test_a_malformed_request_is_refused(channel, body):
    import grpc
    with pytest.raises(grpc.RpcError) as e:
        channel.unary_unary(STORE + "WriteRaw")(body, timeout=30)
    assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT, e.value


def test_symbols_are_not_asked_for(channel):
    answer = channel.unary_unary(DEBUGINFO + "ShouldInitiateUpload")(pb((1, "abcd"), (2, "hash")), timeout=30)
    assert answer == pb((2, "symbols are not stored here; send profiles with names"))


@pytest.mark.parametrize("call", [STORE + "Write", DEBUGINFO + "Upload"])
def test_what_is_not_there_is_unimplemented(channel, call):
    """Write has Arrow's format; docs/decisions/0022 says why it is not read."""
    import grpc
    with pytest.raises(grpc.RpcError) as e:
        list(channel.stream_stream(call)(iter([b""]), timeout=30))
    assert e.value.code() == grpc.StatusCode.UNIMPLEMENTED
