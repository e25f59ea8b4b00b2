"""Random profiles of all formats that are pushed, with what they hold, added up here while they are made and never by a decoder of the product.

    spec = generate(rng, "pprof", time_ns)     # plain data: a failing one is printed, shrunk (shrink.py) and sent again
    send(server, spec, labels)                 # as an agent would
    held(spec)                                 # [Held]: what it holds, value by value
    told(spec)                                 # {reason: (least, most) parts that must be told as left out or mended}

A spec is a dict: format, time_ns, duration_ns, types [[type, unit], ...], samples [{"stack": [frame, ...], "values": [...], "labels": {...}}, ...], stacks
root first, and twists, the odd things that its format allows. Frames are names; of pprof also "" (a function whose name is empty), "@1234" (a location
with an address and no line, in a library), "@1234/0" (in no mapping), "!bare" (neither address nor line), "!location", "!function" and "!mapping" (ids
that are not in the file).
"""
import gzip
import json

from client import PUSH, Pprof, multipart, pb, varint
from forms import CPU_SAMPLE, NAMES, Format, Held, base, ingest, plain_samples, some, stack
from jfr import Jfr
from otlp import LAYOUTS, otlp_request
from tools import TOOLS

PERF_PERIOD = 5_025_125
PPROF_ONLY = ["", "@1234", "@5678", "@9abc/0", "@1234", "!bare", "!location", "!function", "!mapping"]
PPROF_TYPES = [
    ("process_cpu", [["cpu", "nanoseconds"]], ("cpu", "nanoseconds"), 10_000_000), ("process_cpu", [["samples", "count"], ["cpu", "nanoseconds"]], ("cpu", "nanoseconds"), 5_025_125),
    ("memory", [["alloc_objects", "count"], ["alloc_space", "bytes"], ["inuse_objects", "count"], ["inuse_space", "bytes"]], ("space", "bytes"), 524_288),
    ("mutex", [["contentions", "count"], ["delay", "nanoseconds"]], ("contentions", "count"), 1), ("wall", [["wall", "nanoseconds"]], None, 0),
]


# ---- pprof

class PprofFormat(Format):
    def generate(self, rng, time_ns):
        name, types, period_type, period = rng.choice(PPROF_TYPES)
        samples = []
        names = NAMES if rng.random() < 0.4 else NAMES + PPROF_ONLY
        for _ in range(rng.choice([1, 2, 4, 12, 40])):
            values = [rng.choice([0, 1, 7, 300, rng.randrange(10**9)]) for _ in types]
            one = {"stack": [] if rng.random() < 0.08 else stack(rng, names, rng.choice([4, 9, 60])), "values": values, "labels": {}}
            if rng.random() < 0.2:
                one["labels"][rng.choice(["endpoint", "pod"])] = rng.choice(["/a", "/b", ""])
            if rng.random() < 0.1:
                one["labels"]["bytes"] = rng.randrange(1, 4096)
            if rng.random() < 0.15:
                one["labels"]["span_id"] = rng.choice(["00000bac2a5ab0c7", "0123456789abcdef"])
            samples.append(one)
            if rng.random() < 0.15:  # a pair that cancels out, as Go's deltas of heap profiles have them
                samples.append({**one, "values": [-v for v in values]})
            elif rng.random() < 0.06:
                one["values"] = [-rng.randrange(1, 1000) for _ in types]
        rng.shuffle(samples)
        spec = base("pprof", time_ns, types, samples, twists=some(rng, "gzip", "lines"), duration_ns=rng.choice([0, 10 * 10**9, 15 * 10**9]))
        return {**spec, "name": name, "period_type": period_type, "period": period}

    def location(self, p, frame):
        number = len(p.locations) + 1
        if not frame.startswith(("@", "!")) and frame:
            return p.location(frame)
        if frame == "!location":
            return 1_000_000
        if frame == "!function":
            row = [number, 1, 0, [[2_000_000, 3]]]
        elif frame == "!mapping":
            row = [number, 77, 0xbeef, [[p.function("of_no_mapping"), 3]]]
        elif frame == "!bare":
            row = [number, 0, 0, []]
        elif frame:
            address, _, mapping = frame[1:].partition("/")
            row = [number, int(mapping or 2), int(address, 16), []]
        else:
            row = [number, 1, 0, [[p.function(""), 3]]]
        return p.once(p.locations, ("special", frame), row, number)

    def encode(self, spec):
        p = Pprof(types=spec["types"], period_type=spec["period_type"], period=spec["period"], time_ns=spec["time_ns"], duration_ns=spec["duration_ns"])
        p.mappings.append([2, 0x1000, 0x90000, 0, p.text("/usr/lib/libc.so.6"), p.text("abcdef0123"), 0])
        for i, s in enumerate(spec["samples"]):
            ids = [self.location(p, f) for f in s["stack"]]
            if "lines" in spec["twists"] and s["stack"] and s["stack"][-1].isidentifier():  # the same function at a line of its own
                ids[-1] = p.location(s["stack"][-1], line=400 + i)
            p.add(ids, s["values"], {k: v for k, v in s.get("labels", {}).items() if v != ""})
        return p.encode()

    def send(self, server, spec, labels):
        data = self.encode(spec)
        series = [(1, [pb((1, k), (2, v)) for k, v in {"__name__": spec["name"], **labels}.items()]), (2, [pb((1, gzip.compress(data, 1) if "gzip" in spec["twists"] else data))])]
        return server.call("POST", PUSH, pb((1, pb(*series))), {"Content-Type": "application/proto"}, push=True)

    def held(self, spec):
        held = super().held(spec)
        for h in held:
            h.labels = {k: v for k, v in h.labels.items() if isinstance(v, str) and v and k != "span_id"}
        return held

    def told(self, spec):
        """What dangles is told; how often is the decoder's affair, since one sample may have several. A mapping alone says little of a frame."""
        frames = {f for s in spec["samples"] for f in s["stack"]}
        return {"unknown_frame|unknown_stack": (len(frames & {"!location", "!function"}) > 0, 10**6)} if frames & {"!location", "!function", "!mapping"} else {}


# ---- text

class Folded(Format):
    SUFFIX = {"cpu": ("", [["cpu", "nanoseconds"]]), "wall": (".wall", [["wall", "nanoseconds"]]), "alloc_space": (".alloc_space", [["alloc_space", "bytes"]]),
              "alloc_objects": (".alloc_objects", [["alloc_objects", "count"]])}

    HEADS = {"# interval: 5ms": 5_000_000, "# interval=5000us": 5_000_000, "# sample rate: 250 Hz": 4_000_000, "# async-profiler event=cpu,interval=20ms": 20_000_000,
             "# command: py-spy record --rate 199": 10**9 // 199}

    def generate(self, rng, time_ns):
        kind = rng.choice(list(self.SUFFIX))
        samples = plain_samples(rng, lambda: [rng.choice([0, 1, 3, rng.randrange(10**6)])])
        spec = base("folded", time_ns, self.SUFFIX[kind][1], samples, twists=some(rng, "bom", "crlf", "bad line", "comment", "no last newline", "empty lines"))
        if kind in ("cpu", "wall") and rng.random() < 0.3:
            spec["twists"]["rate"] = True
        return {**spec, "kind": kind, "head": rng.choice(list(self.HEADS))}

    def encode(self, spec):
        twists = spec["twists"]
        lines = ["%s %d" % (";".join(s["stack"]), s["values"][0]) for s in spec["samples"]]
        if "comment" in twists:
            lines.insert(0, "# of a tool")
        if "rate" in twists:
            lines.insert(0, spec["head"])
        if "bad line" in twists:
            lines.insert(len(lines) // 2, "main;work a dozen")
        if "empty lines" in twists:
            lines.insert(1, "")
        end = "\r\n" if "crlf" in twists else "\n"
        return (b"\xef\xbb\xbf" if "bom" in twists else b"") + (end.join(lines) + ("" if "no last newline" in twists else end)).encode()

    def period(self, spec):
        return self.HEADS[spec["head"]] if "rate" in spec["twists"] else CPU_SAMPLE

    def held(self, spec):
        scale = self.period(spec) if spec["kind"] in ("cpu", "wall") else 1
        return [Held(None, spec["types"][0][1], s["values"][0] * scale) for s in spec["samples"]]

    def told(self, spec):
        """A comment may be a line that is left out, or one that a reader knows for what it is."""
        return {"bad_line": ("bad line" in spec["twists"], ("bad line" in spec["twists"]) + ("comment" in spec["twists"]))}

    def send(self, server, spec, labels):
        return ingest(server, spec, labels, self.encode(spec), suffix=self.SUFFIX[spec["kind"]][0])


class Lines(Format):
    def generate(self, rng, time_ns):
        return base("lines", time_ns, [["cpu", "nanoseconds"]], plain_samples(rng, lambda: [CPU_SAMPLE]), twists=some(rng, "bom", "crlf"))

    def encode(self, spec):
        end = "\r\n" if "crlf" in spec["twists"] else "\n"
        return (b"\xef\xbb\xbf" if "bom" in spec["twists"] else b"") + "".join(";".join(s["stack"]) + end for s in spec["samples"]).encode()

    def held(self, spec):
        return [Held(None, "nanoseconds", CPU_SAMPLE) for _ in spec["samples"]]


class Perf(Format):
    """"periods": each line says how long its sample is. "events": of a clock, and of page faults, which are counted."""
    names = ["main", "work", "idle", "std::vector<int>::push_back", "[unknown]", "operator new(unsigned long)"]

    def generate(self, rng, time_ns):
        samples = plain_samples(rng, lambda: [rng.choice([1, PERF_PERIOD, 250_000])], names=self.names)
        if rng.random() < 0.3:
            samples[0]["stack"] = []
        spec = base("perf", time_ns, [["cpu", "nanoseconds"]], samples, twists=some(rng, "bom", "crlf", "periods", "events"))
        for s in samples:
            s["fault"] = rng.random() < 0.4
        return {**spec, "types": [["cpu", "nanoseconds"], ["page_faults_u", "count"]]} if "events" in spec["twists"] else spec

    def encode(self, spec):
        out = ""
        for i, s in enumerate(spec["samples"]):
            event = "%10d page-faults:u: " % s["values"][0] if self.is_fault(spec, s) else "%10d cpu-clock:ppp: " % s["values"][0] if self.is_timed(spec) else "cpu-clock: "
            out += "app 12/%d [001] 7.%06d: %s\n" % (13 + i % 2, i, event)
            out += "".join("\t%16x %s+0x%x (/bin/app)\n" % (0x400000 + 16 * j, f, j) if f != "[unknown]" else "\t%16x [unknown] (/lib/libc.so.6)\n" % (0x7f000 + j)
                           for j, f in enumerate(reversed(s["stack"]))) + "\n"
        data = (out.replace("\n", "\r\n") if "crlf" in spec["twists"] else out).encode()
        return (b"\xef\xbb\xbf" if "bom" in spec["twists"] else b"") + data

    def is_timed(self, spec):
        return bool({"periods", "events"} & set(spec["twists"]))

    def is_fault(self, spec, sample):
        return "events" in spec["twists"] and sample["fault"]

    def held(self, spec):
        return [Held("page_faults_u", "count", s["values"][0]) if self.is_fault(spec, s) else Held(None, "nanoseconds", s["values"][0] if self.is_timed(spec) else CPU_SAMPLE)
                for s in spec["samples"]]


class Legacy(Format):
    """Go's counts, as debug=1 prints them."""

    def generate(self, rng, time_ns):
        return base("legacy", time_ns, [["goroutine", "count"]], plain_samples(rng, lambda: [rng.randrange(1, 1000)], names=["main.f", "main.g", "main.h"]), twists=some(rng, "bom", "no names"))

    def encode(self, spec):
        out = "goroutine profile: total %d\n" % sum(s["values"][0] for s in spec["samples"])
        for s in spec["samples"]:
            places = [(0x400000 + 64 * ["main.f", "main.g", "main.h"].index(f), f) for f in reversed(s["stack"])]
            out += "%d @ %s\n" % (s["values"][0], " ".join("%#x" % at for at, _ in places))
            if "no names" not in spec["twists"]:
                out += "".join("#\t%#x\t%s+0x1\t/m.go:3\n" % place for place in places)
            out += "\n"
        return (b"\xef\xbb\xbf" if "bom" in spec["twists"] else b"") + out.encode()

    def held(self, spec):
        return [Held(None, "count", s["values"][0]) for s in spec["samples"]]


# ---- JSON

class Speedscope(Format):
    UNITS = {"nanoseconds": ("nanoseconds", 1), "microseconds": ("nanoseconds", 1000), "milliseconds": ("nanoseconds", 10**6), "seconds": ("nanoseconds", 10**9), "bytes": ("bytes", 1),
             "none": ("count", 1)}

    def generate(self, rng, time_ns):
        unit, evented = rng.choice(list(self.UNITS)), rng.random() < 0.5
        samples = plain_samples(rng, lambda: [rng.choice([0, 1, 2, rng.randrange(10**5)])])
        for s in samples:
            s["profile"] = rng.choice([0, 0, 1])
        spec = base("speedscope", time_ns, [["samples", self.UNITS[unit][0]]], samples, twists=some(rng, "bom", "unclosed"))
        return {**spec, "unit": unit, "evented": evented}

    def profile(self, spec, number, frames):
        samples = [s for s in spec["samples"] if s.get("profile", 0) == number]
        ids = [[frames.index(f) for f in s["stack"]] for s in samples]
        end = sum(s["values"][0] for s in samples)
        head = {"name": "part %d" % number, "unit": spec["unit"], "startValue": 0, "endValue": end}
        if not spec["evented"]:
            return {"type": "sampled", **head, "samples": ids, "weights": [s["values"][0] for s in samples]}
        events, at = [], 0
        for n, (s, rows) in enumerate(zip(samples, ids)):
            events += [{"type": "O", "frame": f, "at": at} for f in rows]
            at += s["values"][0]
            if n + 1 < len(samples) or "unclosed" not in spec["twists"]:
                events += [{"type": "C", "frame": f, "at": at} for f in reversed(rows)]
        return {"type": "evented", **head, "events": events}

    def encode(self, spec):
        frames = sorted({f for s in spec["samples"] for f in s["stack"]})
        numbers = sorted({s.get("profile", 0) for s in spec["samples"]})
        body = {"$schema": "https://www.speedscope.app/file-format-schema.json", "shared": {"frames": [{"name": f} for f in frames]},
                "profiles": [self.profile(spec, n, frames) for n in numbers]}
        return (b"\xef\xbb\xbf" if "bom" in spec["twists"] else b"") + json.dumps(body).encode()

    def held(self, spec):
        unit, scale = self.UNITS[spec["unit"]]
        return [Held(None, unit, s["values"][0] * scale) for s in spec["samples"]]

    def told(self, spec):
        """Frames that the last samples of its profiles leave open."""
        if "unclosed" not in spec["twists"] or not spec["evented"]:
            return {}
        last = {s.get("profile", 0): len(s["stack"]) for s in spec["samples"]}
        return {"unclosed_frame": (sum(last.values()),) * 2}


class CpuProfile(Format):
    """Samples are (node, time); a file that twists "order" has some whose time is before that of the one in front of them. It ends with the last sample,
    so that it is clear how long that one was: no time at all."""

    def generate(self, rng, time_ns):
        samples = plain_samples(rng, lambda: [1, 1000 * rng.choice([0, 1, 125, rng.randrange(10**5)])], names=["main", "work", "idle", "größe", ""])
        samples[-1]["values"][1] = 0
        return base("cpuprofile", time_ns, [["samples", "count"], ["wall", "nanoseconds"]], samples, twists=some(rng, "bom", "order"))

    def encode(self, spec):
        nodes, ids = [{"id": 1, "callFrame": call_frame("(root)"), "children": []}], {(): 1}
        at, times = 5000, []
        for s in spec["samples"]:
            for depth in range(1, len(s["stack"]) + 1):
                key = tuple(s["stack"][:depth])
                if key not in ids:
                    ids[key] = len(nodes) + 1
                    nodes[ids[key[:-1]] - 1]["children"].append(ids[key])
                    nodes.append({"id": ids[key], "callFrame": call_frame(key[-1]), "children": []})
            times.append((at, ids[tuple(s["stack"])]))
            at += s["values"][1] // 1000
        end = times[-1][0]
        for i in self.swaps(spec, [t for t, _ in times]):
            times[i], times[i + 1] = times[i + 1], times[i]
        deltas = [t - before for t, before in zip([t for t, _ in times], [5000] + [t for t, _ in times])]
        body = {"nodes": nodes, "startTime": 5000, "endTime": end, "samples": [n for _, n in times], "timeDeltas": deltas}
        return (b"\xef\xbb\xbf" if "bom" in spec["twists"] else b"") + json.dumps(body).encode()

    def swaps(self, spec, times):
        """Neighbours that change places; the first stays, since the profile begins with it, and equal times stay as they are."""
        return [i for i in range(1, len(times) - 1, 2) if times[i] != times[i + 1]] if "order" in spec["twists"] else []

    def told(self, spec):
        at, times = 0, []
        for s in spec["samples"]:
            times.append(at)
            at += s["values"][1] // 1000
        n = len(self.swaps(spec, times))
        return {"unordered_time": (min(n, 1), len(times))} if n else {}

    def held(self, spec):
        samples = [Held("samples", "count", 1) for _ in spec["samples"]]
        return samples + [Held("wall", "nanoseconds", s["values"][1]) for s in spec["samples"][:-1]]  # of the last one there is no time


def call_frame(name):
    return {"functionName": name, "scriptId": "1", "url": "f.js", "lineNumber": 1, "columnNumber": 1}


class HeapProfile(Format):
    def generate(self, rng, time_ns):
        return base("heapprofile", time_ns, [["inuse_space", "bytes"]], plain_samples(rng, lambda: [rng.randrange(10**6)]), twists=some(rng, "bom"))

    def encode(self, spec):
        head = {"callFrame": call_frame("(root)"), "selfSize": 0, "id": 1, "children": []}
        for i, s in enumerate(spec["samples"]):
            at = head
            for f in s["stack"]:
                at["children"].append({"callFrame": call_frame(f), "selfSize": 0, "id": 100 * i + 2, "children": []})
                at = at["children"][-1]
            at["selfSize"] = s["values"][0]
        return (b"\xef\xbb\xbf" if "bom" in spec["twists"] else b"") + json.dumps({"head": head}).encode()

    def held(self, spec):
        return [Held(None, "bytes", s["values"][0]) for s in spec["samples"]]


# ---- binary

class Tree(Format):
    def generate(self, rng, time_ns):
        return base("tree", time_ns, [["cpu", "nanoseconds"]], plain_samples(rng, lambda: [rng.randrange(1000)]))

    def encode(self, spec):
        root = [0, {}]
        for s in spec["samples"]:
            at = root
            for f in s["stack"]:
                at = at[1].setdefault(f, [0, {}])
            at[0] += s["values"][0]
        return self.node("", root, 0)

    def node(self, name, at, depth):
        raw = self.text(name, depth)
        return varint(len(raw)) + raw + varint(at[0]) + varint(len(at[1])) + b"".join(self.node(f, child, depth + 1) for f, child in at[1].items())

    def text(self, name, depth):
        return name.encode()

    def held(self, spec):
        return [Held(None, "nanoseconds", s["values"][0] * CPU_SAMPLE) for s in spec["samples"]]


class Trie(Tree):
    def generate(self, rng, time_ns):
        return {**super().generate(rng, time_ns), "format": "trie"}

    def text(self, name, depth):
        return ((";" if depth > 1 else "") + name).encode()


class JfrFormat(Format):
    """Stacks are 1 and 2 (tests/lib/jfr.py); 0 and 9 are not in the recording."""
    RATES = [([("event", "cpu"), ("interval", "5000000")], 5_000_000), ([("event", "itimer"), ("interval", "5ms")], 5_000_000), ([("event", "ctimer"), ("interval", "20 ms")], 20_000_000)]

    def generate(self, rng, time_ns):
        samples = [{"stack": [rng.choice([1, 2])], "values": [rng.randrange(1, 20)]} for _ in range(rng.choice([1, 2, 4]))]
        if rng.random() < 0.5:
            samples.append({"stack": [rng.choice([0, 9])], "values": [rng.randrange(1, 20)]})
        if rng.random() < 0.5:
            samples.append({"stack": [rng.choice([1, 2])], "values": [rng.randrange(1, 10**6)], "tlab": True})
        spec = base("jfr", time_ns, [["cpu", "nanoseconds"]], samples, twists=some(rng, "compressed", "gzip", "own rate"), duration_ns=10 * 10**9)
        return {**spec, "rate": rng.randrange(len(self.RATES))}

    def rate(self, spec):
        """What the recording says of its rate, which counts more than the one that is sent."""
        return self.RATES[spec["rate"]] if "own rate" in spec["twists"] else ([], CPU_SAMPLE)

    def send(self, server, spec, labels):
        data = self.encode(spec)
        body, headers = multipart(jfr=gzip.compress(data) if "gzip" in spec["twists"] else data)
        return ingest(server, spec, labels, body, headers)

    def encode(self, spec):
        recording = Jfr(compressed="compressed" in spec["twists"])
        for setting in self.rate(spec)[0]:
            recording.setting(*setting)
        for s in spec["samples"]:
            if s.get("tlab"):
                recording.tlab(s["stack"][0], s["values"][0])
            else:
                recording.sample(s["stack"][0], times=s["values"][0])
        return recording.encode()

    def held(self, spec):
        held = []
        for s in spec["samples"]:
            if s.get("tlab"):
                held += [Held("alloc_in_new_tlab_bytes", "bytes", s["values"][0]), Held("alloc_in_new_tlab_objects", "count", 1)]
            else:
                held.append(Held("cpu", "nanoseconds", s["values"][0] * self.rate(spec)[1]))
        return held

    def told(self, spec):
        unknown = sum(s["values"][0] for s in spec["samples"] if s["stack"][0] in (0, 9))
        return {"unknown_stack": (unknown, unknown)}


# ---- OTLP

class Otlp(Format):
    def generate(self, rng, time_ns):
        samples = plain_samples(rng, lambda: [rng.randrange(1, 30)], names=[n for n in NAMES if n])
        spec = base("otlp", time_ns, [["cpu", "nanoseconds"]], samples)
        return {**spec, "layout": rng.choice(LAYOUTS), "stamps": rng.random() < 0.3}

    def encode(self, spec, labels=(("service_name", "x"),)):
        labels = dict(labels)
        stacks = [(";".join(s["stack"]), s["values"][0]) for s in spec["samples"]]
        resource = [(k, v) for k, v in labels.items() if k != "service_name"]
        stamps = spec["stamps"] and spec["layout"] != "1.7"
        return otlp_request(labels["service_name"], *stacks, layout=spec["layout"], time_ns=spec["time_ns"], stamps=stamps, resource=resource)

    def send(self, server, spec, labels):
        return server.call("POST", "/v1development/profiles", self.encode(spec, labels.items()), {"Content-Type": "application/x-protobuf"}, push=True)

    def held(self, spec):
        return [Held("cpu", "nanoseconds", s["values"][0] * CPU_SAMPLE) for s in spec["samples"]]


FORMATS = {"pprof": PprofFormat(), "folded": Folded(), "lines": Lines(), "perf": Perf(), "legacy": Legacy(), "speedscope": Speedscope(), "cpuprofile": CpuProfile(),
           "heapprofile": HeapProfile(), "tree": Tree(), "trie": Trie(), "jfr": JfrFormat(), "otlp": Otlp(), **TOOLS}


def generate(rng, format, time_ns):
    return FORMATS[format].generate(rng, time_ns)


def send(server, spec, labels):
    return FORMATS[spec["format"]].send(server, spec, labels)


def held(spec):
    return FORMATS[spec["format"]].held(spec)


def told(spec):
    return FORMATS[spec["format"]].told(spec)


def period(spec):
    return FORMATS[spec["format"]].period(spec)


def sums(spec):
    """{(type, unit): total}"""
    out = {}
    for h in held(spec):
        out[h.type, h.unit] = out.get((h.type, h.unit), 0) + h.value
    return out
