"""Six processes: a distributor tells each ingester the names and stacks of a service once. Ingesters that start anew, forget them, or take none get them again, and every acknowledged profile counts once."""
import pytest
from client import PUSH, Pprof, now_ms, pb, select
from client import CPU
from flametree import Cluster, await_

SERVICE = "shop"
DEPTH = 30  # frames of a stack; their names are most of a batch that brings its symbols along
STACKS = 20
PODS = 12  # label sets: each ingester owns some of them


def stack(i):
    return ";".join("main.(*Worker).handle_request_number_%d_at_depth_%d" % (i if d > 3 else 0, d) for d in range(DEPTH))


class Pushes:
    """Pushes of all pods, each with the same stacks, and what queries must give for them."""
    def __init__(self, cluster):
        self.cluster, self.rounds, self.at = cluster, 0, now_ms() - 300_000

    def round(self):
        s, at = self.cluster.server(), self.at + self.rounds
        profile = Pprof(*((stack(i), 1 + i) for i in range(STACKS)), time_ns=at * 10**6).encode()
        for pod in range(PODS):
            labels = [("__name__", "process_cpu"), ("service_name", SERVICE), ("pod", "p%d" % pod)]
            series = pb((1, [pb((1, k), (2, v)) for k, v in labels]), (2, pb((1, profile), (2, "%d-%d" % (at, pod)))))

            def taken():
                return s.call("POST", PUSH, pb((1, series)), {"Content-Type": "application/proto"}, push=True).expect((200, 503, 504)).status == 200
            await_("a push to be taken", taken, 120)
        self.rounds += 1

    def check(self):
        def whole():
            reply = self.cluster.server().query("SelectMergeStacktraces", profileTypeID=CPU, labelSelector=select(SERVICE), start=now_ms() - 1_800_000, end=now_ms() + 300_000)
            return reply if reply.status == 200 and "Flametree-Missing" not in reply.headers else None
        reply = await_("a whole answer", whole, 120)
        assert int(reply.headers["Flametree-Profiles"]) == self.rounds * PODS
        got = self.cluster.server().stacks(SERVICE, maxNodes=1 << 20)
        assert sum(got.values()) == self.rounds * PODS * sum(1 + i for i in range(STACKS)), got


def metric(m, name):
    return m.metric(name) or 0


def sent(c):
    return metric(c["distributor"], "flametree_distributor_append_bytes_total")


def told_again(c):
    return metric(c["distributor"], 'flametree_distributor_appends_total{result="told again"}')


def bytes_of(c, pushes):
    before = sent(c)
    pushes.round()
    return sent(c) - before


def test_names_are_told_once_and_again_to_an_ingester_that_starts_anew():
    with Cluster() as c:
        pushes = Pushes(c)
        first = bytes_of(c, pushes)
        bytes_of(c, pushes)  # who did not say before that it takes lexicons has by now
        known = bytes_of(c, pushes)
        assert known * 5 < first, (first, known)
        assert metric(c["distributor"], "flametree_distributor_lexicons") == len(c.ingesters())
        assert sum(metric(m, "flametree_ingester_lexicons") for m in c.ingesters()) == len(c.ingesters())
        assert told_again(c) == 0
        pushes.check()

        for how in ("kill", "stop"):
            m = c["ingester-2"]
            getattr(m, how)()
            m.start()
            await_("the distributor to know that it is back", lambda: pushes.round() or told_again(c) > 0 or metric(m, "flametree_ingester_lexicons") > 0, 120)
            pushes.round()
            pushes.check()
        await_("names that are not told again", lambda: bytes_of(c, pushes) * 5 < first)  # in the first push after a restart they are
        pushes.check()


@pytest.mark.parametrize("setting", ["--ingester.lexicon_memory=0", "--distributor.lexicon_memory=0"])
def test_without_lexicons_all_of_it_is_sent(setting):
    with Cluster(*setting.split("=")) as c:
        pushes = Pushes(c)
        first = bytes_of(c, pushes)
        pushes.round()
        assert bytes_of(c, pushes) == pytest.approx(first, rel=0.1)
        assert metric(c["distributor"], "flametree_distributor_lexicons_opened_total") == 0
        assert told_again(c) == 0
        pushes.check()


def test_an_ingester_with_room_for_few_gets_them_whole():
    with Cluster("--ingester.lexicon_memory", "1KiB") as c:
        pushes = Pushes(c)
        for _ in range(4):
            pushes.round()
        assert told_again(c) > 0
        assert sum(metric(m, "flametree_ingester_lexicon_bytes") for m in c.ingesters()) <= 3 * 1024
        pushes.check()
