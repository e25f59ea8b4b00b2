"""A proxy before a server that answers every third request with 429 and Retry-After: 1, as a source that is asked too much does."""
import contextlib
import http.client
import http.server
import threading
import urllib.parse


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def pass_on(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.server.lock:
            self.server.asked += 1
            refuse = self.server.asked % 3 == 2
            self.server.refused += refuse
        if refuse:
            answer, status, headers = b'{"code":"resource_exhausted","message":"too many requests"}', 429, [("Content-Type", "application/json"), ("Retry-After", "1")]
        else:
            connection = http.client.HTTPConnection(self.server.to.hostname, self.server.to.port, timeout=60)
            connection.request(self.command, self.path, body, {k: v for k, v in self.headers.items() if k.lower() not in ("host", "content-length")})
            got = connection.getresponse()
            answer, status = got.read(), got.status
            headers = [(k, v) for k, v in got.getheaders() if k.lower() not in ("content-length", "connection", "transfer-encoding")]
            connection.close()
        self.send_response(status)
        for k, v in headers:
            self.send_header(k, v)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    do_GET = do_POST = pass_on

    def log_message(self, *_):
        pass


@contextlib.contextmanager
def crowded(url):
    """Yields the server: .url, .asked and .refused, the numbers of requests."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
    server.daemon_threads = True
    server.to, server.lock, server.asked, server.refused = urllib.parse.urlsplit(url), threading.Lock(), 0, 0
    server.url = "http://127.0.0.1:%d" % server.server_port
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
