# SPDX-License-Identifier: Apache-2.0
"""A cluster under load gets the next chart and program, and the ones of before again: all that agents push counts once, and no answer lacks anything."""
import os
import time

from cluster import CHART, PREVIOUS
from load import Load, told
from release import report

RATE = int(os.environ.get("FLAMETREE_KUBE_RATE", "500"))  # pushes a second
CALM_SECONDS = 10


def uids(one):
    return {pod["metadata"]["uid"] for pod in one.pods()}


def versions(one):
    return {container["image"].rsplit(":", 1)[1] for pod in one.pods() for container in pod["spec"]["containers"]}


def test_a_rolling_upgrade_and_a_rollback_lose_nothing_and_no_answer_lacks_anything(busy):
    with Load(busy, "roll", rate=RATE) as load:
        load.go_on(busy)
        load.phase("calm")
        time.sleep(CALM_SECONDS)  # a measurement, not a wait
        before = uids(busy)
        assert versions(busy) == {PREVIOUS}
        load.phase("upgrade")
        busy.upgrade(chart=CHART)
        assert not before & uids(busy)
        assert versions(busy) == {busy.kube.version}
        before = uids(busy)
        load.phase("rollback")
        busy.helm("rollback", "busy", "1", "--wait", "--timeout", "240s")
        assert not before & uids(busy)
        assert versions(busy) == {PREVIOUS}
    for name in ("calm", "upgrade", "rollback"):
        report("kube, %s: %s" % (name, told({phase.name: phase for phase in load.result.phases}[name])))
    phases = load.check()
    report("kube: p99 of acknowledgement %.1f times the calm one in an upgrade, %.1f times in a rollback, at %d pushes a second" % (
        phases["upgrade"].p99_ms / phases["calm"].p99_ms, phases["rollback"].p99_ms / phases["calm"].p99_ms, RATE))
