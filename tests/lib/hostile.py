"""What tests of hostile clients share: an honest neighbour, and the proof that nothing is left of the others."""
import json
import os
import urllib.error
import urllib.request

from client import Pprof, Server, now_ms, unique
from flametree import await_

MIB = 1 << 20
LEAN = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "detect_leaks=1") + ":quarantine_size_mb=1"}  # so that memory that was given back is not counted
MERGE = "/querier.v1.QuerierService/SelectMergeProfile"
STATES = ("head", "body", "queued", "running", "held", "answer")


def ask(wire):
    """A client within the limits; full workers may send it away for a moment, as they do with everybody."""
    def answered():
        wire.send(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
        answer = wire.answer()
        assert answer.status in (200, 429), answer
        return answer.status == 200
    await_("a neighbour's answer", answered)


def metrics(f):
    """All of them by name; nothing while the server has room for no one, not even for who asks this."""
    try:
        with urllib.request.urlopen(f.admin_url + "/metrics", timeout=10) as answer:
            lines = (line.rpartition(" ") for line in answer.read().decode().splitlines() if not line.startswith("#"))
            return {key: float(value) for key, _, value in lines}
    except urllib.error.HTTPError as refused:
        assert refused.code in (429, 503), refused
    except OSError:
        pass
    return {}


def idle(f, connections=None, meanwhile=lambda: None):
    """Waits until nothing is left of any request but the one that looks, of what they kept, nor of connections beyond so many."""
    def quiet():
        meanwhile()
        m = metrics(f)
        if not m or sum(m.get('flametree_net_exchanges{state="%s"}' % state, 0) for state in STATES) > 1:
            return False
        if connections is not None and m['flametree_net_connections{listener="public"}'] > connections + 1:
            return False
        if m.get('flametree_memory_bytes{budget="answers"}', 0) > 65536:
            return False
        return m['flametree_memory_bytes{budget="requests"}'] < 65536 and m['flametree_memory_bytes{budget="refusals"}'] == 0
    await_("the end of all requests, and their memory to be given back", quiet)


def push_large(f, tenant=None):
    """A service whose merged profile has more than a MiB; sets f.question, the body that asks MERGE for it."""
    service = unique()
    profile = Pprof(*[("%s%d" % ("f" * 2000, i), 1) for i in range(600)])
    service = getattr(f, "large", service) if tenant else service
    f.large = service
    Server(f.url, f.push_url, f.url, tenant, strict=True).push({"__name__": "process_cpu", "service_name": service}, profile).expect(200)
    f.question = json.dumps({"profileTypeID": "process_cpu:cpu:nanoseconds:cpu:nanoseconds", "labelSelector": '{service_name="%s"}' % service,
                             "start": now_ms() - 3600_000, "end": now_ms() + 3600_000}).encode()
