"""Runs a command with FLAMETREE_URL set to a fresh server: with_server.py [SERVER ARGUMENTS] [--self-profile] -- COMMAND..."""
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(__file__))
from flametree import Flametree  # noqa: E402

split = sys.argv.index("--")
args, command = sys.argv[1:split], sys.argv[split + 1:]
self_profile = "--self-profile" in args
args = [a for a in args if a != "--self-profile"]
with Flametree(*args, self_profile=self_profile) as server:
    status = subprocess.run(command, env={**os.environ, "FLAMETREE_URL": server.url}).returncode
    if status:
        print("---- log of the server\n" + server.tail(), file=sys.stderr)
sys.exit(status)
