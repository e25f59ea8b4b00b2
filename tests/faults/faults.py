# SPDX-License-Identifier: Apache-2.0
"""The faults. Each is a function of the story that makes one and returns it, or None if it cannot be now; what it says is what the journal has."""
import contextlib
import os
import shutil
import socket
import ssl

from book import Wrong
from cluster import INTERNAL, MOVED, NUMBERS

HOUR = 3600


class Fault:
    """heal() ends it."""

    def __init__(self, text, seconds, heal, *nodes):
        self.text, self.seconds, self.heal, self.nodes = text, seconds, heal, nodes


def free(story, *services, ready=False):
    """A node that runs and that no other fault has to do with, or None. `ready`: it is to be asked to end, which a process that has just begun does not
    understand yet."""
    c = story.cluster
    nodes = [n for n in c.nodes.values() if n.runs() and not story.busy(n) and (not services or n.service in services) and n.name in c.listed]
    node = story.dice.choice(nodes) if nodes else None
    return node if node and (not ready or node.is_ready()) else None


def empty(folder):
    for entry in os.listdir(folder):
        path = os.path.join(folder, entry)
        (shutil.rmtree if os.path.isdir(path) and not os.path.islink(path) else os.unlink)(path)


# ---- processes

def kill(story):
    """kill -9, and a start soon or later."""
    node = free(story)
    if node is None:
        return None
    node.kill()
    return Fault(node.name, story.dice.choice([0, 2, 5, 12]), node.begin, node)


def blackout(story):
    """kill -9 of all ingesters at once, or of everything."""
    c = story.cluster
    everything = story.dice.random() < 0.3
    nodes = [n for n in c.nodes.values() if n.runs() and not story.busy(n) and (everything or n.service == "ingester")]
    for node in nodes:
        node.kill()
    return Fault("everything" if everything else "all ingesters", story.dice.choice([0, 3, 10]), lambda: [node.begin() for node in nodes], *nodes)


def pause(story):
    """A process that hangs, sometimes so long that others take over what was its own, and then goes on with what it was about to do."""
    node = free(story)
    if node is None:
        return None
    node.pause()
    return Fault(node.name, story.dice.choice([1, 4, 10, 28]), node.resume, node)


def restart(story):
    """A planned restart."""
    node = free(story, ready=True)
    if node is None:
        return None
    node.drain()

    def heal():
        story.await_drained(node)
        node.begin()
    return Fault(node.name, story.dice.choice([0, 3, 8]), heal, node)


def wipe(story):
    """The data directory is gone at the next start. With a log on it that is allowed only after a clean end."""
    node = free(story, ready=True)
    if node is None:
        return None
    clean = node.service == "ingester" and story.log == "local"
    node.drain() if clean else node.kill()

    def heal():
        if clean:
            story.await_drained(node)
        empty(node.data)
        node.begin()
    return Fault("%s, after %s" % (node.name, "a clean end" if clean else "kill -9"), story.dice.choice([0, 3, 20]), heal, node)


def clock(story):
    """Somebody sets a clock."""
    node = free(story)
    if node is None:
        return None
    hours = story.dice.choice([-26, -3, -0.1, 0.1, 3, 26])
    node.clock.set(hours=hours)
    return Fault("that of %s is off by %g hours" % (node.name, hours), story.dice.choice([3, 10, 20]), node.clock.set)


def disk(story):
    """Something else takes all that is left of a disk."""
    node = free(story, "ingester")
    if node is None or node.name not in story.cluster.disks:
        return None
    path = os.path.join(node.data, "junk")
    with open(path, "wb", buffering=0) as junk, contextlib.suppress(OSError):
        while True:
            junk.write(b"x" * 65536)

    def heal():
        with contextlib.suppress(FileNotFoundError):  # its directory was wiped
            os.unlink(path)
    return Fault("that of %s is full" % node.name, story.dice.choice([4, 10, 20]), heal, node)


# ---- the way between them

def cut(story):
    """Nothing comes through between two machines, in one direction or in both."""
    net, names = story.cluster.net, [*story.cluster.listed, "store"]
    if not net.real:
        return None
    a, b = story.dice.sample(names, 2)
    both = story.dice.random() < 0.4
    cuts = [net.cut(a, b)] + ([net.cut(b, a)] if both else [])
    return Fault("%s %s %s" % (a, "and" if both else "to", b), story.dice.choice([2, 8, 20]), lambda: [net.mend(c) for c in cuts])


def island(story):
    """One machine is cut off from all others; clients and the DNS still reach it."""
    net = story.cluster.net
    if not net.real:
        return None
    name = story.dice.choice(story.cluster.listed)
    others = [n for n in [*story.cluster.listed, "store", "links"] if n != name]
    way = story.dice.choice(["to", "from", "both"])
    cuts = [net.cut(name, n) for n in others if way != "from"] + [net.cut(n, name) for n in others if way != "to"]
    return Fault("%s, %s" % (name, {"to": "nothing comes out", "from": "nothing comes in", "both": "nothing comes in or out"}[way]), story.dice.choice([2, 8, 20]),
                 lambda: [net.mend(c) for c in cuts])


def link(story):
    """What goes to or from a node by the proxy of links is slow, damaged, cut off, or does not arrive."""
    nodes = [n for n in story.cluster.nodes.values() if n.links and n.name in story.cluster.listed and n.name not in story.link_trouble]
    if not nodes:
        return None
    node = story.dice.choice(nodes)
    trouble = story.dice.choice([{"delay": 0.3}, {"delay": 2}, {"rate": 3000}, {"corrupt": 0.03}, {"corrupt": 0.5}, {"cut": 0.1}, {"deaf": True}, {"mute": True}])
    story.link_trouble[node.name] = trouble
    story.cluster.link(trouble=story.link_trouble)

    def heal():
        del story.link_trouble[node.name]
        story.cluster.link(trouble=story.link_trouble)
    return Fault("to %s: %s" % (node.name, trouble), story.dice.choice([3, 8, 20]), heal)


# ---- the store

def store(story):
    """The service fails in one of its ways, for seconds or for long."""
    if story.store_trouble:
        return None
    trouble = story.dice.choice([
        {"away": True}, {"trouble": {"busy": 1.0}}, {"trouble": {"busy": 0.4}}, {"trouble": {"lost": 0.3}}, {"trouble": {"landed": 0.3}}, {"trouble": {"drop": 0.3}},
        {"trouble": {"later": 0.3}, "late_seconds": 12}, {"trouble": {"late": 0.3}, "late_seconds": 4}, {"trouble": {"cut": 0.2, "wrong": 0.1, "short": 0.2}},
        {"trouble": {"later": 0.15, "landed": 0.1, "busy": 0.1, "late": 0.1}, "late_seconds": 20}])
    story.store_trouble = trouble
    story.cluster.store.order(**trouble)

    def heal():
        story.store_trouble = {}
        story.cluster.store.order(away=False, trouble={})
    return Fault(str(trouble), story.dice.choice([3, 8, 20, 45]), heal)


# ---- who the members are

def dns(story):
    """The DNS is away, refuses, lags behind, or tells one of them something else."""
    c, dice = story.cluster, story.dice
    if c.members != "dns" or c.dns.mode != "answer" or story.wrong_lists:
        return None
    seconds = dice.choice([3, 10, 20])
    kind = dice.choice(["silent", "servfail", "lie", "lie"])
    if kind != "lie":
        c.dns.mode = kind

        def answers():
            c.dns.mode = "answer"
        return Fault(kind, seconds, answers)
    asker = dice.choice(c.listed)
    true = [c[n].advertised for n in c.listed if n.startswith("ingester")]
    lie, what = dice.choice([
        (true[:1], "only the first"), (true[1:], "not the first"), ([], "nobody"), ([true[0]] * 3, "the first thrice"),
        ([(c.net.address(99), INTERNAL), *true[1:]], "the first where nobody is"), ([c["querier-1"].advertised, *true], "also a querier")])
    story.wrong_lists[asker, "ingester"] = lie
    c.tell(story.wrong_lists)

    def heal():
        story.wrong_lists.clear()
        c.tell()
    return Fault("tells %s of ingesters: %s" % (asker, what), seconds, heal)


def move(story):
    """A node comes back at another address; others learn of it at once, or late."""
    node = free(story)
    if node is None:
        return None
    node.kill()
    number = int(node.address.rsplit(".", 1)[1])
    story.cluster.net.move(node.name, NUMBERS[node.name] + (0 if number >= MOVED else MOVED))
    story.cluster.link()
    node.begin()

    def heal():
        story.cluster.tell(story.wrong_lists)
    return Fault("%s is at %s now" % (node.name, node.address), story.dice.choice([0, 2, 8]), heal, node)


def scale(story):
    """A fourth ingester comes, or goes."""
    c, node = story.cluster, story.cluster["ingester-4"]
    if story.busy(node):
        return None
    if node.name not in c.listed:
        node.begin()
        c.listed.append(node.name)
        c.tell(story.wrong_lists)
        return Fault("a fourth ingester", 3, lambda: None, node)
    if not node.runs() or not node.is_ready():
        return None
    c.listed.remove(node.name)
    node.drain()
    c.tell(story.wrong_lists)
    return Fault("the fourth ingester goes", story.dice.choice([0, 5]), lambda: story.await_drained(node), node)


def fewer(story):
    """A distributor, querier or compactor fewer for a while."""
    c = story.cluster
    node = free(story, "distributor", "querier", "compactor", ready=True)
    if node is None or len([n for n in c.listed if n.startswith(node.service)]) < 2:
        return None
    c.listed.remove(node.name)
    node.drain()
    c.tell(story.wrong_lists)

    def heal():
        story.await_drained(node)
        node.begin()
        c.listed.append(node.name)
        c.tell(story.wrong_lists)
    return Fault(node.name, story.dice.choice([2, 8]), heal, node)


# ---- who is none of them

def serves(node, context):
    """Does its internal listener answer a stranger, by TLS or in the clear?"""
    try:
        with socket.create_connection((node.address, INTERNAL), timeout=2) as plain, context.wrap_socket(plain) if context else plain as c:
            c.sendall(b"GET /ready HTTP/1.1\r\nHost: x\r\n\r\n")
            return c.recv(4096).startswith(b"HTTP/1.1 200")
    except OSError:
        return False


def stranger(story):
    """Somebody calls a node in the clear and with a certificate of its own, and sends it once more what nodes said to others. None of this is answered, and no
    push counts again. (Only nodes that talk by TLS can tell.)"""
    c, node = story.cluster, free(story)
    if node is None or not c.authority:
        return None
    own = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    own.check_hostname, own.verify_mode = False, ssl.CERT_NONE
    own.load_cert_chain(c.others.path("stranger.pem"), c.others.path("stranger.key"))
    if serves(node, None) or serves(node, own):
        raise Wrong("%s answers a stranger" % node.name)
    # An ingester would drop a push that it has, but not one that only another has.
    heard = story.dice.choice([n.name for n in c.of(node.service) if n is not node])
    n = c.links.order(replay=[heard, node.name])["replayed"]
    return Fault("calls %s, and sends it what was said to %s; so far on %d connections" % (node.name, heard, n), 0, lambda: None)


FAULTS = {f.__name__: f for f in (kill, blackout, pause, restart, wipe, clock, disk, cut, island, link, store, dns, move, scale, fewer, stranger)}
