"""deploy/compose.yaml: its form, and its commands with their settings as processes of this machine, each with an address of its own."""
import contextlib
import json
import os
import re
import subprocess
import tempfile
import urllib.request

import pytest
import versitygw
import yaml
from client import Pprof, Server
from dns import Dns
from flametree import TOP, WITHOUT_SETTINGS, await_, own_host
from image import instructions
from release import RELEASE

DEPLOY = os.path.join(TOP, "deploy")
ROLES = {"distributor-1": "distributor", "distributor-2": "distributor", "ingester": "ingester", "querier-1": "querier", "querier-2": "querier", "compactor": "compactor"}


@pytest.fixture(scope="module")
def services():
    """As docker-compose reads the file, with what its parts have in common filled in."""
    done = subprocess.run(["docker-compose", "-f", "compose.yaml", "--profile", "grafana", "config"], cwd=DEPLOY, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)["services"]


def test_ports_are_for_this_machine_alone(services):
    ports = [port for s in services.values() for port in s.get("ports", [])]
    assert len(ports) == 7 and all(str(port).startswith("127.0.0.1:") for port in ports), ports
    assert len({str(port).split(":")[1] for port in ports}) == len(ports)


def test_every_image_is_of_one_version(services):
    for name, service in services.items():
        assert service["image"] == "flametree:latest" and service["build"] if name in ROLES else re.search(r":v?\d+\.\d+\.\d+$", service["image"]), name
    assert services["s3"]["image"].endswith(":" + versitygw.VERSION), "the one that is tested"


def test_containers_may_do_nothing_else(services):
    for name in ROLES:
        s = services[name]
        assert s["read_only"] and s["cap_drop"] == ["ALL"] and "no-new-privileges:true" in s["security_opt"], name
        profile = next(o.split(":", 1)[1] for o in s["security_opt"] if o.startswith("seccomp:"))
        with open(os.path.join(DEPLOY, profile)) as f:
            assert json.load(f)["defaultAction"] == "SCMP_ACT_ERRNO"


def test_grafana_asks_a_querier(services):
    at, to, _ = services["grafana"]["volumes"][0].split(":")
    assert to.startswith("/etc/grafana/provisioning/datasources/")
    with open(os.path.join(DEPLOY, at)) as f:
        source = yaml.safe_load(f)["datasources"][0]
    host = re.fullmatch(r"http://(.*):4040", source["url"])[1]
    assert ROLES[host] == "querier" and host in services["querier-1"]["environment"]["FLAMETREE_SERVER_HOSTS"].split(",")


class Composed:
    """The services as processes. `at[name]` are the addresses of a service's processes."""

    def __init__(self, services, folder, dns, s3):
        self.services, self.folder, self.s3, self.processes = services, folder, s3, []
        self.at = {name: [own_host() for _ in range(services[name].get("deploy", {}).get("replicas", 1))] for name in ROLES}
        dns.a.update(self.at)
        self.dns = dns.address

    def environment(self, name, i):
        host = self.at[name][i]
        of_image = dict(e.split("=", 1) for word, rest in instructions() if word == "ENV" for e in rest.split())
        env = {**of_image, **self.services[name]["environment"]}
        for setting, value in env.items():
            value = re.sub(r"http://s3:", "http://%s:" % self.s3, re.sub(r"^:", host + ":", value))
            if "_URL" in setting:
                value = re.sub(r"//(distributor-\d)", lambda m: "//" + self.at[m[1]][0], value)
            env[setting] = value
        data = os.path.join(self.folder, "%s-%d" % (name, i))
        own = {"FLAMETREE_SERVER_DATA_DIR": data, "FLAMETREE_CLUSTER_DNS_SERVERS": self.dns}
        # Of a container the host's name is its own.
        return {**WITHOUT_SETTINGS, "FLAMETREE_SERVER_ID": "%s-%d" % (name, i), **env, **own}

    def program(self, name):
        entry, = self.services[name]["entrypoint"]
        return os.path.join(RELEASE, os.path.basename(entry))

    def start(self, name, i):
        log = open(os.path.join(self.folder, "%s-%d.log" % (name, i)), "w+")
        self.processes.append((subprocess.Popen([self.program(name)], env=self.environment(name, i), stdin=subprocess.DEVNULL, stdout=log, stderr=log), log))

    def ready(self):
        for name in ROLES:
            for host in self.at[name]:
                await_("%s to be ready" % name, lambda: self.answers("http://%s:4040/ready" % host), 120)

    def answers(self, url, **headers):
        for process, log in self.processes:
            assert process.poll() is None, open(log.name).read()[-3000:]
        with contextlib.suppress(OSError):
            return urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=5).status == 200

    def stop(self):
        for process, _ in self.processes:
            process.terminate()
        codes = [process.wait(120) for process, _ in self.processes]
        for _, log in self.processes:
            log.close()
        return codes


@pytest.fixture
def composed(services, tmp_path):
    """With the S3 server as the file starts it."""
    host, objects = own_host(), versitygw.with_attributes()
    binary = versitygw.build()
    shell = [part.replace("$$", "$").replace("/objects", objects).replace(":7070", host + ":7070").replace("exec versitygw", "exec " + binary) for part in services["s3"]["entrypoint"]]
    s3 = subprocess.Popen(shell, env={**os.environ, **services["s3"]["environment"]}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    folder = tempfile.mkdtemp(dir=tmp_path)
    with Dns() as dns:
        c = Composed(services, folder, dns, host)
        try:
            yield c
        finally:
            for process, _ in c.processes:
                process.kill()
                process.wait()
            s3.kill()
            s3.wait()
            subprocess.run(["rm", "-rf", objects])


def test_the_same_commands_make_a_cluster(composed):
    c = composed
    for name in ROLES:
        checked = subprocess.run([c.program(name), "--check-config"], env=c.environment(name, 0), capture_output=True, text=True)
        assert checked.returncode == 0 and "unknown" not in checked.stderr, checked.stderr
        for i in range(len(c.at[name])):
            c.start(name, i)
    c.ready()
    pushed = {}
    for distributor in ("distributor-1", "distributor-2"):
        s = Server("http://%s:4040" % c.at["querier-1"][0], "http://%s:4040" % c.at[distributor][0], strict=True)
        for pod in range(6):
            s.push({"__name__": "process_cpu", "service_name": "shop", "pod": "p%d" % pod}, Pprof(("main;" + distributor, 1))).expect(200)
        pushed["main;" + distributor] = 6
    for querier in ("querier-1", "querier-2"):
        s = Server("http://%s:4040" % c.at[querier][0], "http://%s:4040" % c.at["distributor-1"][0], strict=True)
        await_("all of it", lambda: s.stacks("shop") == pushed, 60)
        await_("profiles of the processes themselves", lambda: "flametree" in s.ok("LabelValues", name="service_name").get("names", []), 90, 0.2)
        # By the name that other containers call it.
        assert c.answers("http://%s:4040/cluster" % c.at[querier][0], Host=querier + ":4040")
    assert set(c.stop()) == {0}
