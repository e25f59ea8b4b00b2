"""Azure Blob Storage for tests: Microsoft's azurite, from npm in the versions of tests/s3/azurite/package-lock.json. It keeps everything in memory.

    with Azurite() as g:
        g.url, g.account, g.account_key, g.bucket("name"), g.sas("name")
    Azurite(tls=(certificate, key), oauth=True)     speaks TLS, and takes tokens of identities that are in form; it checks no signature of theirs
    tests/lib/azurite.py -- COMMAND...              runs a command with FLAMETREE_TEST_AZURE set to the service's URL
"""
import base64
import datetime
import fcntl
import hashlib
import hmac
import os
import shutil
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from xml.etree import ElementTree

from s3_service import BUCKET, free_ports

TOP = os.path.realpath(os.path.join(os.path.dirname(__file__), "../.."))
PACKAGES = os.path.join(TOP, "tests/s3/azurite")
ACCOUNT = "flametreetest"
KEY = base64.b64encode(b"the key of an account of tests: 64 bytes, as a real one has them").decode()
VERSION = "2019-12-12"


def build():
    """[node, program], the packages in build/azurite; got once, half a minute. Of tests at the same time one gets them and the others wait."""
    folder = os.path.join(TOP, "build/azurite")
    os.makedirs(folder, exist_ok=True)
    found = subprocess.run([os.path.join(TOP, "tests/lib/node")], capture_output=True, text=True)
    if found.returncode:
        raise RuntimeError(found.stderr.strip())
    bin_folder = found.stdout.strip()
    with open(os.path.join(PACKAGES, "package-lock.json")) as f:
        wanted = f.read()
    with open(os.path.join(folder, "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        mark = os.path.join(folder, "installed")
        if not os.path.exists(mark) or open(mark).read() != wanted:
            for file in ("package.json", "package-lock.json"):
                shutil.copy(os.path.join(PACKAGES, file), folder)
            command = [os.path.join(bin_folder, "npm"), "ci", "--omit=optional", "--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier"]
            done = subprocess.run(command, cwd=folder, env={**os.environ, "PATH": bin_folder + os.pathsep + os.environ["PATH"]}, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError((done.stderr + done.stdout).strip())
            with open(mark, "w") as f:
                f.write(wanted)
    return [os.path.join(bin_folder, "node"), os.path.join(folder, "node_modules/azurite/dist/src/blob/main.js")]


def signature(text, key=KEY):
    return base64.b64encode(hmac.new(base64.b64decode(key), text.encode(), hashlib.sha256).digest()).decode()


def signed(method, path, query, headers, length):
    """The headers with a signature by Shared Key, written once more: tests do not use what they test. The query is a dictionary."""
    now = datetime.datetime.now(datetime.timezone.utc).strftime("%a, %d %b %Y %H:%M:%S GMT")
    headers = {"x-ms-date": now, "x-ms-version": VERSION, **headers}
    named = ["" for _ in range(11)]
    named[2] = str(length) if length else ""
    named[4] = headers.get("content-type", "")
    service = ["%s:%s" % (k, headers[k]) for k in sorted(headers) if k.startswith("x-ms-")]
    pairs = ["%s:%s" % (k, query[k]) for k in sorted(query)]
    text = "\n".join([method, *named, *service, "/" + ACCOUNT + path, *pairs])
    return {**headers, "authorization": "SharedKey %s:%s" % (ACCOUNT, signature(text))}


class Azurite:
    kind = "azure"
    account, account_key = ACCOUNT, KEY
    secret_key = KEY  # what no log may have, as of an S3Service

    def __init__(self, tls=None, oauth=False):
        self.tls, self.oauth = tls, oauth

    def __enter__(self):
        self.dir = tempfile.mkdtemp(prefix="azurite-")
        self.port = free_ports(1)
        self.host = "http%s://127.0.0.1:%d" % ("s" if self.tls else "", self.port)
        self.url = self.endpoint(self.host)
        command = [*build(), "--blobPort", str(self.port), "--silent", "--inMemoryPersistence", "--disableTelemetry"]
        if self.tls:
            command += ["--cert", self.tls[0], "--key", self.tls[1]]
        if self.oauth:
            command += ["--oauth", "basic"]
        self.log = open(os.path.join(self.dir, "log"), "wb")
        env = {**os.environ, "AZURITE_ACCOUNTS": "%s:%s" % (ACCOUNT, KEY)}
        self.process = subprocess.Popen(command, env=env, stdout=self.log, stderr=self.log, stdin=subprocess.DEVNULL, cwd=self.dir)
        try:
            self.wait()
            self.bucket(BUCKET)
        except BaseException:
            self.__exit__()
            raise
        return self

    @classmethod
    def at(cls, url):
        """One that runs already, by its `url`."""
        service = cls()
        service.url, service.host = url, url[:-len("/" + ACCOUNT)]
        return service

    def endpoint(self, url):
        """The account's, of the service itself or of a proxy before it."""
        return "%s/%s" % (url, ACCOUNT)

    def wait(self):
        deadline = time.monotonic() + 60
        while True:
            try:
                return self.call("GET", "", {"comp": "list"})
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    with open(os.path.join(self.dir, "log"), errors="replace") as f:
                        raise AssertionError("azurite does not listen:\n" + f.read()[-3000:])
                time.sleep(0.1)

    def call(self, method, path, query=None, body=b"", **headers):
        """(status, body) of a signed request; the path begins below the account."""
        query = query or {}
        path = "/" + ACCOUNT + urllib.parse.quote(path)
        named = {"x-ms-" + k.replace("_", "-"): v for k, v in headers.items()}
        if method == "PUT":
            named["content-type"] = "application/octet-stream"
        target = self.host + path + ("?" + urllib.parse.urlencode(query, quote_via=urllib.parse.quote) if query else "")
        request = urllib.request.Request(target, body if method == "PUT" else None, signed(method, path, query, named, len(body)), method=method)
        try:
            context = ssl._create_unverified_context() if self.tls else None
            with urllib.request.urlopen(request, timeout=60, context=context) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as e:
            return e.code, e.read()

    def bucket(self, name):
        status, text = self.call("PUT", "/" + name, {"restype": "container"})
        assert status == 201, text
        return name

    def keys(self, bucket, prefix=""):
        """{name: size} of all blobs."""
        found, marker = {}, ""
        while True:
            query = {"restype": "container", "comp": "list", "prefix": prefix, **({"marker": marker} if marker else {})}
            status, text = self.call("GET", "/" + bucket, query)
            assert status == 200, text
            page = ElementTree.fromstring(text)
            found.update({b.findtext("Name"): int(b.findtext("Properties/Content-Length")) for b in page.iter("Blob")})
            marker = page.findtext("NextMarker")
            if not marker:
                return found

    def fetch(self, store, folder):
        """Copies the blobs of azure://container/prefix into a folder."""
        bucket, prefix = store[len("azure://"):].split("/", 1)
        for key in self.keys(bucket, prefix.rstrip("/") + "/"):
            status, got = self.call("GET", "/%s/%s" % (bucket, key))
            if status == 404:  # deleted since
                continue
            assert status == 200, got
            path = os.path.join(folder, key[len(prefix.rstrip("/")) + 1:])
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "wb") as f:
                f.write(got)

    def sas(self, bucket, rights="rcwdl", minutes=60):
        """A shared access signature of a container."""
        end = (datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=minutes)).strftime("%Y-%m-%dT%H:%M:%SZ")
        name = "/blob/%s/%s" % (ACCOUNT, bucket)
        text = "\n".join([rights, "", end, name, "", "", "", VERSION, "c", "", "", "", "", "", ""])
        return urllib.parse.urlencode({"sv": VERSION, "sr": "c", "sp": rights, "se": end, "sig": signature(text)})

    def flags(self, prefix, **changes):
        """Settings of a part of the container of its own. A setting that is None is left out."""
        values = {"endpoint": self.url, "account": ACCOUNT, "container": BUCKET, "prefix": prefix, "account_key": KEY, **changes}
        return ["--storage.kind=azure", *("--azure.%s=%s" % pair for pair in values.items() if pair[1] is not None)]

    def store_url(self, prefix, bucket=BUCKET):
        return "azure://%s/%s" % (bucket, prefix)

    def client_env(self):
        """Of the client: the service of store_url and its key."""
        return {"AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_KEY": KEY, "AZURE_STORAGE_SERVICE_ENDPOINT": self.url}

    def table(self):
        """Arguments of the program of tests/s3/store.c."""
        return [self.url, BUCKET, "azure", ACCOUNT, KEY]

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()
        shutil.rmtree(self.dir, ignore_errors=True)


if __name__ == "__main__":
    with Azurite() as service:
        sys.exit(subprocess.run(sys.argv[sys.argv.index("--") + 1:], env={**os.environ, "FLAMETREE_TEST_AZURE": service.url}).returncode)
