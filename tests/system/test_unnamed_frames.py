"""Frames without a name, samples without a stack and negative values: every kind of question has the same total, wherever the profiles lie.

A profile of a native program, as agents that do not symbolise send it, has addresses and mappings instead of functions. Each of its frames
is a node with a name that is made from these; nothing of a profile's value is missing anywhere."""
import base64
import gzip
import json
import re
import subprocess
import time
import urllib.parse

import pytest
from cli import PROGRAM, env_of
from client import CPU, QUERIER, flame, packed, pb, read_varint, unpack, unpb
from flametree import AT_ONCE, Flametree, compact, flush

HOUR = 3600 * 10**9
START = (time.time_ns() // HOUR - 30) * HOUR
ALLOC = "memory:alloc_space:bytes:space:bytes"
RANGE = {"start": (START - HOUR) // 10**6, "end": (START + 3 * HOUR) // 10**6}
PERIOD = 7_000_000


class Raw:
    """A pprof message row by row. Locations are (address, mapping, [(function, line)])."""

    def __init__(self, samples, locations=(), functions=(), mappings=(), types=(("cpu", "nanoseconds"),), period_type=("cpu", "nanoseconds"), at=0):
        self.strings = [b""]
        fields = [(1, [pb((1, self.text(t)), (2, self.text(u))) for t, u in types])]
        fields.append((2, [pb((1, packed(ids)), (2, packed([values] if isinstance(values, int) else values))) for ids, values in samples]))
        fields.append((3, [pb((1, i + 1), (2, 0x400000), (3, 0x900000), (5, self.text(file))) for i, file in enumerate(mappings)]))
        fields.append((4, [pb((1, i + 1), (2, mapping or None), (3, address or None), (4, [pb((1, f), (2, line)) for f, line in lines]))
                           for i, (address, mapping, lines) in enumerate(locations)]))
        fields.append((5, [pb((1, i + 1), (2, self.text(name)), (3, self.text(system))) for i, (name, system) in enumerate(functions)]))
        period = pb((1, self.text(period_type[0])), (2, self.text(period_type[1])))
        fields += [(9, START + 20 * 60 * 10**9 + at), (10, 10**10), (11, period), (12, PERIOD)]
        self.bytes = pb(*fields, (6, list(self.strings)))

    def text(self, s):
        s = s if isinstance(s, bytes) else s.encode()
        if s not in self.strings:
            self.strings.append(s)
        return self.strings.index(s)


LIBC = "/usr/lib/libc.so.6"
NATIVE = Raw([([2, 1], 7), ([3, 2, 1], 8), ([5, 4], 9), ([], 11), ([6], 5), ([7, 1], 13), ([8, 1], 1)],
             [(0, 0, [(1, 1)]), (0x1234, 1, []), (0x5678, 1, []), (0, 0, [(2, 1)]), (0x9abc, 0, []), (0, 1, []), (0, 0, []), (0, 2, [])],
             [("m", "m"), ("k", "")], [LIBC, "[vdso]"])
NATIVE_STACKS = {"m;libc.so.6!0x1234": 7, "m;libc.so.6!0x1234;libc.so.6!0x5678": 8, "k;0x9abc": 9, "[unknown]": 11, "[libc.so.6]": 5,
                 "m;[unknown]": 13, "m;[vdso]": 1}
EMPTY = Raw([([1], 6), ([1, 2], 5), ([3, 2], 1), ([4, 2], 2), ([5, 2], 4)],
            [(0, 0, [(1, 1)]), (0, 0, [(2, 1)]), (0, 0, [(3, 1)]), (0, 0, [(4, 0)]), (0x77, 1, [(1, 0)])],
            [("", ""), ("m", "m"), ("ok", "ok"), ("", "_Zsys")], [LIBC])
EMPTY_STACKS = {"[unknown]": 6, "m;[unknown]": 5, "m;ok": 1, "m;_Zsys": 2, "m;libc.so.6!0x77": 4}
DANGLING = Raw([([9, 1], 3), ([2, 1], 4), ([3, 1], 5), ([4, 1], 6), ([1], 7)],
               [(0, 0, [(1, 1)]), (0x10, 0, [(99, 1)]), (0, 0, [(99, 1), (1, 2)]), (0x20, 77, [])], [("m", "m")])
DANGLING_STACKS = {"m;[unknown]": 3, "m;0x10": 4, "m;m;[unknown]": 5, "m;0x20": 6, "m": 7}
BAD_TEXT = Raw([([1], 3)], [(0, 0, [(1, 1)])], [(b"caf\xe9", b"caf\xe9")])
CASES = {"native": (NATIVE, NATIVE_STACKS), "empty": (EMPTY, EMPTY_STACKS), "dangling": (DANGLING, DANGLING_STACKS), "bad-text": (BAD_TEXT, {"caf\ufffd": 3})}

HEAP_TYPES = (("alloc_objects", "count"), ("alloc_space", "bytes"))
# Go's heap deltas have such pairs: one function at two lines, of which one takes away what the other adds.
PAIR = Raw([([1, 2], [-10923, -524312]), ([3, 2], [10923, 524312]), ([4, 2], [3, 300])],
           [(0, 0, [(1, 480)]), (0, 0, [(2, 3)]), (0, 0, [(1, 483)]), (0, 0, [(3, 1)])], [("start", "start"), ("work", "work"), ("z", "z")],
           types=HEAP_TYPES, period_type=("space", "bytes"))
# What stays negative.
LESS = Raw([([1, 2], [-1, -200]), ([3, 2], [3, 500]), ([4], [1, 50])],
           [(0, 0, [(1, 1)]), (0, 0, [(2, 1)]), (0, 0, [(3, 1)]), (0, 0, [(4, 1)])], [("less", "less"), ("work", "work"), ("more", "more"), ("z", "z")],
           types=HEAP_TYPES, period_type=("space", "bytes"))


def selector(service):
    return '{service_name="%s"}' % service


def base(service, kind):
    return {"profileTypeID": kind, "labelSelector": selector(service), **RANGE}


def client(f, service, kind, *args):
    done = subprocess.run([PROGRAM, "query", kind.split(":")[0] + ":" + kind.split(":")[1], "-s", service, "--from", str(RANGE["start"] // 1000), "--until",
                           str(RANGE["end"] // 1000), *args], capture_output=True, env=env_of(f.url), timeout=60)
    assert done.returncode == 0, done
    return done.stdout


def folded(text):
    return {line.rpartition(" ")[0]: int(line.rpartition(" ")[2]) for line in text.splitlines()}


def exported(s, service, kind):
    message = pb((1, kind), (2, selector(service)), (3, RANGE["start"]), (4, RANGE["end"]))
    reply = s.call("POST", "/" + QUERIER + "SelectMergeProfile", message, {"Content-Type": "application/proto"})
    return reply.expect(200).body


def signed(n):
    return n - (1 << 64) if n >> 63 else n


def pprof_sum(body):
    body = gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body
    return sum(signed(unpack(sample[2])[0]) for sample in map(unpb, unpb(body).get(2, [])))


def tree_sum(data):
    """The sum of selves of the TREE bytes."""
    total = at = 0
    while at < len(data):
        n, at = read_varint(data, at)
        at += n
        own, at = read_varint(data, at)
        _, at = read_varint(data, at)
        total += signed(own)
    return total


def totals(f, service, kind=CPU):
    """{question: total}."""
    s = f.server()
    q = base(service, kind)
    graph = s.ok("SelectMergeStacktraces", **q, maxNodes=1 << 20)["flamegraph"]
    series = s.ok("SelectSeries", **q, step=4 * 3600)
    functions = s.ok("SelectMergeStacktraces", **q, format="PROFILE_FORMAT_FUNCTIONS")["functions"]
    tree = base64.b64decode(s.ok("SelectMergeStacktraces", **q, format="PROFILE_FORMAT_TREE").get("tree", ""))
    diff = s.ok("Diff", left=q, right=q)["flamegraph"]
    render = s.call("GET", "/pyroscope/render?" + urllib.parse.urlencode({"query": kind + selector(service), "from": RANGE["start"], "until": RANGE["end"]})).expect(200).json()
    dot = s.ok("SelectMergeStacktraces", **q, format="PROFILE_FORMAT_DOT")["dot"]
    body = exported(s, service, kind)
    top = json.loads(client(f, service, kind, "--top", "100", "--format", "json"))
    return {
        "series": sum(int(p["value"]) for row in series["series"] for p in row["points"]),
        "flame graph": int(graph["total"]), "selves": sum(v[0] for v in flame(graph).values()),
        "tree": tree_sum(tree), "functions": int(functions["total"]), "selves of functions": sum(int(r.get("self", 0)) for r in functions["functions"]),
        "left": int(diff["leftTicks"]), "right": int(diff["rightTicks"]), "render": render["flamebearer"]["numTicks"],
        "dot": int(re.search(r"of (-?\d+)\w* total", dot).group(1)), "pprof": pprof_sum(body), "client's pprof": pprof_sum(client(f, service, kind, "--format", "pprof")),
        "client's folded": sum(folded(client(f, service, kind, "--format", "folded").decode()).values()),
        "client's top": sum(r["self"] for r in top["functions"]),
    }


def stacks(f, service, kind=CPU):
    return {k: v[0] for k, v in flame(f.server().ok("SelectMergeStacktraces", **base(service, kind), maxNodes=1 << 20)["flamegraph"]).items() if v[0]}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with Flametree("--limits.reject_older_than=0", *AT_ONCE, data=str(tmp_path_factory.mktemp("data"))) as f:
        s = f.server()
        for name, (profile, _) in CASES.items():
            s.push({"__name__": "process_cpu", "service_name": name}, profile.bytes).expect(200)
        for name, profile in {"pair": PAIR, "less": LESS}.items():
            s.push({"__name__": "memory", "service_name": name}, profile.bytes).expect(200)
        yield f


def check(f):
    for name, (_, want) in CASES.items():
        assert stacks(f, name) == want, name
        got = totals(f, name)
        assert got == dict.fromkeys(got, sum(want.values())), name
    for name, kind, want, total in [("pair", ALLOC, {"work;z": 300}, 300), ("pair", "memory:alloc_objects:count:space:bytes", {"work;z": 3}, 3),
                                    ("less", ALLOC, {"work;less": -200, "work;more": 500, "z": 50}, 350)]:
        assert stacks(f, name, kind) == want
        got = totals(f, name, kind)
        assert got == dict.fromkeys(got, total), name


def test_every_question_has_the_whole_value_in_heads_segments_and_blocks(server):
    check(server)
    flush(server)
    check(server)
    compact(server)
    check(server)


def test_a_call_site_may_be_a_frame_without_a_name(server):
    s = server.server()
    for site, want in [(["m", "libc.so.6!0x1234"], 15), (["m", "libc.so.6!0x1234", "libc.so.6!0x5678"], 8), (["[unknown]"], 11), (["[unknown]", "x"], 0), (["[libc.so.6]"], 5)]:
        q = {**base("native", CPU), "stackTraceSelector": {"callSite": [{"name": n} for n in site]}}
        assert int(s.ok("SelectMergeStacktraces", **q)["flamegraph"].get("total", 0)) == want, site
        series = s.ok("SelectSeries", **q, step=4 * 3600)
        assert sum(int(p.get("value", 0)) for row in series.get("series", []) for p in row.get("points", [])) == want, site


def test_exported_frames_without_a_name_keep_address_and_mapping(server):
    body = exported(server.server(), "native", CPU)
    m = unpb(body)
    strings = [s.decode() for s in m[6]]
    mappings = {row[1][0]: strings[row[5][0]] for row in map(unpb, m[3])}
    bare = {(row.get(3, [0])[0], mappings.get(row.get(2, [0])[0])) for row in map(unpb, m[4]) if 4 not in row}
    assert bare == {(0x1234, LIBC), (0x5678, LIBC), (0x9abc, None), (0, LIBC), (0, "[vdso]")}


def test_what_was_exported_can_be_pushed_again(server):
    s = server.server()
    for name in CASES:
        s.push({"__name__": "process_cpu", "service_name": name + "-again"}, exported(s, name, CPU)).expect(200)
        assert stacks(server, name + "-again") == CASES[name][1]


@pytest.mark.parametrize("name", CASES)
def test_the_client_gives_the_names_of_the_server_to_a_file(tmp_path, name):
    path = tmp_path / "p.pb"
    path.write_bytes(CASES[name][0].bytes)
    done = subprocess.run([PROGRAM, "convert", str(path), "-", "--to", "folded"], capture_output=True, timeout=60, text=True)
    assert done.returncode == 0 and folded(done.stdout) == CASES[name][1]
