"""The command line client as tests run it: the program with its output, on a pipe or on a terminal, and fixtures for a server and a service.

A test file imports what it uses, `url` and `service` among them."""
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import termios

import pytest
from client import Pprof, unique
from flametree import BIN

PROGRAM = os.path.join(BIN, "flametree")
ESCAPE = re.compile(r"\x1b\[[0-9;]*m|\x1b\[K")
NOTHING_THERE = {k: v for k, v in os.environ.items() if not k.startswith("FLAMETREE_") and k not in ("NO_COLOR", "COLORTERM")}


def env_of(url=None, **more):
    env = {**NOTHING_THERE, "TERM": "xterm-256color", **more}
    if url:
        env["FLAMETREE_URL"] = url
    return env


class At(str):
    """The URL of what answers queries; `push` is that of what takes pushes, which may be another process."""
    push = None


def run(*args, url=None, data=None, env=None, **kw):
    """stdout and stderr are text unless text=False is given."""
    if args[:1] == ("push",) and isinstance(url, At):
        url = url.push
    kw = {"text": True, "timeout": 60, **kw}
    return subprocess.run([PROGRAM, *args], input=data, capture_output=True, env=env or env_of(url), **kw)


def ok(*args, **kw):
    answer = run(*args, **kw)
    assert answer.returncode == 0, answer
    return answer.stdout


def fails(status, *args, **kw):
    answer = run(*args, **kw)
    assert answer.returncode == status, answer
    return answer.stderr


def on_terminal(*args, url=None, columns=100, env=None, stderr_too=False):
    """Output of the program on a terminal of so many columns, and its exit status."""
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    process = subprocess.Popen([PROGRAM, *args], stdin=subprocess.DEVNULL, stdout=follower, stderr=follower if stderr_too else subprocess.PIPE,
                               env=env or env_of(url))
    os.close(follower)
    out = b""
    while True:
        if select.select([leader], [], [], 60)[0] == []:
            process.kill()
            raise AssertionError("nothing for a minute: %r" % out)
        try:
            got = os.read(leader, 65536)
        except OSError:  # the other side is closed
            break
        if not got:
            break
        out += got
    os.close(leader)
    if process.stderr:
        process.stderr.close()
    return out.decode().replace("\r\n", "\n"), process.wait(60)


@pytest.fixture
def url(shared):
    shared.check_alive()
    at = At(shared.url)
    at.push = shared.push_url
    return at


@pytest.fixture
def service(url, tmp_path):
    """A service with one profile: main;work 60, main;idle 30, gc 10 (ms)."""
    name = unique("cli")
    path = tmp_path / "cpu.pb"
    path.write_bytes(Pprof(("main;work", 60_000_000), ("main;idle", 30_000_000), ("gc", 10_000_000)).encode())
    ok("push", str(path), "-l", "service_name=" + name, "-l", "region=eu", url=url)
    return name
