"""A process is killed, or its disk fails, at every named fault point of the write path (common/base/fault.h): what was acknowledged is
there exactly once afterwards, and a push again with the same id counts once.

The points are read from the sources, so none can be forgotten: a point at which no process dies in its life below fails its test.
There are two lives: without an object store, in which old cuts go by age, and with one, in which cuts are flushed. On a bucket
(FLAMETREE_TEST_S3) there is only the second one, without the points of the local store; tests/s3/test_trouble.py kills at each request.
With FLAMETREE_INGESTER_LOG=object, too, there is only the second one, at all points that a log in the object store has.
"""
import http.client
import os
import re
import urllib.request

import pytest
from flametree import S3, TOP, Flametree, await_, copy_data
from faultclock import FaultClock
from ledger import Ledger

LONG = os.environ.get("FLAMETREE_NIGHTLY") == "1"
ROOMS = ("common", "ingester", "distributor", "querier", "compactor", "deploy")
FOUND = {}
for room in ROOMS:
    for folder, _, names in os.walk(os.path.join(TOP, room)):
        for name in names:
            if name.endswith((".c", ".h")) and name != "fault.h":
                with open(os.path.join(folder, name)) as source:
                    for kind, point in re.findall(r'\bFAULT(_ERRNO)?\(\s*"([^"]+)"', source.read()):
                        FOUND[point] = kind or FOUND.get(point, "")
POINTS = sorted(FOUND)
FAILING = sorted(point for point, kind in FOUND.items() if kind)

# Points of compaction and of what it does to manifests and objects: tests/system/test_compactor*.py.
OF_COMPACTION = ("compact.", "manifest.page.", "manifest.root.", "manifest.sw", "store.delete")
# The point of queries, which write nothing: tests/system/test_members.py.
OF_QUERIES = ("read.",)
# Points of imports, which go by no log: tests/system/test_cli_import.py.
OF_IMPORTS = ("import.",)
# Points of the deletion of a tenant: tests/system/test_tenant_deletion.py.
OF_CLOSING = ("closing.", "closed.")
# Points of adoption, for which a process has to be gone: tests/system/test_object_log.py.
OF_ADOPTION = ("adopt.", "wal.adopt")
# Points of streams that were given up, for which another process has to do that: tests/system/test_forgotten.py.
OF_FORGOTTEN = ("aside.", "wal.aside.", "stream.forgotten")
# Points of the local store.
OF_LOCAL = ("store.",)
# Points that only what is stored meets.
OF_STORE = ("flush.", "manifest.", "store.", "stream.")
# Points of a log in the object store, and those that only a log on disk has, or a head that is never flushed.
OBJECT = os.environ.get("FLAMETREE_INGESTER_LOG") == "object"
OF_OBJECTS = ("wal.object.",)
OF_DISK = ("wal.family.", "wal.meta", "wal.erase", "wal.open", "wal.begin.before", "wal.cut.drop.after", "wal.cut.open.after", "cut.expire",
           "head.compact")


def life_of(point):
    return "stored" if OBJECT or point.startswith(OF_STORE) else "kept"


def is_here(point):
    elsewhere = OF_COMPACTION + OF_QUERIES + OF_IMPORTS + OF_CLOSING + OF_ADOPTION + OF_FORGOTTEN + (OF_DISK if OBJECT else OF_OBJECTS)
    return not point.startswith(elsewhere + (OF_LOCAL if S3 else ())) and not (S3 and life_of(point) == "kept")


POINTS, FAILING = ([point for point in points if is_here(point)] for points in (POINTS, FAILING))

# Small cuts, so that they close; small memory, so that buffers are flushed; a head age that a shifted clock passes at once.
FLAGS = ("--ingester.cut_bytes", "6KiB", "--ingester.log_memory", "1MiB", "--ingester.head_age", "24h", "--limits.reject_older_than", "0")
KIND = {"kept": ("--storage.kind", "none"), "stored": ("--ingester.stream_age", "10ms")}
HOUR = 3600 * 10**9
OLD = ["old.%d" % i for i in range(40)]
# Of what only old cuts have there is so much that tables are made anew when they go.
STACKS = ["of.old.%d" % i for i in range(10)]


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    """{life: (a data directory as a killed process leaves it, what was pushed)}"""
    kept = {} if S3 or OBJECT else {"kept": grown_kept(tmp_path_factory.mktemp("kept"))}
    return {**kept, "stored": grown_stored(tmp_path_factory.mktemp("stored"))}


def grown_kept(data):
    """A full cut, and one that was made and never written."""
    f = Flametree(*FLAGS, *KIND["kept"], "--ingester.cut_bytes", "16KiB", data=str(data), env={"FLAMETREE_FAULTS": "wal.cut.open.after=die@2"})
    f.start()
    book = Ledger(f)
    for i, name in enumerate(OLD):
        for k in range(7):
            book.push("%s.%d" % (name, k), *["%s.%d.%d" % (s, i, k) for s in STACKS], labels={"pod": "%d-%d" % (i, k)})
        if f.process.poll() is not None:
            break
    assert f.process.wait(60) == -9 and len(book.acked) > 70, book.answers
    return data, book


def grown_stored(data):
    """A cut that is in the store whole, and in the log as well."""
    f = Flametree(*FLAGS, "--ingester.cut_bytes", "64KiB", data=str(data), env={"FLAMETREE_FAULTS": "flush.covered=die@1"})
    f.start()
    book = Ledger(f)
    for name in OLD:
        assert book.push(name) == 200
    flush(f)
    assert f.process.wait(60) == -9
    return data, book


def flush(f):
    """Whether the server said that all is in the store."""
    try:
        with urllib.request.urlopen(urllib.request.Request(f.url + "/ingester/flush", method="POST", data=b""), timeout=60) as answer:
            return answer.status == 200
    except (OSError, http.client.HTTPException):
        return False


class Life:
    """One process on a copy of that directory, through all that a write path does; who is killed on the way, stops there."""

    def __init__(self, grown, tmp_path, point, faults):
        self.kind = life_of(point)
        data, book = grown[self.kind]
        self.data = tmp_path / "data"
        copy_data(data, self.data)
        self.clock = FaultClock(tmp_path / "clock")
        self.f = Flametree(*FLAGS, *KIND[self.kind], data=str(self.data), env={"FLAMETREE_FAULTS": faults, **self.clock.env})
        self.book = Ledger(self.f, now_ns=self.clock.now_ns)
        self.book.bodies, self.book.acked, self.book.unsure = dict(book.bodies), set(book.acked), set(book.unsure)
        self.old = set(book.bodies)

    def ended(self):
        return self.f.process.poll() is not None

    def start(self):
        self.f.start(wait=False)
        try:
            self.f.await_ready()
        except AssertionError:
            if self.f.process is not None:
                raise
            return False
        return True

    def push(self, names, **kw):
        for name in names:
            await_("a push to be taken", lambda: self.ended() or self.book.push(name, **kw) == 200)
            if self.ended():
                return False
        return True

    def forget_old(self):
        """Two days pass; what comes after them stays."""
        before = self.expired()
        self.old |= set(self.book.bodies)
        self.clock.pass_(48 * HOUR)
        if not self.push(["new.%d" % i for i in range(3)]):
            return False
        await_("old cuts to go", lambda: self.ended() or (self.expired() > before and self.closed() == 0))
        return not self.ended()

    def flush(self):
        """All is in the store, some of it after tries that failed."""
        if not await_("all to be stored", lambda: self.ended() or flush(self.f)):
            return False
        self.old = set()
        return not self.ended()

    def metric(self, name):
        """None also if it died before it said so, or on the way."""
        try:
            return self.f.metric(name)
        except (OSError, http.client.HTTPException):
            return None

    def expired(self):
        return self.metric("flametree_ingester_expired_cuts_total") or 0

    def closed(self):
        return self.metric('flametree_ingester_cuts{state="closed"}')

    def run(self):
        """True if it came to its end alive."""
        if not self.start():
            return False
        alive = self.push(["mid.%d" % i for i in range(25)], weight=600) and (self.flush() if self.kind == "stored" else self.forget_old())
        alive = alive and self.push(["late.%d" % i for i in range(3)])
        if alive:
            self.f.signal(15)
            self.f.process.wait(60)
        return alive

    def again(self):
        """A process without faults finds everything."""
        if self.f.process and not self.ended():
            self.f.kill()
        self.f.process = None
        self.f.env.pop("FLAMETREE_FAULTS")
        self.f.start()
        if self.kind == "stored":
            return self.again_stored()
        self.book.check(gone=self.old)
        known = set(self.book.acked | self.book.unsure) - self.old
        self.book.bodies = {name: body for name, body in self.book.bodies.items() if name in known}
        self.book.acked -= self.old
        self.book.unsure -= self.old
        self.book.retry()
        self.book.check()
        assert set(self.book.found()) == known

    def again_stored(self):
        """What was stored before the end counts twice when it is pushed again, until compaction; so only what nobody knows of is."""
        self.book.check()
        unsure = set(self.book.unsure)
        self.book.retry(unsure)
        self.book.check()
        assert flush(self.f)
        self.book.check()
        assert set(self.book.found()) == self.book.acked >= unsure


def times():
    return [1, 2, 5] if LONG else [1]


# A write that fails lets the log be opened again on the way; a log in the store goes on unless its object has landed.
REOPEN = "wal.sync.after=eio@9" if OBJECT else "wal.write.before=eio@9"


@pytest.mark.parametrize("time", times())
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_at(grown, tmp_path, point, time):
    life = Life(grown, tmp_path, point, "%s=die@%d;%s" % (point, time, REOPEN))
    try:
        came_to_its_end = life.run()
        code = life.f.process.returncode if life.f.process else None
        if time == 1:
            assert not came_to_its_end or code == -9, "no process met the fault point %s: let Life.run() reach it" % point
        life.again()
    finally:
        if life.f.process:
            life.f.kill()


@pytest.mark.parametrize("error", ["eio", "enospc"] if LONG else ["eio"])
@pytest.mark.parametrize("point", FAILING)
def test_a_failure_at(grown, tmp_path, point, error):
    """A failed call is told, and the process goes on; at its start it may end instead, with a reason."""
    life = Life(grown, tmp_path, point, "%s=%s@1;%s" % (point, error, REOPEN))
    try:
        if not life.start():
            said = life.f.tail()
            assert {"eio": "Input/output error", "enospc": "No space left on device"}[error] in said and "Sanitizer" not in said, said
        else:
            done = life.push(["mid.%d" % i for i in range(25)], weight=600) and (life.flush() if life.kind == "stored" else life.forget_old())
            assert done, life.f.tail()
            assert {status for status, _ in life.book.answers} <= {200, 429, 503}, life.book.answers
            life.book.check(gone=life.old if life.kind == "kept" else ())
        life.again()
    finally:
        if life.f.process:
            life.f.kill()
