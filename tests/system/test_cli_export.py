"""flametree export: each series and step as a pprof file, whose sums are those of the profiles that were pushed."""
import collections
import gzip
import json
import os
import pathlib
import time

import pytest
from cli import At, fails, run
from client import Pprof, read_pprof, unique
from crowded import crowded
from exported import read_all
from flametree import AT_ONCE, SAYS_SOON, TOPOLOGIES, Flametree, deploy, expire, flush

S = 10**9
HOUR = 3600 * S
OLD = ["--limits.reject_older_than", "0", "--ingester.head_age", "60d"]


pytestmark = pytest.mark.each_value  # each case on one process or on six


@pytest.fixture(scope="module", params=TOPOLOGIES)
def shared(request):
    with deploy(request.param, *OLD) as f:
        yield f


@pytest.fixture
def url(shared):
    return At(shared.url)


def export(url, out, *more):
    answer = run("export", str(out), *more, url=url)
    assert answer.returncode == 0, answer
    return answer.stderr


def summed(pushed, step):
    """The same of profiles [(labels, time in ns, {stack: value})]."""
    out = collections.defaultdict(collections.Counter)
    for labels, time_ns, stacks in pushed:
        out[json.dumps(labels, sort_keys=True), ("cpu", "nanoseconds"), -(-time_ns // step) * step].update(stacks)
    return {k: dict(v) for k, v in out.items()}


def push_all(server, pushed):
    for labels, time_ns, stacks in pushed:
        server.push(labels, Pprof(*stacks.items(), time_ns=time_ns)).expect(200)


def labels_of(service, **more):
    return {"__name__": "process_cpu", "service_name": service, **more}


def some(service, base):
    """Series whose label sets contain each other, and times at the very edges of steps and a moment beside them."""
    pushed = []
    for pod in ({}, {"pod": "a"}, {"pod": "a", "zone": "x y\"\\"}, {"pod": "b"}):
        for k, offset in enumerate((-1, 0, 60 * S, 60 * S + 500_000, 119 * S, 180 * S)):
            if len(pod) == 1 and k % 2:
                continue
            pushed.append((labels_of(service, **pod), base + offset, {"main;f%d" % k: 3 + k, "main;all": 10**9 + k}))
    return pushed


def window(base, step, steps):
    return ["--from", str(base - step), "--until", str(base + steps * step), "--step", "%ds" % (step // S)]


def test_files_have_each_series_and_step_to_the_unit(shared, url, tmp_path):
    service, base = unique("export"), (time.time_ns() // HOUR - 1) * HOUR
    pushed = some(service, base)
    push_all(shared.server(), pushed)
    said = export(url, tmp_path, "--service", service, *window(base, 60 * S, 5))
    want = summed(pushed, 60 * S)
    assert read_all(tmp_path) == want
    assert "%d files" % len(want) in said, said
    assert all(service in str(path) for path in tmp_path.rglob("*.pb.gz"))


def test_values_below_zero_and_beyond_doubles_are_exported(shared, url, tmp_path):
    """As deltas of heaps have them. A step whose sum is 0 has its stacks; doubles, which SelectSeries has, are whole numbers to 2^53."""
    service, base = unique("export"), (time.time_ns() // HOUR - 1) * HOUR
    pod = lambda name: labels_of(service, pod=name)
    pushed = [(pod("less"), base + 5 * S, {"main;f": -7}), (pod("less"), base + 6 * S, {"main;g": 3}), (pod("nothing"), base + 7 * S, {"main;f": 5, "main;g": -5}), (pod("nothing"), base + 120 * S + 1, {"main;f": 5, "main;g": -5}),
              (pod("taken back"), base + 8 * S, {"main;f": 5}), (pod("taken back"), base + 9 * S, {"main;f": -5}), (pod("large"), base + 10 * S, {"main;f": 2**62 + 1, "main;g": 7}),
              (pod("edge"), base + 60 * S, {"main;f": 8}), (pod("edge"), base + 60 * S + 500_000, {"main;f": -3, "main;g": 1}), (pod("edge"), base + 90 * S, {"main;g": -4})]
    push_all(shared.server(), pushed)
    export(url, tmp_path, "--service", service, *window(base, 60 * S, 5))
    want = {k: v for k, v in summed(pushed, 60 * S).items() if any(v.values())}
    assert read_all(tmp_path) == want and len(want) == 6


def test_a_total_that_a_double_rounds_is_exported_to_the_unit(shared, url, tmp_path):
    """It does not show whether 1 more lies where its step begins."""
    service, base = unique("export"), (time.time_ns() // HOUR - 1) * HOUR
    at = lambda pod, *times: [(labels_of(service, pod=pod), base + ns, {"f": value}) for ns, value in times]
    pushed = [*at("inside", (20 * S, 2**53 + 1)), *at("edge", (60 * S, 1), (70 * S, 2**54 + 2)), *at("beside", (60 * S, 3), (60 * S + 500_000, 1), (70 * S, -(2**54)))]
    push_all(shared.server(), pushed)
    export(url, tmp_path, "--service", service, *window(base, 60 * S, 3))
    assert read_all(tmp_path) == summed(pushed, 60 * S)


def test_a_selector_and_a_type_choose(shared, url, tmp_path):
    service, base = unique("export"), (time.time_ns() // HOUR - 1) * HOUR
    server = shared.server()
    push_all(server, some(service, base))
    heap = Pprof(("main;a", (3, 400)), time_ns=base + 5 * S, types=(("inuse_objects", "count"), ("inuse_space", "bytes")), period_type=("space", "bytes"))
    server.push({"__name__": "memory", "service_name": service, "pod": "a"}, heap).expect(200)
    export(url, tmp_path / "a", '{service_name="%s",pod="a",zone=""}' % service, "--type", "memory:inuse", *window(base, 3600 * S, 1))
    assert sorted(sum(map(list, (v.values() for v in read_all_types(tmp_path / "a"))), [])) == [3, 400]
    export(url, tmp_path / "b", '{service_name="%s",zone!=""}' % service, *window(base, 3600 * S, 1))
    assert read_all(tmp_path / "b") == summed([p for p in some(service, base) if "zone" in p[0]], 3600 * S)


def read_all_types(folder):
    return [{s: v[0] for s, v in read_pprof(gzip.decompress(p.read_bytes()))["stacks"].items()} for p in pathlib.Path(folder).rglob("*.pb.gz")]


def test_an_export_goes_on_where_it_was_interrupted(shared, url, tmp_path):
    service, base = unique("export"), (time.time_ns() // HOUR - 1) * HOUR
    pushed = some(service, base)
    push_all(shared.server(), pushed)
    asked = ("--service", service, *window(base, 60 * S, 5))
    export(url, tmp_path, *asked)
    files = sorted(tmp_path.rglob("*.pb.gz"))
    kept = {p: p.stat().st_mtime_ns for p in files[1::2]}
    for path in files[::2]:
        path.unlink()
    said = export(url, tmp_path, *asked)
    assert read_all(tmp_path) == summed(pushed, 60 * S)
    assert {p: p.stat().st_mtime_ns for p in kept} == kept and "%d were there already" % len(kept) in said, said


def test_a_server_that_asks_for_patience_gets_it(shared, url, tmp_path):
    service, base = unique("export"), (time.time_ns() // HOUR - 1) * HOUR
    pushed = some(service, base)[:3]
    push_all(shared.server(), pushed)
    with crowded(url) as source:
        export(source.url, tmp_path, "--service", service, *window(base, 3600 * S, 1))
        assert source.refused > 0
        said = fails(1, "export", str(tmp_path / "no"), "--service", service, "--retry", "0", *window(base, 3600 * S, 1), url=source.url)
        assert "429" in said and "too many requests" in said, said
    assert read_all(tmp_path) == summed(pushed, 3600 * S)


def test_a_range_without_data_and_wrong_steps_are_said(url, tmp_path):
    said = fails(3, "export", str(tmp_path), "--service", unique("nobody"), "--from", "now-3h", url=url)
    assert "no profiles of" in said, said
    for step in ("1ms", "0s", "29d", "x"):
        fails(2, "export", str(tmp_path), "--step", step, url=url)
    assert "whole step" in fails(2, "export", str(tmp_path), "--from", "now-1m", "--step", "2h", "--until", "now-1m", url=url)


def test_sums_that_remain_are_exported_by_hours_and_finer_steps_are_refused(tmp_path):
    service, base = unique("export"), (time.time_ns() // (24 * HOUR) - 4) * 24 * HOUR
    pushed = [(labels_of(service, pod=pod), base + k * 600 * S + 7, {"main;f%d" % (k % 5): k + 1}) for pod in "ab" for k in range(40)]
    with Flametree(*AT_ONCE, SAYS_SOON, *OLD, "--compactor.raw_retention", "1s") as f:
        push_all(f.server(), pushed)
        flush(f)
        expire(f)
        asked = ("--service", service, "--from", str(base), "--until", str(base + 24 * HOUR))
        said = fails(1, "export", str(tmp_path / "fine"), *asked, "--step", "1m", url=f.url)
        assert "no longer has single profiles" in said and "--step 1h" in said, said
        assert not (tmp_path / "fine").exists() or not list((tmp_path / "fine").rglob("*.pb.gz"))
        export(f.url, tmp_path / "hours", *asked, "--step", "1h")
        assert read_all(tmp_path / "hours") == summed(pushed, HOUR)
        export(f.url, tmp_path / "day", *asked, "--step", "1d")
        assert read_all(tmp_path / "day") == summed(pushed, 24 * HOUR)
