"""Agents profile a busy program, each by its own protocol and habits; the program's function names, types and tags are
found by query as soon as the agent has ended."""
import os
import subprocess

import pytest
from client import CPU, flame, now_ms, select, unique

DOTTED = ["otel.scope.name", "otel.scope.version", "process.runtime.name", "process.runtime.version"]
MEMORY = "memory:inuse_space:bytes:inuse_space:bytes"
WALL = "wall:wall:nanoseconds:wall:nanoseconds"


@pytest.fixture(scope="session")
def go_agent(go_program):
    return go_program("go", "build")


def run(server, program, service, env=None, said=None):
    """Runs a busy program to its end; returns what it logged. `said` gets the words behind its "done"."""
    ran = subprocess.run([*program, server.push_url.rstrip("/"), service], env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=300)
    server.check_alive()
    done = [line for line in ran.stdout.splitlines() if line.startswith("done")]
    assert ran.returncode == 0 and done, ran.stdout + ran.stderr
    if said is not None:
        said += done[0].split()[1:]
    return ran.stderr


def is_busy(asked, service, type, hot, tagged):
    """Most time was spent below the function hot, and the tag is on the samples of the function tagged alone."""
    def below(stacks, name):
        return sum(v for stack, v in stacks.items() if any(name in frame for frame in stack.split(";")))
    stacks = asked.stacks(service, type)
    total = sum(stacks.values())
    assert total > 500_000_000 and below(stacks, hot) > total * 0.5, (total, sorted(stacks.items(), key=lambda kv: -kv[1])[:5])
    with_tag, without = (below(asked.stacks(service, type, 'job="%s"' % job), tagged) for job in ("tagged", ""))
    assert with_tag > 0 and with_tag + without == below(stacks, tagged), (with_tag, without, stacks)
    # Agents that sample from another thread may read the stack a moment before or after the tag.
    assert without < with_tag * 0.1, (with_tag, without)


def has_labels(asked, service, *scopes, **tags):
    """Every series has the tags and the dotted names, which LabelNames hides from those who do not ask for them."""
    names = [*DOTTED, *tags]
    rows = asked.series(service, *names)
    assert rows and all(set(names) <= set(row) for row in rows), rows
    assert {row["otel.scope.name"] for row in rows} == {"com.grafana.pyroscope/" + s for s in scopes}, rows
    assert all(row[name] == value for row in rows for name, value in tags.items()), rows
    shown = asked.ok("LabelNames", matchers=[select(service)])["names"]
    assert "kit" in shown and not [n for n in shown if "." in n or n == "__session_id__"], shown


def has_spans(asked, service, spans, name, count):
    """A span has the time of its function and no other, but for that of starting and ending it; all of them together have all of it."""
    whole = {stack: v for stack, v in asked.stacks(service).items() if name in stack}
    sums, others = {}, 0
    for span in spans:
        message = {"profileTypeID": CPU, "labelSelector": select(service), "start": now_ms() - 1_800_000, "end": now_ms() + 60_000, "spanSelector": [span]}
        graph = asked.query("SelectMergeSpanProfile", {}, **message).expect(200).json()["flamegraph"]
        for stack, (own, _) in flame(graph).items():
            if own and name in stack:
                sums[span] = sums.get(span, 0) + own
            else:
                others += own
    assert len(spans) == count and sum(sums.values()) > 0.9 * sum(whole.values()) > 100_000_000, (sums, whole)
    assert others < 0.1 * sum(sums.values()), (others, sums)


def types(asked, service):
    return {":".join(t.split(":")[:3]) for t in asked.types(service)}


def test_pyroscope_go_is_served(server, asked, go_agent):
    service, spans = unique("go"), []
    run(server, go_agent, service, said=spans)
    is_busy(asked, service, CPU, "main.burnHotLoop", "main.burnTagged")
    has_labels(asked, service, "go", "godeltaprof", kit="go")
    assert {"process_cpu:cpu:nanoseconds", "process_cpu:samples:count", "memory:alloc_space:bytes", "memory:inuse_space:bytes", "goroutines:goroutine:count"} <= types(asked, service)
    has_spans(asked, service, spans, "main.burnInSpan", 2)


def test_pyroscope_io_of_python_is_served(server, asked, python_program):
    service, spans = unique("python"), []
    said = run(server, python_program, service, said=spans)
    assert "Sending Session" in said and "ERROR" not in said, said
    is_busy(asked, service, CPU, "burn_hot_loop", "burn_tagged")
    has_labels(asked, service, "python", kit="python", **{"team.name": "a b+c"})
    assert "memory:alloc_space:bytes" in types(asked, service), types(asked, service)
    memory = asked.stacks(service, next(t for t in asked.types(service) if t.startswith("memory:alloc_space:")))
    assert any("keep_memory" in stack for stack in memory), memory
    has_spans(asked, service, spans, "burn_in_span", 2)


def test_pyroscope_nodejs_is_served(server, asked, node_program):
    service = unique("node")
    said = run(server, node_program, service, env={"DEBUG": "pyroscope*", "DEBUG_COLORS": "0"})
    assert "profile exporting" in said and "rejected" not in said and "Error sending" not in said, said
    for type in (WALL, "wall:cpu:nanoseconds:wall:nanoseconds"):
        is_busy(asked, service, type, "burnHotLoop", "burnTagged")
    has_labels(asked, service, "nodejs", kit="node", **{"team.name": "a b+c"})
    assert {"wall:samples:count", "memory:inuse_objects:count", "memory:inuse_space:bytes"} <= types(asked, service)
    assert any("keepMemory" in stack for stack in asked.stacks(service, MEMORY))


def test_the_crate_of_rust_is_served(server, asked, rust_program):
    service = unique("rust")
    run(server, rust_program, service)
    is_busy(asked, service, CPU, "burn_hot_loop", "burn_tagged")
    has_labels(asked, service, "rust", kit="rust", **{"team.name": "a b+c"})


def test_the_agent_of_java_is_served_with_its_spans(server, asked, java_program):
    service, spans = unique("java"), []
    run(server, java_program, service, said=spans)
    is_busy(asked, service, CPU, "Busy.burnHotLoop", "Busy.burnTagged")
    has_labels(asked, service, "java", kit="java", **{"team.name": "a b+c"})
    assert {"process_cpu:cpu:nanoseconds", "memory:alloc_in_new_tlab_bytes:bytes", "memory:alloc_in_new_tlab_objects:count", "mutex:contentions:count", "mutex:delay:nanoseconds"} <= types(asked, service)
    memory = asked.stacks(service, next(t for t in asked.types(service) if t.startswith("memory:alloc_in_new_tlab_bytes:")))
    assert sum(v for stack, v in memory.items() if "Busy.allocateMuch" in stack) > 50_000_000, memory
    waits = asked.stacks(service, next(t for t in asked.types(service) if t.startswith("mutex:delay:")))
    assert sum(v for stack, v in waits.items() if "Busy.waitForLock" in stack) > 100_000_000, waits
    has_spans(asked, service, spans, "Busy.burnInSpan", 3)
