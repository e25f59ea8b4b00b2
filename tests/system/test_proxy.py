"""A proxy in front: one that names its upstream in Host, as nginx does unless it is told otherwise, and one that leaves the path below which it leads here."""
import contextlib
import http.client
import http.server
import os
import re
import subprocess
import threading
import urllib.parse

import pytest
from client import CPU, Pprof, Server, unique
from flametree import BIN, WITHOUT_SETTINGS, Flametree

PREFIX = "/shop/flametree"
BROWSER = {"User-Agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36", "Sec-Fetch-Mode": "cors", "Sec-Fetch-Dest": "empty"}
HOP = ("connection", "keep-alive", "transfer-encoding", "host", "content-length", "upgrade")


@contextlib.contextmanager
def proxy(url, **more):
    """Passes requests on as nginx's `proxy_pass URL;` does: the path as it is, Host that of the upstream."""
    to = urllib.parse.urlsplit(url)

    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def forward(self):
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0)) or None
            headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP}
            connection = http.client.HTTPConnection(to.hostname, to.port, timeout=60)
            try:
                connection.request(self.command, self.path, body, {**headers, "Host": to.netloc, **more})
                answer = connection.getresponse()
                data = answer.read()
            finally:
                connection.close()
            self.send_response(answer.status)
            for k, v in answer.getheaders():
                if k.lower() not in HOP:
                    self.send_header(k, v)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else data)

        do_GET = do_POST = do_HEAD = forward

        def log_message(self, *args):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield "http://127.0.0.1:%d" % server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def page_of(origin, site="same-origin"):
    return {**BROWSER, "Origin": origin, **({"Sec-Fetch-Site": site} if site else {})}


@pytest.fixture(scope="module")
def plain():
    """A server that nobody told the name of the proxy."""
    with Flametree() as f, proxy(f.url) as url:
        yield Server(url, strict=True)


def test_the_page_works_behind_a_proxy_that_names_its_upstream(plain):
    service = plain.send(("main;work", 12))
    page = page_of("https://flame.example.com")
    index = plain.call("GET", "/", headers={**BROWSER, "Sec-Fetch-Mode": "navigate", "Sec-Fetch-Dest": "document", "Sec-Fetch-Site": "none"}).expect(200, "<html")
    for part in re.findall(r'(?:src|href)="\./([^"]+)"', index.text):
        plain.call("GET", "/" + part, headers={**BROWSER, "Sec-Fetch-Site": "same-origin"}).expect(200)
    assert plain.query("SelectMergeStacktraces", page, profileTypeID=CPU, labelSelector='{service_name="%s"}' % service).expect(200).json()["flamegraph"]["total"] == "12"
    assert service in plain.query("LabelValues", page, name="service_name").expect(200).json()["names"]


@pytest.mark.parametrize("headers", [page_of("http://flame.example.com", None), page_of("http://flame.example.com"), page_of("https://flame.example.com", None),
                                     page_of("https://evil.example", "cross-site"), page_of("https://evil.example", "same-site"), page_of("null", "cross-site")])
def test_where_nobody_vouches_for_the_page_the_refusal_says_what_to_set(plain, headers):
    reply = plain.query("LabelValues", headers, name="service_name").expect(403, code="permission_denied")
    for word in (headers["Origin"], "server.hosts", "proxy_set_header Host $host"):
        assert word in reply.message(), reply


def test_a_proxy_that_says_what_it_was_asked_for():
    with Flametree() as f, proxy(f.url, **{"X-Forwarded-Host": "10.1.2.3:8080"}) as url:
        s = Server(url, strict=True)
        s.query("LabelValues", page_of("http://10.1.2.3:8080", None), name="service_name").expect(200)
        s.query("LabelValues", page_of("http://10.1.2.4:8080", None), name="service_name").expect(403)
    with Flametree() as f, proxy(f.url, **{"X-Forwarded-Host": "evil.example"}) as url:
        Server(url, strict=True).query("LabelValues", page_of("http://evil.example", None), name="service_name").expect(403)


# ---- server.path_prefix

@pytest.fixture(scope="module", params=[PREFIX, PREFIX + "/"], ids=["plain", "with-a-slash"])
def below(request):
    with Flametree("--server.path_prefix", request.param) as f, proxy(f.url) as url:
        f.proxy = url
        yield f


def test_everything_is_served_below_the_prefix(below):
    direct = Server(below.url, strict=True)
    s = Server(below.proxy + PREFIX, strict=True)
    paths = [line.split()[1] for line in direct.call("GET", "/routes").expect(200).text.splitlines() if line.startswith("GET")]
    assert {"/", "/metrics", "/ready", "/cluster", "/pyroscope/render"} <= set(paths)
    for path in paths:
        path = path.replace("/assets/*", "/licenses.txt").replace("*", "")
        within, outside = s.call("GET", path), direct.call("GET", path)
        assert within.status == outside.status, within
        assert within.headers.get("Content-Type") == outside.headers.get("Content-Type"), within
    assert s.call("GET", "/live").expect(200).text == "live\n" and s.call("GET", "/ready").expect(200).text.startswith("ready")


def test_the_page_asks_for_its_parts_below_the_prefix(below):
    s = Server(below.proxy, strict=True)
    for path, to in ((PREFIX, PREFIX + "/"), (PREFIX + "?query=x", PREFIX + "/?query=x")):
        moved = s.call("GET", path).expect(308)
        assert moved.headers["Location"] == to
    assert s.call("GET", PREFIX + "/ui/x").expect(302).headers["Location"] == PREFIX + "/"
    for page in ("/", "/explore", "/flame", "/cluster?format=html", "/compactor"):
        text = s.call("GET", PREFIX + page, headers={"Accept": "text/html"}).expect(200, "<html").text
        parts = re.findall(r'(?:src|href)="([^"#]+)"', text)
        assert parts
        for part in parts:
            at = urllib.parse.urljoin(PREFIX + page, part)
            assert at.startswith(PREFIX + "/"), (page, part)
            s.call("GET", at).expect(200)


def test_pushes_and_queries_work_below_and_without(below):
    for base in (below.url, below.proxy + PREFIX):
        s, service = Server(base, strict=True), unique()
        s.send(("main;work", 12), service=service)
        s.ingest(service, b"main;work 3\n", sampleRate="0").expect(200)
        for ask in (below.url, below.proxy + PREFIX):
            other = Server(ask, strict=True)
            assert other.stacks(service) == {"main;work": 12}
            assert other.call("GET", "/pyroscope/render?from=now-15m&query=%s%%7Bservice_name%%3D%%22%s%%22%%7D" % (CPU, service)).expect(200).json()["flamebearer"]["numTicks"] == 12


def test_what_only_begins_like_the_prefix_is_not_there(below):
    s = Server(below.proxy, strict=True)
    for path in (PREFIX + "x/ready", PREFIX[:-1] + "/ready", PREFIX + PREFIX + "/ready", PREFIX.upper() + "/ready"):
        s.call("GET", path).expect(404)


@pytest.mark.parametrize("prefix", ["/pyroscope", "/api", "/compactor", "/querier.v1.QuerierService"])
def test_a_prefix_hides_no_address_that_begins_like_it(prefix):
    with Flametree("--server.path_prefix", prefix) as f:
        s = Server(f.url, strict=True)
        service = unique()
        s.send(("main;work", 12), service=service)
        routes = [line.split()[:2] for line in s.call("GET", "/routes").expect(200).text.splitlines()]
        paths = [path for verbs, path in routes if path.startswith(prefix + "/") and "GET" in verbs]
        for path in paths:
            direct, below = s.call("GET", path), s.call("GET", prefix + path)
            assert direct.status == below.status and direct.headers.get("Content-Type") == below.headers.get("Content-Type"), (path, direct, below)
        assert not paths or any(s.call("GET", path).status != 404 for path in paths)
        assert s.stacks(service) == {"main;work": 12}
        for base in ("", prefix):
            render = "/pyroscope/render?from=now-15m&query=%s%%7Bservice_name%%3D%%22%s%%22%%7D" % (CPU, service)
            assert s.call("GET", base + render).expect(200).json()["flamebearer"]["numTicks"] == 12
        assert s.call("GET", prefix).expect(308).headers["Location"] == prefix + "/"
        s.call("GET", prefix + "/", headers={"Accept": "text/html"}).expect(200, "<html")


def test_the_client_takes_an_address_with_a_path(below, tmp_path):
    service = unique()
    (tmp_path / "p").write_bytes(Pprof(("main;work", 12)).encode())

    def client(*args):
        done = subprocess.run([os.path.join(BIN, "flametree"), *args, "--url", below.proxy + PREFIX], capture_output=True, text=True, timeout=60, env=WITHOUT_SETTINGS)
        assert done.returncode == 0, done
        return done.stdout
    client("push", str(tmp_path / "p"), "-l", "service_name=" + service)
    assert client("query", "-s", service, "-F", "folded") == "main;work 12\n"
    assert service in client("labels", "service_name").split() and client("ready") == "ready\n"
    assert "work" in client("top", "-s", service) and client("deletions") is not None


def test_the_internal_listener_has_no_prefix(tmp_path):
    with Flametree("--server.path_prefix", PREFIX, "--internal.listen", "127.0.0.1:0") as f:
        internal = Server("http://" + f.ports["internal"], strict=True)
        internal.call("GET", "/ready").expect(200)
        internal.call("GET", PREFIX + "/ready").expect(404)


@pytest.mark.parametrize("value", ["flametree", "//x", "/a//b", "/a/../b", "/.", "/a b", "/a?b", "/ö", "/%41"])
def test_prefixes_that_are_none_are_refused(value):
    done = subprocess.run([os.path.join(BIN, "flametree"), "--check-config", "--server.path_prefix", value], capture_output=True, text=True, timeout=60, env=WITHOUT_SETTINGS)
    assert done.returncode == 2 and "server.path_prefix: '%s' is no path" % value in done.stderr, done
