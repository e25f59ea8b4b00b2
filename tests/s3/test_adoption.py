"""ingester.log: object in a bucket. Objects stay there for twenty minutes after they are covered, so the log of an ingester is many times as large as its
head ever was. When it is killed another one takes it over."""
import collections
import os
import re
import shutil
import threading
import time

import pytest
from bucket import flags
from client import CPU, Pprof, now_ms, select, unique
from flametree import Cluster, await_
from s3_proxy import S3Proxy

HEAD_MIB, LOG_MIB = 12, 20
MANY = 400  # objects of a log
SECONDS = 0.03  # of each read
OBJECT = ("--ingester.log=object", "--ingester.log_linger=20ms", "--ingester.stream_settle=2s")
LOG_OBJECT = re.compile(r"/v1/log/([0-9A-Z]{26})/[0-9a-f]{16}$")
STACKS = ["main;f%d;g%d" % (i % 40, i) for i in range(3000)]


class Watched(S3Proxy):
    """Sees which objects of logs are written and read. Reads take a while if `slow`; those of the streams in `held` wait until `free` is set."""
    def __init__(self, service):
        super().__init__(service.url)
        self.access_key, self.secret_key = service.access_key, service.secret_key
        self.slow, self.held, self.free = False, set(), threading.Event()
        self.written, self.read = collections.defaultdict(set), collections.Counter()
        self.now = self.most = self.waiting = 0

    def refuse(self, method, path, headers, body):
        found = LOG_OBJECT.search(path)
        if not found:
            return None
        stream = found.group(1)
        with self.lock:
            if method == "PUT":
                self.written[stream].add(path)
            if method != "GET":
                return None
            self.read[stream] += 1
            self.now += 1
            self.most = max(self.most, self.now)
            self.waiting += stream in self.held
        if stream in self.held:
            self.free.wait()
        if self.slow:
            time.sleep(SECONDS)
        with self.lock:
            self.now -= 1
        return None


@pytest.fixture
def watched(service):
    """(proxy, a cluster behind it)"""
    with Watched(service) as proxy:
        try:
            with Cluster(*flags(proxy), *OBJECT, spread=False) as c:
                yield proxy, c
        finally:
            proxy.free.set()


def push_one(s, name):
    s.push({"__name__": "process_cpu", "service_name": name}, Pprof(("main;work", 1), time_ns=time.time_ns() - 10**9)).expect(200)


def wipe(m):
    shutil.rmtree(m.data)
    os.makedirs(m.data)


def bodies():
    """Profiles that differ from each other, and none of which packs well."""
    return [Pprof(*((stack, (i * 7919 + k * 104729) % 10**9 + 1) for i, stack in enumerate(STACKS)), time_ns=time.time_ns() - 10**9).encode() for k in range(8)]


def ask(s, service):
    reply = s.query("SelectMergeStacktraces", {"Flametree-Partial": "allow"}, profileTypeID=CPU, labelSelector=select(service), start=now_ms() - 1_800_000, end=now_ms() + 300_000).expect(200)
    return reply.headers["Flametree-Exact"], int(reply.headers["Flametree-Profiles"])


@pytest.mark.parametrize("wiped", (False, True), ids=("dead", "back with an empty directory"))
def test_a_log_that_is_larger_than_any_head_is_taken_over(service, wiped):
    with Cluster(*flags(service), "--ingester.log=object", "--ingester.log_linger=50ms", "--ingester.stream_settle=2s", "--ingester.cut_bytes=1MiB",
                 "--ingester.cut_age=1s", "--ingester.head_memory=%dMiB" % HEAD_MIB, "--ingester.lexicon_memory=1MiB", spread=False) as c:
        s, name, all_bodies, pushed = c.server(), unique(), bodies(), 0

        def log_of(m):
            return (m.metric("flametree_ingester_log_object_bytes_total") or 0) / 2**20

        while max(log_of(m) for m in c.ingesters()) < LOG_MIB:
            for _ in range(5):
                reply = s.push({"__name__": "process_cpu", "service_name": name, "pod": "p%d" % (pushed % 4)}, *all_bodies[:4])
                if reply.status == 200:
                    pushed += 4
                else:  # the head is full for a moment, as its cuts are flushed
                    assert reply.status in (429, 503), reply
                    time.sleep(0.2)
        gone = max(c.ingesters(), key=log_of)
        before = ask(s, name)
        assert before == ("exact", pushed), before
        gone.kill()
        if wiped:
            wipe(gone)
            gone.start()

        def whole():
            exact, n = ask(s, name)
            assert n <= pushed, (exact, n)
            return (exact, n) == ("exact", pushed)
        await_("all of its rows", whole, 240, 0.5)
        assert sum(m.metric("flametree_ingester_adopted_streams_total") or 0 for m in c.ingesters() if m.process) >= 1


def test_a_long_log_is_looked_at_by_few_reads_and_read_by_many_at_once(watched):
    proxy, c = watched
    s, name, pushed = c.server(), unique(), 0

    def longest():
        return max(proxy.written, key=lambda stream: len(proxy.written[stream]))

    while not proxy.written or len(proxy.written[longest()]) < MANY:
        push_one(s, name)
        pushed += 1
    stream = longest()
    objects = len(proxy.written[stream])
    gone = max(c.ingesters(), key=lambda m: m.metric("flametree_ingester_log_objects_total") or 0)
    assert ask(s, name) == ("exact", pushed)
    assert proxy.read[stream] == 0
    proxy.most, proxy.slow = 0, True
    gone.kill()
    await_("all of its rows", lambda: ask(s, name) == ("exact", pushed), 120, 0.2)
    # Each is read once, and a few besides, by which the cuts are found; then some that were late once more.
    assert objects <= proxy.read[stream] < objects + MANY // 2, (objects, proxy.read)
    assert proxy.most >= 16, proxy.most


def test_an_adoption_that_waits_for_the_store_holds_up_no_other_and_no_end(watched):
    proxy, c = watched
    s, name, pushed = c.server(), unique(), 0

    def push_to(m, n):
        nonlocal pushed
        while (m.metric("flametree_ingester_head_rows") or 0) < n:
            push_one(s, name)
            pushed += 1

    push_one(s, name)
    pushed += 1
    node = next(m for m in c.ingesters() if m.metric("flametree_ingester_head_rows"))
    push_to(node, 5)
    first, proxy.held = pushed, set(proxy.written)
    node.kill()
    wipe(node)
    node.start()
    await_("the adoption of its first stream to wait", lambda: proxy.waiting > 0, 60)
    push_to(node, 5)
    second = pushed - first
    node.kill()
    wipe(node)
    waiting = proxy.waiting
    node.start()
    # Both streams are of a former process of this node, so it takes them over at once, the older one first.
    await_("the first stream to wait again", lambda: proxy.waiting > waiting, 60)
    await_("the rows of the second stream", lambda: ask(s, name)[1] == second, 60, 0.2)
    assert node.metric("flametree_ingester_adopted_streams_total") >= 1 and node.metric("flametree_ingester_adoptions") == 1
    assert node.stop() == 0
    proxy.free.set()
    node.start()
    await_("the rows of both", lambda: ask(s, name) == ("exact", pushed), 120, 0.2)
