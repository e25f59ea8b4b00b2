"""deploy/cluster from its start to its end: what is pushed to either distributor is answered by either querier, also after an ingester was killed."""
import os
import signal
import subprocess

import pytest
from client import CPU, Pprof, Server, select
from flametree import TOP, await_, own_host

PODS = 12


class OnThisMachine:
    def __init__(self, data):
        self.data, self.host = data, own_host()

    def run(self, *args):
        return subprocess.run([os.path.join(TOP, "deploy/cluster"), "--data", self.data, *args], capture_output=True, text=True, timeout=300)

    def start(self, *args):
        done = self.run("--listen", self.host, *args)
        assert done.returncode == 0, done.stderr + done.stdout
        return done

    def status(self):
        """{name: (pid, state, url)} and whether it says that all are ready."""
        done = self.run("--status")
        rows = [line.split() for line in done.stdout.splitlines()]
        return {r[0]: (None if r[1] == "-" else int(r[1]), r[2], (r[3:] or [None])[0]) for r in rows}, done.returncode == 0

    def server(self, n):
        processes, _ = self.status()
        return Server(processes["querier-%d" % n][2].rstrip("/"), processes["distributor-%d" % n][2].rstrip("/"), strict=True)


def sessions(leaders):
    """Processes in these sessions: a background process of deploy/cluster leads one, and what it starts stays in it."""
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/stat" % pid) as f:
                state, _, _, session = f.read().rpartition(")")[2].split()[:4]
        except OSError:
            continue
        if int(session) in leaders and state != "Z":
            found.append(int(pid))
    return found


@pytest.fixture
def cluster(tmp_path):
    c = OnThisMachine(str(tmp_path / "data"))
    yield c
    c.run("--stop")


def push_pods(s, name):
    def taken(pod):
        return s.push({"__name__": "process_cpu", "service_name": "shop", "pod": "p%d" % pod}, Pprof((name, 1))).status == 200
    for pod in range(PODS):
        await_("a push to be taken", lambda: taken(pod))


def whole(s, want):
    """The answer that calls itself exact has all of it."""
    def exact():
        reply = s.query("SelectMergeStacktraces", {"Flametree-Partial": "allow"}, profileTypeID=CPU, labelSelector=select("shop")).expect(200)
        return reply.headers["Flametree-Exact"] == "exact"
    await_("a complete answer", exact, 120, 0.2)
    assert s.stacks("shop") == want


@pytest.mark.parametrize("log", ["object", "local"])
def test_start_push_query_kill_query_stop(cluster, log):
    cluster.start("--log", log)
    processes, ready = cluster.status()
    assert ready and len(processes) == 10, processes
    leaders = {pid for pid, _, _ in processes.values()}
    assert len(sessions(leaders)) > len(leaders), "the parts of the S3 server are in no session of it"
    first, second = cluster.server(1), cluster.server(2)
    push_pods(first, "main;before")
    push_pods(second, "main;before")
    for s in (first, second):
        whole(s, {"main;before": 2 * PODS})
        profiled = lambda: "flametree" in s.ok("LabelValues", name="service_name").get("names", [])
        await_("the cluster's own profile", profiled, 60, 0.2)

    os.kill(processes["ingester-2"][0], signal.SIGKILL)
    await_("the killed one to be missed", lambda: cluster.status()[0]["ingester-2"][1] == "gone")
    assert not cluster.status()[1]
    push_pods(first, "main;after")
    again = cluster.start()
    assert "starting the S3 server" not in again.stderr, again.stderr
    restarted, ready = cluster.status()
    assert ready and {name for name in processes if restarted[name] != processes[name]} == {"ingester-2"}, restarted
    for s in (first, second):
        whole(s, {"main;before": 2 * PODS, "main;after": PODS})
    leaders |= {restarted["ingester-2"][0]}

    stopped = cluster.run("--stop")
    assert stopped.returncode == 0 and "stopped" in stopped.stderr, stopped.stderr
    assert not sessions(leaders)
    assert sorted(os.listdir(cluster.data)) == ["log", "run"]
    for name in processes:
        with open(os.path.join(cluster.data, "log", name + ".log")) as f:
            text = f.read()
        assert name == "s3" or "event=process.stopped" in text, (name, text[-2000:])
    assert "nothing runs" in cluster.run("--stop").stderr
    processes, ready = cluster.status()
    assert not ready and {state for _, state, _ in processes.values()} == {"gone"}


def test_a_second_call_starts_nothing_and_without_its_store_all_of_it_is_new(cluster):
    cluster.start()
    before, _ = cluster.status()
    assert "runs already" in cluster.run().stderr
    assert cluster.status()[0] == before
    os.kill(before["s3"][0], signal.SIGKILL)  # its parts are left
    await_("the server to be missed", lambda: cluster.status()[0]["s3"][1] == "gone")
    cluster.start()
    after, ready = cluster.status()
    assert ready and all(after[name][0] != before[name][0] for name in before), (before, after)
    assert not sessions({pid for pid, _, _ in before.values()})


@pytest.mark.parametrize("args, text", [(["--log", "x"], "object or local"), (["--what"], "unknown argument"), (["--data"], "needs a value")])
def test_wrong_usage(cluster, args, text):
    answer = cluster.run(*args)
    assert answer.returncode != 0 and text in answer.stderr, answer.stderr
