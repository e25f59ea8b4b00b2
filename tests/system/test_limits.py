"""Limits of single tenants: files of overrides read at run time, sizes of bodies and profiles, quotas, sampling, usage groups."""
import base64
import gzip
import json
import os
import re
import signal
import subprocess
import time

import pytest
from client import PUSH, Pprof, now_ms, pb, select, unique
from flametree import BIN, EXAMPLES, TOP, Flametree, await_

MIB = 1 << 20
STOCK = os.path.join(EXAMPLES, "stock-limits.yaml")


class Limited(Flametree):
    """A server with a file of overrides that is read every few milliseconds."""

    def __init__(self, text, *args, period="20ms", **kw):
        super().__init__("--config", STOCK, "--auth.multitenancy_enabled=true", "--limits.ingestion_rate_mb=0", *args, **kw)
        self.file = os.path.join(self.data, "overrides.yaml")
        self.write(text)
        self.args += ["--runtime_config.file", self.file, "--runtime_config.reload_period", period]

    def write(self, text):
        with open(self.file + ".new", "w") as f:
            f.write(text)
        os.replace(self.file + ".new", self.file)

    def logged(self, event):
        with open(self.log) as f:
            return [line for line in f if "event=%s " % event in line]

    def discarded(self, what, reason, tenant):
        return self.metric('flametree_distributor_discarded_%s_total{reason="%s",tenant="%s"}' % (what, reason, tenant)) or 0

    def as_tenant(self, tenant):
        return self.server(tenant)


def labels(service=None, **more):
    return {"__name__": "process_cpu", "service_name": service or unique(), **more}


def many(n):
    return Pprof(*[("a", 1)] * n)


# ---- reading again

def test_a_push_meets_the_new_limit_without_a_restart():
    with Limited("overrides:\n  a: {max_profile_stacktrace_samples: 5}\n") as f:
        a, b = f.as_tenant("a"), f.as_tenant("b")
        a.push(labels(), many(6)).expect(400, "(max_profile_stacktrace_samples, actual: 6, limit: 5)")
        b.push(labels(), many(6)).expect(200)
        f.write("overrides:\n  a: {max_profile_stacktrace_samples: 6}\n  b: {max_profile_stacktrace_samples: 2}\n")
        await_("the new limit", lambda: a.push(labels(), many(6)).status == 200)
        a.push(labels(), many(7)).expect(400, "limit: 6)")
        b.push(labels(), many(3)).expect(400, "limit: 2)")
        assert f.metric("flametree_overrides_tenants") == 2
        assert f.metric('flametree_limits_overrides{limit_name="max_profile_stacktrace_samples",tenant="b"}') == 2
        assert f.metric('flametree_limits_defaults{limit_name="max_profile_stacktrace_samples"}') == 16000
        assert f.metric('flametree_limits_defaults{limit_name="max_query_length"}') == 86400


def test_a_bad_file_keeps_what_was_and_says_so_once():
    with Limited("overrides:\n  a: {max_profile_stacktrace_samples: 5}\n") as f:
        a = f.as_tenant("a")
        reloads = lambda result: f.metric('flametree_overrides_reloads_total{result="%s"}' % result) or 0
        assert f.metric("flametree_overrides_last_reload_successful") == 1
        f.write("overrides:\n  a:\n    max_profile_stacktrace_samples: 7\n    ingestion_rate_mb: lots\n")
        await_("three refused readings", lambda: reloads("refused") > 3)
        assert f.metric("flametree_overrides_last_reload_successful") == 0
        a.push(labels(), many(6)).expect(400, "limit: 5)")
        said = f.logged("overrides.refused")
        assert len(said) == 1 and "%s:4: overrides.a.ingestion_rate_mb: 'lots' is not a number" % f.file in said[0], said
        os.unlink(f.file)
        await_("the missing file", lambda: len(f.logged("overrides.refused")) == 2)
        a.push(labels(), many(6)).expect(400, "limit: 5)")
        f.write("overrides: {}\n")
        await_("the file again", lambda: f.metric("flametree_overrides_last_reload_successful") == 1)
        a.push(labels(), many(6)).expect(200)


def test_a_signal_reads_the_files_at_once():
    with Limited("overrides: {}\n", period="1h") as f:
        a = f.as_tenant("a")
        a.push(labels(), many(6)).expect(200)
        f.write("overrides:\n  a: {max_profile_stacktrace_samples: 5}\n")
        f.signal(signal.SIGHUP)
        await_("the new limit", lambda: a.push(labels(), many(6)).status == 400)


def test_new_defaults_reach_tenants_with_overrides(tmp_path):
    settings = tmp_path / "settings.yaml"
    settings.write_text("limits: {faulty_profiles: refuse, max_profile_stacktrace_samples: 5}\n")
    with Limited("overrides:\n  a: {max_label_name_length: 20}\n", period="1h") as f:
        f.stop()
        f.args[f.args.index(STOCK)] = str(settings)
        f.start()
        a = f.as_tenant("a")
        a.push(labels(), many(6)).expect(400, "limit: 5)")
        settings.write_text("limits: {faulty_profiles: refuse, max_profile_stacktrace_samples: 6}\n")
        f.signal(signal.SIGHUP)
        await_("the new default", lambda: a.push(labels(), many(6)).status == 200)
        a.push(labels(**{"k" * 21: "v"}), many(1)).expect(400, "label name too long")


BAD_STARTS = [
    ("overrides:\n  a:\n    no_such_limit: 1\n", "3: overrides.a.no_such_limit: unknown key"),
    ("overrides:\n  a:\n    max_query_length: soon\n", "3: overrides.a.max_query_length: 'soon' is not a duration such as 250ms, 1h30m or 31d"),
    ("overrides:\n  a|b: {}\n", "2: overrides.a|b: tenant ID 'a|b' contains unsupported character '|'"),
]


@pytest.mark.parametrize("text, want", BAD_STARTS, ids=["unknown", "time", "tenant"])
def test_a_bad_file_at_the_start_ends_it(tmp_path, text, want):
    file = tmp_path / "o.yaml"
    file.write_text(text)
    run = subprocess.run([os.path.join(BIN, "flametree"), "--check-config", "--runtime_config.file", str(file)], capture_output=True, text=True)
    assert run.returncode == 2 and run.stderr == "flametree: %s:%s\n" % (file, want), run


def test_the_example_is_accepted_and_unknown_keys_of_pyroscope_are_told_once(tmp_path):
    file = tmp_path / "o.yaml"
    file.write_text("overrides:\n  a: {max_global_series_per_tenant: 5}\n  b: {max_global_series_per_tenant: 6, symbolizer: {enabled: true}}\n")
    run = subprocess.run([os.path.join(BIN, "flametree"), "--check-config", "--runtime_config.file", "%s,%s" % (os.path.join(EXAMPLES, "overrides.yaml"), file)], capture_output=True, text=True)
    assert run.returncode == 0, run
    assert len(re.findall("event=config.without_effect", run.stderr)) == 2, run.stderr
    # Who set a limit that has a counterpart is warned, and told which.
    told = re.findall(r"level=(\w+).* event=config.without_effect key=limits.max_global_series_per_tenant .*instead=\"max_local_series_per_tenant", run.stderr)
    assert told == ["warn"], run.stderr


# ---- pages

def test_pages_show_what_holds():
    with Limited("overrides:\n  a: {max_query_length: 2h, ingestion_rate_mb: 0.5, ingestion_burst_size_mb: 3}\n") as f:
        a = f.as_tenant("a")
        diff = f.operator().call("GET", "/runtime_config?mode=diff").expect(200).text
        assert diff == 'overrides:\n  "a":\n    ingestion_rate_mb: 0.5\n    ingestion_burst_size_mb: 3\n    max_query_length: 2h\n', diff
        whole = f.operator().call("GET", "/runtime_config").expect(200).text
        assert "    max_label_name_length: 1024\n" in whole and "    max_query_length: 2h\n" in whole, whole
        assert a.call("GET", "/api/v1/tenant_limits").expect(200).json() == {"ingestion_rate": 0.5, "ingestion_burst_size": 3, "max_global_series_per_user": 0}
        assert f.as_tenant("b").call("GET", "/api/v1/tenant_limits").expect(200).json()["ingestion_rate"] == 0
        f.as_tenant(None).call("GET", "/api/v1/tenant_limits").expect(401)
        config = f.operator().call("GET", "/api/v1/status/config").expect(200).text
        assert "runtime_config:\n  file: [\"%s\"]\n" % f.file in config, config


def test_without_files_there_are_no_such_pages():
    with Flametree() as f:
        s = f.server()
        s.call("GET", "/runtime_config").expect(404)
        s.call("GET", "/api/v1/tenant_limits").expect(404)


# ---- nodes of a merged pprof

def test_a_merged_pprof_is_whole_unless_the_tenant_has_it_limited():
    nodes = "max_flamegraph_nodes_default: 2, max_flamegraph_nodes_max: 4"
    with Limited("overrides:\n  whole: {%s}\n  cut: {%s, max_flamegraph_nodes_on_select_merge_profile: true}\n" % (nodes, nodes)) as f:
        for tenant, stacks, most in (("whole", 8, 200), ("cut", 3, 400)):  # two nodes and "other"
            s = f.as_tenant(tenant)
            service = unique()
            s.push(labels(service), Pprof(*(("f%d" % i, i) for i in range(1, 9)))).expect(200)
            start = now_ms() - 600_000
            asked = {"profileTypeID": "process_cpu:cpu:nanoseconds:cpu:nanoseconds", "labelSelector": select(service), "start": start, "end": start + 1_200_000}
            got = s.ok("SelectMergeProfile", **asked)
            assert len(got["sample"]) == stacks, (tenant, got)
            assert sum(int(v) for one in got["sample"] for v in one["value"]) == 36
            s.query("SelectMergeProfile", **asked, maxNodes=5).expect(most)
            s.query("SelectMergeStacktraces", **asked, format="PROFILE_FORMAT_PPROF", maxNodes=5).expect(most)


# ---- sizes: a body of 1 MiB, a profile of 1 MiB

@pytest.fixture(scope="module")
def sized():
    with Limited("overrides:\n  body: {ingestion_body_limit_mb: 1}\n  profile: {max_profile_size_bytes: 1048576}\n  none: {ingestion_body_limit_mb: 0, max_profile_size_bytes: 0}\n") as f:
        yield f


def noise(size):
    """A pprof of exactly `size` bytes that gzip makes about half as large."""
    for filler in range(size - 200, size):
        p = Pprof(("a", 1))
        p.text(os.urandom(filler // 2).hex() + "x" * (filler % 2))
        data = p.encode()
        if len(data) == size:
            return data
    raise AssertionError("no pprof of %d bytes" % size)


UNDER, EXACT, OVER = 1014 * 1024, MIB, 1034 * 1024
INGEST = [
    ("body", UNDER, False, 200, ""), ("body", EXACT, False, 200, ""), ("body", OVER, False, 413, "request body too large"),
    ("body", OVER, True, 200, ""),
    ("profile", UNDER, False, 200, ""), ("profile", EXACT - 8, False, 200, ""), ("profile", OVER, False, 422, "exceeds maximum allowed size"),
    ("profile", UNDER, True, 200, ""), ("profile", EXACT - 8, True, 200, ""), ("profile", OVER, True, 422, "exceeds maximum allowed size"),
    ("none", OVER, False, 200, ""), ("none", OVER, True, 200, ""),
]


@pytest.mark.parametrize("tenant, size, zipped, status, text", INGEST)
def test_ingest_size(sized, tenant, size, zipped, status, text):
    """Content-Encoding is misleading: agents set it for a pprof that is gzipped in itself."""
    data = noise(size)
    before = [sized.discarded(what, "body_size_limit_exceeded", tenant) for what in ("samples", "bytes")]
    sent = gzip.compress(data, 1) if zipped else data
    headers = {"Content-Encoding": "gzip"} if zipped else {}
    sized.as_tenant(tenant).ingest(unique(), sent, headers, format="pprof").expect(status, text)
    after = [sized.discarded(what, "body_size_limit_exceeded", tenant) for what in ("samples", "bytes")]
    assert [b - a for a, b in zip(before, after)] == ([1, MIB] if status == 413 else [0, 0])


PUSHES = [
    ("body", [UNDER], False, 200, "", 0, 0), ("body", [EXACT], False, 200, "", 0, 0),
    ("body", [OVER], True, 400, "uncompressed batched profile payload size exceeds limit of 1.0 MB", 1, OVER),
    ("body", [600 * 1024, 600 * 1024], True, 400, "uncompressed batched profile payload size exceeds limit of 1.0 MB", 2, 1200 * 1024),
    ("profile", [UNDER], True, 200, "", 0, 0), ("profile", [EXACT], True, 200, "", 0, 0), ("profile", [EXACT], False, 200, "", 0, 0),
    ("profile", [OVER], False, 400, "uncompressed profile payload size exceeds limit of 1.0 MB", 1, MIB),
    ("profile", [OVER], True, 400, "uncompressed profile payload size exceeds limit of 1.0 MB", 1, MIB),
    ("none", [OVER, OVER], True, 200, "", 0, 0),
]


@pytest.mark.parametrize("kind", ["proto", "json"])
@pytest.mark.parametrize("tenant, sizes, zipped, status, text, profiles, lost", PUSHES)
def test_push_size(sized, kind, tenant, sizes, zipped, status, text, profiles, lost):
    s = sized.as_tenant(tenant)
    reason = "body_size_limit_exceeded" if tenant == "body" else "profile_size_limit"
    data = [noise(n) for n in sizes]
    sent = [gzip.compress(d, 1) for d in data] if zipped else data
    wire = sum(map(len, sent)) * (4 / 3 if kind == "json" else 1)
    if tenant == "body" and wire > MIB - 300:
        pytest.skip("the body itself is over the limit; see test_connect_body_over_the_limit_on_the_wire")
    before = [sized.discarded(what, reason, tenant) for what in ("samples", "bytes")]
    if kind == "proto":
        reply = s.push(labels(), *sent)
    else:
        series = [{"labels": [{"name": k, "value": v} for k, v in labels().items()], "samples": [{"rawProfile": base64.b64encode(d).decode()} for d in sent]}]
        reply = s.call("POST", PUSH, json.dumps({"series": series}), {"Content-Type": "application/json"}, push=True)
    reply.expect(status, text, code="invalid_argument" if status == 400 else None)
    after = [sized.discarded(what, reason, tenant) for what in ("samples", "bytes")]
    assert [b - a for a, b in zip(before, after)] == [profiles, lost]


def test_connect_body_over_the_limit_on_the_wire(sized):
    """Connect's own words for a message that is too large, on the wire or inflated, with the tenant's limit."""
    s = sized.as_tenant("body")
    s.push(labels(), noise(OVER)).expect(429, "1048576", code="resource_exhausted")
    message = pb((1, pb((1, pb((1, "__name__"), (2, "process_cpu"))), (1, pb((1, "service_name"), (2, "x"))), (2, pb((1, noise(OVER)))))))
    s.call("POST", PUSH, gzip.compress(message, 1), {"Content-Type": "application/proto", "Content-Encoding": "gzip"}, push=True).expect(429, "1048576", code="resource_exhausted")
    sized.as_tenant("none").call("POST", PUSH, gzip.compress(message, 1), {"Content-Type": "application/proto", "Content-Encoding": "gzip"}, push=True).expect(200)


def test_two_tenants_at_once(sized):
    """The same bytes at the same moment, each by its own limit."""
    import concurrent.futures
    data = gzip.compress(noise(OVER), 1)
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda t: (t, sized.as_tenant(t).push(labels(), data).status), ["none", "profile", "body", "none"] * 10))
    assert set(replies) == {("none", 200), ("profile", 400), ("body", 400)}, replies


# ---- quotas, groups, sampling, delay

QUOTA = "ingestion_limit: {period_type: hour, period_limit_mb: 128, limit_reset_time: 1900000000, %s}"


def test_a_reached_quota_lets_samples_pass():
    text = "overrides:\n  a:\n    " + QUOTA % "limit_reached: true, sampling: {num_requests: 2, period: 10m}" + "\n"
    with Limited(text) as f:
        a = f.as_tenant("a")
        service = unique()
        replies = [a.push(labels(service), Pprof(("a", 1))) for _ in range(5)]
        assert [r.status for r in replies] == [200, 200, 429, 429, 429]
        replies[2].expect(429, "limit of 128 MiB/hour reached, next reset at 2030-03-17T17:46:40Z", code="resource_exhausted")
        assert a.stacks(service) == {"a": 2}
        assert f.discarded("samples", "ingest_limit_reached", "a") == 3


GROUPS = """
    distributor_usage_groups: {"app/${labels.service_name}": '{team=~".+"}', gold: '{tier="gold"}'}
"""


def test_usage_groups_are_counted_and_limited():
    text = "overrides:\n  a:" + GROUPS + "    " + QUOTA % "usage_groups: {gold: {limit_reached: true, period_limit_mb: 64}}" + "\n"
    with Limited(text) as f:
        a = f.as_tenant("a")
        a.push(labels("one", team="x"), Pprof(("a", 1))).expect(200)
        a.push(labels("two"), Pprof(("a", 1))).expect(200)
        a.push(labels("three", tier="gold"), Pprof(("a", 1))).expect(429, "limit of 64 MiB/hour reached for usage group {configured: gold, resolved: gold}, next reset at 2030-03-17T17:46:40Z")
        received = lambda group: f.metric('flametree_distributor_usage_group_received_bytes_total{tenant="a",usage_group="%s"}' % group) or 0
        assert received("app/one") > 0 and received("other") > 0 and received("gold") > 0
        assert f.metric('flametree_distributor_usage_group_discarded_bytes_total{reason="ingest_limit_reached",tenant="a",usage_group="gold"}') > 0


def total(s, service):
    start = now_ms() - 600_000
    got = s.ok("SelectSeries", profileTypeID="process_cpu:cpu:nanoseconds:cpu:nanoseconds", labelSelector=select(service), start=start, end=start + 1_200_000, step=1200)
    return sum(p["value"] for row in got.get("series", []) for p in row["points"])


def test_sampling_drops_or_keeps_totals():
    sampling = "    distributor_sampling: {usage_groups: {gold: {probability: 0}}}\n"
    text = "overrides:\n  drop:%s  keep:%s    keep_stripped_profiles: true\n  show:%s    keep_stripped_profiles: true\n    include_stripped_profiles: true\n" % ((GROUPS + sampling,) * 3)
    with Limited(text) as f:
        for tenant, wanted in (("drop", 10), ("keep", 10), ("show", 17)):
            s = f.as_tenant(tenant)
            service = unique()
            s.push(labels(service), Pprof(("a;b", 10))).expect(200)
            s.push(labels(service, tier="gold"), Pprof(("a;b", 4), ("c", 3))).expect(200)
            assert s.stacks(service) == {"a;b": 10}
            assert total(s, service) == wanted, tenant
            rows = s.series(service, "__sampled__", "tier")
            assert ({"__sampled__": "true", "tier": "gold"} in rows) == (tenant != "drop"), rows
        assert f.discarded("samples", "dropped_by_sampling_rules", "drop") == 1
        assert f.discarded("samples", "dropped_by_sampling_rules", "keep") == 0


def test_only_good_pushes_are_delayed():
    with Limited("overrides:\n  slow: {ingestion_artificial_delay: 300ms}\n") as f:
        slow = f.as_tenant("slow")
        timing = lambda reply: reply.headers.get("server-timing") or reply.headers.get("Server-Timing")
        begin = time.monotonic()
        reply = slow.push(labels(), Pprof(("a", 1))).expect(200)
        assert time.monotonic() - begin >= 0.25 and re.fullmatch(r"artificial_delay;dur=\d+", timing(reply) or ""), reply
        assert timing(slow.ingest(unique(), "a;b 1\n").expect(200))
        assert not timing(slow.push(labels(**{"k" * 2000: "v"}), Pprof(("a", 1))).expect(400))
        assert not timing(slow.ingest("", "a 1\n").expect(400))
        assert not timing(f.as_tenant("fast").push(labels(), Pprof(("a", 1))).expect(200))


def test_delays_take_no_workers_and_end_with_the_process():
    """More held answers than workers of the lane: others go on, and a stop does not wait for them all."""
    import concurrent.futures
    with Limited("overrides:\n  slow: {ingestion_artificial_delay: 1m}\n", "--server.drain_timeout=200ms") as f:
        def hang(_):
            try:
                return f.as_tenant("slow").push(labels(), Pprof(("a", 1))).status
            except Exception:  # the connection is cut
                return None
        with concurrent.futures.ThreadPoolExecutor(150) as pool:
            held = [pool.submit(hang, i) for i in range(150)]
            await_("150 held answers", lambda: f.metric('flametree_net_exchanges{state="held"}') == 150, 50)
            f.as_tenant("fast").push(labels(), Pprof(("a", 1))).expect(200)
            f.stop()
        assert [h.result() for h in held].count(200) == 0


# ---- numbers at their ends

NUMBERS = re.findall(r"^ROW\((\w+), (INT|FLOAT|DURATION|BYTES),", open(os.path.join(TOP, "common/service/limits.def")).read(), re.M)
ENDS = {"INT": ("9223372036854775807", "9223372036854775808", "-1"), "FLOAT": ("1e300", "1e309", "-0.5", "nan", "inf"),
        "DURATION": ("106751d", "99999999d", "-1s"), "BYTES": ("16777215TiB", "1e30")}


def test_the_ends_of_every_number_are_refused_by_name_or_work():
    taken = []
    with Limited("overrides: {}\n") as f:
        for key, value in [(key, value) for key, kind in NUMBERS for value in ENDS[kind]]:
            check = subprocess.run([os.path.join(BIN, "flametree"), "--check-config", "--limits.%s=%s" % (key, value)], capture_output=True, text=True)
            taken.append(check.returncode == 0)
            if check.returncode:
                assert check.returncode == 2 and "limits.%s: " % key in check.stderr and value in check.stderr, check.stderr
                continue
            f.write("overrides:\n  edge: {%s: %s}\n" % (key, value))
            await_("%s: %s" % (key, value), lambda: in_force(f, key))
            service = unique()
            f.as_tenant("edge").push(labels(service), Pprof(("a", 1))).expect(200)
            assert f.as_tenant("edge").stacks(service) == {"a": 1}, (key, value)
    assert len(NUMBERS) >= 20 and taken.count(True) > 10 and taken.count(False) > 20, taken


def in_force(f, key):
    return " %s: " % key in f.operator().call("GET", "/runtime_config?mode=diff").expect(200).text


@pytest.mark.parametrize("key", ["ingestion_rate_mb", "ingestion_burst_size_mb"])
def test_a_rate_without_end_is_refused_with_its_bound(key):
    for value in ("1e300", "8796093022208"):
        check = subprocess.run([os.path.join(BIN, "flametree"), "--check-config", "--limits.%s=%s" % (key, value)], capture_output=True, text=True)
        assert check.returncode == 2, check
        assert "%s: %s is above the highest value, 8796093022207" % (key, value) in check.stderr, check.stderr


def test_a_label_that_relabelling_blows_up_is_refused_early():
    rule = "{source_labels: [grown], target_label: grown, replacement: '$1$1$1$1'}"
    with Limited("overrides:\n  grow: {ingestion_relabeling_rules: [%s]}\n" % ", ".join([rule] * 13)) as f:
        before = f.rss_bytes()
        reply = f.as_tenant("grow").push(labels(grown="0123456789abcdef"), Pprof(("a", 1))).expect(400, "a relabelling rule makes 262144 bytes of text, limit 65536")
        assert reply.json()["code"] == "invalid_argument"
        assert f.rss_bytes() - before < 64 * MIB


def test_many_tenants_are_read_again_within_a_push():
    text = "overrides:\n" + "".join("  t%d: {ingestion_rate_mb: %d, max_label_value_length: 2000}\n" % (i, 1 + i % 7) for i in range(20000))
    with Limited(text) as f:
        t = f.as_tenant("t19999")
        t.push(labels(), many(3)).expect(200)
        before = cpu_seconds(f)
        f.write(text + "  t20000: {max_profile_stacktrace_samples: 2}\n")
        await_("the new limit", lambda: f.as_tenant("t20000").push(labels(), many(3)).status == 400, 60)
        print("reading 20,001 tenants took %.2f s of CPU time" % (cpu_seconds(f) - before))


def cpu_seconds(f):
    with open("/proc/%d/stat" % f.process.pid) as stat:
        return sum(map(int, stat.read().rpartition(")")[2].split()[11:13])) / os.sysconf("SC_CLK_TCK")
