"""Deletion of a tenant: from the answer to the call on its queries find nothing and its pushes are refused; later no object, no name and no byte of it is
left. Then a tenant of the same name begins anew. Other tenants notice nothing. (docs/decisions/0020-deletion-of-tenants.md)"""
import os
import signal
import subprocess
import threading
import time

import flametree
import pytest
from client import CPU, QUERIER, Pprof
from faultclock import FaultClock
from flametree import AT_ONCE, BIN, SAYS_SOON, Cluster, Flametree, await_, check_blocks, compact, deploy, flush
from test_deletion import found

HOUR = 3600 * 10**9
DAY = 24 * HOUR
MS = 10**6
START = (time.time_ns() // DAY - 2) * DAY
GRACE = 5 * HOUR  # longer than a job may take
FLAGS = [*AT_ONCE, SAYS_SOON, "--auth.multitenancy_enabled=true", "--limits.reject_older_than=0", "--compactor.interval=1h", "--compactor.raw_retention=0", "--ingester.cut_age=1s"]
GONE, STAYS = "acme-v7f3a", "other"
SECRET, FUNCTION = "v-sekret-7f3a", "handleSekret9b1c"
POINTS = ["closing.noted", "closing.asked", "closing.closed", "closing.erase", "closed.erase.roots", "closed.erase.last", "closed.erase.tenant", "closing.forget"]
BEFORE = POINTS[:3]  # the call has not been answered


def push(s, hour, pod=SECRET, value=7, expect=200):
    at = START + hour * HOUR + 60 * 10**9
    return s.push({"__name__": "process_cpu", "service_name": "shop", "pod": pod}, Pprof(("main;" + FUNCTION, value), ("main;idle", 1), time_ns=at)).expect(expect)


def total(s):
    body = {"profileTypeID": CPU, "labelSelector": "{}", "start": (START - DAY) // MS, "end": (START + 3 * DAY) // MS, "maxNodes": 0}
    got = s.rpc(QUERIER + "SelectMergeStacktraces", body).expect(200).json()
    names = s.rpc(QUERIER + "LabelValues", {"name": "pod", "start": body["start"], "end": body["end"]}).expect(200).json().get("names", [])
    number = int(got.get("flamegraph", {}).get("total", 0))
    assert bool(number) == bool(names)
    return number


def fill(f, s):
    """A part in blocks, a part in segments, a part in heads; 8 each."""
    for hour in range(3):
        push(s, hour)
    flush(f)
    compact(f)
    for hour in range(3, 6):
        push(s, hour)
    flush(f)
    for hour in range(6, 9):
        push(s, hour)


def compactor(f):
    return f["compactor"] if hasattr(f, "ingesters") else f


def erase(f, tenant=GONE, expect=200):
    return compactor(f).operator().call("POST", "/compactor/delete-tenant?tenant=" + tenant).expect(expect).json()


def state(f, tenant=GONE):
    rows = compactor(f).operator().call("GET", "/compactor/deletions?tenant=" + tenant).expect(200).json()["deletions"]
    return (rows[0]["state"], rows[0]["objects_left"]) if rows else None


def data_of(f):
    return f.folder if hasattr(f, "ingesters") else f.data


def objects_of(f, tenant=GONE):
    """Objects of the store, and files of processes, that are of this tenant by their names."""
    top = [os.path.join(path, name) for path, _, names in os.walk(data_of(f)) for name in names]
    top += ["/" + name for name in flametree.objects_of(f.store)]
    return [x for x in top if "/%s/" % tenant in x or x.endswith("/" + tenant)]


def run(f):
    flush(f)
    compactor(f).operator().call("POST", "/compactor/run?timeout=20s").expect(200)


def await_state(f, clock, want):
    def reached():
        run(f)
        got = state(f)
        if (got[0] if got else None) == want:
            return True
        clock.pass_(GRACE)
        return False
    await_("the deletion of the tenant to be: %s" % want, reached, 120)


@pytest.mark.parametrize("topology", ["one", "cluster"])
def test_a_deleted_tenant_leaves_nothing_and_may_begin_anew(tmp_path, topology):
    clock = FaultClock(tmp_path / "clock")
    more = {"env": clock.env} if topology == "one" else {"env_of": {"compactor": clock.env}}
    with deploy(topology, *FLAGS, **more) as f:
        s, other = f.server(tenant=GONE), f.server(tenant=STAYS)
        fill(f, s)
        fill(f, other)
        assert total(s) == total(other) == 72 and objects_of(f) and state(f) is None
        made = erase(f)
        assert total(s) == 0 and total(other) == 72
        refused = push(s, 1, value=100, expect=403)
        assert "is being deleted" in refused.text, refused.text
        push(other, 9)
        assert erase(f)["id"] == made["id"] and state(f)[0] == "waiting"
        # Not before jobs and readers of earlier versions must be over.
        run(f)
        run(f)
        assert state(f)[1] > 5 and total(s) == 0
        await_state(f, clock, "erased")
        assert total(s) == 0 and [x for x in objects_of(f) if "/closed/" not in x] == []
        push(s, 1, expect=403)
        # Nothing was found for as long again: the name is free.
        run(f)
        assert state(f)[0] == "erased"
        await_state(f, clock, None)
        assert objects_of(f) == [] and total(s) == 0
        log = compactor(f).log
        for line in ("tenant_closing", "tenant_closed", "tenant_erased", "tenant_deleted"):
            assert any("compactor." + line in x and GONE in x for x in open(log)), line

        def admitted():
            return s.push({"__name__": "process_cpu", "service_name": "shop", "pod": "anew"}, Pprof(("main;anew", 5), time_ns=START + HOUR)).status == 200
        await_("pushes to be taken again", admitted, 60)
        assert total(s) == 5 and total(other) == 80
        for _ in range(2):  # its versions have the numbers that those of the first had
            run(f)
            assert total(s) == 5 and total(other) == 80
        compact(f)
        assert total(s) == 5 and total(other) == 80 and any("/tenants/" in x for x in objects_of(f))


def test_no_byte_of_a_deleted_tenant_is_in_the_store(tmp_path):
    clock = FaultClock(tmp_path / "clock")
    with Flametree(*FLAGS, data=str(tmp_path), env=clock.env) as f:
        fill(f, f.server(tenant=GONE))
        push(f.server(tenant=STAYS), 1, pod="a")
        flush(f)
        assert len(found(f, SECRET)) > 3
        erase(f)
        await_state(f, clock, None)
        assert not found(f, SECRET) and not found(f, GONE)
        check_blocks(f.store)


@pytest.mark.parametrize("point", POINTS)
def test_a_deletion_goes_on_where_a_process_was_killed(tmp_path, point):
    clock = FaultClock(tmp_path / "clock")
    f = Flametree(*FLAGS, data=str(tmp_path), env={**clock.env, "FLAMETREE_FAULTS": "%s=die@1" % point})
    with f:
        s, other = f.server(tenant=GONE), f.server(tenant=STAYS)
        fill(f, s)
        fill(f, other)

        def died():
            """However many rounds it takes on a busy machine; in any of them the process may end."""
            try:
                run(f)
                clock.pass_(GRACE)
            except (OSError, AssertionError):
                pass
            return f.process.poll() is not None

        try:
            erase(f)
            assert point not in BEFORE
        except (OSError, AssertionError):
            pass
        await_("the process to die at %s" % point, died, 60)
        f.process = None
        f.env.pop("FLAMETREE_FAULTS")
        f.start()
        s, other = f.server(tenant=GONE), f.server(tenant=STAYS)
        assert point in BEFORE or total(s) == 0
        push(s, 1, value=100, expect=403)
        assert total(other) == 72
        # Nobody calls again: what is in the store is enough.
        await_state(f, clock, None)
        assert objects_of(f) == [] and total(s) == 0 and total(other) == 72


def test_all_points_of_a_deletion_are_tried():
    from test_kill_points import FOUND
    assert sorted(POINTS) == sorted(x for x in FOUND if x.startswith(("closing.", "closed.")))


def test_an_ingester_that_does_not_answer_is_waited_for(tmp_path):
    """What it acknowledges meanwhile could not be told from what it acknowledged before: so nothing is hidden, and the call says so."""
    with deploy("cluster", *FLAGS) as f:
        s = f.server(tenant=GONE)
        fill(f, s)
        f["ingester-2"].kill()
        reply = erase(f, expect=503)
        assert "ingester" in reply["message"], reply
        assert state(f)[0] == "noted"
        push(s, 1, expect=403)
        f["ingester-2"].start()
        await_("the deletion to be answered", lambda: compactor(f).operator().call("POST", "/compactor/delete-tenant?tenant=" + GONE).status == 200, 60)
        assert total(s) == 0


def unlisted_cluster(tmp_path):
    """The compactor has no ingester-3 in its list."""
    c = Cluster(*FLAGS, "--ingester.log=local")
    with open(c.config_file("compactor")) as f:
        lines = f.readlines()
    kept = [line for line in lines if not line.strip().startswith("- ingester-3=")]
    assert len(kept) == len(lines) - 1
    with open(c.config_file("compactor"), "w") as f:
        f.writelines(kept)
    return c


def spread(s, service=""):
    """Answers to pushes of which each ingester gets some."""
    at = time.time_ns() - 60 * 10**9
    return [s.push({"__name__": "process_cpu", "service_name": "shop%s%d" % (service, i), "pod": "p%d" % i}, Pprof(("main;a", 1), time_ns=at)).status for i in range(30)]


def count(s):
    now = time.time_ns() // MS
    body = {"profileTypeID": CPU, "labelSelector": "{}", "start": now - 3_600_000, "end": now + 60_000}
    return int(s.rpc(QUERIER + "SelectMergeStacktraces", body).expect(200).json().get("flamegraph", {}).get("total", 0))


@pytest.mark.skipif(flametree.BY_NAME, reason="lists by name have all members")
def test_an_ingester_that_the_compactor_does_not_know_refuses_pushes_too(tmp_path):
    """Its streams are registered, with its address. What it acknowledged after the answer would be erased."""
    with unlisted_cluster(tmp_path) as c:
        s = c.server(tenant=GONE)
        assert spread(s) == [200] * 30 and count(s) == 30
        assert all(m.metric("flametree_ingester_head_rows") for m in c.ingesters()), "each ingester should have some"
        erase(c)
        seen = compactor(c).operator().call("GET", "/compactor/status").expect(200).json()["registrations"]
        assert seen["streams"] >= 3 and seen["unread"] == 0 and seen["listed"], seen
        assert count(s) == 0
        for i in range(5):
            assert spread(s, "late%d-" % i) == [403] * 30
        assert count(s) == 0


@pytest.mark.skipif(flametree.BY_NAME, reason="lists by name have all members")
def test_a_deletion_waits_by_name_for_an_ingester_that_is_cut_off(tmp_path):
    with unlisted_cluster(tmp_path) as c:
        s, other = c.server(tenant=GONE), c["ingester-3"]
        assert spread(s) == [200] * 30
        other.signal(signal.SIGSTOP)
        try:
            reply = erase(c, expect=503)
            assert "ingester-3" in reply["message"], reply
            row = compactor(c).operator().call("GET", "/compactor/deletions?tenant=" + GONE).expect(200).json()["deletions"][0]
            assert row["state"] == "noted" and row["waits_for"], row
            assert all(x["node"] == "ingester-3" and len(x["stream"]) == 26 and x["since"] and x["why"] for x in row["waits_for"]), row
            shown = subprocess.run([os.path.join(BIN, "flametree"), "deletions", "--tenant", GONE, "--url", compactor(c).admin_url], capture_output=True, text=True, timeout=60)
            assert shown.returncode == 0 and "waits for stream %s of ingester-3 since " % row["waits_for"][0]["stream"] in shown.stdout, shown
        finally:
            other.signal(signal.SIGCONT)

        def closed():
            compactor(c).operator().call("POST", "/compactor/run?timeout=20s").expect(200)
            return state(c)[0] == "waiting"
        await_("a compactor to close the tenant", closed, 60)
        assert count(s) == 0 and spread(s, "late") == [403] * 30


def test_an_ingester_that_is_gone_for_good_is_waited_for_until_its_streams_are_adopted():
    """Nobody changes a list of members, and the node does not come back."""
    with Cluster(*FLAGS, "--ingester.log=object", "--ingester.log_linger=20ms") as c:
        s = c.server(tenant=GONE)
        assert spread(s) == [200] * 30
        c["ingester-3"].kill()
        erase_call = lambda: compactor(c).operator().call("POST", "/compactor/delete-tenant?tenant=" + GONE)
        reply = erase_call().expect(503).json()
        assert "ingester-3" in reply["message"] and state(c)[0] == "noted", reply
        await_("its streams to be adopted and flushed", lambda: erase_call().status == 200, 120)
        assert count(s) == 0 and set(spread(s, "late")) == {403}


def test_a_push_under_way_is_acknowledged_only_if_it_is_deleted_too_or_stays(tmp_path):
    """Each push waits between its check and its answer. One that is under way when the tenant is closed is stored, but not acknowledged."""
    with Flametree(*FLAGS, data=str(tmp_path), env={"FLAMETREE_FAULTS": "append.apply.before=delay:3000"}) as f:
        answers, s = [], f.server(tenant=GONE)
        thread = threading.Thread(target=lambda: answers.append(s.push({"__name__": "process_cpu", "service_name": "shop", "pod": "a"}, Pprof(("main;late", 5), time_ns=START)).status))
        thread.start()
        await_("the push to be in the log", lambda: f.metric("flametree_ingester_log_bytes") or None, 30)
        erase(f)
        assert not answers, "the push was answered before the tenant was closed"
        thread.join()
        assert answers == [403] and total(s) == 0


@pytest.mark.parametrize("query, says", [("", "tenant is missing"), ("tenant=../x", "cannot be the name of a tenant"), ("tenant=", "cannot be the name of a tenant")])
def test_requests_that_are_wrong_delete_no_tenant(tmp_path, query, says):
    with Flametree(*FLAGS, data=str(tmp_path)) as f:
        push(f.server(tenant=GONE), 1)
        assert says in f.operator().call("POST", "/compactor/delete-tenant?" + query).expect(400).json()["message"]
        assert total(f.server(tenant=GONE)) == 8


def test_the_command_line_deletes_a_tenant_only_if_that_is_confirmed(tmp_path):
    def flametree(*args):
        return subprocess.run([os.path.join(BIN, "flametree"), *args, "--url", f.admin_url], capture_output=True, text=True, timeout=60)
    with Flametree(*FLAGS, data=str(tmp_path)) as f:
        push(f.server(tenant=GONE), 1)
        refused = flametree("tenant", "delete", GONE)
        assert refused.returncode == 2 and "lost for good" in refused.stderr and "--yes" in refused.stderr, refused
        assert total(f.server(tenant=GONE)) == 8
        done = flametree("tenant", "delete", GONE, "--yes")
        assert done.returncode == 0 and "hidden from now on" in done.stdout, done
        assert total(f.server(tenant=GONE)) == 0
        shown = flametree("deletions", "--tenant", GONE)
        assert shown.returncode == 0 and "waiting, " in shown.stdout and "objects left" in shown.stdout, shown
