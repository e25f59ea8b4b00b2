"""grpc.health.v1.Health, as load balancers and probes ask it: on the public and the internal listener, by gRPC and by Connect."""
import http.client
import json
import socket
import subprocess
import urllib.parse

import pytest
from client import Pprof
from flametree import Flametree, await_

CHECK, WATCH = "/grpc.health.v1.Health/Check", "/grpc.health.v1.Health/Watch"
SERVING = b"\x08\x01"


@pytest.fixture(scope="module")
def f(tmp_path_factory):
    with Flametree(data=str(tmp_path_factory.mktemp("health"))) as f:
        yield f


def address(f):
    return urllib.parse.urlsplit(f.url).netloc


def plain(f, method, path, body=None, headers=None):
    c = http.client.HTTPConnection(address(f), timeout=30)
    c.request(method, path, body, headers or {})
    r = c.getresponse()
    got = r.status, dict((k.lower(), v) for k, v in r.getheaders()), r.read()
    c.close()
    return got


@pytest.mark.parametrize("name", [b"", b"\x0a\x19querier.v1.QuerierService", b"\x0a\x07nothing"], ids=["all", "a_service", "unknown"])
def test_a_ready_process_serves_whatever_is_asked_for(f, name):
    grpc = pytest.importorskip("grpc", reason="needs the grpcio package")
    with grpc.insecure_channel(address(f)) as channel:
        assert channel.unary_unary(CHECK)(name, timeout=30) == SERVING


def test_watching_is_refused_as_in_pyroscope(f):
    grpc = pytest.importorskip("grpc", reason="needs the grpcio package")
    with grpc.insecure_channel(address(f)) as channel:
        with pytest.raises(grpc.RpcError) as e:
            list(channel.unary_stream(WATCH)(b"", timeout=30))
        assert e.value.code() == grpc.StatusCode.UNIMPLEMENTED


def test_the_internal_listener_answers_too(tmp_path):
    grpc = pytest.importorskip("grpc", reason="needs the grpcio package")
    with Flametree("--internal.listen", "unix:%s/in.sock" % tmp_path, data=str(tmp_path)):
        with grpc.insecure_channel("unix:%s/in.sock" % tmp_path) as channel:
            assert channel.unary_unary(CHECK)(b"", timeout=30) == SERVING


def test_a_process_that_is_not_ready_does_not_serve(tmp_path):
    """Its log fails, and cannot be opened again."""
    with Flametree(data=str(tmp_path), env={"FLAMETREE_FAULTS": "wal.write.before=enospc@1+;wal.open=enospc@2+"}) as f:
        f.server().push({"__name__": "process_cpu", "service_name": "shop"}, Pprof(("a", 1))).expect(503)
        await_("/ready to say so", lambda: plain(f, "GET", "/ready")[0] == 503)
        status, _, body = plain(f, "POST", CHECK, b"{}", {"Content-Type": "application/json"})
        assert (status, json.loads(body)) == (200, {"status": "NOT_SERVING"})


def test_connect_and_grpc_over_http_1(f):
    status, _, body = plain(f, "POST", CHECK, b"{}", {"Content-Type": "application/json"})
    assert status == 200 and json.loads(body) == {"status": "SERVING"}
    status, _, body = plain(f, "POST", CHECK, b"", {"Content-Type": "application/proto"})
    assert (status, body) == (200, SERVING)
    status, headers, body = plain(f, "POST", CHECK, b"\0\0\0\0\0", {"Content-Type": "application/grpc", "TE": "trailers"})
    assert status == 200 and headers["content-type"].startswith("application/grpc") and headers["transfer-encoding"] == "chunked" and body == b"\0\0\0\0\x02" + SERVING


def test_a_request_in_zstd_is_understood(f):
    packed = subprocess.run(["zstd", "-q", "-c"], input=b"{}", capture_output=True)
    if packed.returncode:
        pytest.skip("there is no zstd")
    status, _, body = plain(f, "POST", CHECK, packed.stdout, {"Content-Type": "application/json", "Content-Encoding": "zstd"})
    assert status == 200 and json.loads(body) == {"status": "SERVING"}


@pytest.mark.parametrize("verb", ["GET", "HEAD", "PUT", "OPTIONS"])
def test_other_verbs_are_refused_with_the_one_that_is_right(f, verb):
    status, headers, body = plain(f, verb, CHECK)
    assert status == 405 and headers["allow"] == "POST"
    assert verb != "HEAD" or body == b""


def test_trailers_of_grpc_over_http_1_follow_the_last_chunk(f):
    """And the connection goes on."""
    host, port = address(f).split(":")
    head = "POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/grpc\r\nTE: trailers\r\nContent-Length: 5\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=30) as c:
        for path, body, status in ((CHECK, b"7\r\n\0\0\0\0\x02\x08\x01\r\n0\r\n", b"grpc-status: 0\r\n"), (WATCH, b"0\r\n", b"grpc-status: 12\r\n"), (CHECK, b"7\r\n", b"grpc-status: 0\r\n")):
            c.sendall((head % path).encode() + bytes(5))
            got = b""
            while not got.endswith(b"\r\n\r\n") or got.count(b"\r\n\r\n") < 2:
                more = c.recv(4096)
                assert more, got
                got += more
            top, _, rest = got.partition(b"\r\n\r\n")
            assert top.startswith(b"HTTP/1.1 200") and b"transfer-encoding: chunked" in top and b"content-length" not in top, top
            assert rest.startswith(body) and status in rest[len(body):], rest
