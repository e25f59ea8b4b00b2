# SPDX-License-Identifier: Apache-2.0
"""Alerts and dashboards ask for metrics and labels that the programs export, in a language that Prometheus reads."""
import json
import os
import re
import subprocess

import pytest
import yaml
from chart import CHART, NAMESPACE, template
from flametree import TOP

DASHBOARDS = sorted(os.listdir(os.path.join(CHART, "files/dashboards")))
BUCKET = {"storage": {"s3": {"bucket": "profiles"}}}
OF_PROMETHEUS = {"up": set()}
OF_TARGETS = {"namespace", "pod", "role", "le"}  # Prometheus gives these by itself, or by the monitors of the chart


def exported():
    """{name: labels} of docs/metrics.md; of a histogram its three names."""
    with open(os.path.join(TOP, "docs/metrics.md"), encoding="utf-8") as f:
        rows = re.findall(r"^\| `(\w+)` \| (\w+) \| ([\w,]*) *\|", f.read(), re.M)
    found = {}
    for name, kind, labels in rows:
        for end in ("_bucket", "_sum", "_count") if kind == "histogram" else ("",):
            found[name + end] = set(filter(None, labels.split(",")))
    assert len(found) > 150
    return found


EXPORTED = exported()


def rendered(values):
    return template({**BUCKET, "monitoring": values})


def alerts():
    spec = rendered({"rules": True}).one("PrometheusRule", "ft-flametree")["spec"]
    return spec, [rule for group in spec["groups"] for rule in group["rules"]]


def dashboard(name):
    data = rendered({"dashboards": True}).one("ConfigMap", "ft-flametree-dashboards")["data"]
    return json.loads(data[name])


def targets(of):
    return [(p["title"], t["expr"], t["legendFormat"]) for p in of["panels"] for t in p.get("targets", [])]


def metrics_of(expr):
    """(name, labels that choose) of each metric."""
    found = re.findall(r"\b(flametree_\w+|process_\w+|up)\b(?:\{([^}]*)\})?", re.sub(r'"[^"]*"', '""', expr))
    assert found, expr
    return [(name, set(re.findall(r"(\w+)\s*(?:=~|!~|!=|=)", chosen))) for name, chosen in found]


def grouped_by(expr):
    return {label for group in re.findall(r"\b(?:by|on|ignoring|without)\s*\(([^)]*)\)", expr) for label in re.split(r",\s*", group) if label}


def wrong_in(expr, shown=""):
    """Names of metrics and labels that nothing exports."""
    wrong, labels = [], set(OF_TARGETS)
    for name, chosen in metrics_of(expr):
        has = EXPORTED.get(name, OF_PROMETHEUS.get(name))
        if has is None:
            wrong.append(name)
            continue
        labels |= has
        wrong += ["%s{%s}" % (name, label) for label in chosen - has - OF_TARGETS]
    wrong += ["by " + label for label in grouped_by(expr) - labels]
    wrong += ["shown " + label for label in set(re.findall(r"\{\{\s*(?:\$labels\.)?(\w+)\s*\}\}", shown)) - labels]
    return wrong


def checked(rules, tmp_path):
    file = tmp_path / "rules.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "all", "rules": rules}]}))
    done = subprocess.run(["promtool", "check", "rules", file], capture_output=True, text=True)
    assert done.returncode == 0 and "%d rules found" % len(rules) in done.stdout, done.stdout + done.stderr


def test_a_wrong_name_is_noticed():
    """So that the tests below cannot pass by reading nothing."""
    assert wrong_in('sum by (pod, tenant) (flametree_gone{}) / up{job="x"}', "{{pod}} {{level}}") == ["flametree_gone", "up{job}", "by tenant", "shown level"]
    assert not wrong_in('sum by (le, method) (rate(flametree_querier_query_seconds_bucket{pod="a"}[5m]))', "{{method}}")
    assert wrong_in("flametree_querier_query_seconds") == ["flametree_querier_query_seconds"]


def test_alerts_ask_for_what_is_exported(tmp_path):
    _, rules = alerts()
    assert len(rules) >= 10 and len({r["alert"] for r in rules}) == len(rules)
    for rule in rules:
        assert not wrong_in(rule["expr"], rule["annotations"]["summary"]), rule
        for name, chosen in metrics_of(rule["expr"]):
            assert {"namespace", "pod"} <= chosen, "%s is of all releases in %s" % (name, rule["alert"])
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["runbook"].startswith("docs/operations.md#"), rule
    checked(rules, tmp_path)


def test_alerts_choose_the_pods_of_the_release():
    _, rules = alerts()
    for rule in rules:
        assert 'namespace="%s"' % NAMESPACE in rule["expr"] and 'pod=~"ft-flametree-.*"' in rule["expr"] and "{{ ." not in rule["expr"], rule


def test_alerts_and_the_page_of_operations_agree():
    """Each alert leads to a heading that is there, and each metric that the page says to look at has an alert or is on a dashboard."""
    with open(os.path.join(TOP, "docs/operations.md"), encoding="utf-8") as f:
        page = f.read()
    headings = {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in re.findall(r"^#+ (.*)$", page, re.M)}
    spec, rules = alerts()
    for rule in rules:
        assert rule["annotations"]["runbook"].split("#")[1] in headings, rule
    text = json.dumps(spec) + "".join(json.dumps(dashboard(name)) for name in DASHBOARDS)
    table = page.split("\n## What to look at\n")[1].strip().split("\n\n")[0]
    asked = set(re.findall(r"flametree_\w+", "".join(row.split("|")[1] for row in table.splitlines()[2:])))
    assert len(asked) > 8 and not [m for m in asked if m not in text], [m for m in asked if m not in text]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_dashboards_ask_for_what_is_exported(name, tmp_path):
    of = dashboard(name)
    wrong = [(title, w) for title, expr, legend in targets(of) for w in wrong_in(expr, legend)]
    assert not wrong, wrong
    for title, expr, _ in targets(of):
        for metric, chosen in metrics_of(expr):
            assert {"namespace", "pod"} <= chosen, (title, metric)
    plain = [expr.replace("$__rate_interval", "5m").replace("$namespace", "a").replace("$pod", "b") for _, expr, _ in targets(of)]
    assert not [expr for expr in plain if "$" in expr]
    checked([{"record": "a:%d" % i, "expr": expr} for i, expr in enumerate(plain)], tmp_path)


@pytest.mark.parametrize("name", DASHBOARDS)
def test_dashboards_are_what_grafana_reads(name):
    of = dashboard(name)
    assert of["uid"] == "flametree-" + name[:-5] and of["title"].startswith("Flametree: ") and of["schemaVersion"] >= 36
    ids = [p["id"] for p in of["panels"]]
    assert len(ids) == len(set(ids)) and len(ids) > 10
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in of["panels"]]
    assert len(places) == len(set(places)) and all(p["gridPos"]["x"] + p["gridPos"]["w"] <= 24 for p in of["panels"])
    assert [v["name"] for v in of["templating"]["list"]] == ["datasource", "namespace", "pod"]
    for v in of["templating"]["list"][1:]:
        assert not wrong_in(v["query"].split("(")[1].split(",")[0]), v
    assert all(p["datasource"]["uid"] == "${datasource}" for p in of["panels"] if p["type"] != "row")
    assert all(len(p["title"]) <= 60 for p in of["panels"])


def test_sidecars_find_dashboards_and_the_data_source():
    r = rendered({"dashboards": True, "datasource": True, "labels": {"release": "prometheus"}})
    assert r.one("ConfigMap", "ft-flametree-dashboards")["metadata"]["labels"].items() >= {"grafana_dashboard": "1", "release": "prometheus"}.items()
    source = r.one("ConfigMap", "ft-flametree-datasource")
    assert source["metadata"]["labels"]["grafana_datasource"] == "1"
    listed = yaml.safe_load(source["data"]["ft-flametree.yaml"])["datasources"]
    assert [(d["type"], d["url"]) for d in listed] == [("grafana-pyroscope-datasource", "http://ft-flametree-querier.%s.svc.cluster.local:4040" % NAMESPACE)]
    assert r.one("Service", "ft-flametree-querier")
    assert rendered({"podMonitor": True, "labels": {"release": "prometheus"}}).one("PodMonitor", "ft-flametree")["metadata"]["labels"]["release"] == "prometheus"


def test_the_data_source_has_the_tenant_and_takes_the_certificate():
    def source(**more):
        r = template({**BUCKET, "monitoring": {"datasource": True, "datasourceTenant": "acme"}, **more})
        return yaml.safe_load(r.one("ConfigMap", "ft-flametree-datasource")["data"]["ft-flametree.yaml"])["datasources"][0]
    assert not source().keys() & {"jsonData", "secureJsonData"}
    both = source(multitenancy=True, tls={"public": {"secretName": "outside"}})
    assert both["jsonData"] == {"httpHeaderName1": "X-Scope-OrgID", "tlsSkipVerify": True} and both["secureJsonData"] == {"httpHeaderValue1": "acme"}
    assert both["url"].startswith("https://")


def test_alerts_fire_for_what_they_are_made_for(tmp_path):
    """promtool plays series and looks at the alerts: labels of both sides of a comparison meet, and those of other releases are left alone."""
    spec, _ = alerts()
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": spec["groups"]}))
    mine, other = ('namespace="%s",pod="ft-flametree-%s"' % (NAMESPACE, pod) for pod in ("ingester-0", "ingester-1"))
    foreign = 'namespace="other",pod="ft-flametree-ingester-0"'

    def played(name, bad, good):
        return [{"series": "%s{%s}" % (name, labels), "values": "%s+0x60" % value} for labels, value in ((mine, bad), (other, good), (foreign, bad))]

    cases = [
        ("FlametreeDown", played("flametree_ready", 0, 1)), ("FlametreeDown", played("up", 0, 1)), ("FlametreeFlushFailing", played("flametree_ingester_flush_failing", 1, 0)),
        ("FlametreeHeadNearlyFull", played("flametree_ingester_head_bytes", 90, 50) + played("flametree_ingester_head_limit_bytes", 100, 100)),
        ("FlametreeCompactorFailing", [{**s, "values": s["values"].replace("x60", "x120")} for s in played("flametree_compactor_failing_jobs", 2, 0)]),
    ]
    tests = [{"interval": "1m", "input_series": series, "promql_expr_test": [{
        "expr": 'count by (pod) (ALERTS{alertname="%s",alertstate="firing"})' % alert, "eval_time": "100m" if "Compactor" in alert else "40m",
        "exp_samples": [{"labels": '{pod="ft-flametree-ingester-0"}', "value": 1}]}]} for alert, series in cases]
    # One member that some see and others do not, and one that all see.
    alive = [("ingester-1", mine, 0), ("ingester-1", other, 1), ("ingester-2", mine, 1), ("ingester-2", other, 1)]
    seen = [{"series": 'flametree_cluster_member_alive{%s,kind="ingester",member="%s"}' % (labels, member), "values": "%d+0x60" % value} for member, labels, value in alive]
    tests.append({"interval": "1m", "input_series": seen, "promql_expr_test": [{
        "expr": 'count by (member) (ALERTS{alertname="FlametreeMemberDead",alertstate="firing"})', "eval_time": "40m",
        "exp_samples": [{"labels": '{member="ingester-1"}', "value": 1}]}]})
    (tmp_path / "tests.yaml").write_text(yaml.safe_dump({"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}))
    done = subprocess.run(["promtool", "test", "rules", "tests.yaml"], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("kind, value, list_of", [("PodMonitor", "podMonitor", "podMetricsEndpoints"), ("ServiceMonitor", "serviceMonitor", "endpoints")])
def test_monitors_reach_each_pod_once(kind, value, list_of):
    r = rendered({value: True})
    spec = r.one(kind, "ft-flametree")["spec"]
    labels = spec["selector"]["matchLabels"]
    port = spec[list_of][0]["port"]
    assert len(spec[list_of]) == 1
    if kind == "PodMonitor":
        reached = [w["metadata"]["name"] for w in r.chosen(labels) if port in [p["name"] for p in w["spec"]["template"]["spec"]["containers"][0]["ports"]]]
    else:
        services = [s for s in r.of("Service") if labels.items() <= s["metadata"]["labels"].items() and port in [p["name"] for p in s["spec"]["ports"]]]
        reached = [w["metadata"]["name"] for s in services for w in r.chosen(s["spec"]["selector"])]
    assert sorted(reached) == sorted(w["metadata"]["name"] for w in r.workloads())
