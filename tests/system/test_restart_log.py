"""A process with a log that nobody flushed is killed: every profile that was acknowledged is there once afterwards, and
/ready tells how far the log was read. FLAMETREE_RESTART_PROFILES (for the nightly run) makes the log of the first test as large
as wanted, the second one has 2 GB in the build without sanitizers; tests/bench/scale_restart.py has the seconds of such logs."""
import json
import os
import random
import re
import threading
import urllib.error
import urllib.request

from client import CPU, Pprof, select, unique
from flametree import Flametree, await_, is_sanitized

PROFILES = int(os.environ.get("FLAMETREE_RESTART_PROFILES", "1200"))
WRITERS = 4
SERVICES = 3
# One cut, which stays open, so that all of it is in the log.
KEEP = ("--ingester.cut_age=10h", "--ingester.cut_bytes=64GiB", "--ingester.log_disk=0", "--ingester.head_memory=8GiB", "--server.memory_limit=12GiB")


class Writer(threading.Thread):
    """Profile n has frames of its own among frames that all have, and the value 1 + n in each of its stacks."""

    def __init__(self, f, number, names):
        super().__init__()
        self.f, self.number, self.names = f, number, names
        self.acked = {name: [] for name in names}
        self.wrong = []

    def run(self):
        s, dice = self.f.server(), random.Random(self.number)
        for n in range(self.number, PROFILES, WRITERS):
            name = self.names[n % SERVICES]
            stacks = [("main;shared_%d;leaf_%d" % (dice.randrange(20), dice.randrange(300)), 1 + n) for _ in range(30)]
            stacks.append(("main;own_%d" % (n // 10), 1 + n))
            reply = s.push({"__name__": "process_cpu", "service_name": name, "pod": "p%d" % (n % 7)}, Pprof(*stacks))
            if reply.status != 200:
                self.wrong.append(str(reply))
                return
            self.acked[name].append(n)


def totals(s, name):
    reply = s.query("SelectMergeStacktraces", profileTypeID=CPU, labelSelector=select(name), maxNodes=1 << 20).expect(200)
    return int(reply.headers["Flametree-Profiles"]), int(reply.json()["flamegraph"]["total"])


def test_a_large_log_is_read_after_a_kill():
    names = [unique("log%d" % i) for i in range(SERVICES)]
    with Flametree(*KEEP) as f:
        writers = [Writer(f, i, names) for i in range(WRITERS)]
        for w in writers:
            w.start()
        for w in writers:
            w.join()
            assert not w.wrong, w.wrong
        bytes_ = f.metric("flametree_ingester_log_bytes")
        entries = f.metric("flametree_ingester_log_entries_total")
        assert entries == PROFILES
        # Names are in the log once per service and cut: 31 stacks of four names each would be a multiple of that.
        assert bytes_ < 600 * PROFILES, bytes_
        before = [totals(f.server(), name) for name in names]
        f.kill()
        f.start()
        said = re.search(r"event=log.replayed cuts=(\d+) entries=(\d+)", f.tail())
        assert said and int(said.group(2)) == PROFILES, f.tail()
        for i, name in enumerate(names):
            acked = [n for w in writers for n in w.acked[name]]
            assert before[i] == totals(f.server(), name) == (len(acked), sum(31 * (1 + n) for n in acked))
        assert f.metric("flametree_ingester_log_lost_pushes_total") == 0


def test_two_gigabytes_of_log_are_read_after_a_kill():
    """The log on disk is as large as that, in closed cuts: each service's first profile of a cut brings its names, a megabyte, and
    there are as many services as fill a cut with names, which is four times cut_bytes. So no offset, sum or file is too small for
    it, and each cut is understood by itself. The build with sanitizers reads a ninth."""
    services, names = 288, ["%05d%s" % (i, "n" * 60000) for i in range(16)]
    body = [Pprof(*((["main", name], 1 + i) for name in names)).encode() for i in range(8)]
    with Flametree("--storage.kind", "none", "--ingester.log_disk=0", "--ingester.head_memory=4GiB", "--server.memory_limit=6GiB") as f:
        refused, rounds, step = [], 1 if is_sanitized(f) else 9, threading.Barrier(WRITERS)

        def push(part):
            s = f.server()
            for n in range(part, services * rounds, WRITERS):
                reply = s.push({"__name__": "process_cpu", "service_name": "names-%02d" % (n % services)}, body[n // services % len(body)])
                if reply.status != 200:
                    refused.append(str(reply))
                if n % services >= services - WRITERS:
                    step.wait(300)  # each service once, before any comes again
        writers = [threading.Thread(target=push, args=(i,)) for i in range(WRITERS)]
        for w in writers:
            w.start()
        for w in writers:
            w.join()
        assert not refused, refused[0]
        log, cuts = f.metric("flametree_ingester_log_bytes"), f.metric('flametree_ingester_cuts{state="closed"}')
        assert log > 253.6e6 * rounds and cuts > rounds / 2, (log, cuts)
        f.kill()
        f.start()
        said = re.search(r"event=log.replayed cuts=(\d+) entries=(\d+)", f.tail())
        assert said and int(said.group(2)) == services * rounds, f.tail()
        assert f.metric("flametree_ingester_log_bytes") == log
        assert f.metric("flametree_ingester_log_lost_pushes_total") == 0
        each = sum(len(names) * (1 + r % len(body)) for r in range(rounds))
        s = f.server()
        for selector, n in (("{}", services), ('{service_name="names-07"}', 1), ('{service_name="names-71"}', 1)):
            reply = s.query("SelectMergeStacktraces", profileTypeID=CPU, labelSelector=selector, maxNodes=1).expect(200)
            assert int(reply.headers["Flametree-Profiles"]) == n * rounds
            assert int(reply.json()["flamegraph"]["total"]) == n * each


def test_ready_tells_how_far_the_log_was_read(tmp_path):
    with Flametree(*KEEP, data=str(tmp_path)) as f:
        s, name = f.server(), unique("progress")
        for n in range(20):
            s.push({"__name__": "process_cpu", "service_name": name}, Pprof(("main;a", 1 + n))).expect(200)
        f.kill()
        f.env["FLAMETREE_FAULTS"] = "replay.entry=delay:250"
        f.start(wait=False)

        def told():
            f.check_alive()
            try:
                with open(os.path.join(f.data, "run", "ports.json")) as ports:
                    url = "http://127.0.0.1:%d/ready" % json.load(ports)["public"]
                with urllib.request.urlopen(url, timeout=30):
                    raise AssertionError("it was ready before anything was told")
            except urllib.error.HTTPError as e:
                said = re.search(r"replaying log: (\d+) of 20 entries, in 1 cuts", e.read().decode())
                return said and 0 < int(said.group(1)) < 20
            except (OSError, ValueError):
                return None
        await_("/ready tells of entries", told, 60)
        del f.env["FLAMETREE_FAULTS"]
        f.await_ready()
        assert totals(f.server(), name) == (20, 210)
