"""Registrations of streams on a service that is slow, or that something stands before which answers for it."""
import re
import time
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from bucket import flags, on_bucket, push, total
from client import CPU, fixed64, now_ms, pb, select
from flametree import Flametree, await_
from s3_proxy import S3Proxy
from s3_service import BUCKET, keys

MANY = 400
SECONDS = 0.03  # of each read: one after the other they would take longer than an ingester has in a round
ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
REGISTRATION = re.compile(r"/v1/streams/([0-9A-Z]{26})$")


def ulid(ms, number):
    value = (ms << 80) | number
    return "".join(ALPHABET[(value >> (5 * i)) & 31] for i in reversed(range(26)))


def enroll(service, prefix, n, ms):
    """Streams of ingesters that are gone, as a program before this one registered them: {ulid}."""
    def put(i):
        name = ulid(ms, i + 1)
        made = ms * 10**6
        body = pb((1, 1), (2, "gone-%d" % (i // 10)), (3, uuid.uuid4().bytes), (4, "127.0.0.1:1"), (5, uuid.uuid4().bytes), (6, 1)) + fixed64(7, made) + fixed64(8, made - 3600 * 10**9)
        status, text = service.call("PUT", "/%s/%s/v1/streams/%s" % (BUCKET, prefix, name), body=body)
        assert status == 200, text
        return name
    with ThreadPoolExecutor(8) as pool:
        return set(pool.map(put, range(n)))


class Slow(S3Proxy):
    """Reads of registrations take a while; `lies` may say instead what one of them is answered."""
    def __init__(self, service):
        super().__init__(service.url)
        self.now = self.most = 0
        self.read = []
        self.lies = {}  # ulid: (status, body)

    def refuse(self, method, path, headers, body):
        found = REGISTRATION.search(path) if method == "GET" else None
        if not found:
            return None
        with self.lock:
            self.read.append(found.group(1))
            self.now += 1
            self.most = max(self.most, self.now)
        time.sleep(SECONDS)
        with self.lock:
            self.now -= 1
            return self.lies.get(found.group(1))


@pytest.fixture
def many(service):
    """(a proxy, the prefix of a store with MANY registrations that is known to be a store, their streams)."""
    prefix = uuid.uuid4().hex
    with on_bucket(service, prefix=prefix) as f:
        push(f.server(), 3)
    streams = enroll(service, prefix, MANY, now_ms() - 3_600_000)
    with Slow(service) as proxy:
        yield proxy, prefix, streams


def each_once(proxy, streams):
    read = [x for x in proxy.read if x in streams]
    return len(read) == len(streams) == len(set(read))


@pytest.mark.parametrize("log", ["local", "object"])
def test_an_ingester_among_many_registrations_becomes_ready(service, many, log):
    proxy, prefix, streams = many
    with Flametree(*flags(service, prefix, endpoint=proxy.url), "--internal.listen=127.0.0.1:0", "--ingester.log=" + log, program="flametree-ingester") as f:  # it awaits /ready
        await_("all registrations to be read", lambda: f.metric('flametree_manifest_registered_streams{reader="ingester"}') >= MANY
               and f.metric('flametree_manifest_unread_registrations{reader="ingester"}') == 0)
        # As long as it lists them they are not read again.
        listed = f.metric('flametree_manifest_streams_listed_timestamp_seconds{reader="ingester"}')
        assert abs(listed - time.time()) < 600
        assert each_once(proxy, streams)
        assert proxy.most > 4, "registrations are read one after the other"
        shown = f.operator().call("GET", "/ingester/streams").expect(200).json()["streams"]
        assert streams <= {x["stream"] for x in shown} and not any("unread" in x for x in shown)
        assert each_once(proxy, streams)


def marked(s, **headers):
    r = s.query("SelectMergeStacktraces", {"Flametree-Partial": "allow", **headers}, profileTypeID=CPU, labelSelector=select("shop"), start=now_ms() - 5 * 3_600_000, end=now_ms() + 60_000).expect(200)
    return r.headers["Flametree-Exact"], r.headers.get("Flametree-Missing", ""), int(r.headers["Flametree-Profiles"])


@pytest.mark.parametrize("status, body", [(403, b"<Error><Code>AccessDenied</Code></Error>"), (404, b"404 page not found\n"), (200, b"<html>Log in</html>")])
def test_a_registration_that_cannot_be_read_is_named_and_stops_nobody(service, many, status, body):
    """Whose rows it is about nobody knows, so an answer without them is not exact."""
    proxy, prefix, streams = many
    bad = sorted(streams)[MANY // 2]
    proxy.lies = {bad: (status, body)}
    with on_bucket(service, "--querier.wait_for_streams=0s", prefix=prefix, endpoint=proxy.url) as f:  # it awaits /ready
        push(f.server(), 2, 3)
        said, missing, profiles = marked(f.server())
        assert said.startswith("partial=") and profiles == 5, said
        ready = f.operator().call("GET", "/ready").expect(200)
        assert "stream.unread" in ready.text and bad in ready.text, ready.text
        shown = {x["stream"]: x for x in f.operator().call("GET", "/ingester/streams").expect(200).json()["streams"]}
        assert [x for x in shown if shown[x].get("unread")] == [bad]
        for stream in sorted(streams - {bad}):
            status, text = service.call("DELETE", "/%s/%s/v1/streams/%s" % (BUCKET, prefix, stream))
            assert status in (200, 204), text
        # All others are gone, and what is left is named by its stream.
        await_("only that one to be missing", lambda: marked(f.server())[1] == "stream " + bad, 60)
        said, missing, profiles = marked(f.server())
        assert said.startswith("partial=") and profiles == 5, said
        proxy.lies = {}
        await_("its registration to be read", lambda: marked(f.server())[1] == "stream %s of gone-%d" % (bad, MANY // 2 // 10), 60)
        await_("the notice to end", lambda: "stream.unread" not in f.operator().call("GET", "/ready").expect(200).text, 60)
        status, text = service.call("DELETE", "/%s/%s/v1/streams/%s" % (BUCKET, prefix, bad))
        assert status in (200, 204), text
        await_("answers to be exact", lambda: marked(f.server())[0] == "exact", 60)
        assert total(f.server()) == 1 + 2 + 3 + 4 + 5


class Deaf(S3Proxy):
    """Answers so many deletions of registrations itself."""
    def __init__(self, service):
        super().__init__(service.url)
        self.deaf, self.said = 0, []

    def refuse(self, method, path, headers, body):
        with self.lock:
            if method != "DELETE" or not REGISTRATION.search(path) or not self.deaf:
                return None
            self.deaf -= 1
            self.said.append(path)
        return 204, b""


@pytest.mark.parametrize("log", ["local", "object"])
def test_a_removal_that_something_else_answered_is_repeated(service, log):
    """Otherwise the registration would stay for ever, and with it the mark of answers."""
    prefix = uuid.uuid4().hex
    with Deaf(service) as proxy, on_bucket(service, "--ingester.log=" + log, prefix=prefix, endpoint=proxy.url) as f:
        push(f.server(), 3)
        assert keys(service.url, BUCKET, prefix + "/v1/streams/")
        proxy.deaf = 2
        f.stop()
        assert len(proxy.said) == 2
        assert not keys(service.url, BUCKET, prefix + "/v1/streams/")
