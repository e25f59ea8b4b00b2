"""ingester.log: object in a bucket. Objects stay there for twenty minutes after they are covered, so the log of an ingester is many times as large as its
head ever was. When it is killed another one takes it over."""
import time

import pytest
from bucket import flags
from client import CPU, Pprof, now_ms, select, unique
from flametree import Cluster, await_

HEAD_MIB, LOG_MIB = 12, 20
STACKS = ["main;f%d;g%d" % (i % 40, i) for i in range(3000)]


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
            import os
            import shutil
            shutil.rmtree(gone.data)
            os.makedirs(gone.data)
            gone.start()

        def whole():
            exact, n = ask(s, name)
            assert n <= pushed, (exact, n)
            return (exact, n) == ("exact", pushed)
        await_("all of its rows", whole, 240, 0.5)
        assert sum(m.metric("flametree_ingester_adopted_streams_total") or 0 for m in c.ingesters() if m.process) >= 1
