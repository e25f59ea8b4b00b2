"""What every black-box test can import: the process helper of tests/lib and the protocol client of tests/conformance. And which cases of a test a
run has.

FT_DRAWN is a number that tests/run draws from the commit. With it, a test with the mark `each_value` has as many of its cases as it takes to
have each value of each of its parameters once, and one with the mark `drawn(n)` has n of them: others with each commit, the same in each run of one.
All cases are in tests/run nightly, and where pytest is called by hand.
"""
import hashlib
import os
import sys

here = os.path.dirname(__file__)
for folder in ("lib", "conformance"):
    sys.path.insert(0, os.path.join(here, folder))

DRAWN = os.environ.get("FT_DRAWN") if os.environ.get("FLAMETREE_NIGHTLY") != "1" else None


def pytest_configure(config):
    config.addinivalue_line("markers", "each_value: of a product of parameters each value is in a run, and all pairs in tests/run nightly")
    config.addinivalue_line("markers", "drawn(n): of many cases n are in a run, and all in tests/run nightly")


def chosen(items):
    """Those of one test's cases that this run has."""
    if not hasattr(items[0], "callspec"):
        return items
    order = sorted(items, key=lambda item: hashlib.sha256(("%s %s" % (DRAWN, item.nodeid)).encode()).digest())
    mark = items[0].get_closest_marker("drawn")
    if mark:
        return order[:mark.args[0]]
    missing = {(name, repr(value)) for item in items for name, value in item.callspec.params.items()}
    kept = []
    while missing:
        best = max(order, key=lambda item: len(missing & values(item)))
        missing -= values(best)
        kept.append(best)
    return kept


def values(item):
    return {(name, repr(value)) for name, value in item.callspec.params.items()}


def pytest_collection_modifyitems(config, items):
    tests = {}
    for item in items:
        if DRAWN and (item.get_closest_marker("each_value") or item.get_closest_marker("drawn")):
            tests.setdefault(item.nodeid.split("[")[0], []).append(item)
    left_out = {item for cases in tests.values() for item in cases} - {item for cases in tests.values() for item in chosen(cases)}
    if left_out:
        config.hook.pytest_deselected(items=[item for item in items if item in left_out])
        items[:] = [item for item in items if item not in left_out]
