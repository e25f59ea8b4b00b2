"""Prints "passed failed skipped" of a JUnit file, and below it the names of the tests that failed. On stderr: these names, the lines
of the tests' output that say why, and the end of it. Two more files get lines: the seconds and name of each test, and how many were
skipped for which reason."""
import collections
import re
import sys
import xml.etree.ElementTree as ET

LINES_MOST = 60  # of the end of a test's output
WHY_MOST = 12
# As cmocka, the walks, the sanitizers, assert() and Python say it; a server's log has lines with other errors.
WHY = re.compile(r"^(FAILED:|\[ +(ERROR|LINE|FAILED) +\]|==\d+==ERROR|SUMMARY: |.*runtime error:|.*: Assertion |E   )")
passed = failed = skipped = 0
reasons = collections.Counter()
names = []
seconds = []
for case in ET.parse(sys.argv[1]).getroot().iter("testcase"):
    seconds.append("%s\t%s.%s\n" % (case.get("time") or 0, case.get("classname", ""), case.get("name", "")))
    states = {child.tag for child in case}
    if states & {"failure", "error"}:
        failed += 1
        names.append("%s.%s" % (case.get("classname", ""), case.get("name", "")))
        print("FAILED: " + names[-1], file=sys.stderr)
        lines = (case.findtext("system-out") or "").splitlines()
        said = "\n".join(child.get("message") or "" for child in case if child.tag in ("failure", "error"))
        why = said.splitlines() + [line for line in lines if WHY.match(line)]
        for line in why[:WHY_MOST] + lines[-LINES_MOST:]:
            print("    " + line[:300], file=sys.stderr)
    elif "skipped" in states or case.get("status") in ("disabled", "notrun"):
        skipped += 1
        node = case.find("skipped")
        reason = node.get("message", "") if node is not None else "not run"
        reasons[re.sub(r"(?<=no corpus file )\S+|(?<=no facts for )\S+", "FILE", reason)] += 1
    else:
        passed += 1
with open(sys.argv[2], "a") as f:
    f.writelines(seconds)
with open(sys.argv[3], "a") as f:
    f.writelines("%d %s\n" % (n, " ".join(reason.split())) for reason, n in sorted(reasons.items()))
print(passed, failed, skipped)
for name in names:
    print(name)
