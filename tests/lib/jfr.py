"""A recording of the Java Flight Recorder, made field by field, for tests and for the seeds of the fuzz target."""
import struct

NAMES = ["int", "long", "boolean", "java.lang.String", "jdk.types.Symbol", "java.lang.Class", "jdk.types.Method", "jdk.types.StackFrame",
         "jdk.types.StackTrace", "jdk.types.ThreadState", "jdk.ExecutionSample", "jdk.ActiveSetting", "jdk.ObjectAllocationInNewTLAB"]
IDS = {name: 20 + i for i, name in enumerate(NAMES)}
POOL, ARRAY = ("constantPool", "true"), ("dimension", "1")
FIELDS = {
    "jdk.types.Symbol": [("string", "java.lang.String")],
    "java.lang.Class": [("name", "jdk.types.Symbol", POOL)],
    "jdk.types.Method": [("type", "java.lang.Class", POOL), ("name", "jdk.types.Symbol", POOL)],
    "jdk.types.StackFrame": [("method", "jdk.types.Method", POOL), ("lineNumber", "int")],
    "jdk.types.StackTrace": [("truncated", "boolean"), ("frames", "jdk.types.StackFrame", ARRAY)],
    "jdk.types.ThreadState": [("name", "java.lang.String")],
    "jdk.ExecutionSample": [("startTime", "long"), ("stackTrace", "jdk.types.StackTrace", POOL), ("state", "jdk.types.ThreadState", POOL),
                            ("contextId", "long"), ("spanId", "long")],
    "jdk.ActiveSetting": [("startTime", "long"), ("name", "java.lang.String"), ("value", "java.lang.String")],
    "jdk.ObjectAllocationInNewTLAB": [("startTime", "long"), ("stackTrace", "jdk.types.StackTrace", POOL), ("tlabSize", "long")],
}


class Jfr:
    """One chunk: the symbols work and idle of class App, stack 1 = App.work, stack 2 = App.idle called by App.work."""

    def __init__(self, compressed=True, symbols=("App", "work", "idle"), fields=None, delta=0):
        self.compressed, self.symbols, self.types, self.delta, self.events = compressed, symbols, {**FIELDS, **(fields or {})}, delta, b""

    def number(self, v, size=8):
        if not self.compressed:
            return (v & (1 << 8 * size) - 1).to_bytes(size, "big")
        v &= (1 << 64) - 1
        out = bytearray()
        while len(out) < 8 and v > 127:
            out.append(v & 127 | 128)
            v >>= 7
        return bytes(out) + bytes([v])

    def text(self, s):
        raw = s.encode()
        return b"\3" + self.number(len(raw), 4) + raw

    def event(self, type_id, body):
        body, size = self.number(type_id) + body, 1
        while len(self.number(size, 4)) + len(body) != size:
            size = len(self.number(size, 4)) + len(body)
        return self.number(size, 4) + body

    def sample(self, stack, context=0, span=0, times=1):
        n = self.number
        self.events += times * self.event(IDS["jdk.ExecutionSample"], n(5) + n(stack) + n(1) + n(context) + n(span))
        return self

    def tlab(self, stack, size):
        self.events += self.event(IDS["jdk.ObjectAllocationInNewTLAB"], self.number(5) + self.number(stack) + self.number(size))
        return self

    def setting(self, name, value):
        self.events += self.event(IDS["jdk.ActiveSetting"], self.number(5) + self.text(name) + self.text(value))
        return self

    def metadata(self):
        strings = []

        def at(s):
            if s not in strings:
                strings.append(s)
            return self.number(strings.index(s), 4)

        def element(name, attributes, children):
            head = at(name) + self.number(len(attributes), 4) + b"".join(at(k) + at(v) for k, v in attributes)
            return head + self.number(len(children), 4) + b"".join(children)
        classes = [element("class", [("name", name), ("id", str(IDS[name]))],
                           [element("field", [("name", f[0]), ("class", str(IDS[f[1]]))] + list(f[2:]), []) for f in self.types.get(name, [])])
                   for name in NAMES]
        tree = element("root", [], [element("metadata", [], classes), element("region", [], [])])
        table = self.number(len(strings), 4) + b"".join(map(self.text, strings))
        return self.event(0, self.number(0) * 3 + table + tree)

    def checkpoint(self):
        n = self.number

        def pool(name, entries):
            return n(IDS[name]) + n(len(entries), 4) + b"".join(n(i + 1) + entry for i, entry in enumerate(entries))

        def stack(*methods):
            return b"\0" + n(len(methods), 4) + b"".join(n(m) + n(10 * m, 4) for m in methods)
        pools = [pool("jdk.types.StackTrace", [stack(1), stack(2, 1)]), pool("jdk.types.Method", [n(1) + n(2), n(1) + n(3)]),
                 pool("java.lang.Class", [n(1)]), pool("jdk.types.Symbol", [self.text(s) for s in self.symbols]),
                 pool("jdk.types.ThreadState", [self.text("STATE_RUNNABLE")])]
        return self.event(1, n(0) * 2 + n(self.delta) + b"\0" + n(len(pools), 4) + b"".join(pools))

    def encode(self):
        meta, pools = self.metadata(), self.checkpoint()
        types_at = 68 + len(self.events)
        body = self.events + meta + pools
        return struct.pack(">4sHHQQQQQQQI", b"FLR\0", 2, 1, 68 + len(body), types_at + len(meta), types_at, 1, 1, 1, 10**9,
                           int(self.compressed)) + body
