"""Three times as many writers as a server takes at once push as fast as they can: it refuses with 429 and Retry-After, keeps its memory, answers
others, has every acknowledged push exactly once, and is as before as soon as they stop.

FLAMETREE_NIGHTLY=1 makes a minute of it."""
import json
import os
import subprocess
import sys
import time
from contextlib import ExitStack

import pytest
from beside import Beside
from client import Server
from flametree import Flametree, await_, is_sanitized
from ledger import Ledger

# At least so long, and until enough was taken, refused and asked to tell something: on a busy machine writers may hardly be more than the server takes.
SECONDS = 60 if os.environ.get("FLAMETREE_NIGHTLY") == "1" else 6
MOST_SECONDS = 300
MIB = 1 << 20
WIDTH, QUEUE = 6, 10
WRITERS = 3
# What the budget does not count: the program and its libraries, stacks of threads, buffers of sockets, RocksDB's tables and
# file buffers, and what the allocator holds back.
ALLOWANCE = 96 * MIB


def flood(f, name, connections, size):
    program = os.path.join(os.path.dirname(__file__), "../lib/flood.py")
    return subprocess.Popen([sys.executable, program, f.push_url, name, str(connections), str(MOST_SECONDS), str(size)], stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, text=True)


def so_far(writer):
    """(acknowledged, refused)"""
    writer.stdin.write("\n")
    writer.stdin.flush()
    return tuple(map(int, writer.stdout.readline().split()))


class Watcher(Beside):
    """Somebody else, who asks and looks all the time."""

    def __init__(self, f):
        super().__init__()
        self.f, self.server = f, Server(f.url)
        self.queries = self.peak = 0

    def step(self):
        ready = self.server.call("GET", "/ready")
        assert ready.status == 200, ready
        assert self.server.stacks("neighbour") == {"quiet": 1}, self.server.last
        self.queries += 1
        self.peak = max(self.peak, self.f.rss_bytes())


def server(mib, *flags):
    return Flametree("--server.memory_limit", "%dMiB" % mib, "--ingester.head_memory", "%dMiB" % (mib // 3), "--ingester.log_memory", "4MiB",
                     "--ingester.disk_reserve", "8MiB", "--ingester.cut_bytes", "4MiB", *flags)


def test_more_writers_than_places_are_refused_and_the_rest_is_kept():
    with server(160, "--lanes.public_width", str(WIDTH), "--lanes.public_queue", str(QUEUE)) as f:
        overload(f, 160 * MIB, WIDTH + QUEUE, 76_000)


def test_more_bytes_than_memory_are_refused_and_the_rest_is_kept():
    """There are places for all, but what these bodies take decoded is three times what the budget has."""
    with server(40) as f:
        overload(f, 40 * MIB, 16, 300_000)


def overload(f, budget, connections, size):
    assert Ledger(f, service="neighbour").push("quiet") == 200
    with ExitStack() as stack:
        watcher = stack.enter_context(Watcher(f))
        writers = [stack.enter_context(flood(f, "w%d" % i, connections, size)) for i in range(WRITERS)]
        begin = time.monotonic()

        def enough():
            acked, refused = map(sum, zip(*(so_far(w) for w in writers)))
            return time.monotonic() - begin > SECONDS and acked > 20 and refused > max(20, acked / 5) and (watcher.queries > 3 or watcher.faults)
        await_("enough to be taken and refused", enough, MOST_SECONDS, 0.2)
        for w in writers:
            w.stdin.close()
        results = [json.loads(w.stdout.read()) for w in writers]
        seconds = time.monotonic() - begin
    assert [w.returncode for w in writers] == [0] * WRITERS

    # At once, the first one.
    book = Ledger(f, service="later")
    assert [book.push("p%d" % i) for i in range(5)] == [200] * 5, book.last.error()
    book.check()

    acked = {name for r in results for name in r["acked"]}
    refused = sum(r["refused"] for r in results)
    assert not [bad for r in results for bad in r["bad"]], results[0]["bad"]
    assert refused > len(acked) / 10 and len(acked) > 20, (refused, len(acked))
    got = Server(f.url).stacks("flood", maxNodes=1 << 20)
    there = {name.rstrip("-"): count for name, count in got.items() if ";" not in name}
    assert there == dict.fromkeys(acked, 1), "%d acknowledged, %d there" % (len(acked), len(there))
    assert not watcher.faults and watcher.queries > 3, watcher.faults[:3]
    peak = f.peak_rss_bytes()
    print("%d s: %d acknowledged, %d refused, %d neighbour's queries, peak RSS %d MiB of %d + %d" %
          (seconds, len(acked), refused, watcher.queries, peak / MIB, budget / MIB, ALLOWANCE / MIB))
    if not is_sanitized(f):
        assert peak < budget + ALLOWANCE, peak / MIB
    await_("the lanes to be empty", lambda: f.metric('flametree_lane_jobs{lane="distributor.public"}') == 0)

    f.kill()
    f.start()
    there = Server(f.url).stacks("flood", maxNodes=1 << 20)
    assert there == got
