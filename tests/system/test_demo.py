"""The tool that fills a server with recorded profiles (tests/lib/demo.py): every service comes, and the regression is where it says."""
import os
import subprocess
import sys
import time

import pytest
from client import CPU, select
from demo import CORPUS, REGRESSION_S, SOURCES
from flametree import TOP, Flametree

DEMO = os.path.join(TOP, "tests/lib/demo.py")


@pytest.mark.skipif(not os.path.exists(os.path.join(CORPUS, "MANIFEST.tsv")), reason="the corpus is not here")
def test_the_demo_pushes_every_service_and_one_regression():
    with Flametree() as f:
        sent = subprocess.run([sys.executable, DEMO, f.url, "--quick", "--hours", "2"], capture_output=True, text=True)
        assert sent.returncode == 0 and " profiles of 9 services over 2 hours" in sent.stdout, sent.stdout + sent.stderr
        server, now = f.server(), int(time.time() * 1000)
        names = server.query("LabelValues", name="service_name", start=now - 3 * 3600_000, end=now).json()["names"]
        assert sorted(names) == sorted({s[0] for s in SOURCES})

        def share(start, end):
            """Of the stacks through the compressor in those of the service."""
            stacks = server.stacks("shop-api", CPU, start=start, end=end)
            return sum(v for stack, v in stacks.items() if "compress/flate." in stack) / sum(stacks.values())
        since = now - REGRESSION_S * 1000
        before, after = share(now - 7200_000, since - 300_000), share(since + 300_000, now)
        assert after > 2 * before > 0, (before, after)
        versions = server.query("LabelValues", name="version", matchers=[select("shop-api")], start=since, end=now).json()["names"]
        assert "v1.5.0" in versions, versions
