"""What a node knows of its cluster (GET /cluster), and where a distributor sends a series (flametree place): both say what really happens."""
import datetime
import json
import os
import re
import signal
import subprocess
import time

import pytest
from client import PUSH, Pprof, now_ms, pb
from dns import Dns
from flametree import BIN, AT_ONCE, Cluster, Flametree, await_

SERVICE = "_internal._tcp.ingesters.test"
INGESTERS = ("ingester-1", "ingester-2", "ingester-3")
PORTS = (4071, 4073, 4075)  # of internal.listen in deploy/examples


@pytest.fixture(scope="module")
def cluster():
    with Cluster("--cluster.probe_interval=200ms", spread=False) as c:
        yield c


def told(m):
    return m.operator().call("GET", "/cluster").expect(200).json()


def page(m):
    return m.operator().call("GET", "/cluster", headers={"Accept": "text/html,*/*;q=0.8"}).expect(200)


def members(m):
    return {x["id"]: x for x in told(m)["members"]}


def states(m):
    return {name: x["state"] for name, x in members(m).items()}


def all_alive(*names):
    return dict.fromkeys(names or INGESTERS, "alive")


def seconds(text):
    return datetime.datetime.strptime(text, "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=datetime.timezone.utc).timestamp()


def version(m):
    return m.server().call("GET", "/api/v1/status/buildinfo").expect(200).json()["data"]["version"]


def test_what_is_not_stored_is_told_by_the_distributor(cluster):
    """A querier knows no distributors, and says so; the page shows that."""
    cluster["distributor"].server().ingest("told", b"main;work 3\nno number\n", sampleRate="1000000000").expect(200)
    (row,) = cluster["distributor"].server().call("GET", "/distributor/losses").expect(200).json()["losses"]
    assert (row["reason"], row["kind"], row["parts"]) == ("bad_line", "left_out", 1), row
    q = cluster["querier"].server()
    answer = q.call("GET", "/distributor/losses").expect(200).json()
    assert answer["losses"] is None and "by each distributor" in answer["note"], answer
    q.call("GET", "/distributor/other").expect(404)


def test_every_role_names_all_members(cluster):
    for name, m in cluster.members.items():
        await_("%s to know three ingesters" % name, lambda m=m: states(m) == all_alive())
        answer = told(m)
        node = answer["node"]
        assert node["id"] == name and node["services"] == [name.split("-")[0]] and node["ready"] and node["version"] == version(m) and 0 <= node["load"] <= 1, node
        assert len(node["boot"]) == len(node["directory"]) == 26 and node["address"].startswith(cluster.host), node
        text = page(m).text
        for x in answer["members"]:
            assert x["kind"] == "ingester" and x["source"] == "list" and x["self"] == (x["id"] == name) and x["id"] in text and x["address"] in text, x
            assert abs(seconds(x["since"]) - time.time()) < 600, x
            if not x["self"]:
                await_("an answer to a probe", lambda m=m, x=x: members(m)[x["id"]]["last_answer"])
                last = members(m)[x["id"]]["last_answer"]
                other = told(cluster[x["id"]])["node"]
                assert {k: last[k] for k in ("version", "boot", "directory", "cluster", "services")} == {k: other[k] for k in ("version", "boot", "directory", "cluster", "services")}
                assert last["ready"] and 0 <= last["load"] <= 1
        assert {x["service"] for x in answer["backlog"]} == ({name.split("-")[0]} & {"ingester", "compactor"})


def test_streams_are_told_with_the_state_of_their_process(cluster):
    q = cluster["querier"]

    def processes(state):
        streams = told(q)["streams"]
        return {x["node"] for x in streams if x["process"] == state and x["log"] == "local" and len(x["stream"]) == 26 and x["made"]}
    await_("all ingesters to have a stream", lambda: processes("alive") == {"ingester-1", "ingester-2", "ingester-3"})
    ids = lambda: {x["stream"] for x in told(q)["streams"]}
    before, text, after = ids(), page(q).text, ids()
    assert before & after and all(stream in text for stream in before & after)
    counted = told(q)["registrations"]
    assert counted["streams"] >= 3 and counted["unread"] == 0 and abs(seconds(counted["listed"]) - time.time()) < 600, counted
    assert q.metric('flametree_manifest_registered_streams{reader="page"}') >= 3
    assert told(cluster["distributor"])["streams"] is None and "registrations" not in told(cluster["distributor"])  # it has no store
    ingester = cluster["ingester-2"]
    assert "ingester-2" in {x["node"] for x in told(ingester)["streams"] if x["process"] == "this node"}
    ingester.kill()
    await_("its streams to be of a dead process", lambda: "ingester-2" in processes("dead"))
    ingester.start()
    await_("streams of the new process", lambda: "ingester-2" in processes("alive"))


def test_the_page_is_for_people_and_json_for_programs(cluster):
    q = cluster["querier"]
    reply = page(q)
    assert reply.headers["Content-Type"].startswith("text/html") and "default-src 'none'" in reply.headers["Content-Security-Policy"] and "Accept" in reply.headers["Vary"]
    assert "<h1>Cluster</h1>" in reply.text and ">this node<" not in reply.text and re.search(r"3 of 3 are alive and ready", reply.text)
    for path, headers in (("/cluster", {}), ("/cluster", {"Accept": "*/*"}), ("/cluster?format=json", {"Accept": "text/html"})):
        assert q.operator().call("GET", path, headers=headers).expect(200).headers["Content-Type"] == "application/json"
    assert "<h1>" in q.operator().call("GET", "/cluster?format=html").expect(200).text
    q.operator().call("GET", "/cluster?format=xml").expect(400, "must be json or html")
    assert ">this node<" in page(cluster["ingester-1"]).text


def test_who_waits_for_what(cluster):
    s = cluster.server()
    s.push({"__name__": "process_cpu", "service_name": "waits"}, Pprof(("a;b", 5))).expect(200)
    waits = lambda: sum(x["amount"] for m in cluster.ingesters() for x in told(m)["backlog"] if x["what"] == "bytes_in_log")
    assert waits() > 0
    for m in cluster.ingesters():
        m.operator().call("POST", "/ingester/flush").expect(200)
    await_("an empty log", lambda: waits() == 0)


def test_a_dead_member_is_shown_with_the_reason(cluster):
    victim = cluster["ingester-2"]
    others = [m for name, m in cluster.members.items() if name != "ingester-2"]
    boot = told(victim)["node"]["boot"]
    for m in others:
        await_("all alive", lambda m=m: states(m) == all_alive())
    victim.kill()
    for m in others:
        x = await_("the death", lambda m=m: (lambda x: x if x["state"] == "dead" else None)(members(m)["ingester-2"]))
        assert x["failures_in_a_row"] >= 3 and "onnect" in x["last_failure"]["why"], x
        assert abs(seconds(x["last_failure"]["at"]) - time.time()) < 60 and seconds(x["heard"]) <= seconds(x["since"]) <= seconds(x["last_failure"]["at"]), x
        assert x["last_answer"]["boot"] == boot
        row = next(line for line in page(m).text.splitlines() if "<td>ingester-2" in line)
        assert re.search(r'class="ill">dead<br><small>for \d+ s', row) and "onnect" in row and " ago" in row, row
        assert "2 of 3 are alive" in page(m).text
    victim.start()
    for m in others:
        await_("the return", lambda m=m: states(m) == all_alive())
        x = await_("the new boot", lambda m=m: (lambda x: x if x["last_answer"]["boot"] != boot else None)(members(m)["ingester-2"]))
        assert x["failures_in_a_row"] == 0 and x["last_failure"] and seconds(x["since"]) >= seconds(x["last_failure"]["at"]), x


def test_a_member_that_stands_still_is_shown_too(cluster):
    victim, d = cluster["ingester-3"], cluster["distributor"]
    await_("all alive", lambda: states(d) == all_alive())
    victim.process.send_signal(signal.SIGSTOP)
    try:
        x = await_("the death", lambda: (lambda x: x if x["state"] == "dead" else None)(members(d)["ingester-3"]))
        assert "was not answered in time" in x["last_failure"]["why"] or "said nothing" in x["last_failure"]["why"], x
    finally:
        victim.process.send_signal(signal.SIGCONT)
    await_("the return", lambda: states(d) == all_alive())


def test_names_and_what_they_answered():
    with Dns() as dns:
        c = Cluster("--cluster.dns_servers=" + dns.address, "--cluster.dns_interval=200ms", "--cluster.probe_interval=200ms", env={"FLAMETREE_CLUSTER_INGESTERS": "dns:" + SERVICE})
        dns.srv[SERVICE] = [(c.host, port) for port in PORTS]
        with c:
            q = c["querier"]
            await_("three ingesters", lambda: states(q) == all_alive())
            assert all(x["source"] == "name" for x in members(q).values())
            name, = told(q)["names"]
            assert name["kind"] == "ingester" and name["name"] == "dns:" + SERVICE and name["state"] == "found" and len(name["addresses"]) == 3 and name["found"], name
            dns.mode = "servfail"
            name = await_("a look-up that fails", lambda: (lambda n: n if n["state"] == "failing" else None)(told(q)["names"][0]))
            assert name["why"] and name["failed"] and len(name["addresses"]) == 3, name
            text = page(q).text
            assert "dns:" + SERVICE in text and ">failing<" in text and "found by name" in text
            dns.mode = "answer"
            await_("a look-up that works", lambda: told(q)["names"][0]["state"] == "found")


def test_the_all_in_one_is_its_own_member():
    with Flametree(*AT_ONCE) as f:
        answer = told(f)
        assert len(answer["node"]["services"]) == 4 and [x["self"] for x in answer["members"] if x["kind"] == "ingester"] == [True]
        assert {x["service"] for x in answer["backlog"]} == {"ingester", "compactor"}
        assert ">this node<" in page(f).text
        done = place(f, '{service_name="shop"}')
        assert [x["of"] for x in done["order"]] == ["service"] and done["settled"] and done["home"] == done["order"][0]["ingester"]


# ---- flametree place

def run(m, *args):
    return subprocess.run([os.path.join(BIN, "flametree"), "place", "--url", m.admin_url, *args], capture_output=True, text=True, timeout=60)


def place(m, labels, *args):
    done = run(m, "--labels", labels, "--format", "json", *args)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def profiles(m):
    return m.metric("flametree_ingester_append_profiles_total") or 0


def push(c, pod, id=""):
    labels = [("__name__", "process_cpu"), ("service_name", "placed"), ("pod", pod)]
    series = pb((1, [pb((1, k), (2, v)) for k, v in labels]), (2, pb((1, Pprof(("main;work", 3), time_ns=now_ms() * 10**6).encode()), (2, id))))
    return c.server().call("POST", PUSH, pb((1, series)), {"Content-Type": "application/proto"}, push=True).expect(200)


def taker(c, pod, id=""):
    """The ingester that takes a push of this pod."""
    running = {name: c[name] for name in INGESTERS if c[name].process}
    before = {name: profiles(m) for name, m in running.items()}
    push(c, pod, id)
    grown = [name for name, m in running.items() if profiles(m) > before[name]]
    assert len(grown) == 1, grown
    return grown[0]


def of(pod):
    return '{service_name="placed",pod="%s"}' % pod


@pytest.mark.parametrize("spread", [False, True])
def test_the_first_of_the_order_gets_the_push(spread):
    with Cluster("--cluster.probe_interval=200ms", spread=spread) as c:
        d = c["distributor"]
        firsts = set()
        for i in range(6):
            pod = "p%d" % i
            for flags, id in (([], ""), (["--with-id"], "id-%d" % i)):
                answer = place(d, of(pod), *flags)
                order = [x["ingester"] for x in answer["order"]]
                assert sorted(order) == sorted(INGESTERS) and answer["labels"] == {"__name__": "process_cpu", "service_name": "placed", "pod": pod}
                assert taker(c, pod, id) == order[0], answer
                firsts.add(order[0])
                if flags:
                    assert answer["home"] == order[0] and answer["settled"], answer
        assert spread == (len(firsts) > 1) or not spread, firsts
        answer = place(d, of("p0"))
        assert [x["of"] for x in answer["order"]] == (["service"] * 3 if spread else ["service", "tenant", "others"])
        order = [x["ingester"] for x in answer["order"]]
        c[order[0]].kill()
        # Before the death is known the push is passed over, and after it the order is the one without the dead.
        assert taker(c, "p0") == order[1]
        after = await_("the death", lambda: (lambda a: a if a["order"][-1]["state"] == "dead" else None)(place(d, of("p0"))))
        assert [x["ingester"] for x in after["order"]] == order[1:] + order[:1] and after["order"][-1]["of"] == "last"
        assert taker(c, "p0") == order[1]


def test_place_in_words(cluster):
    d = cluster["distributor"]
    await_("all alive", lambda: states(d) == all_alive())
    order = [x["ingester"] for x in place(d, of("a"))["order"]]
    done = run(d, "--labels", of("a"))
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0] == "tenant   anonymous: 2 of 3 ingesters (its rate needs 1, and one more)" and lines[1] == "service  placed: 1 of these (its rate needs 1)", done.stdout
    assert re.match(r"home     ingester-\d: settled \(of profiles with an id of the client\)$", lines[2]), lines[2]
    assert [line.split()[1] for line in lines[5:]] == order and [line.split()[0] for line in lines[5:]] == ["1", "2", "3"]
    assert [re.split(r"  +", line.strip())[-1] for line in lines[5:]] == ["of the service", "of the tenant", "another one"]


def test_weights():
    """An ingester tells its weight, in the file too after a hangup: distributors place by it, and say so."""
    light = {"FLAMETREE_CLUSTER_WEIGHT": "1"}
    with Cluster("--cluster.probe_interval=200ms", env_of={"ingester-1": light, "ingester-2": light}) as c:
        d = c["distributor"]

        def weights():
            return {name: x.get("weight") for name, x in members(d).items()}
        await_("the weights", lambda: weights() == {"ingester-1": 1, "ingester-2": 1, "ingester-3": 100})
        assert "weight 1<" in page(d).text and "weight 100" not in page(d).text
        firsts = [place(d, of("p%d" % i))["order"][0] for i in range(30)]
        assert sum(x["ingester"] == "ingester-3" for x in firsts) >= 26, firsts
        assert {x["weight"] for x in firsts} <= {1, 100}
        pods = [i for i in range(30) if firsts[i]["ingester"] == "ingester-3"]
        assert taker(c, "p%d" % pods[0]) == "ingester-3"
        words = run(d, "--labels", of("p0")).stdout.splitlines()
        assert words[-1] == "Weights differ (cluster.weight): of everything that may go to all ingesters, one gets its weight of 102.", words
        with open(c.config_file("ingester-3")) as f:
            whole = f.read()
        with open(c.config_file("ingester-3"), "w") as f:
            f.write(whole.replace("cluster:\n", "cluster:\n  weight: 2\n"))
        c["ingester-3"].process.send_signal(signal.SIGHUP)
        await_("the weight", lambda: weights()["ingester-3"] == 2)
        assert weights() == {"ingester-1": 1, "ingester-2": 1, "ingester-3": 2}


def test_a_home_that_is_not_settled():
    with Cluster("--cluster.settle_time=1h", "--cluster.probe_interval=200ms", spread=False) as c:
        answer = place(c["distributor"], of("a"), "--with-id")
        assert not answer["settled"] and answer["past_unknown"] and answer["home"] in INGESTERS
        assert "not settled" in run(c["distributor"], "--labels", of("a")).stdout


@pytest.mark.parametrize("args, words", [
    ([], "--labels is missing"), (["--labels", ""], "labels is missing"), (["--labels", "{a=~\"b\"}"], "only = is"), (["--labels", "{a="], "labels"),
    (["--labels", '{a="b"}', "--type", "cpu"], "type"), (["--labels", '{a="b"}', "--tenant", "a/b"], "tenant"), (["--labels", '{a="b",a="c"}'], "duplicate label"),
])
def test_what_cannot_be_placed_is_refused(cluster, args, words):
    done = run(cluster["distributor"], *args)
    assert done.returncode == (1 if args else 2) and words in done.stderr, done.stderr
    assert not done.stdout


def test_only_a_distributor_places(cluster):
    done = run(cluster["querier"], "--labels", of("a"))
    assert done.returncode == 1 and "only a distributor" in done.stderr
    cluster["distributor"].operator().call("GET", "/distributor/place?labels=%7B%7D&id=maybe").expect(400, "id is 'maybe'")


def test_rules_of_the_tenant_are_followed():
    """Which service a series has, and whether it is stored at all, is what they say."""
    rules = json.dumps([{"source_labels": ["pod"], "regex": "gone", "action": "drop"}, {"source_labels": ["team"], "target_label": "service_name", "action": "replace", "regex": "(.+)"}])
    with Flametree("--limits.ingestion_relabeling_rules=" + rules) as f:
        assert place(f, '{service_name="shop",team="red"}')["service"] == "red"
        done = run(f, "--labels", '{service_name="shop",pod="gone"}')
        assert done.returncode == 1 and "drop" in done.stderr, done.stderr
