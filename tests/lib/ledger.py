"""What a test pushed, what came back, and whether the server's answers agree: every acknowledged profile exactly once.

    book = Ledger(f)                      # f: a Flametree or Cluster of tests/lib/flametree.py
    book.push("a", ...)                   # one profile of one unit in a stack of that name
    book.check()                          # acknowledged: once; refused: not; without an answer: at most once
    book.retry()                          # all of it again with the same ids, then everything is there once

A profile's id is made of its name, so that a push again is the same profile. Any number of threads may push.
"""
import gzip
import http.client
import json
import os
import threading
import time
import urllib.parse
import uuid
from collections import Counter

from client import PUSH, Pprof, Server, pb

SECOND = 10**9


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def error(self):
        """(code, message) of a Connect error."""
        try:
            error = json.loads(self.body)
            return error.get("code"), error.get("message", "")
        except ValueError:
            return None, self.body.decode(errors="replace")


class Ledger:
    def __init__(self, f, service="ledger", labels=None, now_ns=time.time_ns, tenant=None):
        self.f, self.service, self.labels, self.now_ns, self.tenant = f, service, labels or {}, now_ns, tenant
        self.lock, self.local = threading.Lock(), threading.local()
        self.bodies, self.acked, self.unsure, self.refused = {}, set(), set(), set()
        self.answers = Counter()  # (status, code)
        self.why = {}  # the last error of a name
        self.last = None

    # ---- pushing

    def body(self, name, extra=(), weight=0, labels=None):
        """A push of one profile: `name` counts 1, each stack of `extra` 1; `weight` bytes that do not compress."""
        samples = [(name, 1)] + [(stack, 1) for stack in extra]
        if weight:
            samples.append(("%s;%s" % (name + ".weight", os.urandom(weight // 2).hex()), 1))
        profile = Pprof(*samples, time_ns=self.now_ns() - 5 * SECOND)
        pairs = {"__name__": "process_cpu", "service_name": self.service, **self.labels, **(labels or {})}
        raw = pb((1, gzip.compress(profile.encode(), 1)), (2, str(uuid.uuid5(uuid.NAMESPACE_OID, self.service + "/" + name))))
        return pb((1, [pb((1, [pb((1, k), (2, v)) for k, v in pairs.items()]), (2, [raw]))]))

    def connection(self, fresh=False):
        """The thread's own, kept alive."""
        where = urllib.parse.urlsplit(self.f.push_url).netloc
        if fresh or getattr(self.local, "where", None) != where:
            self.local.where, self.local.connection = where, http.client.HTTPConnection(where, timeout=60)
        return self.local.connection

    def send(self, body, headers=None):
        """None: there was no answer."""
        sent = {"Content-Type": "application/proto", **({"X-Scope-OrgID": self.tenant} if self.tenant else {}), **(headers or {})}
        try:
            connection = self.connection()
            connection.request("POST", PUSH, body, sent)
            reply = connection.getresponse()
            return Answer(reply.status, reply.headers, reply.read())
        except (OSError, http.client.HTTPException):
            self.connection(fresh=True)
            return None

    def push(self, name, *extra, weight=0, labels=None):
        """Returns the status, 0 for none."""
        if name not in self.bodies:
            self.bodies[name] = self.body(name, extra, weight, labels)
        answer = self.send(self.bodies[name])
        status = answer.status if answer else 0
        code, why = answer.error() if status not in (0, 200) else (None, None)
        with self.lock:
            self.why[name] = (status, why)
            self.last = answer
            self.answers[status, code] += 1
            if status == 200:
                self.acked.add(name)
                self.unsure.discard(name)
            elif name not in self.acked:
                # Only what says that it was not stored was not; a refusal after an unanswered push proves nothing of it.
                certain = status in (400, 429) and name not in self.unsure
                (self.refused if certain else self.unsure).add(name)
        return status

    def retry(self, names=None, seconds=30):
        """These, or everything, again, acknowledged or not, each until it is taken, for so long."""
        for name in list(self.bodies) if names is None else list(names):
            deadline = time.monotonic() + seconds
            while self.push(name) != 200:
                assert time.monotonic() < deadline, self.answers
                time.sleep(0.05)
            self.refused.discard(name)

    # ---- looking

    def found(self, **kw):
        """{name: how often it is there}, without the stacks of extra and weight."""
        kw.setdefault("start", (self.now_ns() - 6 * 3600 * SECOND) // 10**6)
        kw.setdefault("end", (self.now_ns() + 300 * SECOND) // 10**6)
        got = Server(self.f.url, tenant=self.tenant).stacks(self.service, maxNodes=1 << 20, **kw)
        return {name: count for name, count in got.items() if name in self.bodies}

    def check(self, gone=()):
        """Names in `gone` may have been dropped, but are not there twice."""
        got = self.found()
        gone = set(gone)
        wrong = {name: got.get(name, 0) for name in self.acked - gone if got.get(name, 0) != 1}
        assert not wrong, "acknowledged, but not there once: %s" % dict(sorted(wrong.items())[:20])
        wrong = {name: got[name] for name in (self.unsure | gone) & set(got) if got[name] != 1}
        assert not wrong, "there more than once: %s" % dict(sorted(wrong.items())[:20])
        wrong = {name: self.why[name] for name in self.refused - self.acked - self.unsure - gone if name in got}
        assert not wrong, "refused, but there: %s" % dict(sorted(wrong.items())[:20])
        return got
