"""Who is who: a node with another store, an ingester with another data directory, two processes with one id. Each is told by name, in the log, in /ready
and in metrics, and no answer passes for exact that may lack rows."""
import contextlib
import re
import urllib.request

import pytest
from client import CPU, Pprof, now_ms, select, unique
from flametree import Cluster, Flametree, await_

ULID = "[0-9A-HJKMNP-TV-Z]{26}"


def ask(s, service, **headers):
    return s.query("SelectMergeStacktraces", headers, profileTypeID=CPU, labelSelector=select(service), start=now_ms() - 1_800_000, end=now_ms() + 300_000)


def push(s, service, value=1, pods=12, expected=200):
    for i in range(pods):
        s.push({"__name__": "process_cpu", "service_name": service, "pod": "p%d" % i}, Pprof(("main;work", value))).expect(expected)


def ready(f):
    """Lines of /ready behind the first one, which must be "ready"."""
    with urllib.request.urlopen(f.url + "/ready") as answer:
        lines = answer.read().decode().splitlines()
    assert lines[0] == "ready", lines
    return lines[1:]


def notices(f, event):
    return [line for line in ready(f) if line.startswith(event + " ")]


def await_notice(f, event, *words):
    """The notice is in /ready, in the metric and in the log."""
    line = await_("%s of %s" % (event, f.program), lambda: next((x for x in notices(f, event) if all(w in x for w in words)), None), 60)
    assert f.metric('flametree_notices{notice="%s"}' % event) >= 1
    assert "event=%s about=" % event in f.tail(2000), f.tail()
    return line


@pytest.fixture
def cluster():
    with Cluster() as c:
        yield c


# ---- another store

@contextlib.contextmanager
def stray(cluster, tmp_path, program, env=None):
    """A process of the cluster with a new data directory and another store."""
    lists = "--cluster.ingesters=" + ",".join("%s=%s" % (name, m.ports["internal"]) for name, m in cluster.members.items() if name.startswith("ingester"))
    with Flametree("--internal.listen", cluster.host + ":0", "--server.id", "stray", "--storage.dir", str(tmp_path / "other"), lists,
                   program="flametree-" + program, env=env) as f:
        yield f


def test_a_querier_with_another_store_is_refused_by_name(cluster, tmp_path):
    s, service = cluster.server(), unique()
    push(s, service)
    for m in cluster.ingesters():
        m.server().call("POST", "/ingester/flush?wait=true", b"").expect(200)
    with stray(cluster, tmp_path, "querier") as f:
        reply = ask(f.server(), service).expect(503, "missing: ingester-1, ingester-2, ingester-3", code="unavailable")
        ids = set(re.findall("cluster (%s)" % ULID, reply.message()))
        assert len(ids) == 2 and "stray has a store of cluster" in reply.message() and "storage.dir" in reply.message(), reply.message()
        marked = ask(f.server(), service, **{"Flametree-Partial": "allow"}).expect(200)
        assert marked.headers["Flametree-Exact"].startswith("partial=") and "ingester-1" in marked.headers["Flametree-Missing"], marked.headers
        await_notice(f, "cluster.differs", "ingester-1", *ids)
        await_notice(cluster["ingester-1"], "cluster.differs", "stray", *ids)
    assert s.stacks(service) == {"main;work": 12}


def test_a_distributor_with_another_store_is_refused_by_name(cluster, tmp_path):
    service = unique()
    with stray(cluster, tmp_path, "distributor") as f:
        reply = f.server().push({"__name__": "process_cpu", "service_name": service}, Pprof(("a", 1))).expect(503, code="unavailable")
        assert "stray has a store of cluster" in reply.message(), reply.message()
    assert cluster.server().stacks(service) == {}


def test_a_distributor_without_a_store_tells_that_its_ingesters_are_of_two_clusters(cluster, tmp_path):
    with Flametree("--internal.listen", cluster.host + ":0", "--server.id", "foreign", "--storage.dir", str(tmp_path / "other"), program="flametree-ingester") as foreign:
        at = {name: m.ports["internal"] for name, m in cluster.members.items() if name.startswith("ingester")}
        lists = "--cluster.ingesters=" + ",".join("%s=%s" % item for item in {**at, "foreign": foreign.ports["internal"]}.items())
        with Flametree("--internal.listen", cluster.host + ":0", "--server.id", "mixed", lists, program="flametree-distributor") as f:
            await_notice(f, "cluster.differs", "mixed", "storage.dir")


def test_a_store_that_could_not_be_asked_is_asked_again(cluster, tmp_path):
    service = unique()
    push(cluster.server(), service)
    with stray(cluster, tmp_path, "querier", {"FLAMETREE_FAULTS": "store.link=eio@3"}) as f:  # two links try the store out, the third is v1/cluster
        assert "event=storage.unasked about=stray" in f.tail(), f.tail()
        await_("the store to be asked", lambda: "event=storage.opened" in f.tail(500))
        ask(f.server(), service).expect(503, "missing: ingester-1, ingester-2, ingester-3", code="unavailable")
        assert notices(f, "storage.unasked") == [] and "event=notice.over of=storage.unasked" in f.tail(500)


def test_a_store_that_cannot_be_asked_is_told(tmp_path):
    with Flametree("--internal.listen", "127.0.0.1:0", "--storage.dir", str(tmp_path / "other"), program="flametree-compactor", env={"FLAMETREE_FAULTS": "store.link=eio@3+"}) as f:
        await_notice(f, "storage.unasked", "Input/output error")
