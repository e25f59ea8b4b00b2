"""SIGHUP reads certificates again: new connections get them, open ones stay, and a pair that cannot be used changes nothing."""
import os
import shutil
import signal
import socket
import ssl
import urllib.request

import pytest
from certificates import certificates
from client import Pprof, Server, unique
from flametree import Flametree, await_
from test_nodes import node

FILES = ("ca.pem", "node.pem", "node.key")


@pytest.fixture
def folders(tmp_path):
    """Two authorities with a certificate each, and a folder for what is in use."""
    made = [tmp_path / name for name in ("first", "second", "used")]
    for folder in made:
        folder.mkdir()
    for folder in made[:2]:
        certificates(folder)
    return made


def install(source, used, names=FILES):
    for name in names:
        shutil.copy(source / name, used / (name + ".new"))
        os.replace(used / (name + ".new"), used / name)


def connect(port, folder):
    """A TLS connection that trusts the folder's authority and shows its certificate."""
    context = ssl.create_default_context(cafile=folder / "ca.pem")
    context.load_cert_chain(folder / "node.pem", folder / "node.key")
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port), timeout=30), server_hostname="127.0.0.1")


def ask(connection):
    connection.sendall(b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n")
    head = connection.recv(4096)
    return head.startswith(b"HTTP/1.1 200")


def accepts(port, folder):
    try:
        with connect(port, folder) as c:
            return ask(c)
    except OSError:  # a certificate that one side does not trust
        return False


def reloads(f, result):
    return f.metric('flametree_tls_reloads_total{result="%s"}' % result) or 0


def hang_up(f, result, times=1):
    """SIGHUP, and waits until that many more reloads ended so."""
    before = reloads(f, result)
    f.signal(signal.SIGHUP)
    await_("a reload that is %s" % result, lambda: reloads(f, result) == before + times)


def test_public_listener(folders):
    first, second, used = folders
    install(first, used)
    with Flametree("--server.tls_cert_file", str(used / "node.pem"), "--server.tls_key_file", str(used / "node.key")) as f:
        port = f.ports["public"]
        with connect(port, first) as open_one:
            assert ask(open_one)
            install(second, used)
            assert accepts(port, first) and not accepts(port, second)  # nobody said so yet
            hang_up(f, "well")
            assert accepts(port, second) and not accepts(port, first)
            assert ask(open_one)
        install(first, used, ("node.pem",))
        hang_up(f, "refused")
        (used / "node.key").unlink()
        hang_up(f, "refused")
        assert accepts(port, second) and not accepts(port, first)
        lines = [line for line in f.tail(500).splitlines() if "tls.refused" in line]
        assert len(lines) == 2 and all("public_listener" in line and "node.key" in line for line in lines), lines
        assert "node.pem" in lines[0], lines
        install(first, used)
        hang_up(f, "well")
        assert accepts(port, first) and not accepts(port, second)


def test_nodes_change_their_authority(folders):
    first, second, used = folders
    install(first, used)
    tls = ["--internal.tls_cert_file", str(used / "node.pem"), "--internal.tls_key_file", str(used / "node.key"), "--internal.tls_ca_file", str(used / "ca.pem")]
    with node("ingester", *tls) as ingester:
        at = ["--cluster.ingesters", "a=" + ingester.ports["internal"]]
        with node("distributor", *at, *tls) as distributor, node("querier", *at, *tls) as querier:
            def push_and_query():
                service = unique()
                Server(distributor.url).push({"__name__": "process_cpu", "service_name": service}, Pprof(("a", 3))).expect(200)
                assert Server(querier.url, strict=True).stacks(service) == {"a": 3}
            push_and_query()
            install(second, used)
            port = int(ingester.ports["internal"].rsplit(":", 1)[1])
            hang_up(ingester, "well", 2)  # its listener and its client
            assert accepts(port, second) and not accepts(port, first)
            hang_up(distributor, "well", 2)
            hang_up(querier, "well", 2)
            push_and_query()  # over new connections: the client has no old ones for other certificates

            install(first, used, ("node.key",))
            hang_up(distributor, "refused", 2)
            push_and_query()
            assert "client" in distributor.tail(500) and "internal_listener" in distributor.tail(500)


def test_hangup_without_certificates_reloads_none():
    with Flametree() as f:
        before = f.metric('flametree_config_reloads_total{result="well"}') or 0
        f.signal(signal.SIGHUP)
        await_("the settings", lambda: f.metric('flametree_config_reloads_total{result="well"}') == before + 1)
        with urllib.request.urlopen(f.url + "/ready") as answer:
            assert answer.status == 200
        assert "tls." not in f.tail(200)
