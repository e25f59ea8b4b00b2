"""deploy/run as the README gives it: start, second call, the page, stop, and what it says when it cannot start."""
import os
import pty
import re
import shutil
import signal
import socket
import subprocess
import urllib.request

import pytest

TOP = os.path.join(os.path.dirname(__file__), "../..")


def run(*args, **kw):
    return subprocess.run([os.path.join(TOP, "deploy/run"), *args], capture_output=True, text=True, timeout=300, **kw)


def process_of(answer):
    return int(re.search(r"\(process (\d+),", answer.stderr)[1])


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


def test_a_second_call_while_it_starts_does_not_tell_the_url_of_the_run_before(data, tmp_path):
    assert run("--detach", "--port", "0", "--data", data).returncode == 0
    assert run("--stop", "--data", data).returncode == 0
    with socket.create_server(("127.0.0.1", 0)) as silent:  # a store that does not answer
        (tmp_path / "settings.yaml").write_text("storage:\n  kind: s3\ns3:\n  bucket: profiles\n  endpoint: http://127.0.0.1:%d\n" % silent.getsockname()[1])
        first = subprocess.Popen([os.path.join(TOP, "deploy/run"), "--port", "0", "--data", data, "--config", str(tmp_path / "settings.yaml"), "--detach"],
                                 stderr=subprocess.PIPE, text=True, env={**os.environ, "AWS_ACCESS_KEY_ID": "a", "AWS_SECRET_ACCESS_KEY": "b"})
        silent.settimeout(300)
        asked, _ = silent.accept()
        second = run("--detach", "--data", data)
        os.kill(process_of(second), signal.SIGKILL)
        assert second.returncode == 0 and "still starting" in second.stderr and second.stdout == "", second
        assert "did not start" in first.communicate(timeout=60)[1]
        asked.close()


def test_what_was_started_before_a_build_is_found_after_it(data):
    """A build replaces the file of a program that runs."""
    started = run("--detach", "--port", "0", "--data", data)
    program = os.path.join(TOP, "build/release/flametree")
    shutil.copy2(program, program + ".new")
    os.rename(program + ".new", program)
    stopped = run("--stop", "--data", data)
    if "nothing runs" in stopped.stderr:
        os.kill(process_of(started), signal.SIGKILL)
    assert "run: stopped" in stopped.stderr, stopped.stderr


def test_ctrl_c_at_a_terminal_stops_it_in_order(data):
    pid, terminal = pty.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        # The program warns of variables that it does not know, such as those of tests.
        known = {k: v for k, v in os.environ.items() if not k.startswith("FLAMETREE_")}
        os.execve(os.path.join(TOP, "deploy/run"), ["run", "--port", "0", "--data", data], known)
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
