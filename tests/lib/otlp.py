"""OTLP requests for tests, in the layouts that the server knows; and gRPC calls with curl, which speaks HTTP/2."""
import re
import struct
import subprocess
import time

from client import fixed64, packed, pb

EXPORT = "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"
LAYOUTS = ("1.10", "1.8", "1.7")


def otlp_request(service, *stacks, layout="1.10", time_ns=None, stamps=False, resource=()):
    """CPU samples, one each 10 ms: ("main;work", 3) counts three. A time of -1 in `stacks` makes a profile of its own that no server takes."""
    strings, functions, locations, stack_rows, indices = [""], [b""], [b""], [b""], []

    def text(t):
        if t not in strings:
            strings.append(t)
        return strings.index(t)

    def kind(name, unit):
        return pb((1, text(name)), (2, text(unit)))

    def sample(frames, count):
        rows = []
        for frame in reversed(frames.split(";")):
            functions.append(pb((1, text(frame))))
            locations.append(pb((3, pb((1, len(functions) - 1)))))
            rows.append(len(locations) - 1)
        if layout == "1.7":
            indices.extend(rows)
            return pb((1, len(indices) - len(rows)), (2, len(rows)), (3, packed([count])))
        stack_rows.append(pb((1, packed(rows))))
        where = pb((1, len(stack_rows) - 1))
        if stamps:
            return where + pb((5, struct.pack("<%dQ" % count, *range(1, count + 1))))
        return where + pb((4 if layout == "1.10" else 2, packed([count])))

    def profile(some, at):
        samples = [sample(*s) for s in some]
        head = pb((1, kind("samples", "count")), (2, samples))
        if layout == "1.7":
            place, indices[:] = packed(indices), []
            return head + pb((3, place), (4, at), (6, kind("cpu", "nanoseconds")), (7, 10_000_000))
        return head + fixed64(3, at) + pb((5, kind("cpu", "nanoseconds")), (6, 10_000_000))

    now = time.time_ns() if time_ns is None else time_ns
    good = [s for s in stacks or (("main;work", 3),) if s[1] >= 0]
    profiles = [profile(good, now)] * bool(good) + [profile([(s[0], 1)], 10**9) for s in stacks if s[1] < 0]
    attributes = [pb((1, k), (2, pb((1, v)))) for k, v in (("service.name", service), *resource)]
    tables = [(1, [b""]), (2, locations), (3, functions), (4, [b""]), (5, strings), (6, [b""])] + [(7, stack_rows)] * (layout != "1.7")
    return pb((1, pb((1, pb((1, attributes))), (2, pb((2, profiles))))), (2, pb(*tables)))


def grpc_export(url, message, *options, gzip=None, headers=()):
    """(status, grpc-status, grpc-message, answer) of one call, over HTTP/2 without TLS or with it."""
    body = gzip(message) if gzip else message
    flags = ["--http2-prior-knowledge"] if url.startswith("http://") else ["--http2", "-k"]
    for h in ("content-type: application/grpc", "te: trailers", *(["grpc-encoding: gzip"] if gzip else []), *headers):
        flags += ["-H", h]
    # Headers and trailers go apart from the body.
    got = subprocess.run(["curl", "-s", "-D", "/dev/stderr", "--max-time", "60", *flags, *options, "--data-binary", "@-", url + EXPORT],
                         input=bytes([bool(gzip)]) + struct.pack(">I", len(body)) + body, capture_output=True, check=False)
    assert got.returncode == 0, (got.returncode, got.stderr)
    heads = got.stderr.decode()

    def header(name):
        return (re.findall(r"(?im)^%s: *(.*?)\r?$" % name, heads) or [""])[-1]
    return int(heads.split()[1]), header("grpc-status"), header("grpc-message"), got.stdout[5:]
