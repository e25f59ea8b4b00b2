# SPDX-License-Identifier: Apache-2.0
"""Clients of a cluster, as a process of its own: agents that push all the while over connections that stay open, and repeat with the same id what was not
taken; and Grafana, which asks. Each profile counts 1, so every answer is known: at least what was acknowledged before its question, at most what was sent.

    with Load(release, "name") as load:
        load.phase("calm"); ...; load.phase("upgrade"); ...
    load.check()["upgrade"]     # at the end: what was acknowledged counts once
Lines of its standard input name phases; with its end the load ends, and what it met is printed."""
import http.client
import json
import os
import random
import subprocess
import sys
import threading
import time
import types
import urllib.parse
import uuid

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../lib"), os.path.join(HERE, "../conformance")]
from client import CPU, PUSH, QUERIER, Pprof, pb
from flametree import await_

RATE = int(os.environ.get("FLAMETREE_KUBE_RATE", "60"))  # pushes a second
SERVICES, PODS = 8, 20
TRIES, SECONDS = 12, 20
GRAFANA_SECONDS = 60
WIDE_MS = 3600 * 1000


class Load:
    """The other side: what tests use."""

    def __init__(self, release, name, rate=RATE, askers=2, tenant=None, tries=TRIES):
        options = {"tries": tries, "push": release.push_url, "query": release.query_url, "rate": rate, "askers": askers, "name": name, "tenant": tenant}
        self.process = subprocess.Popen([sys.executable, "-B", os.path.realpath(__file__), json.dumps(options)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.result, self.name = None, name

    def phase(self, name):
        self.process.stdin.write(name + "\n")
        self.process.stdin.flush()

    def go_on(self, release):
        """Until pushes have been acknowledged by the cluster as it is now."""
        server = release.server()
        count = lambda: server.query("SelectMergeStacktraces", profileTypeID=CPU, labelSelector='{service_name=~"%s-.*"}' % self.name, headers={"Flametree-Partial": "allow"})
        total = lambda: int((count().json().get("flamegraph") or {}).get("total", 0))
        before = total()
        await_("pushes", lambda: total() > before, 60, 0.3)

    def stop(self):
        """Ends it; its last look at everything is in `result`."""
        if self.result is None:
            out, _ = self.process.communicate(timeout=120)
            self.result = json.loads(out, object_hook=lambda row: types.SimpleNamespace(**row))
        return self.result

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        if kind:
            self.process.kill()
            self.process.wait()
        else:
            self.stop()

    def check(self, incomplete=0):
        """Nothing was given up or wrong, and at the end everything that was acknowledged counts once; `incomplete`: so many answers may say that they lack
        something, with None any number. Returns the phases by name."""
        got = self.stop()
        assert not got.wrong, "wrong answers: %s" % got.wrong[:3]
        assert got.given_up == 0, "%d pushes were given up: %s" % (got.given_up, got.phases)
        assert got.counted == got.acknowledged, "%d profiles were acknowledged and %d are there" % (got.acknowledged, got.counted)
        partial = sum(phase.partial + phase.refused for phase in got.phases)
        assert incomplete is None or partial <= incomplete, "%d answers were incomplete or refused: %s" % (partial, [(phase.name, phase.said) for phase in got.phases if phase.said])
        return {phase.name: phase for phase in got.phases}


def told(phase):
    return "%d pushes, %d repeated %s, p50 %.1f ms, p99 %.1f ms, longest %.0f ms; %d answers, %d incomplete, %d refused, longest %.0f ms" % (
        phase.pushes, phase.repeated, vars(phase.why), phase.p50_ms, phase.p99_ms, phase.longest_ms, phase.answers, phase.partial, phase.refused, phase.longest_answer_ms)


class Phase:
    def __init__(self, name):
        self.name, self.began = name, time.monotonic()
        self.took, self.asked, self.why = [], [], {}
        self.answers = self.partial = self.refused = 0
        self.said = []

    def report(self):
        took = sorted(self.took) or [0]
        at = lambda part: took[min(len(took) - 1, int(len(took) * part))] * 1000
        return {"name": self.name, "seconds": time.monotonic() - self.began, "pushes": len(self.took), "repeated": sum(self.why.values()), "why": self.why,
                "p50_ms": at(0.5), "p99_ms": at(0.99), "longest_ms": took[-1] * 1000, "answers": self.answers, "partial": self.partial, "refused": self.refused,
                "longest_answer_ms": max(self.asked or [0]) * 1000, "said": self.said[:5]}


class Clients:
    def __init__(self, options):
        self.push_at, self.query_at = (urllib.parse.urlsplit(options[key]).netloc for key in ("push", "query"))
        self.name, self.tries = options["name"], options["tries"]
        self.headers = {"X-Scope-OrgID": options["tenant"]} if options["tenant"] else {}
        self.lock, self.over = threading.Lock(), threading.Event()
        self.sent, self.acknowledged = [0] * SERVICES, [0] * SERVICES
        self.given_up, self.wrong = 0, []
        self.phases = [Phase("first")]
        self.began_ms = int(time.time() * 1000)
        pprof = Pprof(("main;work", 1), time_ns=0).encode()
        self.bodies = [(pprof, [pb((1, k), (2, v)) for k, v in (("__name__", "process_cpu"), ("service_name", self.service(service)), ("pod", "pod-%d" % pod))])
                       for service in range(SERVICES) for pod in range(PODS)]
        # Each waits for the store: half a second, as a rule. All together they are a crowd of agents.
        pushers = max(4, min(400, options["rate"] * 4 // 5))
        self.threads = [threading.Thread(target=self.push_all, args=(pushers / options["rate"],), daemon=True) for _ in range(pushers)]
        self.threads += [threading.Thread(target=self.ask_all, args=(random.Random(i),), daemon=True) for i in range(options["askers"])]

    def service(self, number):
        return "%s-%d" % (self.name, number)

    def phase(self):
        return self.phases[-1]

    # ---- pushing

    def push_all(self, pause):
        connection = http.client.HTTPConnection(self.push_at, timeout=SECONDS)
        dice = random.Random()
        due = time.monotonic() + dice.random() * pause
        while not self.over.wait(max(0, due - time.monotonic())):
            due = max(due + pause, time.monotonic() - 5 * pause)  # what is behind by much is left out: the machine does not bear more
            self.push(connection, dice)
        connection.close()

    def push(self, connection, dice):
        number = dice.randrange(len(self.bodies))
        service = number // PODS
        profile, labels = self.bodies[number]
        profile += pb((9, time.time_ns()))  # the time comes last
        body = pb((1, pb((1, labels), (2, pb((1, profile), (2, str(uuid.UUID(int=dice.getrandbits(128)))))))))
        began, pause = time.monotonic(), 0.1
        with self.lock:
            self.sent[service] += 1
        for i in range(self.tries):
            why = self.push_once(connection, body)
            if why is None:
                with self.lock:
                    self.acknowledged[service] += 1
                    self.phase().took.append(time.monotonic() - began)
                return
            with self.lock:
                self.phase().why[why] = self.phase().why.get(why, 0) + 1
            if i:  # at first at once: the connection may just be an old one
                time.sleep(dice.uniform(pause / 2, pause))
                pause = min(3, pause * 2)
        with self.lock:
            self.given_up += 1

    def push_once(self, connection, body):
        """None, or why it was not taken."""
        try:
            connection.request("POST", PUSH, body, {"Content-Type": "application/proto", **self.headers})
            answer = connection.getresponse()
            said = answer.read()
        except (OSError, http.client.HTTPException) as fault:
            connection.close()
            return type(fault).__name__
        if answer.status == 200:
            return None
        if answer.status not in (408, 429, 500, 502, 503, 504):
            self.wrong.append("a push was refused with %d: %s" % (answer.status, said[:300]))
        return "%d %s" % (answer.status, said.decode("utf-8", "replace")[:80])

    # ---- asking

    def ask_all(self, dice):
        connection = http.client.HTTPConnection(self.query_at, timeout=GRAFANA_SECONDS)
        while not self.over.wait(dice.uniform(0.1, 0.3)):
            kind = dice.choice(("flame", "flame", "series", "values", "labels"))
            service = dice.randrange(SERVICES)
            with self.lock:
                least = self.acknowledged[service]
            began = time.monotonic()
            status, headers, got = self.ask(connection, kind, service)
            with self.lock:
                most, phase = self.sent[service], self.phase()
                phase.asked.append(time.monotonic() - began)
                if status != 200:
                    phase.refused += 1
                    phase.said.append("%s: %s %s" % (kind, status, str(got)[:300]))
                    continue
                phase.answers += 1
                if (headers["Flametree-Exact"] or "").startswith("partial"):
                    phase.partial += 1
                    phase.said.append("%s: %s" % (kind, headers["Flametree-Exact"]))
                elif kind in ("values", "labels"):
                    if least and not got:
                        self.wrong.append("%s lacks what is there" % kind)
                elif not least <= got <= most:
                    self.wrong.append("%s of %s: %d, not between %d and %d; %s" % (kind, self.service(service), got, least, most, dict(headers)))

    def ask(self, connection, kind, service, again=True):
        """(status, headers, the number of the answer). Grafana too asks once more, on a new connection, if an old one turns out to be closed."""
        now_ms = int(time.time() * 1000)
        question = {"start": self.began_ms - WIDE_MS, "end": now_ms + WIDE_MS}
        if kind in ("flame", "series"):
            question.update({"profileTypeID": CPU, "labelSelector": '{service_name="%s"}' % self.service(service)})
        question.update({"flame": {"maxNodes": 100}, "series": {"groupBy": ["pod"], "step": 60}, "values": {"name": "service_name"}, "labels": {}}[kind])
        method = {"flame": "SelectMergeStacktraces", "series": "SelectSeries", "values": "LabelValues", "labels": "LabelNames"}[kind]
        try:
            connection.request("POST", "/" + QUERIER + method, json.dumps(question), {"Content-Type": "application/json", **self.headers})
            answer = connection.getresponse()
            text = answer.read()
        except (OSError, http.client.HTTPException) as fault:
            connection.close()
            return self.ask(connection, kind, service, False) if again else (type(fault).__name__, {}, str(fault))
        if answer.status != 200:
            return answer.status, answer.headers, text
        got = json.loads(text)
        if kind == "flame":
            return 200, answer.headers, int(got.get("flamegraph", {}).get("total", 0))
        if kind == "series":
            return 200, answer.headers, int(sum(point["value"] for row in got.get("series", []) for point in row["points"]))
        names = got.get("names", [])
        return 200, answer.headers, (self.service(service) if kind == "values" else "pod") in names

    # ---- all of it

    def run(self, lines):
        for thread in self.threads:
            thread.start()
        for line in lines:
            with self.lock:
                self.phases.append(Phase(line.strip()))
        self.over.set()
        for thread in self.threads:
            thread.join()
        counted, deadline = 0, time.monotonic() + 60
        while True:  # at the end nothing is missing any more, in whatever state pods are
            counted = self.count()
            if counted == sum(self.acknowledged) or time.monotonic() > deadline:
                break
            time.sleep(0.5)
        return {"phases": [phase.report() for phase in self.phases if phase.took or phase.answers], "wrong": self.wrong, "given_up": self.given_up,
                "acknowledged": sum(self.acknowledged), "counted": counted}

    def count(self):
        connection = http.client.HTTPConnection(self.query_at, timeout=GRAFANA_SECONDS)
        try:
            answers = [self.ask(connection, "flame", service) for service in range(SERVICES)]
        finally:
            connection.close()
        return sum(got for status, _, got in answers if status == 200)


if __name__ == "__main__":
    print(json.dumps(Clients(json.loads(sys.argv[1])).run(sys.stdin)))
