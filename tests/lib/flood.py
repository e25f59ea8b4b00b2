"""Pushes as fast as it can from many connections, for tests of overload; a program of its own, so that several load a server.

    flood.py URL NAME CONNECTIONS SECONDS BYTES

Each push is a profile of about BYTES uncompressed bytes whose first stack is NAME.<connection>.<number>, with an id of its own. Stops early when
stdin ends; until then each line of it is answered by a line of what there is so far: "acked refused". In the end prints one JSON object: {"acked": [names], "unsure": [names], "refused": n, "bad": ["what else came back", ...], "longest_s": s}.
"""
import http.client
import json
import os
import sys
import threading
import time
import urllib.parse
import uuid

here = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [here, os.path.join(here, "../conformance")]
from client import PUSH, Pprof, pb  # noqa: E402

PLACE = "@" * 32


def template(size):
    """A profile whose stacks every push shares, but for one."""
    def profile(n):
        shared = [(";".join("package.of.function.%d.at.%d" % (i % 50, k) for k in range(12)) + ";leaf.of.a.stack.%d" % i, 1 + i % 7) for i in range(n)]
        return Pprof((PLACE, 1), *shared).encode()
    each = (len(profile(300)) - len(profile(100))) / 200
    return profile(max(1, int((size - len(profile(100))) / each) + 100))


class Flood:
    def __init__(self, url, name, seconds, size):
        self.where, self.name = urllib.parse.urlsplit(url).netloc, name
        self.template, self.lock = template(size), threading.Lock()
        self.until = time.monotonic() + seconds
        self.acked, self.unsure, self.refused, self.bad, self.longest = [], [], 0, [], 0

    def body(self, name):
        profile = self.template.replace(PLACE.encode(), name.ljust(len(PLACE), "-").encode())
        pairs = (("__name__", "process_cpu"), ("service_name", "flood"), ("writer", self.name))
        series = pb((1, [pb((1, k), (2, v)) for k, v in pairs]), (2, [pb((1, profile), (2, str(uuid.uuid5(uuid.NAMESPACE_OID, name))))]))
        return pb((1, [series]))

    def note(self, name, answer, body):
        with self.lock:
            if answer.status == 200:
                self.acked.append(name)
            elif answer.status == 429 and answer.headers["Retry-After"] and json.loads(body)["code"] == "resource_exhausted":
                self.refused += 1
            else:
                self.unsure.append(name)
                self.bad.append("%d %s %r" % (answer.status, answer.headers["Retry-After"], body[:300]))

    def write(self, number):
        connection = http.client.HTTPConnection(self.where, timeout=60)
        count = 0
        while time.monotonic() < self.until:
            name = "%s.%d.%d" % (self.name, number, count)
            count += 1
            began = time.monotonic()
            try:
                connection.request("POST", PUSH, self.body(name), {"Content-Type": "application/proto"})
                answer = connection.getresponse()
                self.note(name, answer, answer.read())
            except (OSError, http.client.HTTPException) as e:
                connection.close()
                with self.lock:
                    self.unsure.append(name)
                    self.bad.append(repr(e))
            with self.lock:
                self.longest = max(self.longest, time.monotonic() - began)

    def run(self, connections):
        threads = [threading.Thread(target=self.write, args=(i,)) for i in range(connections)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        json.dump({"acked": self.acked, "unsure": self.unsure, "refused": self.refused, "bad": self.bad[:20], "longest_s": self.longest}, sys.stdout)


def main():
    url, name, connections, seconds, size = sys.argv[1:]
    flood = Flood(url, name, float(seconds), int(size))

    def stop():
        for _ in sys.stdin:
            print(len(flood.acked), flood.refused, flush=True)
        flood.until = 0
    threading.Thread(target=stop, daemon=True).start()
    flood.run(int(connections))


if __name__ == "__main__":
    main()
