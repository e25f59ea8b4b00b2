"""Runs Flametree's programs for black-box tests: real processes, free ports, own directories, nothing left running.

    with Flametree() as f:            # all in one
        f.url, f.kill(), f.start()    # kill is SIGKILL; start again on the same data
Logs are printed only when something fails. A stop must end with exit code 0, which under the sanitizers also means that
nothing leaked.
"""
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

BIN = os.environ.get("FLAMETREE_BIN", os.path.join(os.path.dirname(__file__), "../../build/asan"))
START_SECONDS = 60  # under sanitizers on a busy machine


def await_(what, get, seconds=30, pause=0.02):
    """Polls get() until it returns something true, and returns that; fails naming what was awaited."""
    deadline = time.monotonic() + seconds
    while True:
        got = get()
        if got:
            return got
        if time.monotonic() > deadline:
            raise AssertionError("waited %d s for %s" % (seconds, what))
        time.sleep(pause)


class Flametree:
    def __init__(self, *args, program="flametree", data=None, self_profile=False, env=None, listen="127.0.0.1:0"):
        self.program = os.path.join(BIN, program)
        self.own_data = data is None
        self.data = data or tempfile.mkdtemp(prefix="flametree-test-")
        self.args = ["--server.listen", listen, "--server.data_dir", self.data]
        self.args += ["--self_profile.enabled", "true" if self_profile else "false", *args]
        self.env = {**os.environ, **(env or {})}
        self.process = self.url = None
        self.log = os.path.join(self.data, "test.log")

    def start(self, wait=True):
        assert self.process is None, "it runs already"
        ports = os.path.join(self.data, "run", "ports.json")
        if os.path.exists(ports):
            os.unlink(ports)
        with open(self.log, "ab") as out:
            self.process = subprocess.Popen([self.program, *self.args], stdout=out, stderr=out, stdin=subprocess.DEVNULL, env=self.env)
        if wait:
            self.await_ready(ports)
        return self

    def await_ready(self, ports):
        def listening():
            self.check_alive()
            try:
                with open(ports) as f:
                    return json.load(f)
            except (OSError, ValueError):
                return None
        self.ports = await_("ports.json of %s" % self.program, listening, START_SECONDS)
        self.url = "http://127.0.0.1:%d" % self.ports["public"]

        def ready():
            self.check_alive()
            try:
                with urllib.request.urlopen(self.url + "/ready", timeout=5) as answer:
                    return answer.status == 200
            except (OSError, urllib.error.URLError):
                return False
        await_("/ready of %s\n%s" % (self.program, self.tail()), ready, START_SECONDS)

    def check_alive(self):
        if self.process.poll() is not None:
            code, self.process = self.process.returncode, None
            raise AssertionError("%s ended with %d\n%s" % (self.program, code, self.tail()))

    def tail(self, n=60):
        try:
            with open(self.log, errors="replace") as f:
                return "".join(f.readlines()[-n:])
        except OSError:
            return ""

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process = None

    def signal(self, number):
        self.process.send_signal(number)

    def stop(self):
        """A clean stop; returns the exit code after checking that it is 0."""
        if self.process is None:
            return 0
        process, self.process = self.process, None
        process.send_signal(signal.SIGTERM)
        try:
            code = process.wait(60)
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGABRT)
            process.wait()
            raise AssertionError("%s does not stop\n%s" % (self.program, self.tail()))
        assert code == 0, "%s ended with %d\n%s" % (self.program, code, self.tail())
        return code

    def rss_bytes(self):
        with open("/proc/%d/status" % self.process.pid) as f:
            return next(int(line.split()[1]) * 1024 for line in f if line.startswith("VmRSS"))

    def metric(self, name):
        """Value of a metric as /metrics prints it, its labels part of the name."""
        with urllib.request.urlopen(self.url + "/metrics", timeout=10) as answer:
            for line in answer.read().decode().splitlines():
                key, _, value = line.rpartition(" ")
                if key == name:
                    return float(value)
        return None

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                self.stop()
            elif self.process:
                self.process.kill()
                self.process.wait()
                self.process = None
            if kind is not None:
                print("---- log of %s\n%s" % (self.program, self.tail()))
        finally:
            if self.own_data:
                shutil.rmtree(self.data, ignore_errors=True)
