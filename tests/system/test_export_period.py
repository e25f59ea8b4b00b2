"""Exported pprof has the period that was pushed, wherever the profiles lie; of several periods it has that of its type."""
import gzip
import subprocess
import time

import pytest
from cli import PROGRAM, env_of
from client import CPU, QUERIER, Pprof, pb, unpb
from flametree import AT_ONCE, Flametree, compact, flush

HOUR = 3600 * 10**9
START = (time.time_ns() // (24 * HOUR) - 3) * 24 * HOUR  # a day that is asked for as a whole
RANGE = {"start": (START - HOUR) // 10**6, "end": (START + 30 * HOUR) // 10**6}
MEMORY = "memory:alloc_space:bytes:space:bytes"
HEAP = {"types": (("alloc_space", "bytes"),), "period_type": ("space", "bytes")}


def push(s, service, period, at=0, name="process_cpu", **more):
    s.push({"__name__": name, "service_name": service}, Pprof(("a;b", 7), period=period, time_ns=START + 60 * 10**9 + at, **more)).expect(200)


def exported(s, selector, kind=CPU):
    message = pb((1, kind), (2, selector), (3, RANGE["start"]), (4, RANGE["end"]))
    reply = s.call("POST", "/" + QUERIER + "SelectMergeProfile", message, {"Content-Type": "application/proto"})
    return unpb(reply.expect(200).body).get(12, [0])[0]


def of(*services):
    return '{service_name=~"%s"}' % "|".join(services)


def check(f):
    s = f.server()
    assert exported(s, of("hundred")) == 10_000_000
    assert exported(s, of("thousand")) == 1_000_000
    assert exported(s, of("none")) == 1_000_000_000
    assert exported(s, of("hundred", "none")) == 10_000_000
    assert exported(s, of("hundred", "thousand")) == 1_000_000_000
    assert exported(s, of("both")) == 1_000_000_000
    assert exported(s, of("heap"), MEMORY) == 4096
    assert exported(s, of("heap", "other-heap"), MEMORY) == 524_288
    done = subprocess.run([PROGRAM, "query", "process_cpu:cpu", "-s", "hundred", "--from", str(RANGE["start"] // 1000), "--until", str(RANGE["end"] // 1000),
                           "--format", "pprof"], capture_output=True, env=env_of(f.url), timeout=60)
    assert unpb(gzip.decompress(done.stdout))[12] == [10_000_000]


@pytest.mark.parametrize("flags", [[], ["--compactor.day_leaf=false"]], ids=["day-leaf", "hour-leaves"])
def test_exported_pprof_has_the_period_that_was_pushed(flags, tmp_path):
    with Flametree("--limits.reject_older_than=0", "--compactor.interval=1h", *AT_ONCE, *flags, data=str(tmp_path)) as f:
        s = f.server()
        for at in range(0, 26 * HOUR, HOUR):
            push(s, "hundred", 10_000_000, at)
            push(s, "both", 10_000_000 if at < 20 * HOUR else 1_000_000, at)
        push(s, "thousand", 1_000_000)
        push(s, "none", 0)
        push(s, "heap", 4096, name="memory", **HEAP)
        push(s, "other-heap", 8192, name="memory", **HEAP)
        check(f)
        flush(f)
        check(f)
        compact(f)
        check(f)
        f.stop()
        f.start()
        check(f)
        assert f.metric("flametree_querier_block_nodes_total"), "no sums were read"
