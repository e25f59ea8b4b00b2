"""HTTP/1.1 and HTTP/2 as raw bytes, for tests that say what no client library would.

    w = Wire(f)                              # a connection to a Flametree, or to ("127.0.0.1", port)
    w.send(b"GET / HTTP/1.1\\r\\n\\r\\n")         # sends all, reading meanwhile; stops when the server ends the connection
    w.answers()                              # [Answer] until the server ends the connection; w.end says how: "fin" or "reset"
    h = H2(f)                                # the preface, SETTINGS; the server's are read and acknowledged
    h.request(1, path="/ready"); h.await_end(1).status
    h.send(frame(PING, 0, 0, b"12345678")); h.await_over(); h.goaway
Frames are made by frame() and fields() and may be as wrong as one likes. Waits fail after WAIT_SECONDS naming what was awaited.
"""
import select
import socket
import struct
import time

WAIT_SECONDS = 60

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)
END_STREAM, ACK, END_HEADERS, PADDED, WITH_PRIORITY = 1, 1, 4, 8, 32
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
# RFC 9113 section 7
(NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR, SETTINGS_TIMEOUT, STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR,
 CONNECT_ERROR, ENHANCE_YOUR_CALM) = range(12)
HEADER_TABLE_SIZE, ENABLE_PUSH, MAX_CONCURRENT_STREAMS, INITIAL_WINDOW_SIZE, MAX_FRAME_SIZE, MAX_HEADER_LIST_SIZE = range(1, 7)


def address_of(where):
    return where if isinstance(where, tuple) else (where.host, where.ports["public"])


def ready(sock, events, seconds):
    """Which of the events are there within so many seconds; 0: none. (select() cannot watch thousands of sockets.)"""
    poll = select.poll()
    poll.register(sock, events)
    got = poll.poll(seconds * 1000)
    return got[0][1] if got else 0


class Answer:
    """One HTTP/1.1 answer."""

    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def __repr__(self):
        return "%d %r %r" % (self.status, self.headers, self.body[:200])


class Wire:
    def __init__(self, where, source=None, receive_buffer=None):
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        if source:
            self.socket.bind((source, 0))
        self.socket.connect(address_of(where))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.setblocking(False)
        self.input = bytearray()  # received and not taken
        self.end = None           # how the server ended the connection: "fin", "reset"

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.socket.close()

    def reset(self):
        """Leaves with RST."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def half_close(self):
        self.socket.shutdown(socket.SHUT_WR)

    def receive(self, seconds):
        """Waits for bytes or the end; False when neither came in time."""
        if self.end:
            return True
        if not ready(self.socket, select.POLLIN, seconds):
            return False
        try:
            got = self.socket.recv(1 << 18)
        except BlockingIOError:
            return False
        except ConnectionError:
            self.end = "reset"
            return True
        if got:
            self.input += got
            self.received()
        else:
            self.end = "fin"
        return True

    def received(self):
        pass

    def send(self, data, reading=True):
        """True when all of it went; False when the server ended the connection before. reading=False: as a client that never reads."""
        view, deadline = memoryview(data), time.monotonic() + WAIT_SECONDS
        while view and not self.end:
            assert time.monotonic() < deadline, "waited for the server to read %d bytes more" % len(view)
            events = ready(self.socket, select.POLLOUT | (select.POLLIN if reading else 0), 1)
            if reading and events & (select.POLLIN | select.POLLHUP | select.POLLERR):
                self.receive(0)
            if events & ~select.POLLIN and not self.end:
                try:
                    view = view[self.socket.send(view[:1 << 16]):]
                except BlockingIOError:
                    pass
                except ConnectionError:
                    self.drain()
                    self.end = self.end or "reset"
        return not view

    def drain(self):
        """Reads what the server said before it ended the connection."""
        while not self.end and self.receive(0):
            pass

    def await_(self, what, done):
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            got = done()
            if got:
                return got
            assert not self.end, "the connection ended (%s) before %s; received %r" % (self.end, what, bytes(self.input[:300]))
            assert self.receive(max(0, deadline - time.monotonic())), "waited %d s for %s; received %r" % (WAIT_SECONDS, what, bytes(self.input[:300]))

    def await_over(self):
        """Reads until the server ends the connection."""
        deadline = time.monotonic() + WAIT_SECONDS
        while not self.end:
            assert self.receive(max(0, deadline - time.monotonic())), "waited %d s for the server to end the connection; received %r" % (
                WAIT_SECONDS, bytes(self.input[:300]))

    # ---- HTTP/1.1

    def take(self, body=True):
        """The next answer, None if not all of it is here. body=False: of a HEAD request. Interim answers (1xx) count as answers."""
        head, found, _ = bytes(self.input).partition(b"\r\n\r\n")
        if not found:
            return None
        lines = head.split(b"\r\n")
        assert lines[0].startswith(b"HTTP/1.1 "), "no answer: %r" % bytes(self.input[:300])
        headers = {k.strip().lower().decode(): v.strip().decode() for k, _, v in (line.partition(b":") for line in lines[1:])}
        status = int(lines[0][9:12])
        length = int(headers.get("content-length", 0)) if body and status >= 200 else 0
        at = len(head) + 4
        if len(self.input) < at + length:
            return None
        answer = Answer(status, headers, bytes(self.input[at:at + length]))
        del self.input[:at + length]
        return answer

    def answer(self, body=True):
        return self.await_("an answer", lambda: self.take(body))

    def answers(self):
        """All answers up to the end of the connection; nothing but whole answers may come."""
        self.await_over()
        found = []
        while self.input:
            answer = self.take()
            assert answer, "half an answer: %r" % bytes(self.input[:300])
            found.append(answer)
        return found


# ---- HTTP/2

def frame(kind, flags, stream, payload=b"", length=None):
    """length: what the frame says of itself, if not the truth."""
    return struct.pack(">I", len(payload) if length is None else length)[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def integer(n, bits, first=0):
    """RFC 7541 section 5.1."""
    most = (1 << bits) - 1
    if n < most:
        return bytes([first | n])
    out, n = bytearray([first | most]), n - most
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    return bytes(out) + bytes([n])


def text(s):
    s = s if isinstance(s, bytes) else s.encode()
    return integer(len(s), 7) + s


def fields(pairs, indexed=False):
    """A block of literal fields; indexed=True lets the server's table keep them."""
    return b"".join((b"\x40" if indexed else b"\x00") + text(name) + text(value) for name, value in pairs)


def head(method="GET", path="/ready", more=(), authority="localhost", scheme="http"):
    return [(":method", method), (":scheme", scheme), (":authority", authority), (":path", path), *more]


def settings(**values):
    """settings(INITIAL_WINDOW_SIZE=0)"""
    return frame(SETTINGS, 0, 0, b"".join(struct.pack(">HI", globals()[name], value) for name, value in values.items()))


def window_update(stream, by):
    return frame(WINDOW_UPDATE, 0, stream, struct.pack(">I", by))


def rst(stream, code=CANCEL):
    return frame(RST_STREAM, 0, stream, struct.pack(">I", code))


def headers(stream, pairs, flags=END_STREAM | END_HEADERS):
    return frame(HEADERS, flags, stream, fields(pairs))


# Huffman codes of the digits (RFC 7541 appendix B): those of a status that is not in the static table.
DIGITS = {(5, 0): "0", (5, 1): "1", (5, 2): "2", (6, 0x19): "3", (6, 0x1a): "4", (6, 0x1b): "5", (6, 0x1c): "6", (6, 0x1d): "7", (6, 0x1e): "8", (6, 0x1f): "9"}


def digits(packed):
    bits = "".join("{:08b}".format(b) for b in packed)
    out, at = "", 0
    while len(out) < 3:
        size = 5 if (5, int(bits[at:at + 5], 2)) in DIGITS else 6
        out += DIGITS[size, int(bits[at:at + size], 2)]
        at += size
    return out


def status_of(block):
    """:status, which is first; the peer's table is empty because we gave it no room."""
    while block[0] & 0xe0 == 0x20:  # says that it uses no table
        block = block[1:]
    static = {8: 200, 9: 204, 10: 206, 11: 304, 12: 400, 13: 404, 14: 500}
    if block[0] & 0x80:
        return static[block[0] & 0x7f]
    length = block[1] & 0x7f
    value = block[2:2 + length]
    return int(digits(value) if block[1] & 0x80 else value)


class Stream:
    def __init__(self):
        self.status = None   # of the last HEADERS that had one; interim ones are counted
        self.interim = 0
        self.bytes = 0
        self.body = bytearray()
        self.ended = False
        self.reset = None    # code of RST_STREAM

    def __repr__(self):
        return "status %s, %d bytes, ended %s, reset %s" % (self.status, self.bytes, self.ended, self.reset)


class H2(Wire):
    def __init__(self, where, initial=None, source=None, receive_buffer=None, **values):
        super().__init__(where, source, receive_buffer)
        self.streams, self.goaway, self.goaways, self.acks, self.pongs, self.max_streams = {}, None, [], 0, 0, None
        self.keep_bodies = True
        self.grant = True  # give back windows as data come
        self.stream_window, self.windows = 65535, {0: 65535}  # what DATA may still be sent, by stream; 0: the connection
        self.later, self.sending = b"", False
        self.send(PREFACE + settings(HEADER_TABLE_SIZE=0, **values) if initial is None else initial)

    def received(self):
        while len(self.input) >= 9:
            length = int.from_bytes(self.input[:3], "big")
            if len(self.input) < 9 + length:
                return
            kind, flags = self.input[3], self.input[4]
            stream = int.from_bytes(self.input[5:9], "big") & 0x7fffffff
            payload = bytes(self.input[9:9 + length])
            del self.input[:9 + length]
            self.on_frame(kind, flags, stream, payload)

    def on_frame(self, kind, flags, stream, payload):
        if kind == SETTINGS and not flags & ACK:
            for at in range(0, len(payload), 6):
                name, value = struct.unpack(">HI", payload[at:at + 6])
                if name == MAX_CONCURRENT_STREAMS:
                    self.max_streams = value
                elif name == INITIAL_WINDOW_SIZE:
                    self.windows = {i: w if i == 0 else w + value - self.stream_window for i, w in self.windows.items()}
                    self.stream_window = value
            self.put(frame(SETTINGS, ACK, 0))
        elif kind == SETTINGS:
            self.acks += 1
        elif kind == WINDOW_UPDATE:
            self.windows[stream] = self.windows.get(stream, self.stream_window) + struct.unpack(">I", payload)[0]
        elif kind == PING:
            self.pongs += 1
        elif kind == GOAWAY:
            self.goaway = struct.unpack(">I", payload[4:8])[0]
            self.goaways.append(struct.unpack(">II", payload[:8]))
        elif kind in (HEADERS, DATA, RST_STREAM):
            self.on_stream_frame(kind, flags, self.streams.setdefault(stream, Stream()), stream, payload)

    def on_stream_frame(self, kind, flags, s, stream, payload):
        if kind == RST_STREAM:
            s.reset = struct.unpack(">I", payload)[0]
            return
        if kind == HEADERS and s.status is None:
            status = status_of(payload)
            if status < 200:
                s.interim += 1
            else:
                s.status = status
        elif kind == DATA:
            s.bytes += len(payload)
            if self.keep_bodies:
                s.body += payload
            if payload and self.grant:
                self.put(window_update(0, len(payload)) + window_update(stream, len(payload)))
        s.ended |= bool(flags & END_STREAM)

    def put(self, data):
        """For answers to what was received: sent at the next place between frames."""
        self.later += data

    def send(self, data, reading=True):
        self.sending = True
        whole = super().send(data, reading)
        self.sending = False
        self.send_later()
        return whole

    def receive(self, seconds):
        got = super().receive(seconds)
        self.send_later()
        return got

    def send_later(self):
        while self.later and not self.sending and not self.end:
            data, self.later = self.later, b""
            self.sending = True
            Wire.send(self, data)
            self.sending = False

    def request(self, stream, method="GET", path="/ready", more=(), body=None, **kw):
        flags = END_HEADERS | (END_STREAM if body is None else 0)
        data = headers(stream, head(method, path, more, **kw), flags)
        if body is not None:
            data += frame(DATA, END_STREAM, stream, body)
        return self.send(data)

    def over(self, stream):
        """The stream, if it ended or was reset."""
        s = self.streams.get(stream)
        return s if s and (s.ended or s.reset is not None) else None

    def send_data(self, stream, payload, flags=0):
        """One DATA frame as soon as both windows have room for it, as RFC 9113 section 5.2 asks of clients. False: the stream was over before."""
        def room():
            return self.over(stream) or min(self.windows[0], self.windows.setdefault(stream, self.stream_window)) >= len(payload)
        self.await_("room for DATA of stream %d" % stream, room)
        if self.over(stream):
            return False
        for i in (0, stream):
            self.windows[i] -= len(payload)
        return self.send(frame(DATA, flags, stream, payload))

    def await_end(self, stream):
        """The stream, when it ended or was reset."""
        return self.await_("the end of stream %d" % stream, lambda: self.over(stream))

    def await_pong(self):
        """A PING and its answer: the server has read all that was sent before. False: the connection ended."""
        wanted = self.pongs + 1
        deadline = time.monotonic() + WAIT_SECONDS
        self.send(frame(PING, 0, 0, b"12345678"))
        while self.pongs < wanted and not self.end:
            assert self.receive(max(0, deadline - time.monotonic())), "waited %d s for a PING's answer" % WAIT_SECONDS
        return self.pongs >= wanted
