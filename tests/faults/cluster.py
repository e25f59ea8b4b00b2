# SPDX-License-Identifier: Apache-2.0
"""The cluster of a run: two distributors, four ingesters of which three run at first, two queriers and two compactors, each on a machine of its own, with a
store behind a proxy, links behind another, and a DNS server."""
import json
import os
import random
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

from certificates import Authority
from dns import Dns
from faultclock import FaultClock
from flametree import AT_ONCE, BIN, SPREAD, Flametree
from net import Net, sh
from s3_service import BUCKET, KEYS

HERE = os.path.dirname(os.path.realpath(__file__))
RUNNER, STORE, LINKS = 1, 2, 3
STORE_PORT, PUBLIC, INTERNAL = 9000, 4040, 4041
NUMBERS = {"distributor-1": 11, "distributor-2": 12, "ingester-1": 21, "ingester-2": 22, "ingester-3": 23, "ingester-4": 24,
           "querier-1": 31, "querier-2": 32, "compactor-1": 41, "compactor-2": 42}
BEHIND_LINKS, MOVED = 100, 200  # added to a node's number
DISK_BYTES = 96 << 20

FLAGS = ["--storage.kind=s3", "--s3.bucket=" + BUCKET, "--s3.prefix=run", "--cluster.dns_interval=500ms", "--self_profile.enabled=false"]
FLAGS_OF = {
    "distributor": ["--distributor.append_timeout=4s", "--distributor.otlp_grpc_address=", "--distributor.otlp_http_address=", "--limits.reject_older_than=31d",
                    "--limits.reject_newer_than=0"],
    "ingester": ["--ingester.cut_age=4s", "--ingester.stream_age=15s", "--ingester.stream_settle=2s", "--ingester.log_memory=4MiB", "--ingester.disk_reserve=8MiB"],
    "querier": ["--limits.max_query_length=0"],
    "compactor": [*AT_ONCE, "--compactor.interval=2s", "--compactor.delete_delay=20s", "--compactor.sweep_interval=2s"],
}


class Helper:
    """A program of this folder that takes orders as lines of JSON."""

    def __init__(self, net, machine, script, *args):
        command = [*net.inside(machine), sys.executable, os.path.join(HERE, script), *map(str, args)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError("%s ended" % self.process.args[-3:])
        return json.loads(line)

    def order(self, **what):
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self.answer()

    def end(self):
        self.process.stdin.close()
        self.process.terminate()
        self.process.wait()


class Node(Flametree):
    """A process on a machine. `advertised`: where others are told to find it."""

    def __init__(self, cluster, name, links):
        self.cluster, self.name, self.service, self.links = cluster, name, name.split("-")[0], links
        data = os.path.join(cluster.folder, name)
        os.makedirs(data)
        self.clock = FaultClock(os.path.join(cluster.folder, name + ".clock"))
        super().__init__(program="flametree-" + self.service, data=data, listen=None, env={**self.clock.env, "FLAMETREE_INGESTER_STREAM_SETTLE": "2s"})
        self.log = os.path.join(cluster.folder, name + ".log")
        self.config = os.path.join(cluster.folder, name + ".yaml")
        self.binary = self.program
        # For each address at which it is ever found.
        self.tls = cluster.authority.sign(name, *(cluster.net.address(NUMBERS[name] + more) for more in (0, BEHIND_LINKS, MOVED))) if cluster.authority else []
        self.paused = self.draining = False
        self.stale = False  # it has not read its list of members since that changed

    @property
    def address(self):
        return self.cluster.net.address_of[self.name]

    @property
    def advertised(self):
        return (self.cluster.net.address(NUMBERS[self.name] + BEHIND_LINKS) if self.links else self.address), INTERNAL

    def begin(self):
        """Starts it, and waits for nothing."""
        self.host = self.address
        self.url = self.admin_url = "http://%s:%d" % (self.host, PUBLIC)
        inside = self.cluster.net.inside(self.name)
        self.args = [*inside[1:], self.binary] if inside else []
        self.program = inside[0] if inside else self.binary
        self.args += ["--config", self.config, "--server.id=" + self.name, "--server.data_dir=" + self.data, "--server.listen=%s:%d" % (self.host, PUBLIC),
                      "--internal.listen=%s:%d" % (self.host, INTERNAL), *self.tls, *FLAGS, *FLAGS_OF[self.service], *self.cluster.flags[self.service]]
        self.draining = self.paused = False
        self.start(wait=False)

    def runs(self):
        return self.process is not None

    def is_ready(self):
        try:
            with urllib.request.urlopen(self.url + "/ready", timeout=5) as answer:
                return answer.status == 200
        except (OSError, urllib.error.URLError):
            return False

    def pause(self):
        self.paused = True
        self.signal(signal.SIGSTOP)

    def resume(self):
        if self.paused and self.process:
            self.signal(signal.SIGCONT)
        self.paused = False

    def drain(self):
        self.draining = True
        self.said = os.path.getsize(self.log)
        self.signal(signal.SIGTERM)

    def has_drained(self):
        """It has ended by itself, as it was asked to."""
        if self.process.poll() is None:
            return False
        code, self.process = self.process.returncode, None
        if code:
            raise AssertionError("%s was asked to end, and ended with %d\n%s" % (self.name, code, self.tail()))
        return True

    def left_streams(self):
        """It has ended, and its last lines say that a stream stays registered."""
        with open(self.log, "rb") as f:
            f.seek(self.said)
            return b"event=stream.stays_registered" in f.read()


class Cluster:
    def __init__(self, seed, folder, log_home, members, tls, say=print):
        """`log_home`: local or object; `members`: dns or list; `tls`: nodes speak it to each other."""
        dice = random.Random(seed)
        self.folder, self.log_home, self.members, self.say = folder, log_home, members, say
        self.ended = lambda node, why: None  # told of who ended by itself
        os.environ.update(AWS_ACCESS_KEY_ID=KEYS[0], AWS_SECRET_ACCESS_KEY=KEYS[1])
        self.net = Net("127.%d.%d." % (os.getpid() >> 8 & 127 | 128, os.getpid() & 255))
        here = self.net.runner(RUNNER)
        self.net.machine("store", STORE)
        self.net.machine("links", LINKS, *(number + BEHIND_LINKS for number in NUMBERS.values()))
        for name, number in NUMBERS.items():
            self.net.machine(name, number)
        self.dns = Dns(here)
        self.authority = None
        if tls:
            self.authority, self.others = self.new_authority("tls"), self.new_authority("tls-of-others")
            self.others.sign("stranger", here)
        self.store = Helper(self.net, "store", "store.py", self.net.address(STORE), STORE_PORT, seed)
        self.links = Helper(self.net, "links", "links.py", seed)
        self.store_url = self.store.answer()["url"]
        os.environ["AWS_ENDPOINT_URL_S3"] = self.store_url
        log = ["--ingester.log=" + log_home, "--ingester.log_linger=100ms"]
        # A new connection has half of it for its handshake too, in which both take turns several times.
        probe = "--cluster.probe_interval=" + ("2s" if tls else "1s")
        self.flags = {"distributor": SPREAD, "ingester": log, "querier": [], "compactor": []}
        for service in self.flags:
            self.flags[service] = ["--s3.endpoint=" + self.store_url, probe, "--cluster.dns_servers=" + self.dns.address, *self.flags[service]]
        self.nodes = {name: Node(self, name, links=dice.random() < 0.5) for name in NUMBERS}
        self.listed = [name for name in NUMBERS if name != "ingester-4"]
        self.disks = [n.name for n in self.of("ingester") if self.net.disk(n.data, DISK_BYTES)]
        self.link(**{"listen": {n.name: n.advertised for n in self.nodes.values() if n.links}})

    def new_authority(self, name):
        folder = os.path.join(self.folder, name)
        os.mkdir(folder)
        return Authority(folder)

    def __getitem__(self, name):
        return self.nodes[name]

    def of(self, service):
        return [n for n in self.nodes.values() if n.service == service]

    def link(self, **order):
        self.links.order(to={n.name: (n.address, INTERNAL) for n in self.nodes.values()}, **order)

    def tell(self, wrong=None):
        """Everybody is told who the members are; `wrong`: {(asker, service): addresses} that some are told instead."""
        for asker in self.nodes.values():
            lines = []
            for kind in ("ingester", "querier", "compactor"):
                name = "_%s._tcp.%s.test" % (kind, asker.name)
                true = [self[n] for n in self.listed if n.startswith(kind)]
                self.dns.srv[name] = (wrong or {}).get((asker.name, kind), [n.advertised for n in true])
                lines.append("  %ss:" % kind)
                lines += ["    - dns:" + name] if self.members == "dns" else ["    - %s=%s:%d" % (n.name, *n.advertised) for n in true]
            with open(asker.config + ".new", "w") as f:
                f.write("cluster:\n" + "\n".join(lines) + "\n")
            os.rename(asker.config + ".new", asker.config)  # somebody may read it now
            asker.stale = self.members == "list"
        self.reload()

    def reload(self):
        """Who is ready reads its list again; a process that has just begun does not know the signal yet."""
        for n in self.nodes.values():
            if n.stale and n.runs() and not n.draining and not n.paused and n.is_ready():
                n.stale = False
                n.signal(signal.SIGHUP)

    def start(self):
        self.tell()
        for name in self.listed:
            self[name].begin()
        self.await_ready(120)

    def await_ready(self, seconds):
        deadline, left = time.monotonic() + seconds, list(self.listed)
        while left:
            left = [name for name in left if not self[name].is_ready()]
            self.look()
            if left and time.monotonic() > deadline:
                raise AssertionError("not ready after %d s: %s\n%s" % (seconds, left, "\n".join(self[name].tail(20) for name in left)))
            time.sleep(0.1)

    def look(self):
        """Nobody ends who was not asked to, unless it says why: then it is started again, as whoever runs it would do."""
        self.reload()
        for n in self.nodes.values():
            if n.process and not n.draining and n.process.poll() is not None:
                why = (n.tail(1).splitlines() or [""])[0]
                if n.process.returncode != 1 or not why.startswith("flametree: "):
                    n.check_alive()
                n.process = None
                self.ended(n, why)
                n.begin()

    def end(self):
        """All ends as it should: those that ask others first."""
        for service in ("distributor", "querier", "compactor", "ingester"):
            for n in self.of(service):
                if n.process:
                    n.resume()
                    n.signal(signal.SIGTERM)
            for n in self.of(service):
                if n.process:
                    process, n.process = n.process, None
                    n.stopped(process)

    def close(self):
        for n in self.nodes.values():
            if n.process:
                n.resume()
                n.kill()
        self.store.end()
        self.links.end()
        self.dns.__exit__()
        if self.net.real:
            for name in self.disks:
                sh("umount", "-l", self[name].data)
