# SPDX-License-Identifier: Apache-2.0
"""Values that cannot be right are refused with their names, before anything is sent to a cluster."""
import json
import os
import pathlib
import re
import shutil

import pytest
import yaml
from chart import CHART, KUBE, refused, run, template

BUCKET = {"storage": {"s3": {"bucket": "profiles"}}}


def merged(*parts):
    out = {}
    for part in parts:
        for key, value in part.items():
            out[key] = merged(out[key], value) if isinstance(out.get(key), dict) and isinstance(value, dict) else value
    return out


def leaves(schema, path=()):
    """(path, schema) of each value that has a type of its own."""
    if schema.get("additionalProperties") is False:
        for key, below in schema["properties"].items():
            if key != "global":
                yield from leaves(below, path + (key,))
    else:
        yield path, schema


def at(path, value):
    for key in reversed(path):
        value = {key: value}
    return value


with open(os.path.join(CHART, "values.schema.json"), encoding="utf-8") as f:
    SCHEMA = json.load(f)


def test_wrong_types_are_refused_by_name():
    """All at once, since helm names each of them."""
    wrong, expected = {}, []
    for path, schema in leaves(SCHEMA):
        types = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
        value = next(v for t, v in (("array", []), ("boolean", True), ("string", "x")) if t not in types)
        wrong = merged(wrong, at(path, value))
        expected.append(".".join(path))
    assert len(expected) > 120
    said = refused(wrong)
    missing = [name for name in expected if "- %s: " % name not in said]
    assert not missing, (missing, said)


def test_unknown_keys_are_refused_by_name():
    def groups(schema, path=()):
        if schema.get("additionalProperties") is False:
            yield path
            for key, below in schema["properties"].items():
                yield from groups(below, path + (key,))
    wrong, paths = {}, list(groups(SCHEMA))
    for path in paths:
        wrong = merged(wrong, at(path + ("misspelt",), 1))
    said = refused(wrong)
    assert len(paths) > 25 and said.count("Additional property misspelt is not allowed") == len(paths), said
    missing = [p for p in paths if "- %s: Additional property misspelt" % (".".join(p) or "(root)") not in said]
    assert not missing, (missing, said)


@pytest.mark.parametrize("path, value", [
    ("mode", "everything"), ("log", "s3"), ("storage.kind", "gcs"), ("storage.s3.style", "other"), ("storage.s3.endpoint", "minio:9000"), ("spread", "yes"),
    ("image.digest", "sha256:abc"), ("image.pullPolicy", "Sometimes"), ("autoscaling.metrics", "prometheus"), ("distributor.replicas", 0),
    ("distributor.memoryLimit", "1Gi"), ("ingester.headMemory", "much"), ("ingester.persistence.size", "20 GB"), ("querier.autoscaling.targetCPU", 400),
    ("querier.serviceType", "Public"), ("ingester.autoscaling.scaleDownSeconds", 7200), ("ingester.terminationGracePeriodSeconds", 0)])
def test_values_out_of_bounds_are_refused_by_name(path, value):
    assert "- %s: " % path in refused(merged(BUCKET, at(path.split("."), value)))


SCALED = {"autoscaling": {"enabled": True}}


@pytest.mark.parametrize("values, says", [
    ({}, "storage.s3.bucket is missing: storage.kind s3 needs the name of a bucket that exists"),
    ({"storage": {"kind": "azure"}}, "storage.azure.container is missing"),
    ({"storage": {"kind": "local"}}, "storage.local.existingClaim is missing: pods of a cluster share their store"),
    ({"log": "local", "ingester": {"persistence": {"size": ""}}, **BUCKET}, "ingester.persistence.size is empty: log local needs a volume for each ingester"),
    ({"mode": "all-in-one", "allInOne": {"persistence": {"size": ""}}, **BUCKET}, "allInOne.persistence.size is empty"),
    ({"ingester": SCALED, **BUCKET}, "ingester.autoscaling.enabled needs autoscaling.metrics: custom"),
    ({"compactor": SCALED, **BUCKET}, "compactor.autoscaling.enabled needs autoscaling.metrics: custom"),
    ({"ingester": SCALED, "autoscaling": {"metrics": "keda"}, **BUCKET}, "autoscaling.keda.prometheusAddress is missing"),
    ({"querier": {**SCALED, "resources": {"requests": {"cpu": None}}}, **BUCKET}, "querier.resources.requests.cpu is missing: querier.autoscaling scales by CPU"),
    ({"distributor": {"autoscaling": {"enabled": True, "minReplicas": 5, "maxReplicas": 4}}, **BUCKET}, "distributor.autoscaling.minReplicas is 5, more than maxReplicas, 4"),
    ({"ingress": {"enabled": True}, **BUCKET}, "ingress.hosts is empty"),
    ({"gateway": {"enabled": True}, **BUCKET}, "gateway.parentRefs is empty"),
    ({"monitoring": {"podMonitor": True, "serviceMonitor": True}, **BUCKET}, "monitoring.podMonitor and monitoring.serviceMonitor are both set"),
], ids=lambda v: v.split()[0] if isinstance(v, str) else "")
def test_contradictions_are_refused_by_a_clear_line(values, says):
    said = refused(values)
    assert says in said and len(said.strip().splitlines()) <= 3, said


def test_another_release_on_the_same_place_is_refused_by_name(tmp_path):
    """Without a cluster `lookup` finds nothing. So its answer is put in its place here; tests/kube asks a real one."""
    chart = tmp_path / "flametree"
    shutil.copytree(CHART, chart)
    template_file = chart / "templates/validate.yaml"
    text = template_file.read_text()
    lookup = '(lookup "v1" "ConfigMap" $where "").items'
    assert text.count(lookup) == 1

    def said(namespace, release, place, looks="cluster"):
        other = {"metadata": {"namespace": namespace, "labels": {"app.kubernetes.io/instance": release}, "annotations": {"flametree/store": place}}}
        stranger = {"metadata": {"namespace": namespace, "name": "kube-root-ca.crt"}}  # has neither
        found = "(fromJson %s).items" % json.dumps(json.dumps({"items": [stranger, other]}))
        nothing = "(list)" if looks != "cluster" and namespace != "here" else found
        template_file.write_text(text.replace(lookup, '(eq $where "" | ternary %s %s)' % (found, nothing)))
        done = run(["template", "ft"], "--namespace", "here", "--kube-version", KUBE, values=merged(BUCKET, {"storage": {"otherReleases": looks}}), chart=str(chart))
        return done.stderr if done.returncode else None

    assert said("here", "ft", "s3 amazon/profiles/") is None, "it is this release"
    assert said("there", "ft", "s3 amazon/profiles/team") is None, "it has another prefix"
    assert said("there", "ft", "s3 amazon/profiles/", "namespace") is None and said("here", "second", "s3 amazon/profiles/", "ignore") is None
    assert "release second in namespace here" in said("here", "second", "s3 amazon/profiles/", "namespace")
    for namespace, release in (("there", "ft"), ("here", "second")):
        assert "release %s in namespace %s keeps its profiles at s3 amazon/profiles/ too: give this one another storage.s3.prefix" % (release, namespace) in \
            said(namespace, release, "s3 amazon/profiles/")


def test_every_value_is_read_by_a_template():
    """A value that nothing reads would be a promise."""
    templates = "".join(p.read_text() for p in pathlib.Path(CHART, "templates").rglob("*") if p.is_file())
    unread = [".".join(path) for path, _ in leaves(SCHEMA) if not re.search(r'\.%s\b|"%s"' % (path[-1], path[-1]), templates)]
    assert not unread, unread


def test_presets_say_how_they_are_installed_and_change_what_they_set():
    with open(os.path.join(CHART, "values.yaml"), encoding="utf-8") as f:
        defaults = yaml.safe_load(f)
    for name in os.listdir(os.path.join(CHART, "presets")):
        with open(os.path.join(CHART, "presets", name), encoding="utf-8") as f:
            text = f.read()
        assert re.search(r"^#     helm install flametree deploy/helm/flametree -f deploy/helm/flametree/presets/%s" % re.escape(name), text, re.M), name
        assert merged(defaults, yaml.safe_load(text)) != defaults


def test_notes_say_what_stays_after_an_uninstall(tmp_path):
    """They are shown by an install alone, which needs a cluster; here they are the text of an object."""
    chart = shutil.copytree(CHART, tmp_path / "flametree")
    notes = chart / "templates/NOTES.txt"
    (chart / "templates/_notes.tpl").write_text('{{ define "notes" }}%s{{ end }}' % notes.read_text())
    (chart / "templates/notes.yaml").write_text('kind: Notes\nmetadata: {name: notes}\ntext: {{ include "notes" . | toJson }}\n')
    notes.unlink()

    def said(values, presets=()):
        done = run(["template", "ft"], "--kube-version", KUBE, "--show-only", "templates/notes.yaml", values=values, presets=presets, chart=str(chart))
        return yaml.safe_load(done.stdout)["text"]

    assert "`helm uninstall` leaves the bucket: " in said(BUCKET)
    assert "`helm uninstall` leaves the bucket and the volumes of logs: " in said({"log": "local", **BUCKET})
    assert "`helm uninstall` leaves the volumes: " in said({}, ["all-in-one"])
    for values, presets in ((BUCKET, ()), ({}, ["all-in-one"])):
        text, objects = said(values, presets), template(values, presets)
        named = set(re.findall(r"svc/(\S+)|//([\w-]+)\.default\.svc", text))
        assert named and all(objects.one("Service", a or b) for a, b in named), text
