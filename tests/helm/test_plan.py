# SPDX-License-Identifier: Apache-2.0
"""`flametree plan --values` prints values that the chart takes, and pods that carry the fleet while one of them restarts."""
import json
import os
import re
import subprocess

import pytest
import yaml
from chart import PRESETS, ROLES, size, template
from flametree import BIN, TOP, WITHOUT_SETTINGS

BUCKET = {"storage": {"s3": {"bucket": "profiles"}}}
FLEETS = [
    ["--pods", "1"], ["--pods", "100"], ["--pods", "1000", "--types", "6"], ["--pods", "10000", "--types", "6", "--questions", "20"],
    ["--pods", "100000", "--types", "6", "--stacks", "200"], ["--pods", "300", "--questions", "0", "--raw-retention", "1d", "--hours-retention", "36h", "--days-retention", "10d"],
]


def planned(*args):
    return subprocess.run([os.path.join(BIN, "flametree"), "plan", *args], capture_output=True, text=True, check=True).stdout


def cpu(quantity):
    return float(quantity[:-1]) / 1000 if quantity.endswith("m") else float(quantity)


@pytest.fixture(params=FLEETS, ids=" ".join)
def fleet(request):
    return json.loads(planned(*request.param, "--format", "json")), yaml.safe_load(planned(*request.param, "--values")), request.param


def test_the_chart_takes_the_values(fleet, tmp_path):
    _, values, _ = fleet
    for more in ({}, {"log": "local"}):
        r = template({**BUCKET, **more, **values})
        for role in ROLES:
            assert r.role(role)["spec"]["replicas"] == values[role]["replicas"]
            file = tmp_path / role
            file.write_text(re.sub(r"/(config|data)\b", r"%s/\1" % tmp_path, r.settings(role)))
            (tmp_path / "config/overrides").mkdir(parents=True, exist_ok=True)
            (tmp_path / "config/overrides/overrides.yaml").write_text("overrides: {}\n")
            done = subprocess.run([os.path.join(BIN, "flametree-" + role), "--config", file, "--check-config", "--internal.listen=127.0.0.1:1"], env=WITHOUT_SETTINGS, capture_output=True, text=True)
            assert done.returncode == 0 and not done.stderr, done.stderr


def test_pods_carry_the_load_while_one_restarts(fleet):
    needs, values, _ = fleet
    for role in ROLES:
        pods = values[role]["replicas"] - (role in ("distributor", "ingester"))
        assert pods >= {"distributor": 1, "ingester": 2, "querier": 2, "compactor": 1}[role]
        asked = cpu(values[role]["resources"]["requests"]["cpu"])
        assert pods * asked * 0.7 >= needs[role + "_cores"] * 0.999 and asked <= (6 if role == "compactor" else 2.05), role
        assert role == "compactor" or pods == 1 or (pods - 1) * 2 <= needs[role + "_cores"] * 2 / 0.7 + 2 or role == "ingester", "more pods than the load needs"
    ingester = values["ingester"]
    assert (ingester["replicas"] - 1) * size(ingester["headMemory"]) * 0.7 >= needs["head_bytes"]
    assert (ingester["replicas"] - 1) * size(ingester["persistence"]["size"]) >= needs["log_bytes"]


def test_memory_has_room_beyond_the_budgets(fleet):
    _, values, _ = fleet
    for role in ROLES:
        limit, resources = size(values[role]["memoryLimit"]), values[role]["resources"]
        assert 1.25 * limit <= size(resources["limits"]["memory"]) <= 1.6 * limit, role
        assert size(resources["requests"]["memory"]) <= limit, role
    assert size(values["ingester"]["memoryLimit"]) >= 1.25 * size(values["ingester"]["headMemory"]) + (256 << 20)


def test_retention_is_as_it_was_asked(fleet):
    _, values, args = fleet
    kept = values["compactor"]["config"]
    usual = {"raw_retention": "14d", "hours_retention": "90d", "days_retention": "400d"}
    assert {k: kept[k] for k in usual} == ({"raw_retention": "1d", "hours_retention": "129600s", "days_retention": "10d"} if "--raw-retention" in args else usual)


def test_a_small_fleet_is_told_that_one_process_would_do():
    says = lambda n: "presets/all-in-one.yaml" in planned("--pods", str(n), "--values")
    assert says(100) and not says(100000)


def pods_of(rendering, role):
    """Pods, with an autoscaler the fewest, and what one of them asks for."""
    w = rendering.role(role)
    scalers = [h["spec"]["minReplicas"] for h in rendering.of("HorizontalPodAutoscaler") if h["spec"]["scaleTargetRef"]["name"] == w["metadata"]["name"]]
    return (scalers or [w["spec"].get("replicas")])[0], w["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]


def presets_of_the_page():
    """(preset, pods that are served, pods of it, processors, GiB) of docs/sizing.md."""
    with open(os.path.join(TOP, "docs/sizing.md"), encoding="utf-8") as f:
        rows = re.findall(r"^\| (`[\w-]+`|none) \| ([\d,]+) pods \| (\d+) \| ([\d.]+) processors, ([\d.]+) GiB \|", f.read(), re.M)
    assert {name.strip("`") for name, *_ in rows} == {*PRESETS, "none"}
    return [(name.strip("`"), int(served.replace(",", "")), int(pods), float(cores), float(gib)) for name, served, pods, cores, gib in rows]


@pytest.mark.parametrize("name, served, pods, cores, gib", presets_of_the_page(), ids=lambda v: str(v) if isinstance(v, str) else "")
def test_presets_serve_what_the_page_says_and_ask_for_what_it_says(name, served, pods, cores, gib):
    r = template({} if name == "all-in-one" else BUCKET, [name] if name != "none" else [])
    needs = json.loads(planned("--pods", str(served), "--types", "6", "--format", "json"))
    roles = ["all-in-one"] if name == "all-in-one" else ROLES
    asked = [pods_of(r, role) for role in roles]
    assert sum(n for n, _ in asked) == pods
    assert abs(sum(n * cpu(q["cpu"]) for n, q in asked) - cores) < 0.01 and abs(sum(n * size(q["memory"]) for n, q in asked) / 2**30 - gib) < 0.05
    head = size(re.search(r"head_memory: (\S+)", r.settings(roles[0] if len(roles) == 1 else "ingester"))[1])
    if len(roles) == 1:
        assert cpu(asked[0][1]["cpu"]) >= needs["distributor_cores"] + needs["compactor_cores"] and head * 0.7 >= needs["head_bytes"]
        return
    for role, (n, q) in zip(roles, asked):
        carry = n - (role in ("distributor", "ingester"))
        assert role == "querier" or carry * cpu(q["cpu"]) * 0.7 >= needs[role + "_cores"], role
        assert role != "ingester" or carry * head * 0.7 >= needs["head_bytes"]


def test_the_page_of_sizing_has_the_constants_of_the_program():
    """A row names the constant, and its cell has the number that the source has."""
    with open(os.path.join(TOP, "docs/sizing.md"), encoding="utf-8") as f:
        rows = dict(re.findall(r"^\| `([A-Z_]+)` \| ([^|]+) \|", f.read(), re.M))
    with open(os.path.join(TOP, "deploy/cli/cli_plan_values.c"), encoding="utf-8") as f:
        defined = dict(re.findall(r"^#define ([A-Z_]+) +([0-9.]+)", f.read(), re.M))
    defined = {name: value for name, value in defined.items() if name not in ("MIB", "GIB")}
    assert len(rows) >= 10 and not [name for name in rows if name not in defined], rows
    assert not [(name, rows[name], defined[name]) for name in rows if float(rows[name].split()[0].replace(",", "")) != float(defined[name])]
