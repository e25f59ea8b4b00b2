"""Copies of stores (flametree backup and restore), as tests make them: the program, a writer whose profiles tell which they are, and what is there."""
import random
import time

from cli import run
from client import Pprof
from flametree import SETTLE_SECONDS, Cluster, await_

S = 10**9
HOUR = 3600 * S


def tool(*args, status=0, env=None):
    """What it says on stderr."""
    answer = run(*map(str, args), timeout=SETTLE_SECONDS, env=env)
    assert answer.returncode == status, answer
    return answer.stderr


class Pusher:
    """Pushes profiles whose values tell which they are: the n-th has the value 1 in the stack of its number."""

    def __init__(self, server, service, ago_s=(1, 4 * 3600)):
        self.server, self.service, self.n, self.stopped = server, service, 0, False
        self.rng, self.ago_s = random.Random(7), ago_s

    def push(self, n=1):
        for _ in range(n):
            t = time.time_ns() - self.rng.randrange(*self.ago_s) * S
            labels = {"__name__": "process_cpu", "service_name": self.service, "pod": "p%d" % (self.n % 3)}
            self.server.push(labels, Pprof(("main;n%d" % self.n, 1), time_ns=t)).expect(200)
            self.n += 1

    def run(self):
        while not self.stopped:
            self.push()
            time.sleep(0.005)


def numbers(f, service):
    """The numbers of the profiles that are there; each is there once."""
    got = f.server().stacks(service, start=(time.time_ns() - 6 * HOUR) // 10**6, end=(time.time_ns() + HOUR) // 10**6, maxNodes=1 << 20)
    assert set(got.values()) <= {1}, {k: v for k, v in got.items() if v != 1}
    return {int(k.split(";n")[1]) for k in got}


def accept_loss(f):
    """What ingesters had not flushed is in no copy; the restored cluster says so until somebody accepts it, and all processes have heard of it."""
    url = (f.ingesters()[0] if isinstance(f, Cluster) else f).url

    def accepted():
        for line in run("stream", "ls", url=url).stdout.splitlines():
            word = line.split()
            if len(word) > 1 and len(word[0]) == 26:
                run("stream", "forget", "--accept-loss", word[0], url=url)
        now = time.time_ns() // 10**6
        return "Flametree-Missing" not in f.server().query("LabelNames", {}, start=now - 1000, end=now).expect(200).headers
    await_("all to hear of the loss", accepted, 60)
