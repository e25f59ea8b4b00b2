"""A read that a service answers late is asked for once more; a service that answers all reads late is not asked for much more."""
import threading

import pytest
from bucket import on_bucket
from client import CPU, Pprof, now_ms, select
from flametree import flush
from s3_proxy import S3Proxy

HOUR = 3_600_000
KNOWN, MORE = 60, 8  # objects of the reads by which it learns how long they take, and of a question after that
HEDGES = ("won", "lost")


class Late(S3Proxy):
    """Keeps back the first read of so many objects (`hold`) until let_go; the other reads for `seconds`."""

    def __init__(self, upstream):
        super().__init__(upstream)
        self.changed, self.kept, self.seconds = threading.Condition(), [], 0
        self.hold = 0

    def refuse(self, method, path, headers, body):
        if method != "GET" or "?" in path:
            return None
        with self.changed:
            if self.hold and path not in self.kept:
                self.hold -= 1
                self.kept.append(path)
                self.changed.wait_for(lambda: self.hold < 0, 60)
            elif self.seconds:
                self.changed.wait_for(lambda: self.hold < 0, self.seconds)
        return None

    def let_go(self):
        with self.changed:
            self.hold = -1
            self.changed.notify_all()


def push(f, service, hours, at):
    """A profile in each of so many hours: a flush makes an object of each."""
    for hour in range(hours):
        f.server().push({"__name__": "process_cpu", "service_name": service}, Pprof(("main;work", 1), time_ns=(at - hour * HOUR) * 10**6)).expect(200)
    flush(f)


def total(f, service, hours, at):
    reply = f.server().query("SelectMergeStacktraces", {}, profileTypeID=CPU, labelSelector=select(service), start=at - (hours + 1) * HOUR, end=at + HOUR).expect(200)
    assert reply.headers["Flametree-Exact"] == "exact", reply.headers
    return int(reply.json()["flamegraph"]["total"])


@pytest.fixture
def late(service):
    at = now_ms() // HOUR * HOUR - 5 * HOUR
    with Late(service.url) as p, on_bucket(service, "--querier.disk_cache=0", "--compactor.interval=1h", endpoint=p.url) as f:
        push(f, "known", KNOWN, at)
        assert total(f, "known", KNOWN, at) == KNOWN
        push(f, "more", MORE, at)
        yield p, f, at
        p.let_go()


def hedges(f):
    return {how: f.metric('flametree_s3_hedged_reads_total{result="%s"}' % how) or 0 for how in HEDGES}


def test_the_first_answer_counts(late):
    p, f, at = late
    before, reads = hedges(f), sum(p.reads.values())
    p.hold = 1
    assert total(f, "more", MORE, at) == MORE  # while the first request of that read is still kept back
    assert len(p.kept) == 1 and p.reads[p.kept[0]] >= 2, (p.kept, p.reads)
    assert hedges(f)["won"] > before["won"]
    assert sum(p.reads.values()) <= reads + 3 * MORE


def test_a_service_that_is_slow_for_all_is_not_asked_for_everything_again(late):
    p, f, at = late
    p.seconds = 1
    assert total(f, "more", MORE, at) == MORE
    p.seconds = 0
    assert sum(hedges(f).values()) <= sum(p.reads.values()) / 20, "five of a hundred since it began"
