"""How requests reach a service: the bucket before the host or in the path, connections that are used again, as many under way as allowed."""
import collections
import contextlib
import threading

import pytest
from bucket import BUCKET, on_bucket, push, total
from client import unique
from flametree import await_, compact, flush
from s3_service import signed
from s3_proxy import S3Proxy


class Recorder(S3Proxy):
    """Notes each request's host, path and connection, and how many are under way together. Sends them on with the bucket in the path."""
    def __init__(self, service, seconds=0.0):
        super().__init__(service.url)
        self.service = service
        self.hosts, self.paths, self.most, self.now, self.connections = set(), set(), 0, 0, 0
        self.seconds = seconds
        self.pause = threading.Event()  # never set: waiting for it is a pause

    def refuse(self, method, path, headers, body):
        with self.lock:
            self.hosts.add(headers["host"])
            self.paths.add(path.partition("?")[0])
            self.now += 1
            self.most = max(self.most, self.now)
        self.pause.wait(self.seconds)
        return None

    def back(self, headers):
        with self.lock:
            self.now -= 1
        return headers

    def __enter__(self):
        super().__enter__()
        accept = self.server.get_request

        def get_request():
            got = accept()
            with self.lock:
                self.connections += 1
            return got
        self.server.get_request = get_request
        return self


class Virtual(Recorder):
    def target(self, path):
        return "/" + BUCKET + path

    def change(self, method, path, headers, body):
        given = {k.lower(): v for k, v in headers.items()}
        return signed(self.service.url, (self.service.access_key, self.service.secret_key), method, self.target(path), given, body, self.service.region)


@contextlib.contextmanager
def recorded(kind, service, **options):
    with kind(service, **options) as p:
        p.access_key, p.secret_key, p.region = service.access_key, service.secret_key, service.region
        yield p


def work(p, **s3):
    prefix = unique("requests")
    with on_bucket(p, prefix=prefix, **s3) as f:
        push(f.server(), 9)
        flush(f)
        compact(f)
    with on_bucket(p, prefix=prefix, **s3) as f:
        assert total(f.server()) == sum(range(1, 10))


def test_the_bucket_stands_before_the_host(service):
    with recorded(Virtual, service) as p:
        p.url = p.url.replace("127.0.0.1", "localhost")
        work(p, style="virtual")
        assert p.hosts == {BUCKET + "." + p.url.removeprefix("http://")}
        assert not any(path.startswith("/" + BUCKET + "/") for path in p.paths)


def test_the_bucket_stands_in_the_path(service):
    with recorded(Recorder, service) as p:
        work(p, style="path")
        assert p.hosts == {p.url.removeprefix("http://")}
        assert all(path == "/" + BUCKET + "/" or path.startswith("/" + BUCKET + "/") for path in p.paths)


@pytest.mark.parametrize("width", [1, 3, 8])
def test_no_more_requests_than_the_width_are_under_way_and_connections_are_used_again(service, width):
    with recorded(Recorder, service, seconds=0.01) as p:
        work(p, width=width)
        # The trial at the start has a client of one request more; two processes ran one after the other.
        # It sends eight creations at once.
        assert min(width, 4) <= p.most <= width + 1
        assert p.connections <= 2 * (width + 1) < p.requests / 4, (p.connections, p.requests)


NANODOLLARS = {"write": 5000, "read": 400}  # a request of each class at Amazon's list prices: 0.005 and 0.0004 dollars a thousand


class Till(S3Proxy):
    """Counts requests as Amazon's price list names them."""
    def __init__(self, upstream):
        super().__init__(upstream)
        self.asked = collections.Counter()

    def refuse(self, method, path, headers, body):
        query = path.partition("?")[2]
        lists = method == "GET" and ("list-type=" in query or query.startswith("uploads") or "&uploads" in query)
        free = method == "DELETE" or method == "POST" and query.startswith("delete")
        if not free:
            with self.lock:
                self.asked["write" if lists or method in ("PUT", "POST") else "read"] += 1
        return None


def test_the_cost_that_metrics_tell_is_that_of_the_requests_that_the_service_saw(service):
    with Till(service.url) as p:
        p.access_key, p.secret_key, p.region = service.access_key, service.secret_key, service.region
        with on_bucket(p, "--compactor.interval=1h") as f:
            push(f.server(), 9)
            flush(f)
            compact(f)
            assert total(f.server()) == sum(range(1, 10))

            def told():
                return {c: f.metric('flametree_s3_cost_nanodollars_total{class="%s"}' % c) for c in NANODOLLARS}
            # Requests that nobody waits for may still be under way.
            await_("metrics to tell each request", lambda: told() == {c: n * p.asked[c] for c, n in NANODOLLARS.items()})
            assert p.asked["write"] > 10 and p.asked["read"] > 0
