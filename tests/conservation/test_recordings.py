"""Value is conserved for recordings of real agents: what the facts of each file say is the total by every way to ask, from memory and from the store.

Facts were computed by others (tests/corpus). Where a reader has to choose (how long a sample of `perf script` or of Java stands for), ways are compared with
each other only."""
import concurrent.futures
import os
import random
import sys

import pytest
from flametree import AT_ONCE, Flametree, compact, flush

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../corpus"))
import check as corpus_check  # noqa: E402
import reader  # noqa: E402
import sums  # noqa: E402
import test_server as corpus  # noqa: E402

from totals import CLIENT, NATIVE, Question, law, of_flame_graph, of_series, totals  # noqa: E402

SEED = int(os.environ.get("LAW_SEED", "0")) or random.SystemRandom().randrange(1, 10**9)
LONG = os.environ.get("FLAMETREE_NIGHTLY") == "1"
NAMES = sums.files()
needs_corpus = pytest.mark.skipif(not NAMES, reason="no corpus at %s" % corpus_check.CORPUS)
FIRST, LAST = 10**12, 2_500_000_000_000  # ms
SETTINGS = [*corpus.SETTINGS, "--compactor.interval=1h", *AT_ONCE, "--compactor.raw_retention=0"]
UNIT = {"none": ("nanoseconds", corpus.CPU_SAMPLE), "seconds": ("nanoseconds", 10**9), "bytes": ("bytes", 1)}
EXPORTS = {0: 7, 2: 429, 4: 511, 6: 467, 8: 395, 10: 467, 12: 557, 14: 519, 16: 526}  # samples of the eBPF profiler, as its README has them
EXPORT_NS = 20_408_163
REFUSED = {"derived/pprof-min-int64.pb"}  # with all its values its sum is no number of 64 bits


def of_facts(name):
    """With the rate that is sent with it (test_server.py), which makes time of samples. {(type, unit): sum} of a file; a sum of None may be any, and a type of None is the one that has the unit."""
    form, facts = corpus.FILES[name]
    if name in sums.MORE:
        return {("cpu", "nanoseconds"): EXPORTS[int(name.split("export-")[1][:2])] * EXPORT_NS}
    if form == "pprof":
        samples = reader.pprof(corpus.content(name))[1] if name in corpus.NEGATIVE else None
        return {(t["type"], t["unit"]): sum(s["values"][i] for s in samples) if samples else t["sum"] for i, t in enumerate(facts["by_type"])}
    if form == "otlp":
        return {("cpu", "nanoseconds"): t["sum"] * int(t["type"].rsplit(":", 1)[1]) for t in facts["by_type"] if t["type"].startswith("samples/count per cpu/nanoseconds:")}
    if form == "speedscope":
        out = {}
        for p in facts["profiles"]:
            unit, scale = UNIT[p["unit"]]
            out[None, unit] = out.get((None, unit), 0) + p["sum"] * scale
        return out
    if form == "jfr":
        return {(t["type"], t["unit"]): t["sum"] if t["unit"] == "bytes" and not facts.get("missing_stack") else None for p in facts["profiles"].values() for t in p["by_type"]}
    if form in ("collapsed", "trie", "tree"):
        _, type, scale = corpus.SUFFIX.get(name, ("", "process_cpu:cpu:nanoseconds:cpu:nanoseconds", corpus.CPU_SAMPLE))
        return {(None, type.split(":")[2]): facts["sum"] * scale}
    if form == "heapprofile":
        return {(None, "bytes"): facts["sum"]}
    if form == "legacy":
        return {tuple(type.split("/")): total for type, total in zip(facts["sample_types"], facts["sums"])}
    return {}


@pytest.fixture(scope="module")
def f():
    with Flametree(*SETTINGS) as f:
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            f.replies = dict(zip(NAMES, pool.map(lambda name: corpus.send(f, name), NAMES)))
        yield f


def of_file(f, name, ways):
    """What is wrong with the answers about a file, if something is."""
    s, of = f.server(), corpus.selector(name)
    if f.replies[name].status != 200:
        assert name in corpus.REFUSED or name in REFUSED, f.replies[name]
        return None
    want = of_facts(name) if name not in corpus.REFUSED else {}
    types = corpus.types(s, of)
    missing = [kind for kind, total in want.items() if total and not any(fits(id, kind) for id in types)]
    assert not missing, "%s has %s, and there are the types %s" % (name, missing, types)
    for id in sorted(types):
        q = Question(id, of, FIRST, LAST, 86_400_000 * 500, ["service_name"])
        total = next((total for kind, total in want.items() if fits(id, kind)), None)
        wrong = law(totals(s, q, (of_flame_graph, of_series) if name in corpus.LARGE else ways), q, total)
        if wrong:
            return "%s\n%s" % (name, wrong)
    return None


def fits(id, kind):
    return id.split(":")[2] == kind[1] and kind[0] in (None, id.split(":")[1])


@pytest.mark.drawn(40)
@needs_corpus
@pytest.mark.parametrize("name", NAMES)
def test_all_ways_to_ask_say_what_the_facts_say(f, name):
    wrong = of_file(f, name, NATIVE)
    if wrong:
        raise AssertionError("\n" + wrong)


@needs_corpus
def test_all_ways_to_ask_say_it_of_the_store(f):
    """The client asks too."""
    print("seed", SEED)
    flush(f)
    compact(f)
    for name in random.Random(SEED).sample(NAMES, len(NAMES) if LONG else min(15, len(NAMES))):
        wrong = of_file(f, name, NATIVE + CLIENT)
        if wrong:
            raise AssertionError("\nseed %d\n%s" % (SEED, wrong))
