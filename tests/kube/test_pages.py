# SPDX-License-Identifier: Apache-2.0
"""The commands of docs/install/kubernetes.md, as they are written and in their order. What the page has of its own world is replaced: the bucket and how
long an upgrade waits for a DNS that is slower than here. Those of the providers need accounts; tests/docs looks at them."""
import os
import re
import subprocess
import sys

import pytest
from flametree import TOP, await_

sys.path.append(os.path.join(TOP, "tests/docs"))
from test_commands import blocks, commands

PAGE = "docs/install/kubernetes.md"
RESOURCES = {"podmonitors": "PodMonitor", "prometheusrules": "PrometheusRule"}  # of Prometheus' operator, whose objects the page makes


@pytest.fixture
def reader(kube, store, tmp_path):
    """Somebody in the top folder of a clone, with the files that the page gives them; reader(command) is what it says."""
    kube.add_disks("page")
    bucket = store.bucket("page")
    os.symlink(os.path.join(TOP, "deploy"), tmp_path / "deploy")
    with open(os.path.join(TOP, PAGE), encoding="utf-8") as f:
        for language, lines in blocks(f.read()):
            if language == "yaml":
                text = "\n".join(lines).replace("bucket: profiles", "bucket: " + bucket).replace("https://s3.example.net:9000", store.url)
                (tmp_path / re.match(r"# (\S+)", text)[1]).write_text(text)
    for plural, kind in RESOURCES.items():
        schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
        kube.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", {
            "metadata": {"name": plural + ".monitoring.coreos.com"},
            "spec": {"group": "monitoring.coreos.com", "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
                     "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}]}})
    env = {**kube.environment(), "ACCESS_KEY": store.access_key, "SECRET_KEY": store.secret_key}
    behind = []

    def run(command):
        if "port-forward" in command:
            process = subprocess.Popen(["bash", "-c", "exec " + command], cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            behind.append(process)
            assert "Forwarding from" in process.stdout.readline(), command
            return ""
        if re.match("helm (install|upgrade) ", command):
            command += " --set ingester.minReadySeconds=8,allInOne.persistence.storageClass=page,allInOne.persistence.size=1Gi"
        if command.startswith("helm template "):
            command += " --kube-version 1.31.4"  # a helm that is built from source knows no recent version by itself
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300)
        assert done.returncode == 0, "%s ended with %d:\n%s" % (command, done.returncode, done.stdout[-4000:])
        return done.stdout

    yield run
    for process in behind:
        process.kill()
        process.wait()
    run("kubectl delete namespace flametree --ignore-not-found --wait=false")


def begin_anew(kube, reader):
    """The page has two ways to begin, and a reader takes one."""
    reader("helm uninstall flametree --namespace flametree --wait")
    reader("kubectl delete namespace flametree --wait=false")
    for pod in kube.pods("flametree"):
        kube.delete("/api/v1/namespaces/flametree/pods/" + pod["metadata"]["name"], gracePeriodSeconds=0)
    await_("the end of the namespace", lambda: not kube.exists("/api/v1/namespaces/flametree"), 90, 0.3)


def test_the_commands_of_the_page_run_as_they_are_written(kube, reader):
    written = commands(PAGE)
    ended = [command for command in written if command.startswith("helm uninstall")]
    assert len(written) > 15 and len(ended) == 1
    for command in written:
        if command == "kubectl create namespace flametree":
            begin_anew(kube, reader)
        if command in ended:
            continue  # what comes after it looks at pods
        said = reader(command)
        if command.startswith("helm test"):
            assert re.search(r"Phase: +Succeeded", said), said
        elif command.startswith("curl"):
            assert said.strip().endswith("ready"), said
        elif "get pods" in command or "logs" in command:
            assert said.strip(), command
    assert "uninstalled" in reader(ended[0])
