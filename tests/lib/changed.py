#!/usr/bin/env python3
"""Prints the parts of tests/run that look at files which differ from a commit, by the table tests/parts, in the order of tests/run.
Files that git does not know yet count; those that it ignores do not."""
import os
import re
import subprocess
import sys

TOP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")


def all_parts():
    """The parts of a run without a name."""
    with open(os.path.join(TOP, "tests", "run"), encoding="utf-8") as f:
        return re.search(r"^all=\((.*)\)$", f.read(), re.M)[1].split()


def table():
    """{path or beginning of one: names of parts}"""
    with open(os.path.join(TOP, "tests", "parts"), encoding="utf-8") as f:
        rows = [line.split() for line in f if line.strip() and not line.startswith("#")]
    return {row[0]: row[1:] for row in rows}


def row_of(path, rows):
    """The longest row that fits, or None."""
    fits = [row for row in rows if path == row or (row.endswith("/") and path.startswith(row))]
    return max(fits, key=len, default=None)


def parts_of(paths):
    rows = table()
    found = set()
    for path in paths:
        row = row_of(path, rows)
        found.update(rows[row] if row else ["all"])
    return [part for part in all_parts() if part in found or "all" in found]


def changed(since):
    """Paths that differ from a commit, or that are new."""
    git = lambda *args: subprocess.run(["git", "-C", TOP, *args, "-z"], check=True, capture_output=True, text=True).stdout.split("\0")
    return {path for path in git("diff", "--name-only", since, "--") + git("ls-files", "--others", "--exclude-standard") if path}


if __name__ == "__main__":
    try:
        print(*parts_of(changed(sys.argv[1])))
    except subprocess.CalledProcessError as e:
        sys.exit("changed.py: git knows no commit %r: %s" % (sys.argv[1], e.stderr.strip().split("\n")[0]))
