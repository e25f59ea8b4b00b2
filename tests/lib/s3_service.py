"""What S3 services of tests have in common (radosgw.py, versitygw.py; azurite.py has the same methods): keys, signed requests to any of them, a bucket, and a command beside them."""
import base64
import datetime
import hashlib
import hmac
import os
import random
import signal
import socket
import subprocess
import sys
import threading
import urllib.error
import urllib.parse
import urllib.request
from xml.etree import ElementTree

BUCKET = "flametree-test"
KEYS = ("AKTEST", "secretkey")


def free_ports(n):
    """n ports in a row that nobody uses now, below those out of which connections are made."""
    pick = random.SystemRandom()
    while True:
        first = pick.randrange(20000, 32000 - n)
        try:
            for port in range(first, first + n):
                with socket.socket() as s:
                    s.bind(("127.0.0.1", port))
            return first
        except OSError:
            continue


class S3Service:
    """A service that runs has a `url`."""

    access_key, secret_key = KEYS
    region = "us-east-1"

    def call(self, method, path, query="", body=b"", keys=None):
        """(status, body) of a signed request."""
        return call(self.url, keys or (self.access_key, self.secret_key), method, path, query, body, self.region)

    def bucket(self, name):
        status, text = self.call("PUT", "/" + name)
        assert status == 200, text
        return name

    def endpoint(self, url):
        """For settings, of the service itself or of a proxy before it."""
        return url

    def keys(self, bucket, prefix=""):
        return keys(self.url, bucket, prefix, (self.access_key, self.secret_key))

    def store_url(self, prefix, bucket=BUCKET):
        return "s3://%s/%s" % (bucket, prefix)

    def client_env(self):
        """Of the client: the service of store_url and its keys."""
        return {"AWS_ENDPOINT_URL_S3": self.url, "AWS_ACCESS_KEY_ID": self.access_key, "AWS_SECRET_ACCESS_KEY": self.secret_key}

    def table(self):
        """Arguments of the program of tests/s3/store.c."""
        return [self.url, BUCKET]

    def settings(self):
        """For the configuration file of a server."""
        pairs = {"endpoint": self.url, "region": self.region, "bucket": BUCKET, "access_key": self.access_key, "secret_key": self.secret_key}
        return "storage:\n  kind: s3\ns3:\n" + "".join("  %s: %s\n" % pair for pair in pairs.items())

    @classmethod
    def serve(cls, path):
        """Until SIGTERM. The settings are in the file once the service takes requests."""
        ends = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: ends.set())
        with cls() as service:
            with open(path + ".new", "w") as f:
                f.write(service.settings())
            os.rename(path + ".new", path)
            ends.wait()

    @classmethod
    def main(cls):
        """Runs the command behind -- with FLAMETREE_TEST_S3 set to the URL of a new service, and exits with its status. Or --serve FILE."""
        if sys.argv[1:2] == ["--serve"]:
            return cls.serve(sys.argv[2])
        with cls() as service:
            command = sys.argv[sys.argv.index("--") + 1:]
            sys.exit(subprocess.run(command, env={**os.environ, "FLAMETREE_TEST_S3": service.url}).returncode)


def signed(url, keys, method, target, extra, body, region="us-east-1"):
    """The headers of a request with those of `extra` that matter. Signature Version 4, written once more: tests do not use what they test."""
    access, secret = keys
    path, _, query = target.partition("?")
    now = datetime.datetime.now(datetime.timezone.utc)
    stamp, day, digest = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d"), hashlib.sha256(body).hexdigest()
    headers = {k.lower(): v for k, v in extra.items() if k.lower().startswith("x-amz-meta-") or k.lower() in ("range", "content-md5", "if-none-match")}
    headers.update({"host": urllib.parse.urlsplit(url).netloc, "x-amz-content-sha256": digest, "x-amz-date": stamp})
    names = ";".join(sorted(headers))
    canonical = "\n".join([method, path, "&".join(sorted(query.split("&"))) if query else "", *("%s:%s" % (k, headers[k]) for k in sorted(headers)), "", names, digest])
    scope = "%s/%s/s3/aws4_request" % (day, region)
    key = ("AWS4" + secret).encode()
    for part in (day, region, "s3", "aws4_request"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    text = "AWS4-HMAC-SHA256\n%s\n%s\n%s" % (stamp, scope, hashlib.sha256(canonical.encode()).hexdigest())
    headers["authorization"] = "AWS4-HMAC-SHA256 Credential=%s/%s, SignedHeaders=%s, Signature=%s" % (
        access, scope, names, hmac.new(key, text.encode(), hashlib.sha256).hexdigest())
    return headers


def call(url, keys, method, path, query="", body=b"", region="us-east-1"):
    """(status, body) of a signed request."""
    path = urllib.parse.quote(path)
    target = path + ("?" + "&".join(sorted(query.split("&"))) if query else "")
    md5 = {"content-md5": base64.b64encode(hashlib.md5(body).digest()).decode()} if method == "POST" else {}
    headers = signed(url, keys, method, target, md5, body, region)
    request = urllib.request.Request(url + target, body if method in ("PUT", "POST") else None, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()


def keys(url, bucket, prefix="", pair=KEYS):
    """{key: size} of all objects."""
    found, after, ns = {}, "", "{http://s3.amazonaws.com/doc/2006-03-01/}"
    while True:
        query = "list-type=2&prefix=%s" % urllib.parse.quote(prefix, safe="") + ("&start-after=" + urllib.parse.quote(after, safe="") if after else "")
        status, text = call(url, pair, "GET", "/" + bucket, query)
        assert status == 200, text
        page = {c.findtext(ns + "Key"): int(c.findtext(ns + "Size")) for c in ElementTree.fromstring(text).iter(ns + "Contents")}
        if not page:
            return found
        found.update(page)
        after = max(page)


def fetch(url, store, folder, pair=KEYS):
    """Copies the objects of s3://bucket/prefix into a folder."""
    bucket, prefix = store[len("s3://"):].split("/", 1)
    for key in keys(url, bucket, prefix.rstrip("/") + "/"):
        status, got = call(url, pair, "GET", "/%s/%s" % (bucket, key))
        if status == 404:  # deleted since
            continue
        assert status == 200, got
        path = os.path.join(folder, key[len(prefix.rstrip("/")) + 1:])
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as f:
            f.write(got)


def copy(url, bucket, prefix, to, pair=KEYS):
    """Copies the objects below prefix/ to to/, in the same bucket."""
    for key in keys(url, bucket, prefix + "/"):
        status, got = call(url, pair, "GET", "/%s/%s" % (bucket, key))
        assert status == 200, got
        status, answer = call(url, pair, "PUT", "/%s/%s%s" % (bucket, to, key[len(prefix):]), body=got)
        assert status == 200, answer
