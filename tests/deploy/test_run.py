"""deploy/run as the README gives it: start, second call, the page, stop, and what it says when it cannot start."""
import os
import pty
import re
import signal
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
    assert second.returncode == 0 and "runs already" in second.stderr and second.stdout.strip() == url, second.stderr
    stopped = run("--stop", "--data", data)
    assert stopped.returncode == 0 and "stopped" in stopped.stderr, stopped.stderr
    with pytest.raises(OSError):
        urllib.request.urlopen(url, timeout=2)
    again = run("--stop", "--data", data)
    assert again.returncode == 0 and "nothing runs" in again.stderr


def test_ctrl_c_at_a_terminal_stops_it_in_order(data):
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.execv(os.path.join(TOP, "deploy/run"), ["run", "--port", "0", "--data", data])
    shown, pressed = b"", False
    with open(terminal, "rb", buffering=0) as f:
        while True:
            try:
                piece = f.read(4096)
            except OSError:  # the last one closed the terminal
                break
            shown += piece or b""
            if not piece:
                break
            if b"Ctrl-C stops it" in shown and not pressed:
                pressed = bool(os.write(terminal, b"\x03"))
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130, shown.decode()
    shown = shown.decode()
    assert "event=process.stopped" in shown and "run: stopped" in shown, shown
    assert "level=warn" not in shown and "level=error" not in shown, shown


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
