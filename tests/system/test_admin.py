"""Under multi-tenancy nobody learns of other tenants at the public listener: what tells about all of them is at a listener of its own (admin.listen). Every
route says whose it is, and docs/operations.md has the list."""
import contextlib
import json
import os
import re
import signal
import socket

import pytest
import yaml
from client import PUSH, Pprof, table, unique
from flametree import TOP, Flametree, compact, flush

TENANTS = ("--auth.multitenancy_enabled", "true")
MARKS = ("nobody", "tenant", "all-tenants")
BODY = {"Content-Type": "application/json"}


@pytest.fixture(scope="module")
def f():
    with Flametree(*TENANTS) as f:
        yield f


def routes(f):
    """[(verb, path, whose)]; a prefix' path stands for one below it."""
    rows = [line.rsplit(" ", 1)[0].split(" ", 1) + [line.rsplit(" ", 1)[1]] for line in f.operator().call("GET", "/routes").expect(200).text.splitlines()]
    return [(verb, path.replace("*", "x"), whose) for verbs, path, whose in rows for verb in verbs.split(",")]


def listed():
    with open(os.path.join(TOP, "docs/operations.md")) as page:
        section = re.search(r"^## Pages that tell about all tenants\n(.*?)^## ", page.read(), re.M | re.S).group(1)
    return {(verb, path) for verb, path in re.findall(r"^\| `(GET|POST) (/[^`]*)` \|", section, re.M)}


def test_the_list_is_complete(f):
    assert listed() == {(verb, path) for verb, path, whose in routes(f) if whose == "all-tenants" and verb != "HEAD"}


def test_every_route_says_whose_it_is(f):
    """And is so: at the public listener without a tenant."""
    rows = routes(f)
    assert {whose for _, _, whose in rows} == set(MARKS) and len(rows) > 30
    for verb, path, whose in rows:
        reply = f.server().call(verb, path, b"{}" if verb == "POST" else None, BODY if verb == "POST" else {})
        if whose == "all-tenants":
            assert reply.status == 404, reply
            assert verb == "HEAD" or "admin.listen" in reply.text, reply
        elif whose == "tenant":
            assert reply.status == 401, reply
        else:
            assert reply.status in (200, 302, 307, 308) or (path, reply.status) in (("/labels", 404), ("/assets/x", 404), ("/grpc.health.v1.Health/Watch", 501)), reply


def test_operators_have_it_all(f):
    for verb, path, whose in routes(f):
        reply = f.operator().call(verb, path, b"" if verb == "POST" else None)
        if whose == "all-tenants":
            assert reply.status == 200 or (path, reply.status) in (("/runtime_config", 404), ("/ingester/streams/forget", 400), ("/ingester/streams/recover", 400), ("/ingester/streams/remove", 400), ("/compactor/delete", 400), ("/compactor/delete-tenant", 400), ("/compactor/import", 400), ("/distributor/place", 400)), reply  # (nothing is configured; of which node? of which series? which tenant? no profiles; of which labels?)
        elif whose == "tenant":
            assert reply.status in (404, 405, 401) and "flametree" not in reply.text.lower(), reply
    f.operator().call("GET", "/ready").expect(200)


SECRETS = ["/metrics", "/config", "/compactor/status", "/ingester/cuts", "/compactor", "/cluster", "/distributor/place?labels=%7Ba=%22b%22%7D", "/runtime_config?mode=diff", "/api/v1/status/config"]


@pytest.mark.parametrize("path", SECRETS)
def test_a_tenant_learns_nothing_of_another(f, path):
    other = unique("other")
    f.server(other).push({"__name__": "process_cpu", "service_name": unique()}, Pprof(("a;b", 5))).expect(200)
    for tenant in (None, "me"):
        reply = f.server(tenant).call("GET", path)
        assert reply.status == 404 and other not in reply.text and len(reply.text) < 200, reply
    flush(f)
    compact(f)
    assert f.metric("flametree_ready") == 1
    if path == "/compactor/status":
        assert other in f.operator().call("GET", path).expect(200).text


def test_a_tenant_flushes_nothing(f):
    f.server("me").call("POST", "/ingester/flush").expect(404)
    f.server("me").call("POST", "/compactor/run").expect(404)


def test_pages_of_other_sites_are_refused_there_too(f):
    for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}, {"Sec-Fetch-Site": "cross-site"}):
        f.operator().call("GET", "/metrics", headers=headers).expect(403)
        f.operator().call("POST", "/ingester/flush", headers=headers).expect(403)


def test_the_default_is_reachable_from_this_machine_alone(f):
    assert re.fullmatch(r"127\.0\.0\.1:\d+", f.ports["admin"]) and f.admin_url != f.url
    assert "admin=" + f.ports["admin"] in f.tail(1000)
    assert f.metric('flametree_net_connections{listener="admin"}') == 1


def test_while_it_starts_nothing_is_told(tmp_path):
    """A start that takes a while: the public listener has no metrics meanwhile."""
    from flametree import await_
    from client import Server
    with Flametree(*TENANTS, env={"FLAMETREE_FAULTS": "wal.begin.before=delay:2000"}, data=str(tmp_path)) as f:
        f.stop()
        f.start(wait=False)
        ports = os.path.join(f.data, "run", "ports.json")

        def listening():
            try:
                with open(ports) as text:
                    return json.load(text)
            except (OSError, ValueError):
                return None
        at = await_("ports.json", listening, 60)
        public, admin = Server("http://127.0.0.1:%d" % at["public"]), Server("http://" + at["admin"])
        assert public.call("GET", "/metrics").status in (404, 503) and public.call("GET", "/ready").status in (200, 503)
        assert admin.call("GET", "/metrics").status == 200
        f.await_ready()


def test_metrics_are_told_until_a_process_has_drained():
    """With the log in the store there are threads that end before the listener does."""
    with Flametree(*TENANTS, "--ingester.log=object", env={"FLAMETREE_FAULTS": "flush.begin=delay:1500"}) as f:
        f.server("a").push({"__name__": "process_cpu", "service_name": unique()}, Pprof(("a;b", 5))).expect(200)
        f.process.send_signal(signal.SIGTERM)
        scrapes = []
        while f.process.poll() is None:
            with contextlib.suppress(AssertionError):  # the listener is closed
                scrapes.append(f.operator().call("GET", "/metrics").status)
        process, f.process = f.process, None
        f.stopped(process)
        assert scrapes.count(200) > 3, scrapes


ONE = [("no-tenants", (), None), ("asked-for", (*TENANTS, "--admin.listen", "public"), None)]


@table("flags, nothing", ONE)
def test_one_listener_has_all(flags, nothing):
    with Flametree(*flags) as f:
        assert "admin" not in f.ports
        f.server().call("GET", "/metrics").expect(200)
        f.server().call("POST", "/ingester/flush").expect(200)


def test_a_listener_of_its_own_without_tenants(tmp_path):
    with Flametree("--admin.listen", "127.0.0.1:0") as f:
        f.server().call("GET", "/metrics").expect(404)
        f.server().call("POST", "/ingester/flush").expect(404)
        f.server().push({"__name__": "process_cpu", "service_name": unique()}, Pprof(("a;b", 5))).expect(200)
        flush(f)
        assert f.metric("flametree_ready") == 1


def test_the_example_serves_tenants():
    path = os.path.join(TOP, "deploy/examples/tenants.yaml")
    with open(path) as f:
        host = yaml.safe_load(f)["admin"]["listen"].rpartition(":")[0]
    with Flametree("--config", path, "--admin.listen", host + ":0") as f:
        f.server().call("POST", PUSH, b"", {"Content-Type": "application/proto"}).expect(401)
        f.server().call("GET", "/metrics").expect(404)
        f.operator().call("GET", "/metrics").expect(200)
        with pytest.raises(ConnectionRefusedError):  # nobody reaches it from elsewhere
            socket.create_connection(("127.0.0.2", int(f.admin_url.rpartition(":")[2]))).close()


def test_an_address_that_is_none_is_refused(tmp_path):
    import subprocess

    from flametree import BIN
    done = subprocess.run([os.path.join(BIN, "flametree"), "--check-config", "--admin.listen", "nowhere"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2 and "admin.listen" in done.stderr and "nowhere" in done.stderr, done
