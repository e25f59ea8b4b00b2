"""Services in processes of their own: they find each other by their internal listeners, in the clear or by mutual TLS."""
import json
import subprocess
import urllib.error
import urllib.request

import pytest
from client import Pprof, Server, unique
from flametree import Flametree


def certificates(folder):
    """An authority, and a certificate of it for 127.0.0.1; returns the flags that use them."""
    def openssl(*args):
        subprocess.run(["openssl", *args], check=True, capture_output=True, cwd=folder)
    openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=test authority")
    openssl("req", "-newkey", "rsa:2048", "-nodes", "-keyout", "node.key", "-out", "node.csr", "-subj", "/CN=node")
    (folder / "ext").write_text("subjectAltName=IP:127.0.0.1\n")
    openssl("x509", "-req", "-in", "node.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-out", "node.pem", "-days", "2", "-extfile", "ext")
    return ["--internal.tls_cert_file", str(folder / "node.pem"), "--internal.tls_key_file", str(folder / "node.key"),
            "--internal.tls_ca_file", str(folder / "ca.pem")]


def node(program, *args):
    return Flametree("--internal.listen", "127.0.0.1:0", *args, program="flametree-" + program)


def push_and_query(tls):
    with node("ingester", *tls) as ingester:
        at = ["--cluster.ingesters", "a=" + ingester.ports["internal"]]
        with node("distributor", *at, *tls) as distributor, node("querier", *at, *tls) as querier:
            service = unique()
            Server(distributor.url).push({"__name__": "process_cpu", "service_name": service}, Pprof(("a", 3), ("a;b", 4))).expect(200)
            assert Server(querier.url, strict=True).stacks(service) == {"a": 3, "a;b": 4}


def test_services_work_apart():
    push_and_query([])


def test_services_work_apart_with_mutual_tls(tmp_path):
    push_and_query(certificates(tmp_path))


def test_a_node_without_a_certificate_is_refused(tmp_path):
    with node("ingester", *certificates(tmp_path)) as ingester:
        with node("distributor", "--cluster.ingesters", "a=" + ingester.ports["internal"]) as distributor:
            reply = Server(distributor.url).push({"__name__": "process_cpu", "service_name": "x"}, Pprof(("a", 1)))
            assert reply.status >= 500, (reply.status, reply.body)
        answer = subprocess.run(["curl", "-sS", "--cacert", str(tmp_path / "ca.pem"), "https://" + ingester.ports["internal"] + "/ready"], capture_output=True, text=True)
        assert answer.returncode != 0 and "certificate" in answer.stderr, answer


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def internal(f, path, body=b"", **headers):
    """A request of another node, as anybody may send it who reaches the internal listener: (status, body)."""
    sum_ = "%08x" % crc32c(path.encode() + headers.get("X-Scope-OrgID", "").encode() + body)
    sent = {"Content-Type": "application/proto", "Flametree-CRC32C": sum_, **headers}
    request = urllib.request.Request("http://%s%s" % (f.ports["internal"], path), body, sent, method="POST")
    try:
        with urllib.request.urlopen(request) as answer:
            return answer.status, answer.read().decode(errors="replace")
    except urllib.error.HTTPError as refused:
        return refused.code, refused.read().decode()


@pytest.mark.parametrize("method", ["Append", "HeadRead", "Streams"])
def test_what_another_node_says_of_a_tenant_is_checked(method, tmp_path):
    with node("ingester", "--storage.dir", str(tmp_path / "store")) as ingester:
        for tenant in ("../../evil", "a/b", "..", "a||b", "x" * 151, "a b"):
            status, said = internal(ingester, "/flametree.v1.IngesterService/" + method, **{"X-Scope-OrgID": tenant})
            assert status == 401 and "tenant" in said, (tenant, status, said)
        status, said = internal(ingester, "/flametree.v1.IngesterService/Append", **{"X-Scope-OrgID": "a|b"})
        assert status == 400 and "tenant 'a|b' is not one name" in said, (status, said)
        status, said = internal(ingester, "/flametree.v1.IngesterService/" + method, **{"Flametree-CRC32C": "00000000"})
        assert status == 503 and "damaged on the way" in said, (status, said)


def test_an_internal_listener_for_all_says_so_unless_it_has_tls(tmp_path):
    with Flametree("--internal.listen", "0.0.0.0:0", program="flametree-ingester") as f:
        said = f.tail()
        assert said.count("event=internal.exposed listen=0.0.0.0:0") == 1 and "internal.tls_cert_file" in said, said
    with Flametree("--internal.listen", "0.0.0.0:0", *certificates(tmp_path), program="flametree-ingester") as f:
        assert "internal.exposed" not in f.tail()
    with node("ingester") as f:
        assert "internal.exposed" not in f.tail()


def test_the_compactor_runs_alone():
    with node("compactor") as compactor:
        with urllib.request.urlopen(compactor.url + "/compactor/duties") as answer:
            assert {d["state"] for d in json.load(answer)["duties"]} == {"not built", "off"}  # without a store


@pytest.mark.parametrize("path", ["/config", "/compactor/duties"])
def test_the_internal_listener_shows_only_what_nodes_need(path):
    with node("compactor") as compactor:
        inside = "http://" + compactor.ports["internal"]
        with urllib.request.urlopen(inside + "/ready") as answer:
            assert answer.read() == b"ready"
        with urllib.request.urlopen(inside + "/metrics") as answer:
            assert b"flametree_ready 1" in answer.read()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(inside + path)
        assert refused.value.code == 404
