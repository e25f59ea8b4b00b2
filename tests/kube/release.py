# SPDX-License-Identifier: Apache-2.0
"""A release of the chart in a namespace of its own, where pods have to keep to the restricted Pod Security standard."""
import os
import signal
import subprocess

from client import Server
from cluster import CHART, Refused
from flametree import await_


class Release:
    def __init__(self, kube, store, name, preset, *values, prefix=None, secret=None, chart=CHART):
        """`values`: arguments of --set. `secret`: what the Secret of the bucket has, if not the right keys."""
        self.kube, self.store, self.name, self.namespace = kube, store, name, name
        self.full = name if "flametree" in name else name + "-flametree"
        self.chart, self.one = chart, preset == "all-in-one"
        self.preset = os.path.join(CHART, "presets", preset + ".yaml")
        kube.post("/api/v1/namespaces", {"metadata": {"name": name, "labels": {"pod-security.kubernetes.io/enforce": "restricted"}}})
        self.values = list(values)
        if not self.one:
            self.values = ["storage.s3.bucket=flametree-test", "storage.s3.endpoint=" + store.url, "storage.s3.region=" + store.region,
                           "storage.s3.prefix=" + (prefix or name), "storage.s3.existingSecret=bucket", *values]
            keys = {"access-key": store.access_key, "secret-key": store.secret_key, **(secret or {})}
            kube.post("/api/v1/namespaces/%s/secrets" % name, {"metadata": {"name": "bucket"}, "stringData": keys})

    def sets(self, *values):
        return [word for value in (*self.values, *values) for word in ("--set", value)]

    def helm(self, *arguments, **kw):
        return self.kube.helm(*arguments, "--namespace", self.namespace, **kw)

    def install(self, *values, wait=True, **kw):
        return self.helm("install", self.name, self.chart, "--values", self.preset, *self.sets(*values), *(["--wait", "--timeout", "120s"] if wait else []), **kw)

    def upgrade(self, *values, wait=True, chart=None, **kw):
        return self.helm("upgrade", self.name, chart or self.chart, "--values", self.preset, *self.sets(*values), *(["--wait", "--timeout", "240s"] if wait else []), **kw)

    def remove(self):
        """Whatever of it there is, without waiting for its pods to end in peace."""
        self.helm("uninstall", self.name, "--ignore-not-found", "--no-hooks", "--timeout", "20s")
        for pod in self.pods():
            self.delete_pod(pod["metadata"]["name"], gracePeriodSeconds=0)
        self.kube.delete("/api/v1/namespaces/" + self.namespace)

    def claims(self):
        return {claim["metadata"]["name"] for claim in self.kube.get("/api/v1/namespaces/%s/persistentvolumeclaims" % self.namespace)["items"]}

    # ---- where it is

    def address(self, role):
        return self.kube.get("/api/v1/namespaces/%s/services/%s-%s" % (self.namespace, self.full, role))["spec"]["clusterIP"]

    @property
    def push_url(self):
        return "http://%s:4040" % self.address("all-in-one" if self.one else "distributor")

    @property
    def query_url(self):
        return "http://%s:4040" % self.address("all-in-one" if self.one else "querier")

    def server(self, tenant=None):
        return Server(self.query_url, push_url=self.push_url, query_url=self.query_url, tenant=tenant)

    # ---- its pods

    def pods(self, role=None):
        return self.kube.pods(self.namespace, role)

    def pod(self, name):
        return self.kube.get("/api/v1/namespaces/%s/pods/%s" % (self.namespace, name))

    def delete_pod(self, name, **options):
        try:
            self.kube.delete("/api/v1/namespaces/%s/pods/%s" % (self.namespace, name), **options)
        except Refused as refused:
            if refused.status != 404:
                raise

    def kill(self, *names):
        """Its processes there end at once, and containers start again."""
        before, pids = {name: restarts(self.pod(name)) for name in names}, self.processes()
        for name in names:
            os.kill(pids[name], signal.SIGKILL)
        await_("containers that start again", lambda: all(restarts(self.pod(name)) > before[name] for name in names), 60, 0.3)
        self.await_ready()

    def replace(self, *names):
        """Pods of a StatefulSet go at once, and others follow of the same names."""
        before = {name: self.pod(name)["metadata"]["uid"] for name in names}
        for name in names:
            self.delete_pod(name, gracePeriodSeconds=0)
        uids = lambda: {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in self.pods()}
        await_("the pods that follow", lambda: all(uids().get(name, before[name]) != before[name] for name in names), 60, 0.3)
        self.await_ready()

    def ready(self, role=None):
        """Are all pods ready that there should be?"""
        kinds = ("statefulsets", "deployments")
        found = [w for kind in kinds for w in self.kube.get("/apis/apps/v1/namespaces/%s/%s" % (self.namespace, kind))["items"]]
        for w in found:
            if role and not w["metadata"]["name"].endswith("-" + role):
                continue
            status = w["status"]
            if status.get("observedGeneration", 0) < w["metadata"]["generation"] or status.get("readyReplicas", 0) != w["spec"]["replicas"] or \
                    status.get("replicas", 0) != w["spec"]["replicas"] or status.get("updatedReplicas", 0) != w["spec"]["replicas"]:
                return False
        return True

    def await_ready(self, role=None, seconds=180):
        await_("pods of " + self.name, lambda: self.ready(role), seconds, 0.3)

    def processes(self):
        """{pod: process id} of all its pods, by what each has in its environment."""
        names = {pod["metadata"]["name"] for pod in self.pods()}
        found = {}
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open("/proc/%s/environ" % pid, "rb") as f:
                    words = f.read().split(b"\0")
            except OSError:
                continue
            for word in words:
                if word.startswith(b"FLAMETREE_SERVER_ID=") and word.split(b"=", 1)[1].decode() in names:
                    found[word.split(b"=", 1)[1].decode()] = int(pid)
        return found

    def metric(self, pod, name):
        """Sum of a metric's rows of a pod, by its port for operators."""
        return sum(float(line.rsplit(" ", 1)[1]) for line in self.admin(pod, "/metrics").splitlines() if line.startswith((name + " ", name + "{")))

    def admin(self, pod, path):
        done = subprocess.run(["curl", "-sS", "-m", "10", "http://%s:4042%s" % (self.pod(pod)["status"]["podIP"], path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.stdout


def restarts(pod):
    return sum(c["restartCount"] for c in pod["status"].get("containerStatuses", []))


def cpu_seconds(pids):
    total = 0
    for pid in pids:
        with open("/proc/%d/stat" % pid) as f:
            fields = f.read().rsplit(")", 1)[1].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def resident_bytes(pids):
    total = 0
    for pid in pids:
        with open("/proc/%d/status" % pid) as f:
            total += sum(int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS:"))
    return total


def report(text):
    """A figure of a run: on its own line of the log, whether or not the test is captured."""
    with open(os.environ.get("FLAMETREE_KUBE_FIGURES", os.devnull), "a") as f:
        f.write(text + "\n")
    print(text)
