# SPDX-License-Identifier: Apache-2.0
"""A real Kubernetes for tests: etcd, API server, controllers, scheduler, DNS, and nodes in three zones, each with a kubelet and a containerd of its own. Runs in
the namespaces of apart.py only.

    with Kube() as kube:
        kube.kubectl("get", "pods"), kube.helm("install", ...), kube.get("/api/v1/nodes")
        kube.nodes[0].kill()           # lost: kubelet, containerd and all containers at once
Addresses: 10.90.0.1 is the machine with everything but the nodes, 10.90.0.11 and so on are nodes, 10.244.N.0/24 the pods of node N, 10.96.0.0/16 services. Pods
have a pair of interfaces and a route each, so every one reaches every other one."""
import glob
import http.client
import itertools
import json
import os
import re
import shutil
import signal
import ssl
import subprocess
import sys
import threading

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../lib"), os.path.join(HERE, "../conformance")]
import apart
import build
from flametree import await_
from versitygw import Versitygw

PORT, ETCD, ETCD_PEER, DNS_PORT = 6443, 2379, 2380, 5300
DNS = "10.96.0.10"
PODS = "10.244"
IMAGE = "docker.io/library/flametree"
PREVIOUS = "0.0.1"
CHART = os.path.join(build.TOP, "deploy/helm/flametree")
PAUSE = "docker.io/local/pause:1"


class Refused(AssertionError):
    def __init__(self, what, status, text):
        super().__init__("%s: %s %s" % (what, status, text))
        self.status, self.text = status, text


def chart_version():
    with open(os.path.join(CHART, "Chart.yaml")) as f:
        return next(line.split(":", 1)[1].strip().strip('"') for line in f if line.startswith("appVersion:"))


class Node:
    def __init__(self, kube, number):
        self.kube, self.number, self.name, self.zone = kube, number, "node-%d" % number, "zone-%s" % "abc"[(number - 1) % 3]
        self.address = "10.90.0.%d" % (10 + number)
        self.folder = os.path.join(kube.folder, self.name)
        self.socket = os.path.join(self.folder, "c.sock")
        for folder in ("cni", "opt", "disks"):
            os.makedirs(os.path.join(self.folder, folder))
        subprocess.run(["ip", "addr", "add", self.address + "/32", "dev", "host"], check=True)
        ptp = {"type": "ptp", "ipam": {"type": "host-local", "dataDir": os.path.join(self.folder, "addresses"), "routes": [{"dst": "0.0.0.0/0"}],
                                       "ranges": [[{"subnet": "%s.%d.0/24" % (PODS, number)}]]}}
        self.write("cni/10.conflist", json.dumps({"cniVersion": "0.4.0", "name": self.name, "plugins": [ptp]}))
        self.write("containerd.toml", CONTAINERD.format(folder=self.folder, pause=PAUSE))
        self.write("kubelet.yaml", KUBELET.format(node=self, dns=DNS, group="/" + apart.group_of(kube.folder)))
        self.processes = []

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as f:
            f.write(text)

    def start_containers(self):
        self.processes.append(self.kube.daemon(self.name + "-containerd", "containerd", "-c", os.path.join(self.folder, "containerd.toml")))

    def ctr(self, *arguments):
        return build.run("ctr", "-a", self.socket, "-n", "k8s.io", *arguments)

    def start_kubelet(self):
        labels = "topology.kubernetes.io/zone=%s,topology.kubernetes.io/region=here" % self.zone
        self.processes.append(self.kube.daemon(
            self.name + "-kubelet", build.program("kube"), "kubelet", "--kubeconfig=" + self.kube.config, "--config=" + os.path.join(self.folder, "kubelet.yaml"),
            "--root-dir=" + os.path.join(self.folder, "kubelet"), "--hostname-override=" + self.name, "--node-ip=" + self.address, "--node-labels=" + labels))

    def ready(self):
        try:
            node = self.kube.get("/api/v1/nodes/" + self.name)
        except Refused:
            return False
        return any(c["type"] == "Ready" and c["status"] == "True" for c in node["status"].get("conditions", []))

    def kill(self):
        """Kubelet, containerd and all containers end at once, without a word to anybody: nobody answers at their addresses."""
        self.cut("-I")
        for process in self.processes:
            process.kill()
            process.wait()
        self.processes = []
        for path in os.listdir("/proc"):
            # A shim has the folder of its containerd in its command line; a container is found by the shim that is its parent.
            if path.isdigit() and (self.folder + "/").encode() in read("/proc/%s/cmdline" % path):
                for child in children(int(path)):
                    end(child)
                end(int(path))

    def start(self):
        """As after a kill, with what is on the disk."""
        self.cut("-D")
        self.start_containers()
        take(self.socket)
        self.start_kubelet()

    def cut(self, verb):
        pods = "%s.%d.0/24" % (PODS, self.number)
        for chain in ("FORWARD", "OUTPUT"):
            subprocess.run(["iptables", "-w", verb, chain, "-d", pods, "-j", "DROP"], check=True)


def read(path):
    try:
        with open(path, "rb") as f:
            return f.read()
    except OSError:
        return b""


def children(pid):
    text = b"".join(read("/proc/%d/task/%s/children" % (pid, task)) for task in (os.listdir("/proc/%d/task" % pid) if os.path.exists("/proc/%d/task" % pid) else ()))
    found = [int(child) for child in text.split()]
    return [deep for child in found for deep in children(child)] + found


def end(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Store(Versitygw):
    host = apart.HOST


class Kube:
    def __init__(self, nodes=3):
        self.folder = os.environ[apart.INSIDE]
        self.config = os.path.join(self.folder, "kubeconfig")
        self.daemons, self.count = [], nodes
        self.token = "ftk"
        self.version = chart_version()
        self.over = threading.Event()
        self.tls = ssl._create_unverified_context()

    # ---- starting and ending

    def daemon(self, name, *command):
        with open(os.path.join(self.folder, name + ".log"), "ab") as log:
            process = subprocess.Popen(command, cwd=self.folder, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
        process.log_name = name
        self.daemons.append(process)
        return process

    def write(self, name, text):
        with open(os.path.join(self.folder, name), "w") as f:
            f.write(text)

    def __enter__(self):
        try:
            self.start()
        except BaseException:
            print(self.tail(), file=sys.stderr)
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        self.over.set()
        for node in getattr(self, "nodes", []):
            node.kill()
        for process in self.daemons:
            process.kill()
            process.wait()

    def start(self):
        kube = build.program("kube")
        etcd, peer = "http://127.0.0.1:%d" % ETCD, "http://127.0.0.1:%d" % ETCD_PEER
        self.daemon("etcd", "etcd", "--data-dir", "etcd", "--listen-client-urls", etcd, "--advertise-client-urls", etcd, "--listen-peer-urls", peer,
                    "--initial-advertise-peer-urls", peer, "--initial-cluster", "default=" + peer, "--unsafe-no-fsync")
        self.nodes = [Node(self, number) for number in range(1, self.count + 1)]
        for node in self.nodes:
            node.start_containers()
        build.run("openssl", "genrsa", "-out", os.path.join(self.folder, "accounts.key"), "2048")
        self.write("tokens.csv", '%s,admin,admin,"system:masters"\n' % self.token)
        self.write("kubeconfig", KUBECONFIG % {"port": PORT, "token": self.token, "host": apart.HOST})
        os.chmod(self.config, 0o600)
        self.daemon("api", kube, "kube-apiserver", "--etcd-servers=" + etcd, "--service-account-key-file=accounts.key", "--service-account-signing-key-file=accounts.key",
                    "--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.96.0.0/16", "--cert-dir=api", "--secure-port=%d" % PORT,
                    "--token-auth-file=tokens.csv", "--authorization-mode=RBAC", "--allow-privileged=true", "--advertise-address=" + apart.HOST,
                    "--kubelet-preferred-address-types=InternalIP", "--default-not-ready-toleration-seconds=4", "--default-unreachable-toleration-seconds=4")
        archives = [os.path.join(self.folder, name) for name in ("pause.tar", "flametree.tar")]
        build.pause_image(archives[0], PAUSE)
        build.image(archives[1], "%s:%s" % (IMAGE, self.version))
        imports = [subprocess.Popen([sys.executable, "-c", "import cluster, sys; cluster.take(*sys.argv[1:])", node.socket, *archives], cwd=HERE) for node in self.nodes]
        await_("the API server", self.healthy, 120, 0.1)
        self.daemon("controllers", kube, "kube-controller-manager", "--kubeconfig=kubeconfig", "--service-account-private-key-file=accounts.key", "--leader-elect=false",
                    "--secure-port=0", "--node-monitor-period=1s", "--node-monitor-grace-period=8s", "--horizontal-pod-autoscaler-sync-period=2s",
                    "--horizontal-pod-autoscaler-cpu-initialization-period=5s", "--horizontal-pod-autoscaler-initial-readiness-delay=2s", "--kube-api-qps=200", "--kube-api-burst=300")
        self.daemon("scheduler", kube, "kube-scheduler", "--kubeconfig=kubeconfig", "--leader-elect=false", "--secure-port=0")
        self.write("proxy.yaml", PROXY % {"folder": self.folder, "pods": PODS + ".0.0/16"})
        self.daemon("proxy", kube, "kube-proxy", "--config=proxy.yaml")
        self.write("Corefile", COREFILE % {"port": DNS_PORT, "host": apart.HOST, "config": self.config})
        self.daemon("dns", kube, "coredns", "-conf", "Corefile")
        for process in imports:
            assert process.wait(120) == 0, "images are not taken"
        for node in self.nodes:
            node.start_kubelet()
        ports = [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}]
        self.outside_service("kube-system", "kube-dns", DNS, [{**port, "targetPort": DNS_PORT} for port in ports])
        await_("nodes", lambda: all(node.ready() for node in self.nodes), 120, 0.2)
        threading.Thread(target=self.keep_logs, daemon=True).start()
        await_("the first service account", lambda: self.exists("/api/v1/namespaces/default/serviceaccounts/default"), 60, 0.1)

    def outside_service(self, namespace, name, address, ports):
        """A Service whose endpoint is a program on the machine itself."""
        self.post("/api/v1/namespaces/%s/services" % namespace, {"metadata": {"name": name}, "spec": {"clusterIP": address, "ports": ports}})
        self.post("/api/v1/namespaces/%s/endpoints" % namespace, {"metadata": {"name": name}, "subsets": [{"addresses": [{"ip": apart.HOST}], "ports": [
            {"name": port["name"], "port": port["targetPort"], "protocol": port.get("protocol", "TCP")} for port in ports]}]})

    def add_disks(self, name, each=2):
        """Volumes of a StorageClass of this name on each node: as local disks are, which stay where they are."""
        self.post("/apis/storage.k8s.io/v1/storageclasses", {"metadata": {"name": name}, "provisioner": "kubernetes.io/no-provisioner", "volumeBindingMode": "WaitForFirstConsumer"})
        for node, number in itertools.product(self.nodes, range(each)):
            path = os.path.join(node.folder, "disks", "%s-%d" % (name, number))
            os.mkdir(path)
            there = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node.name]}
            self.post("/api/v1/persistentvolumes", {"metadata": {"name": "%s-%s-%d" % (name, node.name, number)}, "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain", "storageClassName": name,
                "local": {"path": path}, "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [there]}]}}}})

    def previous_chart(self):
        """The chart and the image of the version before: until there is one, these under a lower number."""
        folder = os.path.join(self.folder, "previous")
        if not os.path.exists(folder):
            shutil.copytree(CHART, folder)
            path = os.path.join(folder, "Chart.yaml")
            text = read(path).decode()
            with open(path, "w") as f:
                f.write(re.sub(r"(?m)^(version|appVersion): .*", r'\1: "%s"' % PREVIOUS, text))
            for node in self.nodes:
                node.ctr("images", "tag", "%s:%s" % (IMAGE, self.version), "%s:%s" % (IMAGE, PREVIOUS))
        return folder

    # ---- asking the API server

    def request(self, method, path, body=None, kind="application/json"):
        headers = {"Authorization": "Bearer " + self.token, "Content-Type": kind, "Accept": "application/json"}
        connection = http.client.HTTPSConnection("127.0.0.1", PORT, context=self.tls, timeout=30)
        try:
            connection.request(method, path, None if body is None else json.dumps(body), headers)
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        if answer.status >= 300:
            raise Refused("%s %s" % (method, path), answer.status, text)
        return json.loads(text) if text.startswith(("{", "[")) else text

    def get(self, path):
        return self.request("GET", path)

    def post(self, path, body):
        return self.request("POST", path, body)

    def patch(self, path, body):
        return self.request("PATCH", path, body, "application/merge-patch+json")

    def delete(self, path, **options):
        return self.request("DELETE", path, options or None)

    def exists(self, path):
        try:
            self.get(path)
            return True
        except Refused as refused:
            if refused.status != 404:
                raise
            return False

    def healthy(self):
        try:
            return self.get("/readyz") == "ok"
        except (OSError, Refused):
            return False

    def pods(self, namespace, role=None):
        found = self.get("/api/v1/namespaces/%s/pods" % namespace + ("?labelSelector=app.kubernetes.io/component%%3D%s" % role if role else ""))
        return found["items"]

    def environment(self):
        """In its PATH are kubectl and helm."""
        folder = os.path.join(self.folder, "bin")
        if not os.path.exists(folder):
            os.mkdir(folder)
            for name, command in (("kubectl", build.program("kube") + " kubectl"), ("helm", build.program("helm"))):
                self.write("bin/" + name, '#!/bin/sh\nexec %s "$@"\n' % command)
                os.chmod(os.path.join(folder, name), 0o755)
        return {**os.environ, "KUBECONFIG": self.config, "HELM_CACHE_HOME": os.path.join(self.folder, "helm"), "HELM_CONFIG_HOME": os.path.join(self.folder, "helm"),
                "HELM_DATA_HOME": os.path.join(self.folder, "helm"), "PATH": os.path.join(self.folder, "bin") + ":" + os.environ["PATH"]}

    def command(self, *command, status=0, **kw):
        """What a command says; it has to end with the status, or with any but 0 if that is None."""
        done = subprocess.run(command, env=self.environment(), cwd=build.TOP, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=300, **kw)
        good = done.returncode != 0 if status is None else done.returncode == status
        assert good, "%s ended with %d:\n%s" % (" ".join(command[:6]), done.returncode, done.stdout[-6000:])
        return done.stdout

    def kubectl(self, *arguments, **kw):
        return self.command(build.program("kube"), "kubectl", *arguments, **kw)

    def helm(self, *arguments, **kw):
        return self.command(build.program("helm"), *arguments, **kw)

    def keep_logs(self):
        """Logs of containers go with their pods; a second name keeps them."""
        kept = os.path.join(self.folder, "logs")
        os.mkdir(kept)
        while not self.over.wait(0.5):
            for path in glob.glob(os.path.join(self.folder, "node-*/pods/*/*/*.log")):
                pod, container, number = path.split("/")[-3:]
                name = os.path.join(kept, "%s.%s.%s" % (pod, container, number))
                try:
                    os.link(path, name)
                except OSError:  # it has one, or has gone
                    pass

    def tail(self, lines=12):
        """The end of each log."""
        text = ""
        for process in self.daemons:
            log = read(os.path.join(self.folder, process.log_name + ".log")).decode("utf-8", "replace")
            ended = "" if process.poll() is None else ", which ended with %s" % process.returncode
            text += "---- %s%s\n%s\n" % (process.log_name, ended, "\n".join(line[:300] for line in log.splitlines()[-lines:]))
        return text


def take(socket, *archives):
    """Images into the containerd of a node, once it listens."""
    await_("containerd at " + socket, lambda: subprocess.run(["ctr", "-a", socket, "version"], capture_output=True).returncode == 0, 60, 0.1)
    for path in archives:
        build.run("ctr", "-a", socket, "-n", "k8s.io", "images", "import", path)


KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{name: k, cluster: {server: "https://%(host)s:%(port)d", insecure-skip-tls-verify: true}}]
users: [{name: a, user: {token: %(token)s}}]
contexts: [{name: c, context: {cluster: k, user: a}}]
current-context: c
"""

CONTAINERD = """version = 2
root = "{folder}/root"
state = "{folder}/state"
disabled_plugins = ["io.containerd.grpc.v1.cri.podsandboxer", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs"]
[grpc]
  address = "{folder}/c.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{folder}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  # Some kernels refuse less than what the parent has.
  restrict_oom_score_adj = true
  sandbox_image = "{pause}"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{folder}/cni"
"""

# Limits of groups of pods would need a whole tree of groups; those of containers are set. What is not quick by itself is made so.
# Images stay however full the disk is: there is no registry to pull them from again.
KUBELET = """apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {{anonymous: {{enabled: true}}, webhook: {{enabled: false}}}}
authorization: {{mode: AlwaysAllow}}
address: {node.address}
readOnlyPort: 0
healthzPort: 0
cgroupDriver: cgroupfs
cgroupsPerQOS: false
cgroupRoot: {group}
enforceNodeAllocatable: []
failSwapOn: false
clusterDNS: ["{dns}"]
clusterDomain: cluster.local
containerRuntimeEndpoint: unix://{node.socket}
resolvConf: ""
podLogsDir: {node.folder}/pods
syncFrequency: 2s
configMapAndSecretChangeDetectionStrategy: Watch
nodeStatusUpdateFrequency: 2s
nodeStatusReportFrequency: 10s
nodeLeaseDurationSeconds: 6
serializeImagePulls: false
imageGCHighThresholdPercent: 100
imageGCLowThresholdPercent: 99
registerNode: true
evictionHard: {{memory.available: "100Mi", nodefs.available: "1%", imagefs.available: "1%"}}
"""

PROXY = """apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: %(folder)s/kubeconfig}
mode: iptables
clusterCIDR: %(pods)s
hostnameOverride: node-1
iptables: {minSyncPeriod: 0s}
conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}
"""

# As kubeadm sets it up, which has a ttl of 30 and whose answers are as old as that.
COREFILE = """.:%(port)d {
  bind %(host)s
  kubernetes cluster.local {
    kubeconfig %(config)s c
    ttl 5
  }
  cache 30
}
"""


def main():
    """A cluster for hands."""
    with Kube() as kube, Store() as store:
        env = {**kube.environment(), "S3_ENDPOINT": store.url, "S3_BUCKET": store.bucket("hands"), "S3_ACCESS_KEY": store.access_key, "S3_SECRET_KEY": store.secret_key}
        return subprocess.run(sys.argv[1:] or [shutil.which("bash") or "sh"], env=env).returncode


if __name__ == "__main__":
    sys.exit(main())
