# SPDX-License-Identifier: Apache-2.0
"""Renders the chart with values, and tells what the objects of a rendering are to each other."""
import functools
import os
import subprocess
import tempfile

import yaml
from flametree import TOP

CHART = os.path.join(TOP, "deploy/helm/flametree")
PRESETS = sorted(name[:-5] for name in os.listdir(os.path.join(CHART, "presets")))
NAMESPACE, RELEASE = "profiles", "ft"
KUBE = "1.31.4"
WORKLOADS = ("Deployment", "StatefulSet")
ROLES = ("distributor", "ingester", "querier", "compactor")


@functools.lru_cache
def helm():
    found = subprocess.run([os.path.join(TOP, "tests/lib/helm")], stdout=subprocess.PIPE, text=True, check=True)
    return found.stdout.strip()


def run(command, *args, values=None, presets=(), chart=CHART):
    """A command of helm with a chart, presets and values; its process."""
    with tempfile.NamedTemporaryFile("w", suffix=".yaml") as f:
        yaml.safe_dump(values or {}, f)
        f.flush()
        files = [os.path.join(CHART, "presets", p + ".yaml") for p in presets] + [f.name]
        return subprocess.run([helm(), *command, chart, *(a for file in files for a in ("-f", file)), *args], capture_output=True, text=True)


def template(values=None, presets=(), release=RELEASE):
    done = run(["template", release], "--namespace", NAMESPACE, "--kube-version", KUBE, values=values, presets=presets)
    assert done.returncode == 0, done.stderr
    return Rendering(done.stdout)


def refused(values, presets=()):
    """What helm says about values that it must refuse."""
    done = run(["template", RELEASE], "--kube-version", KUBE, values=values, presets=presets)
    assert done.returncode != 0, "taken: %s" % values
    return done.stderr


class Rendering:
    def __init__(self, text):
        self.text = text
        self.docs = [d for d in yaml.safe_load_all(text) if d]

    def of(self, *kinds):
        return [d for d in self.docs if d["kind"] in kinds]

    def one(self, kind, name):
        found = [d for d in self.of(kind) if d["metadata"]["name"] == name]
        assert len(found) == 1, (kind, name, [(d["kind"], d["metadata"]["name"]) for d in self.docs])
        return found[0]

    def workloads(self):
        return self.of(*WORKLOADS)

    def role(self, role):
        return [w for w in self.workloads() if w["metadata"]["labels"]["app.kubernetes.io/component"] == role][0]

    def pods(self):
        """(name, metadata, spec) of every pod that there will be."""
        for w in self.workloads():
            yield w["metadata"]["name"], w["spec"]["template"]["metadata"], w["spec"]["template"]["spec"]
        for p in self.of("Pod"):
            yield p["metadata"]["name"], p["metadata"], p["spec"]

    def chosen(self, selector):
        """Workloads whose pods have all labels of a selector."""
        return [w for w in self.workloads() if selector.items() <= w["spec"]["template"]["metadata"]["labels"].items()]

    def settings(self, role):
        """The settings file of a role, as text."""
        claim = next(v for v in self.role(role)["spec"]["template"]["spec"]["volumes"] if v["name"] == "config")
        return self.one("ConfigMap", claim["configMap"]["name"])["data"]["flametree.yaml"]


def containers(spec):
    return spec.get("initContainers", []) + spec["containers"]


def size(quantity):
    """Bytes of a quantity of Kubernetes or of a setting."""
    text = str(quantity)
    units = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30, "TiB": 2**40, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40, "k": 10**3, "M": 10**6, "G": 10**9, "": 1}
    unit = text.lstrip("0123456789.")
    return float(text[:len(text) - len(unit)]) * units[unit]
