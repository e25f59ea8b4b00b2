# SPDX-License-Identifier: Apache-2.0
"""What memory one push takes, as a multiple of its bytes when inflated, format by format: the least `server.request_memory` with which it is taken,
which is what the request itself takes; and by how much the peak of the process grows, which is that and all that is stored of it."""
import large
from flametree import Flametree

SIZE = 16 << 20
# Nothing but the memory of the request refuses it.
SETTINGS = ["--limits.max_profile_size_bytes=0", "--limits.max_profile_stacktrace_samples=0", "--limits.ingestion_body_limit_mb=1024",
            "--server.memory_limit=8GiB", "--ingester.head_memory=4GiB"]


def pushed(format, data, *args):
    with Flametree(*SETTINGS, *args) as f:
        s = f.server()
        large.push(s, format, large.of(format, 1), "warm").expect(200)
        with open("/proc/%d/clear_refs" % f.process.pid, "w") as clear:
            clear.write("5")
        before = f.rss_bytes()
        reply = large.push(s, format, data, "large")
        return reply, f.peak_rss_bytes() - before


def least(format, data):
    """Of request_memory, to a sixteenth of the bytes."""
    low, high = 0, 16 * 16
    while high - low > 1:
        middle = (low + high) // 2
        reply, _ = pushed(format, data, "--server.request_memory=%d" % max(middle * len(data) // 16, 1 << 20))
        low, high = (low, middle) if reply.status == 200 else (middle, high)
    return high / 16


def run(bench):
    size = SIZE // 8 if bench.short else SIZE
    for format in large.FORMATS:
        data = large.of(format, size)
        reply, grown = pushed(format, data, "--server.request_memory=4GiB")
        assert reply.status == 200, reply
        bench.row("request: %s of %.1f MB, peak of the process" % (format, len(data) / 1e6), grown / len(data), "x bytes")
        bench.row("request: %s, least request_memory" % format, least(format, data), "x bytes", "<= 6")
