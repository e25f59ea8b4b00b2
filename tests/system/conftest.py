"""One server for all tests of a worker that do not stop it or change its settings."""
import os

import pytest
from client import Server
from flametree import Flametree

STOCK = os.path.join(os.path.dirname(__file__), "../../deploy/examples/stock-limits.yaml")


@pytest.fixture(scope="session")
def shared():
    with Flametree("--config", STOCK) as f:
        yield f


@pytest.fixture
def s(shared):
    shared.check_alive()
    return Server(shared.url, strict=True)
