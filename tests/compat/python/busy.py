"""A busy program under pyroscope-io and pyroscope-otel: burns CPU time and keeps memory in functions whose names the test then asks for, and burns
some in spans, whose ids it prints."""
import logging
import sys
import threading
import time

import pyroscope
from opentelemetry.sdk.trace import TracerProvider
from pyroscope.otel import PyroscopeSpanProcessor


def burn_hot_loop():
    n, until = 0, time.thread_time() + 0.8
    while time.thread_time() < until:
        for i in range(10_000):
            n ^= i
    return n


def burn_tagged():
    with pyroscope.tag_wrapper({"job": "tagged"}):
        return burn_hot_loop()


def burn_in_span(tracer):
    with tracer.start_as_current_span("checkout") as span:
        burn_hot_loop()
        return "%016x" % span.get_span_context().span_id


def keep_memory():
    return [bytearray(4096) for _ in range(5_000)]


logging.basicConfig(level=logging.INFO, stream=sys.stderr)
pyroscope.configure(application_name=sys.argv[2], server_address=sys.argv[1], tags={"kit": "python", "team.name": "a b+c"}, upload_interval=1,
                    mem_enabled=True, report_thread_name=True, enable_logging=True)
kept = keep_memory()
worker = threading.Thread(target=burn_tagged, name="burner")
worker.start()
worker.join()
burn_hot_loop()
provider = TracerProvider()
provider.add_span_processor(PyroscopeSpanProcessor())
spans = [burn_in_span(provider.get_tracer("busy")) for _ in range(2)]
print("done" if pyroscope.shutdown() and kept else "no shutdown", *spans)
