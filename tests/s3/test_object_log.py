"""A log in a bucket, behind something that says now and then that an object of it is not there, or serves something else: nothing of the log is lost."""
import os
import re

import pytest
from bucket import on_bucket
from client import CPU, Pprof, now_ms, select, unique
from flametree import await_
from s3_proxy import S3Proxy

PUSHES = 6
OWN = b'<?xml version="1.0" encoding="UTF-8"?><Error><Code>NoSuchKey</Code><Message>The specified key does not exist.</Message></Error>'
PAGE = b"404 page not found\n"
SERVED = b"<html><head><title>Log in</title></head></html>" * 200  # longer than an object of these
ANSWERS = {"own": (404, OWN), "page": (404, PAGE), "served": (200, SERVED, ("ETag", '"5f3a-62"'))}


class Denies(S3Proxy):
    """Answers the nth request that reads an object of a log itself."""
    number, nth, answer = None, 0, None

    def refuse(self, method, path, headers, body):
        if self.number is None or method != "GET" or not re.search("/v1/log/[^/]+/%016x$" % self.number, path.split("?")[0]):
            return None
        with self.lock:
            self.nth -= 1
            return self.answer if self.nth == 0 else None


def ask(s, service):
    """(is the answer complete, profiles)"""
    reply = s.query("SelectMergeStacktraces", {"Flametree-Partial": "allow"}, profileTypeID=CPU, labelSelector=select(service), start=now_ms() - 1_800_000, end=now_ms() + 300_000).expect(200)
    return reply.headers["Flametree-Exact"], int(reply.headers["Flametree-Profiles"])


@pytest.mark.each_value
@pytest.mark.parametrize("says", ANSWERS)
@pytest.mark.parametrize("nth", (1, 2), ids=("looking", "reading"))
@pytest.mark.parametrize("number", (1, 3, PUSHES))
@pytest.mark.parametrize("adopted", (False, True), ids=("own-log", "adopted"))
def test_one_wrong_answer_to_one_read_loses_nothing(service, adopted, number, nth, says):
    with Denies(service.url) as proxy, on_bucket(service, "--ingester.log=object", "--ingester.log_linger=0ms", "--ingester.stream_settle=2s", endpoint=proxy.url) as f:
        shop = unique("shop")
        for i in range(PUSHES):
            f.server().push({"__name__": "process_cpu", "service_name": shop, "pod": "p%d" % i}, Pprof(("main;work", 1))).expect(200)
        assert ask(f.server(), shop) == ("exact", PUSHES)
        f.kill()
        if adopted:
            os.remove(os.path.join(f.data, "ingester/log/STREAMS"))
        proxy.number, proxy.nth, proxy.answer = number, nth, ANSWERS[says]
        f.start()
        await_("the log to be read", lambda: ask(f.server(), shop) == ("exact", PUSHES), 90, 0.2)
        assert proxy.nth <= 0, "nothing was answered wrongly"
        assert "event=log.damaged" not in f.tail(1000) and "event=log.object_damaged" not in f.tail(1000)
