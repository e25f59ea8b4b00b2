"""Runs a command with FLAMETREE_URL set to a fresh server: with_server.py [--cluster] [--levels] [SERVER ARGUMENTS] [--self-profile] -- COMMAND...

With --cluster the server is the processes of deploy/examples, and FLAMETREE_PUSH_URL is their distributor. With --levels cuts live
for a second, and a compactor whose clock is two hours ahead, so that the hour of now is over for it, makes leaves and sums of what
is flushed at once (the plugin `flushed` flushes); it is an error if hardly any was made or read in the end."""
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, os.path.dirname(__file__))
from faultclock import FaultClock  # noqa: E402
from flametree import AT_ONCE, Cluster, Flametree, await_, deploy, store_flags  # noqa: E402

AHEAD = ["--compactor.interval=200ms", *AT_ONCE]


def profiled(url):
    """Does the server answer with its own profile?"""
    now = int(time.time() * 1000)
    question = json.dumps({"name": "service_name", "start": now - 3600000, "end": now + 60000}).encode()
    ask = urllib.request.Request(url + "/querier.v1.QuerierService/LabelValues", question, {"Content-Type": "application/json"})
    with urllib.request.urlopen(ask, timeout=30) as answer:
        return "flametree" in json.load(answer).get("names", [])


@contextlib.contextmanager
def with_levels(topology, args, **kw):
    with tempfile.TemporaryDirectory(prefix="flametree-test-") as folder:
        clock, store = FaultClock(os.path.join(folder, "clock")), store_flags(folder, ()) or ["--storage.dir=" + os.path.join(folder, "store")]
        clock.set(hours=2)
        args = [*args, "--ingester.cut_age=1s", *store]
        if topology == "cluster":
            with Cluster(*args, *AHEAD, env_of={"compactor": clock.env}, **kw) as c:
                yield c, c["querier"], c["compactor"]
        else:
            alone = "unix:%s/compactor.sock" % folder
            with Flametree(*args, "--compactor.workers=0", **kw) as f, \
                    Flametree(*AHEAD, *store, "--internal.listen", alone, program="flametree-compactor", env=clock.env) as c:
                yield f, f, c


def check_levels(querier, compactor):
    """Blocks were read and made. (Sums hardly: most questions are about less than the hour that they are of.)"""
    for name in ("read_objects", "block_rows"):
        n = querier.metric("flametree_querier_%s_total" % name)
        print("%s: %d" % (name, n))
        assert n > 100, "queries have hardly read the store"
    for level in ("leaf", "hour"):
        n = compactor.metric('flametree_compactor_jobs_total{level="%s",result="done"}' % level)
        print("jobs of level %s: %d" % (level, n))
        assert n > 3, "hardly anything was compacted"


split = sys.argv.index("--")
args, command = sys.argv[1:split], sys.argv[split + 1:]
self_profile, levels = "--self-profile" in args, "--levels" in args
topology = "cluster" if "--cluster" in args else "one"
args = [a for a in args if a not in ("--self-profile", "--cluster", "--levels")]
with contextlib.ExitStack() as stack:
    if levels:
        server, querier, compactor = stack.enter_context(with_levels(topology, args, self_profile=self_profile))
    else:
        server = stack.enter_context(deploy(topology, *args, self_profile=self_profile))
    if self_profile:
        await_("the server's own profile", lambda: profiled(server.url.rstrip("/")), 60, 0.2)
    own = {"FLAMETREE_URL": server.url, "FLAMETREE_PUSH_URL": server.push_url, "FLAMETREE_QUERY_URL": server.url}
    if levels:
        own["FLAMETREE_FLUSH_URLS"] = ",".join(m.url for m in (server.ingesters() if topology == "cluster" else [server]))
    status = subprocess.run(command, env={**os.environ, **own}).returncode
    if status:
        print("---- log of the server\n" + server.tail(), file=sys.stderr)
    elif levels:
        check_levels(querier, compactor)
sys.exit(status)
