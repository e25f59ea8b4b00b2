"""Segments become hours, days and windows in a real server: answers stay what they were, nothing is left that nothing names."""
import json
import os
import time

import pytest
from client import CPU, QUERIER, Pprof
from flametree import Cluster, Flametree, await_

HOUR = 3600 * 10**9
DAY = 24 * HOUR

# Everything is due at once, and is looked for only when the test asks.
AT_ONCE = [
    "--limits.reject_older_than", "0", "--compactor.interval", "1h", "--compactor.leaf_delay", "0s", "--compactor.hour_delay", "0s",
    "--compactor.day_delay", "0s", "--compactor.repack_interval", "0s", "--compactor.fold_interval", "0s", "--compactor.window_interval", "0s",
    "--compactor.delete_delay", "0s", "--compactor.raw_retention", "0s", "--compactor.hours_retention", "0s", "--compactor.days_retention", "0s",
]
ENV = {"FLAMETREE_FLUSH": "1"}
START = (time.time_ns() // DAY - 6) * DAY
SERVICE = "levels"


def push(s, at_ns, n, pod="a", service=SERVICE):
    labels = {"__name__": "process_cpu", "service_name": service, "pod": pod}
    s.push(labels, Pprof(("main;a", 1), ("main;b%d" % (n % 7), 10 + n), time_ns=at_ns)).expect(200)


def fill(s):
    """Four days, each with a few profiles in some of its hours."""
    n = 0
    for day in range(4):
        for hour in (0, 5, 23):
            for minute in (0, 7, 31, 59):
                push(s, START + day * DAY + hour * HOUR + minute * 60 * 10**9 + 1, n, "p%d" % (n % 3))
                n += 1
    return n


def answers(s, start=START - HOUR, end=START + 5 * DAY):
    """What a few questions get: a tree, a matcher on a label that churns, a series, values of a label."""
    ms = 10**6
    given = {}
    selector = '{service_name="%s"}' % SERVICE
    pod = '{service_name="%s",pod="p1"}' % SERVICE
    for name, text in (("all", selector), ("pod", pod)):
        reply = s.rpc(QUERIER + "SelectMergeStacktraces", {"profileTypeID": CPU, "labelSelector": text, "start": start // ms, "end": end // ms, "maxNodes": 0, "format": "PROFILE_FORMAT_FLAMEGRAPH"})
        given[name] = json.dumps(reply.expect(200).json(), sort_keys=True)
    reply = s.rpc(QUERIER + "SelectSeries", {"profileTypeID": CPU, "labelSelector": selector, "start": start // ms, "end": end // ms, "step": 3600, "groupBy": ["pod"]})
    given["series"] = json.dumps(reply.expect(200).json(), sort_keys=True)
    reply = s.rpc(QUERIER + "LabelValues", {"name": "pod", "start": start // ms, "end": end // ms})
    given["pods"] = sorted(reply.expect(200).json()["names"])
    return given


def flush(s):
    s.call("POST", "/ingester/flush").expect(200)


def settle(s, **more):
    query = "&".join(["timeout=60s"] + ["%s=%s" % pair for pair in more.items()])
    got = s.call("POST", "/compactor/run?" + query).expect(200).json()
    assert got["settled"], (got, s.call("GET", "/compactor/status").text)
    return got


def objects(f):
    found = {}
    top = os.path.join(f.data, "store", "o")
    for path, _, names in os.walk(top):
        for name in names:
            full = os.path.join(path, name)
            found[os.path.relpath(full, top)] = os.path.getsize(full)
    return found


def kinds(found):
    count = {}
    for name in found:
        parts = name.split("/")
        kind = parts[4] if len(parts) > 4 and parts[3] == "live" else parts[3] if len(parts) > 3 else parts[1]
        count[kind] = count.get(kind, 0) + 1
    return count


def test_levels_answer_what_heads_did(tmp_path):
    with Flametree(*AT_ONCE, data=str(tmp_path), env=ENV) as f:
        s = f.server()
        fill(s)
        before = answers(s)
        flush(s)
        assert answers(s) == before
        got = settle(s)
        assert got["jobs"] >= 12 + 12 + 4 + 4 + 1, got
        assert answers(s) == before
        settle(s, sweep="true")
        assert kinds(objects(f)).get("a", 0) == 0, kinds(objects(f))
        assert answers(s) == before
        # Late rows.
        for day in range(2):
            push(s, START + day * DAY + 5 * HOUR + 1000, 100 + day, "late")
        late = answers(s)
        assert late != before
        flush(s)
        assert answers(s) == late
        settle(s, sweep="true")
        assert answers(s) == late
        assert kinds(objects(f)).get("a", 0) == 0
        f.kill()
        f.start()
        assert answers(f.server()) == late
