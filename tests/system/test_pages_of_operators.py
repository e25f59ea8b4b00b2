"""What operators look at: the pages in both colour schemes, and `flametree manifest show`."""
import os
import re
import subprocess
import time

import pytest
from client import Pprof, unique
from flametree import AT_ONCE, BIN, Flametree, compact, flush

AA = 4.5  # WCAG 2, contrast of text


@pytest.fixture(scope="module")
def f():
    with Flametree("--limits.reject_older_than", "0s", *AT_ONCE) as f:
        yield f


def push(f, days_ago=0):
    f.server().push({"__name__": "process_cpu", "service_name": unique()}, Pprof(("a;b", 5), time_ns=time.time_ns() - days_ago * 86_400 * 10**9)).expect(200)


def page(f):
    return f.server().call("GET", "/compactor").expect(200).text


def luminance(color):
    digits = color[1:] if len(color) == 7 else "".join(2 * c for c in color[1:])
    parts = [int(digits[i:i + 2], 16) / 255 for i in (0, 2, 4)]
    return sum(w * (c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055)**2.4) for w, c in zip((0.2126, 0.7152, 0.0722), parts))


def contrast(a, b):
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("path", ["/compactor", "/cluster"])
def test_pages_are_readable_in_both_schemes(f, path):
    text = f.server().call("GET", path, headers={"Accept": "text/html"}).expect(200).text
    style = re.search(r"<style>(.*?)</style>", text, re.S).group(1)
    roots = [dict(re.findall(r"--(\w+):(#[0-9a-f]{3,6})", block)) for block in re.findall(r":root\{(.*?)\}", style)]
    light, dark = roots[0], {**roots[0], **roots[1]}
    assert "color-scheme:light dark" in style and "@media (prefers-color-scheme:dark)" in style and luminance(light["back"]) > 0.8 > 0.2 > luminance(dark["back"])
    for scheme in (light, dark):
        for ink in ("text", "dim", "link", "ill", "well"):
            for back in ("back", "head"):
                assert contrast(scheme[ink], scheme[back]) >= AA, (ink, back, scheme)
    used = set(re.findall(r"var\(--(\w+)\)", style))
    assert used == set(light) and not re.findall(r"#[0-9a-f]{3,6}", re.sub(r"--\w+:#[0-9a-f]{3,6}", "", style)), "a colour that the schemes do not know"


def test_page_of_the_compactor_says_how_it_is(f):
    push(f)
    flush(f)
    compact(f)
    assert re.search(r"<p>1 tenant, healthy, no pending jobs\n", page(f)), page(f)


def columns(line):
    """Where the words of a line begin and end; a blank alone parts no words of one column."""
    return [(m.start(), m.end()) for m in re.finditer(r"\S+(?: \S+)*", line)]


def test_columns_of_manifest_show_are_aligned(f):
    for days in (0, 1, 1, 2):
        push(f, days)
    flush(f)
    compact(f)
    for days in (0, 1):
        push(f, days)
    flush(f)
    done = subprocess.run([os.path.join(BIN, "flametree"), "manifest", "show", "--versions", f.data], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.split("\n")
    blocks, versions = lines.index(next(x for x in lines if x.startswith("kind "))), lines.index(next(x for x in lines if x.startswith("   version ")))
    rows = [x for x in lines[blocks + 1:lines.index("", blocks)]]
    assert len(rows) > 4
    for title, rows in ((lines[blocks], rows), (lines[versions], [x for x in lines[versions + 1:] if x])):
        for row in rows:
            spans = columns(row.replace(" segments", "_segments"))
            for begin, end in columns(title)[1:] if title.startswith("kind") else columns(title):
                word = [(b, e) for b, e in spans if b < end and e > begin]
                assert len(word) == 1 and (word[0][0] == begin or word[0][1] == end), "%s\n%s\n%r" % (title, row, title[begin:end])
    assert re.search(r"^raw +\d+ blocks? +[\d.]+ (B|KiB)$", done.stdout, re.M) and re.search(r"; \d+ blocks, 0 expired leaves, \d+ pages?, \d+ garbage objects?\n", done.stdout)
    assert re.search(r"^[2-9] segments wait for compaction, [\d.]+ (B|KiB)$", done.stdout, re.M), done.stdout


@pytest.mark.parametrize("path", ["/labels", "/explore"])
def test_the_page_has_its_addresses(f, path):
    reply = f.server().call("GET", path, headers={"Accept": "text/html,*/*;q=0.8"}).expect(200)
    assert reply.body == f.server().call("GET", "/").expect(200).body


def test_labels_is_a_page_for_browsers_alone(f):
    """Pyroscope answers with 404 there, and its clients may look for that."""
    for headers in ({}, {"Accept": "*/*"}, {"Accept": "application/json"}, {"Accept": "text/html;q=0"}):
        f.server().call("GET", "/labels", headers=headers).expect(404, "404 page not found")
