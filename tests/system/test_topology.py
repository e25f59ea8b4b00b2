"""Six processes from the files of deploy/examples: what is missing is said, and what two ingesters have counts once."""
import glob
import os
import re
import shutil
import signal
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import urlencode

import cli
import pytest
from client import CPU, PUSH, Pprof, now_ms, pb, select
from flametree import AT_ONCE, SAYS_SOON, Cluster, await_, compact, expire, flush

HOUR_AGO = lambda: {"start": now_ms() - 1_800_000, "end": now_ms() + 300_000}
PODS = 24  # label sets of SERVICE: each ingester owns some of them
SERVICE = "shop"


def push_pods(s, service, value=1, expected=200):
    """A few at a time."""
    def push(i):
        return s.push({"__name__": "process_cpu", "service_name": service, "pod": "p%d" % i}, Pprof(("main;work", value))).expect(expected)
    with ThreadPoolExecutor(8) as pool:
        return list(pool.map(push, range(PODS)))[-1]


def ask(s, service, **headers):
    return s.query("SelectMergeStacktraces", headers, profileTypeID=CPU, labelSelector=select(service), **HOUR_AGO())


def ask_in(s, service, headers, good):
    """An answer within a second or two, which a busy machine may need more of: a good one, or the last of some that had more and more time."""
    for ms in (1500, 6000, 24000):
        reply = ask(s, service, **{"Connect-Timeout-Ms": str(ms), **headers})
        if good(reply):
            break
    return reply


ALLOW, DENY = {"Flametree-Partial": "allow"}, {"Flametree-Partial": "deny"}


def marked(reply, *names):
    """An answer that is given, and says that exactly these ingesters are missing and since when."""
    reply.expect(200)
    assert reply.headers["Flametree-Missing"] == ", ".join(names) and reply.headers["Flametree-Exact"].startswith("partial=" + names[0]), reply.headers
    assert reply.headers["Flametree-Missing-Since"].endswith("Z"), reply.headers
    return reply


def every_kind(s, service):
    """Name -> a question of that kind, which takes headers."""
    base = {"profileTypeID": CPU, "labelSelector": select(service), **HOUR_AGO()}
    times = HOUR_AGO()
    path = lambda name, **kw: lambda h: s.call("GET", "/pyroscope/%s?%s" % (name, urlencode(kw)), headers=h)
    rpc = lambda method, **kw: lambda h: s.query(method, h, **kw)
    of = {"query": CPU + select(service), "from": "now-20m", "until": "now"}
    sides = {side + k: v for side in ("left", "right") for k, v in (("Query", of["query"]), ("From", "now-20m"), ("Until", "now"))}
    return {
        "tree": rpc("SelectMergeStacktraces", **base), "pprof": rpc("SelectMergeProfile", **base), "series": rpc("SelectSeries", **base, step=15),
        "heat map": rpc("SelectHeatmap", **base, step=60, queryType="HEATMAP_QUERY_TYPE_INDIVIDUAL"), "diff": rpc("Diff", left=base, right=base),
        "spans": rpc("SelectMergeSpanProfile", **base, spanSelector=["00000000000000aa"]), "label names": rpc("LabelNames", matchers=[select(service)], **times),
        "label values": rpc("LabelValues", name="pod", matchers=[select(service)], **times), "labels": rpc("Series", matchers=[select(service)], **times),
        "types": rpc("ProfileTypes", **times), "stats": rpc("GetProfileStats"), "analysis": rpc("AnalyzeQuery", query=CPU + select(service), **times),
        "render": path("render", **of), "render-diff": path("render-diff", **sides), "values": path("label-values", label="pod", query=select(service)),
    }


def loose_rows(c):
    return c["querier"].metric("flametree_querier_loose_rows_total") or 0


@pytest.fixture
def cluster():
    with Cluster() as c:
        yield c


def test_an_ingester_that_is_away_is_said_and_its_data_come_back(cluster):
    s, service = cluster.server(), SERVICE
    push_pods(s, service)
    assert all(m.metric("flametree_ingester_head_series") for m in cluster.ingesters()), "the pods are not spread"
    cluster["ingester-2"].kill()
    before = {}
    for headers in ({}, ALLOW, {}):
        reply = marked(ask(s, service, **headers), "ingester-2")
        assert reply.headers["Flametree-Exact"] == "partial=ingester-2 did not answer", reply.headers
        before.setdefault("profiles", int(reply.headers["Flametree-Profiles"]))
        assert 0 < int(reply.headers["Flametree-Profiles"]) == before["profiles"] < PODS
    ask(s, service, **DENY).expect(503, "missing: ingester-2 (", code="unavailable")
    query = 'cpu{service_name="%s"}' % service
    said = cli.fails(1, "diff", query, query, "--fail-above", "50", url=s.query_url)  # a gate must not pass on a part
    assert "--fail-above cannot compare them" in said and "ingester-2 did not answer" in said, said
    push_pods(s, service)  # others take what is its
    cluster.start()
    assert s.stacks(service) == {"main;work": 2 * PODS}


def test_every_kind_of_query_is_marked_or_refused_alike(cluster):
    s, service = cluster.server(), SERVICE
    push_pods(s, service)
    for kind, question in every_kind(s, service).items():
        reply = question(DENY).expect(200)
        assert "Flametree-Missing" not in reply.headers, (kind, reply.headers)
    cluster["ingester-2"].kill()
    for kind, question in every_kind(s, service).items():
        for headers in ({}, ALLOW):
            reply = question(headers)
            assert reply.status == 200, (kind, reply)
            marked(reply, "ingester-2")
        question(DENY).expect(503, "missing: ingester-2 (", code="unavailable")
    cluster["querier"].stop()
    cluster["querier"].args.append("--querier.incomplete=refuse")
    cluster["querier"].start()
    s = cluster.server()
    for question in every_kind(s, service).values():
        question({}).expect(503, "missing: ingester-2 (", code="unavailable")
        marked(question(ALLOW), "ingester-2")


def test_an_ingester_that_never_ran_is_not_missed():
    """It has registered no stream, so nothing was acknowledged there."""
    c = Cluster()
    try:
        for name in ("ingester-1", "ingester-3", "distributor", "querier"):
            c[name].start(wait=False)
        for m in c.members.values():
            if m.process:
                m.await_ready()
        s, service = c.server(), SERVICE
        push_pods(s, service)
        whole = ask(s, service).expect(200)
        assert (whole.headers["Flametree-Exact"], whole.headers["Flametree-Profiles"]) == ("exact", str(PODS))
        c.start()
        assert s.stacks(service) == {"main;work": PODS}
    finally:
        c.stop()
        c.__exit__(None, None, None)


def test_without_any_ingester_nothing_is_accepted_and_only_the_store_answers(cluster):
    s, service = cluster.server(), SERVICE
    for m in cluster.ingesters():
        m.kill()
    reply = push_pods(s, service, expected=503)
    assert reply.json()["code"] == "unavailable" and "ingester" in reply.message(), reply
    for headers in ({}, ALLOW):
        left = marked(ask(s, service, **headers), "ingester-1", "ingester-2", "ingester-3")
        assert left.headers["Flametree-Profiles"] == "0"
    ask(s, service, **DENY).expect(503, "missing: ingester-1, ingester-2, ingester-3", code="unavailable")
    cluster.start()
    assert s.stacks(service) == {}


def test_an_ingester_that_hangs_is_said_in_time(cluster):
    s, service = cluster.server(), SERVICE
    push_pods(s, service)
    cluster["ingester-1"].signal(signal.SIGSTOP)
    try:
        late = ask_in(s, service, DENY, lambda reply: "ingester-1" in reply.message())
        assert late.status in (503, 504) and "ingester-1" in late.message(), late
        for headers in ({}, ALLOW):
            marked(ask_in(s, service, headers, lambda reply: reply.headers.get("Flametree-Missing") == "ingester-1"), "ingester-1")
    finally:
        cluster["ingester-1"].signal(signal.SIGCONT)
    assert s.stacks(service) == {"main;work": PODS}


def test_an_ingester_with_an_empty_data_directory_serves_anew_and_answers_are_marked(cluster):
    s, service = cluster.server(), SERVICE
    push_pods(s, service)
    gone = cluster["ingester-3"]
    mine = gone.metric("flametree_ingester_head_rows")
    gone.kill()
    for name in os.listdir(gone.data):
        if name != "test.log":
            shutil.rmtree(os.path.join(gone.data, name), ignore_errors=True)
    cluster.start()
    assert mine > 0
    reply = ask(s, service).expect(200)
    assert reply.headers["Flametree-Profiles"] == str(int(PODS - mine)), reply.headers
    assert re.fullmatch(r"partial=ingester-3: data directory \w{26} of \S+Z is gone", reply.headers["Flametree-Exact"]), reply.headers
    push_pods(s, service)
    assert ask(s, service).expect(200).headers["Flametree-Profiles"] == str(int(2 * PODS - mine))


def test_an_ingester_at_a_new_address_is_found_by_its_registration(cluster):
    s, service = cluster.server(), SERVICE
    push_pods(s, service)
    moved, old = cluster["ingester-2"], ":4073"
    moved.stop()
    moved.args += ["--internal.listen", cluster.host + ":4173"]
    moved.start()
    def found():
        reply = ask(s, service).expect(200)
        exact = reply.headers["Flametree-Exact"] == "exact"
        return exact or not marked(reply, "ingester-2")  # it does not count as dead yet at its old address
    await_("its new address to be asked", found)
    push_pods(s, service)
    for name in ("querier", "distributor"):
        cluster[name].stop()
        with open(cluster.config_file(name)) as f:
            text = f.read()
        assert old in text
        with open(cluster.config_file(name), "w") as f:
            f.write(text.replace(old, ":4173"))
    cluster.start()
    assert s.stacks(service) == {"main;work": 2 * PODS}


def with_list(cluster, *ids):
    querier = cluster["querier"]
    querier.stop()
    ports = {"ingester-1": 4071, "ingester-2": 4073, "ingester-3": 4075}
    members = ",".join("%s=%s:%d" % (name, cluster.host, ports[at]) for name, at in ids)
    querier.args = [*querier.args, "--cluster.ingesters", members]
    querier.start()


def test_a_querier_with_two_names_for_one_says_so(cluster):
    s, service = cluster.server(), SERVICE
    push_pods(s, service)
    with_list(cluster, ("ingester-1", "ingester-1"), ("ingester-2", "ingester-2"), ("ingester-3", "ingester-2"))
    reply = ask(s, service).expect(503, "missing: ingester-3", code="unavailable")
    assert "answers ingester-2" in reply.message(), reply


def test_a_querier_whose_list_lacks_one_finds_it_in_the_store(cluster):
    s, service = cluster.server(), SERVICE
    push_pods(s, service)
    with_list(cluster, ("ingester-1", "ingester-1"), ("ingester-2", "ingester-2"))
    reply = ask(s, service).expect(200)
    assert (reply.headers["Flametree-Exact"], int(reply.headers["Flametree-Profiles"])) == ("exact", PODS)


# ---- exactly once

def push_with_id(s, service, i, ident, at):
    """One profile of millisecond `at` under a client's id, the same bytes for the same arguments."""
    profile = Pprof(("main;work", 1 + i), time_ns=at * 10**6).encode()
    labels = [("__name__", "process_cpu"), ("service_name", service), ("pod", "p%d" % i)]
    series = pb((1, [pb((1, k), (2, v)) for k, v in labels]), (2, pb((1, profile), (2, ident))))
    return s.call("POST", PUSH, pb((1, series)), {"Content-Type": "application/proto"}, push=True)


def everything(s, service):
    """What the kinds of question say of a service: sum of the tree, number of profiles, sum of the series, sum of the pprof."""
    reply = ask(s, service).expect(200)
    points = s.ok("SelectSeries", profileTypeID=CPU, labelSelector=select(service), step=15, **HOUR_AGO()).get("series", [])
    return (sum(s.stacks(service).values()), int(reply.headers["Flametree-Profiles"]), sum(int(p["value"]) for row in points for p in row["points"]),
            sum(v[0] for v in s.export(service)["stacks"].values()))


def push_all(s, service, name, at):
    """A profile of each pod. What no ingester took in time is sent again with its id, as often as it takes on a busy machine."""
    def push(i):
        await_("a push to be taken", lambda: push_with_id(s, service, i, "%s-%d" % (name, i), at).expect((200, 503, 504)).status == 200)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(push, range(PODS)))


def test_what_an_ingester_stores_after_others_did_counts_once():
    """One ingester acknowledges its first append so late that others have got the same rows meanwhile. Then it is stopped while all pods push: when it
    goes on, it stores what it had received, unless it sees first that nobody waits for it any more."""
    with Cluster("--distributor.append_timeout", "1500ms", env_of={"ingester-1": {"FLAMETREE_FAULTS": "append.ack.before=delay:50000@1"}}) as c:
        s, service, at = c.server(), SERVICE, now_ms() - 300_000
        push_all(s, service, "late", at)
        assert c["distributor"].metric('flametree_distributor_appends_total{result="passed"}') > 0
        c["ingester-1"].signal(signal.SIGSTOP)
        try:
            push_all(s, service, "stopped", at + 1)
        finally:
            c["ingester-1"].signal(signal.SIGCONT)
        value = 2 * sum(1 + i for i in range(PODS))
        want = (value, 2 * PODS, value, value)
        assert everything(s, service) == want
        assert loose_rows(c) > 0
        for m in c.ingesters():
            m.kill()
        c["ingester-1"].env.pop("FLAMETREE_FAULTS")
        c.start()
        assert everything(s, service) == want


def test_an_upload_repeated_with_its_id_counts_once_wherever_it_goes(cluster):
    s, service, at = cluster.server(), SERVICE, now_ms() - 300_000
    want = sum(1 + i for i in range(PODS))
    for i in range(PODS):
        push_with_id(s, service, i, "id-%d" % i, at).expect(200)
    assert everything(s, service) == (want, PODS, want, want)
    mine = cluster["ingester-1"].metric("flametree_ingester_head_rows")
    cluster["ingester-1"].kill()
    for _ in range(2):
        for i in range(PODS):
            push_with_id(s, service, i, "id-%d" % i, at).expect(200)
    others = sum(cluster[n].metric("flametree_ingester_head_rows") for n in ("ingester-2", "ingester-3"))
    assert mine + others > PODS, "nothing was stored twice"
    cluster.start()
    assert everything(s, service) == (want, PODS, want, want)


def test_a_copy_that_comes_back_after_its_raw_block_had_its_time_counts_once():
    """Rows that two ingesters have, one of which dies with its copies in its log. Until it has flushed them the raw blocks with the others' stay."""
    day = 86_400_000
    at = (now_ms() // day - 4) * day + day // 2
    with Cluster(*AT_ONCE, SAYS_SOON, "--compactor.raw_retention=24h", "--compactor.interval=1h", "--distributor.append_timeout=1500ms") as c:
        s, service, gone, compactor = c.server(), SERVICE, c["ingester-1"], c["compactor"]
        raw = lambda: glob.glob(os.path.join(c.folder, "data/store/o/v1/*/*/raw/*/*"))
        status = lambda: compactor.operator().call("GET", "/compactor/status").expect(200).json()
        want = sum(1 + i for i in range(PODS))
        for i in range(PODS):
            push_with_id(s, service, i, "id-%d" % i, at).expect(200)
        assert gone.metric("flametree_ingester_head_rows") > 0
        gone.kill()
        for i in range(PODS):
            push_with_id(s, service, i, "id-%d" % i, at).expect(200)
        for name in ("ingester-2", "ingester-3"):
            c[name].operator().call("POST", "/ingester/flush?wait=true", b"").expect(200)

        def waits_for_it():
            compact(c)
            awaited = {d["node"] for d in status().get("awaited_streams", [])}
            return awaited == {"ingester-1"}
        await_("the compactor to wait for no other one", waits_for_it, 60)
        assert raw() and compactor.metric("flametree_compactor_held_raw_blocks") > 0
        page = compactor.operator().call("GET", "/compactor").expect(200).text
        assert "past " in page and " of ingester-1" in page, page
        gone.start()
        flush(c)
        expire(c)
        assert raw() == [] and "awaited" not in str(status().get("tenants"))
        reply = s.query("SelectMergeStacktraces", {}, profileTypeID=CPU, labelSelector=select(service), start=at - day // 2 - 1, end=at + day // 2 - 1).expect(200)
        assert reply.headers["Flametree-Exact"] == "exact" and int(reply.json()["flamegraph"]["total"]) == want, (reply.headers, want)


def test_too_many_rows_of_two_ingesters_are_named():
    with Cluster("--querier.loose_max", "1") as c:
        s, service = c.server(), SERVICE
        c["ingester-1"].kill()
        push_pods(s, service)
        c.start()
        reply = ask(s, service).expect(200)
        assert "more than 1 rows of repeated pushes may count twice" in reply.headers["Flametree-Missing"], reply.headers
        # Nobody has them twice here, and all are there.
        assert int(reply.json()["flamegraph"]["total"]) == PODS
        ask(s, service, **DENY).expect(429, "may count twice", code="resource_exhausted")
