"""One S3 service for all tests of a worker."""
import os
import sys

import pytest
from radosgw import Radosgw

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../oracle"))  # fleet.py


@pytest.fixture(scope="session")
def service():
    with Radosgw() as g:
        yield g
