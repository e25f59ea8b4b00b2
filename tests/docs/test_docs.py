"""Generated pages equal what the program prints; what it exports is what Prometheus' own checker accepts."""
import glob
import os
import re
import shutil
import subprocess
import urllib.request

import dashboards
import helm
import pytest
import wrap
from flametree import BIN, Flametree

TOP = os.path.join(os.path.dirname(__file__), "../..")
PROGRAM = os.path.join(BIN, "flametree")


def printed(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, check=True).stdout


def page(name):
    with open(os.path.join(TOP, "docs", name), encoding="utf-8") as f:
        return f.read()


def test_config_page_is_what_the_program_prints():
    assert page("config.md") == printed("--print-config-docs"), "docs/config.md is out of date: flametree --print-config-docs >docs/config.md"


def test_metrics_page_is_what_the_program_prints():
    assert page("metrics.md") == printed("--print-metrics-docs"), "docs/metrics.md is out of date: flametree --print-metrics-docs >docs/metrics.md"


def test_page_of_the_command_line_is_what_the_program_prints():
    assert page("cli.md") == printed("help", "--markdown"), "docs/cli.md is out of date: flametree help --markdown >docs/cli.md"


def made(*args):
    return subprocess.run(["/usr/bin/python3", *args], cwd=TOP, capture_output=True, text=True, check=True).stdout


def test_schema_and_page_of_the_chart_are_made_of_its_values():
    with open(os.path.join(TOP, "deploy/helm/flametree/values.schema.json"), encoding="utf-8") as f:
        assert f.read() == made("tests/docs/helm.py", "--schema"), "out of date: tests/docs/helm.py --schema >deploy/helm/flametree/values.schema.json"
    assert page("helm-values.md") == made("tests/docs/helm.py", "--markdown"), "out of date: tests/docs/helm.py --markdown >docs/helm-values.md"


def test_dashboards_of_the_chart_are_what_is_printed():
    folder = os.path.join(TOP, "deploy/helm/flametree/files/dashboards")
    files = sorted(os.listdir(folder))
    assert [f[:-5] for f in files] == sorted(dashboards.DASHBOARDS)
    for name in files:
        with open(os.path.join(folder, name), encoding="utf-8") as f:
            assert f.read() == dashboards.printed(name[:-5]), "out of date: tests/docs/dashboards.py --write"


def test_formats_of_the_page_are_what_the_program_prints():
    assert page("../querier/ui/src/formats.json") == printed("formats", "--format", "json"), \
        "out of date: flametree formats --format json >querier/ui/src/formats.json"


def test_formats_of_the_readme_are_what_the_program_prints():
    shown = re.search(r"<!-- printed by: flametree (.*?) -->\n(.*?)<!-- end -->\n", page("../README.md"), re.S)
    assert shown and shown[2] == printed(*shown[1].split()), "README.md is out of date: flametree " + shown[1]


def test_man_page_is_what_the_program_prints():
    assert page("../deploy/cli/flametree.1") == printed("help", "--man"), "flametree.1 is out of date: flametree help --man >deploy/cli/flametree.1"


def test_man_page_is_read_without_complaints():
    if not shutil.which("man"):
        pytest.skip("no man here")
    env = {**os.environ, "MANWIDTH": "100", "LC_ALL": "C.UTF-8", "MANROFFOPT": ""}
    shown = subprocess.run(["man", "--warnings", "-l", os.path.join(TOP, "deploy/cli/flametree.1")], capture_output=True, text=True, env=env)
    assert shown.returncode == 0 and not shown.stderr.strip(), shown.stderr
    text = re.sub(".\b", "", shown.stdout)
    assert "flametree push FILE" in text and "EXIT STATUS" in text, text[:2000]


def test_metrics_pass_promtool():
    with Flametree() as f:
        with urllib.request.urlopen(f.url + "/metrics") as answer:
            text = answer.read()
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True)
    assert checked.returncode == 0, checked.stdout + checked.stderr
    names = set(re.findall(rb"^# TYPE (\S+)", text, re.M))
    assert names and all(n.startswith((b"flametree_", b"process_")) for n in names), names


def pages():
    """Path below the top and text of every page of the repository."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=TOP, capture_output=True, text=True, check=True).stdout.split()
    found = {}
    for path in listed:
        if os.path.exists(os.path.join(TOP, path)):
            with open(os.path.join(TOP, path), encoding="utf-8") as f:
                found[path] = f.read()
    assert len(found) > 10, found.keys()
    return found


def test_links_in_pages_lead_somewhere():
    missing = []
    for path, text in pages().items():
        for target in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
            if not re.match(r"[a-z]+:", target) and not os.path.exists(os.path.join(TOP, os.path.dirname(path), target)):
                missing.append((path, target))
    assert not missing, missing


def events():
    """What the programs log: log_warn(log, "EVENT", …)."""
    found = subprocess.run(["git", "grep", "-hoE", r'"[a-z_]+\.[a-z_]+"', "--", "*.c"], cwd=TOP, capture_output=True, text=True, check=True)
    return {line.strip('"') for line in found.stdout.splitlines()}


# What a reader puts a name of his own for, and what only a build makes.
PLACEHOLDER = r"\b(ROOM|NAME|FILE|PRESET)(?![a-z])|^build/"


OF_CHART = ("docs/install/", "docs/helm-values.md", "docs/sizing.md")  # pages that name values of the chart


def test_files_tests_settings_metrics_and_events_that_pages_name_exist():
    """A file by its path from the top, from the page or from common/, or by its name alone."""
    logged, of_chart = events(), helm.names()
    config, metrics = page("config.md"), page("metrics.md")
    sections = re.findall(r"^## (\w+)$", config, re.M)
    files = subprocess.run(["git", "ls-files"], cwd=TOP, capture_output=True, text=True, check=True).stdout.split()
    missing = []
    for path, text in pages().items():
        if path.startswith("tests/conformance/"):
            continue  # names files of its own world
        for token in re.findall(r"`([^`\n]+)`", text):
            if re.search(PLACEHOLDER, token) or token.startswith("/"):  # on the machine of whoever installs it: tests/install
                continue
            if re.fullmatch(r"[\w./-]+\.(c|h|def|md|py|tsx?|mjs|yaml|cmake|sh|proto)", token):
                near = (os.path.join(TOP, d, token) for d in ("", os.path.dirname(path), "common"))
                ok = any(map(os.path.exists, near)) or any(("/" + f).endswith("/" + token) for f in files)
            elif test := re.fullmatch(r"(unit|fuzz|bench)\.(?:(\w+)\.)?(\w+)", token):  # a program that CMake makes of tests/
                source = {"unit": "unit/%s/%s_test.c", "fuzz": "fuzz/%s%s_fuzz.c", "bench": "bench/%s%s.c"}[test[1]]
                ok = os.path.exists(os.path.join(TOP, "tests", source % (test[2] or "", test[3])))
            elif (dotted := re.fullmatch(r"(\w+)\.(\w+)", token)) and dotted[1] in sections:
                ok = re.search(r"^\| `%s` " % dotted[2], config, re.M) or token in logged or token in of_chart
            elif path.startswith(OF_CHART) and re.fullmatch(r"\w+(\.\w+)+", token) and token.split(".")[0] in of_chart:
                ok = token in of_chart or token in ("tls.crt", "tls.key")  # files of Secrets
            elif metric := re.match(r"flametree_\w+", token):
                ok = metric[0] in metrics
            else:
                continue
            if not ok:
                missing.append((path, token))
    assert not missing, missing


def test_every_room_and_folder_of_tests_has_its_row():
    with open(os.path.join(TOP, "common/LAYERS"), encoding="utf-8") as f:
        rooms = re.findall(r"^(\w+):", f.read(), re.M)
    folders = {f.split("/")[1] for f in subprocess.run(["git", "ls-files", "tests/*/*"], cwd=TOP, capture_output=True, text=True, check=True).stdout.split()}
    rows = lambda path: re.findall(r"^\| `(\w+)` \|", pages()[path], re.M)
    assert rows("common/README.md") == rooms
    assert set(rows("tests/README.md")) == folders


# Pages that name functions, and how many at least, so that the test cannot lose them.
NAMING = {"docs/how-a-profile-travels.md": 50, "CONTRIBUTING.md": 5, "docs/decisions/*.md": 5}


@pytest.mark.parametrize("which", NAMING)
def test_files_and_functions_that_pages_name_are_there(which):
    """Each `path` exists, and each `function()` is defined in the file that was named last before it, or next after "in"."""
    found = sorted(glob.glob(os.path.join(TOP, which)))
    assert found
    wrong, count = [], 0
    for path in found:
        more, functions = names_of(path)
        wrong += [os.path.basename(path) + ": " + one for one in more]
        count += functions
    assert not wrong, wrong
    assert count >= NAMING[which]


def names_of(path):
    with open(path, encoding="utf-8") as f:
        text = f.read()
    wrong, file, count = [], None, 0
    text = re.sub(r"```.*?```|^    [^\n]*$", "", text, flags=re.S | re.M)
    tokens = list(re.finditer(r"`([^`\n]+)`", text))
    is_path = lambda t: re.fullmatch(r"[\w./-]+/[\w.-]+\.\w+", t) and not t.startswith("/") and not re.search(PLACEHOLDER, t)
    for i, token in enumerate(tokens):
        name = token.group(1)
        if is_path(name):
            file = os.path.join(TOP, name)
            if not os.path.isfile(file):
                wrong.append("no file " + name)
        elif re.fullmatch(r"\w+\(\)", name):
            between = tokens[i + 1].start() - token.end() if i + 1 < len(tokens) else 0
            after = token.string[token.end():token.end() + between].strip() == "in"
            where = os.path.join(TOP, tokens[i + 1].group(1)) if after else file
            with open(where, encoding="utf-8") as f:
                source = f.read()
            name = name[:-2]
            c = r"^[a-z][\w *]*[ *]%s\((?![^;{]*;)" % name  # a definition: no ; before its {
            ts = r"^ *(export )?(async )?function %s\b|^ *(private )?%s\(.*\{$|^ *(export )?const %s = \(" % (name, name, name)
            if not re.search(c if where.endswith((".c", ".h")) else ts, source, re.M):
                wrong.append("no %s() in %s" % (name, os.path.relpath(where, TOP)))
            count += 1
    return wrong, count


def test_example_of_a_block_has_the_bytes_that_its_test_has():
    """The page breaks the bytes into numbers and explains each; tests/unit/block/bytes_test.c has them by section."""
    example = page("formats/block.md").split("## Example", 1)[1].split("```")[1]
    explained = {}
    for line in example.strip().split("\n"):
        if line.startswith("  "):
            explained[name] += re.split("  +", line.strip())[0].replace(" ", "")
        else:
            name = line.split(",")[0]
            explained[name] = ""
    with open(os.path.join(TOP, "tests/unit/block/bytes_test.c"), encoding="utf-8") as f:
        rows = re.findall(r'\{"([\w ]+)", ((?:"[0-9a-f]+"\s*)+)\}', f.read())
    assert len(rows) == 8 and explained == {name: re.sub(r'["\s]', "", text) for name, text in rows}


def test_constants_that_contributors_are_told_of_exist():
    text = pages()["CONTRIBUTING.md"] + "".join(t for path, t in pages().items() if path.startswith("docs/decisions/"))
    names = set(re.findall(r"`([A-Z][A-Z0-9]*_[A-Z0-9_]+)`", text))
    assert len(names) >= 5
    known = subprocess.run(["git", "grep", "-howE", "|".join(sorted(names)), "--", "*.[ch]", "*.py", "querier/ui/check"], cwd=TOP, capture_output=True, text=True, check=True).stdout.split()
    assert names <= set(known), names - set(known)


def test_decisions_are_numbered_listed_and_of_one_form():
    paths = sorted(p for p in pages() if re.match(r"docs/decisions/\d", p))
    listed = re.findall(r"^\| \[(\d{4})\]\((\S+)\) \| .+\? \|$", pages()["docs/decisions/README.md"], re.M)
    assert [os.path.basename(p) for p in paths] == [name for _, name in listed] and len(paths) >= 16
    for number, (path, (shown, _)) in enumerate(zip(paths, listed), 1):
        text = pages()[path]
        assert shown == "%04d" % number and text.startswith("# %s: " % shown), path
        assert re.findall(r"^\*\*(\w+)\.\*\*", text, re.M) == ["Context", "Decision", "Consequences"], path


def test_lines_of_pages_end_at_100_columns():
    """The conformance suite is a copy, and its page is left as it is."""
    long = [p for p, text in pages().items() if not p.startswith("tests/conformance/") and wrap.wrapped(text) != text]
    assert not long, "tests/docs/wrap.py " + " ".join(long)


def test_only_what_must_not_be_broken_is_left_whole():
    text = "- one `a b` %s\n\n      %s\n\n| %s |\n\n    %s\n" % ("word " * 40, "code " * 40, "cell " * 40, "code " * 40)
    lines = wrap.wrapped(text).split("\n")
    assert [len(line) > 100 for line in lines if line.strip()] == [False, False, False, True, True, True]
    assert all(line.startswith("  ") for line in lines[1:3]) and wrap.wrapped("\n".join(lines)) == "\n".join(lines)
    assert "`%s`" % ("x " * 60) in wrap.wrapped("a " * 30 + "`%s`" % ("x " * 60))
