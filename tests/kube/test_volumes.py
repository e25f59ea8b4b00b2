# SPDX-License-Identifier: Apache-2.0
"""Logs on volumes: what was acknowledged outlives processes, pods and the release itself."""
from flametree import await_
from load import Load
from test_install import asked


def test_logs_on_volumes_outlive_their_pods_and_the_release(kube, release):
    kube.add_disks("logs")
    one = release("logs", "small", "log=local", "ingester.replicas=2", "distributor.replicas=1", "querier.replicas=1",
                  "ingester.persistence.size=1Gi", "ingester.persistence.storageClass=logs")
    assert "leaves the bucket and the volumes of logs" in one.install()
    names = [pod["metadata"]["name"] for pod in one.pods("ingester")]
    with Load(one, "logs", tries=80) as load:  # no ingester is left, for as long as Kubernetes takes
        load.go_on(one)
        one.kill(*names)
        load.go_on(one)
        one.replace(*names)
        load.go_on(one)
    load.check(incomplete=None)
    service, claims = one.server().send(("main;work", 3)), one.claims()
    assert len(claims) == 2
    one.helm("uninstall", one.name, "--wait")
    assert one.claims() == claims
    one.install()
    await_("what was pushed before", lambda: asked(one.server(), service))


def test_all_in_one_is_installed_killed_upgraded_and_uninstalled_with_its_volume(kube, release):
    kube.add_disks("all", each=1)
    one = release("one", "all-in-one", "allInOne.persistence.size=1Gi", "allInOne.persistence.storageClass=all")
    assert "leaves the volumes" in one.install()
    service = one.server().send(("main;work", 3))
    there = lambda: await_("what was pushed", lambda: asked(one.server(), service))
    there()
    name = one.pods()[0]["metadata"]["name"]
    one.kill(name)
    there()
    one.replace(name)
    there()
    assert "Phase:          Succeeded" in one.helm("test", one.name, "--timeout", "120s")
    before = one.pod(name)["metadata"]["uid"]
    one.upgrade("podAnnotations.changed=yes")
    assert one.pod(name)["metadata"]["uid"] != before
    there()
    one.helm("uninstall", one.name, "--wait")
    assert len(one.claims()) == 1
    one.install()
    there()
