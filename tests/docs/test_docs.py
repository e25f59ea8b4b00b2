"""Generated pages equal what the program prints; what it exports is what Prometheus' own checker accepts."""
import os
import re
import shutil
import subprocess
import urllib.request

import pytest
from flametree import BIN, Flametree

TOP = os.path.join(os.path.dirname(__file__), "../..")
PROGRAM = os.path.join(BIN, "flametree")


def printed(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, check=True).stdout


def page(name):
    with open(os.path.join(TOP, "docs", name), encoding="utf-8") as f:
        return f.read()


def test_config_page_is_what_the_program_prints():
    assert page("config.md") == printed("--print-config-docs"), "docs/config.md is out of date: flametree --print-config-docs >docs/config.md"


def test_metrics_page_is_what_the_program_prints():
    assert page("metrics.md") == printed("--print-metrics-docs"), "docs/metrics.md is out of date: flametree --print-metrics-docs >docs/metrics.md"


def test_page_of_the_command_line_is_what_the_program_prints():
    assert page("cli.md") == printed("help", "--markdown"), "docs/cli.md is out of date: flametree help --markdown >docs/cli.md"


def test_man_page_is_what_the_program_prints():
    assert page("../deploy/flametree/flametree.1") == printed("help", "--man"), "flametree.1 is out of date: flametree help --man >deploy/flametree/flametree.1"


def test_man_page_is_read_without_complaints():
    if not shutil.which("man"):
        pytest.skip("no man here")
    env = {**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8", "MANROFFOPT": ""}
    shown = subprocess.run(["man", "--warnings", "-l", os.path.join(TOP, "deploy/flametree/flametree.1")], capture_output=True, text=True, env=env)
    assert shown.returncode == 0 and not shown.stderr.strip(), shown.stderr
    text = re.sub(".\b", "", shown.stdout)
    assert "flametree push FILE" in text and "EXIT STATUS" in text, text[:2000]


def test_metrics_pass_promtool():
    with Flametree() as f:
        with urllib.request.urlopen(f.url + "/metrics") as answer:
            text = answer.read()
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    names = set(re.findall(rb"^# TYPE (\S+)", text, re.M))
    assert names and all(n.startswith((b"flametree_", b"process_")) for n in names), names


def test_links_in_pages_lead_somewhere():
    pages = [os.path.join(TOP, "README.md")]
    for folder, _, files in os.walk(os.path.join(TOP, "docs")):
        pages += [os.path.join(folder, f) for f in files if f.endswith(".md")]
    for service in ("distributor", "ingester", "querier", "compactor"):
        pages.append(os.path.join(TOP, service, "README.md"))
    missing = []
    for path in pages:
        with open(path, encoding="utf-8") as f:
            for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", f.read()):
                if not re.match(r"[a-z]+:", target) and not os.path.exists(os.path.join(os.path.dirname(path), target)):
                    missing.append((os.path.relpath(path, TOP), target))
    assert not missing, missing
