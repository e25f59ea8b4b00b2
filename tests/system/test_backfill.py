"""A month that is pushed with its own times, in two parts, becomes as cheap as one that came in order: by a run at once, and without one soon."""
import json
import os
import subprocess
import time

import pytest
from client import CPU, QUERIER, Pprof
from flametree import BIN, Flametree, await_

HOUR = 3600 * 10**9
DAY = 24 * HOUR
WINDOW = (time.time_ns() // DAY // 28 - 1) * 28 * DAY  # the last that is over
SERVICE = "imported"
# All intervals are those of a server that nobody has set up, but for what is kept.
USUAL = ["--limits.reject_older_than", "0", "--ingester.head_age", "60d", "--compactor.raw_retention", "0s", "--compactor.hours_retention", "0s"]


def fill(s, days):
    for day in days:
        for hour in (1, 5, 22) if day % 2 else (7,):
            labels = {"__name__": "process_cpu", "service_name": SERVICE, "pod": "p%d" % (day % 3)}
            s.push(labels, Pprof(("main;a", 1), ("main;b%d" % (day % 5), day + hour), time_ns=WINDOW + day * DAY + hour * HOUR + 7000)).expect(200)
    s.call("POST", "/ingester/flush?wait=true", b"").expect(200)


def run(s):
    jobs = 0

    def settled():
        nonlocal jobs
        got = s.call("POST", "/compactor/run?timeout=20s").expect(200).json()
        jobs += got["jobs"]
        return got["settled"]
    await_("the run to settle", settled, 300, 0.5)
    return jobs


def ask(f):
    """The sum over the window, and how many nodes of how many objects were read for it."""
    names = ("flametree_querier_block_nodes_total", "flametree_querier_read_objects_total")
    before = [f.metric(name) or 0 for name in names]
    body = {"profileTypeID": CPU, "labelSelector": '{service_name="%s"}' % SERVICE, "start": (WINDOW - DAY) // 10**6, "end": (WINDOW + 29 * DAY) // 10**6, "maxNodes": 0,
            "format": "PROFILE_FORMAT_FLAMEGRAPH"}
    reply = f.server().rpc(QUERIER + "SelectMergeStacktraces", body).expect(200)
    assert reply.headers["Flametree-Exact"] == "exact"
    return json.dumps(reply.json(), sort_keys=True), [(f.metric(name) or 0) - n for name, n in zip(names, before)]


def days_of_window(f):
    """How many days with profiles the blocks of the window's class name."""
    done = subprocess.run([os.path.join(BIN, "flametree"), "manifest", "show", "--format", "json", f.store], capture_output=True, text=True)
    assert done.returncode == 0, done
    found = set()

    def look(x):
        if isinstance(x, dict):
            if x.get("kind") in ("d", "days") and int(x.get("hours", 0)) > 24:
                found.update(c["hour"] for c in x.get("covers", []) if c.get("leaves"))
            for v in x.values():
                look(v)
        elif isinstance(x, list):
            for v in x:
                look(v)
    look(json.loads(done.stdout))
    return len(found)


def tenant(s):
    return s.call("GET", "/compactor/status").expect(200).json()["tenants"][0]


@pytest.fixture(scope="module")
def in_order(tmp_path_factory):
    """What a month costs that was there when it was compacted."""
    with Flametree(*USUAL, "--compactor.workers", "0", data=str(tmp_path_factory.mktemp("order"))) as f:
        fill(f.server(), range(28))
        run(f.server())
        f.kill()
        f.start()
        got = ask(f)
        assert min(got[1]) > 0, "nothing was read of blocks"
        return got


def test_a_run_does_all_that_makes_a_month_cheap(in_order, tmp_path):
    with Flametree(*USUAL, "--compactor.workers", "0", data=str(tmp_path)) as f:
        s = f.server()
        fill(s, range(19))
        run(s)
        fill(s, range(19, 28))
        assert run(s) > 0
        status = tenant(s)
        assert sum(status["due"].values()) == 0 and sum(status["later"].values()) == 0, status
        assert run(s) == 0, "a second run found something to do"
        f.kill()
        f.start()
        assert ask(f) == in_order


def test_a_run_takes_in_what_came_late(in_order, tmp_path):
    """A few rows of each day after all was compacted: leaves, hours, days and the window are made anew."""
    with Flametree(*USUAL, "--compactor.workers", "0", data=str(tmp_path)) as f:
        s = f.server()
        fill(s, range(0, 28, 2))
        run(s)
        fill(s, range(1, 28, 2))
        run(s)
        for day in range(28):
            fill(s, [day])
        run(s)
        status = tenant(s)
        assert sum(status["due"].values()) == 0 and sum(status["later"].values()) == 0, status
        assert run(s) == 0
        f.kill()
        f.start()
        assert ask(f)[1] == in_order[1]


@pytest.mark.parametrize("workers", ["1", "3"])
def test_without_a_run_a_month_is_cheap_soon(in_order, tmp_path, workers):
    """Nothing but the amount makes it due: the intervals are hours and a day."""
    with Flametree(*USUAL, "--compactor.workers", workers, "--compactor.interval", "100ms", data=str(tmp_path)) as f:
        s = f.server()

        def cheap():
            status = s.call("GET", "/compactor/status").expect(200).json()
            t = status["tenants"][0] if status["tenants"] else None
            return t and status["settled"] and t["segments_waiting"] == 0 and sum(t["later"].values()) == 0
        fill(s, range(19))
        await_("the first part to be compacted", cheap, 300, 0.5)
        fill(s, range(19, 28))
        await_("the second part to be compacted", lambda: cheap() and days_of_window(f) == 28, 300, 0.5)
        f.kill()
        f.start()
        assert ask(f) == in_order


def test_the_status_tells_what_waits_for_its_interval(tmp_path):
    """A little that is late waits for the night, and is told of; a run does it."""
    with Flametree(*USUAL, "--compactor.interval", "100ms", data=str(tmp_path)) as f:
        s = f.server()
        fill(s, range(3))
        run(s)
        fill(s, [1])

        def told():
            t = tenant(s)
            return sum(t["due"].values()) == 0 and sum(t["later"].values()) > 0
        await_("the late rows to be told of", told, 60, 0.2)
        assert "wait for their interval, POST /compactor/run does them now" in s.call("GET", "/compactor").expect(200).text
        run(s)
        t = tenant(s)
        assert sum(t["due"].values()) == 0 and sum(t["later"].values()) == 0, t
        assert "wait for their interval" not in s.call("GET", "/compactor").expect(200).text
