"""The code that the page shows while there are no profiles is run as it is written, around a busy loop."""
import os
import re
import subprocess

from client import CPU, unique
from conftest import TOP
from test_agents import WALL

MARK = "// Your program runs here."


def code_of(name, server, service):
    with open(os.path.join(TOP, "querier/ui/src/start.txt")) as f:
        parts = dict(part.split("\n", 1) for part in re.split(r"^## ", f.read(), flags=re.M)[1:])
    code = parts[name].split("\n--\n")[1]
    assert "my-service" in code and "{{server}}" in code
    return code.replace("{{server}}", server.push_url.rstrip("/")).replace("my-service", service)


def run(server, *command, cwd=None):
    ran = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=300)
    server.check_alive()
    assert ran.returncode == 0, ran.stdout + ran.stderr


def has(asked, service, type, function):
    stacks = asked.stacks(service, type)
    assert any(function in stack for stack in stacks), stacks


def test_code_for_go(server, asked, go_source_program):
    service = unique("start-go")
    code = code_of("Go", server, service)
    assert MARK in code
    code = code.replace(MARK, "for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {\n\t}").replace('import "', 'import "time"\nimport "', 1)
    run(server, *go_source_program("start", code))
    has(asked, service, CPU, "main.main")


def test_code_for_python(server, asked, python_program, tmp_path):
    service = unique("start-python")
    (tmp_path / "main.py").write_text(code_of("Python", server, service) + """
import time
def burn():
    end = time.thread_time() + 1.5
    while time.thread_time() < end:
        pass
burn()
pyroscope.shutdown()
""")
    run(server, python_program[0], str(tmp_path / "main.py"))
    has(asked, service, CPU, "burn")


def test_code_for_node(server, asked, node_program):
    service, folder = unique("start-node"), os.path.dirname(node_program[1])
    path = os.path.join(folder, "start.mjs")
    with open(path, "w") as f:
        f.write(code_of("Node.js", server, service) + """
function burn() {
  const until = Date.now() + 1500;
  let n = 0;
  while (Date.now() < until) n++;
  return n;
}
burn();
await new Promise((done) => setTimeout(done, 20));
await Pyroscope.stop();
""")
    run(server, node_program[0], path, cwd=folder)
    has(asked, service, WALL, "burn")
