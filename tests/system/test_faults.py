"""Six processes from the files of deploy/examples under load, and one fault after the other: killed, stopped, on a wrong store, with an empty data
directory, on a full disk, with a store that was moved, with objects that are damaged and put back, with a compactor whose clock is days ahead.

A book counts what was acknowledged. At any time an answer that calls itself exact has each profile that was acknowledged before the question once; an
answer that has less says so and names something; a refusal names something. When a fault is over, everything that was acknowledged is there once.

FAULTS_SEED repeats the times of profiles and the order of the long story."""
import contextlib
import glob
import json
import os
import random
import shutil
import signal
import subprocess
import threading
import time

import pytest
from client import CPU, Server, flame, select
from faultclock import FaultClock
from flametree import AT_ONCE, Cluster, Flametree, await_, check_blocks, compact, flush
from ledger import SECOND, Ledger

HOUR, DAY = 3600 * SECOND, 24 * 3600 * SECOND
DISK_BYTES = 48 << 20
SERVICE = "story"
PODS = 24  # label sets: each ingester owns some of them
PUSHERS = 3
SEED = int(os.environ.get("FAULTS_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
FLAGS = [*AT_ONCE, "--compactor.interval=1s", "--distributor.append_timeout=5s", "--ingester.log_memory=4MiB", "--ingester.disk_reserve=8MiB",
         "--limits.reject_older_than=31d"]
INGESTERS = ("ingester-1", "ingester-2", "ingester-3")


class Book(Ledger):
    """Profiles of the last three weeks, so that there are objects of all levels, of many pods, so that all ingesters have some."""

    def __init__(self, f, dice):
        super().__init__(f, service=SERVICE, now_ns=self.some_time)
        self.dice, self.count = dice, 0
        self.hours = [dice.randrange(2 * HOUR, 21 * DAY) // HOUR * HOUR for _ in range(8)]

    def some_time(self):
        return time.time_ns() - self.dice.randrange(0, HOUR) - self.dice.choice([0, *self.hours])

    def next(self):
        with self.lock:
            self.count += 1
            number = self.count
        return self.push("p%d" % number, labels={"pod": "p%d" % (number % PODS)})

    @staticmethod
    def range():
        return {"start": time.time_ns() // 10**6 - 23 * 86_400_000, "end": time.time_ns() // 10**6 + 300_000}

    def found(self, **kw):
        return super().found(**{**self.range(), **kw})


def flip_all(path):
    """An object can have pages that nothing names any more, beside some that count."""
    with open(path, "rb") as file:
        content = file.read()
    os.chmod(os.path.dirname(path), 0o700)
    os.unlink(path)
    with open(path, "wb") as file:
        file.write(bytes(byte ^ 0x20 for byte in content))


class Story:
    def __init__(self, c, book, disks, no_disks):
        self.c, self.book, self.disks, self.no_disks = c, book, disks, no_disks
        self.store = os.path.join(c.folder, "data", "store")
        self.lost = set()    # names that an ingester with an empty directory took along
        self.marked = set()  # what partial answers and refusals named
        self.faults = []     # of threads of the load

    # ---- asking

    def ask(self, server=None):
        """One question while anything may be wrong; the answer's Flametree-Exact, or None for a refusal."""
        server = server or self.c.server()
        with self.book.lock:
            before = set(self.book.acked) - self.lost
        reply = server.query("SelectMergeStacktraces", {"Flametree-Partial": "allow"}, profileTypeID=CPU, labelSelector=select(SERVICE), maxNodes=1 << 20,
                             **self.book.range())
        if reply.status != 200:
            assert reply.status in (429, 503, 504), reply
            assert len(reply.message()) > 20 or reply.message() == "starting", reply
            self.marked.add(reply.message())
            return None
        got = {stack: v[0] for stack, v in flame(reply.json()["flamegraph"]).items() if stack in self.book.bodies}
        assert not [name for name, count in got.items() if count > 1], "twice: %s" % {k: v for k, v in got.items() if v > 1}
        exact = reply.headers["Flametree-Exact"]
        assert len(exact) < 400, exact
        if exact.startswith("partial"):
            assert reply.headers["Flametree-Missing"], reply.headers
            self.marked.add(reply.headers["Flametree-Missing"])
        else:
            short = before - set(got)
            assert not short, "'%s', but %d of %d are not there: %s" % (exact, len(short), len(before), sorted(short)[:9])
        return exact

    def check(self):
        """The fault is over: answers become exact by themselves, and have everything once, by each kind of question."""
        last = []

        def whole():
            last[:] = [self.ask()]
            return last[0] == "exact"
        await_("answers to be exact again; the last one was %s, named: %s" % (last, sorted(self.marked)[-3:]), whole, 120, 0.2)
        got = self.book.check(gone=self.lost)
        s = self.c.server()
        question = {"profileTypeID": CPU, "labelSelector": select(SERVICE), **self.book.range()}
        series = s.ok("SelectSeries", groupBy=["pod"], step=3600, **question).get("series", [])
        assert sum(int(p["value"]) for row in series for p in row["points"]) == sum(got.values()), "series and flame graph differ"
        assert int(s.query("SelectMergeStacktraces", **question).expect(200).headers["Flametree-Profiles"]) == sum(got.values())

    # ---- load

    @contextlib.contextmanager
    def load(self):
        """Pushes and questions all the while; a question that was answered wrong fails the test at the end."""
        over = threading.Event()

        def run(step, pause):
            while not over.is_set() and not self.faults:
                try:
                    step()
                except Exception as fault:
                    self.faults.append(fault)
                time.sleep(pause)
        threads = [threading.Thread(target=run, args=(self.book.next, 0.05)) for _ in range(PUSHERS)]
        threads.append(threading.Thread(target=run, args=(self.ask_by_the_way, 0.05)))
        for t in threads:
            t.start()
        try:
            yield
        finally:
            over.set()
            for t in threads:
                t.join()
        self.check_load()

    def check_load(self):
        if self.faults:
            raise self.faults[0]

    def ask_by_the_way(self):
        try:
            self.ask()
        except AssertionError as fault:
            if "expected: a response" not in str(fault):  # the querier is away
                raise

    def await_pushes(self, n, least=0):
        """So many more pushes are over, and so many of them were taken."""
        goal, taken = self.book.count + n, len(self.book.acked) + least

        def over():
            self.check_load()
            return self.book.count >= goal and len(self.book.acked) >= taken
        await_("%d pushes, %d of them taken; answers so far: %s" % (n, least, dict(self.book.answers)), over, 180)

    def store_all(self):
        flush(self.c)
        compact(self.c)

    def objects(self, kind):
        return sorted(p for p in glob.glob(os.path.join(self.store, "o/v1/*/anonymous", kind, "**"), recursive=True) if os.path.isfile(p))

    # ---- faults

    def killed(self, name):
        self.c[name].kill()
        self.await_pushes(30)
        self.c.start()
        self.await_pushes(20, least=1)

    def stopped(self, name):
        """A process that hangs: nothing is refused because of it for long, and it is named."""
        self.c[name].signal(signal.SIGSTOP)
        try:
            if name in INGESTERS:
                self.await_pushes(60, least=40)
                await_("an answer without it", lambda: (self.ask() or "").startswith("partial") or any(name in m for m in self.marked), 120)
                assert any(name in m for m in self.marked), self.marked
                alive = 'flametree_cluster_members{state="alive"}'
                await_("the querier to say that it is dead", lambda: self.c["querier"].metric('flametree_cluster_members{state="dead"}') == 1 or
                       self.c["querier"].metric(alive) == 2, 60)
            else:
                self.await_pushes(40, least=20)  # nobody needs it to take profiles
        finally:
            self.c[name].signal(signal.SIGCONT)
        self.await_pushes(20, least=1)

    def wrong_store(self):
        """A querier that was set up anew looks into a store of its own, and asks the ingesters of this cluster."""
        other = os.path.join(self.c.folder, "data", "other-store")
        data = os.path.join(self.c.folder, "data", "other")
        first = os.path.join(self.c.folder, "data", "first")
        os.makedirs(first)
        with Flametree("--storage.dir", other, data=first):
            pass
        args = ["--cluster.ingesters", ",".join("%s=%s:%d" % (n, self.c.host, 4071 + 2 * i) for i, n in enumerate(INGESTERS)), "--storage.dir", other]
        os.makedirs(data)
        with Flametree("--internal.listen", "127.0.0.1:0", *args, program="flametree-querier", data=data) as querier:
            refused = Server(querier.url, strict=True).query("SelectMergeStacktraces", profileTypeID=CPU, labelSelector=select(SERVICE), **self.book.range())
            assert refused.status >= 400, (refused, refused.headers)
            ids = [ulid(os.path.join(store, "o/v1/cluster")) for store in (other, self.store)]
            assert all(i in refused.message() for i in ids), (ids, refused.message())
        for path in (other, data, first):
            shutil.rmtree(path, ignore_errors=True)

    def empty_directory(self, name):
        """The disk of an ingester is not there any more. What only it had is lost; everybody is told until an operator says that it is known."""
        m = self.c[name]
        self.await_pushes(30)
        m.kill()
        gone = m.data + "-gone"
        shutil.copytree(m.data, gone)
        for entry in os.listdir(m.data):
            path = os.path.join(m.data, entry)
            (shutil.rmtree if os.path.isdir(path) and not os.path.islink(path) else os.unlink)(path)
        with self.book.lock:
            self.lost |= self.book.acked  # any of these may be the ones
        self.c.start()
        await_("answers to be marked", lambda: (self.ask() or "").startswith("partial"), 60)
        assert any(name in m for m in self.marked), self.marked
        self.await_pushes(20, least=1)
        assert (self.ask() or "").startswith("partial"), "forgotten by itself"
        # The disk comes back: nothing was lost, and nobody has to accept anything.
        m.stop()
        fresh = m.data + "-fresh"
        os.rename(m.data, fresh) if name not in self.disks else shutil.copytree(m.data, fresh)
        if name in self.disks:
            empty(m.data)
        shutil.copytree(gone, m.data, dirs_exist_ok=True)
        self.c.start()
        self.lost.clear()
        shutil.rmtree(gone)
        shutil.rmtree(fresh)

    def accepted_loss(self, name):
        """The same, but the disk never comes back and an operator accepts that."""
        m = self.c[name]
        flush(self.c)
        self.await_pushes(10)
        m.kill()
        empty(m.data)
        with self.book.lock:
            before = set(self.book.acked)
            self.lost |= before
        self.c.start()
        await_("answers to be marked", lambda: (self.ask() or "").startswith("partial"), 60)
        forget(self.c, name)
        await_("answers to be exact", lambda: self.ask() == "exact", 60, 0.2)
        self.lost -= set(self.book.found())
        assert len(self.lost) < len(before), "all is lost"

    def full_disk(self):
        if not self.disks:
            pytest.skip("no file system of a few MB can be mounted here: %s" % self.no_disks)
        full = INGESTERS[1]
        junk = {name: os.path.join(self.c[name].data, "junk") for name in INGESTERS}
        passed = 'flametree_distributor_appends_total{result="passed"}'
        before = self.c["distributor"].metric(passed) or 0
        fill(junk[full])
        self.await_pushes(60, least=30)
        await_("others to take it", lambda: (self.c["distributor"].metric(passed) or 0) > before, 60)
        for name in INGESTERS:
            fill(junk[name])

        def refusals():
            with self.book.lock:
                return [why for status, why in self.book.why.values() if status == 429]
        await_("pushes to be refused for the disks: %s" % dict(self.book.answers), lambda: any("ingester.disk_reserve is" in why for why in refusals()), 60)
        self.ask()
        for path in junk.values():
            os.unlink(path)
        await_("pushes to be taken again", lambda: self.book.next() == 200, 60)

    def moved_store(self):
        """Somebody moves the store away under everybody, and back. Pushes go on meanwhile: logs are elsewhere."""
        aside = self.store + "-aside"
        os.rename(self.store, aside)
        try:
            self.await_pushes(30, least=1)
            self.ask()
        finally:
            if os.path.isdir(self.store):
                merge_into(self.store, aside)
            os.rename(aside, self.store)
        self.await_pushes(20, least=1)

    def damaged(self, kind, how):
        """An object of a kind is damaged, or gone, and put back later; nobody has anything of it in a cache. No compactor runs until a question met
        the damage, so that none makes the object anew before."""
        compactor = self.c["compactor"]
        self.await_pushes(30)
        if kind == "live/a":
            compactor.kill()
            flush(self.c)
        else:
            self.store_all()
            compactor.kill()
        paths = self.named(kind)
        assert paths, "no objects of kind " + kind
        met = next((path for path in paths if self.damage_one(path, kind, how)), None)
        assert met, "of %d objects of kind %s no question read any" % (len(paths), kind)
        if compactor.process is None:
            compactor.start()

    def named(self, kind):
        """The objects of a kind that count, in a random order. (What nothing names any more was swept, but for pages and versions.)"""
        paths = self.objects(kind)
        self.book.dice.shuffle(paths)
        newest = self.objects("live/m")[-1:]
        if kind == "page":
            with open(newest[0], "rb") as f:
                root = f.read()
            paths = [path for path in paths if ulid_bytes(os.path.basename(path)) in root]
        return newest if kind == "live/m" else paths

    def damage_one(self, path, kind, how):
        """Did a question meet the damage? Only then the compactor runs meanwhile."""
        aside = os.path.join(self.c.folder, "aside")
        shutil.copy2(path, aside)
        if how == "gone":
            os.unlink(path)
        elif kind == "page":
            flip_all(path)
        else:
            flip(path)
        try:
            for name in ("querier", *INGESTERS):
                self.c[name].kill()
            for name in ("querier", *INGESTERS):
                self.c[name].start(wait=False)
            self.c["querier"].await_ready()
            if kind not in ("page", "live/m"):
                for name in INGESTERS:
                    self.c[name].await_ready()
            met = self.meets(path, kind)
            if met:
                self.c["compactor"].start()
                for _ in range(3):
                    self.ask()
                self.await_pushes(10)
        finally:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(path)
            os.rename(aside, path)
        for name in INGESTERS:
            self.c[name].await_ready()
        return met

    def meets(self, path, kind):
        """Is the object missed? Without a block of hours or days others answer: the querier counts it. Without a page or version no question is answered in
        full, once ingesters have started."""
        querier, name = self.c["querier"], os.path.basename(path)

        def asked(method, rest, headers):
            return self.c.server().query(method, headers, profileTypeID=CPU, labelSelector=select(SERVICE), **rest)

        def met(question):
            reply = asked(*question, {"Flametree-Partial": "allow"})
            if kind in ("h", "d"):
                return querier.metric("flametree_querier_block_faults_total")
            return name in (reply.message() if reply.status != 200 else reply.headers.get("Flametree-Missing") or "")

        def refused():
            reply = asked("SelectMergeStacktraces", self.book.range(), {})
            assert reply.status != 200, reply.headers
            return name in reply.message() or kind == "live/m" and "version %d" % int(name, 16) in reply.message()
        if kind in ("page", "live/m"):
            return await_("a refusal that names " + name, refused, 60, 0.2)
        return any(met(question) for question in questions(path, kind))

    def compactor_off(self, days):
        """Two compactors, one of which is slow to name what it made; the clock of the other, which sweeps all the while, is days off."""
        slow, clock = self.c["compactor"], FaultClock(os.path.join(self.c.folder, "clock"))
        clock.set(days=days)
        slow.kill()
        slow.env["FLAMETREE_FAULTS"] = "manifest.page.before=delay:500"
        slow.start()
        data = os.path.join(self.c.folder, "data", "compactor-2")
        os.makedirs(data)
        never = ["--compactor.%s=36500d" % f[len("--compactor."):-len("=0s")] for f in AT_ONCE if "delete_delay" not in f]
        flags = [*never, "--compactor.delete_delay=0s", "--compactor.interval=50ms", "--compactor.sweep_interval=10ms", "--server.id=compactor-2"]
        done = 'flametree_compactor_jobs_total{level="leaf",result="done"}'
        with Flametree("--config", self.c.config_file("compactor"), "--internal.listen", "127.0.0.1:0", *flags, program="flametree-compactor", data=data,
                       cwd=self.c.folder, env=clock.env) as other:
            for _ in range(3):
                before = slow.metric(done) or 0
                self.await_pushes(20)
                flush(self.c)
                await_("a job of the slow one", lambda: (slow.metric(done) or 0) > before, 60)
                self.ask()
            other.server().call("POST", "/compactor/run?timeout=20s&sweep=true").expect(200)
            # By a clock that is behind nothing is old, and it sees that clocks are apart.
            swept = 'flametree_compactor_deleted_objects_total{kind="segment"}' if days > 0 else "flametree_manifest_held_sweeps_total"
            assert other.metric(swept), "no sweep ran"
        slow.kill()
        del slow.env["FLAMETREE_FAULTS"]
        slow.start()
        shutil.rmtree(data)


def questions(path, kind):
    """Questions of which one needs the object, if any does: over all, and over what a block covers, as a whole, by its parts, and by single profiles."""
    yield "SelectMergeStacktraces", Book.range()
    if kind not in ("raw", "h", "d"):
        return
    first, _, hours = os.path.basename(os.path.dirname(path)).partition("-")
    first, hours, ms = int(first, 16), int(hours, 16), HOUR // 10**6
    part = 24 if kind == "d" else 1
    yield "SelectMergeStacktraces", {"start": first * ms, "end": (first + hours) * ms}
    for hour in range(first, first + hours, part):
        yield "SelectMergeStacktraces", {"start": hour * ms, "end": (hour + part) * ms}
    if kind == "raw":
        for hour in range(first, first + hours):
            yield "SelectSeries", {"start": hour * ms, "end": (hour + 1) * ms, "step": 10}


def ulid_bytes(text):
    number = 0
    for letter in text:
        number = number << 5 | "0123456789ABCDEFGHJKMNPQRSTVWXYZ".index(letter)
    return number.to_bytes(16, "big")


def ulid(path):
    """The id in a v1/cluster object."""
    with open(path, "rb") as f:
        number = int.from_bytes(f.read()[-16:], "big")
    return "".join("0123456789ABCDEFGHJKMNPQRSTVWXYZ"[number >> shift & 31] for shift in range(125, -1, -5))


def flip(path):
    with open(path, "rb") as f:
        data = bytearray(f.read())
    data[len(data) // 2] ^= 0x55
    os.unlink(path)  # the store makes its objects read-only, and links may share them
    with open(path, "wb") as f:
        f.write(data)


def empty(folder):
    for entry in os.listdir(folder):
        path = os.path.join(folder, entry)
        (shutil.rmtree if os.path.isdir(path) and not os.path.islink(path) else os.unlink)(path)


def merge_into(made, old):
    """What was created at the place of a store while it was away goes to where it belongs; a name that exists stays."""
    for folder, _, files in os.walk(made):
        for name in files:
            to = os.path.join(old, os.path.relpath(os.path.join(folder, name), made))
            if not os.path.exists(to):
                os.makedirs(os.path.dirname(to), exist_ok=True)
                os.rename(os.path.join(folder, name), to)
    shutil.rmtree(made)


def fill(path):
    """Another program takes all that is left."""
    with open(path, "wb", buffering=0) as junk:
        with contextlib.suppress(OSError):
            while True:
                junk.write(b"x" * 65536)


def forget(c, name):
    done = subprocess.run([os.path.join(os.path.dirname(c["querier"].program), "flametree"), "stream", "forget", "--accept-loss", name,
                           "--url", c[name].url], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr + done.stdout


def mount_disks(c):
    """Small disks for the logs, where that is allowed; and why it is not."""
    mounted = []
    for name in INGESTERS:
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=%d" % DISK_BYTES, "none", c[name].data], capture_output=True, text=True)
        if done.returncode:
            return mounted, done.stderr.strip()
        mounted.append(c[name].data)
    return mounted, None


@pytest.fixture
def story():
    print("FAULTS_SEED=%d" % SEED)
    c = Cluster(*FLAGS)
    disks, no_disks = mount_disks(c)
    try:
        with c:
            t = Story(c, Book(c, random.Random(SEED)), () if no_disks else INGESTERS, no_disks)
            with t.load():
                t.await_pushes(120, least=100)
            t.store_all()
            t.check()
            yield t
            t.check()
            t.store_all()
            t.check()
            check_blocks(t.store)
    finally:
        for path in disks:
            subprocess.run(["umount", "-l", path], check=True)


# Of segments and versions of the manifest the listing alone says that they exist: who deletes one makes it never have been.
UNSEEN = [("live/a", "gone"), ("live/m", "gone")]
FAULTS = {
    **{"%s is killed" % name: (lambda t, name=name: t.killed(name)) for name in Cluster.NAMES},
    **{"%s is stopped" % name: (lambda t, name=name: t.stopped(name)) for name in ("ingester-2", "querier", "compactor")},
    "a querier has a wrong store": Story.wrong_store,
    "an ingester has an empty directory for a while": lambda t: t.empty_directory("ingester-2"),
    "an ingester has an empty directory for good": lambda t: t.accepted_loss("ingester-3"),
    "disks are full": Story.full_disk,
    "the store is away": Story.moved_store,
    **{"%s is %s and put back" % (kind, how): (lambda t, kind=kind, how=how: t.damaged(kind, how))
       for kind in ("live/a", "raw", "h", "d", "page", "live/m") for how in ("damaged", "gone") if (kind, how) not in UNSEEN},
    "a second compactor is three days ahead": lambda t: t.compactor_off(3),
    "a second compactor is three days behind": lambda t: t.compactor_off(-3),
}


def suffer(story, name):
    print("---- %s; acknowledged so far: %d" % (name, len(story.book.acked)))
    with story.load():
        FAULTS[name](story)
    story.check()


@pytest.mark.drawn(14)
@pytest.mark.parametrize("fault", FAULTS, ids=lambda name: name.replace(" ", "-").replace("/", "-"))
def test_all_that_was_acknowledged_is_there_once(story, fault):
    suffer(story, fault)


@pytest.mark.skipif("FAULTS_ROUNDS" not in os.environ, reason="FAULTS_ROUNDS=N runs all faults N times in a random order")
def test_one_fault_after_the_other(story):
    for _ in range(int(os.environ.get("FAULTS_ROUNDS", "1"))):
        order = [name for name in FAULTS if "for good" not in name and not (story.no_disks and "disks" in name)]
        random.Random(SEED).shuffle(order)
        for name in order:
            suffer(story, name)
