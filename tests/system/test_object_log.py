"""ingester.log: object. An ingester needs no disk that survives it: when its process is gone another one takes its streams over, out of the store, and
answers are complete again, with each profile counted once. The same if the process was only asleep and comes back."""
import concurrent.futures
import contextlib
import os
import re
import shutil
import signal
import subprocess
import urllib.parse

import pytest
from client import CPU, Pprof, Server, now_ms, select, unique
from flametree import AT_ONCE, AZURE, BIN, Cluster, Flametree, S3, WITHOUT_SETTINGS, await_, compact, flush

OBJECT = ("--ingester.log=object", "--ingester.log_linger=20ms", "--ingester.stream_settle=2s")
PODS = 12
ENTRY_MS, DRAIN_MS = 4_000, 30_000  # server.drain_timeout


def push(s, service, pods=PODS, value=1):
    with concurrent.futures.ThreadPoolExecutor(pods) as pool:
        for done in [pool.submit(s.push, {"__name__": "process_cpu", "service_name": service, "pod": "p%d" % i}, Pprof(("main;work", value))) for i in range(pods)]:
            done.result().expect(200)


def ask(s, service):
    """(is the answer complete, profiles, total)"""
    reply = s.query("SelectMergeStacktraces", {"Flametree-Partial": "allow"}, profileTypeID=CPU, labelSelector=select(service), start=now_ms() - 1_800_000, end=now_ms() + 300_000).expect(200)
    return reply.headers["Flametree-Exact"], int(reply.headers["Flametree-Profiles"]), int(reply.json()["flamegraph"].get("total", 0))


def await_whole(s, service, profiles, seconds=90):
    def whole():
        exact, n, total = ask(s, service)
        assert n <= profiles, (exact, n, total)
        return exact == "exact" and (n, total) == (profiles, profiles)
    await_("the answer to be complete with %d profiles" % profiles, whole, seconds, 0.2)


def wipe(m):
    shutil.rmtree(m.data)
    os.makedirs(m.data)


def registered(m, node=None):
    found = m.operator().call("GET", "/ingester/streams").expect(200).json()["streams"]
    return [stream for stream in found if node in (None, stream["node"])]


def holder(c, but=()):
    """An ingester that has rows."""
    return next(m for m in c.ingesters() if m not in but and m.metric("flametree_ingester_head_rows"))


def lose_holder(cluster):
    """Kills the ingester that has profiles, and its disk goes."""
    gone = holder(cluster)
    gone.kill()
    wipe(gone)
    return gone


def is_stopped(pid):
    """Each of its threads; until then some of them answer."""
    tasks = "/proc/%d/task" % pid
    return all(open(os.path.join(tasks, t, "stat")).read().rsplit(")", 1)[1].split()[0] == "T" for t in os.listdir(tasks))


def adoptions(c, but=()):
    return sum(m.metric("flametree_ingester_adopted_streams_total") or 0 for m in c.ingesters() if m.process and m not in but)


@pytest.fixture
def cluster():
    with Cluster(*OBJECT) as c:
        yield c


def test_a_killed_ingester_and_its_wiped_directory_lose_nothing(cluster):
    s, service = cluster.server(), unique()
    push(s, service)
    assert ask(s, service) == ("exact", PODS, PODS)
    gone = lose_holder(cluster)
    await_whole(s, service, PODS)
    await_("the adoption to be counted", lambda: adoptions(cluster) >= 1)
    push(s, service)
    assert ask(s, service)[1:] == (2 * PODS, 2 * PODS)
    for m in cluster.ingesters():
        if m.process:
            m.operator().call("POST", "/ingester/flush?wait=true", b"").expect(200)
    # Its registrations go once all is flushed.
    other = next(m for m in cluster.ingesters() if m.process)
    await_("the registrations of the dead to go", lambda: not [x for x in registered(other) if x["address"] == gone.ports.get("internal")], 60)
    await_whole(s, service, 2 * PODS)
    gone.start()
    await_whole(s, service, 2 * PODS)


def test_a_node_that_comes_back_with_an_empty_directory_takes_its_own_streams_at_once(cluster):
    s, service = cluster.server(), unique()
    push(s, service)
    gone = lose_holder(cluster)
    gone.start()
    await_whole(s, service, PODS)
    assert gone.metric("flametree_ingester_adopted_streams_total") >= 1
    assert "node.lost" not in gone.tail(1000)
    push(s, service)
    await_whole(s, service, 2 * PODS)


@pytest.mark.parametrize("point", ["wal.adopt", "adopt.found", "adopt.read"])
def test_an_adopter_that_is_killed_on_the_way_is_followed_by_another(cluster, point):
    s, service = cluster.server(), unique()
    push(s, service)
    gone = lose_holder(cluster)
    gone.env["FLAMETREE_FAULTS"] = point + "=die@1"
    gone.start(wait=False)
    assert gone.process.wait(60) == -9
    gone.process = None
    gone.env.pop("FLAMETREE_FAULTS")
    gone.start()
    await_whole(s, service, PODS)


def test_an_adopter_that_is_asked_to_end_lets_go_of_the_stream(cluster):
    """Each entry takes it so long that the adoption would take longer than a drain may. Meanwhile it takes pushes, too."""
    s, service = cluster.server(), unique()
    for _ in range(4):
        push(s, service)
    rows = {m: m.metric("flametree_ingester_head_rows") or 0 for m in cluster.ingesters()}
    gone = max(rows, key=rows.get)
    assert rows[gone] * ENTRY_MS > DRAIN_MS, rows
    gone.kill()
    wipe(gone)
    gone.env["FLAMETREE_FAULTS"] = "replay.entry=delay:%d" % ENTRY_MS
    gone.start()
    await_("its former process' rows to come", lambda: gone.metric("flametree_ingester_adoptions") == 1 and gone.metric("flametree_ingester_head_rows"), 60)
    push(s, service)
    assert gone.stop() == 0
    said = gone.tail(10_000)
    assert not re.search("event=stream.adopted .* cuts=[1-9]", said), said
    assert int(re.search(r"event=listeners.drained took_ms=(\d+)", said).group(1)) < DRAIN_MS, said
    # What it had acknowledged itself is in the store; what it let go is another one's.
    await_whole(s, service, 5 * PODS, 120)
    assert adoptions(cluster) >= 1
    gone.env.pop("FLAMETREE_FAULTS")
    gone.start()
    await_whole(s, service, 5 * PODS)


def test_a_stream_that_is_given_up_when_it_was_taken_over_ends_nobodys_work(cluster):
    """A person accepts a loss while another ingester has just seen to it that there is none."""
    s, service = cluster.server(), unique()
    push(s, service)
    gone = lose_holder(cluster)
    others = [m for m in cluster.ingesters() if m is not gone]
    await_whole(s, service, PODS)
    client = [os.path.join(BIN, "flametree"), "stream"]
    given_up = 0
    for m in others:  # an ingester that took it over is asked, as it looks at once whether it has such a stream
        for row in Server(m.url).call("GET", "/ingester/streams").expect(200).json()["streams"]:
            if row.get("state") == "adopted":
                subprocess.run([*client, "forget", "--accept-loss", row["stream"], "--url", m.url], capture_output=True, check=True)
                given_up += 1
    assert given_up
    for _ in range(100):
        assert ask(s, service) == ("exact", PODS, PODS)
    assert not [m for m in others if "event=stream.was_forgotten" in m.tail(1000)]
    gone.start()
    await_whole(s, service, PODS)


def test_an_adoption_that_hangs_keeps_no_ingester_away_from_others(cluster):
    """An ingester hangs in an adoption; what it tells of the others must not get old, and it must be able to adopt further streams."""
    s, service = cluster.server(), unique()
    push(s, service)
    rows = {m: m.metric("flametree_ingester_head_rows") or 0 for m in cluster.ingesters()}
    hangs, dead = sorted(rows, key=rows.get, reverse=True)[:2]
    left = PODS - PODS * rows[hangs] // sum(rows.values())
    assert 0 < left < PODS, rows
    hangs.kill()
    wipe(hangs)
    hangs.env["FLAMETREE_FAULTS"] = "adopt.found=delay:3600000@1"  # of its former process' streams
    hangs.start()
    try:
        await_("its adoption to hang", lambda: hangs.metric("flametree_ingester_adoptions") == 1, 60)
        dead.kill()
        wipe(dead)
        await_("the rows of the one that is dead", lambda: ask(s, service)[1] >= left, 150, 0.5)
        assert hangs.metric("flametree_ingester_adoptions") >= 1
    finally:
        hangs.kill()
    hangs.env.pop("FLAMETREE_FAULTS")
    hangs.start()
    await_whole(s, service, PODS)


def test_two_ingesters_that_are_killed_at_once_lose_nothing(cluster):
    s, service = cluster.server(), unique()
    push(s, service)
    first = holder(cluster)
    second = holder(cluster, [first])
    for m in (first, second):
        m.kill()
        wipe(m)
    second.start()  # two of three are enough to adopt
    await_whole(s, service, PODS)
    push(s, service)
    await_whole(s, service, 2 * PODS)


def test_what_is_deleted_while_its_ingester_is_dead_does_not_come_back():
    """A part of it was in segments when the ingester died, and all of it in its log."""
    with Cluster(*OBJECT, *AT_ONCE, "--compactor.interval=1h", "--compactor.deletion_stay=0s", "--ingester.stream_age=2s") as c:
        s, service, at = c.server(), unique(), now_ms() - 3 * 3_600_000

        def push_pods():
            for i in range(PODS):
                s.push({"__name__": "process_cpu", "service_name": service, "pod": "p%d" % i}, Pprof(("main;work", 1), time_ns=at * 10**6)).expect(200)

        def count(label=""):
            reply = s.query("SelectMergeStacktraces", {"Flametree-Partial": "allow"}, profileTypeID=CPU, labelSelector='{service_name="%s"%s}' % (service, label),
                            start=at - 3_600_000, end=at + 3_600_000).expect(200)
            return reply.headers["Flametree-Exact"], int(reply.headers["Flametree-Profiles"])

        def deletions():
            return c["compactor"].operator().call("GET", "/compactor/deletions").expect(200).json()["deletions"]

        push_pods()
        flush(c)
        push_pods()
        assert count() == ("exact", 2 * PODS)
        gone = holder(c)
        gone.kill()
        wipe(gone)
        match = '{service_name="%s",pod=~"p[0-7]"}' % service
        c["compactor"].operator().call("POST", "/compactor/delete?" + urllib.parse.urlencode({"match": match})).expect(200)
        left = 2 * (PODS - 8)

        def is_whole():
            exact, n = count()
            assert n <= left and count(',pod="p3"')[1] == 0, (exact, n)
            return (exact, n) == ("exact", left)
        await_("what is left of its rows", is_whole, 90, 0.2)
        assert adoptions(c) >= 1
        for m in c.ingesters():
            if m.process:
                m.operator().call("POST", "/ingester/flush?wait=true", b"").expect(200)
        assert is_whole()

        def is_done():
            compact(c)
            return is_whole() and not deletions()
        await_("the deletion to be done", is_done, 180)
        gone.start()
        await_("all to be there with its node back", is_whole, 60, 0.2)


@contextlib.contextmanager
def no_logs_in_the_store(c):
    """The store takes no object of any log meanwhile."""
    logs = os.path.join(c.store, "o/v1/log")
    os.rename(logs, logs + ".away")
    with open(logs, "w"):
        pass
    try:
        yield
    finally:
        os.remove(logs)
        os.rename(logs + ".away", logs)


@pytest.mark.skipif(S3 is not None or AZURE is not None, reason="breaks a directory")
def test_a_store_that_fails_refuses_pushes_at_once_and_loses_nothing(cluster):
    s, service, other = cluster.server(), unique(), unique()
    push(s, service)
    passed = cluster["distributor"].metric('flametree_distributor_appends_total{result="passed"}') or 0
    with no_logs_in_the_store(cluster):
        for i in range(20):
            reply = s.push({"__name__": "process_cpu", "service_name": other, "pod": "p%d" % i}, Pprof(("main;work", 1)))
            assert reply.status == 503 and int(reply.headers["Retry-After"]) >= 1, reply
        assert ask(s, service) == ("exact", PODS, PODS)
        assert (cluster["distributor"].metric('flametree_distributor_appends_total{result="passed"}') or 0) == passed

    def taken():
        return s.push({"__name__": "process_cpu", "service_name": service, "pod": "last"}, Pprof(("main;work", 1))).status == 200
    await_("pushes to be taken again", taken, 30, 0.2)
    flush(cluster)
    await_whole(s, service, PODS + 1)
    assert ask(s, other)[1] <= 20


def test_an_owner_that_was_asleep_meets_the_seal_and_nothing_counts_twice(cluster):
    s, service = cluster.server(), unique()
    push(s, service)
    asleep = holder(cluster)
    asleep.process.send_signal(signal.SIGSTOP)
    try:
        await_("it to be asleep", lambda: is_stopped(asleep.process.pid))
        await_whole(s, service, PODS)
        await_("its adoption to be counted", lambda: adoptions(cluster, [asleep]) >= 1)
    finally:
        asleep.process.send_signal(signal.SIGCONT)
    # Both have the rows now: one answer of each stream counts.
    await_("the owner to answer", lambda: asleep.operator().call("GET", "/ready").status == 200, 60)
    for _ in range(5):
        assert ask(s, service) == ("exact", PODS, PODS)
    push(s, service)
    await_whole(s, service, 2 * PODS)
    push(s, service)
    await_whole(s, service, 3 * PODS)
    flush(cluster)
    await_whole(s, service, 3 * PODS)


def test_a_registration_that_a_killed_process_left_is_taken_back(tmp_path):
    """It had flushed all of the stream, and died before the registration went."""
    flags = ("--ingester.log=object", "--ingester.log_linger=20ms", "--ingester.stream_age=1s")
    with Flametree(*flags, data=str(tmp_path), env={"FLAMETREE_FAULTS": "stream.unregister=eio"}) as f:
        s, service = Server(f.url), unique()
        push(s, service)
        left = {stream["stream"] for stream in registered(f)}
        flush(f)
        noted = lambda: open(os.path.join(f.data, "ingester/log/STREAMS")).read()
        await_("a stream to have nothing any more", lambda: any(stream not in noted() for stream in left), 60, 0.2)
        f.kill()
        f.env.pop("FLAMETREE_FAULTS")
        f.start()
        await_("registrations of the killed process to go", lambda: not left & {stream["stream"] for stream in registered(f)}, 60, 0.2)
        await_whole(Server(f.url), service, PODS)


def log_objects(f):
    """Files of the objects of logs that have entries."""
    logs = os.path.join(f.store, "o/v1/log")
    names = sorted(os.path.join(logs, stream, number) for stream in os.listdir(logs) for number in os.listdir(os.path.join(logs, stream)))
    return [name for name in names if os.path.getsize(name) > 150]


def flip_heads(f, count):
    """Damages the heads of the first objects of the log that have entries."""
    names = log_objects(f)[:count]
    assert len(names) == count, names
    for name in names:
        with open(name, "r+b") as o:
            o.seek(20)
            byte = o.read(1)[0]
            o.seek(20)
            o.write(bytes([byte ^ 8]))


@pytest.mark.skipif(S3 is not None or AZURE is not None, reason="damages a directory")
@pytest.mark.parametrize("adopted", (False, True), ids=("own", "adopted"))
def test_a_damaged_head_is_named_and_the_rest_is_served_and_flushed(tmp_path, adopted):
    """The node starts again, with the file of its streams or without it: then it adopts them."""
    flags = ("--ingester.log=object", "--ingester.log_linger=0ms", "--ingester.stream_age=1h")
    with Flametree(*flags, data=str(tmp_path)) as f:
        s, services = Server(f.url), [unique() for _ in range(6)]
        for service in services:
            push(s, service, 1)
        f.kill()
        flip_heads(f, 1)
        if adopted:
            os.remove(os.path.join(f.data, "ingester/log/STREAMS"))
        f.start()
        s = Server(f.url)

        def rest_is_there():
            return sum(ask(s, service)[1] for service in services) == len(services) - 1
        await_("the rest to be there", rest_is_there, 60, 0.2)
        assert "event=log.object_damaged" in f.tail(1000)
        assert ask(s, services[-1])[0] != "exact", "the loss is not named"
        flush(f)
        await_("the registrations of the killed process to go", lambda: all(x.get("state") in ("open", "next") for x in registered(f)), 60, 0.2)
        kept = os.path.join(f.store, "o/v1/damaged")
        assert sum(len(os.listdir(os.path.join(kept, stream))) for stream in os.listdir(kept)) == len(services)
        assert rest_is_there()


@pytest.mark.skipif(S3 is not None or AZURE is not None, reason="damages a directory")
@pytest.mark.parametrize("adopted", (False, True), ids=("own", "adopted"))
@pytest.mark.parametrize("number", (1, 3, 5))
def test_an_object_that_is_gone_is_named_and_the_rest_is_served_and_flushed(tmp_path, adopted, number):
    """As if the store had said that it was created, and it never was: no later object says that it is covered."""
    flags = ("--ingester.log=object", "--ingester.log_linger=0ms", "--ingester.stream_age=1h")
    with Flametree(*flags, data=str(tmp_path)) as f:
        s, services = Server(f.url), [unique() for _ in range(6)]
        for service in services:
            push(s, service, 1)
        f.kill()
        os.remove(log_objects(f)[number - 1])
        if adopted:
            os.remove(os.path.join(f.data, "ingester/log/STREAMS"))
        f.start()
        s = Server(f.url)

        def rest_is_there():
            return [ask(s, service)[1] for service in services] == [int(i != number - 1) for i in range(6)]
        await_("the rest to be there", rest_is_there, 60, 0.2)
        assert re.search("event=log.object_damaged .* lost=1 first=%d " % number, f.tail(1000))
        assert f.metric("flametree_ingester_log_damaged_objects_total") == 1 and f.metric("flametree_ingester_log_lost_pushes_total") == 1
        assert ask(s, services[-1])[0] != "exact", "the loss is not named"
        flush(f)
        await_("the registrations of the killed process to go", lambda: all(x.get("state") in ("open", "next") for x in registered(f)), 60, 0.2)
        kept = os.path.join(f.store, "o/v1/damaged")
        assert sum(len(os.listdir(os.path.join(kept, stream))) for stream in os.listdir(kept)) == len(services) - 1
        assert rest_is_there()


# ---- many objects. They are copies of the last one, whose rows the head knows by their ids.

def crc32c_table():
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82F63B78 if i & 1 else 0)
        table.append(i)
    return table


CRC = crc32c_table()


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc = CRC[(crc ^ byte) & 255] ^ crc >> 8
    return (crc ^ 0xFFFFFFFF).to_bytes(4, "little")


def varint(n):
    out = b""
    while n > 127:
        out, n = out + bytes([n & 127 | 128]), n >> 7
    return out + bytes([n])


def fields(data):
    """[number, wire type, value] of a message; values of wire type 2 and 1 are bytes."""
    found, at = [], 0

    def number():
        nonlocal at
        n = shift = 0
        while True:
            byte, at = data[at], at + 1
            n, shift = n | (byte & 127) << shift, shift + 7
            if byte < 128:
                return n
    while at < len(data):
        tag = number()
        kind = tag & 7
        size = 0 if kind == 0 else number() if kind == 2 else 8 if kind == 1 else 4
        found.append([tag >> 3, kind, number() if kind == 0 else data[at:at + size]])
        at += size
    return found


def message(found):
    return b"".join(varint(field << 3 | kind) + (varint(value) if kind == 0 else varint(len(value)) + value if kind == 2 else value) for field, kind, value in found)


def put(found, field, value):
    for x in found:
        if x[0] == field:
            x[2] = value


def log_object_like(data, number, further):
    """An object with the entry of another, so many places further on in its cut."""
    form, head, _, entry, _ = fields(data)
    head, entry = fields(head[2]), fields(entry[2])
    seq, before = (next(x[2] for x in entry if x[0] == field) for field in (1, 8))
    put(head, 2, number)
    put(head, 10, seq + further)
    put(entry, 1, seq + further)
    put(entry, 8, before + further)
    out = message([form, [2, 2, message(head)]])
    out += b"\x1d" + crc32c(out)
    out += message([[4, 2, message(entry)]])
    return out + b"\x2d" + crc32c(out)


@pytest.mark.skipif(S3 is not None or AZURE is not None, reason="writes into a directory")
@pytest.mark.parametrize("adopted", (False, True), ids=("own", "adopted"))
def test_a_stream_of_any_number_of_objects_is_read(tmp_path, adopted):
    """As an hour of pushes makes, of a dozen a second. Reading has no limit that writing has not."""
    objects, pushes = 36_000, 3
    with Flametree("--ingester.log=object", "--ingester.log_linger=0ms", "--ingester.stream_age=1h", data=str(tmp_path)) as f:
        service = unique()
        for _ in range(pushes):
            push(Server(f.url), service, 1)
        f.kill()
        names = log_objects(f)
        assert len(names) == pushes, names
        with open(names[-1], "rb") as o:
            last = o.read()
        for number in range(pushes + 1, objects + 1):
            with open(os.path.join(os.path.dirname(names[-1]), "%016x" % number), "wb") as o:
                o.write(log_object_like(last, number, number - pushes))
        if adopted:
            os.remove(os.path.join(f.data, "ingester/log/STREAMS"))
        f.start(wait=False)
        f.await_listening()
        await_("the server to be ready", lambda: f.operator().call("GET", "/ready").status == 200, 240, 0.5)
        await_("the answer to be complete", lambda: ask(Server(f.url), service)[:2] == ("exact", pushes), 240, 0.5)
        assert "event=log.object_damaged" not in f.tail(1000) and "event=log.damaged" not in f.tail(1000)


@pytest.mark.parametrize("flags, well", [(("--ingester.log=object", "--distributor.append_timeout=1400ms"), False), (("--ingester.log=object", "--distributor.append_timeout=1500ms"), True),
                                         (("--ingester.log=local", "--distributor.append_timeout=100ms"), True),
                                         (("--ingester.log=object", "--ingester.log_linger=9s", "--distributor.append_timeout=9999ms"), False)])
def test_a_time_that_is_too_short_for_the_log_is_refused(flags, well):
    answer = subprocess.run([os.path.join(BIN, "flametree"), "--check-config", *flags], capture_output=True, text=True, timeout=60, env=WITHOUT_SETTINGS)
    assert answer.returncode == (0 if well else 2), answer
    assert well or "distributor.append_timeout" in answer.stderr and "ingester.log_linger" in answer.stderr, answer.stderr


def test_a_log_in_the_store_of_which_the_disk_knows_nothing_is_told_where_logs_are_local(tmp_path):
    with Flametree("--ingester.log=object", "--ingester.log_linger=0ms", data=str(tmp_path)) as f:
        service, flag = unique(), f.args.index("--ingester.log=object")

        def restart(kind):
            f.args[flag] = "--ingester.log=" + kind
            f.start()
            return Server(f.url)

        def is_told():
            return "log.left" in f.operator().call("GET", "/ready").text
        push(Server(f.url), service, 3)
        f.kill()
        os.remove(os.path.join(f.data, "ingester/log/STREAMS"))
        s = restart("local")
        await_("the streams in the store to be told", is_told, 60, 0.2)
        push(s, service, 3)
        f.stop()
        s = restart("object")
        await_whole(s, service, 6)
        f.stop()
        s = restart("local")
        await_whole(s, service, 6)
        assert not is_told()


@pytest.mark.parametrize("before, after", [("local", "object"), ("object", "local")])
def test_a_log_of_the_other_kind_is_read_and_flushed_first(tmp_path, before, after):
    with Flametree("--ingester.log=" + before, "--ingester.log_linger=0ms", data=str(tmp_path)) as f:
        service = unique()
        push(Server(f.url), service, 3)
        f.kill()
        f.args[f.args.index("--ingester.log=" + before)] = "--ingester.log=" + after
        f.start()
        s = Server(f.url)
        await_whole(s, service, 3)
        assert "event=log.other" in f.tail(1000) and "log.other" in f.operator().call("GET", "/ready").text
        push(s, service, 3)
        await_whole(s, service, 6)
        assert {x["log"] for x in registered(f)} == {before}
        f.stop()
        f.start()
        s = Server(f.url)
        assert "log.other" not in f.operator().call("GET", "/ready").text
        assert {x["log"] for x in registered(f)} == {after}
        push(s, service, 3)
        await_whole(s, service, 9)
