"""Facts of every file of the corpus, of what the command line makes of it: `convert` to pprof, to a flame graph and to collapsed stacks, `top` and `flame`.

What `convert` writes is read back by reader.py. Where there is no corpus, the tests are skipped."""
import json
import os
import re

import pytest
from cli import run

import check
import reader

FILES = {name: (form, facts) for name, form, facts in check.inputs()}
needs_corpus = pytest.mark.skipif(not FILES, reason="no corpus at %s" % check.CORPUS)


# What the command line does otherwise than a decoder that is called by the name of its format, and why.
NAMED = {"derived/pprof-unknown-fields.pb": "fields that no profile has tell against pprof where the content is asked, so --format must tell"}
OTHER_FACTS = {"pprof/dotnet-73-function-ids-0.pb": "names that an agent of .NET lost are repaired, since nobody sends a file again: only sums are those of the facts"}
WITHOUT_STACK = {"pprof/php-wordpress.pb", "pprof/python-austin.pb"}  # some samples have none, which are a node of flame graphs and of no facts
# What the facts leave out: samples without a stack, and sleeping ones.
JFR_MORE = {"jfr/async-profiler.jfr.gz": {"wall wall/nanoseconds"},
            "jfr/jmc-flush-incremental-metadata.jfr": {"process_cpu cpu/nanoseconds", "mutex contentions/count", "mutex delay/nanoseconds"}}
LARGE = {"tree/diff-left.tree.bin"}  # 161,861 stacks, which one test counts and not all
REFUSED = {**{name: text for name, (_, text) in check.REFUSED.items() if name not in OTHER_FACTS},
           # A file may have 2 GB, so it is not refused for its size; but a profile without samples is none.
           "derived/pprof-gzip-bomb.pb.gz": "it is neither pprof nor", "derived/pprof-group-wiretype.pb": "it is neither pprof nor",
           "jfr/jmc-pid1.jfr": "it has no profile with a sample type"}  # a valid recording without events of a profiler
NEGATIVE = {"pprof/go-alloc-space-delta-negative.pb.gz"}  # not all nodes have bars of their own
NO_GRAPH = {"derived/pprof-min-int64.pb": "does not fit 64 bits"}
UNITS = {"ns": 1, "µs": 10**3, "ms": 10**6, "s": 10**9, "min": 60 * 10**9, "h": 3600 * 10**9, "d": 86400 * 10**9, "B": 1, "KiB": 2**10, "MiB": 2**20, "GiB": 2**30,
         "TiB": 2**40, "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
OF_UNIT = {"μs": 1000, "microseconds": 1000}


def options(name, form):
    if form == "jfr":
        return ["--sample-rate", "100"]  # that of the facts
    return ["--format", form] if form in ("trie", "tree") or name in NAMED else []


def of(name, command, *args, **kw):
    path = os.path.join(check.CORPUS, name)
    return run(command, path, *(["-"] if command == "convert" else []), *args, *options(name, FILES[name][0]), **kw)


def types_of(said):
    """As messages name them, the one first that is taken if nobody chooses; [""]: there is one, of which nothing is said."""
    found = re.search(r": ([^:\n]*); --type chooses another: (.*)", said)
    return [found[1], *found[2].split(", ")] if found else [""]


def choice(type):
    return ["--type", type] if type else []


def as_pprof(name):
    """dump() of check.py by way of `convert`: each profile of the file once, though it may have several types."""
    def dump(form, path):
        assert path == os.path.join(check.CORPUS, name)
        lines, types, seen = [], [""], set()
        while types:
            done = of(name, "convert", "--to", "pprof", *choice(types.pop(0)), text=False)
            assert done.returncode == 0, done.stderr
            if not lines:
                types = types_of(done.stderr.decode())[1:]
            head, samples = reader.pprof(done.stdout)
            # Profiles of a speedscope file have one type, so what tells them apart are their stacks.
            key = json.dumps([head["types"], samples] if form == "speedscope" else head["types"])
            if key not in seen:
                seen.add(key)
                lines += [head, *samples]
        return lines
    return dump


def graph(name, type):
    """What check.measures() says of the flame graph of a type."""
    done = of(name, "convert", "--to", "flamebearer", *choice(type))
    assert done.returncode == 0, done.stderr
    file = json.loads(done.stdout)
    samples, nodes = reader.bars(file["flamebearer"]["names"], file["flamebearer"]["levels"])
    got = check.measures(samples, 0)
    assert got["sum"] == file["flamebearer"]["numTicks"] and got["tree_nodes"] == nodes
    return got, samples


def wanted_graphs(name, form, facts, samples):
    """{type as it is chosen: facts} of the flame graphs of a file, if its facts tell about them."""
    if form == "pprof":
        rows = {"%s/%s" % (t["type"], t["unit"]): dict(t) for t in facts["by_type"]}
        for column, t in enumerate(rows.values()):
            if name in WITHOUT_STACK or name in check.DANGLING:
                t.update(check.measures([{**s, "stack": s["stack"] or ["[unknown]"]} for s in samples], column))
        return rows if len(rows) > 1 else {"": next(iter(rows.values()))}
    if form == "jfr":
        rows = [("%s %s/%s" % (p["__name__"], t["type"], t["unit"]), dict(t)) for p in facts["profiles"].values() for t in p["by_type"]]
        return dict(rows) if len(rows) > 1 or name in JFR_MORE else {"": rows[0][1]}
    if form == "speedscope":
        profiles = facts["profiles"]
        rows = {}
        for p in profiles:
            scale = check.SCALES.get(p["unit"], 1)
            scaled = {k: [[f, v * scale] for f, v in p[k]] for k in ("top_self", "top_total")}
            unit = "nanoseconds" if p["unit"] in check.SCALES else p["unit"]
            rows["%s samples/%s" % (p["name"], unit) if len(profiles) > 1 else ""] = {**p, **scaled, "sum": p["sum"] * scale}
        return rows
    if form == "cpuprofile":
        return {"samples/count": facts}
    if form in ("collapsed", "trie", "tree", "heapprofile", "flamebearer"):
        return {"": facts}
    return {}


FACTS_OF_GRAPH = ("sum", "tree_nodes", "top_self", "top_total")


@needs_corpus
@pytest.mark.parametrize("name", [n for n in FILES if n not in REFUSED])
def test_pprof_that_is_made_of_a_file_has_its_facts(name):
    form, facts = FILES[name]
    if name in LARGE:
        done = of(name, "convert", "--to", "pprof", text=False)
        assert done.returncode == 0 and sum(s["values"][0] for s in reader.pprof(done.stdout)[1]) == facts["sum"]
        return None
    if form == "otlp":
        return check_otlp(name, facts)
    if name in NAMED:
        path = os.path.join(check.CORPUS, name)
        assert "it is neither pprof nor" in run("convert", path, "-", "--to", "pprof").stderr
    if name in OTHER_FACTS:
        _, *samples = as_pprof(name)(form, os.path.join(check.CORPUS, name))
        assert [sum(s["values"][i] for s in samples) for i in range(len(facts["by_type"]))] == [t["sum"] for t in facts["by_type"]]
        wrong = check.check_repair(lambda _, path: as_pprof(name)("pprof", path))
    elif form == "jfr":
        wrong = check.check_jfr(as_pprof(name), name, facts)
    else:
        # Strings that nothing names are not written.
        wrong = check.check(as_pprof(name), name, form, {k: v for k, v in facts.items() if k != "strings"})
    assert not wrong, "\n".join(wrong)
    return None


def check_otlp(name, facts):
    """Profiles of all services of a request, added up by their types."""
    want = {}
    for t in facts["by_type"]:
        sent, period = t["type"].rsplit(":", 1)
        cpu = sent == "samples/count per cpu/nanoseconds"
        want["cpu/nanoseconds" if cpu else sent.split(" per ")[0]] = (t, int(period) if cpu else 1)
    got = {}
    for type in types_of(of(name, "convert", "--to", "folded").stderr):
        measures, samples = graph(name, type)
        got.setdefault(type.split(" ")[-1] or "/".join(want), []).extend(samples)
    assert set(got) == set(want)
    for key, (t, scale) in want.items():
        unknown = [[*check.UNKNOWN, t["sum"]]] if "problems" in facts else []  # of stacks that are not in the file
        scaled = {k: [[f, v * scale] for f, v in t[k] + unknown] for k in ("top_self", "top_total")}
        wrong = check.compare(name, check.measures(got[key], 0), {"sum": t["sum"] * scale, "tree_nodes": t["tree_nodes"] + len(unknown), **scaled})
        assert not wrong, (key, wrong)


@needs_corpus
@pytest.mark.parametrize("name", [n for n, (form, _) in FILES.items() if n not in (*REFUSED, *OTHER_FACTS, *check.MENDED) and form not in ("perf", "legacy", "otlp")])
def test_flame_graphs_and_tables_of_a_file_have_its_facts(name):
    form, facts = FILES[name]
    samples = reader.pprof(open(os.path.join(check.CORPUS, name), "rb").read())[1] if form == "pprof" else []
    if name in NO_GRAPH:
        assert NO_GRAPH[name] in of(name, "flame").stderr
        return
    if name in NEGATIVE:
        lines = of(name, "convert", "--to", "folded", "--type", "alloc_space").stdout.splitlines()
        assert sum(int(line.rpartition(" ")[2]) for line in lines) == sum(s["values"][1] for s in samples)
        return
    wanted = wanted_graphs(name, form, facts, samples)
    said = of(name, "flame", "--width", "60")
    assert said.returncode == (0 if any(t["sum"] for t in wanted.values()) else 3), said
    if form != "cpuprofile":
        assert set(types_of(said.stderr)) == set(wanted) | JFR_MORE.get(name, set())
    for type, t in wanted.items():
        got, bars = graph(name, type)
        if form == "jfr":
            t["sum"], whole = got["sum"], t["sum"]
            got = check.measures([x for x in bars if x["stack"] != check.UNKNOWN], 0)
            assert got["sum"] == whole
            got["sum"] = t["sum"]
        wrong = check.compare(name, got, {k: t[k] for k in FACTS_OF_GRAPH})
        assert not wrong, (type, wrong)
    type, t = next((k, t) for k, t in wanted.items() if t["sum"] > 0)
    check_folded(name, type, t)
    check_top(name, type, t)


def check_folded(name, type, t):
    """One line a stack; names that have ';' or end lines are changed on the way and looked at by nobody here."""
    done = of(name, "convert", "--to", "folded", *choice(type))
    assert done.returncode == 0, done.stderr
    lines = [line.rpartition(" ") for line in done.stdout.splitlines()]
    assert sum(int(n) for _, _, n in lines) == t["sum"]
    assert len({stack for stack, _, _ in lines}) == len(lines)
    own = {}
    for stack, _, n in lines:
        leaf = reader.bare(stack.split(";")[-1])
        own[leaf] = own.get(leaf, 0) + int(n)
    plain = [[f, v] for f, v in t["top_self"] if ";" not in f and "\\" not in f]
    assert [[f, own.get(f)] for f, _ in plain] == plain


def shown(number, unit, of_unit):
    return float(number) * UNITS[unit] / OF_UNIT.get(of_unit, 1)


def check_top(name, type, t):
    """What is shown for people has three digits. Functions of equal weight may be in another order."""
    done = of(name, "top", "--rows", "5", *choice(type), "--width", "400")
    assert done.returncode == 0, done.stderr
    title, total, head, *rows = done.stdout.splitlines()
    assert head.split() == ["self", "total", "function"]
    # A number, its unit, its share and perhaps a bar; twice.
    number = r" *([\d.]+) ?([a-zA-Zµ]*) +<?[\d.]+ % *[█▉▊▋▌▍▎▏]* *"
    found = [re.match(number + number + "(.*)", row) for row in rows]
    assert all(found), rows
    unit = title.rpartition("/")[2]
    whole = re.match(r"([\d.]+) ?([a-zA-Zµ]*) total, ", total)
    near = lambda got, want: abs(got - want) <= 0.0051 * want
    assert near(shown(whole[1], whole[2], unit), t["sum"]), (total, t["sum"])
    weights = [v for _, v in t["top_self"]]
    got = [shown(m[1], m[2], unit) for m in found][:len(weights)]
    assert all(near(a, b) for a, b in zip(got, weights)) and len(got) == len(weights), (rows, t["top_self"])
    totals, own = dict(t["top_total"]), dict(t["top_self"])
    for m in found:
        for known, k in ((own, 1), (totals, 3)):
            assert m[5] not in known or near(shown(m[k], m[k + 1], unit), known[m[5]]), (m[0], known)


@needs_corpus
@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_profile_is_refused_by_all_commands(name):
    for command in (["convert", "--to", "pprof"], ["top"]):
        done = of(name, *command)
        assert done.returncode == 1 and REFUSED[name] in done.stderr and name in done.stderr and done.stdout == "", (command, done)
