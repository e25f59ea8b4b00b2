"""A proxy before an S3 service, or Azure's, that makes trouble: requests get lost before or after they are carried out, are answered with 500 or 503,
late, cut short or with a wrong byte.

    with S3Proxy(upstream) as p:
        p.trouble = {"lost": 0.05, "busy": 0.05}    # parts of all requests
        p.away = True                               # nobody is reached
        p.url, p.requests, p.reads[path], p.done["lost"]

    drop      closed, not carried out            landed     carried out, answered with 500
    lost      carried out, closed                cut        half of the answer's body, then closed
    busy      503 SlowDown, not carried out      late       carried out after late_seconds
    later     closed at once, carried out up to late_seconds later
    short     half of a list's body, whose length says that this is all
    conflict  409 to a conditional creation, not carried out
    wrong     a byte of a body that is read is changed (GET of objects only)

    Answers of something that lies between, in the service's place; nothing is carried out:
    page404, page403, page413, page200      a page of a proxy
    etag200                                 the same with an ETag, as servers of files send
    nothing                                 200, and nothing else

    S3Proxy(upstream, tls=(certificate, key))   # speaks TLS
    S3Proxy(upstream, listen=(address, port))   # where others reach it
    p.at_write(3, "before", f)                  # f() at the third request from now on that writes: before or after it is carried out
"""
import collections
import email.utils
import http.client
import http.server
import random
import ssl
import threading
import time
import urllib.parse

KINDS = {"wrong": "object", "conflict": "creation", "short": "list"}  # troubles of some requests only
RARE = ("conflict",)  # of requests so few that the first one meets it for certain
SPARING = ("wrong", "short")  # after which the next eight requests of the same path have no such trouble
PAGE = b"<html>\r\n<head><title>a proxy</title></head>\r\n</html>\r\n"
LIES = {"page404": (404, PAGE), "page403": (403, PAGE), "page413": (413, PAGE), "page200": (200, PAGE), "etag200": (200, PAGE), "nothing": (200, b"")}
HOP = {"connection", "keep-alive", "transfer-encoding", "te", "trailer", "upgrade"}
BUSY = b'<?xml version="1.0"?><Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>'
CONFLICT = b'<?xml version="1.0"?><Error><Code>ConditionalRequestConflict</Code><Message>At the same time.</Message></Error>'
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
        headers = self.server.proxy.change(self.command, self.path, headers, body)
        try:
            self.upstream.request(self.command, self.server.proxy.target(self.path), body or None, headers)
            answer = self.upstream.getresponse()
            status, text = self.server.proxy.say(self.path, answer.status, answer.read())
            return status, self.server.proxy.back(answer.getheaders()), text
        except (OSError, http.client.HTTPException):
            self.upstream.close()
            raise

    def forward_later(self, body, seconds):
        """On a connection of its own: the client's next request may be under way."""
        time.sleep(seconds)
        headers = {k: v for k, v in self.headers.items() if k.lower() not in HOP}
        upstream = http.client.HTTPConnection(*self.server.proxy.upstream, timeout=60)
        try:
            upstream.request(self.command, self.server.proxy.target(self.path), body or None, self.server.proxy.change(self.command, self.path, headers, body))
            upstream.getresponse().read()
        except (OSError, http.client.HTTPException):
            pass
        finally:
            upstream.close()

    def answer(self, status, headers, body, short=False):
        self.send_response_only(status)
        length = next((v for k, v in headers if k.lower() == "content-length"), str(len(body)))
        for k, v in headers:
            if k.lower() not in HOP and k.lower() != "content-length":
                self.send_header(k, v)
        if status != 204:
            self.send_header("Content-Length", length if self.command == "HEAD" else str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body[:len(body) // 2] if short else body)
        if short:
            self.close_connection = True

    def any(self):
        p = self.server.proxy
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        is_object = self.command == "GET" and "?" not in self.path
        kind = "object" if is_object else "creation" if "if-none-match" in self.headers else "list" if "list-type" in self.path or "comp=list&" in self.path else ""
        trouble = p.pick(kind, self.path)
        refusal = p.refuse(self.command, self.path, self.headers, body)
        if refusal:
            status, text, *more = refusal
            self.answer(status, [("Content-Type", "application/xml"), ("Date", email.utils.formatdate(usegmt=True)), *more], text)
            return
        meets = p.counts(self.command)
        if meets == "before":
            p.call()
            self.close_connection = True
            return
        if trouble == "drop":
            self.close_connection = True
            return
        if trouble == "busy":
            self.answer(503, [("Content-Type", "application/xml")], BUSY)
            return
        if trouble in LIES:
            status, text = LIES[trouble]
            self.answer(status, [("Content-Type", "text/html"), *([("ETag", '"5f3a-62"')] if trouble == "etag200" else [])], text)
            return
        if trouble == "conflict":
            self.answer(409, [("Content-Type", "application/xml")], CONFLICT)
            return
        if trouble == "later":
            self.close_connection = True
            threading.Thread(target=self.forward_later, args=(body, p.dice.uniform(0, p.late_seconds)), daemon=True).start()
            return
        if trouble == "late":
            time.sleep(p.late_seconds)
        try:
            status, headers, got = self.forward(body)
        except (OSError, http.client.HTTPException):
            self.close_connection = True
            return
        if meets == "after":
            p.call()
        if trouble == "lost" or meets:
            self.close_connection = True
        elif trouble == "landed":
            self.answer(500, [("Content-Type", "application/xml")], BROKEN)
        elif trouble == "wrong" and got and status in (200, 206):
            at = random.randrange(len(got))
            self.answer(status, headers, got[:at] + bytes([got[at] ^ 4]) + got[at + 1:])
        elif trouble == "short" and status == 200:
            self.answer(status, headers, got[:len(got) // 2])
        else:
            self.answer(status, headers, got, short=trouble == "cut" and len(got) > 1)

    do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = any


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, request, address):
        pass  # clients that went away


class S3Proxy:
    def __init__(self, upstream, seed=1, tls=None, listen=("127.0.0.1", 0)):
        url = urllib.parse.urlsplit(upstream)
        self.upstream_url, self.tls, self.listen = upstream, tls, listen
        self.upstream = (url.hostname, url.port)
        self.trouble, self.away, self.late_seconds = {}, False, 1.0
        self.requests, self.done = 0, collections.Counter()
        self.reads = collections.Counter()  # GETs of objects by their path
        self.left, self.when, self.call = 0, None, None
        self.spared = {}  # path: how many of its requests are spared
        self.dice, self.lock = random.Random(seed), threading.Lock()

    def change(self, method, path, headers, body):
        """The headers to send on."""
        return headers

    def target(self, path):
        """The path to send on."""
        return path

    def back(self, headers):
        """The headers of an answer to send back."""
        return headers

    def say(self, path, status, body):
        """(status, body) of an answer to send back."""
        return status, body

    def refuse(self, method, path, headers, body):
        """(status, body), and further headers if need be, for a request that is not to be sent on, otherwise None."""
        return None

    def at_write(self, at, when, call):
        with self.lock:
            self.left, self.when, self.call = at, when, call

    def counts(self, method):
        """When the request of that method meets what at_write ordered: "before", "after", or None."""
        with self.lock:
            if method not in ("PUT", "POST", "DELETE") or not self.left:
                return None
            self.left -= 1
            return None if self.left else self.when

    def pick(self, kind, path):
        with self.lock:
            self.requests += 1
            if kind == "object":
                self.reads[path] += 1
            if self.away:
                return "drop"
            at = self.dice.random()
            for name, part in self.trouble.items():
                if KINDS.get(name, kind) != kind or (name in SPARING and self.spared.get(path)):
                    continue
                if at < part or (name in RARE and not self.done[name]):
                    self.done[name] += 1
                    if name in SPARING:
                        self.spared[path] = 9
                    break
                at -= part
            else:
                name = None
            if self.spared.get(path):
                self.spared[path] -= 1
        return name

    def __enter__(self):
        self.server = Server(self.listen, Handler)
        self.server.proxy = self
        self.url = "http%s://%s:%d" % ("s" if self.tls else "", *self.server.server_address)
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*self.tls)
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True, do_handshake_on_connect=False)
        threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
