"""Members that are found by name, and lists that are read again: nodes come, move and go while the process runs."""
import contextlib
import signal
import urllib.request

import pytest
from client import PUSH, Pprof, now_ms, pb, unique
from dns import Dns
from flametree import Cluster, await_

SERVICE, OF_DISTRIBUTOR = "_internal._tcp.ingesters.test", "_internal._tcp.homes.test"
PORTS = (4071, 4073, 4075)  # of internal.listen in deploy/examples


def alive(m, kind="ingester"):
    """{member id: seems alive} as the process sees them."""
    with urllib.request.urlopen(m.admin_url + "/metrics", timeout=60) as answer:
        lines = [line for line in answer.read().decode().splitlines() if line.startswith("flametree_cluster_member_alive{kind=\"%s\"" % kind)]
    return {line.split('member="')[1].split('"')[0]: line.endswith(" 1") for line in lines}


def all_alive(*names):
    return dict.fromkeys(names, True)


def events(m, event):
    with open(m.log) as f:
        return [line for line in f if "event=%s " % event in line]


def push(s, service, pod="p", at=None, id=""):
    profile = Pprof(("main;work", 3), time_ns=(at or now_ms()) * 10**6).encode()
    labels = [("__name__", "process_cpu"), ("service_name", service), ("pod", pod)]
    series = pb((1, [pb((1, k), (2, v)) for k, v in labels]), (2, pb((1, profile), (2, id))))
    return s.call("POST", PUSH, pb((1, series)), {"Content-Type": "application/proto"}, push=True)


@pytest.fixture
def dns():
    with Dns() as server:
        yield server


@contextlib.contextmanager
def cluster_of(dns, *flags):
    """The distributor has a name of its own, so that its list can be another one."""
    names = {"FLAMETREE_CLUSTER_INGESTERS": "dns:" + SERVICE}
    c = Cluster("--cluster.dns_servers=" + dns.address, "--cluster.dns_interval=200ms", "--cluster.probe_interval=200ms", *flags,
                env=names, env_of={"distributor": {"FLAMETREE_CLUSTER_INGESTERS": "dns:" + OF_DISTRIBUTOR}})
    for name in (SERVICE, OF_DISTRIBUTOR):
        dns.srv[name] = [(c.host, port) for port in PORTS]
    with c:
        yield c


@pytest.fixture
def cluster(dns):
    with cluster_of(dns) as c:
        yield c


def test_ingesters_are_found_and_take_pushes(dns, cluster):
    d, q = cluster["distributor"], cluster["querier"]
    three = all_alive("ingester-1", "ingester-2", "ingester-3")
    await_("three ingesters", lambda: alive(d) == three and alive(q) == three)
    s, service = cluster.server(), unique()
    await_("a push to be taken", lambda: push(s, service).status == 200)
    s.check(lambda: s.stacks(service), {"main;work": 3})
    dns.srv[OF_DISTRIBUTOR] = dns.srv[OF_DISTRIBUTOR][:2]
    two = all_alive("ingester-1", "ingester-2")
    await_("the third to be forgotten", lambda: alive(d) == two)
    assert any("id=ingester-3" in line for line in events(d, "member.gone"))
    dns.srv[OF_DISTRIBUTOR] = [(cluster.host, port) for port in PORTS]
    await_("the third again", lambda: alive(d) == three)


@pytest.mark.parametrize("mode", ["silent", "servfail", "empty", "nothing"])
def test_a_look_up_that_fails_changes_nothing(dns, cluster, mode):
    d = cluster["distributor"]
    three = all_alive("ingester-1", "ingester-2", "ingester-3")
    await_("three ingesters", lambda: alive(d) == three)
    kept = dns.srv[OF_DISTRIBUTOR]
    if mode == "empty":
        dns.srv[OF_DISTRIBUTOR] = []
    elif mode == "nothing":
        del dns.srv[OF_DISTRIBUTOR]
    else:
        dns.mode = mode
    failed = lambda: d.metric('flametree_cluster_look_ups_total{result="failed"}') or 0
    before = failed()
    await_("look-ups that fail", lambda: failed() >= before + 2)
    assert alive(d) == three and events(d, "member.name_fails") and not events(d, "member.gone")
    dns.srv[OF_DISTRIBUTOR], dns.mode = kept[:1], "answer"
    await_("one", lambda: alive(d) == all_alive("ingester-1"))
    assert events(d, "member.name_found")


def test_names_that_are_exchanged_are_noticed(dns, cluster):
    """An address that answers as another node: its own id is what counts."""
    d = cluster["distributor"]
    await_("three ingesters", lambda: len(alive(d)) == 3)
    cluster["ingester-1"].kill()
    await_("the death", lambda: alive(d) == {"ingester-1": False, "ingester-2": True, "ingester-3": True})
    # The name lags: it has the second's address twice, and that of nobody.
    dns.srv[OF_DISTRIBUTOR] = [(cluster.host, PORTS[1]), (cluster.host, 1), (cluster.host, PORTS[1])]
    await_("only the second", lambda: alive(d) == all_alive("ingester-2"))


def test_a_list_is_read_again():
    with Cluster("--cluster.probe_interval=200ms") as c:
        d = c["distributor"]
        three = all_alive("ingester-1", "ingester-2", "ingester-3")
        await_("three ingesters", lambda: alive(d) == three)
        with open(c.config_file("distributor")) as f:
            whole = f.read()
        for text, wanted in (([line for line in whole.splitlines(True) if "ingester-3=" not in line], all_alive("ingester-1", "ingester-2")), ([whole], three)):
            with open(c.config_file("distributor"), "w") as f:
                f.writelines(text)
            d.process.send_signal(signal.SIGHUP)
            await_("the list of the file", lambda wanted=wanted: alive(d) == wanted)
        s, service = c.server(), unique()
        await_("a push to be taken", lambda: push(s, service).status == 200)
        s.check(lambda: s.stacks(service), {"main;work": 3})


PODS = 24  # label sets: with three ingesters instead of two the homes of some are other ones


def test_a_push_that_is_repeated_after_a_change_counts_once(dns):
    with cluster_of(dns, "--cluster.settle_time=1m") as c:
        repeat_after_changes(dns, c)


def repeat_after_changes(dns, cluster):
    d, s, service, at = cluster["distributor"], cluster.server(), unique(), now_ms()
    three = dns.srv[OF_DISTRIBUTOR]
    loose = lambda: cluster["querier"].metric("flametree_querier_loose_rows_total") or 0

    def push_all():
        for i in range(PODS):
            await_("a push to be taken", lambda i=i: push(s, service, "p%d" % i, at, "id-%d" % i).status == 200)
        before = loose()
        s.check(lambda: s.stacks(service), {"main;work": 3 * PODS})
        return loose() > before

    await_("three ingesters", lambda: len(alive(d)) == 3)
    assert push_all()  # nobody knows which list others have used before
    for listed in (three[:2], three, three[1:]):
        dns.srv[OF_DISTRIBUTOR] = listed
        await_("the list of the name", lambda n=len(listed): len(alive(d)) == n)
        assert push_all()


def test_a_list_that_has_settled_makes_no_record_loose(dns):
    with cluster_of(dns, "--cluster.settle_time=2s") as c:
        wait_until_settled(c)


def wait_until_settled(cluster):
    d, s = cluster["distributor"], cluster.server()
    await_("three ingesters", lambda: len(alive(d)) == 3)
    loose = lambda: cluster["querier"].metric("flametree_querier_loose_rows_total") or 0

    def is_settled():
        service, before = unique(), loose()
        push(s, service, id="x").expect(200)
        s.check(lambda: s.stacks(service), {"main;work": 3})
        return loose() == before

    await_("no record to be loose", is_settled)
    # A restart knows what was used before.
    d.stop()
    d.start()
    await_("three ingesters again", lambda: len(alive(d)) == 3)
    assert is_settled()
