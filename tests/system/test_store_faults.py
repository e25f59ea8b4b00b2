"""Objects that are damaged and put back, clocks that are days apart, answers of the store that lie, thousands of tenants: real processes."""
import os
import shutil
import time

import pytest
from client import CPU, QUERIER, Pprof
from faultclock import FaultClock
from flametree import AT_ONCE, Flametree, await_, flush

HOUR = 3600 * 10**9
DAY = 24 * HOUR
START = (time.time_ns() // DAY - 3) * DAY
FLAGS = [*AT_ONCE, "--compactor.interval=1h", "--limits.reject_older_than=0", "--compactor.day_leaf=false"]
COLD = ["--querier.cache_memory=1MiB"]


def push(s, at_ns, value, pod="a"):
    s.push({"__name__": "process_cpu", "service_name": "shop", "pod": pod}, Pprof(("main;a", value), time_ns=at_ns)).expect(200)


def ask(s, **headers):
    """A range that begins within an hour, so that it needs rows, hours and days."""
    body = {"profileTypeID": CPU, "labelSelector": '{service_name="shop"}', "start": (START + HOUR // 4) // 10**6, "end": (START + 2 * DAY) // 10**6}
    return s.rpc(QUERIER + "SelectMergeStacktraces", body, {k.replace("_", "-"): v for k, v in headers.items()})


def total(s):
    reply = ask(s).expect(200)
    assert reply.headers["Flametree-Exact"] == "exact", reply.headers
    return int(reply.json()["flamegraph"]["total"])


def run(s, **more):
    return s.call("POST", "/compactor/run?" + "&".join(["timeout=20s"] + ["%s=%s" % pair for pair in more.items()])).expect(200).json()


def settled(s, **more):
    await_("all that is due to be compacted", lambda: run(s, **more)["settled"], 300, 0.2)


def status(s):
    return s.call("GET", "/compactor/status").expect(200).json()["tenants"][0]


def files(data, part):
    top = os.path.join(str(data), "store", "o")
    return sorted(os.path.join(path, name) for path, _, names in os.walk(top) for name in names if part in os.path.relpath(os.path.join(path, name), top))


def spoil(path):
    """Other bytes, in a file of its own."""
    with open(path, "rb") as f:
        content = bytearray(f.read())
    for at in range(0, len(content), 16):
        content[at] ^= 0xa5
    os.unlink(path)
    with open(path, "wb") as f:
        f.write(content)


@pytest.fixture(scope="module")
def filled(tmp_path_factory):
    """Two days with a profile in each of six hours, as segments, and how much that is."""
    data = tmp_path_factory.mktemp("filled")
    with Flametree(*FLAGS, "--compactor.workers=0", data=str(data)) as f:
        for day in range(2):
            for hour in range(6):
                push(f.server(), START + day * DAY + hour * HOUR + HOUR // 2, 1 + hour)
        flush(f)
        whole = total(f.server())
    return data, whole


@pytest.fixture
def own(filled, tmp_path):
    data = tmp_path / "data"
    shutil.copytree(filled[0], data, ignore=shutil.ignore_patterns("*.sock"))
    return data


@pytest.mark.parametrize("how", ["damaged", "gone"])
@pytest.mark.parametrize("part", ["/live/a/", "/raw/", "/h/", "/d/", "/page/", "/live/m/"])
def test_what_is_put_back_is_seen_without_a_restart(filled, own, tmp_path, part, how):
    whole = filled[1]
    if part != "/live/a/":
        with Flametree(*FLAGS, "--compactor.workers=0", data=str(own)) as f:
            settled(f.server())
            settled(f.server(), sweep="true")
    with Flametree(*FLAGS, *COLD, "--compactor.workers=0", data=str(own)) as f:
        s = f.server()
        paths = files(own, part)
        if part == "/live/m/":
            paths = paths[-1:]
        for n, path in enumerate(paths):
            shutil.copy(path, tmp_path / ("good%d" % n))
            if how == "gone" and part != "/live/m/":
                os.unlink(path)
            else:
                spoil(path)
        if part in ("/h/", "/d/"):
            assert total(s) == whole, "children serve"
        elif part == "/live/a/" and how == "gone":
            assert ask(s).expect(200).headers["Flametree-Profiles"] == "0", "who deletes a segment gives up its profiles"
        else:
            refused = ask(s)
            assert refused.status in (500, 503) and "v1/" in refused.text or "manifest" in refused.text, refused
        # Late rows: what is there already is to be folded with them.
        push(s, START + HOUR + 5000, 100, "late")
        flush(f)
        run(s)
        run(s)
        left_out = f.metric("flametree_compactor_left_out_objects")
        if part in ("/live/a/", "/raw/") and how == "damaged" or part == "/raw/":
            assert left_out > 0, status(s)
        for n, path in enumerate(paths):
            if os.path.exists(path):
                os.unlink(path)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            shutil.copy(tmp_path / ("good%d" % n), path)
        assert total(s) == whole + 100
        settled(s)
        assert f.metric("flametree_compactor_left_out_objects") == 0, status(s)
        assert status(s)["damaged"] == [] and status(s)["failures"] == [], status(s)
        assert total(s) == whole + 100


def test_a_root_that_lands_although_the_store_says_aborted_keeps_its_blocks(filled, own):
    with Flametree(*FLAGS, "--compactor.workers=0", data=str(own), env={"FLAMETREE_FAULTS": "manifest.root.untold=eio@1"}) as f:
        s = f.server()
        run(s)
        assert len(files(own, "/live/m/")) > 0 and total(s) == filled[1]
        settled(s)
        settled(s, sweep="true")
        assert total(s) == filled[1] and status(s)["damaged"] == []


@pytest.mark.parametrize("days", [3, -3])
def test_a_sweep_by_a_clock_that_is_days_off_deletes_nothing_that_is_about_to_be_named(filled, own, tmp_path, days):
    clock = FaultClock(tmp_path / "clock")
    with Flametree(*FLAGS, "--compactor.workers=0", data=str(own)) as f:
        settled(f.server())
    # What a job of another compactor has just made: it is named a minute later.
    block = files(own, "/raw/")[0]
    fresh = os.path.join(os.path.dirname(block), os.path.basename(block)[:9] + ulid(time.time_ns() - 3 * DAY if days < 0 else time.time_ns()))
    shutil.copy(block, fresh)
    if days > 0:
        clock.set(days=days)
    with Flametree(*FLAGS, "--compactor.workers=0", data=str(own), env=clock.env) as f:
        s = f.server()
        for _ in range(3):
            run(s, sweep="true")
            clock.wall_ns += 20 * 60 * 10**9
            clock.boot_ns += 20 * 60 * 10**9
            clock.write()
        assert os.path.exists(fresh)
        clock.pass_(3 * DAY)
        run(s, sweep="true")
        clock.pass_(26 * HOUR)
        run(s, sweep="true")
        assert not os.path.exists(fresh), "nobody named it for days"
        assert total(s) == filled[1]


def test_orphans_stay_while_clocks_are_seen_to_be_apart(filled, own, tmp_path):
    clock = FaultClock(tmp_path / "clock")
    with Flametree(*FLAGS, "--compactor.workers=0", data=str(own)) as f:
        settled(f.server())
    block = files(own, "/raw/")[0]
    orphan = os.path.join(os.path.dirname(block), os.path.basename(block)[:9] + ulid(time.time_ns() - 9 * DAY))
    shutil.copy(block, orphan)
    clock.set(days=-2)
    with Flametree(*FLAGS, "--compactor.workers=0", data=str(own), env=clock.env) as f:
        s = f.server()
        run(s, sweep="true")
        clock.pass_(27 * HOUR)
        run(s, sweep="true")
        assert os.path.exists(orphan) and f.metric("flametree_manifest_held_sweeps_total") >= 2
        assert "event=compactor.sweep_held" in f.tail(200)


ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def ulid(ns):
    value = (ns // 10**6) << 80 | int.from_bytes(os.urandom(10), "big")
    return "".join(ALPHABET[value >> 5 * i & 31] for i in reversed(range(26)))


def test_thousands_of_tenants_are_all_compacted_with_little_memory(filled, own):
    tenants = os.path.join(str(own), "store", "o", "v1", "tenants")
    many = ["t%04d" % n for n in range(3000)]
    for name in many:
        with open(os.path.join(tenants, name), "wb"):
            pass
    with Flametree(*FLAGS, "--compactor.workers=0", "--server.memory_limit=96MiB", "--ingester.head_memory=24MiB", "--ingester.log_memory=4MiB", "--ingester.disk_reserve=8MiB",
                   "--compactor.worker_memory=32MiB", "--compactor.manifest_memory=64KiB", "--querier.manifest_memory=64KiB", data=str(own)) as f:
        s = f.server()
        run(s)
        got = s.call("GET", "/compactor/status").expect(200).json()["tenants"]
        assert {t["tenant"] for t in got} >= set(many), "%d of %d tenants are known" % (len(got), len(many) + 1)
        assert f.metric("flametree_compactor_skipped_tenants") == 0
        assert total(s) == filled[1]
