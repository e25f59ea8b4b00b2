# SPDX-License-Identifier: Apache-2.0
"""Pods and nodes that go, orderly or not, while agents push and Grafana asks: whatever was acknowledged counts once. What goes orderly leaves no gap in any
answer; of what is killed answers say for a while that they lack something (docs/operations.md), and nothing is ever wrong."""
from cluster import Refused
from flametree import await_
from load import Load, told
from release import report


def pod_of(one, role, number=0):
    return sorted(pod["metadata"]["name"] for pod in one.pods(role))[number]


def told_of(load, *names):
    for phase in load.stop().phases:
        if phase.name in names:
            report("kube, %s: %s" % (phase.name, told(phase)))


def test_pods_that_are_killed_and_deleted_lose_nothing(busy):
    with Load(busy, "killed") as load:
        load.go_on(busy)
        load.phase("pods killed")
        busy.kill(*[pod_of(busy, role) for role in ("distributor", "ingester", "querier")])
        load.go_on(busy)
        load.phase("pods deleted")
        for role in ("distributor", "querier", "compactor"):
            busy.delete_pod(pod_of(busy, role))
        busy.replace(pod_of(busy, "ingester", 1))  # with the directory that it has
        load.go_on(busy)
    told_of(load, "pods killed", "pods deleted")
    load.check(incomplete=None)


def test_a_node_that_is_lost_loses_nothing(busy):
    kube = busy.kube
    with Load(busy, "lost") as load:
        load.go_on(busy)
        load.phase("node lost")
        name = busy.pod(pod_of(busy, "ingester", 2))["spec"]["nodeName"]
        assert [pod["spec"]["nodeName"] for pod in busy.pods("ingester")].count(name) == 1  # or the one that is left would take over nothing
        node = next(node for node in kube.nodes if node.name == name)
        node.kill()
        await_("the loss to be seen", lambda: not node.ready(), 60, 0.5)
        # The other ingesters take over what was not flushed there, and answers are whole without the node.
        server = busy.server()
        await_("whole answers", lambda: not (server.query("LabelNames", headers={"Flametree-Partial": "allow"}).headers["Flametree-Exact"] or "").startswith("partial"), 90, 0.5)
        load.go_on(busy)
        load.phase("node back")
        node.start()
        await_("the node", node.ready, 90, 0.5)
        busy.await_ready()
        load.go_on(busy)
    told_of(load, "node lost", "node back")
    load.check(incomplete=None)


def evict(one, name):
    one.kube.post("/api/v1/namespaces/%s/pods/%s/eviction" % (one.namespace, name), {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}})


def test_a_drained_node_loses_nothing_and_no_answer_lacks_anything(busy):
    with Load(busy, "drained") as load:
        load.go_on(busy)
        load.phase("drain")
        first, second = pod_of(busy, "ingester", 0), pod_of(busy, "ingester", 1)
        evict(busy, first)
        try:
            evict(busy, second)
            raise AssertionError("the disruption budget lets two ingesters go at once")
        except Refused as refused:
            assert refused.status == 429 and "disruption budget" in refused.text, refused
        node = busy.pod(second)["spec"]["nodeName"]
        # Drain tries again as long as the budget has no room.
        said = busy.kube.kubectl("drain", node, "--ignore-daemonsets", "--delete-emptydir-data", "--force", "--timeout=200s")
        assert "drained" in said
        assert not [pod for pod in busy.pods() if pod["spec"].get("nodeName") == node]
        busy.await_ready()
        busy.kube.kubectl("uncordon", node)
        load.go_on(busy)
    told_of(load, "drain")
    load.check()
