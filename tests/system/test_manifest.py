"""`flametree manifest show` and `verify` on the store of a running server, and on one that was damaged."""
import json
import os
import shutil
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from client import Pprof
from flametree import BIN, Flametree, await_
from hostile import metrics

HOUR = 3600 * 10**9
AT_ONCE = [
    "--limits.reject_older_than", "0", "--compactor.interval", "1h", "--compactor.leaf_delay", "0s", "--compactor.hour_delay", "0s",
    "--compactor.day_delay", "0s", "--compactor.repack_interval", "0s", "--compactor.fold_interval", "0s", "--compactor.window_interval", "0s",
]


def run(*args):
    return subprocess.run([os.path.join(BIN, "flametree"), "manifest", *args], capture_output=True, text=True, timeout=60)


def show(data, *more):
    done = run("show", data, "--format", "json", *more)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    start = (time.time_ns() // HOUR - 60) * HOUR
    with Flametree(*AT_ONCE, "--compactor.day_leaf=false", data=str(tmp_path_factory.mktemp("data"))) as f:
        s = f.server()
        for hour in (0, 1, 30):
            labels = {"__name__": "process_cpu", "service_name": "shop"}
            s.push(labels, Pprof(("main;a", 1), time_ns=start + hour * HOUR + 1000)).expect(200)
        s.call("POST", "/ingester/flush").expect(200)
        yield f


def compact(f):
    await_("the compactor to be done", lambda: f.server().call("POST", "/compactor/run?timeout=45s").expect(200).json()["settled"], 300)


def test_segments_then_levels_are_shown(server):
    before = show(server.data)[0]
    assert before["tenant"] == "anonymous" and before["version"] == 0 and before["blocks"] == []
    assert len(before["segments"]) == 3
    compact(server)
    after = show(os.path.join(server.data, "store"), "--versions")[0]
    raw = [b for b in after["blocks"] if b["kind"] == "raw"]
    assert len(raw) == 3 and sum(b["rows"] for b in raw) == 3
    assert after["segments"] == [] and sorted(x for b in raw for x in b["sources"]) == sorted(x["name"] for x in before["segments"])
    leaves = {b["id"] for b in raw}
    named = {x for b in after["blocks"] if b["kind"] == "h" for c in b["covers"] for x in c["leaves"]}
    assert named == leaves
    assert [v["version"] for v in after["versions"]] == list(range(1, after["version"] + 1))
    assert all(a["hash"] == b["parent_hash"] for a, b in zip(after["versions"], after["versions"][1:]))
    for block in after["blocks"]:
        assert os.path.getsize(os.path.join(server.data, "store/o", block["name"])) == block["bytes"]
    text = run("show", server.data, "--tenant", "anonymous", "--versions")
    assert text.returncode == 0
    for block in after["blocks"]:
        assert block["id"] in text.stdout


def test_a_query_takes_one_list_and_queries_share_it(server):
    compact(server)
    now = time.time_ns() // 10**6
    ask = {"profileTypeID": "process_cpu:cpu:nanoseconds:cpu:nanoseconds", "labelSelector": "{}", "start": now - 70 * 3600_000, "end": now}

    def query(_):
        server.server().ok("SelectMergeStacktraces", **ask)

    def snapshots(work):
        before = metrics(server)
        work()
        after = metrics(server)
        return [after.get(name, 0) - before.get(name, 0) for name in ("flametree_manifest_lists_total", "flametree_manifest_joins_total")]

    query(0)
    assert snapshots(lambda: [query(i) for i in range(10)]) == [10, 0]
    with ThreadPoolExecutor(8) as pool:
        lists, joins = snapshots(lambda: list(pool.map(query, range(80))))
    assert lists <= 80 and lists + joins == 80  # how many share one depends on who comes when; a unit test says which


def test_verify_finds_what_is_missing(server):
    compact(server)
    well = run("verify", server.data)
    assert well.returncode == 0, well.stdout + well.stderr
    assert " 0 wrong" in well.stdout
    block = show(server.data)[0]["blocks"][0]
    path = os.path.join(server.data, "store/o", block["name"])
    os.rename(path, server.data + "/aside")
    try:
        wrong = run("verify", server.data)
        assert wrong.returncode == 1 and block["name"] + " is not there" in wrong.stdout
        found = json.loads(run("verify", server.data, "--format", "json").stdout)
        assert found[0]["faults"] == 1
    finally:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        os.rename(server.data + "/aside", path)
    assert run("verify", server.data).returncode == 0


@pytest.mark.parametrize("args,status,says", [
    (("show", "/nonexistent"), 1, "is no store"),
    (("show",), 2, "manifest show STORE"),
    (("show", "DATA", "--tenant", "a/b"), 2, "cannot be the name of a tenant"),
    (("verify", "DATA", "--format", "xml"), 2, "xml"),
    (("show", "DATA", "--tenant", "anonymus"), 3, "tenant anonymus has no data"),
    (("verify", "DATA", "--tenant", "anonymus"), 3, "tenant anonymus has no data"),
])
def test_what_is_wrong_is_said(server, args, status, says):
    done = run(*[server.data if a == "DATA" else a for a in args])
    assert done.returncode == status and says in done.stderr, (done.returncode, done.stderr)


def test_an_empty_store_has_no_tenants(tmp_path):
    with Flametree(data=str(tmp_path)) as f:
        done = run("show", f.data)
        assert done.returncode == 3 and "no tenant has data" in done.stderr, (done.returncode, done.stderr)


def test_a_copy_is_looked_at_and_left_as_it_is(server, tmp_path):
    """A backup: it may be on a disk that takes no writes, and belong to somebody else."""
    compact(server)
    store = tmp_path / "store"
    shutil.copytree(os.path.join(server.data, "store", "o"), store / "o")
    before = sorted(store.rglob("*"))
    for command in ("show", "verify"):
        done = run(command, str(tmp_path))
        assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(store.rglob("*")) == before
