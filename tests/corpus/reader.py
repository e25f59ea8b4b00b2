"""Profiles that a program has written, read by nothing of its own: the wire of pprof and the bars of a flame graph.

Samples are {"stack": frames innermost first, "values": [...], "labels": [(key, value)]}, as check.py counts them. A location without
lines is one frame that is called by its address."""
import gzip
import re

from client import unpack, unpb


def signed(n):
    return n - (1 << 64) if n >> 63 else n


def first(message, number, default=0):
    return message.get(number, [default])[-1]


def text(data):
    """As MANIFEST.tsv writes what is no UTF-8."""
    return data.decode("utf-8", "backslashreplace")


def pprof(data):
    """(head, samples) of a pprof message, gzip-compressed or not. A location that is not there is [unknown]."""
    if data[:2] == b"\x1f\x8b":
        data = gzip.decompress(data)
    m = unpb(data)
    strings = [text(s) for s in m.get(6, [b""])]
    pair = lambda value: (strings[first(value, 1)], strings[first(value, 2)])
    functions = {first(f, 1): strings[first(f, 2)] for f in map(unpb, m.get(5, []))}
    locations = {}
    for place in map(unpb, m.get(4, [])):
        lines = [unpb(line) for line in place.get(4, [])]
        locations[first(place, 1)] = [functions[first(line, 1)] for line in lines] or ["0x%x" % first(place, 3)]
    samples = []
    for s in map(unpb, m.get(2, [])):
        ids = unpack(s.get(1, []))
        labels = [(strings[first(l, 1)], strings[first(l, 2)] if first(l, 2) else first(l, 3)) for l in map(unpb, s.get(3, []))]
        stack = [f for i in ids for f in locations.get(i, ["[unknown]"])]
        samples.append({"stack": stack, "values": [signed(v) for v in unpack(s.get(2, []))], "labels": labels})
    counts = {name: len(m.get(field, [])) for name, field in (("mappings", 3), ("locations", 4), ("functions", 5), ("strings", 6))}
    inlined = [len(unpb(place).get(4, [])) for place in m.get(4, [])]
    return {"types": [pair(unpb(t)) for t in m.get(1, [])], "period_type": pair(unpb(first(m, 11, b""))), "period": signed(first(m, 12)),
            "time_nanos": signed(first(m, 9)), "duration_nanos": signed(first(m, 10)), "default_sample_type": strings[first(m, 14)],
            "locations_inlined": sum(n > 1 for n in inlined), "locations_without_lines": inlined.count(0), **counts}, samples


def bare(name):
    """A name that is made of mapping and address: the address."""
    return re.sub(r"^.*!(?=0x[0-9a-f]+$)", "", name)


def bars(names, levels):
    """Samples of a flame graph with one value, and the number of its nodes without the root; each bar is offset, total, self, name.
    Frames that are called by mapping and address are called by the address, as facts do."""
    samples, nodes, above = [], 0, None
    names = [bare(name) for name in names]
    for level in levels:
        here, at = [], 0
        values = [int(v) for v in level]
        for i in range(0, len(values), 4):
            x, total, own, name = values[i:i + 4]
            at += x
            here.append((at, at + total, (names[name],)))
            at += total
            if above is None:
                here[-1] = (0, total, ())
            else:
                # Bars of a level are from left to right, as those above are.
                while not (above[0][0] <= here[-1][0] and here[-1][1] <= above[0][1]):
                    above.pop(0)
                here[-1] = (here[-1][0], here[-1][1], above[0][2] + here[-1][2])
                nodes += 1
            if own:
                samples.append({"stack": list(reversed(here[-1][2])), "values": [own], "labels": []})
        above = here
    return samples, nodes
