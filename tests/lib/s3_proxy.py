"""A proxy before an S3 service that makes trouble: requests get lost before or after they are carried out, are answered with 500 or 503,
late, cut short or with a wrong byte.

    with S3Proxy(upstream) as p:
        p.trouble = {"lost": 0.05, "busy": 0.05}    # parts of all requests
        p.away = True                               # nobody is reached
        p.url, p.requests, p.reads[path], p.done["lost"]

    drop      closed, not carried out            landed     carried out, answered with 500
    lost      carried out, closed                cut        half of the answer's body, then closed
    busy      503 SlowDown, not carried out      late       carried out after late_seconds
    wrong     a byte of a body that is read is changed (GET of objects only; the next eight of the same object are right)
"""
import collections
import http.client
import http.server
import random
import threading
import time
import urllib.parse

HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade"}
BUSY = b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>'
BROKEN = b'<?xml version="1.0"?><Error><Code>InternalError</Code><Message>We encountered an internal error.</Message></Error>'


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def forward(self, body):
        if not hasattr(self, "upstream"):
            self.upstream = http.client.HTTPConnection(*self.server.proxy.upstream, timeout=60)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP}
        try:
            self.upstream.request(self.command, self.path, body or None, headers)
            answer = self.upstream.getresponse()
            return answer.status, answer.getheaders(), answer.read()
        except (OSError, http.client.HTTPException):
            self.upstream.close()
            raise

    def answer(self, status, headers, body, short=False):
        self.send_response_only(status)
        length = next((v for k, v in headers if k.lower() == "content-length"), str(len(body)))
        for k, v in headers:
            if k.lower() not in HOP and k.lower() != "content-length":
                self.send_header(k, v)
        if status != 204:
            self.send_header("Content-Length", length if self.command == "HEAD" else str(len(body)))
        self.end_headers()
        self.wfile.write(body[:len(body) // 2] if short else body)
        if short:
            self.close_connection = True

    def any(self):
        p = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_object = self.command == "GET" and "?" not in self.path
        trouble = p.pick(self.path if is_object else None)
        if trouble == "drop":
            self.close_connection = True
            return
        if trouble == "busy":
            self.answer(503, [("Content-Type", "application/xml")], BUSY)
            return
        if trouble == "late":
            time.sleep(p.late_seconds)
        try:
            status, headers, got = self.forward(body)
        except (OSError, http.client.HTTPException):
            self.close_connection = True
            return
        if trouble == "lost":
            self.close_connection = True
        elif trouble == "landed":
            self.answer(500, [("Content-Type", "application/xml")], BROKEN)
        elif trouble == "wrong" and got and status in (200, 206):
            at = random.randrange(len(got))
            self.answer(status, headers, got[:at] + bytes([got[at] ^ 4]) + got[at + 1:])
        else:
            self.answer(status, headers, got, short=trouble == "cut" and len(got) > 1)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = any


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, address):
        pass  # clients that went away


class S3Proxy:
    def __init__(self, upstream, seed=1):
        url = urllib.parse.urlsplit(upstream)
        self.upstream = (url.hostname, url.port)
        self.trouble, self.away, self.late_seconds = {}, False, 1.0
        self.requests, self.done = 0, collections.Counter()
        self.reads = collections.Counter()  # GETs of objects by their path
        self.spared = {}  # path of an object: how many of its reads bring right bytes
        self.dice, self.lock = random.Random(seed), threading.Lock()

    def pick(self, object_path):
        with self.lock:
            self.requests += 1
            if object_path:
                self.reads[object_path] += 1
            if self.away:
                return "drop"
            at = self.dice.random()
            for name, part in self.trouble.items():
                if name == "wrong" and (object_path is None or self.spared.get(object_path)):
                    continue
                if at < part:
                    self.done[name] += 1
                    if name == "wrong":
                        self.spared[object_path] = 9
                    break
                at -= part
            else:
                name = None
            if self.spared.get(object_path):
                self.spared[object_path] -= 1
        return name

    def __enter__(self):
        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.proxy = self
        self.url = "http://127.0.0.1:%d" % self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
