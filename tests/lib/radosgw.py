"""A real S3 service for tests: Ceph's radosgw over one monitor and one disk in memory, on free ports of the loopback.

    with Radosgw() as g:
        g.url, g.access_key, g.secret_key, g.bucket("name")
    tests/lib/radosgw.py -- COMMAND...    runs a command with FLAMETREE_TEST_S3 set to the service's URL
    tests/lib/radosgw.py --serve FILE     runs until SIGTERM; once it takes requests, FILE has the settings of a server that uses it

Needs the packages radosgw, ceph-mon, ceph-osd and ceph-common, whose own services are not used. It takes about three seconds to start.
"""
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request
import uuid

from s3_service import BUCKET, S3Service, free_ports

# Without authentication between its own parts, which all are ours; what follows makes small things start fast.
CONF = """[global]
fsid = %(fsid)s
mon host = [v2:127.0.0.1:%(mon2)d/0,v1:127.0.0.1:%(mon1)d/0]
mon initial members = m
auth cluster required = none
auth service required = none
auth client required = none
ms mon client mode = crc
ms client mode = crc
osd pool default size = 1
osd pool default min size = 1
osd pool default pg num = 1
osd pool default pgp num = 1
osd pool default pg autoscale mode = off
rgw rados pool pg num min = 1
osd max pg per osd hard ratio = 100
mon max pg per osd = 1000
osd crush chooseleaf type = 0
mon warn on pool no redundancy = false
mon allow pool size one = true
paxos propose interval = 0.05
paxos min wait = 0.01
mon data avail crit = 1
mon data avail warn = 1
run dir = %(dir)s/run
admin socket = %(dir)s/run/$name.asok
pid file = %(dir)s/run/$name.pid
log file = %(dir)s/log/$name.log
keyring = %(dir)s/keyring
ms bind ipv6 = false
ms bind port min = %(osd)d
ms bind port max = %(osd_end)d
public addr = 127.0.0.1
cluster addr = 127.0.0.1
[mon.m]
mon data = %(dir)s/mon
[osd.0]
osd data = %(dir)s/osd
osd objectstore = memstore
memstore device bytes = 4294967296
[client.rgw]
rgw frontends = beast endpoint=127.0.0.1:%(port)d tcp_nodelay=1
rgw dns name = localhost
rgw enable usage log = false
rgw override bucket index max shards = 1
rgw thread pool size = 64
rgw enable ops log = false
"""


class Radosgw(S3Service):
    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="radosgw-")
        self.processes = []
        try:
            self.start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def run(self, *command, **kw):
        return subprocess.run(command, env=self.env, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, **kw)

    def daemon(self, name, *command):
        with open(os.path.join(self.dir, "log", name + ".out"), "ab") as out:
            self.processes.append(subprocess.Popen([*command, "-f"], env=self.env, cwd=self.dir, stdout=out, stderr=out, stdin=subprocess.DEVNULL))

    def start(self):
        first = free_ports(43)
        self.port = first
        self.url = "http://127.0.0.1:%d" % self.port
        self.env = {**os.environ, "CEPH_CONF": os.path.join(self.dir, "ceph.conf")}
        for folder in ("mon", "osd", "log", "run"):
            os.mkdir(os.path.join(self.dir, folder))
        values = {"fsid": uuid.uuid4(), "dir": self.dir, "mon1": first + 1, "mon2": first + 2, "osd": first + 3, "osd_end": first + 42, "port": self.port}
        with open(os.path.join(self.dir, "ceph.conf"), "w") as f:
            f.write(CONF % values)
        open(os.path.join(self.dir, "keyring"), "w").close()
        monmap = os.path.join(self.dir, "monmap")
        self.run("monmaptool", "--create", "--addv", "m", "[v2:127.0.0.1:%(mon2)d,v1:127.0.0.1:%(mon1)d]" % values, "--fsid", str(values["fsid"]), monmap)
        self.run("ceph-mon", "-i", "m", "--mkfs", "--monmap", monmap)
        self.daemon("mon", "ceph-mon", "-i", "m")
        osd = str(uuid.uuid4())
        self.run("ceph", "osd", "new", osd)
        self.run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        self.run("ceph", "osd", "crush", "add", "osd.0", "1", "root=default", "host=h")
        self.daemon("osd", "ceph-osd", "-i", "0")
        self.wait("the disk", lambda: "1 up" in self.run("ceph", "osd", "stat").stdout)
        self.run("radosgw-admin", "-n", "client.rgw", "user", "create", "--uid=t", "--display-name=t", "--access-key=" + self.access_key,
                 "--secret-key=" + self.secret_key)
        self.daemon("rgw", "radosgw", "-n", "client.rgw")
        self.wait("the service", self.listens)
        self.bucket(BUCKET)

    def listens(self):
        try:
            urllib.request.urlopen(self.url, timeout=5).read()
            return True
        except OSError:
            return False

    def wait(self, what, done):
        deadline = time.monotonic() + 120
        while not done():
            ended = [p.args[0] for p in self.processes if p.poll() is not None]
            if ended or time.monotonic() > deadline:
                raise AssertionError("waited for %s; ended: %s\n%s" % (what, ended, self.tail()))
            time.sleep(0.1)

    def tail(self):
        text = ""
        for name in sorted(os.listdir(os.path.join(self.dir, "log"))):
            with open(os.path.join(self.dir, "log", name), errors="replace") as f:
                text += "---- %s\n%s" % (name, "".join(f.readlines()[-20:]))
        return text

    def __exit__(self, *_):
        for p in reversed(self.processes):
            p.send_signal(signal.SIGKILL)
        for p in self.processes:
            p.wait()
        shutil.rmtree(self.dir, ignore_errors=True)


if __name__ == "__main__":
    Radosgw.main()
