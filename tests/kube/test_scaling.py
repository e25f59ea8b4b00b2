# SPDX-License-Identifier: Apache-2.0
"""What changes by itself or by hand while a cluster runs: the number of pods, by the autoscalers of the chart with metrics of these very pods, and limits."""
from client import Pprof
from flametree import await_
from load import Load
from metrics import Metrics
from release import restarts
from test_disruption import told_of

SCALERS = "/apis/autoscaling/v2/namespaces/%s/horizontalpodautoscalers/%s-%s"
VALUES = ["autoscaling.metrics=custom", "ingester.autoscaling.enabled=true", "ingester.autoscaling.maxReplicas=4", "ingester.autoscaling.targetHeadBytes=1k",
          "ingester.autoscaling.scaleDownSeconds=2", "distributor.autoscaling.enabled=true", "distributor.autoscaling.maxReplicas=3", "distributor.autoscaling.targetCPU=1"]


def test_autoscalers_add_pods_and_take_them_away_after_their_drain(busy):
    kube = busy.kube
    count = lambda role: len([pod for pod in busy.pods(role) if "deletionTimestamp" not in pod["metadata"]])
    with Metrics(kube), Load(busy, "scaled") as load:
        load.go_on(busy)
        before = {role: {pod["metadata"]["uid"] for pod in busy.pods(role)} for role in ("querier", "ingester")}
        load.phase("scaled up")
        busy.upgrade(*VALUES, wait=False)
        await_("four ingesters and three distributors", lambda: count("ingester") == 4 and count("distributor") == 3, 90, 0.5)
        busy.await_ready()
        assert before["ingester"] < {pod["metadata"]["uid"] for pod in busy.pods("ingester")}  # the others stay as they are
        fourth = "busy-flametree-ingester-3"
        server, services = busy.server(), []

        def reached():  # which services have their place there is up to their names
            services.append(server.send(("main;work", 1)))
            return busy.metric(fourth, "flametree_ingester_head_bytes") > 0

        await_("pushes at the fourth ingester", reached, 60, 0.3)
        load.phase("scaled down")
        # The load is the same; what has changed is what is too much.
        for role, target in (("ingester", {"type": "Pods", "pods": {"metric": {"name": "flametree_ingester_head_bytes"}, "target": {"type": "AverageValue", "averageValue": "10G"}}}),
                             ("distributor", {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 10000}}})):
            kube.patch(SCALERS % ("busy", "busy-flametree", role), {"spec": {"metrics": [target], "behavior": {"scaleDown": {"stabilizationWindowSeconds": 1}}}})
        await_("two distributors, and an ingester that goes", lambda: count("ingester") == 3 and count("distributor") == 2, 120, 0.5)
        await_("its end", lambda: fourth not in {pod["metadata"]["name"] for pod in busy.pods()}, 60, 0.3)
        load.go_on(busy)
        assert all(server.stacks(service) == {"main;work": 1} for service in services)
    busy.upgrade()
    told_of(load, "scaled up", "scaled down")
    load.check()


def test_limits_of_a_tenant_are_read_again_without_a_restart(busy):
    server = busy.server()
    # Without those that are on their way out, as after the test before this one.
    stay = lambda: {pod["metadata"]["uid"]: restarts(pod) for pod in busy.pods() if "deletionTimestamp" not in pod["metadata"]}
    before = stay()
    labels = {"__name__": "process_cpu", "service_name": "limited", **{"label%d" % i: "x" for i in range(12)}}
    push = lambda: server.push(labels, Pprof(("main;work", 1)))
    assert push().status == 200
    busy.upgrade("overrides.anonymous.max_label_names_per_series=9", "overrides.anonymous.faulty_profiles=refuse")

    def refused():
        reply = push()
        return reply.status == 400 and "has 14 label names; limit 9" in reply.text

    await_("the limit", refused, 90, 0.5)
    busy.upgrade()
    await_("no limit", lambda: push().status == 200, 90, 0.5)
    assert before == stay()
