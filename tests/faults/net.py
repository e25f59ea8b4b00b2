# SPDX-License-Identifier: Apache-2.0
"""The machines of a run: each a network namespace with one address on a bridge. All of it lies in namespaces of the run itself (apart()), so whatever
becomes of the run, the kernel takes it away with the run's last process.

Where that is not allowed machines are loopback addresses, nothing can be cut between them, and disks are plain directories: `why` says so."""
import collections
import os
import subprocess
import sys

INSIDE = "FAULTS_APART"
FLAGS = ["--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
NOBODY = "02:00:00:00:00:01"  # a hardware address that no machine has


def sh(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise OSError("%s: %s" % (" ".join(command), done.stderr.strip()))
    return done.stdout


def apart():
    """Starts this program again in namespaces of its own. Returns only in there, or where that cannot be."""
    if INSIDE in os.environ:  # empty: not wanted
        Net.why = None if os.environ[INSIDE] else "%s is empty" % INSIDE
        return
    for rights in ([], ["--user", "--map-root-user"]):
        tried = subprocess.run(["unshare", *rights, *FLAGS, "sh", "-c", "ip link add ft-try type bridge && mount -t tmpfs none /mnt"], capture_output=True, text=True)
        if tried.returncode == 0:
            os.environ[INSIDE] = "1"
            os.execvp("unshare", ["unshare", *rights, *FLAGS, sys.executable, "-B", *sys.argv])
    Net.why = (tried.stderr.strip().splitlines() or ["unshare does not do it"])[-1]


class Net:
    why = None

    def __init__(self, base):
        """`base`: the loopback addresses to use where there are no namespaces, 127.a.b."""
        self.real = os.environ.get(INSIDE) == "1"
        self.first = "10.77.0." if self.real else base
        self.address_of, self.cuts = {}, collections.Counter()
        if not self.real:
            return
        sh("mount", "-t", "tmpfs", "none", "/run")
        os.makedirs("/run/netns")
        sh("ip", "link", "set", "lo", "up")
        sh("ip", "link", "add", "bridge", "type", "bridge")
        sh("ip", "link", "set", "bridge", "up")

    def address(self, number):
        return self.first + str(number)

    def runner(self, number):
        """The machine of the run itself."""
        self.address_of["runner"] = self.address(number)
        if self.real:
            sh("ip", "addr", "add", self.address(number) + "/24", "dev", "bridge")
        return self.address(number)

    def machine(self, name, *numbers):
        """A new machine with these addresses; the first is its own."""
        self.address_of[name] = self.address(numbers[0])
        if self.real:
            port = "p-" + name
            sh("ip", "netns", "add", name)
            sh("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", name)
            sh("ip", "link", "set", port, "master", "bridge", "up")
            sh(*self.inside(name), "ip", "link", "set", "lo", "up")
            sh(*self.inside(name), "ip", "link", "set", "eth0", "up")
            for number in numbers:
                sh(*self.inside(name), "ip", "addr", "add", self.address(number) + "/24", "dev", "eth0")
        return self.address(numbers[0])

    def inside(self, name):
        """What stands before a command that is to run on a machine. It keeps the process id."""
        return ["/usr/bin/nsenter", "--net=/run/netns/" + name] if self.real else []

    def move(self, name, number):
        """The machine has another address from now on."""
        old, self.address_of[name] = self.address_of[name], self.address(number)
        if self.real:
            # In this order: with the first address of a network its others go.
            sh(*self.inside(name), "ip", "addr", "del", old + "/24", "dev", "eth0")
            sh(*self.inside(name), "ip", "addr", "add", self.address(number) + "/24", "dev", "eth0")
            for a, to in [cut for cut, times in self.cuts.items() if cut[0] == name and times]:
                self.lose(a, to)  # went with the old address

    def cut(self, a, b):
        """What a sends to b gets lost, silently; the other way goes on. Returns what mend() takes."""
        to = self.address_of[b]
        self.cuts[a, to] += 1
        self.lose(a, to)
        return a, to

    def lose(self, a, to):
        self.neighbour("replace", a, to, "lladdr", NOBODY, "nud", "permanent")

    def mend(self, cut):
        self.cuts[cut] -= 1
        if not self.cuts[cut]:
            self.neighbour("del", *cut)

    def neighbour(self, verb, a, to, *what):
        before, device = ([], "bridge") if a == "runner" else (self.inside(a), "eth0")
        sh(*before, "ip", "neigh", verb, to, *what, "dev", device)

    def disk(self, folder, size):
        """A small disk at the folder; false if there can be none."""
        if self.real:
            sh("mount", "-t", "tmpfs", "-o", "size=%d" % size, "none", folder)
        return self.real
