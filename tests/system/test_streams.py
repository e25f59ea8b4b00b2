"""Registered streams: the store says whose rows an answer needs. A node that no list names is asked, one that vanished is named, and streams follow each
other under load without a gap."""
import contextlib
import datetime
import glob
import http.server
import json
import os
import subprocess
import threading
import time
import urllib.error
import urllib.request
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from client import CPU, Pprof, fixed64, now_ms, pb, select, unique
from faultclock import FaultClock
from flametree import BIN, Cluster, Flametree, WITHOUT_SETTINGS, await_, flush
from test_nodes import crc32c

DAY = 86_400_000
PODS = 6


def ask(s, service, start=None, end=None, **headers):
    return s.query("SelectMergeStacktraces", headers, profileTypeID=CPU, labelSelector=select(service), start=start or now_ms() - 1_800_000, end=end or now_ms() + 300_000)


def exactness(s, service, **kw):
    reply = ask(s, service, **kw).expect(200)
    return reply.headers["Flametree-Exact"], int(reply.headers["Flametree-Profiles"])


def push(s, service, pods=PODS):
    for i in range(pods):
        s.push({"__name__": "process_cpu", "service_name": service, "pod": "p%d" % i}, Pprof(("main;work", 1))).expect(200)


def registered(m, node=None):
    found = m.operator().call("GET", "/ingester/streams").expect(200).json()["streams"]
    return [stream for stream in found if node in (None, stream["node"])]


def cli(m, *args):
    return subprocess.run([os.path.join(BIN, "flametree"), "stream", *args, "--url", m.url], capture_output=True, text=True, timeout=120)


@pytest.fixture
def cluster():
    with Cluster() as c:
        yield c


@contextlib.contextmanager
def unlisted(cluster, *args, env=None):
    """An ingester of the cluster that is in nobody's list but in that of a distributor of its own: (ingester, distributor). It is ready when every querier
    has a list of streams with its own."""
    store = os.path.join(cluster.folder, "data/store")
    with Flametree("--internal.listen", cluster.host + ":0", "--server.id", "newcomer", "--storage.dir", store, "--ingester.stream_settle=1100ms", *args, program="flametree-ingester", env=env) as f:
        with Flametree("--internal.listen", cluster.host + ":0", "--server.id", "its-distributor", "--storage.dir", store,
                       "--cluster.ingesters", "newcomer=" + f.ports["internal"], program="flametree-distributor") as d:
            yield f, d


def test_a_node_that_only_its_registration_names_is_asked(cluster):
    s, service = cluster.server(), unique()
    with unlisted(cluster) as (f, d):
        push(d.server(), service)
        assert f.metric("flametree_ingester_head_rows") >= PODS
        assert exactness(s, service) == ("exact", PODS)
        assert f.metric("flametree_ingester_registered_streams") >= 1
        f.stop()  # it gives all to the store and takes its registrations back
        assert registered(cluster["ingester-1"], "newcomer") == []
        assert exactness(s, service) == ("exact", PODS)


def test_a_stream_whose_node_vanished_is_named_until_its_loss_is_accepted(cluster):
    s, service, any_one = cluster.server(), unique(), cluster["ingester-1"]
    push(s, service)
    with unlisted(cluster) as (f, d):
        push(d.server(), service)
        assert exactness(s, service) == ("exact", 2 * PODS)
        used = next(x for x in registered(f, "newcomer") if x["state"] == "open")
        running = cli(any_one, "forget", "--accept-loss", used["stream"])
        assert running.returncode == 1 and "answers for it" in running.stderr, running
        f.kill()
    said, profiles = exactness(s, service)
    assert said.startswith("partial=stream ") and " of newcomer" in said and profiles == PODS, said
    marked = ask(s, service).headers["Flametree-Missing"]
    assert used["stream"] in marked, marked
    # Nothing of that time can be in it.
    assert exactness(s, service, start=now_ms() - 60 * DAY, end=now_ms() - 50 * DAY)[0] == "exact"
    lists = "--cluster.ingesters=" + ",".join("%s=%s" % (name, m.ports["internal"]) for name, m in cluster.members.items() if name.startswith("ingester"))
    with Flametree("--internal.listen", cluster.host + ":0", "--server.id", "strict", "--storage.dir", os.path.join(cluster.folder, "data/store"), lists,
                   "--querier.incomplete=refuse", "--querier.wait_for_streams=0s", program="flametree-querier") as strict:
        ask(strict.server(), service).expect(503, "missing: stream ", code="unavailable")
        ask(s, service, **{"Flametree-Partial": "deny"}).expect(503, "missing: stream ", code="unavailable")
        allowed = ask(strict.server(), service, **{"Flametree-Partial": "allow"}).expect(200)
        assert used["stream"] in allowed.headers["Flametree-Missing"], allowed.headers
    table = cli(any_one, "ls")
    assert table.returncode == 0 and used["stream"] in table.stdout and "newcomer" in table.stdout, table
    shown = cli(any_one, "show", used["stream"])
    assert shown.returncode == 0 and "ingester: newcomer\n" in shown.stdout and "log: %s\n" % os.environ.get("FLAMETREE_INGESTER_LOG", "local") in shown.stdout, shown
    unknown = cli(any_one, "show", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert unknown.returncode == 1 and "no stream" in unknown.stderr, unknown
    done = cli(any_one, "forget", "--accept-loss", used["stream"])
    assert done.returncode == 0 and "forgot 1 stream of " in done.stdout, done
    for left in registered(any_one, "newcomer"):
        assert cli(any_one, "forget", "--accept-loss", left["stream"]).returncode == 0
    await_("answers to be exact", lambda: exactness(s, service) == ("exact", PODS))


def test_a_stream_that_begins_while_a_question_waits_is_not_missed():
    c, service = Cluster(), unique()
    c["querier"].args += ["--querier.wait_for_streams=10m", "--server.request_timeout=10m"]
    with c, ThreadPoolExecutor(1) as pool:
        push(c.server(), service)
        with unlisted(c) as (f, d):
            push(d.server(), service)
            f.kill()
        gone = registered(c["ingester-1"], "newcomer")
        asked = pool.submit(exactness, c.server(), service)
        await_("the question to wait", lambda: c["querier"].metric('flametree_lane_jobs{lane="querier.public"}') == 1)
        with Flametree("--internal.listen", c.host + ":0", "--server.id", "late", "--storage.dir", os.path.join(c.folder, "data/store"), program="flametree-ingester") as late:
            assert registered(late, "late")
            late.kill()
        assert not asked.done()
        for stream in gone:
            assert cli(c["ingester-1"], "forget", "--accept-loss", stream["stream"]).returncode == 0
        assert asked.result(120) == ("exact", PODS)
        assert registered(c["ingester-1"], "late")


def test_an_ingester_that_ended_is_not_missed_though_lists_have_it(cluster):
    """Its rows are in the store, and its registrations are taken back: nothing is missing. The lists of the others need not change at once."""
    s, service = cluster.server(), unique()
    push(s, service)
    cluster["ingester-2"].stop()
    assert registered(cluster["ingester-1"], "ingester-2") == []
    assert exactness(s, service) == ("exact", PODS)
    push(s, service)
    assert exactness(s, service) == ("exact", 2 * PODS)


def test_times_before_all_streams_need_no_ingester(cluster):
    s, service = cluster.server(), unique()
    push(s, service)
    long_ago = {"start": now_ms() - 60 * DAY, "end": now_ms() - 50 * DAY}

    def headless():
        return cluster["querier"].metric("flametree_querier_headless_questions_total") or 0
    assert exactness(s, service) == ("exact", PODS) and headless() == 0
    assert exactness(s, service, **long_ago) == ("exact", 0) and headless() > 0
    for m in cluster.ingesters():
        m.kill()
    assert exactness(s, service, **long_ago) == ("exact", 0)
    assert ask(s, service).expect(200).headers["Flametree-Missing"] == "ingester-1, ingester-2, ingester-3"
    ask(s, service, **{"Flametree-Partial": "deny"}).expect(503, "missing: ingester-1, ingester-2, ingester-3", code="unavailable")


def test_a_registration_by_a_clock_that_was_wrong_promises_nothing(cluster, tmp_path):
    """It says that its profiles are of next month. They are not."""
    s, service, clock = cluster.server(), unique(), FaultClock(tmp_path / "clock")
    clock.set(days=60)
    with unlisted(cluster, env=clock.env) as (f, d):
        for m in cluster.ingesters():
            m.stop()
        clock.set(days=0)
        push(d.server(), service)
        assert exactness(s, service) == ("exact", PODS)
        assert not cluster["querier"].metric("flametree_querier_headless_questions_total")


def test_an_answer_says_since_when_something_is_missing(cluster):
    s, service, explain = cluster.server(), unique(), {"Flametree-Explain": "1"}
    push(s, service)
    assert "Flametree-Missing-Since" not in ask(s, service).headers
    with unlisted(cluster) as (f, d):
        push(d.server(), service)
        f.kill()
    first = ask(s, service, **explain).expect(200)
    since = first.headers["Flametree-Missing-Since"]
    assert abs(datetime.datetime.fromisoformat(since.replace("Z", "+00:00")).timestamp() * 1000 - now_ms()) < 600_000, since
    assert json.loads(first.headers["Flametree-Explain"])["missing_since"] == since
    await_("a later second", lambda: now_ms() // 1000 * 1000 > datetime.datetime.fromisoformat(since.replace("Z", "+00:00")).timestamp() * 1000 + 1000)
    assert ask(s, service).headers["Flametree-Missing-Since"] == since  # of the first answer that missed it
    refused = s.query("LabelNames", {"Flametree-Partial": "allow"}, matchers=[select(service)]).expect(200)
    assert refused.headers["Flametree-Missing-Since"] == since


def test_a_stream_that_is_lost_is_not_waited_for_and_still_named(tmp_path):
    """Since when it is missed outlives the querier; after cluster.lost_after a querier that starts does not wait for it."""
    clock = FaultClock(tmp_path / "clock")
    with Cluster("--cluster.clock_difference=0s", "--querier.wait_for_streams=1s", env_of={"querier": clock.env}) as c:
        s, service, querier, gone = c.server(), unique(), c["querier"], c["ingester-2"]
        counted = lambda name: querier.metric("flametree_querier_" + name) or 0
        push(s, service, 24)
        mine = gone.metric("flametree_ingester_head_rows")
        assert mine > 0
        gone.kill()

        def after(hours, found=24 - mine):
            querier.stop()
            clock.pass_(int(hours * 3600 * 10**9))
            querier.start()
            reply = ask(s, service).expect(200)
            assert reply.headers["Flametree-Missing"] == "ingester-2" and int(reply.headers["Flametree-Profiles"]) == found, reply.headers
            return reply.headers["Flametree-Missing-Since"]
        since = after(0)
        assert counted("stream_waits_total") > 0 and counted("lost_streams") == 0
        assert after(0.5) == since
        assert counted("stream_waits_total") > 0 and counted("lost_streams") == 0
        assert after(0.6) == since
        assert counted("stream_waits_total") == 0 and counted("lost_streams") > 0
        assert ask(s, service).expect(200).headers["Flametree-Missing-Since"] == since
        # Who comes back is asked, and then nothing is lost.
        gone.start()
        assert exactness(s, service) == ("exact", 24)
        flush(gone)
        gone.kill()
        ask(s, service).expect(200)
        assert counted("stream_waits_total") > 0
        after(1.1, 24)  # nobody knows that its open stream is empty
        for stream in registered(c["ingester-1"], "ingester-2"):
            assert cli(c["ingester-1"], "forget", "--accept-loss", stream["stream"]).returncode == 0
        await_("answers to be exact", lambda: exactness(s, service) == ("exact", 24))
        assert counted("lost_streams") == 0


def test_streams_follow_each_other_under_load_without_a_gap():
    """Each push is taken, and each that was taken is in the next answer, while streams end every second."""
    with Cluster("--ingester.stream_age=1s", "--ingester.cut_age=1s", "--ingester.stream_settle=1100ms") as c:
        service, over = unique(), threading.Event()
        seen = {m: set() for m in c.ingesters()}

        def load(pod):
            s, sent = c.server(), 0
            while not over.is_set():
                s.push({"__name__": "process_cpu", "service_name": service, "pod": "p%d" % pod}, Pprof(("main;work", 1))).expect(200)
                sent += 1
                said, found = exactness(s, service)
                assert said == "exact" and found >= sent, (said, found, sent)
            return sent

        def many():
            for m, streams in seen.items():
                streams.update(x["stream"] for x in registered(m) if x.get("state") == "open")
            return all(len(streams) >= 4 for streams in seen.values())
        with ThreadPoolExecutor(3) as pool:
            pods = [pool.submit(load, i) for i in range(3)]
            try:
                await_("four streams of each ingester", many, 120)
            finally:
                over.set()
            sent = sum(f.result(60) for f in pods)
        assert exactness(c.server(), service) == ("exact", sent)
        for m in c.ingesters():
            # Streams that are flushed do not stay.
            await_("old streams to go", lambda: m.metric("flametree_ingester_registered_streams") <= 4, 60)


def test_a_start_waits_until_its_stream_has_settled(tmp_path):
    """Queriers may share a list of streams that began before the registration."""
    streams = str(tmp_path / "store/o/v1/streams")
    f = Flametree("--internal.listen", "127.0.0.1:0", "--storage.dir", str(tmp_path / "store"), "--ingester.stream_settle=1m", program="flametree-ingester")
    try:
        f.start(wait=False)
        def waits():
            f.check_alive()
            try:
                with open(os.path.join(f.data, "run", "ports.json")) as text:
                    urllib.request.urlopen("http://127.0.0.1:%d/ready" % json.load(text)["public"])
            except urllib.error.HTTPError as refused:
                return "not registered in the store yet" in refused.read().decode() and os.path.isdir(streams) and os.listdir(streams)
            except (OSError, ValueError):
                return False
            raise AssertionError("it is ready")
        await_("a stream to be registered", waits, 60)
    finally:
        f.kill()


@pytest.mark.parametrize("settle, well", [("0s", False), ("1s", False), ("1100ms", True)])
def test_a_stream_settles_for_longer_than_lists_of_streams_are_shared(settle, well):
    answer = subprocess.run([os.path.join(BIN, "flametree-ingester"), "--check-config", "--ingester.stream_settle=" + settle], capture_output=True, text=True, timeout=60, env=WITHOUT_SETTINGS)
    assert answer.returncode == (0 if well else 2), answer
    assert well or "ingester.stream_settle" in answer.stderr and "1100ms" in answer.stderr, answer.stderr


def test_an_all_in_one_does_not_wait(tmp_path):
    with Flametree("--ingester.stream_settle=1m", data=str(tmp_path)) as f:
        push(f.server(), "shop")
        assert exactness(f.server(), "shop") == ("exact", PODS)


@pytest.mark.parametrize("program, settles", [("flametree-ingester", True), ("flametree", False)])
def test_only_the_all_in_one_need_not_settle_behind_a_unix_socket(tmp_path, program, settles):
    """Queriers that are processes of their own hold lists of streams, whatever they reach the ingester by."""
    store = tmp_path / "store"
    f = Flametree("--internal.listen", "unix:%s/in.sock" % tmp_path, "--ingester.stream_settle=1m", "--storage.kind=local", "--storage.dir=%s" % store, program=program, data=str(tmp_path / "data"))
    os.makedirs(f.data)
    f.start(wait=not settles)
    try:
        if settles:
            f.await_listening()
            await_("its stream to be registered", lambda: glob.glob(str(store / "o/v1/streams/*")), 60, 0.1)
            reply = f.operator().call("GET", "/ready")
            assert reply.status == 503 and "the stream of this ingester" in reply.text, reply
    finally:
        f.kill()


class Doors:
    """Processes of a node, each with a data directory and a port. They answer a probe once all of them are being asked."""

    def __init__(self, n):
        self.all_asked = threading.Barrier(n)
        self.servers = [http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler(uuid.uuid4().bytes)) for _ in range(n)]
        for server in self.servers:
            server.daemon_threads = True
            threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()

    def handler(doors, its_directory):
        class Handler(http.server.BaseHTTPRequestHandler):
            directory = its_directory

            def log_message(self, *args):
                pass

            def do_POST(self):
                self.rfile.read(int(self.headers["Content-Length"]))
                with contextlib.suppress(threading.BrokenBarrierError):
                    doors.all_asked.wait(30)
                answer = pb((1, pb((2, "house"), (4, its_directory))))
                self.send_response(200)
                for name, value in (("Content-Type", "application/proto"), ("Content-Length", str(len(answer))), ("Flametree-CRC32C", "%08x" % crc32c(answer))):
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer)
        return Handler

    def register(self, store):
        at = time.time_ns()
        for i, server in enumerate(self.servers):
            body = pb((1, 1), (2, "house"), (3, uuid.uuid4().bytes), (4, "127.0.0.1:%d" % server.server_port), (5, server.RequestHandlerClass.directory), (6, 1))
            with open(os.path.join(store, "o/v1/streams", "01HZXW4T8Q2J5K7M9NPRST%04d" % i), "wb") as f:
                f.write(body + fixed64(7, at) + fixed64(8, at - 3600 * 10**9))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.all_asked.abort()
        for server in self.servers:
            server.shutdown()
            server.server_close()


def test_of_many_processes_all_are_asked_at_once_whether_they_run():
    """One after the other they would not have the time that each of them has: the first would be taken for gone."""
    with Doors(12) as doors, Flametree() as f:
        doors.register(f.store)
        await_("the registrations to be listed", lambda: len(registered(f, "house")) == 12)
        done = cli(f, "forget", "--accept-loss", "house")
        assert done.returncode == 1 and "without a running process" in done.stderr, done
        assert len(glob.glob(os.path.join(f.store, "o/v1/streams/01HZXW4T8Q2J5K7M9NPRST*"))) == 12
