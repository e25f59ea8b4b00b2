"""Large inputs of each format that a server takes, of about as many bytes as one likes: stacks of 5 to 39 frames out of 60 paths and 3,000 names."""
import gzip
import json
import os
import random

from client import packed, pb, varint
from jfr import Jfr

CORPUS = os.environ.get("FLAMETREE_CORPUS") or os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../shared/corpus")


def stacks(n):
    """[(frames root first, count)], the same each time."""
    r = random.Random(1)
    names = ["module%d.package%d.function_%d" % (i % 40, i % 300, i) for i in range(3000)]
    paths = [r.choices(names, k=36) for _ in range(60)]
    return [(r.choice(paths)[:r.randrange(4, 36)] + r.choices(names, k=r.randrange(1, 4)), r.randrange(1, 100)) for _ in range(n)]


def tables(some):
    """Names, and each stack as indices of them, leaf first."""
    rows = {}
    return rows, [[rows.setdefault(f, len(rows)) for f in reversed(frames)] for frames, _ in some]


def many(number, values):
    """A repeated field of a message. (pb() adds up bytes, which takes the square of the time.)"""
    return b"".join(pb((number, v)) for v in values)


def pprof(n):
    some = stacks(n)
    names, indices = tables(some)
    rows = range(1, len(names) + 1)
    return b"".join([
        pb((1, pb((1, 1), (2, 2)))), many(2, (pb((1, packed([i + 1 for i in row])), (2, packed([count]))) for row, (_, count) in zip(indices, some))),
        pb((3, pb((1, 1), (7, 1)))), many(4, (pb((1, i), (2, 1), (4, pb((1, i), (2, 7)))) for i in rows)), many(5, (pb((1, i), (2, i + 2)) for i in rows)),
        many(6, ["", "cpu", "nanoseconds", *names]), pb((11, pb((1, 1), (2, 2))), (12, 1))])


def otlp(n):
    some = stacks(n)
    names, indices = tables(some)
    rows = range(1, len(names) + 1)
    profile = b"".join([pb((1, pb((1, 1), (2, 2)))), many(2, (pb((1, i + 1), (4, packed([count]))) for i, (_, count) in enumerate(some))),
                        pb((5, pb((1, 3), (2, 4))), (6, 10_000_000))])
    dictionary = b"".join([pb((1, b"")), many(2, [b"", *(pb((3, pb((1, i)))) for i in rows)]), many(3, [b"", *(pb((1, i + 4)) for i in rows)]), pb((4, b"")),
                           many(5, ["", "samples", "count", "cpu", "nanoseconds", *names]), pb((6, b"")),
                           many(7, [b"", *(pb((1, packed([i + 1 for i in row]))) for row in indices)])])
    attributes = pb((1, pb((1, "service.name"), (2, pb((1, "large"))))))
    return pb((1, pb((1, attributes), (2, pb((2, profile))))), (2, dictionary))


def otlp_json(n):
    some = stacks(n)
    names, indices = tables(some)
    kind = lambda type, unit: {"typeStrindex": type, "unitStrindex": unit}
    profile = {"sampleType": kind(1, 2), "periodType": kind(3, 4), "period": "10000000",
               "samples": [{"stackIndex": i + 1, "values": [str(count)]} for i, (_, count) in enumerate(some)]}
    return json.dumps({"resourceProfiles": [{"scopeProfiles": [{"profiles": [profile]}]}], "dictionary": {
        "stringTable": ["", "samples", "count", "cpu", "nanoseconds", *names], "functionTable": [{}, *({"nameStrindex": i + 5} for i in range(len(names)))],
        "mappingTable": [{}], "locationTable": [{}, *({"lines": [{"functionIndex": i + 1}]} for i in range(len(names)))],
        "stackTable": [{}, *({"locationIndices": [i + 1 for i in row]} for row in indices)], "attributeTable": [{}], "linkTable": [{}]}}).encode()


def folded(n):
    return "".join("%s %d\n" % (";".join(frames), count) for frames, count in stacks(n)).encode()


def lines(n):
    return "".join("%s\n" % ";".join(frames) for frames, _ in stacks(n)).encode()


def perf(n):
    """Text of `perf script`."""
    event = "app %d [000] %d.%06d: 10101010 cpu-clock:\n%s\n"
    return "".join(event % (i % 5 + 1, i, i, "".join("\t%16x %s+0x10 (/usr/bin/app)\n" % (0x400000 + 16 * len(f), f) for f in reversed(frames)))
                   for i, (frames, _) in enumerate(stacks(n))).encode()


def children_of(some):
    root = [0, {}]
    for frames, count in some:
        at = root
        for f in frames:
            at = at[1].setdefault(f, [0, {}])
        at[0] += count
    return root


def serialized(root):
    """A node's name, its own value and the number of its children, and then these, as trees and tries have them alike."""
    out, todo = bytearray(), [("", root)]
    while todo:
        name, (own, below) = todo.pop()
        raw = name.encode()
        out += varint(len(raw)) + raw + varint(own) + varint(len(below))
        todo += reversed(below.items())
    return bytes(out)


def tree(n):
    return serialized(children_of(stacks(n)))


def trie(n):
    """Names of nodes are the rests of keys; here a frame with the `;` before it."""
    root = children_of(stacks(n))
    todo = list(root[1].values())
    while todo:
        node = todo.pop()
        node[1] = {";" + name: below for name, below in node[1].items()}
        todo += node[1].values()
    return serialized(root)


def speedscope(n):
    some = stacks(n)
    names, indices = tables(some)
    return json.dumps({"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {"frames": [{"name": f} for f in names]}, "profiles": [
        {"type": "sampled", "name": "large", "unit": "none", "startValue": 0, "endValue": sum(c for _, c in some),
         "samples": [row[::-1] for row in indices], "weights": [c for _, c in some]}]}).encode()


def jfr(n):
    """Chunks of a recording of the corpus; or of one that is made here and has few names, in chunks that are a small part of what anybody asks for."""
    path = os.path.join(CORPUS, "jfr/async-profiler.jfr.gz")
    if os.path.exists(path):
        with gzip.open(path) as f:
            chunk = f.read()
    else:
        chunk = Jfr().sample(1, times=5_000).sample(2, times=5_000).encode()
    return chunk * max(n, 1)


FORMATS = {"pprof": pprof, "otlp": otlp, "otlp-json": otlp_json, "folded": folded, "lines": lines, "tree": tree, "trie": trie, "speedscope": speedscope, "jfr": jfr, "perf": perf}


def of(format, size):
    """An input of about `size` bytes."""
    make = FORMATS[format]
    if format == "jfr":
        return make(size // len(make(1)))
    few, more = len(make(2000)), len(make(4000))  # names come again, so the first stacks are the longest
    return make(max(2000, 2000 + (size - few) * 2000 // (more - few)))


def push(server, format, data, service):
    """As an agent sends it."""
    if format == "pprof":
        return server.push({"__name__": "process_cpu", "service_name": service}, data)
    if format.startswith("otlp"):
        kind = "application/json" if format == "otlp-json" else "application/x-protobuf"
        return server.call("POST", "/v1development/profiles", data, {"Content-Type": kind}, push=True)
    return server.ingest(service, data, format=format)
