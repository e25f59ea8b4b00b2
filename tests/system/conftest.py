"""One server of each topology for all tests of a worker that do not stop it or change its settings."""
import os

import pytest
from flametree import EXAMPLES, TOPOLOGIES, deploy

STOCK = os.path.join(EXAMPLES, "stock-limits.yaml")


@pytest.fixture(scope="session", params=TOPOLOGIES)
def shared(request):
    with deploy(request.param, "--config", STOCK) as f:
        yield f


@pytest.fixture
def s(shared):
    shared.check_alive()
    return shared.server()
