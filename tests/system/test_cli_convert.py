"""Files of profiles without a server: `convert` into every format and back, `flame` and `top`."""
import glob
import gzip
import json
import os
import re

import pytest
from cli import fails, ok, on_terminal, run
from client import Pprof, flame, read_pprof, unpb

TYPES = (("alloc_objects", "count"), ("alloc_space", "bytes"), ("inuse_objects", "count"), ("inuse_space", "bytes"))
SAMPLES = [("main;work;leaf", [4, 400, 1, 100]), ("main;work", [3, 30, 0, 0]), (["main", ["outer", "inlined"], "leaf"], [2, 20, 2, 20]), ("main;idle é", [1, 1, 1, 1])]
STACKS = {"main;work;leaf": 400, "main;work": 30, "main;outer;inlined;leaf": 20, "main;idle é": 1}
CORPUS = os.environ.get("FLAMETREE_CORPUS") or os.path.join(os.path.dirname(__file__), "../../../shared/corpus")


@pytest.fixture
def heap(tmp_path):
    path = tmp_path / "heap.pb.gz"
    path.write_bytes(gzip.compress(Pprof(*SAMPLES, types=TYPES, period_type=("space", "bytes"), period=512 << 10, time_ns=1700000000 * 10**9).encode()))
    return str(path)


def folded(text):
    return {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in text.splitlines()}


def test_collapsed_stacks_have_the_sums_of_the_type_that_was_asked_for(heap, tmp_path):
    for column, (name, _) in enumerate(TYPES):
        want = {stack: row[1][column] for stack, row in zip(STACKS, SAMPLES) if row[1][column]}
        assert folded(ok("convert", heap, "-", "--to", "folded", "--type", name)) == want
    out = str(tmp_path / "heap.folded")
    assert ok("convert", heap, out, "--type", "alloc_space") == ""
    assert folded(open(out).read()) == STACKS
    # And back: pprof of collapsed stacks, and collapsed stacks of that.
    again = str(tmp_path / "again.pb")
    ok("convert", out, again)
    assert {k: v[0] for k, v in read_pprof(open(again, "rb").read())["stacks"].items()} == STACKS
    assert folded(ok("convert", again, "-", "--to", "folded")) == STACKS


def test_the_usual_type_is_taken_and_the_others_are_said(heap):
    done = run("convert", heap, "-", "--to", "folded")
    assert done.returncode == 0 and folded(done.stdout) == {"main;work;leaf": 100, "main;outer;inlined;leaf": 20, "main;idle é": 1}
    assert "inuse_space/bytes; --type chooses another: alloc_objects/count, alloc_space/bytes, inuse_objects/count" in done.stderr


def test_pprof_stays_what_it_was(heap, tmp_path):
    """Types, stacks, mappings, period and time; only numbers of rows change."""
    out = tmp_path / "out.pb.gz"
    ok("convert", heap, str(out), "--type", "inuse_space")
    a, b = read_pprof(open(heap, "rb").read()), read_pprof(out.read_bytes())
    assert (a["types"], a["stacks"]) == (b["types"], b["stacks"])
    for field in (9, 12):
        assert a["fields"][field] == b["fields"][field]
    assert len(a["fields"][3]) == len(b["fields"][3]) == 1


def test_speedscope_has_all_types_and_is_read_again(heap, tmp_path):
    out = str(tmp_path / "heap.speedscope.json")
    done = run("convert", heap, out)
    assert done.returncode == 0 and done.stderr == ""
    file = json.load(open(out))
    assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert [(p["name"], p["unit"], p["endValue"]) for p in file["profiles"]] == [
        ("alloc_objects/count", "none", 10), ("alloc_space/bytes", "bytes", 451), ("inuse_objects/count", "none", 4), ("inuse_space/bytes", "bytes", 121)]
    names = [frame["name"] for frame in file["shared"]["frames"]]
    space = file["profiles"][1]
    assert {";".join(names[i] for i in stack): w for stack, w in zip(space["samples"], space["weights"])} == STACKS
    assert folded(ok("convert", out, "-", "--to", "folded", "--type", "alloc_space")) == STACKS
    one = json.loads(ok("convert", heap, "-", "--to", "speedscope", "--type", "inuse_objects"))
    assert [p["name"] for p in one["profiles"]] == ["inuse_objects/count"]


def test_flamebearer_is_that_of_the_servers_renderer(heap):
    file = json.loads(ok("convert", heap, "-", "--to", "flamebearer", "--type", "alloc_space"))
    assert file["version"] == 1 and file["metadata"]["format"] == "single" and file["metadata"]["units"] == "bytes"
    assert file["flamebearer"]["numTicks"] == 451 and file["flamebearer"]["maxSelf"] == 400
    got = flame({"names": file["flamebearer"]["names"], "levels": file["flamebearer"]["levels"]})
    assert {stack.removeprefix("total;"): own for stack, (own, _) in got.items() if own} == STACKS


def test_addresses_without_a_name_are_shown_as_such(tmp_path):
    path = tmp_path / "bare.pb"
    p = Pprof()
    p.locations.append([1, 1, 0x1234, []])
    p.samples.append([[1], [7], []])
    path.write_bytes(p.encode())
    assert folded(ok("convert", str(path), "-", "--to", "folded")) == {"app!0x1234": 7}
    assert json.loads(ok("convert", str(path), "-", "--to", "speedscope"))["shared"]["frames"] == [{"name": "app!0x1234"}]


def test_names_that_are_no_utf8_are_mended_in_every_format(tmp_path):
    """Protobuf has no such text: Pyroscope refuses a pprof that has it."""
    path, out, want = tmp_path / "latin.folded", tmp_path / "latin.pb", {"main;m\ufffdthode": 3, "main;méthode": 2}
    path.write_bytes(b"main;m\xe9thode 3\n" + "main;méthode 2\n".encode())
    assert folded(ok("convert", str(path), "-", "--to", "folded")) == want
    ok("convert", str(path), str(out))
    assert {k: v[0] for k, v in read_pprof(out.read_bytes())["stacks"].items()} == want and folded(ok("convert", str(out), "-", "--to", "folded")) == want
    assert "m\ufffdthode" in ok("flame", str(path)) and "m\ufffdthode" in ok("top", str(path))


def test_a_period_type_without_a_name_keeps_its_unit(tmp_path):
    """Agents of .NET send it so; it is part of the profile type's name."""
    path, out = tmp_path / "in.pb", tmp_path / "out.pb"
    path.write_bytes(Pprof(("a", 1), period_type=("", "nanoseconds")).encode())
    ok("convert", str(path), str(out))
    p = read_pprof(out.read_bytes())
    assert [p["strings"][unpb(p["fields"][11][0]).get(k, [0])[0]] for k in (1, 2)] == ["", "nanoseconds"]


def test_standard_input_and_output(heap):
    with open(heap, "rb") as f:
        data = f.read()
    done = run("convert", "-", "-", "--to", "pprof", data=data, text=False)
    assert done.returncode == 0 and read_pprof(done.stdout)["stacks"] == read_pprof(data)["stacks"]
    text = ok("convert", "-", "-", "--to", "folded", data="a;b 3\na;c 4\n")
    assert folded(text) == {"a;b": 3, "a;c": 4}


def test_a_stack_of_more_than_a_megabyte_is_written_whole(tmp_path):
    path, deep = tmp_path / "deep.folded", ";".join("frame%d" % i for i in range(130_000))
    path.write_text(deep + " 3\nm;y 4\n")
    assert len(deep) > 1 << 20 and folded(ok("convert", str(path), "-", "--to", "folded")) == {deep: 3, "m;y": 4}


def test_comments_at_the_beginning_of_collapsed_stacks_are_no_stacks():
    text = "# command: py-spy record -d 5\n# py-spy 0.3.14\nmain;work 12\nmain;idle_[k] 3\n"
    assert folded(ok("convert", "-", "-", "--to", "folded", data=text)) == {"main;work": 12, "main;idle_[k]": 3}
    assert 'line 3: bad count: "main x"' in fails(1, "convert", "-", "-", "--to", "folded", "--format", "folded", data="# a\n# b\nmain x\n")


def test_a_flame_graph_and_a_table_of_a_file(heap):
    out = ok("flame", heap, "--type", "alloc_space", "--width", "80")
    assert out.splitlines()[:2] == ["alloc_space/bytes", "451 B total, %s" % heap] and "work" in out and "95.3 %" in out
    assert len(ok("flame", heap, "--type", "alloc_space", "--depth", "1").splitlines()) == 3
    out = ok("top", heap, "--type", "alloc_space")
    rows = [line.split() for line in out.splitlines()[3:]]
    assert [row[-1] for row in rows[:2]] == ["leaf", "work"] and rows[0][:3] == ["420", "B", "93.1"]
    assert len(ok("top", heap, "--rows", "1").splitlines()) == 4
    shown, status = on_terminal("top", heap)
    assert status == 0 and "leaf" in shown, shown  # once, and it ends


def test_what_is_wrong_is_said(heap, tmp_path):
    assert "its ending tells no format" in fails(2, "convert", heap, str(tmp_path / "x.y"))
    assert "no type has 'cpu'; types are: alloc_objects/count, alloc_space/bytes" in fails(1, "convert", heap, "-", "--to", "folded", "--type", "cpu")
    assert "more than one type has 'alloc'" in fails(1, "convert", heap, "-", "--to", "folded", "--type", "alloc")
    assert "nothing-there" in fails(1, "flame", str(tmp_path / "nothing-there"))
    bad = tmp_path / "bad.pb.gz"
    bad.write_bytes(open(heap, "rb").read()[:100])
    out = tmp_path / "kept.folded"
    out.write_text("kept")
    assert str(bad) in fails(1, "convert", str(bad), str(out)) and out.read_text() == "kept"
    assert os.listdir(tmp_path) and not glob.glob(str(tmp_path / "*.partial"))
    negative = tmp_path / "negative.pb"
    negative.write_bytes(Pprof(("a", -3), ("b", 5)).encode())
    assert "speedscope cannot hold the negative value -3" in fails(1, "convert", str(negative), "-", "--to", "speedscope")
    assert folded(ok("convert", str(negative), "-", "--to", "folded")) == {"a": -3, "b": 5}
    empty = tmp_path / "empty.pb"
    empty.write_bytes(Pprof(types=(("cpu", "nanoseconds"),)).encode())
    assert "its samples have no stacks" in fails(3, "flame", str(empty), "--format", "pprof")
    shown, status = on_terminal("convert", heap, "-", "--to", "pprof", stderr_too=True)
    assert status == 2 and "not for a terminal" in shown


def test_perf_script_keeps_command_and_process_in_pprof(tmp_path):
    text, out = tmp_path / "x.perf", tmp_path / "x.pb"
    text.write_text("shop 77 1.5: 1 cycles:\n\t12 f (/a)\n\nshop 78 1.5: 1 cycles:\n\t12 f (/a)\n\nshop 78 1.6: 3 faults:\n\t12 f (/a)\n")
    assert ok("convert", str(text), "-", "--to", "folded", "--type", "cycles") == "shop;f 2\n"
    assert ok("convert", str(text), "-", "--to", "folded", "--type", "faults") == "shop;f 3\n"
    ok("convert", str(text), str(out), "--type", "cycles")
    message = out.read_bytes()
    assert all(word in message for word in (b"comm", b"pid", b"shop", b"77", b"78"))


def test_a_trace_of_chrome_has_a_profile_for_each_thread(tmp_path):
    def piece(pid, function):
        nodes = [{"id": 1, "callFrame": {"functionName": function, "url": "", "lineNumber": -1}}]
        return {"name": "ProfileChunk", "ph": "P", "pid": pid, "id": "0x%d" % pid, "ts": 1, "args": {"data": {"cpuProfile": {"nodes": nodes, "samples": [1, 1]}, "timeDeltas": [0, 3]}}}
    path = tmp_path / "trace.json"
    path.write_text("[\n" + ",\n".join(json.dumps(e) for e in (piece(1, "a"), piece(2, "b"))))
    assert ok("convert", str(path), "-", "--to", "folded", "--type", "0x1 wall") == "a 3000\n"
    assert ok("convert", str(path), "-", "--to", "folded", "--type", "0x2 samples") == "b 2\n"
    assert len(json.loads(ok("convert", str(path), "-", "--to", "speedscope"))["profiles"]) == 4
    assert "b" in ok("flame", str(path), "--type", "0x2 wall") and "a" in ok("top", str(path), "--type", "0x1 wall")


# Refused by the decoder; with negative sums; with samples without a stack, which count in no flame graph (docs/formats/flamegraph.md).
LEFT_OUT = {"pprof/invalid-utf8.pb.gz", "pprof/dotnet-73-function-ids-0.pb", "pprof/go-alloc-space-delta-negative.pb.gz", "pprof/php-wordpress.pb", "pprof/python-austin.pb"}


def of_corpus():
    if not os.path.exists(os.path.join(CORPUS, "MANIFEST.tsv")):
        return
    for line in open(os.path.join(CORPUS, "MANIFEST.tsv")).read().splitlines()[1:]:
        cells = line.split("\t")
        facts = json.loads(cells[12]) if len(cells) > 12 and cells[12].startswith("{") else {}
        if cells[3] in ("pprof", "speedscope", "cpuprofile", "heapprofile") and cells[6] == "input" and facts.get("by_type") and cells[2].startswith(cells[3]) and cells[2] not in LEFT_OUT:
            yield cells[2], facts


@pytest.mark.parametrize("name, facts", of_corpus(), ids=[name for name, _ in of_corpus()])
def test_recorded_files_keep_their_sums_in_every_format(name, facts, tmp_path):
    path = os.path.join(CORPUS, name)
    for row in facts["by_type"]:
        if row["sum"] <= 0 or sum(other["type"] == row["type"] for other in facts["by_type"]) > 1:
            continue
        text = ok("convert", path, "-", "--to", "folded", "--type", row["type"])
        stacks = folded(text)
        own = {}
        for stack, value in stacks.items():
            leaf = re.sub("^.*!(0x[0-9a-f]+)$", r"\1", stack.rpartition(";")[2])  # facts name frames without a function by their address alone
            own[leaf] = own.get(leaf, 0) + value
        assert sum(stacks.values()) == row["sum"], (row["type"], sum(stacks.values()))
        for function, value in row.get("top_self", [])[:3]:
            if ";" not in function and "\n" not in function:
                assert own.get(function) == value, (row["type"], function)
        out = str(tmp_path / "x.pb.gz")
        ok("convert", path, out, "--type", row["type"])
        assert folded(ok("convert", out, "-", "--to", "folded", "--type", row["type"])) == stacks
