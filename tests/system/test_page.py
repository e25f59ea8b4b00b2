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


def seen(f, service, tmp_path):
    """The document that a browser has made of the page of a service."""
    address = "%s/flame?query=process_cpu:cpu:nanoseconds:cpu:nanoseconds%%7Bservice_name%%3D%%22%s%%22%%7D" % (f.url, service)
    done = subprocess.run([CHROMIUM, "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=%s" % tmp_path, "--virtual-time-budget=20000", "--dump-dom", address],
                          capture_output=True, text=True, timeout=120)
    assert 'data-frames="' in done.stdout, done.stdout[:4000] + done.stderr[-2000:]
    return done.stdout


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium")
def test_the_page_draws_what_was_pushed(tmp_path):
    with Flametree() as f:
        s, service = f.server(), unique()
        s.push({"__name__": "process_cpu", "service_name": service}, Pprof(("main;work", 3), ("main;idle", 1))).expect(200)
        page = seen(f, service, tmp_path)
        assert re.search(r'data-frames="(\d+)"', page)[1] == "4"  # total, main, work, idle
        assert service in re.search(r"<title>([^<]*)</title>", page)[1]


BELOW = [
    ([("main;a", 900), ("main;b", -400), ("main;a;x", 99), ("other", -100)], "499 ns", {"main": (0, 599), "a": (900, 999), "b": (-400, -400), "x": (99, 99), "other": (-100, -100)}),
    ([("main;a", 100), ("main;b", -400)], "-300 ns", {"main": (0, -300), "a": (100, 100), "b": (-400, -400)}),
    ([("main;a", 100), ("main;b", -100)], "0", {"main": (0, 0), "a": (100, 100), "b": (-100, -100)}),
    ([("main;a;b", 100), ("main;a;c", -100), ("main;d", 7)], "7 ns", {"main": (0, 7), "a": (0, 0), "b": (100, 100), "c": (-100, -100), "d": (7, 7)}),
]


@pytest.mark.skipif(not CHROMIUM, reason="no Chromium")
def test_the_table_has_the_values_below_zero_that_were_pushed(tmp_path):
    with Flametree() as f:
        s = f.server()
        for number, (stacks, total, functions) in enumerate(BELOW):
            service = unique()
            s.push({"__name__": "process_cpu", "service_name": service}, Pprof(*stacks)).expect(200)
            page = seen(f, service, tmp_path / str(number))
            assert re.search(r'<span class="total num"><b>([^<]*)</b>', page)[1] == total
            rows = {}
            for row in re.findall(r'<div class="trow.*?</button>.*?(?=<div class="trow|$)', page, re.S):
                name = re.search(r'title="([^"]*)"', row)[1]
                rows[name] = tuple(0 if text == "0" else int(text.removesuffix(" ns")) for text in re.findall(r"<span>(-?\d+(?: ns)?)</span>", row)[:2])
            assert rows == functions
