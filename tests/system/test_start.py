"""The ways to send profiles that the page shows while there are none: those that are commands are run as they are written."""
import os
import re
import subprocess

import pytest
from client import CPU, Pprof, Server, select
from flametree import BIN

TEXT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../querier/ui/src/start.txt")


def way(name, server):
    """What start.txt tells to run for it, with the address in place; the file's form is what querier/ui/src/start.ts reads."""
    with open(TEXT) as f:
        parts = dict(part.split("\n", 1) for part in re.split(r"^## ", f.read(), flags=re.M)[1:])
    lines = [line for line in parts[name].splitlines() if not line.startswith("> ")]
    return "\n".join(lines).replace("{{server}}", server.rstrip("/"))


@pytest.mark.parametrize("name", ["A file", "Text", "Client", "Java"])
def test_commands_of_the_page_work_as_written(shared, tmp_path, name):
    command = way(name, shared.push_url)
    service = "start-" + name.lower().replace(" ", "-")
    assert "my-service" in command
    command = command.replace("my-service", service)
    (tmp_path / "cpu.pb.gz").write_bytes(Pprof(("main;work", 1_000_000_000)).encode())
    (tmp_path / "cpu.collapsed").write_text("main;work 100\n")
    command = re.sub(r"^asprof .*\n", "", command, flags=re.M)  # wrote cpu.collapsed
    env = {**os.environ, "PATH": BIN + os.pathsep + os.environ["PATH"]}
    ran = subprocess.run(["sh", "-e", "-c", command], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran
    asked = Server(shared.url, shared.push_url, strict=True)
    stack = "main;work;compute" if name == "Text" else "main;work"
    assert asked.stacks(service, CPU) == {stack: 1_000_000_000}, (command, ran, select(service))
