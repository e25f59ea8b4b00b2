"""A service that loses requests and answers: whatever happens, each acknowledged profile counts once."""
import random

import pytest
from bucket import on_bucket, push, total
from client import unique
from flametree import await_, flush
from fleet import SEED, Fleet
from s3_proxy import S3Proxy

TROUBLES = {
    "requests are lost before and after they are carried out": {"drop": 0.05, "lost": 0.1},
    "the service is busy or breaks": {"busy": 0.1, "landed": 0.1},
    "answers are cut": {"cut": 0.1},
    "bytes are wrong": {"wrong": 0.1},
    "all of it": {"drop": 0.03, "lost": 0.03, "busy": 0.03, "landed": 0.03, "cut": 0.03},
}


@pytest.mark.parametrize("name", TROUBLES)
def test_answers_equal_brute_force_whatever_the_service_does(service, name):
    rng = random.Random(SEED)
    with S3Proxy(service.url) as proxy, on_bucket(service, "--compactor.leaf_delay=0s", endpoint=proxy.url) as f:
        fleet = Fleet(rng, f.server(), unique("trouble"))
        proxy.trouble = TROUBLES[name]
        for _ in range(3):
            fleet.push(25)
            await_("a flush that comes through", lambda: f.operator().call("POST", "/ingester/flush?wait=true", b"").status == 200, 120)
            for _ in range(25):
                fleet.check_one()
            await_("compaction", lambda: f.operator().call("POST", "/compactor/run?timeout=20s").status == 200, 120)
            for _ in range(25):
                fleet.check_one()
        assert sum(proxy.done.values()) > 0
        proxy.trouble = {}


def test_pushes_go_on_while_the_service_is_away_and_are_flushed_when_it_is_back(service):
    with S3Proxy(service.url) as proxy, on_bucket(service, "--ingester.cut_age=1s", endpoint=proxy.url) as f:
        push(f.server(), 5)
        flush(f)
        proxy.away = True
        push(f.server(), 5, 5)
        assert f.operator().call("POST", "/ingester/flush?wait=true&timeout=2s", b"").status != 200
        push(f.server(), 5, 10)
        proxy.away = False
        await_("the flush", lambda: f.operator().call("POST", "/ingester/flush?wait=true", b"").status == 200, 120)
        assert total(f.server()) == sum(range(1, 16))
