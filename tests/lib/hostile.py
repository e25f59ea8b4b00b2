"""What tests of hostile clients share: an honest neighbour, and the proof that nothing is left of the others."""
import json
import os
import urllib.error

from client import Pprof, Server, now_ms, unique
from flametree import await_

MIB = 1 << 20
LEAN = {"ASAN_OPTIONS": os.environ.get("ASAN_OPTIONS", "detect_leaks=1") + ":quarantine_size_mb=1"}  # so that memory that was given back is not counted
MERGE = "/querier.v1.QuerierService/SelectMergeProfile"
STATES = ("head", "body", "queued", "running", "held", "answer")


def ask(wire):
    """A client within the limits; full workers may send it away for a moment, as they do with everybody."""
    def answered():
        wire.send(b"GET /ready HTTP/1.1\r\nHost: a\r\n\r\n")
        answer = wire.answer()
        assert answer.status in (200, 429), answer
        return answer.status == 200
    await_("a neighbour's answer", answered)


def idle(f, connections=None):
    """Waits until nothing is left of any request but the one that looks, nor of connections beyond so many."""
    def quiet():
        try:
            left = sum(f.metric('flametree_net_exchanges{state="%s"}' % state) or 0 for state in STATES)
            open_ = f.metric('flametree_net_connections{listener="public"}')
            return left <= 1 and (connections is None or open_ <= connections + 1)
        except urllib.error.HTTPError as refused:
            assert refused.code == 429, refused
            return False  # while all memory is in use
    await_("the end of all requests", quiet)
    await_("requests' memory to be given back", lambda: f.metric('flametree_memory_bytes{budget="requests"}') < 65536)
    assert f.metric('flametree_memory_bytes{budget="refusals"}') == 0


def push_large(f):
    """A service whose merged profile has more than a MiB; sets f.question, the body that asks MERGE for it."""
    service = unique()
    profile = Pprof(*[("%s%d" % ("f" * 2000, i), 1) for i in range(600)])
    Server(f.url, f.push_url, f.url, None, strict=True).push({"__name__": "process_cpu", "service_name": service}, profile).expect(200)
    f.question = json.dumps({"profileTypeID": "process_cpu:cpu:nanoseconds:cpu:nanoseconds", "labelSelector": '{service_name="%s"}' % service,
                             "start": now_ms() - 3600_000, "end": now_ms() + 3600_000}).encode()
