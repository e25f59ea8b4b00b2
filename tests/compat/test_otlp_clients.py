"""Senders of OTLP profiles: generated modules of four versions of the protocol, and an OpenTelemetry Collector in between."""
import json
import os
import socket
import subprocess
import sys

import pytest
from client import unique
from conftest import HERE, get, installed
from flametree import await_

VERSIONS = [line.split() for line in open(os.path.join(HERE, "otlp/versions.txt"), encoding="utf-8")]
WORK = {"main;work": 30_000_000, "main;idle": 10_000_000}


@pytest.fixture(scope="session")
def clients():
    """clients(version): the program of tests/compat/otlp with the modules of that version."""
    def install(folder):
        for version, *packages in VERSIONS:
            get("otlp", sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--retries=1", "--only-binary=:all:", "--no-deps",
                "--target", os.path.join(folder, version), *packages)
    folder = installed("otlp", "versions.txt", install)

    def send(version, url, service, way):
        ran = subprocess.run([sys.executable, os.path.join(HERE, "otlp/client.py"), url, service, way], capture_output=True, text=True, timeout=120,
                             env={**os.environ, "PYTHONPATH": os.path.join(folder, version)})
        assert ran.returncode == 0, ran.stderr
    return send


def is_stored(asked, service):
    asked.check(lambda: asked.stacks(service), WORK)
    asked.check(lambda: asked.stacks(service, selector='"thread.name"="worker"'), {"main;work": 30_000_000})


@pytest.mark.parametrize("way", ["proto", "json", "grpc"])
@pytest.mark.parametrize("version", [v[0] for v in VERSIONS])
def test_generated_modules_are_served(server, asked, clients, version, way):
    service = unique()
    clients(version, server.push_url, service, way)
    is_stored(asked, service)


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


@pytest.fixture
def collector(server, go_program, tmp_path):
    """collector(exporter, settings): the address for gRPC of a Collector that sends on what it gets."""
    program, running = go_program("otel", "build", "-trimpath"), []

    def start(exporter, **settings):
        port = free_port()
        config = {"receivers": {"otlp": {"protocols": {"grpc": {"endpoint": "127.0.0.1:%d" % port}}}}, "exporters": {exporter: settings},
                  "service": {"telemetry": {"metrics": {"level": "none"}}, "pipelines": {"profiles": {"receivers": ["otlp"], "exporters": [exporter]}}}}
        (tmp_path / "config.yaml").write_text(json.dumps(config))
        log = open(tmp_path / "collector.log", "wb")
        running.append(subprocess.Popen([*program, "--config", "file:" + str(tmp_path / "config.yaml"), "--feature-gates=service.profilesSupport"],
                                        stdout=log, stderr=log))
        log.close()

        def listens():
            assert running[0].poll() is None, (tmp_path / "collector.log").read_text()[-3000:]
            with socket.socket() as s:
                return s.connect_ex(("127.0.0.1", port)) == 0
        await_("the Collector", listens)
        return "http://127.0.0.1:%d" % port
    yield start
    for process in running:
        process.terminate()
        process.wait(30)


@pytest.mark.parametrize("exporter", ["otlp", "otlphttp"])
def test_the_collector_is_served(server, asked, clients, collector, exporter):
    """With gzip, as its exporters send by default, and fields in descending order."""
    address = server.push_url.split("://")[1] if exporter == "otlp" else server.push_url
    service = unique()
    clients("1.11", collector(exporter, endpoint=address, tls={"insecure": True}), service, "grpc")
    # It answers its client first and sends on afterwards.
    await_("what the Collector sends on", lambda: service in asked.ok("LabelValues", name="service_name").get("names", []))
    is_stored(asked, service)
