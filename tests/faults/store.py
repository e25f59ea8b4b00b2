# SPDX-License-Identifier: Apache-2.0
"""The object store of a run: versitygw behind a proxy that makes trouble, as one process. Orders come as lines of JSON and are answered with one:

    {"trouble": {"lost": 0.1}, "away": false, "late_seconds": 9}    as S3Proxy has them
    {"age_days": 5}                                                 all objects are so much older
"""
import json
import os
import signal
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.realpath(__file__)), "../lib"))
from s3_proxy import S3Proxy
from versitygw import Versitygw


def age(folder, days):
    for at, _, names in os.walk(folder):
        for path in (os.path.join(at, name) for name in names):
            try:
                when = os.stat(path).st_mtime - days * 86400
                os.utime(path, (when, when))
            except FileNotFoundError:  # deleted since
                pass


def main(address, port, seed):
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with Versitygw() as service, S3Proxy(service.url, seed=int(seed), listen=(address, int(port))) as proxy:
        print(json.dumps({"url": proxy.url}), flush=True)
        for line in sys.stdin:
            order = json.loads(line)
            if "age_days" in order:
                age(os.path.join(service.dir, "data"), order.pop("age_days"))
            for name, value in order.items():
                setattr(proxy, name, value)
            print(json.dumps({"requests": proxy.requests, "done": proxy.done}), flush=True)


main(*sys.argv[1:])
