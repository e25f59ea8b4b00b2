# SPDX-License-Identifier: Apache-2.0
"""The page of a real server in a browser draws what was pushed. All else about it is tested in querier/ui/tests."""
import os
import re
import shutil
import subprocess

import pytest

from client import Pprof, unique
from flametree import Flametree

CHROMIUM = os.environ.get("CHROMIUM") or shutil.which("chromium")


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium")
def test_the_page_draws_what_was_pushed(tmp_path):
    with Flametree() as f:
        s, service = f.server(), unique()
        s.push({"__name__": "process_cpu", "service_name": service}, Pprof(("main;work", 3), ("main;idle", 1))).expect(200)
        address = "%s/flame?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds%%7Bservice_name%%3D%%22%s%%22%%7D" % (f.url, service)
        done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=%s" % tmp_path, "--virtual-time-budget=20000", "--dump-dom", address],
                              capture_output=True, text=True, timeout=120)
        drawn = re.search(r'data-frames="(\d+)"', done.stdout)
        assert drawn and drawn[1] == "4", done.stdout[:4000] + done.stderr[-2000:]  # total, main, work, idle
        assert service in re.search(r"<title>([^<]*)</title>", done.stdout)[1]
