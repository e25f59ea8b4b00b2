"""Segments become hours, days and windows in a real server: answers stay what they were, nothing is left that nothing names."""
import json
import os
import shutil
import signal
import subprocess
import threading
import time

import pytest
from client import CPU, QUERIER, Pprof
from faultclock import FaultClock
from flametree import BIN, S3, Flametree, await_, copy_data, fetched, objects_of, store_of

HOUR = 3600 * 10**9
DAY = 24 * HOUR

# Everything is due at once, and is looked for only when the test asks.
AT_ONCE = [
    "--limits.reject_older_than", "0", "--compactor.interval", "1h", "--compactor.leaf_delay", "0s", "--compactor.hour_delay", "0s",
    "--compactor.day_delay", "0s", "--compactor.repack_interval", "0s", "--compactor.fold_interval", "0s", "--compactor.window_interval", "0s",
    "--compactor.delete_delay", "0s", "--compactor.raw_retention", "0s", "--compactor.hours_retention", "0s", "--compactor.days_retention", "0s",
]
# Not even at the start: all that is done was asked for.
ASKED = ["--compactor.workers", "0"]
LONG = os.environ.get("FLAMETREE_NIGHTLY") == "1"
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


def answers(s, start=START - HOUR, end=START + 5 * DAY, damaged=None):
    """What a few questions get: a tree, a matcher on a label that churns, a series, values of a label. Those that are refused
    for a damaged block get its name."""
    ms = 10**6
    given = {}

    def got(reply):
        if damaged and reply.status == 503 and damaged in reply.json()["message"]:
            return damaged
        return json.dumps(reply.expect(200).json(), sort_keys=True)
    selector = '{service_name="%s"}' % SERVICE
    pod = '{service_name="%s",pod="p1"}' % SERVICE
    for name, text in (("all", selector), ("pod", pod)):
        reply = s.rpc(QUERIER + "SelectMergeStacktraces", {"profileTypeID": CPU, "labelSelector": text, "start": start // ms, "end": end // ms, "maxNodes": 0, "format": "PROFILE_FORMAT_FLAMEGRAPH"})
        given[name] = got(reply)
    reply = s.rpc(QUERIER + "SelectSeries", {"profileTypeID": CPU, "labelSelector": selector, "start": start // ms, "end": end // ms, "step": 3600, "groupBy": ["pod"]})
    given["series"] = got(reply)
    reply = s.rpc(QUERIER + "LabelValues", {"name": "pod", "start": start // ms, "end": end // ms})
    given["pods"] = sorted(reply.expect(200).json()["names"])
    return given


def flush(s):
    s.call("POST", "/ingester/flush").expect(200)


def settle(s, **more):
    """All jobs that are due are done then, however long that takes here. Jobs that fail are told at once, but for those that met the end of a run."""
    query = "&".join(["timeout=20s"] + ["%s=%s" % pair for pair in more.items()])
    jobs = 0

    def run():
        nonlocal jobs
        got = s.call("POST", "/compactor/run?" + query).expect(200).json()
        jobs += got["jobs"]
        if got["settled"]:
            return {**got, "jobs": jobs}
        failed = [x for t in s.call("GET", "/compactor/status").expect(200).json()["tenants"] for x in t["failures"]]
        assert all("deadline_exceeded" in x["fault"] for x in failed), (got, failed)
        return None
    return await_("all that is due to be compacted", run, 600, 0.5)


def kinds(found):
    count = {}
    for name in found:
        parts = name.split("/")
        kind = parts[4] if len(parts) > 4 and parts[3] == "live" else parts[3] if len(parts) > 3 else parts[1]
        count[kind] = count.get(kind, 0) + 1
    return count


def test_a_run_makes_the_hour_that_is_just_over_and_tells_of_the_one_that_is_not(tmp_path):
    # All delays are the default ones; the second profile is of an hour that is under way or about to come.
    with Flametree("--limits.reject_newer_than", "0", *ASKED, data=str(tmp_path)) as f:
        s = f.server()
        over = time.time_ns() // HOUR * HOUR
        push(s, over - 1000, 1)
        push(s, over + 2 * HOUR - 1000, 2)
        flush(s)
        got = settle(s)
        assert got["jobs"] >= 1 and got["open_segments"] == 1, got
        assert got["open_until"] == time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(over // 10**9 + 7200)), got
        tenant = s.call("GET", "/compactor/status").expect(200).json()["tenants"][0]
        assert tenant["segments_waiting"] == tenant["open_segments"] == 1 and sum(tenant["later"].values()) == 0, tenant
        assert kinds(objects_of(f.store)).get("raw") == 1, kinds(objects_of(f.store))


def test_levels_answer_what_heads_did(tmp_path):
    with Flametree(*AT_ONCE, *ASKED, data=str(tmp_path)) as f:
        s = f.server()
        fill(s)
        before = answers(s)
        flush(s)
        assert answers(s) == before
        got = settle(s)
        assert got["jobs"] >= 12 + 4 + 4 + 1, got
        assert answers(s) == before
        settle(s, sweep="true")
        assert kinds(objects_of(f.store)).get("a", 0) == 0, kinds(objects_of(f.store))
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
        assert kinds(objects_of(f.store)).get("a", 0) == 0
        f.kill()
        f.start()
        assert answers(f.server()) == late


# ---- killed on the way

POINTS = [
    "compact.read", "compact.upload", "compact.service", "compact.create", "compact.commit", "compact.committed", "compact.sweep", "compact.write",
    "manifest.listed", "manifest.page.before", "manifest.page.after", "manifest.root.before", "manifest.root.after", "manifest.root.untold",
    "manifest.sweep.before", "manifest.sweep.after", "manifest.swept", *([] if S3 else ["store.delete", "store.deleted", "store.created"]),
]


@pytest.fixture(scope="module")
def flushed(tmp_path_factory):
    """A data directory with segments of four days, and what questions get."""
    data = tmp_path_factory.mktemp("flushed")
    with Flametree(*AT_ONCE, data=str(data)) as f:
        fill(f.server())
        before = answers(f.server())
        flush(f.server())
    return data, before


def work(f):
    """A run with a sweep, during which the process may end."""
    try:
        settle(f.server(), sweep="true")
    except AssertionError:  # no answer
        f.process.wait(60)


def gone(f):
    return f.process.poll() is not None


def check_whole(f, before, range_=(), clock=None):
    """Settled, answers as they were, and the blocks there are those that the manifest names. With the process's clock orphans may be
    there, which go after days; in a bucket after days of its service, for which nobody waits here."""
    s = f.server()
    assert answers(s, *range_) == before
    settle(s)
    assert answers(s, *range_) == before
    settle(s, sweep="true")
    for _ in range(2):  # an orphan is seen once it is two days old, and goes a day later
        if clock:
            clock.pass_(3 * DAY)
        settle(s, sweep="true")
    assert answers(s, *range_) == before
    status = s.call("GET", "/compactor/status").expect(200).json()
    count = kinds(objects_of(f.store))
    orphans = sum(count.get(kind, 0) for kind in ("raw", "h", "d")) - status["tenants"][0]["blocks"]
    assert orphans == 0 or (S3 and clock and orphans > 0), (count, status)
    assert count.get("a", 0) == 0, count


@pytest.fixture(scope="module")
def leaved(flushed, tmp_path_factory):
    """The same, compacted without leaves of days: that is what there is to do next."""
    data = tmp_path_factory.mktemp("leaved") / "data"
    copy_data(flushed[0], data)
    with Flametree(*AT_ONCE, "--compactor.day_leaf", "false", data=str(data)) as f:
        settle(f.server())
        settle(f.server(), sweep="true")
    return data, flushed[1]


@pytest.fixture(scope="module")
def three_weeks(tmp_path_factory):
    """Segments of three weeks of a window that is over: a root is made of them."""
    data = tmp_path_factory.mktemp("weeks")
    window = (time.time_ns() // DAY // 28 - 1) * 28 * DAY  # up to 56 days ago
    with Flametree(*AT_ONCE, "--ingester.head_age", "60d", data=str(data)) as f:
        for week in range(3):
            for day in range(3):
                push(f.server(), window + (7 * week + day) * DAY + 3 * HOUR + 1000, week * 3 + day, "p%d" % (day % 2))
        before = answers(f.server(), window, window + 28 * DAY)
        flush(f.server())
    return data, before, window


@pytest.mark.parametrize("time_", [1, 3, 12] if LONG else [1])
@pytest.mark.parametrize("point", POINTS)
def test_killed_at(flushed, tmp_path, point, time_):
    killed_at(flushed, tmp_path, point, time_)


@pytest.mark.parametrize("point", ["compact.read", "compact.upload", "compact.write", "compact.create", "compact.commit", "compact.committed", "manifest.page.after", "manifest.root.after"])
def test_killed_while_leaves_of_days_are_made(leaved, tmp_path, point):
    killed_at(leaved, tmp_path, point, 1)
    leaves = kinds(objects_of(store_of(tmp_path / "data"))).get("raw")
    assert leaves == 4 or (S3 and leaves > 4), leaves  # with orphans


@pytest.mark.parametrize("point", ["compact.upload", "compact.create"])
def test_killed_while_a_window_and_its_root_are_made(three_weeks, tmp_path, point):
    """Nine leaves, hours and days come before it."""
    killed_at(three_weeks[:2], tmp_path, point, 28, three_weeks[2:] + (three_weeks[2] + 28 * DAY,))
    with fetched(store_of(tmp_path / "data")) as top:
        shown = subprocess.run([os.path.join(BIN, "flametree"), "block", "ls", top], capture_output=True, text=True, check=True).stdout
    assert " 672" in shown, shown


def killed_at(prepared, tmp_path, point, time_, range_=()):
    data, before = prepared
    own = tmp_path / "data"
    copy_data(data, own)
    clock = FaultClock(tmp_path / "clock")
    f = Flametree(*AT_ONCE, data=str(own), env={"FLAMETREE_FAULTS": "%s=die@%d" % (point, time_), **clock.env})
    try:
        f.start(wait=False)
        try:
            f.await_ready()
        except AssertionError:
            assert f.process is None, "it does not start"
        if f.process is not None:
            work(f)
        died = f.process is None or gone(f)
        assert died or (time_ > 1 and not range_), "no process met the fault point %s" % point
        if f.process is not None and f.process.poll() is None:
            f.kill()
        f.process = None
        f.env.pop("FLAMETREE_FAULTS")
        f.start()
        check_whole(f, before, range_, clock)
    finally:
        if f.process is not None and f.process.poll() is None:
            f.kill()


# ---- damage

def files(data, part):
    top = os.path.join(str(data), "store", "o")
    return sorted(os.path.join(path, name) for path, _, names in os.walk(top) for name in names if part in os.path.relpath(os.path.join(path, name), top))


def flip(path):
    """Another byte in the middle; the file is a new one, as a link of it may be kept."""
    with open(path, "rb") as file:
        content = bytearray(file.read())
    content[len(content) // 3] ^= 0x20
    os.chmod(os.path.dirname(path), 0o700)
    os.unlink(path)
    with open(path, "wb") as file:
        file.write(content)


def own_copy(flushed, tmp_path):
    own = tmp_path / "data"
    copy_data(flushed[0], own)
    return own


def test_a_damaged_segment_is_left_out_and_named(flushed, tmp_path):
    own = own_copy(flushed, tmp_path)
    path = files(own, "/live/a/")[0]
    shutil.copy(path, tmp_path / "good")
    flip(path)
    with Flametree(*AT_ONCE, data=str(own)) as f:
        s = f.server()
        got = settle(s)
        status = s.call("GET", "/compactor/status").expect(200).json()
        assert status["tenants"][0]["damaged"] == [{"segment": os.path.basename(path)}], status
        assert status["tenants"][0]["segments_waiting"] == 1 and got["settled"], (got, status)
        assert f.metric('flametree_compactor_jobs_total{level="leaf",result="damaged"}') >= 1
        assert os.path.basename(path) in f.tail(500)
        assert "damaged" in s.call("GET", "/compactor").expect(200).text
    os.unlink(path)
    shutil.copy(tmp_path / "good", path)
    with Flametree(*AT_ONCE, data=str(own)) as f:
        settle(f.server())
        assert answers(f.server()) == flushed[1]


def test_a_leaf_that_somebody_deleted_does_not_hold_up_what_comes_late(flushed, tmp_path):
    own = own_copy(flushed, tmp_path)
    with Flametree(*AT_ONCE, "--compactor.day_leaf", "false", data=str(own)) as f:
        s = f.server()
        settle(s)
        path = files(own, "/raw/")[0]
        os.rename(path, tmp_path / "aside")
        push(s, int(path.split("/")[-2].partition("-")[0], 16) * HOUR + 5000, 300)
        flush(s)
        assert settle(s)["settled"]
        tenant = s.call("GET", "/compactor/status").expect(200).json()["tenants"][0]
        assert tenant["damaged"] == [{"block": os.path.basename(path).partition("-")[2]}] and tenant["failures"] == [], tenant
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.rename(tmp_path / "aside", path)
        late = answers(s)
    with Flametree(*AT_ONCE, "--compactor.day_leaf", "false", data=str(own)) as f:
        settle(f.server())
        assert answers(f.server()) == late


def test_damaged_parents_are_made_anew(flushed, tmp_path):
    own = own_copy(flushed, tmp_path)
    with Flametree(*AT_ONCE, "--compactor.day_leaf", "false", data=str(own)) as f:
        settle(f.server())
    for path in files(own, "/h/") + files(own, "/d/"):
        flip(path)
    with Flametree(*AT_ONCE, "--compactor.day_leaf", "false", data=str(own)) as f:
        s = f.server()
        for day in range(4):
            push(s, START + day * DAY + 5 * HOUR + 5000, 300 + day)
        flush(s)
        late = answers(s)
        settle(s)
        assert answers(s) == late
        assert f.metric('flametree_compactor_jobs_total{level="pack",result="damaged"}') >= 1
        assert answers(s) == late
    with Flametree(*AT_ONCE, "--compactor.day_leaf", "false", data=str(own)) as f:
        settle(f.server())
        assert answers(f.server()) == late


def test_sums_beyond_64_bits_leave_one_service_to_its_profiles(flushed, tmp_path):
    own = own_copy(flushed, tmp_path)
    with Flametree(*AT_ONCE, data=str(own)) as f:
        s, at = f.server(), START + 5 * HOUR

        def ask(start, end, service="huge"):
            body = {"profileTypeID": CPU, "labelSelector": '{service_name="%s"}' % service, "start": start // 10**6, "end": end // 10**6, "maxNodes": 0, "format": "PROFILE_FORMAT_FLAMEGRAPH"}
            return s.rpc(QUERIER + "SelectMergeStacktraces", body)

        for minute in (1, 21, 41):
            labels = {"__name__": "process_cpu", "service_name": "huge", "pod": "a"}
            s.push(labels, Pprof(("main;a", 1 << 62), time_ns=at + minute * 60 * 10**9)).expect(200)
        flush(s)
        settle(s)
        assert answers(s)["all"] == flushed[1]["all"]
        assert f.metric("flametree_compactor_overflows_total") >= 1
        assert 'service=huge' in f.tail(500) and "event=compactor.overflow" in f.tail(500)
        tenant = s.call("GET", "/compactor/status").expect(200).json()["tenants"][0]
        assert tenant["failures"] == [] and tenant["gaps"] >= 1, tenant
        assert "64 bits" in s.call("GET", "/compactor").text
        one = ask(at, at + 10 * 60 * 10**9).expect(200)
        assert one.json()["flamegraph"]["total"] == str(1 << 62), one.text
        all_ = ask(START, START + DAY)
        assert all_.status == 400 and "the sum of service huge exceeds 64 bits" in all_.text and "out_of_range" in all_.text, all_.text
        reply = ask(START, START + DAY, SERVICE).expect(200)
        assert reply.headers["Flametree-Exact"] == "exact"
        settle(s, sweep="true")
        assert ask(at, at + 10 * 60 * 10**9).expect(200).json()["flamegraph"]["total"] == str(1 << 62)
        assert answers(s)["all"] == flushed[1]["all"]


def test_a_damaged_leaf_of_a_day_is_left_out_and_its_day_answers_from_its_sums(flushed, tmp_path):
    """Of its series there are no sums, as rows are as small: who asks for one is told which block is damaged."""
    own = own_copy(flushed, tmp_path)
    with Flametree(*AT_ONCE, data=str(own)) as f:
        settle(f.server())
    path = files(own, "/raw/")[0]
    assert "-0018/" in path
    shutil.copy(path, tmp_path / "good")
    flip(path)
    with Flametree(*AT_ONCE, data=str(own)) as f:
        s = f.server()
        name = os.path.basename(path)
        assert answers(s, damaged=name) == {**flushed[1], "pod": name, "series": name}
        # What comes late would be folded with it.
        push(s, START + 5 * HOUR + 7000, 400)
        flush(s)
        late = answers(s, damaged=name)
        s.call("POST", "/compactor/run?timeout=40s").expect(200)
        tenant = s.call("GET", "/compactor/status").expect(200).json()["tenants"][0]
        assert [list(x) for x in tenant["damaged"]] == [["block"]] and os.path.basename(path).endswith(tenant["damaged"][0]["block"]), tenant
        assert f.metric("flametree_compactor_left_out_objects") == 1
        assert answers(s, damaged=name) == late
    os.unlink(path)
    shutil.copy(tmp_path / "good", path)
    with Flametree(*AT_ONCE, data=str(own)) as f:
        whole = answers(f.server())
        assert {**whole, "pod": name, "series": name} == late
        check_whole(f, whole)
        assert len(files(own, "/raw/")) == 4


def test_a_disk_that_is_full_in_the_middle_of_a_leaf_of_a_day(leaved, tmp_path):
    own = own_copy(leaved, tmp_path)
    with Flametree(*AT_ONCE, data=str(own), env={"FLAMETREE_FAULTS": "compact.write=enospc@2+"}) as f:
        s = f.server()
        got = s.call("POST", "/compactor/run?timeout=20s").expect(200).json()
        assert not got["settled"], got
        failures = s.call("GET", "/compactor/status").expect(200).json()["tenants"][0]["failures"]
        assert any(x["job"] == "fold" and "cannot be written" in x["fault"] for x in failures), failures
        assert answers(s) == leaved[1]
    clock = FaultClock(tmp_path / "clock")
    with Flametree(*AT_ONCE, data=str(own), env=clock.env) as f:
        check_whole(f, leaved[1], clock=clock)
        assert len(files(own, "/raw/")) == 4


def test_a_store_that_cannot_be_written_is_waited_for(flushed, tmp_path):
    own = own_copy(flushed, tmp_path)
    faults = {"FLAMETREE_FAULTS": "compact.write=enospc"}
    with Flametree(*AT_ONCE, data=str(own), env=faults) as f:
        s = f.server()
        got = s.call("POST", "/compactor/run?timeout=20s").expect(200).json()
        assert not got["settled"] and got["backlog"] == 12, got
        failures = s.call("GET", "/compactor/status").expect(200).json()["tenants"][0]["failures"]
        assert len(failures) == 12 and all(x["job"] == "leaf" and "cannot be written" in x["fault"] for x in failures), failures
        assert answers(s) == flushed[1]
    with Flametree(*AT_ONCE, data=str(own)) as f:
        check_whole(f, flushed[1])


def test_a_leaf_that_lacks_a_row_is_refused_and_its_segments_go_on_to_answer(flushed, tmp_path):
    own = own_copy(flushed, tmp_path)
    with Flametree(*AT_ONCE, data=str(own), env={"FLAMETREE_FAULTS": "compact.row.lost=eio"}) as f:
        s = f.server()
        got = s.call("POST", "/compactor/run?timeout=20s").expect(200).json()
        assert not got["settled"], got
        failures = s.call("GET", "/compactor/status").expect(200).json()["tenants"][0]["failures"]
        assert failures and all(x["job"] == "leaf" and "were written or were copies" in x["fault"] and "report" in x["action"] for x in failures), failures
        assert f.metric("flametree_compactor_miscounted_jobs_total") >= len(failures)
        assert not kinds(objects_of(f.store)).get("raw")
        assert answers(s) == flushed[1]
    with Flametree(*AT_ONCE, data=str(own)) as f:
        check_whole(f, flushed[1])
        assert f.metric("flametree_compactor_miscounted_jobs_total") == 0


def test_a_run_that_waits_ends_when_the_process_drains(flushed, tmp_path):
    """Each job takes a second at least, so there is plenty left to do when the process is told to stop."""
    own = own_copy(flushed, tmp_path)
    with Flametree(*AT_ONCE, *ASKED, data=str(own), env={"FLAMETREE_FAULTS": "compact.service=delay:1000"}) as f:
        s, got = f.server(), []
        run = threading.Thread(target=lambda: got.append(s.call("POST", "/compactor/run?timeout=10m")))
        run.start()
        await_("the run to be in a job", lambda: any("running" in t for t in s.call("GET", "/compactor/status").json()["tenants"]))
        f.signal(signal.SIGTERM)
        run.join(60)
        assert not run.is_alive() and got[0].status == 503 and "about to stop" in got[0].text, got
        process, f.process = f.process, None
        f.stopped(process)


@pytest.mark.parametrize("query, says", [
    ("sweep=maybe", "sweep is 'maybe', must be true or false"), ("sweep=", "sweep is '', must be true or false"),
    ("timeout=abc", "timeout: 'abc' is not a duration"), ("timeout=1s&sweep=TRUE", "sweep is 'TRUE'"),
])
def test_what_a_run_does_not_understand_is_named(flushed, tmp_path, query, says):
    with Flametree(*AT_ONCE, data=str(own_copy(flushed, tmp_path))) as f:
        reply = f.server().call("POST", "/compactor/run?" + query).expect(400)
        assert says in reply.json()["message"], reply.text
        assert f.server().call("POST", "/compactor/run?sweep=false").expect(200).json()["settled"]


@pytest.mark.parametrize("name", ["raw_retention", "hours_retention", "days_retention", "delete_delay", "leaf_delay"])
def test_times_that_no_date_has_are_refused(name):
    """Added to a date they would not fit 64 bits, and nothing would be kept at all."""
    for value, code in (("99999d", 1), ("36500d", 0)):
        done = subprocess.run([os.path.join(BIN, "flametree"), "--check-config", "--compactor.%s=%s" % (name, value)], capture_output=True, text=True, timeout=60)
        assert (done.returncode != 0) == code and (not code or "compactor.%s: 99999d is above the highest value, 36500d" % name in done.stderr), done


# ---- several

def test_two_compactors_share_the_work_and_neither_waits_for_the_other(flushed, tmp_path):
    """Both work on one directory of objects at the same time, and with them the server that has the heads."""
    own = own_copy(flushed, tmp_path)
    shared = ["--storage.dir", os.path.join(str(own), "store"), "--cluster.compactors", "c0=127.0.0.1:1,c1=127.0.0.1:2"]
    eager = [*AT_ONCE[4:], "--compactor.interval", "50ms", "--compactor.sweep_interval", "50ms"]

    def compactor(name):
        return Flametree(*eager, *shared, "--server.id", name, "--internal.listen", "unix:%s/%s.sock" % (tmp_path, name), program="flametree-compactor")

    with Flametree(*AT_ONCE, "--compactor.workers", "0", data=str(own)) as f, compactor("c0") as c0, compactor("c1") as c1:
        def settled():
            return all(c.server().call("GET", "/compactor/status").json()["settled"] for c in (c0, c1)) and not files(own, "/live/a/")
        await_("both to settle", settled, 120)
        assert answers(f.server()) == flushed[1]
        done = [c.metric('flametree_compactor_jobs_total{level="leaf",result="done"}') or 0 for c in (c0, c1)]
        assert sum(done) == 12, done
