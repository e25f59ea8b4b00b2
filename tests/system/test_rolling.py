"""A cluster with several processes of each role, found by name, under load: all of them are restarted one by one, more come and some go, for good or
together. No push fails, and every answer is complete and calls itself exact, whichever home the log has."""
import contextlib
import itertools
import os
import threading
import time
from collections import Counter

import pytest
from client import CPU, Server, flame, select
from dns import Dns
from flametree import SAYS_SOON, Cluster, await_, flush, objects_of
from ledger import Ledger

PODS = 24  # each ingester gets some of them
WRITERS, READERS = 3, 2
HOMES = ("local", "object")
PORTS = {"ingester": {"ingester-1": 4070, "ingester-2": 4072, "ingester-3": 4074}, "querier": {"querier": 4050, "querier-2": 4150},
         "compactor": {"compactor": 4060, "compactor-2": 4160}, "distributor": {"distributor": 4040, "distributor-2": 4140}}
FOUND = ("ingester", "querier", "compactor")  # by name, each of them
# Longer than queriers share a list of streams (a second), as in life. Names and probes are faster than there.
FLAGS = ["--ingester.stream_settle=1500ms", "--cluster.dns_interval=200ms", "--cluster.probe_interval=1s", "--cluster.settle_time=5m",
         "--compactor.interval=1s", "--ingester.cut_age=20s", "--distributor.append_timeout=10s"]


class Fleet(Cluster):
    """With a second distributor, querier and compactor; in the order in which they are restarted."""

    def __init__(self, dns, log, *flags):
        self.dns = dns
        env = {"FLAMETREE_CLUSTER_%sS" % kind.upper(): "dns:_internal._tcp.%ss.test" % kind for kind in FOUND}
        super().__init__(*FLAGS, "--cluster.dns_servers=" + dns.address, "--ingester.log=" + log, *flags, env=env)
        for kind in FOUND:
            self.dns.srv["_internal._tcp.%ss.test" % kind] = []
        for kind, ports in PORTS.items():
            for name, port in ports.items():
                if name not in self.members:
                    self.members[name] = self.another(name, kind, port)
                self.list(kind, port)

    def list(self, kind, port):
        if kind in FOUND:
            self.dns.srv["_internal._tcp.%ss.test" % kind].append((self.host, port + 1))

    def unlist(self, kind, port):
        if kind in FOUND:
            self.dns.srv["_internal._tcp.%ss.test" % kind].remove((self.host, port + 1))

    def of(self, kind):
        return [m for name, m in self.members.items() if name.split("-")[0] == kind]

    def join(self, kind, name, port):
        m = self.another(name, "ingester-1" if kind == "ingester" else kind, port)
        self.list(kind, port)
        try:
            m.start()
        except BaseException:
            m.__exit__(AssertionError, None, None)
            raise
        self.members[name] = m

    def leave(self, kind, name, port):
        """Stopped as by a rolling restart, and in no list any more. Its disk goes with it."""
        self.members.pop(name).stop()
        self.unlist(kind, port)

    def streams(self):
        return [name for name in objects_of(self.store) if name.startswith("v1/streams/")]


class Turn:
    """Which of several a thread talks to at the moment, for a Ledger."""

    def __init__(self):
        self.local = threading.local()

    @property
    def push_url(self):
        return self.local.url


class Load:
    """Writers that try the next distributor where one is not there, and readers that do so with queriers. What is not as it must be is in `wrong`."""

    def __init__(self, fleet):
        self.fleet, self.turn, self.names = fleet, Turn(), itertools.count()
        self.book = Ledger(self.turn, service="rolling")
        self.wrong, self.said, self.over = [], Counter(), threading.Event()
        self.away = set()  # of distributors and queriers: who may give no answer now
        self.threads = [threading.Thread(target=self.run, args=(self.write, n)) for n in range(WRITERS)]
        self.threads += [threading.Thread(target=self.run, args=(self.read, n)) for n in range(READERS)]

    def run(self, step, n):
        at = n
        while not self.over.is_set():
            try:
                step(at)
            except Exception as e:  # told by the test, whose thread is another one
                self.wrong.append("%s: %r" % (step.__name__, e))
            at += 1
            time.sleep(0.03)

    def write(self, at):
        name = "w%d" % next(self.names)
        of = list(self.fleet.of("distributor"))
        status = 0
        for k in range(2 * len(of)):  # a connection that was kept may be the one that closes at this moment
            m = of[(at + k) % len(of)]
            self.turn.local.url = m.url
            status = self.book.push(name, labels={"pod": "p%d" % (at % PODS)})
            if status == 200:
                break
            self.said["push %d of %s" % (status, "one that goes" if m in self.away else "one that stays")] += 1
            if m not in self.away:
                self.wrong.append("%s: a push got %s" % (os.path.basename(m.data), self.book.why.get(name)))
        if status != 200:
            self.wrong.append("no distributor took a push: %s" % (self.book.why.get(name),))

    def read(self, at):
        before = set(self.book.acked)
        of = list(self.fleet.of("querier"))
        for k in range(len(of)):
            m = of[(at + k) % len(of)]
            try:
                reply = Server(m.url).query("SelectMergeStacktraces", profileTypeID=CPU, labelSelector=select("rolling"), maxNodes=1 << 20,
                                            start=int(time.time() * 1000) - 1_800_000, end=int(time.time() * 1000) + 300_000)
            except AssertionError:  # it is not there
                reply = None
            if reply is None or (m in self.away and reply.status == 503):
                self.said["no answer"] += 1
                if m not in self.away:
                    self.wrong.append("%s gave no answer" % m.data)
                continue
            exact = reply.headers.get("Flametree-Exact")
            if reply.status != 200 or exact != "exact":
                self.wrong.append("an answer: %s, %s %s" % (reply.status, exact, reply.message() if reply.status != 200 else ""))
                return
            got = {stack: v[0] for stack, v in flame(reply.json()["flamegraph"]).items() if stack in self.book.bodies}
            short = before - set(got)
            if short or any(n != 1 for n in got.values()):
                self.wrong.append("an answer lacks %s, and has twice %s" % (sorted(short)[:5], {k: n for k, n in got.items() if n != 1}))
            self.said["answers"] += 1
            return
        self.wrong.append("no querier answered")

    def more(self, pushes=20, answers=4):
        """Waits until so many more were good, or one was not."""
        goal, said = len(self.book.acked) + pushes, self.said["answers"] + answers
        await_("more pushes and answers; so far: %s" % self.said, lambda: self.wrong or len(self.book.acked) >= goal and self.said["answers"] >= said, 120)
        assert not self.wrong, "\n".join(self.wrong[:5])

    @contextlib.contextmanager
    def without(self, m):
        """It is not asked for answers meanwhile, or need not give any."""
        self.away.add(m)
        yield
        self.away.discard(m)

    def __enter__(self):
        for t in self.threads:
            t.start()
        self.more()
        return self

    def __exit__(self, kind, *what):
        self.over.set()
        for t in self.threads:
            t.join()
        if kind is None:
            assert not self.wrong, "\n".join(self.wrong[:5])
            self.turn.local.url = self.fleet.push_url
            self.book.f = self.fleet
            self.book.check()


@pytest.fixture
def dns():
    with Dns() as server:
        yield server


@pytest.mark.drawn(1)
@pytest.mark.parametrize("log", HOMES)
def test_all_processes_are_restarted_one_by_one(dns, log):
    with Fleet(dns, log) as f, Load(f) as load:
        for name in list(f.members):
            m = f.members[name]
            with load.without(m):
                m.stop()
                load.more()
                m.start()
            load.more()
        left = len([name for name in load.book.bodies if name not in load.book.acked])
        assert left <= WRITERS, "%d pushes were not taken" % left


@pytest.mark.drawn(1)
@pytest.mark.parametrize("log", HOMES)
def test_processes_of_each_role_come_and_go(dns, log):
    more = {"ingester": ("ingester-4", 4076), "distributor": ("distributor-3", 4240), "querier": ("querier-3", 4250), "compactor": ("compactor-3", 4260)}
    with Fleet(dns, log) as f, Load(f) as load:
        for kind, (name, port) in more.items():
            f.join(kind, name, port)
            load.more()
        newcomer = f["ingester-4"]
        await_("the new ingester to get its share", lambda: load.wrong or (newcomer.metric("flametree_ingester_append_profiles_total") or 0) > 0, 60)
        load.more()
        # Of each role the first one leaves for good, and the disk of the ingester with it.
        for kind, ports in PORTS.items():
            name, port = next(iter(ports.items()))
            if name in ("querier", "distributor"):
                continue  # the fixture asks these; others of their kind leave below
            with load.without(f[name]):
                f.leave(kind, name, port)
            load.more()
        for kind in ("distributor", "querier"):
            name, port = more[kind]
            with load.without(f[name]):
                f.leave(kind, name, port)
            load.more()


@pytest.mark.drawn(1)
@pytest.mark.parametrize("log", HOMES)
def test_ingesters_that_end_leave_nothing_that_is_not_in_the_store(dns, log):
    """All of them at once, while questions go on: the answers are those of before, without any ingester at all."""
    with Fleet(dns, log, SAYS_SOON) as f:
        with Load(f) as load:
            load.more(60)
        book = load.book
        whole = lambda: {name: n for name, n in book.found().items()}
        want = whole()
        over, wrong = threading.Event(), []

        def ask():
            while not over.is_set():
                got = None
                with contextlib.suppress(AssertionError):
                    got = whole()
                if got != want:
                    wrong.append(got)
                time.sleep(0.02)
        asking = threading.Thread(target=ask)
        asking.start()
        try:
            for m in f.of("ingester"):
                m.stop()
            assert f.streams() == []
            assert whole() == want
        finally:
            over.set()
            asking.join()
        assert not wrong, (len(wrong), len(want), wrong[0] and len(wrong[0]))
        reply = Server(f.url).query("SelectMergeStacktraces", profileTypeID=CPU, labelSelector=select("rolling"), maxNodes=1 << 20).expect(200)
        assert reply.headers["Flametree-Exact"] == "exact", reply.headers
        f.start()
        assert whole() == want
        flush(f)
        assert whole() == want
