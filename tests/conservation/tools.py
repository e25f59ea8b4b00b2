"""Formats of other tools' files: of profiles.py, whose types are their own. As there, what they hold is added up while they are made.

Their samples may have the labels thread and pid; a stack that is None is one that the file does not know."""
import json

from forms import Format, Held, base, ingest, plain_samples, some

NAMES = ["main", "work", "idle", "größe", "函数", "a b", "net/http.(*conn).serve", "std::vector<int>::push_back", "[unknown]"]
UNKNOWN = "[unknown]"


def marked(spec, text):
    return (b"\xef\xbb\xbf" if "bom" in spec["twists"] else b"") + text.encode()


def first_counts(samples):
    """A file whose values are all 0 has no sample."""
    samples[0]["values"] = [v or 1 for v in samples[0]["values"]]
    return samples


class Node:
    """A tree of the stacks of samples, equal frames merged."""

    def __init__(self, name=""):
        self.name, self.own, self.below = name, 0, {}

    def add(self, stack, value):
        at = self
        for f in stack:
            at = at.below.setdefault(f, Node(f))
        at.own += value
        return self

    @property
    def total(self):
        return self.own + sum(n.total for n in self.below.values())


def tree_of(samples):
    root = Node()
    for s in samples:
        root.add(s["stack"], s["values"][0])
    return root


class Flamebearer(Format):
    """"surplus": the graph says that there is more than its bars have."""
    KINDS = {"cpu": ("samples", 100, [["samples", "count", 1], ["cpu", "nanoseconds", 10**7]]), "wall": ("samples", 1000, [["samples", "count", 1], ["wall", "nanoseconds", 10**6]]),
             "inuse_space": ("bytes", 100, [["inuse_space", "bytes", 1]]), "goroutines": ("goroutines", 0, [["goroutines", "count", 1]]),
             "delay": ("lock_nanoseconds", 0, [["delay", "nanoseconds", 1]]), "": (None, 0, [["samples", "count", 1]])}

    def generate(self, rng, time_ns):
        kind = rng.choice(list(self.KINDS))
        samples = first_counts(plain_samples(rng, lambda: [rng.choice([0, 1, 3, rng.randrange(10**6)])], names=NAMES))
        spec = base("flamebearer", time_ns, [k[:2] for k in self.KINDS[kind][2]], samples, twists=some(rng, "bom", "surplus"))
        return {**spec, "kind": kind, "right": rng.random() < 0.5}

    def encode(self, spec):
        names, level, levels = ["total"], [(0, tree_of(spec["samples"]))], []
        ticks = level[0][1].total + 7 * ("surplus" in spec["twists"])
        while level:
            bars, end, below = [], 0, []
            for at, node in level:
                if node.name not in names:
                    names.append(node.name)
                total = max(node.total, ticks) if not levels else node.total
                bars += [at - end, total, node.own, names.index(node.name) if levels else 0]
                end = at + total
                inner = at + node.own * spec["right"]  # what is its own is on the left, or on the right
                for child in node.below.values():
                    below.append((inner, child))
                    inner += child.total
            levels.append(bars)
            level = below
        if not spec["kind"]:
            graph = {"names": names, "levels": [{"values": [str(v) for v in bars]} for bars in levels], "total": str(ticks), "maxSelf": "1"}
            return marked(spec, json.dumps({"flamegraph": graph}))
        units, rate, _ = self.KINDS[spec["kind"]]
        graph = {"names": names, "levels": levels, "numTicks": ticks, "maxSelf": 1}
        return marked(spec, json.dumps({"version": 1, "flamebearer": graph, "metadata": {"format": "single", "units": units, "sampleRate": rate, "name": spec["kind"]}}))

    def held(self, spec):
        values = [s["values"][0] for s in spec["samples"]] + [7] * ("surplus" in spec["twists"])
        return [Held(t, u, v * scale) for v in values for t, u, scale in self.KINDS[spec["kind"]][2]]

    def told(self, spec):
        return {"unknown_stack": (1, 1)} if "surplus" in spec["twists"] else {}


class Firefox(Format):
    """Of the page of the profiler ("processed"), with tables of each thread or of all, or Gecko's."""

    def generate(self, rng, time_ns):
        samples = [{**s, "thread": rng.choice(["main", "pool"])} for s in plain_samples(rng, lambda: [rng.choice([1, 1, 2, 9]), rng.choice([0, 0, 3, 1500])], names=NAMES)]
        for s in samples:
            if rng.random() < 0.1:
                s["stack"] = None
        twists = some(rng, "bom", "weights", "cpu", "shared") + rng.choice([[], ["gecko"]])
        return base("firefox", time_ns, [["samples", "count"], ["wall", "nanoseconds"], ["cpu", "nanoseconds"]], samples, twists=twists)

    def weight(self, spec, s):
        return s["values"][0] if "weights" in spec["twists"] and "gecko" not in spec["twists"] else 1

    def encode(self, spec):
        meta = {"interval": 2, "product": "x", "sampleUnits": {"time": "ms", "threadCPUDelta": "µs"}}
        threads = {}
        for s in spec["samples"]:
            threads.setdefault(s["thread"], []).append(s)
        tables = Tables()
        rows = [self.thread(spec, name, samples, tables if "shared" in spec["twists"] else Tables()) for name, samples in sorted(threads.items())]
        body = {"meta": meta, "libs": [], "threads": rows}
        if "shared" in spec["twists"] and "gecko" not in spec["twists"]:
            body["shared"] = tables.processed()
        return marked(spec, json.dumps(body))

    def thread(self, spec, name, samples, tables):
        stacks = [None if s["stack"] is None else tables.stack(s["stack"]) for s in samples]
        times, cpu = [2 * i for i in range(len(samples))], [s["values"][1] for s in samples]
        if "gecko" in spec["twists"]:
            schema = {"stack": 0, "time": 1, "eventDelay": 2, "threadCPUDelta": 3}
            data = [[stack, at, 0] + ([used] if "cpu" in spec["twists"] else []) for stack, at, used in zip(stacks, times, cpu)]
            return {"name": name, "pid": 7, "tid": 8, "samples": {"schema": schema, "data": data}, **tables.gecko()}
        table = {"length": len(samples), "stack": stacks, "time": times}
        if "weights" in spec["twists"]:
            table.update(weight=[s["values"][0] for s in samples], weightType="samples")
        if "cpu" in spec["twists"]:
            table["threadCPUDelta"] = cpu
        return {"name": name, "pid": "7", "tid": 8, "samples": table, **({} if "shared" in spec["twists"] else tables.processed())}

    def held(self, spec):
        out = []
        for s in spec["samples"]:
            labels, weight = {"thread": s["thread"], "pid": "7"}, self.weight(spec, s)
            out += [Held("samples", "count", weight, labels), Held("wall", "nanoseconds", weight * 2_000_000, labels)]
            if "cpu" in spec["twists"]:
                out.append(Held("cpu", "nanoseconds", s["values"][1] * 1000, labels))
        return out

    def told(self, spec):
        lost = sum(s["stack"] is None for s in spec["samples"])
        return {"unknown_stack": (lost, lost)} if lost else {}


class Tables:
    """The tables of stacks, frames, functions and strings: the rows of the last three are the same."""

    def __init__(self):
        self.strings, self.rows = [], {}

    def stack(self, frames):
        row = None
        for f in frames:
            if f not in self.strings:
                self.strings.append(f)
            row = self.rows.setdefault((row, self.strings.index(f)), len(self.rows))
        return row

    def processed(self):
        n = range(len(self.strings))
        return {"stackTable": {"length": len(self.rows), "prefix": [p for p, _ in self.rows], "frame": [f for _, f in self.rows]},
                "frameTable": {"length": len(n), "func": list(n), "address": [-1 for _ in n]},
                "funcTable": {"length": len(n), "name": list(n), "resource": [-1 for _ in n], "fileName": [None for _ in n], "lineNumber": [None for _ in n]},
                "resourceTable": {"length": 0, "lib": [], "name": []}, "stringArray": self.strings}

    def gecko(self):
        return {"stackTable": {"schema": {"prefix": 0, "frame": 1}, "data": [list(r) for r in self.rows]},
                "frameTable": {"schema": {"location": 0, "line": 1}, "data": [[i] for i in range(len(self.strings))]}, "stringTable": self.strings}


class Trace(Format):
    """Each sample is a time in which its stack was open, one behind the other, in ns."""

    def generate(self, rng, time_ns):
        samples = first_counts(plain_samples(rng, lambda: [100 * rng.choice([0, 1, 15, rng.randrange(10**5)])], names=NAMES))
        samples = [{**s, "thread": rng.choice(["t1", "t2"]), "complete": rng.random() < 0.5} for s in samples]
        twists = some(rng, "bom", "unclosed", "list", "no end", "backwards")
        return base("trace", time_ns, [["wall", "nanoseconds"]], samples, twists=[t for t in twists if t != "backwards" or all(s["complete"] for s in samples)])

    def unclosed(self, spec):
        """The last sample of each thread, if it has begins."""
        last = {s["thread"]: s for s in spec["samples"]}
        return [s for s in last.values() if not s["complete"]] if "unclosed" in spec["twists"] else []

    def encode(self, spec):
        events, at, open_ = [], {}, self.unclosed(spec)
        for s in spec["samples"]:
            begin = at.get(s["thread"], 5_000_000_000)
            end = at[s["thread"]] = begin + s["values"][0]
            one = {"pid": 3, "tid": 1 + (s["thread"] == "t2"), "cat": "x"}
            if s["complete"]:
                events += [{"ph": "X", "name": f, "ts": begin / 1000, "dur": (end - begin) / 1000, **one} for f in s["stack"]]
                continue
            events += [{"ph": "B", "name": f, "ts": begin / 1000, **one} for f in s["stack"]]
            if not any(s is o for o in open_):
                events += [{"ph": "E", "name": f, "ts": end / 1000, **one} for f in reversed(s["stack"])]
        events += [{"ph": "X", "name": "end", "ts": at[s["thread"]] / 1000, "dur": 0, "pid": 3, "tid": 1 + (s["thread"] == "t2")} for s in open_]
        if "backwards" in spec["twists"]:
            by_time = sorted(enumerate(events), key=lambda e: (-e[1]["ts"], e[0]))
            events = [e for _, e in by_time]
        events.append({"ph": "M", "name": "thread_name", "pid": 3, "tid": 1, "args": {"name": "t1"}})
        events.append({"ph": "C", "name": "a counter", "pid": 3, "tid": 1, "ts": 1, "args": {"n": 3}})
        if "list" not in spec["twists"]:
            return marked(spec, json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}))
        text = json.dumps(events)
        return marked(spec, text[:-1] + ",\n" if "no end" in spec["twists"] else text)

    def held(self, spec):
        return [Held("wall", "nanoseconds", s["values"][0], {"thread": "t1" if s["thread"] == "t1" else "2", "pid": "3"}) for s in spec["samples"]]

    def told(self, spec):
        n = sum(len(s["stack"]) for s in self.unclosed(spec))
        return {"unclosed_frame": (n, n)} if n else {}


class Callgrind(Format):
    """Each sample is a function that used something itself, and was called by the function of the sample before it."""

    def generate(self, rng, time_ns):
        samples = [{"stack": [rng.choice(NAMES)], "values": [rng.choice([0, 1, 40, rng.randrange(10**6)]), rng.randrange(1000)]} for _ in range(rng.choice([1, 2, 5, 20]))]
        return base("callgrind", time_ns, [["instructions", "count"], ["dr", "count"]], first_counts(samples), twists=some(rng, "summary", "surplus", "short", "loop"))

    def encode(self, spec):
        names, out = {}, ["# callgrind format", "version: 1", "creator: callgrind-3.19", "positions: line", "events: Ir Dr", "", "ob=(1) /bin/app", "fl=(1) a.c"]

        def name(f):
            known = f in names
            number = names.setdefault(f, len(names) + 1)
            return "(%d)" % number if known and "short" in spec["twists"] else "(%d) %s" % (number, f)
        calls, sums = spec["samples"][1:], [sum(s["values"][i] for s in spec["samples"]) for i in range(2)]
        for i, s in enumerate(spec["samples"]):
            out += ["", "fn=" + name(s["stack"][0]), "%d %d %d" % (16 + i, *s["values"])]
            callee = calls[i] if i < len(calls) else spec["samples"][0] if "loop" in spec["twists"] else None
            if callee:
                rest = [sum(t["values"][k] for t in spec["samples"][i + 1:]) for k in range(2)]
                out += ["cfn=" + name(callee["stack"][0]), "calls=1 1", "%d %d %d" % (17 + i, *rest)]
        if "surplus" in spec["twists"]:
            out.append("totals: %d %d" % (sums[0] + 11, sums[1]))
        elif "summary" in spec["twists"]:
            out.append("summary: %d %d" % tuple(sums))
        return ("\n".join(out) + "\n").encode()

    def held(self, spec):
        return super().held(spec) + [Held("instructions", "count", 11)] * ("surplus" in spec["twists"])

    def told(self, spec):
        return {"unknown_stack": (1, 1)} if "surplus" in spec["twists"] else {}


class Stackprof(Format):
    def generate(self, rng, time_ns):
        mode, interval = rng.choice([("wall", 1000), ("cpu", 5000), ("object", 10), ("object", 1), ("custom", 0)])
        samples = plain_samples(rng, lambda: [rng.randrange(1, 1000)], names=NAMES)
        types = [["alloc_objects", "count", max(interval, 1)]] if mode == "object" else [["samples", "count", 1]]
        types += [[mode, "nanoseconds", interval * 1000]] if mode in ("wall", "cpu") else []
        spec = base("stackprof", time_ns, [t[:2] for t in types], samples, twists=some(rng, "no raw", "more", "unknown frame"))
        return {**spec, "mode": mode, "interval": interval, "scales": [t[2] for t in types]}

    def encode(self, spec):
        ids, frames, raw = {}, {}, []
        for s in spec["samples"]:
            stack = [ids.setdefault(f, 70 + 10 * len(ids)) for f in s["stack"]]
            for f, i in zip(s["stack"], stack):
                frames.setdefault(str(i), {"name": f, "file": "/a.rb", "line": None, "total_samples": 0, "samples": 0, "edges": {}})
            frames[str(stack[-1])]["samples"] += s["values"][0]
            for one, next_ in zip(stack, stack[1:]):
                edges = frames[str(one)]["edges"]
                edges[str(next_)] = edges.get(str(next_), 0) + s["values"][0]
            raw += [len(stack), *stack, s["values"][0]]
        if self.twist(spec) == "unknown frame":
            raw += [2, 70, 5, 4]
        total = sum(s["values"][0] for s in spec["samples"]) + self.more(spec)
        body = {"version": 1.2, "mode": spec["mode"], "interval": spec["interval"], "samples": total, "gc_samples": 0, "missed_samples": 0, "frames": frames}
        return json.dumps(body if self.twist(spec) == "no raw" else {**body, "raw": raw}).encode()

    def twist(self, spec):
        return next((t for t in ("no raw", "unknown frame") if t in spec["twists"]), None)

    def more(self, spec):
        return 4 * (self.twist(spec) == "unknown frame") + 9 * ("more" in spec["twists"])

    def held(self, spec):
        values = [s["values"][0] for s in spec["samples"]] + [self.more(spec)]
        return [Held(t, u, v * scale) for v in values for (t, u), scale in zip(spec["types"], spec["scales"])]

    def told(self, spec):
        frame = self.twist(spec) == "unknown frame"
        return {"unknown_stack": (9, 9) if "more" in spec["twists"] else (0, 0), "unknown_frame": (frame, frame)}


class Sample(Format):
    """The report of macOS' `sample`; "instruments": a call tree copied from Instruments, in milliseconds."""

    def generate(self, rng, time_ns):
        samples = plain_samples(rng, lambda: [rng.randrange(1, 1000)], names=[n for n in NAMES if n != "a b"])
        spec = base("sample", time_ns, [["samples", "count"], ["wall", "nanoseconds"]], samples, twists=some(rng, "instruments", "self", "crlf"))
        return {**spec, "types": [["cpu", "nanoseconds"]]} if "instruments" in spec["twists"] else spec

    def encode(self, spec):
        lines, tree = [], tree_of(spec["samples"])
        if "instruments" in spec["twists"]:
            lines = ["Weight\tSelf Weight\t\tSymbol Name"] if "self" in spec["twists"] else ["Running Time\tSelf (ms)\t\tSymbol Name"]
            for depth, node in walk(tree):
                lines.append("%d.00 ms  50.0%%\t%d.00 ms\t \t%s%s" % (node.total, node.own, " " * depth, node.name))
        else:
            lines = ["Analysis of sampling shop (pid 7) every 2 milliseconds", "Process:         shop [7]", "", "Call graph:", "    %d Thread_12   DispatchQueue_1: com.apple.main-thread  (serial)" % tree.total]
            lines += ["    + %s%d %s  (in shop) + %d  [0x1%04x]" % ("! " * depth, node.total, node.name, depth, i) for i, (depth, node) in enumerate(walk(tree))]
            lines += ["", "Total number in stack (recursive counted multiple, when >=5):", "        9       work  (in shop) + 0  [0x1]", ""]
        end = "\r\n" if "crlf" in spec["twists"] else "\n"
        return (end.join(lines) + end).encode()

    def held(self, spec):
        if "instruments" in spec["twists"]:
            return [Held("cpu", "nanoseconds", s["values"][0] * 10**6) for s in spec["samples"]]
        labels = {"thread": "com.apple.main-thread", "pid": "7"}
        return [h for s in spec["samples"] for h in (Held("samples", "count", s["values"][0], labels), Held("wall", "nanoseconds", s["values"][0] * 2 * 10**6, labels))]


def walk(tree):
    """(depth, node) of a tree, without its root."""
    todo = [(0, n) for n in reversed(tree.below.values())]
    while todo:
        depth, node = todo.pop()
        yield depth, node
        todo += [(depth + 1, n) for n in reversed(node.below.values())]


class Chrome(Format):
    """CPU profiles of V8 in pieces, of one thread or two; each ends with a sample of no time."""

    def generate(self, rng, time_ns):
        samples = plain_samples(rng, lambda: [1, 1000 * rng.choice([0, 1, 125, rng.randrange(10**5)])], names=["main", "work", "idle", "größe", ""])
        samples = [{**s, "thread": rng.choice(["CrRendererMain", "Worker"])} for s in samples]
        for thread in {s["thread"] for s in samples}:
            [s for s in samples if s["thread"] == thread][-1]["values"][1] = 0
        return base("chrome", time_ns, [["samples", "count"], ["wall", "nanoseconds"]], samples, twists=some(rng, "bom", "list", "late head"))

    def encode(self, spec):
        events = []
        for number, thread in enumerate(["CrRendererMain", "Worker"], 1):
            samples = [s for s in spec["samples"] if s["thread"] == thread]
            if samples:
                events += self.recording(spec, number, samples)
                events.append({"name": "thread_name", "ph": "M", "pid": 7, "tid": number, "args": {"name": thread}})
        return marked(spec, json.dumps(events if "list" in spec["twists"] else {"traceEvents": events}))

    def recording(self, spec, number, samples):
        pieces, ids, at, before = [], {(): 1}, 5000, 5000
        for i, s in enumerate(samples):
            nodes = [] if i else [{"id": 1, "callFrame": frame("(root)")}]
            for depth in range(1, len(s["stack"]) + 1):
                key = tuple(s["stack"][:depth])
                if key not in ids:
                    ids[key] = len(ids) + 1
                    nodes.append({"id": ids[key], "callFrame": frame(key[-1]), "parent": ids[key[:-1]]})
            data = {"cpuProfile": {"nodes": nodes, "samples": [ids[tuple(s["stack"])]]}, "timeDeltas": [at - before]}
            pieces.append({"name": "ProfileChunk", "ph": "P", "pid": 7, "tid": 99, "id": "0x%d" % number, "ts": 10_000 + i, "args": {"data": data}})
            before, at = at, at + s["values"][1] // 1000
        head = {"name": "Profile", "ph": "P", "pid": 7, "tid": number, "id": "0x%d" % number, "ts": 9000, "args": {"data": {"startTime": 5000}}}
        pieces[-1]["args"]["data"]["endTime"] = before
        return pieces + [head] if "late head" in spec["twists"] else [head] + pieces

    def held(self, spec):
        out = []
        for s in spec["samples"]:
            labels = {"profile_name": s["thread"], "pid": "7"}
            out += [Held("samples", "count", 1, labels), Held("wall", "nanoseconds", s["values"][1], labels)]
        return out


def frame(name):
    return {"functionName": name, "scriptId": "1", "url": "f.js", "lineNumber": 1, "columnNumber": 1}


TOOLS = {"flamebearer": Flamebearer(), "firefox": Firefox(), "trace": Trace(), "callgrind": Callgrind(), "stackprof": Stackprof(), "sample": Sample(), "chrome": Chrome()}
