"""One service of each kind for all tests of a worker."""
import os
import sys

import pytest
from azurite import Azurite
from radosgw import Radosgw
from versitygw import Versitygw

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../oracle"))  # fleet.py

KINDS = {"radosgw": Radosgw, "versitygw": Versitygw, "azurite": Azurite}


@pytest.fixture(scope="session")
def services():
    """services(kind): the service, started when a test asks for it first."""
    running = {}

    def get(kind):
        if kind not in running:
            running[kind] = KINDS[kind]().__enter__()
        return running[kind]
    yield get
    for service in running.values():
        service.__exit__()


@pytest.fixture
def service(services):
    return services("radosgw")


@pytest.fixture(params=list(KINDS))
def each_service(request, services):
    return services(request.param)
