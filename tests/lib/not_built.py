"""pytest plugin: what tests/conformance/not_built.txt lists must fail, and counts as skipped with the reason given there."""
import os

import pytest

LIST = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../conformance/not_built.txt")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    reasons, reason = {}, None
    with open(LIST, encoding="utf-8") as lines:
        for line in filter(None, (text.split("#")[0].strip() for text in lines)):
            if line.startswith("["):
                reason = line.strip("[]")
            else:
                reasons[line] = reason
    for item in items:
        file, case = item.nodeid.rsplit("/", 1)[-1].split("::", 1)
        for name in (file, "%s::%s" % (file, case.split("[")[0]), "%s::%s" % (file, case)):
            if name in reasons:
                item.add_marker(pytest.mark.xfail(reason="not built: " + reasons[name], strict=True))
        for mark in item.iter_markers():
            if "@" + mark.name in reasons:
                item.add_marker(pytest.mark.skip(reason="not built: " + reasons["@" + mark.name]))
