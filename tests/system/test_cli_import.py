"""flametree import: what is imported is what was in the files, once, however old it is, however often it is imported and whatever interrupts it."""
import collections
import gzip
import json
import os
import pathlib
import random
import re
import subprocess
import time

import pytest
from cli import PROGRAM, env_of, on_terminal, run
from client import CPU, Pprof, unique
from crowded import crowded
from exported import read_all
from flametree import AT_ONCE, SAYS_SOON, TOPOLOGIES, Cluster, Flametree, await_, check_blocks, compact, deploy, expire, objects_of

S = 10**9
HOUR = 3600 * S
DAY = 24 * HOUR
OLD = (time.time_ns() // DAY - 100) * DAY  # older than any head takes


pytestmark = pytest.mark.each_value  # each case on one process or on six


@pytest.fixture(scope="module", params=TOPOLOGIES)
def shared(request):
    with deploy(request.param) as f:
        yield f


def target(f):
    """Who takes imports."""
    return f["compactor"].url if isinstance(f, Cluster) else f.url


def imports(f, *args, tenant=None, status=0, **kw):
    answer = run("import", *map(str, args), *(["--tenant", tenant] if tenant else []), url=target(f), **kw)
    assert answer.returncode == status, answer
    return answer.stderr


def profile(rng, time_ns, heap=False):
    stacks = {"main;%s;f%d" % (rng.choice("abc"), rng.randrange(40)): rng.randrange(1, 10**6) for _ in range(rng.randrange(1, 12))}
    if not heap:
        return stacks, Pprof(*stacks.items(), time_ns=time_ns)
    types = (("inuse_objects", "count"), ("inuse_space", "bytes"))
    return stacks, Pprof(*((k, (v, 3 * v)) for k, v in stacks.items()), time_ns=time_ns, types=types, period_type=("space", "bytes"))


class Folder:
    """Files of profiles, and what they sum up to."""

    def __init__(self, path, seed=1):
        self.path, self.rng, self.sums = pathlib.Path(path), random.Random(seed), collections.Counter()
        self.service = unique("imported")

    def add(self, times, sub="", packed=True):
        folder = self.path / sub
        folder.mkdir(parents=True, exist_ok=True)
        for t in times:
            stacks, pprof = profile(self.rng, t)
            self.sums.update(stacks)
            data = pprof.encode()
            (folder / ("%s.%d.%s" % (self.service, t, "pb.gz" if packed else "pprof"))).write_bytes(gzip.compress(data) if packed else data)
        return self


def stacks(f, service, start=OLD - 30 * DAY, end=OLD + 60 * DAY, tenant=None):
    return f.server(tenant).stacks(service, start=start // 10**6, end=end // 10**6, maxNodes=1 << 20)


def objects(f):
    """All that the store has but streams, which ingesters register when they see fit."""
    return sorted(name for name in objects_of(f.store) if not name.startswith("v1/streams/"))


def test_a_folder_that_is_imported_twice_counts_once(shared, tmp_path):
    folder = Folder(tmp_path).add([OLD + k * 97 * S for k in range(200)]).add([OLD + 40 * DAY + k for k in range(5)], "below/it", packed=False)
    said = imports(shared, tmp_path)
    assert "205 profiles" in said and "205 rows were added" in said, said
    assert stacks(shared, folder.service) == dict(folder.sums)
    said = imports(shared, tmp_path)
    assert " 0 rows were added" in said and "205 rows were there already" in said, said
    folder.add([OLD + 3 * HOUR + 5, OLD + DAY])  # an hour that has some, and one that has none
    said = imports(shared, tmp_path)
    assert " 2 rows were added" in said and "205 rows were there already" in said, said
    assert stacks(shared, folder.service) == dict(folder.sums)


def test_a_head_has_nothing_of_what_is_imported(tmp_path):
    folder = Folder(tmp_path).add([OLD + k * HOUR for k in range(5)])
    with Flametree() as f:
        before = [f.metric(name) for name in ("flametree_distributor_records_total", "flametree_ingester_rows", "flametree_ingester_appended_rows_total")]
        imports(f, tmp_path, "--no-compact")
        assert [f.metric(name) for name in ("flametree_distributor_records_total", "flametree_ingester_rows", "flametree_ingester_appended_rows_total")] == before
        assert f.metric("flametree_compactor_imported_profiles_total") == 5 and f.metric("flametree_compactor_imported_rows_total") == 5
        assert stacks(f, folder.service) == dict(folder.sums)
        f.kill()  # it is in the store, not in memory
        f.start()
        assert stacks(f, folder.service) == dict(folder.sums)
        check_blocks(f.store)
        answer = run("manifest", "verify", f.data)
        assert answer.returncode == 0 and "0 wrong" in answer.stdout, answer


def test_small_profiles_of_many_hours_go_in_several_requests(tmp_path):
    """Each hour is an object, and all objects of a request come before its answer."""
    folder = Folder(tmp_path / "in").add([OLD + k * HOUR for k in range(600)])
    with Flametree() as f:
        imports(f, tmp_path / "in", "--no-compact", "--state", tmp_path / "state")
        assert len((tmp_path / "state").read_text().split()) == 3
        assert stacks(f, folder.service) == dict(folder.sums)
        assert "600 rows were there already" in imports(f, tmp_path / "in", "--no-compact")


def test_two_imports_at_once_count_once(shared, tmp_path):
    """One of them waits for the other, request by request; and so do they for the compactor's own commits."""
    folder = Folder(tmp_path).add([OLD + k * 1800 * S for k in range(300)])
    args = [PROGRAM, "import", str(tmp_path), "--no-compact", "--retry", "100"]
    both = [subprocess.Popen(args, env=env_of(target(shared)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(2)]
    said = [process.communicate(timeout=120)[1] for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert stacks(shared, folder.service) == dict(folder.sums)
    compact(shared)
    assert stacks(shared, folder.service) == dict(folder.sums)


def test_a_dry_run_writes_nothing_and_says_what_would_come(tmp_path):
    folder = Folder(tmp_path / "in").add([OLD + k * 600 * S for k in range(30)])
    with Flametree() as f:
        before = objects(f)
        said = imports(f, tmp_path / "in", "--dry-run", "--state", tmp_path / "state")
        assert "dry run: 30 profiles" in said and "30 rows would be added" in said, said
        assert objects(f) == before and not (tmp_path / "state").exists() and stacks(f, folder.service) == {}
        imports(f, tmp_path / "in")
        assert "30 rows were there already" in imports(f, tmp_path / "in", "--dry-run")


def test_damaged_files_are_named_and_left_out_or_stop_it(shared, tmp_path):
    folder = Folder(tmp_path).add([OLD + k * HOUR for k in range(6)])
    (tmp_path / "empty.pb").write_bytes(b"")
    (tmp_path / "text.pb").write_bytes(b"main;a 1\n")
    (tmp_path / "cut.pb.gz").write_bytes(gzip.compress(Pprof(("a", 1), time_ns=OLD).encode())[:-9])
    (tmp_path / "timeless.pb").write_bytes(Pprof(("a", 1), time_ns=0).encode())
    (tmp_path / "wrong.pb").write_bytes(Pprof(("a", [1, 2]), time_ns=OLD).encode())  # more values than types
    (tmp_path / "future.pb").write_bytes(Pprof(("a", 1), time_ns=time.time_ns() + DAY).encode())
    said = imports(shared, tmp_path, status=1)
    for name in ("empty.pb", "text.pb", "cut.pb.gz", "timeless.pb", "wrong.pb", "future.pb"):
        assert "%s: " % (tmp_path / name) in said, (name, said)
    assert "6 profiles could not be imported" in said and "6 rows were added" in said, said
    assert stacks(shared, folder.service) == dict(folder.sums)
    assert "stopped at the first" in imports(shared, tmp_path, "--stop", status=1)


def test_times_come_from_names_or_from_files(shared, tmp_path):
    service = unique("imported")
    by_name, by_file = tmp_path / "name", tmp_path / "file"
    by_name.mkdir(), by_file.mkdir()
    for k, name in enumerate(("cpu-2024-01-31_093000.pb", "other.2024-01-31_103000.x.pb")):
        (by_name / name).write_bytes(Pprof(("a;n%d" % k, 5 + k), time_ns=0 if k else OLD).encode())
    at = OLD + 7 * HOUR + 1
    (by_file / "x.pb").write_bytes(Pprof(("b", 9), time_ns=0).encode())
    os.utime(by_file / "x.pb", ns=(at, at))
    start = 1706693400 * S  # 2024-01-31 09:30:00
    with Flametree("--compactor.days_retention", "0") as f:
        imports(f, by_name, "--time", "name", "--pattern", "%Y-%m-%d_%H%M%S", "-l", "service_name=" + service)
        assert stacks(f, service, start, start) == {"a;n0": 5}
        assert stacks(f, service, start + HOUR, start + HOUR) == {"a;n1": 6}
        imports(f, by_file, "--time", "file", "-l", "service_name=" + service)
        assert stacks(f, service, at - 10**6, at + 10**6) == {"b": 9}
        (by_name / "nothing.pb").write_bytes(Pprof(("a", 1)).encode())
        said = imports(f, by_name, "--time", "name", "--pattern", "%Y-%m-%d_%H%M%S", status=1)
        assert "nothing.pb: its name has no time" in said, said
    for wrong in (["--time", "name"], ["--pattern", "%s"], ["--time", "name", "--pattern", "%H"], ["--time", "name", "--pattern", "%Q"]):
        imports(shared, by_name, *wrong, status=2)


def test_what_is_older_than_all_that_is_kept_is_refused_by_name(shared, tmp_path):
    folder = Folder(tmp_path).add([time.time_ns() - 500 * DAY, OLD])
    said = imports(shared, tmp_path, status=1)
    assert "compactor.days_retention" in said and "1 profiles could not" in said, said


def test_an_import_that_is_killed_goes_on(tmp_path):
    """By its state file, and without one."""
    # Incompressible names make the pieces many.
    folder, rng = tmp_path / "in", random.Random(3)
    folder.mkdir()
    service, sums = unique("imported"), collections.Counter()
    for k in range(40):
        names = {"f%032x" % rng.getrandbits(128): rng.randrange(1, 100) for _ in range(2000)}
        sums.update(names)
        (folder / ("%d.pb.gz" % k)).write_bytes(gzip.compress(Pprof(*names.items(), time_ns=OLD + k * HOUR + 5).encode(), 1))
    with Flametree() as f:
        state = tmp_path / "state"
        for number in (1, 3, 5):
            args = [PROGRAM, "import", str(folder), "-l", "service_name=" + service, "--state", str(state), "--no-compact", "--rate", "20"]
            process = subprocess.Popen(args, env=env_of(f.url), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            await_("%d pieces" % number, lambda: state.exists() and len(state.read_text().split()) >= number or process.poll() is not None, 60, 0.002)
            process.kill()
            process.communicate()
        done = len(state.read_text().split())
        with state.open("a") as out:
            out.write("0123")  # a line that was cut
        f.kill()  # the server as well
        f.start()
        said = imports(f, folder, "-l", "service_name=" + service, "--state", state)
        assert "files were not read" in said, said
        assert stacks(f, service) == dict(sums) and len(state.read_text().split()) > done
        said = imports(f, folder, "-l", "service_name=" + service)
        assert " 0 rows were added" in said and "40 rows were there already" in said, said
        assert stacks(f, service) == dict(sums)
        check_blocks(f.store)


@pytest.mark.parametrize("point", ["import.create", "import.commit", "import.committed", "manifest.page.after"])
def test_a_server_that_dies_in_an_import_counts_each_profile_once(tmp_path, point):
    """And what it did not answer is not noted as done."""
    folder = Folder(tmp_path / "in").add([OLD + k * 600 * S for k in range(30)])
    with Flametree(env={"FLAMETREE_FAULTS": "%s=die@1" % point}) as f:
        imports(f, tmp_path / "in", "--state", tmp_path / "state", "--retry", "0", status=1)
        f.process.wait(60)
        f.process, f.env = None, {k: v for k, v in f.env.items() if k != "FLAMETREE_FAULTS"}
        f.start()
        imports(f, tmp_path / "in", "--state", tmp_path / "state")
        assert stacks(f, folder.service) == dict(folder.sums)
        assert "30 rows were there already" in imports(f, tmp_path / "in")


def test_what_has_expired_is_not_imported_again(tmp_path):
    folder = Folder(tmp_path).add([OLD + k * 600 * S for k in range(30)])
    with Flametree(*AT_ONCE, SAYS_SOON, "--compactor.raw_retention", "1s", "--compactor.hours_retention", "0s", "--compactor.days_retention", "0s") as f:
        imports(f, tmp_path)
        expire(f)
        (tenant,) = json.loads(subprocess.run([PROGRAM, "manifest", "show", "--format", "json", f.store], capture_output=True, text=True, check=True).stdout)
        assert not any(page["blocks"] for page in tenant["pages"] if page["kind"] == "raw")
        assert stacks(f, folder.service) == dict(folder.sums)
        said = imports(f, tmp_path)
        assert " 0 rows were added" in said and "30 rows were there already" in said, said
        folder.add([OLD + 601 * S])
        said = imports(f, tmp_path, status=1)
        assert "which of these are there already cannot be known" in said, said
        del folder.sums
        later = Folder(tmp_path / "later", 2).add([OLD + DAY])
        imports(f, tmp_path / "later")
        assert stacks(f, later.service) == dict(later.sums)


def test_an_export_is_imported_elsewhere_bit_for_bit(shared, tmp_path):
    rng, pushed, service = random.Random(5), collections.Counter(), unique("moved")
    base = (time.time_ns() // HOUR - 1) * HOUR
    server = shared.server()
    for k in range(40):
        heap = k % 5 == 4
        labels = {"__name__": "memory" if heap else "process_cpu", "service_name": service, **rng.choice(({}, {"pod": "a"}, {"pod": "b", "zone": "z"}))}
        _, pprof = profile(rng, base + rng.randrange(HOUR // 2), heap)
        server.push(labels, pprof).expect(200)
    asked = ("--from", str(base), "--until", str(base + HOUR), "--step", "1m", "--service", service)
    answer = run("export", str(tmp_path / "a"), *asked, url=shared.url)
    assert answer.returncode == 0, answer
    with Flametree() as f:
        said = imports(f, tmp_path / "a")
        rows = len(list((tmp_path / "a").rglob("*.pb.gz")))
        assert "%d rows were added" % rows in said, said
        again = run("export", str(tmp_path / "b"), *asked, url=f.url)
        assert again.returncode == 0, again
        assert read_all(tmp_path / "a") == read_all(tmp_path / "b")
        for selector in ("", 'pod="a"', 'zone="z"', 'pod=""'):
            for type in (CPU, "memory:inuse_space:bytes:space:bytes"):
                kw = {"type": type, "selector": selector, "start": base // 10**6, "end": (base + HOUR) // 10**6}
                assert f.server().stacks(service, **kw) == server.stacks(service, **kw), kw
        names = [server.ok("Series", matchers=['{service_name="%s"}' % service], start=base // 10**6, end=(base + HOUR) // 10**6)["labelsSet"] for server in (f.server(), server)]
        assert sorted(names[0], key=str) == sorted(names[1], key=str)


def test_another_server_is_imported_with_patience_and_once(shared, tmp_path):
    rng, service = random.Random(6), unique("moved")
    base = (time.time_ns() // HOUR - 1) * HOUR
    sums = collections.Counter()
    for k in range(9):
        found, pprof = profile(rng, base + rng.randrange(HOUR // 2))
        sums.update(found)
        shared.server().push({"__name__": "process_cpu", "service_name": service, "pod": "p%d" % (k % 3)}, pprof).expect(200)
    with Flametree() as f, crowded(shared.url) as source:
        asked = ("--source", source.url, "--from", str(base), "--until", str(base + HOUR), "--step", "15m", "--service", service)
        before = objects(f)
        said = imports(f, *asked, "--dry-run")
        assert "the source has" in said and objects(f) == before, said
        imports(f, *asked, "--source-name", "old", "--state", tmp_path / "state")
        assert source.refused > 0
        assert stacks(f, service, base, base + HOUR) == dict(sums)
        assert "0 rows were added" in imports(f, *asked, "--source-name", "old")
        asked_so_far = source.asked
        imports(f, *asked, "--source-name", "old", "--state", tmp_path / "state")
        assert source.asked == asked_so_far
        assert stacks(f, service, base, base + HOUR) == dict(sums)


def test_types_of_another_server_are_imported_one_after_the_other(shared, tmp_path):
    """With one state file: what it says of the first type it does not say of the second."""
    rng, service, sums = random.Random(8), unique("moved"), {}
    base = (time.time_ns() // HOUR - 1) * HOUR
    for name, heap in (("process_cpu", False), ("memory", True)):
        sums[name], pprof = profile(rng, base + HOUR // 4, heap)
        shared.server().push({"__name__": name, "service_name": service}, pprof).expect(200)
    with Flametree() as f:
        for name in sums:
            imports(f, "--source", shared.url, "--from", str(base), "--until", str(base + HOUR), "--service", service, "--type", name, "--state", tmp_path / "state")
        kw = {"start": base // 10**6, "end": (base + HOUR) // 10**6}
        assert f.server().stacks(service, **kw) == sums["process_cpu"]
        assert f.server().stacks(service, type="memory:inuse_objects:count:space:bytes", **kw) == sums["memory"]


def test_a_terminal_shows_how_far_it_is_and_how_long_it_takes(shared, tmp_path):
    rng, service = random.Random(9), unique("imported")
    for k in range(6):
        names = [("f%064x" % rng.getrandbits(256), 1) for _ in range(3000)]
        (tmp_path / ("%d.pb" % k)).write_bytes(Pprof(*names, time_ns=OLD + k * HOUR + 5).encode())
    out, code = on_terminal("import", str(tmp_path), "--no-compact", "--rate", "0.5", "-l", "service_name=" + service, "--url", target(shared), stderr_too=True)
    assert code == 0, out
    assert re.search(r"\[=+>? *\] +\d+ %  \d+ profiles, .*about \d+[sm].* left", out), out
    quiet, code = on_terminal("import", str(tmp_path), "--no-compact", "-q", "-l", "service_name=" + service, "--url", target(shared), stderr_too=True)
    assert code == 0 and quiet == "", quiet


def test_tenants_have_their_own_imports(tmp_path):
    folder = Folder(tmp_path).add([OLD + k * HOUR for k in range(4)])
    with Flametree("--auth.multitenancy_enabled", "true", "--admin.listen", "127.0.0.1:0") as f:
        answer = run("import", str(tmp_path), "--tenant", "a", url=f.url)
        assert answer.returncode == 1 and "admin.listen" in answer.stderr, answer
        answer = run("import", str(tmp_path), "--tenant", "a", url=f.admin_url)
        assert answer.returncode == 0, answer
        assert stacks(f, folder.service, tenant="a") == dict(folder.sums)
        assert stacks(f, folder.service, tenant="b") == {}
