"""/live asks whether the process runs, /ready whether it takes traffic: a supervisor restarts for the one and waits for the other."""
import signal
import socket
import urllib.error
import urllib.request

from client import Pprof, unique
from flametree import Cluster, Flametree, await_

KEEP = ("--ingester.cut_age=10h", "--storage.kind=none")


def get(f, path, seconds=60, at=None):
    """(status, text); None: no answer in this time."""
    try:
        with urllib.request.urlopen((at or f.url) + path, timeout=seconds) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as e:
        return e.code, e.read().decode()
    except (socket.timeout, OSError):
        return None


def stat_of(f):
    with open("/proc/%d/stat" % f.process.pid) as stat:
        return stat.read().rsplit(")", 1)[1].split()[0]


def test_a_process_that_reads_its_log_is_alive_and_says_why_it_is_not_ready(tmp_path):
    with Flametree(*KEEP, data=str(tmp_path)) as f:
        for n in range(20):
            f.server().push({"__name__": "process_cpu", "service_name": unique("live")}, Pprof(("main;a", 1 + n))).expect(200)
        f.kill()
        f.env["FLAMETREE_FAULTS"] = "replay.entry=delay:250"
        f.start(wait=False)
        f.await_listening()
        seen = []

        def reads():
            f.check_alive()
            ready, live = get(f, "/ready"), get(f, "/live")
            assert live == (200, "live\n"), live
            seen.append(ready)
            return ready[0] == 503 and "replaying log: " in ready[1]
        await_("/ready to say that the log is being read", reads, 60)
        f.await_ready()
        assert get(f, "/live") == (200, "live\n") and get(f, "/ready")[0] == 200


def test_a_process_that_drains_is_alive_for_operators():
    """The public listener takes nothing new any more. That of operators is there until all is flushed, which takes as long as the store does."""
    with Flametree("--ingester.cut_age=10h", "--admin.listen=127.0.0.1:0", env={"FLAMETREE_FAULTS": "flush.begin=delay:3000"}) as f:
        f.server().push({"__name__": "process_cpu", "service_name": unique("live")}, Pprof(("main;a", 1))).expect(200)
        process, f.process = f.process, None
        process.send_signal(signal.SIGTERM)

        def drains():
            ready = get(f, "/ready", at=f.admin_url)
            return ready if ready[0] == 503 else None
        ready = await_("/ready to say so", drains, 60)
        assert "draining" in ready[1], ready
        assert get(f, "/live", at=f.admin_url) == (200, "live\n")
        f.stopped(process)


def test_a_process_that_stands_still_is_not_alive():
    with Flametree(*KEEP) as f:
        f.signal(signal.SIGSTOP)
        try:
            await_("it to stand still", lambda: stat_of(f) == "T")
            assert get(f, "/live", 0.5) is None
        finally:
            f.signal(signal.SIGCONT)
        assert get(f, "/live") == (200, "live\n")


def test_only_questions_are_answered():
    with Flametree(*KEEP) as f:
        head = urllib.request.Request(f.url + "/live", method="HEAD")
        with urllib.request.urlopen(head, timeout=60) as answer:
            assert answer.status == 200 and answer.read() == b""
        try:
            with urllib.request.urlopen(urllib.request.Request(f.url + "/live", data=b"x"), timeout=60) as answer:
                raise AssertionError(answer.status)
        except urllib.error.HTTPError as e:
            assert e.code in (404, 405)


def test_processes_of_a_cluster_are_alive_while_others_are_gone():
    """Restarting a querier because no ingester answers would help nobody."""
    with Cluster() as c:
        for name in ("ingester-1", "ingester-2", "ingester-3"):
            c[name].kill()
        for name in ("distributor", "querier", "compactor"):
            assert get(c[name], "/live") == (200, "live\n"), name
        for name in ("ingester-1", "ingester-2", "ingester-3"):
            c[name].start()
