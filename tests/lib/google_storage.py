"""What stands for Google Cloud Storage in tests: its XML API as documented, in front of an S3 service that does the work. Google's own is not to be
had here. Sources: docs.cloud.google.com/storage/docs, pages authentication/signatures, request-preconditions, multipart-uploads,
xml-api/reference-headers, xml-api/get-bucket-list.

    with GoogleStorage(service) as g:       # has the interface of radosgw.py's: g.url, g.access_key, g.secret_key
        g.problems                          # what no request may have, each once
        g.kinds["creation"]                 # requests by kind: creation, unconditional, delete, batch, end

    signatures   GOOG4-HMAC-SHA256, scope DATE/LOCATION/storage/goog4_request; anything else is 403
    headers      x-goog- and x-amz- together are 400; x-amz- alone is a problem, because it would lose its meaning under this signature
    creation     if x-goog-if-generation-match is 0. If-None-Match of a PUT is ignored: the object is replaced
    end          of an upload in parts replaces the object, whatever the conditions
    batch        deletion of many objects by one request is 400 NotImplemented
"""
import collections
import hashlib
import hmac
import re
import urllib.parse

from s3_service import signed
from s3_proxy import S3Proxy

LINE = re.compile(r"GOOG4-HMAC-SHA256 Credential=([^/]+)/(\d{8})/([^/]+)/storage/goog4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$")


def refusal(code):
    return b'<?xml version="1.0"?><Error><Code>%s</Code></Error>' % code.encode()


class GoogleStorage(S3Proxy):
    heeds_conditions, knows_start = True, True

    def __init__(self, service, **options):
        super().__init__(service.url, **options)
        self.service, self.problems, self.kinds = service, set(), collections.Counter()
        self.access_key, self.secret_key, self.region = service.access_key, service.secret_key, "auto"

    def fault_of_signature(self, method, path, headers, body):
        match = LINE.match(headers.get("authorization", ""))
        if not match:
            return "AccessDenied"
        access, day, place, names, signature = match.groups()
        if access != self.access_key:
            return "InvalidAccessKeyId"
        path, _, query = path.partition("?")
        digest = hashlib.sha256(body).hexdigest()
        sent = [k.lower() for k in headers if k.lower().startswith("x-goog-")] + ["host"]
        if sorted(names.split(";")) != names.split(";") or not set(sent) <= set(names.split(";")) or headers["x-goog-content-sha256"] != digest:
            return "SignatureDoesNotMatch"
        lines = ["%s:%s" % (name, headers[name]) for name in names.split(";")]
        canonical = "\n".join([method, path, query, *lines, "", names, digest])
        key = ("GOOG4" + self.secret_key).encode()
        for part in (day, place, "storage", "goog4_request"):
            key = hmac.new(key, part.encode(), hashlib.sha256).digest()
        text = "GOOG4-HMAC-SHA256\n%s\n%s/%s/storage/goog4_request\n%s" % (headers["x-goog-date"], day, place, hashlib.sha256(canonical.encode()).hexdigest())
        return None if hmac.new(key, text.encode(), hashlib.sha256).hexdigest() == signature else "SignatureDoesNotMatch"

    def kind(self, method, path, headers):
        query = urllib.parse.parse_qs(path.partition("?")[2], keep_blank_values=True)
        if method == "POST" and "delete" in query:
            return "batch"
        if method == "POST" and "uploadId" in query:
            return "end"
        if method == "PUT" and "uploadId" not in query:
            return "creation" if headers.get("x-goog-if-generation-match") == "0" else "unconditional"
        return method.lower()

    def refuse(self, method, path, headers, body):
        names = {k.lower() for k in headers}
        amazon = {k for k in names if k.startswith("x-amz-")}
        kind = self.kind(method, path, headers)
        with self.lock:
            self.kinds[kind] += 1
            self.problems |= amazon | ({"if-none-match"} & names)
        if amazon and any(k.startswith("x-goog-") for k in names):
            return 400, refusal("ExcessHeaderValues")
        fault = self.fault_of_signature(method, path, headers, body)
        if fault:
            return 403, refusal(fault)
        return (400, refusal("NotImplemented")) if kind == "batch" else None

    def target(self, path):
        return path if self.knows_start else re.sub(r"&start-after=[^&]*", "", path)

    def change(self, method, path, headers, body):
        given = {k.lower(): v for k, v in headers.items()}
        extra = {k.replace("x-goog-meta-", "x-amz-meta-"): v for k, v in given.items() if k.startswith("x-goog-meta-") or k in ("range", "content-md5")}
        if self.kind(method, path, given) == "creation" and self.heeds_conditions:
            extra["if-none-match"] = "*"
        return signed(self.service.url, (self.service.access_key, self.service.secret_key), method, self.target(path), extra, body, self.service.region)

    def back(self, headers):
        return [(k.lower().replace("x-amz-", "x-goog-"), v) for k, v in headers]
