"""Every process of the cluster is stopped, killed and started again while writers push and a reader asks: what was
acknowledged is there exactly once, what was refused may be tried again, and no answer is silently too small."""
import signal
import threading

import pytest
from client import CPU, Pprof, now_ms, select, unique
from flametree import Cluster, await_

RETRYABLE = (429, 502, 503, 504)
WRITERS = 4


WHOLE = {"Flametree-Partial": "deny"}  # a whole answer, or none


class Load:
    """Writers whose n-th profile is frame w<writer>_<n> with value 1 + n, and a reader; both know what to expect."""

    def __init__(self, cluster):
        self.cluster, self.service = cluster, unique("restart")
        self.tried, self.acked, self.wrong = set(), [], []
        self.answers = self.refusals = self.refused_pushes = 0
        self.done = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=(self.write, w)) for w in range(WRITERS)]
        self.threads.append(threading.Thread(target=self.run, args=(self.read,)))

    def run(self, work, *args):
        try:
            work(*args)
        except Exception as e:  # told by the test, whose thread is another one
            self.wrong.append("%s ended: %r" % (work.__name__, e))

    def call(self, one):
        """A reply, or None if the process was not there; an answer cut off on its way counts as none."""
        try:
            return one()
        except AssertionError:
            return None

    def write(self, writer):
        s, n = self.cluster.server(), 0
        while not self.done.is_set():
            name = "w%d_%d" % (writer, n)
            self.tried.add(name)
            reply = self.call(lambda: s.push({"__name__": "process_cpu", "service_name": self.service, "pod": "p%d" % (n % 25)}, Pprof((name, 1 + n))))
            if reply is not None and reply.status == 200:
                self.acked.append(name)
            elif reply is None or reply.status in RETRYABLE:
                self.refused_pushes += 1
                self.done.wait(0.05)
            else:
                self.wrong.append("a push got %s" % reply)
            n += 1

    def read(self):
        s = self.cluster.server()
        while not self.done.is_set():
            before = len(self.acked)
            reply = self.call(lambda: s.query("SelectMergeStacktraces", WHOLE, profileTypeID=CPU, labelSelector=select(self.service), maxNodes=1 << 20))
            if reply is not None and reply.status == 200:
                self.answers += 1
                if int(reply.headers["Flametree-Profiles"]) < before:
                    self.wrong.append("%d profiles were acknowledged, an answer that says %s has %s" % (
                        before, reply.headers["Flametree-Exact"], reply.headers["Flametree-Profiles"]))
            elif reply is not None and reply.status == 429 and " waited " in reply.message():
                pass  # for a thread, on a busy machine
            elif reply is not None:
                self.refusals += 1
                said = "ingester" in reply.message() or reply.message() in ("starting", "stopping")  # the querier itself
                if reply.status not in (503, 504) or not said:
                    self.wrong.append("a query got %s" % reply)
            self.done.wait(0.02)

    def __enter__(self):
        for t in self.threads:
            t.start()
        return self

    def __exit__(self, *what):
        self.done.set()
        for t in self.threads:
            t.join()

    def more(self, count=25):
        """Waits until so many further pushes were acknowledged."""
        goal = len(self.acked) + count
        await_("%d further acknowledgements" % count, lambda: self.wrong or len(self.acked) >= goal)

    def seen(self, what):
        """Waits for a further one of answers, refusals or refused_pushes."""
        before = getattr(self, what)
        await_("further " + what, lambda: self.wrong or getattr(self, what) > before)

    def check(self):
        assert not self.wrong, self.wrong[:5]
        got = self.cluster.server().stacks(self.service, maxNodes=1 << 20)
        value = lambda name: 1 + int(name.split("_")[1])
        bad = {n: got.get(n) for n in self.acked if got.get(n) != value(n)}
        assert not bad, "acknowledged, but lost or doubled: %s" % bad
        strange = {n: v for n, v in got.items() if n not in self.tried or v != value(n)}
        assert not strange, "in the answer, but not as sent: %s" % strange


@pytest.mark.parametrize("how", ["stopped", "killed"])
def test_any_process_may_restart_under_load(how):
    """An ingester that ends by itself gives all it has to the store first: no query is refused for it."""
    with Cluster("--distributor.append_timeout", "2s") as c:
        with Load(c) as load:
            load.more()
            for name in ("ingester-1", "distributor", "querier", "ingester-3", "compactor", "ingester-2"):
                refused = load.refusals
                c[name].stop() if how == "stopped" else c[name].kill()
                if name == "distributor":
                    load.seen("refused_pushes")
                else:
                    load.more()
                if name.startswith("ingester"):
                    load.seen("refusals" if how == "killed" else "answers")
                c[name].start()
                load.more()
                load.seen("answers")
                assert how == "killed" or not name.startswith("ingester") or load.refusals == refused, name
        load.check()


def test_ingesters_that_hang_under_load():
    """Each one is stopped in the middle of its appends, which others then get too, and goes on."""
    with Cluster("--distributor.append_timeout", "300ms") as c:
        with Load(c) as load:
            load.more()
            for name in ("ingester-1", "ingester-2", "ingester-3"):
                c[name].signal(signal.SIGSTOP)
                load.more()
                c[name].signal(signal.SIGCONT)
                load.more()
        load.check()
        assert c["distributor"].metric('flametree_distributor_appends_total{result="passed"}') > 0


@pytest.mark.parametrize("point", ["wal.write.before=die@7", "wal.sync.after=die@7", "append.ack.before=die@7"])
def test_an_ingester_that_dies_in_an_append(point):
    with Cluster("--distributor.append_timeout", "2s", env_of={"ingester-2": {"FLAMETREE_FAULTS": point}}) as c:
        with Load(c) as load:
            c["ingester-2"].process.wait(60)
            c["ingester-2"].process = None
            load.more()
            c["ingester-2"].env.pop("FLAMETREE_FAULTS")
            c["ingester-2"].start()
            load.more()
        load.check()
