# SPDX-License-Identifier: Apache-2.0
"""One cluster, and one service of buckets, for all tests of a run."""
import glob
import os
import shutil
import sys

import pytest

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../lib"), os.path.join(HERE, "../conformance")]
import apart
from cluster import Kube, Store
from release import Release

LOGS = os.environ.get("FLAMETREE_KUBE_LOGS")  # a folder that gets the logs of all containers if a test failed


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    """What Kubernetes says of its objects at the moment of a failure."""
    report = (yield).get_result()
    kube = getattr(item, "funcargs", {}).get("kube") or getattr(getattr(item, "funcargs", {}).get("busy"), "kube", None)
    if report.failed and kube and LOGS:
        os.makedirs(LOGS, exist_ok=True)
        with open(os.path.join(LOGS, item.name + ".state"), "w") as f:
            for words in (["get", "pods,hpa,pvc", "-A", "-o", "wide"], ["describe", "hpa", "-A"], ["get", "events", "-A", "--sort-by=.metadata.creationTimestamp"]):
                f.write(kube.kubectl(*words) + "\n")


@pytest.fixture(scope="session")
def kube(request):
    if apart.INSIDE not in os.environ:
        pytest.skip("needs namespaces of its own: tests/kube/run")
    with Kube() as kube:
        yield kube
        if request.session.testsfailed and LOGS:
            shutil.copytree(os.path.join(kube.folder, "logs"), LOGS, dirs_exist_ok=True)
            for path in glob.glob(os.path.join(kube.folder, "*.log")):
                shutil.copy(path, LOGS)


@pytest.fixture(scope="session")
def store(kube):
    with Store() as store:
        yield store


@pytest.fixture(scope="session")
def busy(kube, store):
    """A small cluster that many tests push into."""
    one = Release(kube, store, "busy", "small", "compactor.replicas=2", "ingester.minReadySeconds=8", chart=kube.previous_chart())  # a bit more than what DNS says holds for
    one.install()
    yield one
    one.remove()


@pytest.fixture
def release(kube, store):
    """release("name", "small", values): a release in a namespace of its own, gone after the test."""
    made = []

    def make(name, preset, *values, **options):
        made.append(Release(kube, store, name, preset, *values, **options))
        return made[-1]

    yield make
    for one in made:
        one.remove()
