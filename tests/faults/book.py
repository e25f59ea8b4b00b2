# SPDX-License-Identifier: Apache-2.0
"""What was sent, what was acknowledged, and what an answer may therefore say.

A profile counts 1 in a stack of its own name. With an id it is there once however often it is sent; without one each try is a profile: those that were
acknowledged are there, those whose outcome nobody knows may be."""
import threading
from collections import Counter


class Wrong(AssertionError):
    """An answer that cannot be: {name: (count, least, most)} of some of what is wrong."""


class Book:
    def __init__(self, with_id):
        self.with_id, self.lock = with_id, threading.Lock()  # with_id(name)
        self.sent, self.acked = Counter(), Counter()
        self.names = {}  # of a service

    def begin(self, service, name):
        """Before a try."""
        with self.lock:
            self.sent[name] += 1
            self.names.setdefault(service, set()).add(name)

    def not_sent(self, name):
        """The try did not reach anybody."""
        with self.lock:
            self.sent[name] -= 1

    def end(self, name):
        """After a try that was acknowledged."""
        with self.lock:
            self.acked[name] += 1

    def least(self, service):
        """{name: how often it has to be there}, for an answer to a question that begins now."""
        with self.lock:
            return {name: 1 if self.with_id(name) else self.acked[name] for name in self.names.get(service, ()) if self.acked[name]}

    def most(self, service):
        """{name: how often it may be there}, for an answer that has come."""
        with self.lock:
            return {name: 1 if self.with_id(name) else self.sent[name] for name in self.names.get(service, ()) if self.sent[name]}

    def total(self):
        with self.lock:
            return sum(1 if self.with_id(name) else times for name, times in self.acked.items() if times)


def check(what, got, least, most, complete):
    """Raises Wrong unless the answer {name: count} lies between the bounds; one that calls itself incomplete may have less."""
    too_many = {name: (count, least.get(name, 0), most.get(name, 0)) for name, count in got.items() if count > most.get(name, 0)}
    too_few = {name: (got.get(name, 0), count, most.get(name, 0)) for name, count in least.items() if got.get(name, 0) < count} if complete else {}
    for kind, wrong in (("more than was sent", too_many), ("less than was acknowledged", too_few)):
        if wrong:
            raise Wrong("%s: %d names have %s (name: found, least, most): %s" % (what, len(wrong), kind, dict(sorted(wrong.items())[:9])))


def check_sum(what, got, least, most, complete):
    low, high = sum(least.values()) if complete else 0, sum(most.values())
    if not low <= got <= high:
        raise Wrong("%s: %d profiles, not between %d and %d" % (what, got, low, high))
