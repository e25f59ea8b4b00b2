"""Profiles leave for the object store: on demand, by age, at the end of the process, and again after the store failed. What was
acknowledged is there once, before, meanwhile and afterwards.
"""
import json
import os
import time
import urllib.error
import urllib.request

import pytest
from flametree import Cluster, Flametree, await_
from ledger import Ledger

NAMES = ["a.%d" % i for i in range(30)]


def call(f, path, method="POST"):
    """(status, what the answer's JSON says)"""
    request = urllib.request.Request(f.url + path, method=method, data=b"" if method == "POST" else None)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def segments(f):
    found = []
    for folder, _, names in os.walk(os.path.join(f.data, "store", "o")):
        if os.path.basename(folder) == "a":
            found += [os.path.join(folder, name) for name in names]
    return sorted(found)


def cuts(f):
    return call(f, "/ingester/cuts", "GET")[1]["cuts"]


def push(f, names=NAMES, **kw):
    book = Ledger(f, **kw)
    for name in names:
        assert book.push(name) == 200, book.answers
    return book


def store_all(f):
    """For much of it and slow disks, with which that takes longer than a request may."""
    assert call(f, "/ingester/flush?wait=false")[0] == 202
    await_("the log to be empty", lambda: cuts(f) == [], 300)


def test_on_demand():
    with Flametree() as f:
        book = push(f)
        before = book.check()
        assert [c["state"] for c in cuts(f)] == ["open"]
        status, done = call(f, "/ingester/flush")
        assert status == 200 and done["cuts"] == 1 and done["rows"] == len(NAMES), done
        # Profiles of the last seconds are of one hour, or of two.
        assert done["segments"] == len(segments(f)) in (1, 2)
        assert done["bytes"] == sum(os.path.getsize(name) for name in segments(f))
        await_("the log to be empty", lambda: cuts(f) == [])
        await_("the head to be empty", lambda: f.metric("flametree_ingester_head_rows") == 0)
        assert f.metric("flametree_ingester_flush_segments_total") == done["segments"]
        assert book.check() == before
        status, done = call(f, "/ingester/flush")
        assert status == 200 and done == {"cuts": 0, "segments": 0, "rows": 0, "bytes": 0}
        # Pushed again, they count once.
        book.retry()
        assert book.check() == before
        assert f.metric("flametree_ingester_head_rows") == 0


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_what_is_pushed_again_after_a_restart_counts_once(how):
    with Flametree("--compactor.workers", "0") as f:
        book = push(f)
        before = book.check()
        assert call(f, "/ingester/flush")[0] == 200
        await_("the log to be empty", lambda: cuts(f) == [])
        for _ in range(2):
            f.stop() if how == "stopped" else f.kill()
            f.start()
            assert book.check() == before
            for name in NAMES:
                book.retry([name])
                assert book.check() == before
            assert f.metric("flametree_ingester_head_rows") == 0
            # With something new, in a batch of the same service.
            assert book.push("new.%d" % len(book.bodies)) == 200
            before = book.check()
            assert call(f, "/ingester/flush")[0] == 200
            await_("the log to be empty", lambda: cuts(f) == [])
            book.retry()
            assert book.check() == before


def test_without_waiting():
    with Flametree() as f:
        push(f)
        assert call(f, "/ingester/flush?wait=false") == (202, {"begun": True})
        await_("the log to be empty", lambda: cuts(f) == [])
        status, why = call(f, "/ingester/flush?wait=perhaps")
        assert status == 400 and "perhaps" in json.dumps(why)


def test_by_age_and_by_the_end_of_the_process():
    with Flametree("--ingester.cut_age", "1s") as f:
        book = push(f)
        await_("the log to be empty", lambda: cuts(f) == [])
        first = len(segments(f))
        assert first >= 1
        book.check()
        f.stop()
        f.args[f.args.index("1s")] = "1h"
        f.start()
        book.check()
        for name in ("b", "c"):
            assert book.push(name) == 200
        f.stop()
        assert len(segments(f)) > first
        f.start()
        assert cuts(f) == [] and f.metric("flametree_ingester_head_rows") == 0
        book.check()


def test_old_profiles_go_into_segments_of_their_own_hours():
    with Flametree("--ingester.head_age", "31d") as f:
        day = 24 * 3600 * 10**9
        books = [push(f, ["old.%d" % i], now_ns=lambda i=i: time.time_ns() - i * day, service="svc%d" % i) for i in range(1, 30)]
        status, done = call(f, "/ingester/flush")
        assert status == 200 and done["rows"] == 29 and done["segments"] == 29 == len(segments(f)), done
        for book in books:
            book.check()


def test_a_store_that_fails_is_tried_again():
    # Those before are of the start: the trial of the store, the cluster, the data directory.
    faults = ";".join("store.link=enospc@%d" % n for n in range(13, 16))
    with Flametree("--ingester.cut_age", "1h", env={"FLAMETREE_FAULTS": faults}) as f:
        book = push(f)
        status, why = call(f, "/ingester/flush")
        assert status == 503 and "No space left on device" in json.dumps(why), (status, why)
        told = call(f, "/ingester/cuts", "GET")[1]
        if "event=flush.recovered" not in f.tail(1000):  # as it is after about seven seconds
            assert told["failures"] >= 1 and "No space left" in told["fault"]
        assert book.push("meanwhile") == 200
        book.check()
        assert f.metric("flametree_ingester_flush_failures_total") >= 1
        await_("the store to have all", lambda: f.metric("flametree_ingester_flushed_cuts_total"))
        assert call(f, "/ingester/flush")[0] == 200
        await_("the log to be empty", lambda: cuts(f) == [])
        assert f.metric("flametree_ingester_flush_failing") == 0
        book.check()
        log = f.tail(1000)
        assert log.count("event=flush.failing") == 1 == log.count("event=flush.recovered"), log


def test_pushes_go_on_until_the_head_is_full_while_nothing_can_be_stored(tmp_path):
    """Then they are refused by name; what was taken stays, over a SIGKILL too, and leaves when the store is back."""
    store, away = tmp_path / "store", tmp_path / "away"
    with Flametree("--storage.dir", str(store), "--ingester.cut_age", "1s", "--ingester.head_memory", "2MiB") as f:
        book = Ledger(f)
        assert book.push("first") == 200
        assert call(f, "/ingester/flush")[0] == 200
        os.rename(store, away)
        for i in range(2000):
            if book.push("n%d" % i, *("n%d;%s" % (i, "y" * 100 + str(j)) for j in range(300))) != 200:
                break
        assert book.last.status == 429 and "head" in book.last.error()[1], (i, book.last.body)
        assert i
        await_("the first cut to meet the store", lambda: f.metric("flametree_ingester_flush_failing") == 1)
        os.rename(away, store)
        f.kill()
        f.start()
        store_all(f)
        await_("room in the head", lambda: book.push("afterwards") == 200)
        book.retry(set(book.refused))
        assert book.check()["n0"] == 1
        store_all(f)
        book.check()
        assert f.metric("flametree_ingester_flush_failing") == 0


@pytest.mark.parametrize("method,path", [("POST", "/ingester/flush"), ("GET", "/ingester/cuts")])
def test_an_ingester_without_a_store_says_so(method, path):
    with Cluster("--storage.dir=", names=("ingester-1",)) as f:
        status, why = call(f["ingester-1"], path, method)
        assert status == 400 and "object store" in json.dumps(why)


def test_a_flush_while_the_log_is_opened_again():
    """The third write is on disk, its push is refused, and a flush is asked for before anybody knows: pushed again, it counts."""
    with Flametree("--ingester.cut_age", "1h", env={"FLAMETREE_FAULTS": "wal.sync.after=eio@3;wal.recover=delay:2000"}) as f:
        book = push(f, ["one", "two"])
        assert book.push("three") == 503, book.answers
        status, done = call(f, "/ingester/flush?wait=false")
        assert status == 503 and "the log is being" in done["message"], done
        status, done = call(f, "/ingester/flush")
        assert status == 200 and done["rows"] >= 2, done
        book.retry(["three"])
        assert book.check() == {"one": 1, "two": 1, "three": 1}
        assert call(f, "/ingester/flush")[0] == 200
        await_("the log to be empty", lambda: cuts(f) == [])
        assert book.check() == {"one": 1, "two": 1, "three": 1}


def test_an_ingester_that_is_full_of_what_the_store_does_not_take_says_so_at_a_start_too(tmp_path):
    """Links that work are those of a start: the trial of the store, two streams, and of the first one also cluster and data directory."""
    def full(f):
        with urllib.request.urlopen(f.url + "/ready") as answer:
            return next((line for line in answer.read().decode().splitlines() if line.startswith("ingester.full ")), None)

    def start(works):
        return Flametree("--ingester.cut_age", "1s", "--ingester.log_disk", "64KiB", data=str(tmp_path), env={"FLAMETREE_FAULTS": "store.link=enospc@%d+" % works})
    with start(14) as f:
        book = Ledger(f)
        statuses = [book.push("first", weight=2000)]
        while statuses[-1] == 200:
            statuses.append(book.push("p%d" % len(statuses), weight=2000))
        assert statuses[-1] == 429 and len(statuses) > 10, statuses
        line = await_("a line of /ready", lambda: full(f) if "has not taken profiles" in (full(f) or "") else None)
        assert "ingester.log_disk" in line and "No space left on device" in line, line
        assert f.metric('flametree_notices{notice="ingester.full"}') == 1
        f.kill()
    with start(11) as f:
        await_("a line of /ready", lambda: full(f))
        assert f.tail(1000).count("event=ingester.full about=") >= 2, f.tail()
        f.kill()
    with start(10**6) as f:
        await_("all to be in the store", lambda: cuts(f) == [])
        await_("no line of /ready", lambda: full(f) is None)
        book.f = f
        book.check()
