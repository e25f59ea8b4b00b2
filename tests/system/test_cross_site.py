"""Pages of other sites in somebody's browser: they neither push, flush and compact nor read, by a name made to point here (DNS rebinding) or by a request
across sites. The own page works by every address that leads here, and agents and Grafana's server come by names of which nobody told us."""
import contextlib
import json
import os

import pytest
from client import CPU, Pprof, now_ms, pb, table, unique
from flametree import Flametree, await_
from wire import H2, Wire

EVIL = "evil.example:4040"
QUERY = json.dumps({"start": now_ms() - 3600_000, "end": now_ms() + 60_000}).encode()
# name, method, path, body, headers: everything that tells or changes something
TOLD = [
    ("push-text", "POST", "/ingest?name=evil&from=now&until=now", b"main;work 12\n", {"Content-Type": "text/plain"}),
    ("flush", "POST", "/ingester/flush", b"", {}), ("compact", "POST", "/compactor/run?timeout=0s", b"", {}),
    ("query", "POST", "/querier.v1.QuerierService/ProfileTypes", QUERY, {"Content-Type": "application/json"}),
    ("push", "POST", "/push.v1.PusherService/Push", b"", {"Content-Type": "application/proto"}),
    ("metrics", "GET", "/metrics", None, {}), ("config", "GET", "/config", None, {}), ("status", "GET", "/compactor/status", None, {}),
    ("cluster", "GET", "/cluster", None, {}), ("cuts", "GET", "/ingester/cuts", None, {}), ("render", "GET", "/pyroscope/render?query=%s%%7B%%7D" % CPU, None, {}),
]
HARMLESS = ["/ready", "/", "/explore", "/licenses.txt", "/api/v1/status/buildinfo"]
BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36"}


@pytest.fixture(scope="module")
def f():
    with Flametree("--server.hosts", "flame.example.com,*.inside.example") as f:
        yield f


@pytest.fixture(scope="module")
def everywhere():
    """As in a container: others reach it, by names that nobody told it."""
    with Flametree(listen="0.0.0.0:0") as f:
        f.url = f.url.replace("0.0.0.0", "127.0.0.1")
        yield f


def refused(reply, *words):
    assert reply.status == 403, reply
    text = reply.text
    assert '"permission_denied"' in text and all(word in text for word in words), reply


def own(f):
    return "127.0.0.1:%d" % f.ports["public"]


@table("method, path, body, headers", TOLD)
def test_rebinding_is_refused(f, method, path, body, headers):
    """The browser takes the foreign page for ours: all that differs is Host."""
    refused(f.server().call(method, path, body, {**headers, "Host": EVIL}), "Host", EVIL, "server.hosts")
    refused(f.server().call(method, path, body, {**headers, **BROWSER, "Host": EVIL, "Origin": "http://" + EVIL}), "Host", EVIL, "server.hosts")


@table("method, path, body, headers", TOLD)
def test_another_site_is_refused(f, method, path, body, headers):
    for origin in ("https://evil.example", "null", "http://localhost:3000", "", "evil"):
        refused(f.server().call(method, path, body, {**headers, **BROWSER, "Origin": origin}), "Origin", "'%s'" % origin, "server.hosts")
    for site in ("cross-site", "same-site"):
        refused(f.server().call(method, path, body, {**headers, **BROWSER, "Sec-Fetch-Site": site, "Sec-Fetch-Mode": "no-cors"}), "Sec-Fetch-Site", site)


def test_nothing_of_a_foreign_page_is_stored(f):
    name = unique("evil")
    line = b"main;work 12\n"
    path = "/ingest?name=%s&from=now&until=now" % name
    refused(f.server().call("POST", path, line, {"Origin": "https://evil.example", "Content-Type": "text/plain"}))
    refused(f.server().call("POST", path, line, {"Host": EVIL}))
    assert name not in f.server().ok("LabelValues", name="service_name").get("names", [])
    f.server().call("POST", path, line).expect(200)
    assert name in f.server().ok("LabelValues", name="service_name")["names"]


@pytest.mark.parametrize("path", HARMLESS)
def test_what_is_everybodys_is_shown_to_everybody(f, path):
    f.server().call("GET", path, headers={"Host": EVIL, "Origin": "http://" + EVIL, "Sec-Fetch-Site": "cross-site"}).expect(200)


def test_readiness_is_told_to_everybody_and_its_reasons_are_not(tmp_path):
    """They name directories, nodes and addresses. A supervisor learns the same from the status."""
    silent = {"FLAMETREE_FAULTS": "manifest.claim=eio"}  # the store does not say whose it is
    with Flametree("--internal.listen", "127.0.0.1:0", "--storage.dir", str(tmp_path), program="flametree-compactor", env=silent) as f:
        check_readiness(f, 200, "ready", "storage.unasked")
    f = Flametree(env=silent, data=str(tmp_path / "waits"))
    os.mkdir(f.data)
    f.start(wait=False)
    try:
        def refused():
            with contextlib.suppress(OSError, ValueError, AssertionError):
                f.ports = json.loads(open(os.path.join(f.data, "run", "ports.json")).read())
                f.url = "http://" + own(f)
                return "ingester not ready: " in f.server().call("GET", "/ready").text
        await_("a process that waits for its store", refused, 60)
        check_readiness(f, 503, "not ready", "ingester not ready: ")
    finally:
        f.kill()


def check_readiness(f, status, word, reason):
    supervisor = {"Host": own(f), "User-Agent": "kube-probe/1.27"}
    page = {**BROWSER, "Host": own(f)}
    for ours in (supervisor, {**page, "Sec-Fetch-Site": "same-origin"}, {"Host": "10.1.2.3:4040"}):
        assert reason in f.server().call("GET", "/ready", headers=ours).expect(status).text
    for foreign in ({"Host": EVIL}, {**page, "Origin": "https://evil.example"}, {**page, "Sec-Fetch-Site": "cross-site"}):
        assert f.server().call("GET", "/ready", headers=foreign).expect(status).text == word


OWN = [
    ("address", "127.0.0.1:PORT"), ("localhost", "localhost:PORT"), ("upper-case", "LOCALHOST:PORT"), ("dot", "localhost.:PORT"), ("below-localhost", "a.localhost:PORT"),
    ("forwarded", "localhost:18080"), ("forwarded-address", "127.0.0.1:80"), ("no-port", "localhost"), ("v6", "[::1]:18080"), ("v6-no-port", "[::1]"), ("private", "10.1.2.3:4040"),
    ("short-address", "127.1:4040"), ("listed", "flame.example.com"), ("listed-port", "flame.example.com:8443"), ("listed-case", "Flame.Example.COM."), ("below-listed", "a.b.inside.example"),
]


@table("host", OWN)
def test_own_names_work(f, host):
    """Its page, by HTTP/1.1 and HTTP/2: the same Origin as Host, or none."""
    host = host.replace("PORT", str(f.ports["public"]))
    for scheme in ("http", "https"):
        for more in ({}, {**BROWSER, "Origin": "%s://%s" % (scheme, host), "Sec-Fetch-Site": "same-origin"}):
            f.server().call("POST", "/querier.v1.QuerierService/ProfileTypes", QUERY, {"Content-Type": "application/json", "Host": host, **more}).expect(200)
    with H2(f) as h:
        h.request(1, "POST", "/querier.v1.QuerierService/ProfileTypes", [("content-type", "application/json"), ("origin", "http://" + host)], QUERY, authority=host)
        assert h.await_end(1).status == 200, h.streams


FOREIGN = [("name", EVIL), ("like-localhost", "localhost.evil.example"), ("ends-like", "evillocalhost"), ("like-listed", "evilflame.example.com"), ("above-wildcard", "inside.example"),
           ("like-wildcard", "evilinside.example"), ("like-address", "127.0.0.1.evil.example"), ("one-word", "evil")]


@table("host", FOREIGN)
def test_foreign_names_are_refused(f, host):
    refused(f.server().call("GET", "/metrics", headers={"Host": host}), "Host", host)
    refused(f.server().call("GET", "/metrics", headers={"Origin": "http://" + host}), "Origin", host)
    with H2(f) as h:
        h.request(1, "GET", "/metrics", authority=host)
        stream = h.await_end(1)
        assert stream.status == 403 and b":authority '%s'" % host.encode() in bytes(stream.body), bytes(stream.body)


def test_grpc_is_told_in_its_own_way(f):
    grpc = pytest.importorskip("grpc", reason="needs the grpcio package")
    options = [("grpc.enable_http_proxy", 0), ("grpc.default_authority", EVIL)]
    with grpc.insecure_channel(own(f), options=options) as channel, pytest.raises(grpc.RpcError) as e:
        channel.unary_unary("/querier.v1.QuerierService/LabelNames")(b"", timeout=30)
    assert e.value.code() == grpc.StatusCode.PERMISSION_DENIED and EVIL in e.value.details(), e.value


def test_a_proxy_that_changes_host_lets_the_listed_page_in(f):
    headers = {**BROWSER, "Content-Type": "application/json", "Origin": "https://flame.example.com", "Sec-Fetch-Site": "same-origin"}
    f.server().call("POST", "/querier.v1.QuerierService/ProfileTypes", QUERY, headers).expect(200)


def test_links_lead_here(f):
    link = {**BROWSER, "Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document"}
    f.server().call("GET", "/compactor", headers=link).expect(200)
    refused(f.server().call("GET", "/compactor", headers={**link, "Sec-Fetch-Dest": "iframe"}))
    refused(f.server().call("POST", "/ingester/flush", headers=link))


def test_no_host_is_no_browser(f):
    with Wire(f) as w:
        w.send(b"GET /metrics HTTP/1.0\r\n\r\n")
        assert w.answers()[0].status == 200
    with Wire(f) as w:
        w.send(b"GET /metrics HTTP/1.1\r\nHost:\r\nConnection: close\r\n\r\n")
        assert w.answers()[0].status == 200


def test_agents_and_grafana_come_by_names_of_the_cluster(everywhere):
    f, name = everywhere, "flametree-distributor.monitoring.svc:4040"
    profile = pb((1, pb((1, [pb((1, "__name__"), (2, "process_cpu")), pb((1, "service_name"), (2, unique()))]), (2, pb((1, Pprof(("a", 1)).encode()))))))
    f.server().call("POST", "/push.v1.PusherService/Push", profile, {"Content-Type": "application/proto", "Host": name, "User-Agent": "pyroscope-go/1.1"}).expect(200)
    grafana = {"Content-Type": "application/json", "Host": name, "User-Agent": "Grafana/11.0.0", "Sec-Fetch-Site": "same-origin"}  # it passes these on
    f.server().call("POST", "/querier.v1.QuerierService/ProfileTypes", QUERY, grafana).expect(200)
    f.server().call("GET", "/metrics", headers={"Host": name, "User-Agent": "Prometheus/2.42"}).expect(200)


@table("method, path, body, headers", TOLD)
def test_browsers_are_checked_at_every_address(everywhere, method, path, body, headers):
    for more in ({"Origin": "http://" + EVIL}, {"Referer": "http://%s/" % EVIL}, BROWSER):
        refused(everywhere.server().call(method, path, body, {**headers, "Host": EVIL, **more}), "Host", EVIL)
    refused(everywhere.server().call(method, path, body, {**headers, "Origin": "https://evil.example"}), "Origin")


def test_a_star_takes_everything():
    with Flametree("--server.hosts", "*") as f:
        for more in ({"Host": EVIL}, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
            f.server().call("GET", "/metrics", headers=more).expect(200)


WRONG = [("port", "flame.example.com:80"), ("url", "https://flame.example.com"), ("path", "flame.example.com/x"), ("star-inside", "a.*.com")]


@table("value", WRONG)
def test_names_that_are_none_are_refused(value, tmp_path):
    import os
    import subprocess

    from flametree import BIN
    config = tmp_path / "c.yaml"
    config.write_text("server:\n  hosts: ['%s']\n" % value)
    done = subprocess.run([os.path.join(BIN, "flametree"), "--check-config", "--config", str(config)], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "server.hosts" in done.stderr and value in done.stderr, done


# ---- headers that say one thing

TWICE = [("tenant", "X-Scope-OrgID", b"a", b"b"), ("tenant-equal", "X-Scope-OrgID", b"a", b"a"), ("case", "x-scope-orgid", b"a", b"b"), ("login", "Authorization", b"Basic YTph", b"Basic Yjpi"),
         ("origin", "Origin", b"http://127.0.0.1", b"http://evil.example")]


@table("name, one, other", TWICE)
def test_header_twice(f, name, one, other):
    body = QUERY
    lines = b"POST /querier.v1.QuerierService/ProfileTypes HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\nConnection: close\r\n" % len(body)
    for kind in (b"application/json", b"application/grpc-web+proto"):
        with Wire(f) as w:
            w.send(lines + b"Content-Type: %s\r\n%s: %s\r\n%s: %s\r\n\r\n" % (kind, name.encode(), one, name.encode(), other) + body)
            answer, = w.answers()
            if kind == b"application/json":
                assert answer.status == 400 and name.lower().encode() in answer.body, answer
            else:
                assert answer.status == 200 and answer.headers["grpc-status"] == "3" and name.lower() in answer.headers["grpc-message"], answer
    with Wire(f) as w:
        w.send(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n%s: %s\r\n%s: %s\r\nConnection: close\r\n\r\n" % (name.encode(), one, name.encode(), other))
        assert w.answers()[0].status == 400
    with H2(f) as h:
        h.request(1, "POST", "/querier.v1.QuerierService/ProfileTypes", [("content-type", "application/json"), (name.lower(), one), (name.lower(), other)], body, authority="localhost")
        assert h.await_end(1).status == 400, h.streams


def test_grpc_metadata_twice(f):
    grpc = pytest.importorskip("grpc", reason="needs the grpcio package")
    with grpc.insecure_channel(own(f), options=[("grpc.enable_http_proxy", 0)]) as channel, pytest.raises(grpc.RpcError) as e:
        channel.unary_unary("/querier.v1.QuerierService/LabelNames")(b"", timeout=30, metadata=[("x-scope-orgid", "a"), ("x-scope-orgid", "b")])
    assert e.value.code() == grpc.StatusCode.INVALID_ARGUMENT and "x-scope-orgid" in e.value.details(), e.value


FRAMING = [("host", b"Host: localhost\r\nHost: localhost\r\n"), ("length", b"Host: localhost\r\nContent-Length: 0\r\nContent-Length: 0\r\n"),
           ("lengths", b"Host: localhost\r\nContent-Length: 0, 0\r\n")]


@table("lines", FRAMING)
def test_framing_twice_is_refused_already(f, lines):
    with Wire(f) as w:
        w.send(b"GET /ready HTTP/1.1\r\n" + lines + b"\r\n")
        assert w.answers()[0].status == 400
