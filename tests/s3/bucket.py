"""A Flametree on a bucket, and what tests do with it."""
import os
import re
import subprocess
import uuid

from azurite import Azurite
from client import Pprof, now_ms
from flametree import BIN, Flametree
from s3_service import BUCKET


def flags(service, prefix=None, **changes):
    """Settings of a part of the bucket of its own. A setting that is None is left out. A proxy may stand for a service of S3."""
    changes = {"prefix": prefix or uuid.uuid4().hex, **changes}
    if isinstance(service, Azurite):
        return service.flags(**changes)
    values = {"endpoint": service.url, "bucket": BUCKET, "access_key": service.access_key, "secret_key": service.secret_key, **changes}
    return ["--storage.kind=s3", *("--s3.%s=%s" % pair for pair in values.items() if pair[1] is not None)]


NO_KEYS = {name: "" for name in os.environ if name.startswith(("AWS_", "AZURE_"))}
NO_KEYS.update(AWS_SHARED_CREDENTIALS_FILE="/nonexistent/credentials", HOME="/nonexistent")


def on_bucket(service, *args, env=None, prefix=None, data=None, **s3):
    return Flametree(*flags(service, prefix, **s3), *args, env={**NO_KEYS, **(env or {})}, data=data)


def refused(*args, env=None, seconds=60):
    """(exit code, the last line of stderr) of a start that fails."""
    import tempfile
    with tempfile.TemporaryDirectory(prefix="flametree-test-") as data:
        done = subprocess.run([os.path.join(BIN, "flametree"), "--server.listen", "127.0.0.1:0", "--server.data_dir", data, *args],
                              capture_output=True, text=True, timeout=seconds, env={**os.environ, **NO_KEYS, **(env or {})})
    return done.returncode, done.stderr.strip().splitlines()[-1]


def push(s, n, start=0, service="shop", ago_s=60):
    for i in range(start, start + n):
        s.push({"__name__": "process_cpu", "service_name": service}, Pprof(("main;f%d" % (i % 7), 1 + i), time_ns=(now_ms() - ago_s * 1000 + i) * 10**6)).expect(200)


def total(s, service="shop"):
    from client import CPU, select
    reply = s.query("SelectMergeStacktraces", {}, profileTypeID=CPU, labelSelector=select(service), start=now_ms() - 5 * 3_600_000, end=now_ms() + 60_000).expect(200)
    return int(reply.json()["flamegraph"]["total"])


def no_secrets(f, *secrets):
    text = f.tail(100000)
    for secret in secrets:
        assert secret not in text, "a secret is in the log: %s" % re.sub(re.escape(secret), "<secret>", text)
