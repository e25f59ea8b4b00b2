# SPDX-License-Identifier: Apache-2.0
"""What tests/run says of itself: its parts, the table that --changed reads, the stories of the quick part, and answers to mistyped words."""
import os
import re
import subprocess
import sys

import pytest

TOP = os.path.join(os.path.dirname(__file__), "..", "..")
sys.path.insert(0, os.path.join(TOP, "tests", "lib"))
import changed

RUN = open(os.path.join(TOP, "tests", "run"), encoding="utf-8").read()
PARTS = open(os.path.join(TOP, "tests", "lib", "parts.sh"), encoding="utf-8").read()
FILES = subprocess.run(["git", "-C", TOP, "ls-files", "--cached", "--others", "--exclude-standard"], check=True, capture_output=True, text=True).stdout.split("\n")[:-1]


def run(*args):
    return subprocess.run([os.path.join(TOP, "tests", "run"), *args], capture_output=True, text=True, timeout=60)


def test_every_file_has_its_parts_and_every_part_its_files():
    rows = changed.table()
    rooms = {path: changed.row_of(path, rows) for path in FILES}
    assert [path for path, row in rooms.items() if row is None] == []
    assert set(rows) - set(rooms.values()) == set(), "rows that no file meets"
    assert {part for parts in rows.values() for part in parts} - {"all"} == set(changed.all_parts())


@pytest.mark.parametrize("path, some, others", [
    ("docs/design.md", {"docs"}, {"unit", "system"}),
    ("common/decode/jfr.c", {"unit", "corpus", "conservation"}, {"kube", "helm"}),
    ("deploy/helm/flametree/values.yaml", {"helm", "kube"}, {"unit"}),
    ("querier/ui/src/main.ts", {"ui"}, {"threads"}),
    ("a/room/to/come.c", {"unit", "kube"}, set()),
])
def test_parts_of_a_changed_file(path, some, others):
    parts = changed.parts_of([path])
    assert some <= set(parts) and not others & set(parts)
    assert parts == [part for part in changed.all_parts() if part in parts]


def test_every_part_is_a_function_and_in_the_help_and_has_its_seconds():
    quick, nightly = (re.search(r"^%s=\((.*)\)$" % name, RUN, re.M)[1].split() for name in ("quick", "nightly"))
    usage = run("--help").stdout
    with open(os.path.join(TOP, "tests", "lib", "seconds"), encoding="utf-8") as f:
        seconds = {line.split()[0] for line in f if not line.startswith("#")}
    for part in [*changed.all_parts(), *quick, *nightly]:
        assert "part_%s()" % part in PARTS, part
    assert all(re.search("^  %s " % part, usage, re.M) for part in [*changed.all_parts(), "quick", "nightly"])
    assert {*changed.all_parts(), *quick} == seconds


@pytest.mark.skipif("FT_MISTAKE" in os.environ, reason="a mistake is made now")
def test_mistakes_can_be_made_and_their_table_is_new():
    done = subprocess.run([os.path.join(TOP, "tests/mistakes/run"), "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_stories_are_tests_that_exist():
    with open(os.path.join(TOP, "tests", "stories"), encoding="utf-8") as f:
        stories = [line.strip() for line in f if line.strip() and not line.startswith("#")]
    for story in stories:
        path, _, name = story.partition("::")
        assert os.path.exists(os.path.join(TOP, path)), story
        assert not name or "def %s(" % name.partition("[")[0] in open(os.path.join(TOP, path), encoding="utf-8").read(), story


@pytest.mark.parametrize("args, said", [
    (["untit"], "unknown part: untit; did you mean unit?"),
    (["unit", "systme"], "unknown part: systme; did you mean system?"),
    (["zzzzzzzz"], "unknown part: zzzzzzzz tests/run --help"),
    (["--repaet", "3"], "unknown option: --repaet; did you mean --repeat?"),
    (["--repeat", "0"], "--repeat takes a number of times from 1 to 9999, not '0'"),
    (["--repeat"], "--repeat takes a number of times from 1 to 9999, not ''"),
    (["--changed", "no-such-commit"], "no commit 'no-such-commit'"),
])
def test_mistyped_words_are_answered_with_the_nearest(args, said):
    done = run(*args)
    assert done.returncode != 0 and said in done.stderr and done.stdout == "", done
