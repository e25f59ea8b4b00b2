# SPDX-License-Identifier: Apache-2.0
"""Metrics for autoscalers: a server of the APIs metrics.k8s.io (CPU and memory of containers, read from their processes) and custom.metrics.k8s.io (what pods
say at /metrics on their port for operators), which the API server forwards requests for.

    with Metrics(kube):
        ...     # the controller of autoscalers has values a moment later"""
import datetime
import http.server
import json
import os
import re
import ssl
import subprocess
import threading
import time
import urllib.parse

import apart
import build
from flametree import await_

PORT, SERVICE = 6543, "10.96.0.20"
PER_SECOND = os.sysconf("SC_CLK_TCK")
WINDOW = 4  # seconds of which the use of CPU is the mean
CUSTOM = re.compile(r"^/apis/custom\.metrics\.k8s\.io/v1beta2/namespaces/([^/]+)/pods/\*/([^/]+)$")
RESOURCE = re.compile(r"^/apis/metrics\.k8s\.io/v1beta1/namespaces/([^/]+)/pods$")


class Metrics:
    def __init__(self, kube):
        self.kube = kube
        self.used = {}  # of a pod: [(time, seconds of CPU, bytes)], the oldest first

    def __enter__(self):
        cert, key = (os.path.join(self.kube.folder, "metrics." + end) for end in ("crt", "key"))
        build.run("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=metrics")
        metrics = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self):
                status, answer = metrics.answer(urllib.parse.urlsplit(self.path))
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer((apart.HOST, PORT), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.over = threading.Event()
        for work in (self.server.serve_forever, self.look):
            threading.Thread(target=work, daemon=True).start()
        self.kube.outside_service("kube-system", "metrics", SERVICE, [{"name": "https", "port": 443, "targetPort": PORT}])
        for group, version in (("metrics.k8s.io", "v1beta1"), ("custom.metrics.k8s.io", "v1beta2")):
            self.kube.post("/apis/apiregistration.k8s.io/v1/apiservices", {
                "metadata": {"name": "%s.%s" % (version, group)},
                "spec": {"group": group, "version": version, "groupPriorityMinimum": 100, "versionPriority": 100, "insecureSkipTLSVerify": True,
                         "service": {"namespace": "kube-system", "name": "metrics", "port": 443}}})
            await_(group, lambda group=group, version=version: self.kube.exists("/apis/%s/%s" % (group, version)) if self.available("%s.%s" % (version, group)) else False, 60, 0.3)
        return self

    def available(self, name):
        service = self.kube.get("/apis/apiregistration.k8s.io/v1/apiservices/" + name)
        return any(c["type"] == "Available" and c["status"] == "True" for c in service.get("status", {}).get("conditions", []))

    def __exit__(self, *_):
        self.over.set()
        for name in ("v1beta1.metrics.k8s.io", "v1beta2.custom.metrics.k8s.io"):
            self.kube.delete("/apis/apiregistration.k8s.io/v1/apiservices/" + name)
        self.kube.delete("/api/v1/namespaces/kube-system/services/metrics")
        self.server.shutdown()
        self.server.server_close()

    def look(self):
        """What processes have used, each second."""
        while not self.over.wait(1):
            seen = set()
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    with open("/proc/%s/environ" % pid, "rb") as f:
                        pod = next((word for word in f.read().split(b"\0") if word.startswith(b"FLAMETREE_SERVER_ID=")), None)
                    if not pod:
                        continue
                    with open("/proc/%s/stat" % pid) as f:
                        fields = f.read().rsplit(")", 1)[1].split()
                except OSError:
                    continue
                name = pod.split(b"=", 1)[1].decode()
                seen.add(name)
                row = (time.monotonic(), (int(fields[11]) + int(fields[12])) / PER_SECOND, int(fields[21]) * 4096)
                rows = self.used.setdefault(name, [])
                if rows and rows[-1][1] > row[1]:
                    rows.clear()  # another process of this name
                rows.append(row)
                del rows[:-WINDOW - 1]
            for name in set(self.used) - seen:
                self.used.pop(name)

    def pods(self, namespace, query):
        selector = urllib.parse.parse_qs(query).get("labelSelector", [""])[0]
        path = "/api/v1/namespaces/%s/pods?labelSelector=%s" % (namespace, urllib.parse.quote(selector))
        return [pod for pod in self.kube.get(path)["items"] if pod["status"].get("podIP")]

    def answer(self, url):
        try:
            path = urllib.parse.unquote(url.path)
            custom, resource = CUSTOM.match(path), RESOURCE.match(path)
            if custom:
                items = [item for item in (self.custom(pod, custom[2]) for pod in self.pods(custom[1], url.query)) if item]
                return 200, {"kind": "MetricValueList", "apiVersion": "custom.metrics.k8s.io/v1beta2", "metadata": {}, "items": items}
            if resource:
                items = [item for item in map(self.resource, self.pods(resource[1], url.query)) if item]
                return 200, {"kind": "PodMetricsList", "apiVersion": "metrics.k8s.io/v1beta1", "metadata": {}, "items": items}
        except (OSError, AssertionError) as fault:
            return 500, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "message": str(fault), "code": 500}
        known = {"/apis/metrics.k8s.io/v1beta1": [{"name": "pods", "namespaced": True, "kind": "PodMetrics", "verbs": ["get", "list"]}],
                 "/apis/custom.metrics.k8s.io/v1beta2": [{"name": "pods/*", "namespaced": True, "kind": "MetricValueList", "verbs": ["get"]}]}
        if url.path in known:
            return 200, {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": url.path[len("/apis/"):], "resources": known[url.path]}
        return 404, {"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": "NotFound", "message": url.path, "code": 404}

    def custom(self, pod, metric):
        done = subprocess.run(["curl", "-sS", "-m", "3", "http://%s:4042/metrics" % pod["status"]["podIP"]], capture_output=True, text=True)
        rows = [float(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines() if line.startswith((metric + " ", metric + "{"))]
        return rows and {"describedObject": {"kind": "Pod", "namespace": pod["metadata"]["namespace"], "name": pod["metadata"]["name"], "apiVersion": "v1"},
                         "metric": {"name": metric}, "timestamp": now(), "value": "%dm" % (sum(rows) * 1000)}

    def resource(self, pod):
        name = pod["metadata"]["name"]
        rows = list(self.used.get(name, ()))
        if len(rows) < 2:
            return None
        cores = (rows[-1][1] - rows[0][1]) / (rows[-1][0] - rows[0][0])
        return {"metadata": {"name": name, "namespace": pod["metadata"]["namespace"], "labels": pod["metadata"]["labels"]}, "timestamp": now(), "window": "%ds" % WINDOW,
                "containers": [{"name": "flametree", "usage": {"cpu": "%dn" % (cores * 1e9), "memory": "%d" % rows[-1][2]}}]}


def now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
