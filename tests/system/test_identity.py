"""Who is who: a node with another store, an ingester with another data directory, two processes with one id. Each is told by name, in the log, in /ready
and in metrics, and no answer passes for exact that may lack rows."""
import contextlib
import json
import os
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request

import pytest
from client import CPU, Pprof, now_ms, select, unique
from faultclock import FaultClock
from flametree import BIN, Cluster, Flametree, await_, own_host

ULID = "[0-9A-HJKMNP-TV-Z]{26}"


def ask(s, service, **headers):
    return s.query("SelectMergeStacktraces", headers, profileTypeID=CPU, labelSelector=select(service), start=now_ms() - 1_800_000, end=now_ms() + 300_000)


def push(s, service, value=1, pods=12, expected=200):
    for i in range(pods):
        s.push({"__name__": "process_cpu", "service_name": service, "pod": "p%d" % i}, Pprof(("main;work", value))).expect(expected)


def ready(f):
    """Lines of /ready behind the first one, which must be "ready"."""
    with urllib.request.urlopen(f.url + "/ready") as answer:
        lines = answer.read().decode().splitlines()
    assert lines[0] == "ready", lines
    return lines[1:]


def notices(f, event):
    return [line for line in ready(f) if line.startswith(event + " ")]


def await_notice(f, event, *words):
    """The notice is in /ready, in the metric and in the log."""
    line = await_("%s of %s" % (event, f.program), lambda: next((x for x in notices(f, event) if all(w in x for w in words)), None), 60)
    assert f.metric('flametree_notices{notice="%s"}' % event) >= 1
    assert "event=%s about=" % event in f.tail(2000), f.tail()
    return line


@pytest.fixture
def cluster():
    with Cluster() as c:
        yield c


# ---- another store

@contextlib.contextmanager
def stray(cluster, tmp_path, program, env=None):
    """A process of the cluster with a new data directory and another store."""
    lists = "--cluster.ingesters=" + ",".join("%s=%s" % (name, m.ports["internal"]) for name, m in cluster.members.items() if name.startswith("ingester"))
    with Flametree("--internal.listen", cluster.host + ":0", "--server.id", "stray", "--storage.dir", str(tmp_path / "other"), lists,
                   program="flametree-" + program, env=env) as f:
        yield f


def test_a_querier_with_another_store_is_refused_by_name(cluster, tmp_path):
    s, service = cluster.server(), unique()
    push(s, service)
    for m in cluster.ingesters():
        m.server().call("POST", "/ingester/flush?wait=true", b"").expect(200)
    with stray(cluster, tmp_path, "querier") as f:
        reply = ask(f.server(), service).expect(503, "missing: ingester-1, ingester-2, ingester-3", code="unavailable")
        ids = set(re.findall("cluster (%s)" % ULID, reply.message()))
        assert len(ids) == 2 and "stray has a store of cluster" in reply.message() and "storage.dir" in reply.message(), reply.message()
        marked = ask(f.server(), service, **{"Flametree-Partial": "allow"}).expect(200)
        assert marked.headers["Flametree-Exact"].startswith("partial=") and "ingester-1" in marked.headers["Flametree-Missing"], marked.headers
        await_notice(f, "cluster.differs", "ingester-1", *ids)
        await_notice(cluster["ingester-1"], "cluster.differs", "stray", *ids)
    assert s.stacks(service) == {"main;work": 12}


def test_a_distributor_with_another_store_is_refused_by_name(cluster, tmp_path):
    service = unique()
    with stray(cluster, tmp_path, "distributor") as f:
        reply = f.server().push({"__name__": "process_cpu", "service_name": service}, Pprof(("a", 1))).expect(503, code="unavailable")
        assert "stray has a store of cluster" in reply.message(), reply.message()
    assert cluster.server().stacks(service) == {}


def test_a_distributor_without_a_store_tells_that_its_ingesters_are_of_two_clusters(cluster, tmp_path):
    with Flametree("--internal.listen", cluster.host + ":0", "--server.id", "foreign", "--storage.dir", str(tmp_path / "other"), program="flametree-ingester") as foreign:
        at = {name: m.ports["internal"] for name, m in cluster.members.items() if name.startswith("ingester")}
        lists = "--cluster.ingesters=" + ",".join("%s=%s" % item for item in {**at, "foreign": foreign.ports["internal"]}.items())
        with Flametree("--internal.listen", cluster.host + ":0", "--server.id", "mixed", lists, program="flametree-distributor") as f:
            await_notice(f, "cluster.differs", "mixed", "storage.dir")


def test_a_store_that_could_not_be_asked_is_asked_again(cluster, tmp_path):
    service = unique()
    push(cluster.server(), service)
    with stray(cluster, tmp_path, "querier", {"FLAMETREE_FAULTS": "manifest.claim=eio@1"}) as f:
        assert "event=storage.unasked about=stray" in f.tail(), f.tail()
        await_("the store to be asked", lambda: "event=storage.opened" in f.tail(500))
        ask(f.server(), service).expect(503, "missing: ingester-1, ingester-2, ingester-3", code="unavailable")
        assert notices(f, "storage.unasked") == [] and "event=notice.over of=storage.unasked" in f.tail(500)


def test_a_store_that_cannot_be_asked_is_told(tmp_path):
    with Flametree("--internal.listen", "127.0.0.1:0", "--storage.dir", str(tmp_path / "other"), program="flametree-compactor", env={"FLAMETREE_FAULTS": "manifest.claim=eio"}) as f:
        await_notice(f, "storage.unasked", "Input/output error")


# ---- another data directory

def empty(f):
    """As after an unmounted disk: nothing is left where the data directory was. Returns where it is now."""
    aside = f.data + ".aside"
    os.rename(f.data, aside)
    os.mkdir(f.data)
    return aside


def restore(f, aside):
    shutil.rmtree(f.data)
    os.rename(aside, f.data)


def directory(f):
    with open(os.path.join(f.data, "directory")) as text:
        return text.read().strip()


def streams(cluster, name, by="ingester-1"):
    """What is registered of an ingester, as another one sees it."""
    found = cluster[by].operator().call("GET", "/ingester/streams").expect(200).json()["streams"]
    return [stream for stream in found if stream["node"] == name]


def registered(cluster, name):
    """The data directories that the store knows of an ingester."""
    return sorted({stream["directory"] for stream in streams(cluster, name)})


def exactness(s, service):
    reply = ask(s, service).expect(200)
    return reply.headers["Flametree-Exact"], int(reply.headers["Flametree-Profiles"])


def test_a_data_directory_that_is_gone_marks_answers_until_it_is_back(cluster):
    s, service, gone = cluster.server(), unique(), cluster["ingester-2"]
    push(s, service, pods=24)
    assert exactness(s, service) == ("exact", 24)
    old, mine = directory(gone), int(gone.metric("flametree_ingester_head_rows"))
    assert mine > 0 and registered(cluster, "ingester-2") == [old]
    gone.kill()
    aside = empty(gone)
    gone.start()
    said, profiles = exactness(s, service)
    assert said.startswith("partial=ingester-2: data directory %s of 20" % old) and said.endswith("Z is gone") and profiles == 24 - mine, (said, profiles)
    missing = ask(s, service).headers["Flametree-Missing"]
    assert missing.startswith("ingester-2: data directory " + old), missing
    line = await_notice(gone, "node.lost", "ingester-2/" + old, "flametree stream forget --accept-loss ingester-2/" + old)
    assert gone.metric("flametree_ingester_lost_directories") == 1, line
    for other in ("ingester-1", "ingester-3"):
        assert notices(cluster[other], "node.lost") == []
    push(s, service, pods=24)  # nothing is refused for it
    new = directory(gone)
    assert registered(cluster, "ingester-2") == sorted([old, new])
    later = s.query("SelectMergeStacktraces", {}, profileTypeID=CPU, labelSelector=select(service), start=now_ms() + 7_200_000, end=now_ms() + 7_300_000)
    assert later.expect(200).headers["Flametree-Exact"] == "exact", later.headers  # nothing of then can be lost
    gone.kill()
    restore(gone, aside)  # the old one is back, and lacks what the other one took in
    gone.start()
    said, _ = exactness(s, service)
    assert said.startswith("partial=ingester-2: data directory " + new), said
    await_notice(gone, "node.lost", "ingester-2/" + new)


def test_a_loss_that_is_accepted_marks_no_more(cluster):
    s, service, gone = cluster.server(), unique(), cluster["ingester-2"]
    push(s, service)
    old = directory(gone)
    gone.kill()
    empty(gone)
    gone.start()
    assert exactness(s, service)[0].startswith("partial=ingester-2")
    client = [os.path.join(BIN, "flametree"), "stream"]
    def stream(*args):
        return subprocess.run([*client, *args, "--url", cluster["ingester-1"].url], capture_output=True, text=True, timeout=120)
    table = stream("ls").stdout
    assert old in table and directory(gone) in table and table.count("ingester-") >= 4, table
    refused = stream("forget", "ingester-2")
    assert refused.returncode == 2 and "--accept-loss" in refused.stderr, refused
    running = stream("forget", "--accept-loss", "ingester-3/" + directory(cluster["ingester-3"]))
    assert running.returncode == 1 and "runs with that data directory" in running.stderr, running
    wrong = stream("forget", "--accept-loss", "ingester-2/01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert wrong.returncode == 1 and "knows no such data directory" in wrong.stderr, wrong
    done = stream("forget", "--accept-loss", "ingester-2")
    assert done.returncode == 0 and re.search(r"forgot \d+ streams? of ingester-2", done.stdout), done
    assert registered(cluster, "ingester-2") == [directory(gone)]
    await_("answers to be exact again", lambda: exactness(s, service)[0] == "exact", 90)
    await_("the notice to end", lambda: notices(gone, "node.lost") == [])
    assert "event=notice.over of=node.lost" in gone.tail(500)


def test_a_clean_end_leaves_nothing_to_miss(cluster):
    s, service, moved = cluster.server(), unique(), cluster["ingester-2"]
    push(s, service)
    moved.stop()  # it gives all to the store
    assert registered(cluster, "ingester-2") == []
    empty(moved)
    moved.start()
    assert exactness(s, service) == ("exact", 12)
    assert notices(moved, "node.lost") == []


def test_a_lost_log_in_the_same_data_directory_is_a_new_one(cluster):
    s, service, gone = cluster.server(), unique(), cluster["ingester-2"]
    push(s, service)
    old = directory(gone)
    gone.kill()
    shutil.rmtree(os.path.join(gone.data, "ingester", "log"))
    gone.start()
    assert directory(gone) != old and exactness(s, service)[0].startswith("partial=ingester-2: data directory " + old)


def test_nothing_is_acknowledged_in_a_stream_that_the_store_does_not_know(tmp_path):
    f = Flametree("--storage.dir", str(tmp_path / "store"), env={"FLAMETREE_FAULTS": "manifest.streams=eio"})
    with that_waits(f):
        reply = f.server().push({"__name__": "process_cpu", "service_name": "s"}, Pprof(("a", 1))).expect(503, code="unavailable")
        assert "not registered in the store yet" in reply.message() and "Input/output error" in reply.message(), reply.message()


@contextlib.contextmanager
def that_waits(f):
    """A process that listens and is not ready."""
    f.start(wait=False)
    try:
        def listens():
            f.check_alive()
            try:
                with open(os.path.join(f.data, "run", "ports.json")) as text:
                    f.url = "http://127.0.0.1:%d" % json.load(text)["public"]
                urllib.request.urlopen(f.url + "/ready")
            except urllib.error.HTTPError as refused:
                return "not registered in the store yet" in refused.read().decode()
            except (OSError, ValueError):
                return False
            raise AssertionError("it is ready")
        await_("a process that waits for its store", listens, 60)
        yield f
    finally:
        f.kill()
        shutil.rmtree(f.data, ignore_errors=True)


HOUR = 3600 * 10**9


@pytest.fixture
def clock(tmp_path):
    return FaultClock(tmp_path / "clock")


def said_of_now(f, clock, ahead_ns=0):
    """What an answer about the last minutes says of itself. What it is asked about is in no process: a mark depends on the range alone."""
    now = clock.now_ns() // 10**6
    reply = f.server().query("SelectMergeStacktraces", {}, profileTypeID=CPU, labelSelector=select("nobody"), start=now - 300_000 + ahead_ns // 10**6,
                             end=now + ahead_ns // 10**6)
    return reply.expect(200).headers["Flametree-Exact"]


def push_unflushed(f, clock):
    at = clock.now_ns() - 10**9
    f.server().push({"__name__": "process_cpu", "service_name": "shop"}, Pprof(("main;work", 1), time_ns=at)).expect(200)


def swap(f, clock, other, away_ns=60 * 10**9):
    """The data directory goes, and `other` (None: an empty one) comes in its place. Returns where the first one is."""
    f.kill()
    aside = "%s.%s" % (f.data, directory(f))
    os.rename(f.data, aside)
    if other:
        os.rename(other, f.data)
    else:
        os.mkdir(f.data)
    clock.pass_(away_ns)
    f.start()
    return aside


def test_a_directory_that_was_back_for_a_while_marks_what_it_took_then(tmp_path, clock):
    """Disk A is gone for an hour, back, and gone again: what it took when it was back is missing, long after the other directory was made."""
    (tmp_path / "data").mkdir()
    with Flametree("--storage.dir", str(tmp_path / "store"), data=str(tmp_path / "data"), env=clock.env) as f:
        a = directory(f)
        push_unflushed(f, clock)
        first = swap(f, clock, None)
        assert a in said_of_now(f, clock)
        push_unflushed(f, clock)
        b = directory(f)
        second = swap(f, clock, first, 3 * HOUR)
        assert directory(f) == a and b in said_of_now(f, clock)
        push_unflushed(f, clock)
        swap(f, clock, second)
        assert directory(f) == b and a in said_of_now(f, clock)
        assert said_of_now(f, clock, 3 * HOUR) == "exact"  # nobody can have taken profiles of then
        # It is not used again, so what may be missing stays the same however often this process starts.
        f.kill()
        clock.pass_(5 * HOUR)
        f.start()
        assert a in said_of_now(f, clock, -5 * HOUR)


def test_where_profiles_may_be_of_any_future_time_any_may_be_missing(tmp_path, clock):
    (tmp_path / "data").mkdir()
    with Flametree("--storage.dir", str(tmp_path / "store"), "--limits.reject_newer_than", "0", data=str(tmp_path / "data"), env=clock.env) as f:
        a = directory(f)
        push_unflushed(f, clock)
        swap(f, clock, None)
        assert a in said_of_now(f, clock, 300 * HOUR)


def test_the_older_of_two_twins_marks_answers_after_it_ended(tmp_path, clock):
    """It took profiles for hours beside the newer one, and they are gone with it."""
    store = str(tmp_path / "store")
    flags = ("--internal.listen", own_host() + ":0", "--server.id", "a", "--storage.dir", store, "--ingester.stream_age", "100ms", "--ingester.cut_age", "24h")
    with Flametree(*flags, env=clock.env) as first:
        push_unflushed(first, clock)
        with Flametree(*flags, env=clock.env) as second:
            await_("the older one to see the newer one", lambda: directory(second) in said_of_now(first, clock))
            clock.pass_(2 * HOUR)
            push_unflushed(first, clock)
            assert said_of_now(second, clock).endswith("is of another process")
            first.kill()
            await_("the newer one to see that the older one ended", lambda: said_of_now(second, clock, -2 * HOUR).endswith("is gone"))
            assert said_of_now(second, clock).endswith("is gone")
            second.kill()
            second.start()
            assert said_of_now(second, clock).endswith("is gone")


# ---- two processes with one id

def test_a_second_process_with_the_id_of_a_running_ingester_is_told_by_both(cluster, tmp_path):
    """The store tells the newcomer of the other one, who is told by the newcomer's question."""
    s, service, first = cluster.server(), unique(), cluster["ingester-2"]
    push(s, service)
    with Flametree("--internal.listen", cluster.host + ":0", "--server.id", "ingester-2", "--storage.dir", os.path.join(cluster.folder, "data/store"),
                   program="flametree-ingester") as second:
        for one, other in ((first, second), (second, first)):
            await_notice(one, "node.twin", "ingester-2", directory(other), other.ports["internal"])
        said = await_("answers to be marked", lambda: next((x for x in [exactness(s, service)[0]] if x.startswith("partial=ingester-2: data")), None), 90)
        # Both are asked, and the one that answers second is another process than the first.
        assert said.startswith(tuple("partial=ingester-2: data directory %s of" % directory(one) for one in (first, second))) and said.endswith("is of another process"), said
    # The second one took nothing, ended cleanly, and is forgotten.
    await_("answers to be exact again", lambda: exactness(s, service)[0] == "exact", 90)


def test_a_second_process_with_the_id_is_told_without_a_store_too(tmp_path):
    host = own_host()
    def start(port):
        return Flametree("--internal.listen", "%s:%d" % (host, port), "--server.id", "a", "--cluster.ingesters", "a=%s:4071" % host, "--storage.kind", "none",
                         program="flametree-ingester")
    with start(4071) as first, start(4073) as second:
        for one, other in ((first, second), (second, first)):
            await_notice(one, "node.twin", directory(other))


def test_without_a_store_those_who_ask_tell_that_a_data_directory_is_another_one(tmp_path):
    host = own_host()
    data = tmp_path / "data"
    data.mkdir()
    def ingester():
        return Flametree("--internal.listen", host + ":4071", "--server.id", "a", program="flametree-ingester", data=str(data))
    with Flametree("--internal.listen", host + ":4073", "--cluster.ingesters", "a=%s:4071" % host, program="flametree-querier") as querier:
        with ingester() as f:
            old = directory(f)
            await_("the querier to know it", lambda: querier.metric("flametree_nodes_remembered") == 1)
            f.kill()
            aside = empty(f)
            f.start()
            said = lambda ahead_ms=0: querier.server().query("SelectMergeStacktraces", {}, profileTypeID=CPU, labelSelector=select("nobody"), start=now_ms() - 300_000 + ahead_ms,
                                                             end=now_ms() + ahead_ms).expect(200).headers["Flametree-Exact"]
            assert said() == "partial=a: data directory %s is gone" % old  # the first answer already, whether or not a probe came before it
            await_notice(querier, "node.replaced", "a: ", old, directory(f))
            assert said(7_200_000) == "exact"  # nothing of then can be there
            new = directory(f)
            f.kill()
            restore(f, aside)
            f.start()
            await_("the notice to end", lambda: notices(querier, "node.replaced") == [], 60)
            assert said() == "partial=a: data directory %s is gone" % new  # which may have taken profiles meanwhile


# ---- a damaged log

def test_files_of_a_log_that_are_gone_are_told(tmp_path):
    """What was acknowledged and cannot be read any more is counted; the rest is served, and nobody takes the answer for whole."""
    with Flametree("--storage.kind", "none", data=str(tmp_path)) as f:
        service = unique()
        push(f.server(), service, pods=5)
        noted = tmp_path / "ingester/log/ACKNOWLEDGED"  # once a second
        pushed = time.time()
        await_("the log to note how far it was acknowledged", lambda: noted.exists() and noted.stat().st_mtime > pushed, 60)
        f.kill()
        logs = [e.path for e in os.scandir(tmp_path / "ingester/log") if e.name.endswith(".log")]
        assert logs
        for path in logs:
            os.unlink(path)
        f.start()
        line = await_notice(f, "log.damaged", "cannot be read from the log any more")
        assert re.search(r"\b[1-5] acknowledged pushes", line), line
        assert f.metric("flametree_ingester_log_lost_profiles_total") >= 1
        marked = ask(f.server(), service).expect(200)
        assert marked.headers["Flametree-Exact"].startswith("partial=stream ") and marked.headers["Flametree-Missing"].startswith("stream "), marked.headers
        ask(f.server(), service, **{"Flametree-Partial": "deny"}).expect(503, "missing: stream ")
        push(f.server(), service, pods=2)
        f.kill()  # (a clean end would be one as well)
