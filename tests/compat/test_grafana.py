"""Grafana's data source, Profiles Drilldown, Alloy and profilecli: each test of tests/compat/grafana is a case here, run
against one process and against the processes of deploy/examples."""
import glob
import os
import re
import subprocess

import pytest

HERE = os.path.dirname(os.path.abspath(__file__))
CASES = [name for path in sorted(glob.glob(os.path.join(HERE, "grafana/*_test.go"))) for name in re.findall(r"^func (Test\w+)\(t ", open(path).read(), re.M)]


@pytest.fixture(scope="session")
def program(go_program):
    return go_program("grafana", "test", "-c")


@pytest.mark.parametrize("case", CASES)
def test_grafana(server, program, case):
    env = {**os.environ, "FLAMETREE_QUERY_URL": server.url, "FLAMETREE_PUSH_URL": server.push_url}
    ran = subprocess.run([*program, "-test.run", "^%s$" % case, "-test.v", "-test.timeout", "600s"], env=env, capture_output=True, text=True)
    server.check_alive()
    assert ran.returncode == 0 and "--- PASS: " + case in ran.stdout, ran.stdout[-6000:] + ran.stderr[-2000:]
