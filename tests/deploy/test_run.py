"""deploy/run as the README gives it: start, second call, the page, stop, and what it says when it cannot start."""
import os
import re
import socket
import subprocess
import urllib.request

import pytest

TOP = os.path.join(os.path.dirname(__file__), "../..")


def run(*args, **kw):
    return subprocess.run([os.path.join(TOP, "deploy/run"), *args], capture_output=True, text=True, timeout=300, **kw)


@pytest.fixture
def data(tmp_path):
    yield str(tmp_path / "data")
    run("--stop", "--data", str(tmp_path / "data"))


def test_detached_start_second_call_and_stop(data):
    first = run("--detach", "--port", "0", "--data", data)
    assert first.returncode == 0, first.stderr
    url = first.stdout.strip()
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/", url), first.stdout
    with urllib.request.urlopen(url) as page:
        assert page.status == 200 and b"<html" in page.read().lower()
    second = run("--detach", "--port", "0", "--data", data)
    assert second.returncode == 0 and "runs already" in second.stderr and url in second.stderr, second.stderr
    stopped = run("--stop", "--data", data)
    assert stopped.returncode == 0 and "stopped" in stopped.stderr, stopped.stderr
    with pytest.raises(OSError):
        urllib.request.urlopen(url, timeout=2)
    again = run("--stop", "--data", data)
    assert again.returncode == 0 and "nothing runs" in again.stderr


def test_occupied_port_is_one_clear_line(data):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        answer = run("--detach", "--port", port, "--data", data)
    assert answer.returncode != 0
    assert "in use" in answer.stderr and port in answer.stderr, answer.stderr


def test_unwritable_directory_is_one_clear_line():
    answer = run("--detach", "--port", "0", "--data", "/proc/nothing")
    assert answer.returncode != 0 and "cannot be written to" in answer.stderr, answer.stderr


@pytest.mark.parametrize("args, text", [(["--port", "x"], "not a port"), (["--what"], "unknown argument"), (["--config", "/none"], "not a readable file")])
def test_wrong_usage(args, text):
    answer = run(*args)
    assert answer.returncode != 0 and text in answer.stderr, answer.stderr
