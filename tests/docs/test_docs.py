"""Generated pages equal what the program prints; what it exports is what Prometheus' own checker accepts."""
import os
import re
import subprocess
import urllib.request

from flametree import BIN, Flametree

TOP = os.path.join(os.path.dirname(__file__), "../..")
PROGRAM = os.path.join(BIN, "flametree")


def printed(flag):
    return subprocess.run([PROGRAM, flag], capture_output=True, text=True, check=True).stdout


def page(name):
    with open(os.path.join(TOP, "docs", name), encoding="utf-8") as f:
        return f.read()


def test_config_page_is_what_the_program_prints():
    assert page("config.md") == printed("--print-config-docs"), "docs/config.md is out of date: flametree --print-config-docs >docs/config.md"


def test_metrics_page_is_what_the_program_prints():
    assert page("metrics.md") == printed("--print-metrics-docs"), "docs/metrics.md is out of date: flametree --print-metrics-docs >docs/metrics.md"


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
