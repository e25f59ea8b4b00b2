#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""tests/docs/helm.py --schema|--markdown: prints values.schema.json or docs/helm-values.md of the chart.

Both are made of values.yaml: the comment above a key is its description, and its default tells the type. A map with keys has
these and no others, so a misspelt value is refused; an empty map or list is free. BOUNDS has what a default cannot tell.
"""
import json
import os
import re
import sys

import wrap
import yaml

CHART = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../deploy/helm/flametree")
QUANTITY = r"^[0-9]+(\.[0-9]+)?([KMGT]i?|k)?$"
BOUNDS = {
    "pathPrefix": {"pattern": r"^(/[A-Za-z0-9._~-]+)*$"},
    "mode": {"enum": ["cluster", "all-in-one"]},
    "log": {"enum": ["object", "local"]},
    "storage.kind": {"enum": ["s3", "azure", "local"]},
    "storage.otherReleases": {"enum": ["cluster", "namespace", "ignore"]},
    "storage.s3.style": {"enum": ["auto", "path", "virtual"]},
    "storage.s3.endpoint": {"pattern": r"^(https?://[^/]+)?$"},
    "image.pullPolicy": {"enum": ["IfNotPresent", "Always", "Never"]},
    "image.digest": {"pattern": r"^(sha256:[0-9a-f]{64})?$"},
    "spread": {"enum": ["preferred", "required", "off"]},
    "autoscaling.metrics": {"enum": ["", "custom", "keda"]},
}
BOUNDS_OF_NAMES = {
    "replicas": {"minimum": 1},
    "minReplicas": {"minimum": 1},
    "maxReplicas": {"minimum": 1},
    "targetCPU": {"minimum": 1, "maximum": 100},
    "terminationGracePeriodSeconds": {"minimum": 1},
    "minReadySeconds": {"minimum": 0},
    "scaleDownSeconds": {"minimum": 0, "maximum": 3600},
    "maxUnavailable": {"type": ["integer", "string"]},
    "memoryLimit": {"pattern": r"^[0-9]+(KiB|MiB|GiB|TiB|kB|MB|GB)?$"},
    "headMemory": {"pattern": r"^[0-9]+(KiB|MiB|GiB|TiB|kB|MB|GB)?$"},
    "targetHeadBytes": {"pattern": QUANTITY},
    "targetBacklog": {"pattern": QUANTITY},
    "size": {"pattern": "^(|" + QUANTITY[1:-1] + ")$"},
    "cacheSize": {"pattern": "^(|" + QUANTITY[1:-1] + ")$"},
    "scratchSize": {"pattern": QUANTITY},
    "serviceType": {"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
    "seccompProfile": {"additionalProperties": True},
}
FREE = {"podSecurityContext", "securityContext", "resources"}  # maps of Kubernetes with defaults of ours


def comments():
    """Descriptions by the path of a key: the lines of comment directly above it."""
    found, path, text = {}, [], []
    with open(os.path.join(CHART, "values.yaml")) as f:
        for line in f:
            key = re.match(r"^( *)([A-Za-z0-9]+):", line)
            if line.lstrip().startswith("#"):
                text.append(line.strip()[1:].strip())
                continue
            if key:
                depth = len(key.group(1)) // 2
                path = path[:depth] + [key.group(2)]
                found[".".join(path)] = " ".join(t for t in text if t)
            text = []
    return found


def values():
    with open(os.path.join(CHART, "values.yaml")) as f:
        return yaml.safe_load(f)


def schema_of(value, path, about):
    name = path[-1] if path else ""
    out = {}
    if isinstance(value, dict):
        out["type"] = "object"
        if value and name not in FREE:
            out["additionalProperties"] = False
            out["properties"] = {k: schema_of(v, path + [k], about) for k, v in value.items()}
            if not path:
                out["properties"]["global"] = {"type": "object"}  # Helm adds it to a chart that is part of another
    elif isinstance(value, list):
        out["type"] = "array"
    elif isinstance(value, bool):
        out["type"] = "boolean"
    elif isinstance(value, int):
        out["type"] = "integer"
    else:
        out["type"] = "string"
    if about.get(".".join(path)):
        out["description"] = about[".".join(path)]
    out.update(BOUNDS_OF_NAMES.get(name, {}))
    out.update(BOUNDS.get(".".join(path), {}))
    return out


def schema():
    about = comments()
    about.pop("nameOverride") if about["nameOverride"].startswith("SPDX") else None
    return {"$schema": "http://json-schema.org/draft-07/schema#", "title": "Values of Flametree", **schema_of(values(), [], about)}


def names():
    """Every value, and every group of values."""
    paths = [path for path, _ in rows(values(), [])]
    return {".".join(path.split(".")[:n]) for path in paths for n in range(1, path.count(".") + 2)}


def rows(value, path):
    if isinstance(value, dict) and value and path and path[-1] not in FREE or not path:
        for k, v in value.items():
            yield from rows(v, path + [k])
    else:
        yield ".".join(path), value


def shown(value):
    text = json.dumps(value)
    if isinstance(value, dict) and value:
        text = "(see values.yaml)"
    return "`%s`" % text.replace("|", "\\|") if text != "(see values.yaml)" else text


def markdown():
    about, groups = comments(), {}
    for path, default in rows(values(), []):
        groups.setdefault(path.split(".")[0] if "." in path else "", []).append((path, default))
    out = ["# Values of the chart", "", "Printed by `tests/docs/helm.py --markdown` from `deploy/helm/flametree/values.yaml`. "
           "[install/kubernetes.md](install/kubernetes.md) says how to use them.", ""]
    for group, v in sorted(groups.items()):
        out += ["## " + (group or "General"), ""]
        if about.get(group):
            out += [about[group], ""]
        out += ["| value | default | |", "|---|---|---|"]
        for path, default in v:
            missing = not about.get(path)
            if missing:
                sys.exit("values.yaml: %s has no comment" % path)
            out.append("| `%s` | %s | %s |" % (path, shown(default), about[path].replace("|", "\\|")))
        out.append("")
    return wrap.wrapped("\n".join(out).rstrip() + "\n")


if __name__ == "__main__":
    if sys.argv[1:] == ["--schema"]:
        print(json.dumps(schema(), indent=1))
    elif sys.argv[1:] == ["--markdown"]:
        sys.stdout.write(markdown())
    else:
        sys.exit(__doc__)
