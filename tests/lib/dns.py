# SPDX-License-Identifier: Apache-2.0
"""A DNS server of a test: answers questions for A and SRV from a table that the test changes, or misbehaves."""
import socket
import struct
import threading

A, AAAA, SRV = 1, 28, 33
NXDOMAIN, SERVFAIL = 3, 2


def name_bytes(name):
    return b"".join(bytes([len(part)]) + part.encode() for part in name.rstrip(".").split(".")) + b"\0"


class Dns:
    """`with Dns() as d: d.srv["_internal._tcp.x.test"] = [("host", port)]; d.a["x.test"] = ["127.0.0.2"]`; d.address is where it listens.

    d.mode: "answer", "silent" (nothing comes back), "servfail"."""

    def __init__(self, host="127.0.0.1"):
        self.a, self.srv, self.mode, self.asked = {}, {}, "answer", 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind((host, 0))
        self.address = "%s:%d" % self.socket.getsockname()
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        self.mode = "end"
        self.socket.sendto(b"", self.socket.getsockname())
        self.thread.join()
        self.socket.close()

    def serve(self):
        while self.mode != "end":
            question, sender = self.socket.recvfrom(4096)
            if len(question) > 12 and self.mode in ("answer", "servfail"):
                self.asked += 1
                self.socket.sendto(self.answer(question), sender)

    def answer(self, question):
        at, parts = 12, []
        while question[at]:
            parts.append(question[at + 1:at + 1 + question[at]].decode())
            at += 1 + question[at]
        kind, _ = struct.unpack(">HH", question[at + 1:at + 5])
        name = ".".join(parts).lower()
        records, code = [], 0
        if self.mode == "servfail":
            code = SERVFAIL
        elif kind == SRV and name in self.srv:
            records = [struct.pack(">HHH", 0, 0, port) + name_bytes(host) for host, port in self.srv[name]]
        elif kind == A and name in self.a:
            records = [socket.inet_aton(host) for host in self.a[name]]
        elif name not in self.a and name not in self.srv:
            code = NXDOMAIN
        head = question[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(records), 0, 0)
        return head + question[12:at + 5] + b"".join(b"\xc0\x0c" + struct.pack(">HHIH", kind, 1, 0, len(r)) + r for r in records)
