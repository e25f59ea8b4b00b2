"""Files of recorders go in by `flametree push`, and what comes out is what `go tool pprof` reads."""
import os
import re
import shutil
import subprocess
import sys

import pytest
from cli import ok
from client import CPU, Pprof, now_ms, unique
from conftest import HERE, get, installed, own

RECORDERS = os.path.join(HERE, "recorders")


def record(*command):
    """Runs a recorder; skips where the kernel does not let it."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    if done.returncode and re.search(r"[Pp]ermission|not permitted|not supported|No such device", done.stderr):
        pytest.skip("%s may not record here: %s" % (command[0], done.stderr.strip().splitlines()[-1]))
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def py_spy():
    def install(folder):
        get("recorders", sys.executable, "-m", "venv", folder)
        get("recorders", os.path.join(folder, "bin/pip"), "install", "-q", "--disable-pip-version-check", "--retries=1", "-r", os.path.join(RECORDERS, "requirements.txt"))
    return os.path.join(installed("recorders", "requirements.txt", install), "bin/py-spy")


def share(stacks, name):
    return sum(v for stack, v in stacks.items() if any(name in frame for frame in stack.split(";"))) / sum(stacks.values())


def test_text_of_perf_script(server, asked, tmp_path):
    if not shutil.which("perf"):
        pytest.skip("needs perf")
    program, data, service = str(tmp_path / "hot"), str(tmp_path / "perf.data"), unique("perf")
    subprocess.run(["gcc", "-O1", "-fno-omit-frame-pointer", "-fno-inline", "-o", program, os.path.join(RECORDERS, "hot.c")], check=True)
    record("perf", "record", "-q", "-e", "cpu-clock", "-F", "199", "-g", "-o", data, program)
    text = tmp_path / "hot.perf"
    text.write_text(record("perf", "script", "-i", data))
    ok("push", str(text), "--label", "service_name=" + service, "--sample-rate", "199", url=server.push_url)
    stacks = asked.stacks(service)
    assert 0.7 < share(stacks, "burn_hot_loop") < 0.9 and 0.1 < share(stacks, "burn_other") < 0.3, stacks
    assert 700_000_000 < sum(stacks.values()) < 1_500_000_000, sum(stacks.values())


@pytest.mark.parametrize("form, file", [("raw", "spin.folded"), ("speedscope", "spin.speedscope.json")])
def test_recordings_of_py_spy(server, asked, py_spy, tmp_path, form, file):
    path, service = str(tmp_path / file), unique("spy")
    record(py_spy, "record", "-n", "-f", form, "-r", "100", "-o", path, "--", sys.executable, os.path.join(RECORDERS, "spin.py"))
    ok("push", path, "--label", "service_name=" + service, url=server.push_url)
    found = {}
    for type in asked.types(service):
        if type.endswith(":nanoseconds") or ":nanoseconds:" in type:
            found.update(asked.stacks(service, type))
    assert share(found, "burn_hot_loop") > 0.8 and sum(found.values()) > 700_000_000, found


def flat_of(text):
    """{name: nanoseconds} of the table of `go tool pprof -top`; "(inline)" stands behind the names of inlined functions."""
    rows = text[text.index("flat%"):].splitlines()[1:]
    cells = [row.removesuffix(" (inline)").split() for row in rows]
    return {c[-1]: int(c[0].removesuffix("ns")) for c in cells if c[0] != "0"}


def test_go_tool_pprof_reads_what_comes_out(server, asked, tmp_path):
    go, service = own("go", "go"), unique("export")
    for i in range(3):
        samples = [("main;work;leaf", 300_000_000 + i), ("main;work", 100_000_000), (["main", ["outer", "inlined"]], 50_000_000)]
        asked.push({"__name__": "process_cpu", "service_name": service}, Pprof(*samples, time_ns=(now_ms() - 60_000 + i) * 10**6)).expect(200)
    path = str(tmp_path / "out.pb.gz")
    ok("query", CPU, "--service", service, "--format", "pprof", "-o", path, url=server.url)
    top = subprocess.run([go, "tool", "pprof", "-top", "-unit=ns", path], capture_output=True, text=True, timeout=120)
    assert top.returncode == 0, top.stderr
    assert flat_of(top.stdout) == {"leaf": 900_000_003, "work": 300_000_000, "inlined": 150_000_000}
    assert asked.stacks(service) == {"main;work;leaf": 900_000_003, "main;work": 300_000_000, "main;outer;inlined": 150_000_000}
