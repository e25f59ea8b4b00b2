"""deploy/release: what a release has, that it is the same whoever packs it, and what it refuses."""
import hashlib
import os
import subprocess
import tarfile

import pytest
import release
from client import table
from flametree import TOP


def sums(folder):
    with open(folder / "SHA256SUMS") as f:
        return {name: digest for digest, name in (line.split() for line in f)}


def test_checksums_are_of_all_files(released):
    found = sums(released)
    assert set(found) == set(os.listdir(released)) - {"SHA256SUMS"}
    for name, digest in found.items():
        assert hashlib.sha256((released / name).read_bytes()).hexdigest() == digest, name


def test_the_same_build_makes_the_same_release_for_everybody(released, released_again):
    assert sums(released) == sums(released_again)


def test_it_has_source_chart_image_packages_and_notes(released):
    source, = [path for path in released.glob("flametree-*.tar.gz") if "-image-" not in path.name]
    top = source.name.removesuffix(".tar.gz")
    version = top.removeprefix("flametree-")
    with tarfile.open(source) as t:
        names = {m.name.removeprefix(top + "/") for m in t if m.isfile()}
    assert names == set(subprocess.run(["git", "ls-tree", "-r", "--name-only", "HEAD"], cwd=TOP, capture_output=True, text=True, check=True).stdout.split("\n")) - {""}
    with tarfile.open(released / ("flametree-chart-%s.tgz" % version)) as t:
        assert b"version: " + version.encode() in t.extractfile("flametree/Chart.yaml").read()
    assert set(release.debs(released)) == set(release.PACKAGES) and len(list(released.glob("*-image-*.tar.gz"))) == len(list(released.glob("*.cdx.json"))) == 1
    notes = (released / "NOTES.md").read_text()
    with open(os.path.join(TOP, "CHANGELOG.md")) as f:
        news = f.read().split("\n## [")[1].partition("\n")[2].strip()
    assert notes.startswith("# Flametree %s\n" % version) and news in notes


@table("edit, said", [
    ("another version in the chart", "sed -i 's/^appVersion:.*/appVersion: 99/' deploy/helm/flametree/Chart.yaml", "Chart.yaml does not say version"),
    ("no word about the version", "sed -i 's/^## .*/## [99.0.0] - 2020-01-01/' CHANGELOG.md", "CHANGELOG.md begins with"),
    ("an output that is there", "mkdir out && touch out/file", "is not empty"),
])
def test_what_it_refuses(tmp_path, edit, said):
    subprocess.run(["git", "clone", "-q", "--shared", TOP, str(tmp_path / "tree")], check=True)
    done = subprocess.run("%s && deploy/release --snapshot --out out --build %s" % (edit, release.RELEASE), shell=True, cwd=tmp_path / "tree", capture_output=True, text=True)
    assert done.returncode == 1 and said in done.stderr and len(done.stderr.splitlines()) == 1, done.stderr


def test_a_version_without_a_date_is_no_release(tmp_path):
    subprocess.run(["git", "clone", "-q", "--shared", TOP, str(tmp_path / "tree")], check=True)
    done = subprocess.run("sed -i '0,/^## \\[\\(.*\\)\\] - .*/s//## [\\1] - unreleased/' CHANGELOG.md && deploy/release --out out", shell=True, cwd=tmp_path / "tree", capture_output=True, text=True)
    assert done.returncode == 1 and "no date for version" in done.stderr, done.stderr


@pytest.mark.skipif(os.environ.get("FLAMETREE_NIGHTLY") != "1", reason="it compiles everything twice; nightly does it")
def test_the_same_commit_makes_the_same_release_in_another_folder(tmp_path):
    for n in ("one", "another/of/a/longer/name"):
        (tmp_path / n).mkdir(parents=True)
        release.make(tmp_path / n / "out", "--work", str(tmp_path / n / "work"))
    assert sums(tmp_path / "one/out") == sums(tmp_path / "another/of/a/longer/name/out")
