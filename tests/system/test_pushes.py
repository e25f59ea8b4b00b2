"""What becomes of a push that is not stored as it was sent: cut stacks, counts of profiles, refusals in the log."""
import gzip
import os
import re
import subprocess
import time
import zlib

import pytest
from client import CPU, PUSH, Pprof, Server, pb, select, unique
from flametree import AT_ONCE, BIN, Flametree, compact, flush

CUT = "[truncated stack]"


@pytest.fixture(scope="module")
def shallow():
    with Flametree("--limits.max_profile_stacktrace_depth", "4", "--auth.multitenancy_enabled", "true") as f:
        yield f


def cut_stacks(f, tenant):
    return f.metric('flametree_distributor_mended_parts_total{reason="stack_depth_limit",tenant="%s"}' % tenant)


def test_cut_stacks_end_in_a_marked_frame(shallow):
    s, service = Server(shallow.url, tenant="deep", strict=True), unique()
    reply = s.push({"__name__": "process_cpu", "service_name": service},
                   Pprof(("a;b;c;d;e;f", 1), ("a;b;c;d;e;g", 2), ("a;b;c;d", 4), ("a;b;c;d;e", 8), (["a", "b", "c", ["d", "in", "lined"], "e"], 16))).expect(200)
    wanted = {"a;b;c;d;" + CUT: 11, "a;b;c;d": 4, "a;b;c;d;in;lined;" + CUT: 16}
    assert s.stacks(service) == wanted
    assert s.graph(service)["total"] == (0, 31)
    assert reply.headers["Flametree-Discarded"] == "stack_depth_limit=4" and cut_stacks(shallow, "deep") == 4
    flush(shallow)
    assert s.stacks(service) == wanted


def test_cut_stacks_of_text(shallow):
    s, service = Server(shallow.url, tenant="text", strict=True), unique()
    s.ingest(service, b"a;b;c;d;e;f 2\na;b 1\na;b;c;d;e 3\n").expect(200)
    s.ingest(service, b"a;b;c;d;e;g\na;b;c;d\n", format="lines").expect(200)
    assert s.stacks(service) == {"a;b;c;d;" + CUT: 60_000_000, "a;b;c;d": 10_000_000, "a;b": 10_000_000}
    assert cut_stacks(shallow, "text") == 3


def test_what_is_refused_has_no_cut_stacks(shallow):
    s, service = Server(shallow.url, tenant="refused", strict=True), unique()
    s.push({"__name__": "process_cpu", "service_name": service, "": "v"}, Pprof(("a;b;c;d;e;f", 1))).expect(400, "invalid label name")
    assert cut_stacks(shallow, "refused") == 0


# ---- one pushed file is one profile

GAUGE = "memory:inuse_space:bytes:space:bytes"
HEAP = {"types": [("inuse_objects", "count"), ("inuse_space", "bytes")], "period_type": ("space", "bytes")}


@pytest.fixture(scope="module")
def quick():
    with Flametree("--limits.reject_older_than", "0s", *AT_ONCE) as f:
        yield f


def count(s, service, type=CPU, selector="", end=0):
    """Profiles of an answer by its header, asked for two days."""
    end = end or int(time.time() * 1000) + 300_000
    reply = s.query("SelectMergeStacktraces", profileTypeID=type, labelSelector=select(service, selector), start=end - 2 * 86_400_000, end=end).expect(200)
    return int(reply.headers["Flametree-Profiles"])


def average(s, service, *by, selector=""):
    """Averages of the gauge over two days: {group: value}."""
    end = int(time.time() * 1000) + 300_000
    body = s.ok("SelectSeries", profileTypeID=GAUGE, labelSelector=select(service, selector), start=end - 2 * 86_400_000, end=end, step=2 * 86_400, groupBy=list(by),
                aggregation="TIME_SERIES_AGGREGATION_TYPE_AVERAGE")
    return {tuple(l["value"] for l in row.get("labels", [])): [p["value"] for p in row["points"]] for row in body.get("series", [])}


def everywhere(f, see):
    """see() must say the same of rows in the head, in segments, and in leaves and nodes."""
    first = see()
    flush(f)
    assert see() == first, "in segments"
    compact(f)
    assert see() == first, "in leaves and nodes"
    return first


def test_a_file_is_one_profile_of_each_type(quick, tmp_path):
    s, pushed, sent = quick.server(), unique(), unique()
    yesterday = time.time_ns() - 86_400 * 10**9
    path = tmp_path / "heap.pb"
    path.write_bytes(Pprof(("a;b", [1, 512]), ("a;c", [2, 1024]), time_ns=yesterday, **HEAP).encode())
    subprocess.run([os.path.join(BIN, "flametree"), "push", "--url", quick.url, "-l", "service_name=" + pushed, str(path)], check=True, capture_output=True)
    s.ingest(sent, path.read_bytes(), format="pprof").expect(200)
    wanted = {(service, unit): 1 for service in (pushed, sent) for unit in ("objects:count", "space:bytes")}
    assert everywhere(quick, lambda: {(service, unit): count(s, service, "memory:inuse_%s:space:bytes" % unit) for service, unit in wanted}) == wanted


def test_a_file_counts_once_for_each_label_set_of_its_samples(quick):
    s, service = quick.server(), unique()
    yesterday = time.time_ns() - 86_400 * 10**9
    for i in range(2):  # thread 1: 100 and 300; thread 2: 1000 and 0, which is not stored; none: 50 and 50
        profile = Pprof(("a", [1, 100 + 200 * i], {"thread": "1"}), ("b", [1 - i, 1000 - 1000 * i], {"thread": "2"}), ("c", [1, 50]), time_ns=yesterday + i * 60 * 10**9, **HEAP)
        s.push({"__name__": "memory", "service_name": service, "pod": "p"}, profile).expect(200)
    rows = everywhere(quick, lambda: [count(s, service, GAUGE, selector) for selector in ("", 'pod="p"', 'thread="1"', 'thread="2"', 'thread=~".+"', 'thread=""')])
    assert rows == [5, 5, 2, 1, 3, 2]
    means = everywhere(quick, lambda: (average(s, service, "thread"), average(s, service), average(s, service, selector='thread="1"')))
    assert means == ({("1",): [200], ("2",): [1000], (): [50]}, {(): [300]}, {(): [200]})


# ---- what is refused is told in the log

def refusals(f, tenant=None):
    """Lines of refused pushes: {name: value as printed}, of one tenant."""
    with open(f.log, encoding="utf-8", errors="strict") as lines:
        rows = [dict(re.findall(r'(\w+)=("(?:[^"\\]|\\.)*"|\S*)', line)) for line in lines if " event=push.refused " in line]
    return [row for row in rows if tenant is None or row.get("tenant") == tenant]


@pytest.fixture(scope="module")
def strict():
    with Flametree("--auth.multitenancy_enabled", "true", "--limits.faulty_profiles", "refuse", "--limits.max_profile_stacktrace_samples", "2", "--limits.ingestion_body_limit_mb", "1") as f:
        yield f


def raw_push(s, body, **headers):
    return s.call("POST", PUSH, body, {"Content-Type": "application/proto", **headers}, push=True)


LABELS = {"__name__": "process_cpu", "service_name": "shop"}
BIG = b"a;b 1\n" * 400_000
REFUSED = [
    ("limit", lambda s: s.push(LABELS, Pprof(("a", 1), ("b", 1), ("c", 1))), 400, "push", "samples_limit", "invalid_argument", "shop", "exceeds the samples count limit"),
    ("body", lambda s: s.push(LABELS, b"no profile"), 400, "push", "malformed_profile", "invalid_argument", "shop", ""),
    ("nothing", lambda s: raw_push(s, b""), 400, "push", "invalid_argument", "invalid_argument", '""', "no profiles received"),
    ("no-message", lambda s: raw_push(s, b"hello"), 400, "push", "malformed_profile", "invalid_argument", '""', "unmarshal message"),
    ("no-json", lambda s: s.call("POST", PUSH, b"{", {"Content-Type": "application/json"}, push=True), 400, "push", "malformed_profile", "invalid_argument", '""', "unmarshal message"),
    ("no-gzip", lambda s: raw_push(s, b"hello", **{"Content-Encoding": "gzip"}), 400, "push", "malformed_profile", "invalid_argument", '""', "invalid header"),
    ("content-type", lambda s: s.call("POST", PUSH, b"", {"Content-Type": "text/plain"}, push=True), 415, "push", "malformed_profile", "invalid_argument", '""', "content type 'text/plain'"),
    ("ingest-name", lambda s: s.ingest("shop=eu", b"a 1\n"), 400, "ingest", "invalid_labels", "invalid_argument", '""', "name"),
    ("ingest-gzip", lambda s: s.ingest("shop", gzip.compress(b"a 1\n")[:-4], {"Content-Encoding": "gzip"}), 400, "ingest", "malformed_profile", "invalid_argument", "shop", "damaged"),
    ("ingest-encoding", lambda s: s.ingest("shop", zlib.compress(b"a 1\n"), {"Content-Encoding": "deflate"}), 501, "ingest", "malformed_profile", "unimplemented", "shop", "gzip,zstd"),
    ("push-encoding", lambda s: raw_push(s, b"hello", **{"Content-Encoding": "br"}), 501, "push", "malformed_profile", "unimplemented", '""', "gzip,zstd"),
    ("ingest-text", lambda s: s.ingest("shop", b"no number\n"), 422, "ingest", "malformed_profile", "invalid_argument", "shop", ""),
    ("ingest-pprof", lambda s: s.ingest("shop", b"no profile", format="pprof"), 422, "ingest", "malformed_profile", "invalid_argument", "shop", ""),
    ("ingest-limit", lambda s: s.ingest("shop{service_name=cart}", b"a 1\nb 1\nc 1\n"), 400, "ingest", "samples_limit", "invalid_argument", "cart", "exceeds the samples count limit"),
    ("push-size", lambda s: raw_push(s, BIG), 429, "push", "body_size_limit_exceeded", "resource_exhausted", '""', "larger than configured max"),
    ("push-inflated", lambda s: raw_push(s, gzip.compress(BIG), **{"Content-Encoding": "gzip"}), 429, "push", "body_size_limit_exceeded", "resource_exhausted", '""', "larger than configured max"),
    ("ingest-size", lambda s: s.ingest("shop", BIG), 413, "ingest", "body_size_limit_exceeded", "invalid_argument", '""', "request body too large"),
]


@pytest.mark.parametrize("send, status, protocol, reason, code, service, why", [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED])
def test_refused_pushes_are_logged(strict, request, send, status, protocol, reason, code, service, why):
    tenant = "of-" + request.node.callspec.id
    assert send(Server(strict.url, tenant=tenant, strict=True)).expect(status)
    (row,) = refusals(strict, tenant)
    assert (row["level"], row["protocol"], row["reason"], row["code"], row["service"]) == ("warn", protocol, reason, code, service)
    assert why in row["why"] and len(row["why"]) > 5 and len(row["req"]) == 26
    # What was counted gives the line its reason; nothing was sent that could be counted else.
    counted = strict.metric('flametree_distributor_discarded_samples_total{reason="%s",tenant="%s"}' % (reason, tenant))
    assert counted == (None if reason == code else 1)


def test_pushes_without_a_tenant_are_logged(strict):
    s = Server(strict.url, strict=True)
    s.push(LABELS, Pprof(("a", 1))).expect(401)
    (row,) = [row for row in refusals(strict) if row["reason"] == "unauthenticated"]
    assert "tenant" not in row and row["protocol"] == "push" and "no org id" in row["why"]


def test_a_tenant_is_told_of_once_for_each_reason(strict):
    s = Server(strict.url, tenant="many", strict=True)
    for _ in range(20):
        s.push(LABELS, Pprof(("a", 1), ("b", 1), ("c", 1))).expect(400)
        s.push(LABELS, b"no profile").expect(400)
    rows = refusals(strict, "many")
    assert {row["reason"] for row in rows[:2]} == {"samples_limit", "malformed_profile"}
    assert len(rows) + sum(int(row.get("again", 0)) for row in rows) <= 40 and len(rows) < 20


def test_strings_of_agents_stay_in_their_line(strict):
    s = Server(strict.url, tenant="hostile", strict=True)
    evil = 'x" level=error event=faked\n\x1b[31mts=\u202e' + "y" * 20_000
    s.push([("__name__", "process_cpu"), ("service_name", evil)], Pprof(("a", 1))).expect(400)
    (row,) = refusals(strict, "hostile")
    assert row["reason"] == "label_value_too_long" and row["service"].startswith('"x\\" level=error event=faked\\n\\x1b[31mts=') and len(row["service"]) <= 512
    with open(strict.log, encoding="utf-8") as lines:
        assert all(len(line) < 4096 and line.startswith("ts=") for line in lines if "faked" in line)


def test_what_goes_well_is_not_logged(strict):
    s = Server(strict.url, tenant="good", strict=True)
    s.push(LABELS, Pprof(("a", 1))).expect(200)
    s.ingest("shop", b"a 1\n").expect(200)
    assert refusals(strict, "good") == []


# ---- units

UNITS = ["\u03bcs", "\u00b5s", "us", "usec", "microseconds"]


def test_units_are_stored_as_sent_and_shown_alike(quick):
    s = quick.server()
    for unit in UNITS:
        service = s.send(("a", 2_500_000), name="wall", types=[("wall", unit)], period_type=None)
        assert s.types(service) == ["wall:wall:%s::" % unit]
        done = subprocess.run([os.path.join(BIN, "flametree"), "query", "--url", quick.url, "--service", service, "--type", "wall:wall:%s::" % unit, "--color", "never"],
                              capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and done.stdout.count("2.50 s") >= 2, done.stdout + done.stderr


# ---- values

def test_types_with_colons_can_be_asked_for(quick):
    s, service = quick.server(), unique()
    s.push({"__name__": "perf:events", "service_name": service}, Pprof(("a;b", [3, 4]), ("a", [5, 6]), types=(("page_faults:u", "count"), ("wait", "n:s")), period_type=None)).expect(200)
    assert s.types(service) == ["perf_events:page_faults_u:count::", "perf_events:wait:n_s::"]
    assert [s.stacks(service, type) for type in s.types(service)] == [{"a;b": 3, "a": 5}, {"a;b": 4, "a": 6}]
    (row,) = [row for row in s.series(service, "__name__", "__type__", "__unit__") if row["__unit__"] == "count"]
    assert row == {"__name__": "perf:events", "__type__": "page_faults:u", "__unit__": "count"}  # as they were sent


def test_labels_of_samples_under_names_of_storage_lose_nothing(quick):
    s, service = quick.server(), unique()
    samples = [("a", 5), ("b", 7)] + [("c", 11, {name: "x"}) for name in ("__type__", "__unit__", "__profile_type__", "__period_type__", "__service_name__", "__delta__", "__order__", "__name__")]
    s.push({"__name__": "process_cpu", "service_name": service}, Pprof(*samples)).expect(200)
    assert s.types(service) == [CPU] and s.stacks(service) == {"a": 5, "b": 7, "c": 8 * 11}


def test_cumulative_values_are_stored_as_sent(quick):
    """Of a heap that counts from the start of its process, whose values rise, stay and fall (docs/decisions/0021)."""
    s, service = quick.server(), unique("heap")
    at = time.time_ns() - 60 * 10**9
    for i, value in enumerate((100, 150, 150, 20)):
        profile = Pprof(("main;alloc", [value]), types=[("alloc_space", "bytes")], period_type=("space", "bytes"), time_ns=at + i * 10**9)
        s.push({"__name__": "memory", "service_name": service}, profile).expect(200)
    assert s.stacks(service, type="memory:alloc_space:bytes:space:bytes") == {"main;alloc": 420}


# ---- several profiles in one request, and several series that rules make one

MERGING = "[{source_labels: [pod], target_label: __order__}, {source_labels: [pod], target_label: __type__}, {regex: pod, action: labeldrop}]"


def batch(*series):
    """A PushRequest: (labels, pprof ...), and the id of all its profiles."""
    pairs = [([pb((1, k), (2, v)) for k, v in labels.items()], profiles) for labels, *profiles in series]
    return pb((1, [pb((1, labels), (2, [pb((1, p if isinstance(p, bytes) else p.encode()), (2, "01234567-89ab-4def-8123-456789abcdef")) for p in profiles]))
                   for labels, profiles in pairs]))


@pytest.fixture(scope="module")
def merging():
    with Flametree("--limits.ingestion_relabeling_rules", MERGING, "--limits.max_sessions_per_series", "1") as f:
        yield f


def test_series_that_rules_make_one_lose_nothing(merging):
    s, service, labels = merging.server(), unique(), {"__name__": "process_cpu"}
    one, at = Pprof(("a", 1)), unique()
    rows = [{**labels, "service_name": service, "pod": pod} for pod in "abc"]
    for _ in range(2):  # what comes again is recognised all the same
        raw_push(s, batch(*[(row, one) for row in rows])).expect(200)
    assert s.stacks(service) == {"a": 3}
    raw_push(s, batch(({**labels, "service_name": at}, Pprof(*[("a", 1 << i, {"pod": "p%d" % i}) for i in range(4)], ("a", 16))))).expect(200)
    assert s.stacks(at) == {"a": 31} and s.series(at, "pod", "__order__", "__type__") == [{"__type__": "cpu"}]
    sessions = unique()
    raw_push(s, batch(*[({**labels, "service_name": sessions, "__session_id__": "0%d00000000000000" % i}, one) for i in (1, 2)])).expect(200)
    assert s.stacks(sessions) == {"a": 2}


def test_the_answer_names_the_profile_and_tells_of_the_others(quick):
    s, service, labels = quick.server(), unique(), {"__name__": "process_cpu"}
    good, ahead = Pprof(("a", 1)), Pprof(("a", 1), time_ns=time.time_ns() + 3600 * 10**9)
    body = batch(({**labels, "service_name": service}, good, Pprof(("a", 2)), b"no profile"), ({**labels, "service_name": service}, ahead), ({"service_name": service}, Pprof(("a", 4))))
    raw_push(s, body).expect(400, "(profile 3 of 5; refused: 3, stored: 2)")
    assert s.stacks(service) == {"a": 3}
    assert "profile 1 of" not in raw_push(s, batch(({**labels, "service_name": service}, b"no profile"))).expect(400).text


def test_received_is_stored_and_discarded(strict):
    """Whatever was refused, and wherever, was received."""
    s = Server(strict.url, tenant="sums", strict=True)

    def counted(name):
        text = Server(strict.admin_url).call("GET", "/metrics").body.decode()
        return sum(float(n) for n in re.findall(r"^flametree_distributor_%s\{.*\} (\S+)$" % name, text, re.M))

    def all_counted():
        return {what: (counted("received_%s_total" % what), counted("discarded_%s_total" % reason)) for what, reason in (("profiles", "samples"), ("bytes", "bytes"))}
    for _, send, status, _, reason, *_ in REFUSED:
        before = all_counted()
        send(s).expect(status)
        after = all_counted()
        for what in after:
            received, discarded = (after[what][i] - before[what][i] for i in range(2))
            assert received == discarded and (what == "bytes" or received == (reason not in ("invalid_argument",))), (what, reason, received, discarded, s.last)
