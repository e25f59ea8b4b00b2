"""Something before the bucket takes no large bodies, as nginx takes none of more than 1 MB by default."""
import concurrent.futures
import functools
import gzip
import random
import time

import pytest
from bucket import on_bucket, push, total
from client import Pprof, unique
from flametree import AT_ONCE, await_, compact, flush
from otlp import otlp_request
from s3_proxy import S3Proxy

MB = 1 << 20
IN_STORE = ("--ingester.log=object", "--ingester.log_linger=20ms")
PAGE = b"<html><head><title>413 Request Entity Too Large</title></head></html>"


class Narrow(S3Proxy):
    """Refuses bodies of more than `most` bytes, of objects below a folder."""

    def __init__(self, upstream, most=None, below="/v1/", status=413):
        super().__init__(upstream)
        self.most, self.below, self.status, self.said, self.largest = most, below, status, 0, 0

    def refuse(self, method, path, headers, body):
        if method not in ("PUT", "POST") or self.below not in path:
            return None
        if self.most is None or len(body) <= self.most:
            self.largest = max(self.largest, len(body))
            return None
        self.said += 1
        return self.status, PAGE


@functools.lru_cache(None)
def samples(stacks, seed):
    rng = random.Random(seed)
    return [("main;f%d;g%d_%d" % (i % 40, seed, i), rng.randrange(10**6, 10**9)) for i in range(stacks)]


@functools.lru_cache(None)
def large(stacks=2000, seed=1):
    """A profile of many stacks, which takes some 30 bytes a stack."""
    return Pprof(*samples(stacks, seed), time_ns=time.time_ns() - 10**9).encode()


def push_large(s, service, n, seed=1):
    return s.push({"__name__": "process_cpu", "service_name": service}, *[gzip.compress(large(seed=seed), 1)] * n)


def push_small(s, service):
    return s.push({"__name__": "process_cpu", "service_name": service}, Pprof(("main;work", 1), time_ns=time.time_ns() - 10**9)).status


def ready(f):
    return f.operator().call("GET", "/ready")


def test_a_push_that_is_too_large_stops_no_other(service):
    """Only objects of the log are refused, so that trials do not show it."""
    with Narrow(service.url, 50_000, "/v1/log/") as proxy, on_bucket(service, *IN_STORE, endpoint=proxy.url) as f:
        s, name = f.server(), unique("narrow")
        assert push_small(s, name) == 200
        reply = push_large(s, unique("large"), 5)
        assert reply.status == 400 and reply.json()["code"] == "invalid_argument", reply.text
        assert "bytes in the log" in reply.text and "413" in reply.text
        await_("a push in the next stream", lambda: push_small(s, name) == 200)
        assert [push_small(s, name) for _ in range(20)] == [200] * 20
        # A client that sends it again and again is refused without the store.
        said = proxy.said
        assert said == 1
        for _ in range(3):
            assert push_large(s, unique("large"), 5).status == 400
        assert proxy.said == said
        assert f.metric("flametree_ingester_log_refused_objects_total") == 1
        assert f.metric("flametree_ingester_log_refused_pushes_total") == 4
        assert f.metric('flametree_ingester_refused_total{reason="size"}') == 4
        await_("the notice", lambda: "log.object_limit" in ready(f).text)
        f.kill()
        f.start()
        await_("all of them", lambda: total(f.server(), name) == 22)


@pytest.mark.parametrize("status", [500, 403])
def test_a_push_that_fails_for_its_size_is_put_off_and_stops_no_other(service, status):
    """This may pass, so the client is to come again. But a try takes seconds, in which all wait: so there are few."""
    with Narrow(service.url, 50_000, "/v1/log/", status) as proxy, on_bucket(service, *IN_STORE, endpoint=proxy.url) as f:
        s, name, taken = f.server(), unique("narrow"), 0
        for _ in range(2):
            reply = push_large(s, unique("large"), 5)
            assert reply.status == 503 and reply.headers.get("Retry-After"), (reply.status, reply.text)
            await_("a push in the next stream", lambda: push_small(s, name) == 200)
            taken += 1
        said = proxy.said
        for _ in range(3):
            reply = push_large(s, unique("large"), 5)
            assert reply.status == 503 and "put off" in reply.text, (reply.status, reply.text)
            assert push_small(s, name) == 200
            taken += 1
        assert proxy.said == said
        assert "event=log.failed" not in f.tail(1000)
        f.kill()
        proxy.most = None
        f.start()
        await_("all of them", lambda: total(f.server(), name) == taken)
        assert push_large(f.server(), name, 5).status == 200


def test_the_status_of_what_is_too_large_is_413(service):
    with Narrow(service.url, 50_000, "/v1/log/") as proxy, on_bucket(service, *IN_STORE, endpoint=proxy.url) as f:
        s = f.server()
        body = "\n".join("main;f%d;g%d %d" % (i % 40, i, 10**6 + i * 7919) for i in range(6000)).encode()
        reply = s.ingest(unique("large"), body, **{"from": str(int(time.time()) - 1), "until": str(int(time.time()))})
        assert reply.status == 413, reply.text
        assert "bytes in the log" in reply.text
        await_("a push in the next stream", lambda: push_small(s, unique()) == 200)
        reply = s.call("POST", "/v1development/profiles", otlp_request(unique("large"), *[(stack, 1 + value % 1000) for stack, value in samples(4000, 3)]), {"Content-Type": "application/x-protobuf"}, push=True)
        assert reply.status == 413, reply.text
        await_("a push in the next stream", lambda: push_small(s, unique()) == 200)
        reply = s.ingest(unique("large"), large(6000, 2), format="pprof", **{"from": str(int(time.time()) - 1), "until": str(int(time.time()))})
        assert reply.status == 413, reply.text


def test_a_limit_shows_at_the_start_and_the_log_stays_below_it(service):
    with Narrow(service.url, MB) as proxy, on_bucket(service, *IN_STORE, endpoint=proxy.url) as f:
        s, name = f.server(), unique("narrow")
        text = ready(f).text
        assert "storage.limit" in text and " at most %d bytes" % MB in text and "client_max_body_size" in text, text
        await_("the notice of the log", lambda: "log.object_limit" in ready(f).text)
        assert f.metric("flametree_ingester_log_object_limit_bytes") == MB
        assert 1 <= proxy.said <= 12
        # What comes together and takes more goes in several objects, and none is refused.
        said, proxy.largest = proxy.said, 0
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            replies = list(pool.map(lambda seed: push_large(s, name, 4, seed), range(16)))
        assert [r.status for r in replies] == [200] * 16, replies
        want = sum(4 * value for seed in range(16) for _, value in samples(2000, seed))
        assert total(s, name) == want
        assert proxy.said == said
        f.kill()
        f.start()
        await_("all of them", lambda: total(f.server(), name) == want)
        assert f.metric("flametree_ingester_log_refused_objects_total") == 0


def test_while_nothing_is_taken_it_is_told_and_it_ends_by_itself(service):
    with Narrow(service.url) as proxy, on_bucket(service, *IN_STORE, endpoint=proxy.url) as f:
        s, name = f.server(), unique("narrow")
        assert push_small(s, name) == 200
        proxy.most = 0
        reply = s.push({"__name__": "process_cpu", "service_name": name}, Pprof(("main;work", 1), time_ns=time.time_ns() - 10**9))
        assert reply.status == 503 and "nothing can be stored" in reply.text, reply.text
        await_("that it is told", lambda: ready(f).status == 503 and "nothing can be stored" in ready(f).text)
        proxy.most = None
        await_("that it is over", lambda: ready(f).status == 200)
        await_("a push", lambda: push_small(s, name) == 200)
        assert f.metric("flametree_ingester_log_object_limit_bytes") == 8 * MB


def test_a_segment_that_is_too_large_names_the_limit(service):
    """The limit comes after the start. The profiles stay in the log, and are flushed when it is gone."""
    with Narrow(service.url, below="/live/a/") as proxy, on_bucket(service, *IN_STORE, endpoint=proxy.url) as f:
        s, name = f.server(), unique("narrow")
        push(s, 5, service=name)
        proxy.most = 100
        reply = f.operator().call("POST", "/ingester/flush?wait=true&timeout=5s", b"")
        assert reply.status != 200
        await_("the notice", lambda: "flush.limit" in ready(f).text and "413" in ready(f).text)
        assert f.metric("flametree_ingester_flush_too_large_total") >= 1
        proxy.most = None
        await_("the flush", lambda: f.operator().call("POST", "/ingester/flush?wait=true", b"").status == 200, 120)
        assert "flush.limit" not in ready(f).text
        assert total(s, name) == 15


def test_a_block_that_is_too_large_names_the_limit(service):
    """Its segments stay and answer. The job goes on when the limit is gone."""
    with Narrow(service.url, below="/raw/") as proxy, on_bucket(service, *AT_ONCE, "--compactor.retry_max=1s", endpoint=proxy.url) as f:
        s, name = f.server(), unique("narrow")
        push(s, 5, service=name, ago_s=3 * 3600)
        flush(f)
        proxy.most = 100
        f.operator().call("POST", "/compactor/run?timeout=5s", b"")
        await_("the notice", lambda: "compactor.limit" in ready(f).text and "413" in ready(f).text)
        assert f.metric("flametree_compactor_too_large_total") >= 1
        assert total(s, name) == 15
        proxy.most = None
        compact(f)
        await_("the notice to end", lambda: "compactor.limit" not in ready(f).text)
        assert total(s, name) == 15
