"""What lies between a client and its store answers in the store's place: pages of proxies with 404, 403, 413 or 200, and 200 with nothing. No object is
taken for gone or for stored because of that, by the client of S3 and by that of Azure."""
import os
import re
import subprocess

import pytest
from bucket import NO_KEYS, on_bucket, push, total
from cli import PROGRAM, env_of
from client import CPU, now_ms, select, unique
from copies import accept_loss, tool
from flametree import BIN, Flametree, await_, compact, flush
from s3_proxy import LIES, S3Proxy

KINDS = ["radosgw", "versitygw", "azurite"]


@pytest.mark.each_value
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("lie", [lie for lie in LIES if lie != "page413"])
def test_the_tests_of_every_store_pass_whatever_answers_for_it(services, kind, lie):
    service = services(kind)
    with S3Proxy(service.url) as proxy:
        proxy.trouble = {lie: 0.1}
        endpoint, *rest = service.table()
        done = subprocess.run([os.path.join(BIN, "s3.store"), service.endpoint(proxy.url), *rest], capture_output=True, text=True, timeout=600)
        assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
        assert proxy.done[lie] > 10


class Liar(S3Proxy):
    """Answers requests whose method and path are those of `about`, `left` of them."""
    about, lie, left, said = None, None, 0, 0

    def refuse(self, method, path, headers, body):
        with self.lock:
            if not self.left or not re.search(self.about, "%s %s" % (method, path)):
                return None
            self.left -= 1
            self.said += 1
        return LIES[self.lie]

    def lies(self, lie, about, times=10**9):
        self.lie, self.about, self.left, self.said = lie, about, times, 0

    def heals(self):
        self.left = 0


@pytest.fixture(params=["radosgw", "azurite"])
def liar(request, services):
    """(service, a proxy before it)"""
    service = services(request.param)
    with Liar(service.url) as proxy:
        yield service, proxy


def test_objects_that_cannot_be_read_are_missing_from_an_answer_that_says_so(liar):
    service, proxy = liar
    with on_bucket(service, endpoint=service.endpoint(proxy.url)) as f:
        push(f.server(), 9)
        flush(f)
        proxy.lies("page404", "^(GET|HEAD) .*/live/a/")
        reply = f.server().query("SelectMergeStacktraces", {}, profileTypeID=CPU, labelSelector=select("shop"), start=now_ms() - 3_600_000, end=now_ms() + 60_000)
        assert proxy.said
        assert reply.status != 200 or reply.headers.get("Flametree-Exact") != "true", (reply.status, reply.headers)
        proxy.heals()
        assert total(f.server()) == sum(range(1, 10))


@pytest.mark.parametrize("lie", ["page200", "nothing", "page404", "page403", "page413"])
def test_what_is_not_stored_stays_in_the_log(liar, lie):
    service, proxy = liar
    with on_bucket(service, endpoint=service.endpoint(proxy.url)) as f:
        push(f.server(), 5)
        proxy.lies(lie, "^PUT .*/live/a/")
        assert f.operator().call("POST", "/ingester/flush?wait=true&timeout=3s", b"").status != 200
        assert proxy.said and total(f.server()) == 15
        proxy.heals()
        await_("the flush", lambda: f.operator().call("POST", "/ingester/flush?wait=true", b"").status == 200, 120)
        compact(f)
        assert total(f.server()) == 15


def test_the_error_names_what_something_else_has_said(liar):
    service, proxy = liar
    with on_bucket(service, endpoint=service.endpoint(proxy.url)) as f:
        push(f.server(), 1)
        proxy.lies("page413", "^PUT .*/live/a/")
        reply = f.operator().call("POST", "/ingester/flush?wait=true&timeout=3s", b"")
        said = reply.text + f.tail(100000)
        assert "answers 413, so what is sent is too large for it or for a proxy before it: '<html>" in said, said
        proxy.heals()


def test_a_backup_has_all_objects_whatever_answers_for_the_store(liar, tmp_path):
    service, proxy = liar
    prefix, copy, data = unique("lies"), tmp_path / "copy", tmp_path / "data"
    with on_bucket(service, prefix=prefix) as f:
        push(f.server(), 9)
        flush(f)
        compact(f)
        push(f.server(), 5, 9)
        flush(f)
    through = {**service.client_env(), "AWS_ENDPOINT_URL_S3": proxy.url, "AZURE_STORAGE_SERVICE_ENDPOINT": service.endpoint(proxy.url)}
    proxy.trouble = {"page404": 0.1, "page200": 0.06, "etag200": 0.06, "nothing": 0.06}
    tool("backup", service.store_url(prefix), copy, env=env_of(**{**NO_KEYS, **through}))
    assert sum(proxy.done.values()) > 2
    assert "0 wrong" in tool("restore", "--check", copy, env=env_of())
    data.mkdir()
    tool("restore", copy, data / "store", env=env_of())
    with Flametree(data=str(data)) as g:
        accept_loss(g)
        assert total(g.server()) == sum(range(1, 15))


class Loser(S3Proxy):
    """Takes registrations of streams and has none, in the very words of the service."""
    said = 0

    def refuse(self, method, path, headers, body):
        if method == "GET" and re.search(r"/v1/streams/[0-9A-Z]{26}$", path):
            self.said += 1
            return 404, b"<?xml version=\"1.0\"?><Error><Code>NoSuchKey</Code></Error>"
        if method == "GET" and re.search(r"prefix=[^&]*streams%2F[0-9A-Z]{26}", path):
            return 200, b"<?xml version=\"1.0\"?><ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
        return None


def test_a_backup_fails_if_its_copy_lacks_what_was_written_there(services):
    """It is not taken for a stream that has ended meanwhile."""
    service = services("radosgw")
    with Loser(service.url) as proxy, Flametree() as f:
        push(f.server(), 3)
        env = env_of(**{**NO_KEYS, **service.client_env(), "AWS_ENDPOINT_URL_S3": proxy.url})
        done = subprocess.run([PROGRAM, "backup", f.data, service.store_url(unique("copy"))], capture_output=True, text=True, timeout=300, env=env)
        assert proxy.said
        assert done.returncode != 0 and "/streams/" in done.stderr and "there is none" in done.stderr, done.stderr
