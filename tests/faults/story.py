# SPDX-License-Identifier: Apache-2.0
"""A run from its begin to its end: rounds of faults, after each of which all heals and is looked at, and at last what the store holds."""
import contextlib
import json
import os
import random
import subprocess
import time
import traceback

import s3_service
from book import Wrong
from cluster import Cluster
from faults import FAULTS
from flametree import BIN
from load import Load

DAY_NS = 24 * 3600 * 10**9
ROUND_SECONDS = (18, 40)
AT_ONCE = 3
SWEEPS = 4  # three days apart
SPOIL = ("disk", "store", "cut", "island", "clock")  # faults for which a process may refuse to start
HEAL_SECONDS = 150  # on a busy machine under sanitizers


class Story:
    PUSHERS = 6

    def __init__(self, options, folder, why_not_apart):
        self.options, self.folder = options, folder
        self.dice = random.Random(options.seed)
        self.log = options.log or self.dice.choice(("local", "object"))
        self.members = self.dice.choice(("dns", "dns", "list"))
        self.tls = {"on": True, "off": False}.get(options.tls, options.seed % 2 == 1)
        # A stranger is refused by TLS.
        self.names = options.only or [name for name in FAULTS if self.tls or name != "stranger"]
        self.began = time.monotonic()
        self.journal = open(os.path.join(folder, "faults.log"), "w")
        self.pushes = open(os.path.join(folder, "pushes.log"), "w", buffering=1)
        self.say("seed %d, ingester.log: %s, members by %s, nodes talk %s" % (options.seed, self.log, self.members, "by TLS" if self.tls else "in the clear"))
        if why_not_apart:
            self.say("no namespaces here (%s): nothing is cut but by the proxies, and disks are not full" % why_not_apart)
        self.wrong_lists = {}
        self.active, self.done, self.longest, self.ends = [], 0, 0.0, 0
        self.spoilt = -1000.0  # when a fault of SPOIL was over last
        self.store_trouble, self.link_trouble = {}, {}

    def say(self, text):
        line = "%7.1f  %s  %s" % (time.monotonic() - self.began, time.strftime("%H:%M:%S"), text)
        print(line, flush=True)
        self.journal.write(line + "\n")
        self.journal.flush()

    def run(self):
        self.cluster = self.load = None
        try:
            self.cluster = Cluster(self.options.seed, self.folder, self.log, self.members, self.tls, say=self.say)
            self.cluster.ended = self.node_ended
            self.cluster.start()
            self.say("all run; behind the proxy of links: %s" % ", ".join(n.name for n in self.cluster.nodes.values() if n.links))
            self.load = Load(self.cluster, random.Random(self.options.seed + 1), self.pushes, self.PUSHERS)
            self.load.start()
            self.suffer()
            self.conclude()
        except Exception as fault:
            self.say("WRONG: %s" % fault)
            if not isinstance(fault, AssertionError):
                traceback.print_exc(file=self.journal)
                traceback.print_exc()
            good = False
        else:
            good = True
        finally:
            if self.load:
                self.load.over.set()
            if self.cluster and not good:
                self.keep_store()
            if self.cluster:
                self.cluster.close()
        self.say(self.summary(good))
        return good

    def node_ended(self, node, why):
        """A process may refuse to start where something is wrong with its disk or its store, and not for long after that."""
        self.say("! %s ended and is started again: %s" % (node.name, why[:300]))
        self.ends += 1
        if time.monotonic() - self.spoilt > 20 and not any(f.name in SPOIL for f in self.active):
            raise Wrong("%s ended though nothing is wrong: %s" % (node.name, why))
        time.sleep(0.5)

    def keep_store(self):
        """The objects as they are now go to the logs."""
        with contextlib.suppress(Exception):  # there is no store
            self.cluster.store.order(away=False, trouble={})
            s3_service.fetch(self.cluster.store_url, "s3://%s/run" % s3_service.BUCKET, os.path.join(self.folder, "store"))

    def summary(self, good):
        counts = self.load.counts if self.load else {}
        asked = {what: counts.get("question: " + what, 0) for what in ("complete", "partial")}
        pushes = sum(n for what, n in counts.items() if what.startswith("push"))
        return "faults: seed %d, %s log, %s: %s; %d faults, %d pushes, %d profiles acknowledged, %d complete and %d partial answers, healed within %.0f s" % (
            self.options.seed, self.log, "TLS" if self.tls else "in the clear", "all right" if good else "WRONG", self.done, pushes, self.load.book.total() if self.load else 0,
            asked["complete"], asked["partial"], self.longest)

    # ---- faults

    def pause(self, seconds):
        """Time goes by; ends at once if an answer was wrong or a process ended."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.load.look()
            self.cluster.look()
            time.sleep(0.1)

    def suffer(self):
        self.pause(3)
        self.self_test()
        end = time.monotonic() + self.options.minutes * 60
        while not self.options.self_test and time.monotonic() < end:
            round_end = time.monotonic() + self.dice.uniform(*ROUND_SECONDS)
            while time.monotonic() < round_end:
                self.one_step()
                self.pause(self.dice.uniform(0.5, 3))
            self.heal()

    def one_step(self):
        now = time.monotonic()
        for over in [f for f in self.active if f.until <= now]:
            self.end(over)
        if len(self.active) < AT_ONCE:
            name = self.dice.choice(self.names)
            fault = FAULTS[name](self)
            if fault:
                fault.name, fault.until = name, now + fault.seconds
                self.active.append(fault)
                self.done += 1
                self.say("+ %s: %s" % (name, fault.text))

    def end(self, fault):
        self.active.remove(fault)
        self.say("- %s: %s" % (fault.name, fault.text))
        fault.heal()
        if fault.name in SPOIL:
            self.spoilt = time.monotonic()

    def await_drained(self, node):
        """An end needs the store, which may be away now: then that heals first. A process that could not take its registrations back says that its data
        directory has to be used again: so it is, and ends once more."""
        self.await_node(node, "end", node.has_drained)
        while node.left_streams():
            node.begin()
            self.await_node(node, "begin", node.is_ready)
            node.drain()
            self.await_node(node, "end", node.has_drained)

    def await_node(self, node, what, done):
        deadline = time.monotonic() + HEAL_SECONDS
        while not done():
            for fault in [f for f in self.active if f.name in ("store", "cut", "island", "pause") and time.monotonic() > deadline - HEAL_SECONDS + 20]:
                self.end(fault)
            if time.monotonic() > deadline:
                raise Wrong("%s does not %s within %d s" % (node.name, what, HEAL_SECONDS))
            self.pause(0.1)

    def busy(self, node):
        """Is its process the business of a fault that is not over?"""
        return any(node is n for f in self.active for n in f.nodes)

    def heal(self):
        for fault in list(self.active):
            self.end(fault)
        began = time.monotonic()
        self.cluster.await_ready(HEAL_SECONDS)
        self.load.look()
        self.load.repeat_open(HEAL_SECONDS)
        self.await_complete()
        self.longest = max(self.longest, time.monotonic() - began)
        self.say("healed after %.1f s; %s" % (time.monotonic() - began, dict(sorted(self.load.counts.items()))))

    def await_complete(self):
        """Every querier answers every question completely; each answer is looked at."""
        deadline = time.monotonic() + HEAL_SECONDS
        for querier in self.cluster.of("querier"):
            for service in sorted(self.load.book.names):
                for kind in ("tree", "series"):
                    while True:
                        said = self.load.ask(querier, service, kind)
                        if said is not None and not said.startswith("partial"):
                            break
                        if time.monotonic() > deadline:
                            raise Wrong("healed, but after %d s %s says: %s" % (HEAL_SECONDS, querier.name, said))
                        self.pause(0.3)

    # ---- mistakes that have to be found

    def self_test(self):
        """Answers are changed on their way to the check, which has to find each change."""
        acked = lambda least: sorted(least)[len(least) // 2]
        mistakes = {
            "a profile that was acknowledged is left out": lambda got, least: {k: v for k, v in got.items() if k != acked(least)},
            "a profile counts twice": lambda got, least: {**got, acked(least): 1 + got[acked(least)] + (10 if acked(least).endswith("n") else 0)},
            "a profile that nobody sent is there": lambda got, least: {**got, "nobody": 1},
        }
        for what, plant in mistakes.items():
            self.await_complete()
            deadline = time.monotonic() + HEAL_SECONDS
            while not self.is_found(plant):
                if time.monotonic() > deadline:
                    raise AssertionError("no complete answer in which this mistake could be found: " + what)
        self.say("mistakes that were made on purpose were found: %d" % len(mistakes))

    def is_found(self, plant):
        try:
            said = self.ask_planted(self.cluster["querier-1"], "s0", plant)
        except Wrong:
            return True
        if said is not None and not said.startswith("partial"):
            raise AssertionError("a mistake that was made on purpose was not found")
        return False

    def ask_planted(self, querier, service, plant):
        """The load goes on with answers as they are."""
        planted = Load.__new__(Load)
        planted.__dict__.update(self.load.__dict__)
        planted.plant = plant
        return planted.ask(querier, service)

    # ---- the end

    def conclude(self):
        self.load.stop()
        self.load.repeat_open(HEAL_SECONDS)
        self.await_complete()
        self.say("the load is over, %d profiles are acknowledged" % self.load.book.total())
        self.store_all()
        self.await_complete()
        self.end_ingesters()
        self.look_into_store()
        if self.log == "object":
            self.look_into_logs()
        self.cluster.end()

    def end_ingesters(self):
        """All is in the store then, and no stream is registered."""
        for node in self.cluster.of("ingester"):
            if node.runs():
                node.drain()
                self.await_drained(node)
        streams = [key for key in self.keys() if "/streams/" in key]
        if streams:
            raise Wrong("all ingesters have ended, but streams are registered: %s" % streams[:9])

    def keys(self):
        return s3_service.keys(self.cluster.store_url, s3_service.BUCKET, "run/")

    def look_into_logs(self):
        """Days later an ingester sweeps the logs of streams that are over: none is left but its own."""
        c, node = self.cluster, self.cluster["ingester-1"]
        c.listed = [name for name in c.listed if not name.startswith("ingester")] + [node.name]
        c.tell()
        node.clock.set()
        node.begin()
        c.await_ready(HEAL_SECONDS)
        node.clock.pass_(3 * DAY_NS)
        deadline = time.monotonic() + HEAL_SECONDS
        while True:
            keys = self.keys()
            log, own = ({key.split("/")[3] for key in keys if key.startswith("run/v1/%s/" % kind)} for kind in ("log", "streams"))
            if not log - own:
                self.say("of logs %d are left, of streams that are open" % len(log))
                return
            if time.monotonic() > deadline:
                raise Wrong("logs of streams that are over are left: %s" % sorted(log - own)[:9])
            node.clock.wait(3700)  # it sweeps once an hour
            self.pause(5)

    def operator(self, node):
        from client import Server
        return Server(node.url)

    def store_all(self):
        for node in self.cluster.of("ingester"):
            if node.runs():
                self.operator(node).call("POST", "/ingester/flush?wait=true", b"").expect(200)
        self.compact()

    def compact(self):
        deadline = time.monotonic() + 300
        while not all(self.operator(c).call("POST", "/compactor/run?timeout=30s&sweep=true").expect(200).json()["settled"] for c in self.cluster.of("compactor")):
            if time.monotonic() > deadline:
                raise Wrong("the compactors do not come to an end")

    def verify(self):
        """Blocks agree with manifests; what no manifest names, or None."""
        done = subprocess.run([os.path.join(BIN, "flametree"), "manifest", "verify", "s3://%s/run" % s3_service.BUCKET, "--format", "json"], capture_output=True, text=True)
        if done.returncode:
            raise Wrong("manifest verify: %s%s" % (done.stdout, done.stderr))
        for tenant in json.loads(done.stdout):
            if tenant["orphans"] or tenant["faults"] or tenant["segments"]:
                return tenant
            self.say("the store has %(versions)d versions, %(pages)d pages and %(blocks)d blocks, and nothing else" % tenant)
        return None

    def look_into_store(self):
        """Nothing is in it that nobody names, once sweeps may take it: objects and the compactors' clocks get older."""
        for i in range(SWEEPS):
            self.cluster.store.order(age_days=3)
            for c in self.cluster.of("compactor"):
                c.clock.pass_(3 * DAY_NS)
            self.compact()
            # Compactors that work on the same leave something new to sweep, each time less.
            left = self.verify() if i > 0 else None
            if i > 0 and not left:
                break
        else:
            raise Wrong("left in the store: %s" % left)
        for querier in self.cluster.of("querier"):
            for service in sorted(self.load.book.names):
                if self.load.ask(querier, service, whole=True) is None:
                    raise Wrong("%s does not answer from the store alone" % querier.name)
