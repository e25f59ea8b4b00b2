"""A service that loses requests and answers: whatever happens, each acknowledged profile counts once."""
import os
import random
import threading
import time

import pytest
from bucket import on_bucket, push, total
from client import unique
from faultclock import FaultClock
from flametree import AT_ONCE, await_, compact, flush
from fleet import HOUR_NS, SEED, Fleet
from s3_proxy import S3Proxy

OUTAGE_SECONDS = 180 if os.environ.get("FLAMETREE_NIGHTLY") == "1" else 8

TROUBLES = {
    "requests are lost before and after they are carried out": {"drop": 0.05, "lost": 0.1},
    "the service is busy or breaks": {"busy": 0.1, "landed": 0.1},
    "answers are cut, and lists are shorter than they should": {"cut": 0.07, "short": 0.3},
    "creations conflict": {"conflict": 0.3},
    "bytes are wrong": {"wrong": 0.1},
    "something else answers for the service": {"page404": 0.04, "page403": 0.04, "page200": 0.04, "nothing": 0.04},
    "all of it": {"drop": 0.03, "lost": 0.03, "busy": 0.03, "landed": 0.03, "cut": 0.03},
}


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["radosgw", "azurite"])
@pytest.mark.parametrize("name", TROUBLES)
def test_answers_equal_brute_force_whatever_the_service_does(services, kind, name):
    rng, service = random.Random(SEED), services(kind)
    with S3Proxy(service.url) as proxy, on_bucket(service, "--compactor.leaf_delay=0s", endpoint=service.endpoint(proxy.url)) as f:
        fleet = Fleet(rng, f.server(), unique("trouble"))
        fleet.base_ns -= 2 * HOUR_NS  # of hours that are over, whatever the time is: they are compacted
        proxy.trouble = TROUBLES[name]
        for _ in range(3):
            fleet.push(25)
            await_("a flush that comes through", lambda: f.operator().call("POST", "/ingester/flush?wait=true", b"").status == 200, 120)
            for _ in range(25):
                fleet.check_one()
            await_("compaction", lambda: f.operator().call("POST", "/compactor/run?timeout=20s").status == 200, 120)
            for _ in range(25):
                fleet.check_one()
        assert sum(proxy.done.values()) > 0
        proxy.trouble = {}


def test_pushes_go_on_while_the_service_is_away_and_are_flushed_when_it_is_back(service):
    with S3Proxy(service.url) as proxy, on_bucket(service, "--ingester.cut_age=1s", endpoint=proxy.url) as f:
        push(f.server(), 5)
        flush(f)
        proxy.away = True
        push(f.server(), 5, 5)
        assert f.operator().call("POST", "/ingester/flush?wait=true&timeout=2s", b"").status != 200
        push(f.server(), 5, 10)
        proxy.away = False
        await_("the flush", lambda: f.operator().call("POST", "/ingester/flush?wait=true", b"").status == 200, 120)
        assert total(f.server()) == sum(range(1, 16))


def test_an_outage_of_minutes_loses_nothing_and_holds_nobody_up(service):
    """Profiles come all the time, cuts are full every second, and none can be flushed."""
    rng = random.Random(SEED)
    with S3Proxy(service.url) as proxy, on_bucket(service, "--ingester.cut_age=1s", "--compactor.interval=1s", *AT_ONCE, endpoint=proxy.url) as f:
        fleet, slowest = Fleet(rng, f.server(), unique("outage")), 0
        fleet.push(20)
        flush(f)
        proxy.away = True
        end = time.monotonic() + OUTAGE_SECONDS
        while time.monotonic() < end:
            began = time.monotonic()
            fleet.push(1)
            slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.05)
        assert slowest < 10, "a push took %.1f s" % slowest
        assert f.process.poll() is None
        proxy.away = False
        await_("the flush", lambda: f.operator().call("POST", "/ingester/flush?wait=true", b"").status == 200, 120)
        await_("compaction", lambda: f.operator().call("POST", "/compactor/run?timeout=20s").status == 200, 120)
        for _ in range(60):
            fleet.check_one()


@pytest.mark.each_value
@pytest.mark.parametrize("kind", ["radosgw", "azurite"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_at_each_request_that_writes_loses_nothing_and_counts_nothing_twice(services, kind, tmp_path, when):
    """The first requests of flush and compaction, one after the other: the process is killed before each is carried out, or after it."""
    pushed = kills = 0
    service = services(kind)
    with S3Proxy(service.url) as proxy, on_bucket(service, "--compactor.leaf_delay=0s", endpoint=service.endpoint(proxy.url), data=str(tmp_path)) as f:
        for at in range(1, 13):
            push(f.server(), 3, pushed, ago_s=3 * 3600)  # of an hour that is over: it is merged
            pushed += 3
            process, killed = f.process, threading.Event()
            proxy.at_write(at, when, lambda: (process.kill(), process.wait(), killed.set()))
            try:
                flush(f)
                compact(f)
            except (OSError, AssertionError, ValueError):
                assert killed.wait(30), "flush or compaction failed without a kill"
            proxy.at_write(0, None, None)
            if killed.is_set():
                kills += 1
                f.process = None
                f.start()
            flush(f)
            compact(f)
            assert total(f.server()) == sum(range(1, pushed + 1)), "kill %s request %d" % (when, at)
    assert kills >= 6


def test_an_end_that_did_not_become_known_leaves_an_upload_that_goes_after_a_day(service, tmp_path):
    with on_bucket(service, prefix="left", data=str(tmp_path)) as f:
        status, text = service.call("POST", "/flametree-test/left/v1/ab/t/raw/x", "uploads=")
        assert status == 200, text
        assert f.operator().call("POST", "/compactor/run?sweep=true&timeout=20s").status == 200
        status, text = service.call("GET", "/flametree-test", "uploads=&prefix=left")
        assert b"<UploadId>" in text, "an upload of this minute was dropped"
        f.stop()
        clock = FaultClock(tmp_path / "clock")
        clock.set(hours=25)
        f.env.update(clock.env)
        f.start()
        # Its time is the service's, whatever the clock of this machine says: the upload is young.
        assert f.operator().call("POST", "/compactor/run?sweep=true&timeout=20s").status == 200
        assert b"<UploadId>" in service.call("GET", "/flametree-test", "uploads=&prefix=left")[1]


@pytest.mark.parametrize("hours", [-3, 30])
def test_a_clock_that_is_wrong_is_corrected_by_that_of_the_service(service, tmp_path, hours):
    clock = FaultClock(tmp_path / "clock")
    clock.set(hours=hours)
    with on_bucket(service, env=clock.env) as f:
        assert "event=storage.opened" in f.tail()
        assert not f.metric('flametree_notices{notice="storage.untried"}')
