"""pyroscope-go profiles a busy program; its function names, types and tags are found by query."""
import subprocess

import pytest
from client import CPU, Server, select, unique
from flametree import Flametree


@pytest.fixture(scope="module")
def busy(go_program):
    return go_program("go", "build")


def test_pyroscope_go_is_served(busy):
    with Flametree() as f:
        service = unique("go")
        ran = subprocess.run([busy, f.url, service], capture_output=True, text=True, timeout=60)
        assert ran.returncode == 0 and ran.stdout.startswith("done"), ran.stderr
        s = Server(f.url, strict=True)
        stacks = s.stacks(service, CPU)
        total = sum(stacks.values())
        hot = sum(v for k, v in stacks.items() if "main.burnHotLoop" in k.split(";"))
        assert total > 10**9 and hot > total * 0.5, (total, hot, sorted(stacks.items(), key=lambda kv: -kv[1])[:5])
        tagged = s.stacks(service, CPU, 'job="tagged"')
        assert any("main.burnTagged" in k for k in tagged), tagged
        assert not any("main.burnTagged" in k for k in s.stacks(service, CPU, 'job=""'))
        types = {t.split(":")[0] + ":" + t.split(":")[1] for t in s.types(service)}
        assert {"process_cpu:cpu", "process_cpu:samples", "memory:alloc_space", "memory:inuse_space", "goroutines:goroutine"} <= types, types
        assert {row["kit"] for row in s.series(service, "kit")} == {"go"}
        names = s.ok("LabelNames", matchers=[select(service)])["names"]
        assert "otel.scope.name" not in names and "__session_id__" not in names, names
        for name, labels in (("otel.scope.name", s.series(service, "otel.scope.name")),):
            assert all(name in row for row in labels), labels
