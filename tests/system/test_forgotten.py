"""A disk comes back after its loss was accepted: its log is set aside, and neither read nor flushed, until a person takes it back, without what was
deleted meanwhile, or removes it. A disk that nobody gave up is read as ever. (docs/operations.md, "Lost disks")"""
import os
import signal
import subprocess
import time

import pytest
from client import CPU, QUERIER, Pprof
from faultclock import FaultClock
from flametree import AT_ONCE, BIN, Cluster, await_, objects_of
from test_deletion import delete, deletions
from test_tenant_deletion import GRACE

FLAGS = [*AT_ONCE, "--ingester.stream_settle=1100ms", "--ingester.stream_age=2s", "--ingester.cut_age=600s", "--compactor.deletion_stay=0s", "--compactor.interval=1h"]
TENANT = "anonymous"
HOUR = 3600 * 10**9
AT = (time.time_ns() // HOUR - 2) * HOUR + 60 * 10**9  # of an hour that is over


@pytest.fixture
def cluster():
    with Cluster(*FLAGS, spread=False) as c:
        yield c


def push(c, *apps):
    """Two profiles of each app. All are of one service, so one ingester gets them."""
    for app in apps:
        for pod in ("a", "b"):
            c.server().push({"__name__": "process_cpu", "service_name": "all", "app": app, "pod": pod}, Pprof(("main;" + app, 1), time_ns=AT)).expect(200)


def ask(c, app):
    asked = {"profileTypeID": CPU, "labelSelector": '{app="%s"}' % app, "start": (AT - HOUR) // 10**6, "end": (AT + HOUR) // 10**6}
    reply = c.server().rpc(QUERIER + "SelectMergeStacktraces", asked).expect(200)
    return reply.headers["Flametree-Exact"], int(reply.headers["Flametree-Profiles"])


def cli(m, *args, code=0):
    done = subprocess.run([os.path.join(BIN, "flametree"), "stream", *args, "--url", m.admin_url], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done
    return done.stdout + done.stderr


def lose(c):
    """Kills the ingester that has the profiles, and accepts that its disk is lost."""
    gone = next(m for m in c.ingesters() if m.metric("flametree_ingester_head_rows"))
    gone.kill()
    other = next(m for m in c.ingesters() if m.process)
    name = next(name for name, m in c.members.items() if m is gone)
    assert "forgot " in cli(other, "forget", "--accept-loss", name)
    return gone, other, name


def forgotten(m):
    return m.operator().call("GET", "/ingester/streams/forgotten").expect(200).json()["streams"]


def here(m):
    return [x["stream"] for x in forgotten(m) if x["here"]]


def flush_all(c):
    for m in c.ingesters():
        if m.process:
            m.operator().call("POST", "/ingester/flush?wait=true", b"").expect(200)


def end(c):
    def over():
        flush_all(c)
        c["compactor"].operator().call("POST", "/compactor/run?timeout=10s&sweep=true").expect(200)
        return not deletions(c)["deletions"]
    await_("the deletion to end: %r" % deletions(c), over, 40, 0.2)


def notices(m):
    return m.operator().call("GET", "/ready").expect(200).text


def come_back(c, gone):
    gone.start()
    c.await_alive()


def dies(m, point, act):
    """The process ends at the point, and is there again."""
    if m.process:
        m.stop()
    m.env = {**m.env, "FLAMETREE_FAULTS": point + "=die@1"}
    m.start(wait=False)
    act()
    assert m.process.wait(60) == -9
    m.process = None
    m.env = {k: v for k, v in m.env.items() if k != "FLAMETREE_FAULTS"}


def test_a_forgotten_log_is_set_aside_and_taken_back_without_what_was_deleted(cluster):
    c = cluster
    push(c, "shop", "cart")
    assert ask(c, "shop") == ("exact", 2) and ask(c, "cart") == ("exact", 2)
    gone, other, name = lose(c)
    assert {x["node"] for x in forgotten(other)} == {name} and here(other) == []
    await_("the loss to be in no answer", lambda: ask(c, "shop") == ("exact", 0))
    # One deletion ends before the disk is back, one stands then.
    delete(c, '{app="shop",pod="a"}')
    end(c)
    come_back(c, gone)
    for _ in range(2):
        assert ask(c, "shop") == ("exact", 0) and ask(c, "cart") == ("exact", 0)
        (stream,) = here(gone)
        folder = os.path.join(gone.data, "ingester/forgotten")
        assert os.listdir(folder) == [stream] and folder in notices(gone)
        flush_all(c)
        gone.stop()
        come_back(c, gone)
    delete(c, '{app="cart",pod="b"}')
    assert ask(c, "shop") == ("exact", 0) and ask(c, "cart") == ("exact", 0)
    assert "its log is here" in cli(gone, "forgotten") and stream in cli(gone, "forgotten")
    assert "is not in the data directory" in cli(other, "recover", stream, code=1)
    push(c, "shop")  # meanwhile it takes profiles as any other
    assert "took 2 profiles into the store; 2 were deleted, 0 could not be read" in cli(gone, "recover", stream)
    assert ask(c, "shop") == ("exact", 3) and ask(c, "cart") == ("exact", 1)
    assert here(gone) == [] and os.listdir(folder) == [] and "forgotten" not in notices(gone)
    assert "no stream %s was forgotten" % stream in cli(gone, "recover", stream, code=1)
    end(c)
    flush_all(c)
    gone.stop()
    come_back(c, gone)
    assert ask(c, "shop") == ("exact", 3) and ask(c, "cart") == ("exact", 1)
    # Nothing in the store remembers it, once the streams that had nothing are removed, too.
    for x in forgotten(gone):
        assert "removed" in cli(gone, "remove", "--accept-loss", x["stream"])
    assert forgotten(other) == [] and not [x for x in objects_of(c.store) if x.startswith(("v1/forgotten/", "v1/deleted/"))]


def test_a_forgotten_log_is_removed(cluster):
    c = cluster
    push(c, "shop")
    gone, other, _ = lose(c)
    come_back(c, gone)
    (stream,) = here(gone)
    assert "is lost for good" in cli(gone, "remove", stream, code=2)
    assert here(gone) == [stream]
    cli(gone, "remove", "--accept-loss", stream)
    assert here(gone) == [] and os.listdir(os.path.join(gone.data, "ingester/forgotten")) == []
    gone.stop()
    come_back(c, gone)
    flush_all(c)
    assert ask(c, "shop") == ("exact", 0)


def test_who_is_killed_while_it_removes_a_log_goes_on(cluster):
    c = cluster
    push(c, "shop")
    gone, other, _ = lose(c)
    come_back(c, gone)
    (stream,) = here(gone)
    folder = os.path.join(gone.data, "ingester/forgotten")

    def remove():
        gone.await_ready()
        subprocess.run([os.path.join(BIN, "flametree"), "stream", "remove", "--accept-loss", stream, "--url", gone.admin_url], capture_output=True, timeout=60)
    dies(gone, "aside.renamed", remove)
    assert os.listdir(folder) == [stream + ".gone"]
    dies(gone, "wal.aside.removing", lambda: None)  # a start goes on with it
    come_back(c, gone)
    await_("the rest of it to go", lambda: os.listdir(folder) == [])
    assert here(gone) == [] and stream not in [x["stream"] for x in forgotten(other)]
    flush_all(c)
    assert ask(c, "shop") == ("exact", 0)


def test_what_was_flushed_before_the_disk_went_counts_once(cluster):
    c = cluster
    push(c, "shop")
    flush_all(c)
    push(c, "shop", "shop")
    assert ask(c, "shop") == ("exact", 6)
    gone, other, _ = lose(c)
    await_("the loss to be in no answer", lambda: ask(c, "shop") == ("exact", 2))
    come_back(c, gone)
    for stream in here(gone):
        cli(gone, "recover", stream)
    assert ask(c, "shop") == ("exact", 6)
    c["compactor"].operator().call("POST", "/compactor/run?timeout=20s").expect(200)
    assert ask(c, "shop") == ("exact", 6)


def test_who_is_killed_on_the_way_goes_on(cluster):
    c = cluster
    push(c, "shop", "cart")
    gone = next(m for m in c.ingesters() if m.metric("flametree_ingester_head_rows"))
    other = next(m for m in c.ingesters() if m is not gone)
    name = next(name for name, m in c.members.items() if m is gone)
    gone.kill()

    def forget():
        other.await_ready()
        subprocess.run([os.path.join(BIN, "flametree"), "stream", "forget", "--accept-loss", name, "--url", other.admin_url], capture_output=True, timeout=60)
    dies(other, "stream.forgotten", forget)
    other.start()
    assert len(forgotten(other)) == 1 and "forgot " in cli(other, "forget", "--accept-loss", name)
    delete(c, '{app="shop",pod="a"}')
    end(c)
    for point in ("wal.aside.copied", "wal.aside.renamed"):
        dies(gone, point, lambda: None)
    come_back(c, gone)
    (stream,) = here(gone)
    assert ask(c, "shop") == ("exact", 0) and ask(c, "cart") == ("exact", 0)

    def recover():
        gone.await_ready()
        subprocess.run([os.path.join(BIN, "flametree"), "stream", "recover", stream, "--url", gone.admin_url], capture_output=True, timeout=60)
    for point in ("flush.covered", "aside.clear", "aside.cleared"):
        dies(gone, point, recover)
        await_("nobody to have it twice", lambda: ask(c, "cart")[1] == 2)
    come_back(c, gone)
    cli(gone, "recover", stream)
    assert ask(c, "shop") == ("exact", 1) and ask(c, "cart") == ("exact", 2)
    assert here(gone) == [] and stream not in [x["stream"] for x in forgotten(gone)]


def test_a_disk_that_nobody_gave_up_is_read_as_ever(cluster):
    c = cluster
    push(c, "shop", "cart")
    gone = next(m for m in c.ingesters() if m.metric("flametree_ingester_head_rows"))
    gone.kill()
    delete(c, '{app="shop"}')
    for _ in range(3):
        c["compactor"].operator().call("POST", "/compactor/run?timeout=10s&sweep=true").expect(200)
    assert deletions(c)["deletions"]  # it waits for that disk
    come_back(c, gone)
    assert ask(c, "shop") == ("exact", 0) and ask(c, "cart") == ("exact", 2)
    flush_all(c)
    end(c)
    assert ask(c, "shop") == ("exact", 0) and ask(c, "cart") == ("exact", 2)


def test_a_forgotten_log_in_the_store_is_not_read_by_its_node():
    with Cluster(*FLAGS, "--ingester.log=object", spread=False) as c:
        push(c, "shop")
        assert ask(c, "shop") == ("exact", 2)
        gone, other, _ = lose(c)
        await_("the loss to be in no answer", lambda: ask(c, "shop") == ("exact", 0))
        delete(c, '{app="shop"}')
        end(c)
        for _ in range(2):
            come_back(c, gone)
            flush_all(c)
            assert ask(c, "shop") == ("exact", 0) and here(gone) == []
            gone.stop()
        come_back(c, gone)
        push(c, "shop")
        assert ask(c, "shop") == ("exact", 2)


def test_an_ingester_that_is_given_up_while_it_runs_ends_its_work(cluster):
    c = cluster
    push(c, "shop")
    stands = next(m for m in c.ingesters() if m.metric("flametree_ingester_head_rows"))
    name = next(name for name, m in c.members.items() if m is stands)
    other = next(m for m in c.ingesters() if m is not stands)
    stands.process.send_signal(signal.SIGSTOP)
    assert "forgot " in cli(other, "forget", "--accept-loss", name)
    stands.process.send_signal(signal.SIGCONT)

    def told():
        try:
            stands.operator().call("GET", "/ready").expect(503, contains="was forgotten while it ran")
        except AssertionError:
            return False
        return True
    await_("it to know", told, 60, 0.2)
    stands.operator().call("POST", "/ingester/flush?wait=true", b"").expect(503)
    delete(c, '{app="shop"}')
    stands.stop()
    end(c)
    come_back(c, stands)
    (stream,) = here(stands)
    flush_all(c)
    assert ask(c, "shop") == ("exact", 0)
    assert "took 0 profiles into the store; 2 were deleted" in cli(stands, "recover", stream)
    assert ask(c, "shop") == ("exact", 0)


def test_a_deleted_tenant_does_not_come_back_with_a_forgotten_disk(tmp_path):
    clock = FaultClock(tmp_path / "clock")
    with Cluster(*FLAGS, spread=False, env_of={"compactor": clock.env}) as c:
        push(c, "shop")
        gone, other, _ = lose(c)
        # Another disk takes the place of the lost one.
        away = str(tmp_path / "away")
        os.rename(gone.data, away)
        os.mkdir(gone.data)
        come_back(c, gone)
        c["compactor"].operator().call("POST", "/compactor/delete-tenant?tenant=" + TENANT).expect(200)

        def over():
            c["compactor"].operator().call("POST", "/compactor/run?timeout=10s&sweep=true").expect(200)
            clock.pass_(GRACE)
            return not deletions(c)["deletions"]
        await_("the tenant to be gone", over, 120, 0.2)
        gone.stop()
        os.rename(gone.data, str(tmp_path / "second"))
        os.rename(away, gone.data)
        come_back(c, gone)
        (stream,) = here(gone)
        assert ask(c, "shop") == ("exact", 0)
        push(c, "shop")  # somebody else uses the name now
        assert "took 0 profiles into the store; 2 were deleted" in cli(gone, "recover", stream)
        assert ask(c, "shop") == ("exact", 2)
