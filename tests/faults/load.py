# SPDX-License-Identifier: Apache-2.0
"""Clients of a run: they push profiles with and without ids, repeat at another distributor what failed, and ask queriers all the while."""
import gzip
import http.client
import json
import threading
import time
import uuid
from collections import Counter, deque

from book import Book, Wrong, check, check_sum
from client import CPU, PUSH, QUERIER, Pprof, Reply, flame, pb, select
from cluster import PUBLIC

HOUR_NS = 3600 * 10**9
ASKERS = 2
OF_A_SERVICE = 300  # profiles, after which another service begins
PODS = 24
TRIES = 6
PUSH_SECONDS, ASK_SECONDS = 8, 40


def ident(name):
    return str(uuid.uuid5(uuid.NAMESPACE_OID, name))


class Load:
    def __init__(self, cluster, dice, journal, pushers):
        """`journal`: each try of a push is a line of it."""
        self.journal = journal
        self.cluster, self.dice = cluster, dice
        self.book = Book(lambda name: name.endswith("i"))
        self.began_ns = time.time_ns()
        self.count, self.counts, self.lock = 0, Counter(), threading.Lock()
        self.open = deque()  # names with ids whose outcome nobody knows
        self.bodies = {}
        self.wrong, self.over, self.threads = [], threading.Event(), []
        self.pushers, self.tell = pushers, None  # tell(begin, end, outcome, Retry-After) of each try of a push
        self.plant = None  # changes an answer before it is looked at: to see that a mistake is found

    # ---- pushing

    def next_name(self):
        with self.lock:
            self.count += 1
            return "s%d" % (self.count // OF_A_SERVICE), "p%d%s" % (self.count, "i" if self.dice.random() < 0.6 else "n")

    def body(self, service, name):
        pod = "p%d" % (int(name[1:-1]) % PODS)
        age = 5 * 10**9 + (self.dice.randrange(1, 4) * HOUR_NS if self.dice.random() < 0.3 else 0)
        profile = gzip.compress(Pprof((name, 1), time_ns=time.time_ns() - age).encode(), 1)
        labels = [pb((1, k), (2, v)) for k, v in (("__name__", "process_cpu"), ("service_name", service), ("pod", pod))]
        return pb((1, pb((1, labels), (2, pb((1, profile), (2, ident(name) if self.book.with_id(name) else None))))))

    def push_once(self, service, name, distributor, seconds=PUSH_SECONDS):
        """Was it acknowledged?"""
        began, began_mono = time.time(), time.monotonic()
        said, later = self.push_to(service, name, distributor, seconds)
        if self.tell:
            self.tell(began_mono, time.monotonic(), said, later)
        self.counts["push: %s" % said] += 1
        self.journal.write("%.3f %.3f %s %s %s %s\n" % (began, time.time(), service, name, distributor.name, said))
        return said == 200

    def push_to(self, service, name, distributor, seconds):
        """(the status, or in words why there is none; Retry-After)"""
        body = self.bodies.setdefault(name, self.body(service, name))
        self.book.begin(service, name)
        connection = http.client.HTTPConnection(distributor.address, PUBLIC, timeout=seconds)
        try:
            connection.connect()
        except OSError:
            self.book.not_sent(name)
            return "not sent", None
        try:
            connection.request("POST", PUSH, body, {"Content-Type": "application/proto"})
            reply = connection.getresponse()
            said = reply.read()
        except (OSError, http.client.HTTPException):
            return "no answer", None
        finally:
            connection.close()
        if reply.status == 200:
            self.book.end(name)
        elif reply.status not in (408, 429, 500, 502, 503, 504):
            raise Wrong("a push was refused with %d: %s" % (reply.status, said[:300]))
        if reply.status not in (200, 429, 503):
            self.journal.write("# %s %d %s\n" % (name, reply.status, said[:300]))
        return reply.status, reply.headers["Retry-After"]

    def push(self):
        service, name = self.next_name()
        for i in range(TRIES):
            if self.push_once(service, name, self.dice.choice(self.cluster.of("distributor"))):
                break
            if self.over.wait(self.dice.uniform(0.1, 1.5)):
                break
        else:
            self.counts["given up"] += 1
        if self.book.with_id(name) and (not self.book.acked[name] or self.dice.random() < 0.05):
            self.open.append((service, name))  # repeated later, also some that have been acknowledged
        elif self.book.acked[name]:
            self.bodies.pop(name, None)
        self.over.wait(0.2)

    def repeat_open(self, seconds):
        """What has an id and was not acknowledged, until it is."""
        deadline = time.monotonic() + seconds
        while self.open:
            service, name = self.open[0]
            if self.push_once(service, name, self.dice.choice([d for d in self.cluster.of("distributor") if d.name in self.cluster.listed]), 30):
                self.open.popleft()
                self.bodies.pop(name, None)
            elif time.monotonic() > deadline:
                raise Wrong("healed, but a push that is repeated is still not taken after %d s" % seconds)
            else:
                time.sleep(0.2)

    # ---- asking

    def ask(self, querier, service, kind="tree", seconds=ASK_SECONDS, whole=False):
        """One question. Returns how complete the answer calls itself, or None for none; raises Wrong if it cannot be. `whole`: it has to have all, whatever
        it calls itself."""
        question = {"profileTypeID": CPU, "labelSelector": select(service), "start": (self.began_ns - 6 * HOUR_NS) // 10**6, "end": (self.began_ns + 6 * HOUR_NS) // 10**6}
        method = {"tree": "SelectMergeStacktraces", "series": "SelectSeries"}[kind]
        question.update({"maxNodes": 1 << 20} if kind == "tree" else {"groupBy": ["pod"], "step": 600})
        least = self.book.least(service)
        reply = post(querier, method, question, seconds)
        most = self.book.most(service)
        if reply is None:
            self.counts["question: no answer"] += 1
            return None
        if reply.status != 200:
            if reply.status not in (408, 429, 500, 502, 503, 504):
                raise Wrong("a question was refused: %s" % reply)
            self.counts["question: %d" % reply.status] += 1
            return None
        exact = reply.headers["Flametree-Exact"] or ""
        complete = whole or not exact.startswith("partial")
        missing = reply.headers["Flametree-Missing"] or ""
        what = "%s of %s by %s, which calls it '%s' (missing: %s)" % (kind, service, querier.name, exact[:200], missing[:400])
        if kind == "tree":
            got = {stack: v[0] for stack, v in flame(reply.json()["flamegraph"]).items() if stack != "total" and v[0]}
            if self.plant:
                got = self.plant(got, least)
            check(what, got, least, most, complete)
        else:
            points = [int(p["value"]) for row in reply.json().get("series", []) for p in row["points"]]
            check_sum(what, sum(points), least, most, complete)
        self.counts["question: complete" if complete else "question: partial"] += 1
        return exact

    def ask_any(self):
        newest = self.count // OF_A_SERVICE
        service = newest if self.dice.random() < 0.7 else self.dice.randrange(newest + 1)
        querier = self.dice.choice(self.cluster.of("querier"))
        self.ask(querier, "s%d" % service, self.dice.choice(["tree", "tree", "series"]))
        self.over.wait(0.2)

    # ---- all the while

    def run(self, step):
        while not self.over.is_set():
            try:
                step()
            except Exception as fault:  # the run ends with it
                self.wrong.append(fault)
                self.over.set()

    def start(self):
        self.threads = [threading.Thread(target=self.run, args=(step,), daemon=True) for step, n in ((self.push, self.pushers), (self.ask_any, ASKERS)) for _ in range(n)]
        for thread in self.threads:
            thread.start()

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join()
        self.look()

    def look(self):
        if self.wrong:
            raise self.wrong[0]


def post(node, method, message, seconds):
    """The reply, or None if there was none."""
    connection = http.client.HTTPConnection(node.address, PUBLIC, timeout=seconds)
    try:
        connection.request("POST", "/" + QUERIER + method, json.dumps(message), {"Content-Type": "application/json", "Flametree-Partial": "allow"})
        answer = connection.getresponse()
        return Reply("%s %s" % (node.name, method), answer.status, answer.headers, answer.read())
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
