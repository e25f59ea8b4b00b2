"""Runs a command with FLAMETREE_URL set to a fresh server: with_server.py [--cluster] [SERVER ARGUMENTS] [--self-profile] -- COMMAND...

With --cluster the server is the processes of deploy/examples, and FLAMETREE_PUSH_URL is their distributor."""
import json
import os
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, os.path.dirname(__file__))
from flametree import await_, deploy  # noqa: E402


def profiled(url):
    """Does the server answer with its own profile?"""
    now = int(time.time() * 1000)
    question = json.dumps({"name": "service_name", "start": now - 3600000, "end": now + 60000}).encode()
    ask = urllib.request.Request(url + "/querier.v1.QuerierService/LabelValues", question, {"Content-Type": "application/json"})
    with urllib.request.urlopen(ask, timeout=30) as answer:
        return "flametree" in json.load(answer).get("names", [])


split = sys.argv.index("--")
args, command = sys.argv[1:split], sys.argv[split + 1:]
self_profile = "--self-profile" in args
topology = "cluster" if "--cluster" in args else "one"
args = [a for a in args if a not in ("--self-profile", "--cluster")]
with deploy(topology, *args, self_profile=self_profile) as server:
    if self_profile:
        await_("the server's own profile", lambda: profiled(server.url.rstrip("/")), 60, 0.2)
    status = subprocess.run(command, env={**os.environ, "FLAMETREE_URL": server.url, "FLAMETREE_PUSH_URL": server.push_url, "FLAMETREE_QUERY_URL": server.url}).returncode
    if status:
        print("---- log of the server\n" + server.tail(), file=sys.stderr)
sys.exit(status)
