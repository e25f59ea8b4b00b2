# SPDX-License-Identifier: Apache-2.0
"""From `helm install` to an answer, and what a small cluster takes while nobody asks."""
import gzip
import os
import time

from flametree import await_
from release import CHART, cpu_seconds, report, resident_bytes

IDLE_SECONDS = 10


def asked(server, service):
    """Is what was pushed answered?"""
    try:
        return server.stacks(service) == {"main;work": 3}
    except (AssertionError, OSError):
        return False


def test_a_small_cluster_is_installed_asked_tested_and_idle(release):
    one = release("small", "small")
    began = time.monotonic()
    said = one.install()
    waited = time.monotonic() - began
    server = one.server()
    service = server.send(("main;work", 3))
    await_("the first answer", lambda: asked(server, service))
    report("kube: %.1f s from helm install to the first answer (%.1f s to ready)" % (time.monotonic() - began, waited))
    assert "helm test small -n small" in said and "leaves the bucket" in said
    tested = one.helm("test", "small", "--timeout", "120s")
    assert "Phase:          Succeeded" in tested, tested
    zones = {one.kube.get("/api/v1/nodes/" + pod["spec"]["nodeName"])["metadata"]["labels"]["topology.kubernetes.io/zone"] for pod in one.pods("ingester")}
    assert len(zones) == 3, zones
    pids = one.processes()
    assert len(pids) == 8, pids
    before, at = cpu_seconds(pids.values()), time.monotonic()
    time.sleep(IDLE_SECONDS)  # a measurement, not a wait
    cores = (cpu_seconds(pids.values()) - before) / (time.monotonic() - at)
    report("kube: %d idle pods take %.0f MB and %.3f cores" % (len(pids), resident_bytes(pids.values()) / 1e6, cores))
    left = one.helm("uninstall", "small", "--wait")
    assert 'release "small" uninstalled' in left
    assert not one.kube.get("/api/v1/namespaces/small/services")["items"]


def test_the_image_is_small(kube):
    with open(os.path.join(kube.folder, "flametree.tar"), "rb") as f:
        image = f.read()
    compressed = len(gzip.compress(image, 6))
    report("kube: the image has %.0f MB, %.0f MB compressed" % (len(image) / 1e6, compressed / 1e6))
    assert compressed < 60e6


def test_the_api_server_takes_every_preset(kube, release):
    for preset in ("all-in-one", "small", "large"):
        one = release("dry-" + preset, preset)
        said = one.helm("install", "dry-" + preset, CHART, "--values", one.preset, *one.sets(), "--dry-run=server")
        assert "STATUS: pending-install" in said
