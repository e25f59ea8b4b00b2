"""flametree block ls, show and verify, on segments that a real server wrote and on what damage makes of them."""
import json
import os
import shutil
import subprocess
import time

import pytest
from client import CPU, Pprof, now_ms
from flametree import BIN, Flametree, await_

PROGRAM = os.path.join(BIN, "flametree")
PODS, PROFILES = 3, 12  # of each pod

# Everything is compacted at once, but only when the test asks.
AT_ONCE = ["--limits.reject_older_than", "0", "--compactor.interval", "1h"]
AT_ONCE += [x for name in ("leaf_delay", "hour_delay", "day_delay", "repack_interval", "fold_interval", "window_interval") for x in ("--compactor." + name, "0s")]


def run(*args):
    return subprocess.run([PROGRAM, "block", *args], capture_output=True, text=True, timeout=60)


def ok(*args):
    answer = run(*args)
    assert answer.returncode == 0, answer
    return answer.stdout


def fails(status, *args):
    answer = run(*args)
    assert answer.returncode == status, answer
    return answer


def loaded(*args):
    return json.loads(ok(*args, "--format", "json"))


def push(s):
    at = now_ms() // 3_600_000 * 3_600_000 - 1_800_000  # the middle of the last hour
    for n in range(PROFILES):
        for pod in range(PODS):
            labels = {"__name__": "process_cpu", "service_name": "shop", "pod": "p%d" % pod}
            s.push(labels, Pprof(("main;a", 10), ("main;b;c%d" % n, 1 + n), time_ns=(at + 1000 * n) * 1_000_000)).expect(200)
    s.push({"__name__": "process_cpu", "service_name": "cart"}, Pprof(("main", 5), time_ns=at * 1_000_000)).expect(200)


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """The directory of a server's store after it flushed what it had got."""
    folder = tmp_path_factory.mktemp("blocks")
    with Flametree(data=str(folder)) as f:
        push(f.server())
        answer = f.server().call("POST", "/ingester/flush").expect(200)
        assert answer.json()["rows"] == PODS * PROFILES + 1, answer
    return folder / "store" / "o"


@pytest.fixture(scope="module")
def segment(store):
    found = [os.path.join(path, name) for path, _, names in os.walk(store) if path.endswith("live/a") for name in names]
    assert len(found) == 1, found
    return found[0]


def test_ls_is_a_line_for_each_block(store, segment):
    heading, line = ok("ls", str(store)).splitlines()
    assert heading.split()[:4] == ["kind", "from", "hours", "services"]
    words = line.split()
    assert words[0] == "segment" and words[3:7] == ["1", "2", str(PODS * PROFILES + 1), str(PODS * PROFILES + 1)]
    assert words[-2:] == ["anonymous", segment]
    [block] = loaded("ls", segment)
    assert block["kind"] == "segment" and block["services"] == 2 and block["bytes"] == os.path.getsize(segment)
    assert block["fromHour"] == now_ms() // 3_600_000 - 1 or block["fromHour"] == now_ms() // 3_600_000 - 2


def test_a_directory_may_be_that_of_the_server_or_of_a_part_of_the_store(store, segment):
    data = store.parent.parent
    for directory in (data, data / "store", store, store / "v1", os.path.dirname(segment)):
        assert [b["services"] for b in loaded("ls", str(directory))] == [2], directory
        assert "ok, segment" in ok("verify", str(directory))
    inside = subprocess.run([PROGRAM, "block", "ls", "."], cwd=store / "v1", capture_output=True, text=True, timeout=60)
    assert inside.returncode == 0 and len(inside.stdout.splitlines()) == 2 and inside.stderr == "", inside


def test_what_is_not_of_the_store_is_left_out(store, segment, tmp_path):
    copy = tmp_path / "o"
    shutil.copytree(store, copy)
    tenant = os.path.dirname(os.path.dirname(os.path.dirname(os.path.relpath(segment, store))))
    for name in ("v1/tenants/other", tenant + "/notes.txt", tenant + "/live/a/notes.txt", tenant + "/live/m/" + "0" * 16):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_text("no block")
    assert len(loaded("ls", str(copy))) == len(loaded("verify", str(copy))) == 1


@pytest.mark.parametrize("command", ["ls", "show", "verify"])
def test_a_store_without_blocks_says_so(tmp_path, command):
    with Flametree(data=str(tmp_path)):
        for directory in (tmp_path, tmp_path / "store" / "o"):
            answer = run(command, str(directory))
            assert answer.returncode == 0 and answer.stdout == "", answer
            assert answer.stderr.startswith("flametree block %s: no blocks yet in %s" % (command, tmp_path)), answer
    assert loaded(command, str(tmp_path)) == []


def test_show_tells_what_is_inside(segment):
    [block] = loaded("show", segment, "--keys", "--nodes")
    assert [s["service"] for s in block["services"]] == ["cart", "shop"]
    shop = block["services"][1]
    assert shop["rows"] == PODS * PROFILES and shop["keyCounts"] == {"all": 1, "projection": 0, "series": PODS}
    assert shop["nodeCounts"]["1h"] == 1 and [t["type"] for t in shop["types"]] == [CPU]
    assert [k["labels"].get("pod") for k in shop["keys"]] == [None, "p0", "p1", "p2"]
    assert [n["profiles"] for n in shop["nodes"]] == [PODS * PROFILES]
    total = PODS * sum(10 + 1 + n for n in range(PROFILES))
    assert [n["total"] for n in shop["nodes"]] == [total]
    assert sum(part["stored"] for part in block["sections"].values()) + 32 == block["bytes"]
    text = ok("show", segment)
    (placing,) = block["placings"]
    assert "placings    %s\n" % placing in text and shop["types"][0]["placed"] == PODS * PROFILES
    assert "segment of tenant anonymous" in text and "\nshop\n" in text and "3 series" in text and "\x1b" not in text


def test_show_selects_services_and_keys(segment):
    [block] = loaded("show", segment, "--service", "shop", "--keys", "--match", '{pod=~"p[01]"}')
    assert [s["service"] for s in block["services"]] == ["shop"]
    assert [k["labels"]["pod"] for k in block["services"][0]["keys"]] == ["p0", "p1"]
    assert "no service nobody" in fails(1, "show", segment, "--service", "nobody").stderr
    assert "--match" in fails(2, "show", segment, "--match", "{").stderr
    assert "need --service" in fails(1, "show", segment, "--node", "0").stderr


def test_show_has_the_stacks_of_nodes_and_rows(segment):
    shop = loaded("show", segment, "-s", "shop", "--node", "0", "--row", "13", "--top", "3")[0]["services"][0]
    first = shop["nodeStacks"][0]
    assert len(shop["nodeStacks"]) == 3 and first["frames"] == ["a", "main"] and first["value"] == 10 * PODS * PROFILES
    assert shop["row"]["key"] == 2 and shop["row"]["total"] == 10 + 1 + 1
    assert [(x["value"], x["frames"]) for x in shop["rowStacks"]] == [(10, ["a", "main"]), (2, ["c1", "b", "main"])]
    text = ok("show", segment, "-s", "shop", "--node", "0", "--row", "13", "--top", "3")
    assert "a < main" in text and "c1 < b < main" in text and "and 10 more stacks" in text
    assert "has 1 nodes" in fails(1, "show", segment, "-s", "shop", "--node", "1").stderr
    assert "no such row" in fails(1, "show", segment, "-s", "shop", "--row", "36").stderr


def test_verify_finds_nothing_in_what_a_server_wrote(store, segment):
    said = ok("verify", str(store))
    assert said.startswith(segment + ": ok, segment") and "37 rows" in said
    [block] = loaded("verify", segment)
    assert block["faults"] == [] and block["services"] == 2 and block["rows"] == 37


def test_verify_finds_nothing_in_what_compaction_made(tmp_path):
    """Blocks of all kinds: leaves and one that came late, hours, days, windows."""
    day, hour = 86_400 * 10**9, 3600 * 10**9
    start = (time.time_ns() // day - 4) * day
    with Flametree(*AT_ONCE, data=str(tmp_path)) as f:
        s = f.server()
        for late in (False, True):
            for n in range(90):
                labels = {"__name__": "process_cpu", "service_name": "s%d" % (n % 3), "pod": "p%d" % (n % 7)}
                stacks = [("main;a%d;b%d" % (n % 5, i), 1 + n * i) for i in range(8)]
                s.push(labels, Pprof(*stacks, time_ns=start + n % 3 * day + n % 20 * hour + n * 10**9 + late)).expect(200)
            s.call("POST", "/ingester/flush").expect(200)
            await_("the compactor to be done", lambda: s.call("POST", "/compactor/run?timeout=20s").expect(200).json()["settled"], 300)
        blocks = loaded("ls", str(tmp_path / "store" / "o"))
        assert {b["kind"] for b in blocks} >= {"raw", "hours", "days"}, blocks
        verified = loaded("verify", *[b["file"] for b in blocks])
    assert sum(b["profiles"] for b in blocks if b["kind"] == "raw") >= 180
    assert all(b["faults"] == [] for b in verified) and sum(b["nodes"] for b in verified) > 100


def damaged(segment, tmp_path, change):
    copy = tmp_path / "block"
    data = bytearray(open(segment, "rb").read())
    copy.write_bytes(change(data))
    return str(copy)


def flip(data, at):
    data[at] ^= 1
    return data


def test_verify_finds_every_flipped_bit(segment, tmp_path):
    size = os.path.getsize(segment)
    for at in range(0, size, max(1, size // 40)):
        answer = fails(1, "verify", damaged(segment, tmp_path, lambda data: flip(data, at)))
        assert "fault" in answer.stdout or str(tmp_path / "block") in answer.stderr, (at, answer)
    answer = fails(1, "verify", "--format", "json", damaged(segment, tmp_path, lambda data: flip(data, 5)))
    assert len(json.loads(answer.stdout)[0]["faults"]) >= 1, answer


@pytest.mark.parametrize("name, change", [
    ("empty", lambda data: b""), ("half", lambda data: data[:len(data) // 2]), ("a byte short", lambda data: data[:-1]),
    ("text", lambda data: b"no block at all\n" * 100), ("zeros", lambda data: bytes(len(data))),
], ids=lambda x: x if isinstance(x, str) else "")
def test_what_is_no_block_is_told_in_one_line(segment, tmp_path, name, change):
    path = damaged(segment, tmp_path, change)
    for command in ("ls", "show", "verify"):
        answer = fails(1, command, path)
        assert answer.stderr.startswith("flametree block %s: %s: " % (command, path)) and answer.stderr.count("\n") == 1, answer
        assert answer.stdout == ""


def test_a_file_that_fails_does_not_stop_the_others(segment, tmp_path):
    good = tmp_path / "z"
    shutil.copy(segment, good)
    answer = fails(1, "ls", str(tmp_path / "nothing"), str(good))
    assert "nothing: No such file" in answer.stderr and answer.stdout.splitlines()[1].endswith(" %s" % good)
    answer = fails(1, "verify", damaged(segment, tmp_path, lambda data: flip(data, 3)), str(good))
    assert "%s: ok" % good in answer.stdout and "fault" in answer.stdout
    assert len(json.loads(fails(1, "ls", "--format", "json", "/dev/null", str(good)).stdout)) == 1
    assert "usage: flametree block ls|show|verify FILE..." in subprocess.run([PROGRAM, "block"], capture_output=True, text=True).stderr


@pytest.mark.parametrize("command", ["ls", "show", "verify"])
def test_what_is_no_file_is_not_waited_for(tmp_path, command):
    os.mkfifo(tmp_path / "pipe")
    done = run(command, str(tmp_path / "pipe"))
    assert done.returncode == 1 and "not a file" in done.stderr, done.stderr
