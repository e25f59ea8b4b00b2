"""Settings that are wrong, services that refuse or lie, proxies that cut: one clear line each. Secrets are told nowhere."""
import re
import subprocess

import pytest
from bucket import BUCKET, flags, on_bucket, push, refused, total
from client import Pprof
from flametree import await_, flush
from s3_proxy import S3Proxy

# A new data directory: nothing works before the setting is right, so the start ends.
REFUSED = {
    "an access key that nobody knows": ({"access_key": "NOBODY"}, "403 InvalidAccessKeyId; look at s3.access_key (FLAMETREE_S3_ACCESS_KEY), which the service does not know"),
    "another secret key": ({"secret_key": "wrong"}, "403 SignatureDoesNotMatch; s3.secret_key (FLAMETREE_S3_SECRET_KEY) is wrong, or a proxy changes the request"),
    "a bucket that is not there": ({"bucket": "not-there"}, "404 NoSuchBucket; make the bucket, or look at s3.bucket"),
    "no bucket": ({"bucket": None}, "s3.bucket: storage.kind s3 needs the name of a bucket"),
    "half a pair of keys": ({"secret_key": None}, "s3.secret_key: it is not set, and access_key is"),
    "an endpoint with a path": ({"endpoint": "http://127.0.0.1:1/x"}, "it is written https://host:port, without a path"),
    "an endpoint without a scheme": ({"endpoint": "127.0.0.1:1"}, "s3.endpoint: '127.0.0.1:1' "),
    "a name that no bucket has": ({"bucket": "Bad_Name", "style": "virtual"}, "s3.bucket: 'Bad_Name' has a 'B' at 0, which no bucket's name has"),
    "a prefix that is none": ({"prefix": "a//b"}, "s3.prefix: prefix of an object 'a//b' has a part ''"),
    "a style that is none": ({"style": "both"}, "s3.style: 'both' is none of auto, path, virtual"),
    "authorities that are not there": ({"ca_file": "/nonexistent"}, "/nonexistent: No such file or directory"),
}

# The service may come back, and the log takes pushes meanwhile where it has done so before: the process goes on, says why, and tries again.
AWAY = {
    "nobody listens": ({"endpoint": "http://127.0.0.1:1"}, "Couldn't connect to server"),
    "a name that is not known": ({"endpoint": "http://nowhere.invalid"}, "Could not resolve host: nowhere.invalid"),
    "TLS with a service without": ({"endpoint": "https://{host}"}, "wrong version number"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_told_in_one_line_and_the_start_ends(service, name):
    change, says = REFUSED[name]
    code, said = refused(*flags(service, **change))
    assert code in (1, 2) and said.startswith("flametree: ") and says in said, said
    assert service.secret_key not in said


@pytest.mark.parametrize("name", AWAY)
def test_a_service_that_is_not_there_is_told_at_once_and_asked_again(service, name):
    change, says = AWAY[name]
    change = {k: v.format(host=service.url[len("http://"):]) for k, v in change.items()}
    f = on_bucket(service, **change)
    try:
        f.start(wait=False)
        await_("the line", lambda: "event=storage.refuses" in f.tail())
        line = next(line for line in f.tail().splitlines() if "event=storage.refuses" in line)
        assert "level=warn" in line and says in line, line
    finally:
        f.kill()
        f.__exit__(AssertionError, None, None)


@pytest.mark.parametrize("id, secret, says", [
    ("FLAMETREE_S3_ACCESS_KEY", "FLAMETREE_S3_SECRET_KEY", ("s3.access_key (FLAMETREE_S3_ACCESS_KEY)", "s3.secret_key (FLAMETREE_S3_SECRET_KEY)")),
    ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"))], ids=["settings", "environment"])
def test_a_wrong_key_is_told_by_the_name_of_the_variable_that_has_it(service, id, secret, says):
    """As a Secret of Kubernetes gives them: never with the value."""
    mine = flags(service, access_key=None, secret_key=None)
    for env, name in (({id: "NOBODY", secret: service.secret_key}, says[0]), ({id: service.access_key, secret: "n0t-it"}, says[1])):
        code, said = refused(*mine, env=env)
        assert code == 1 and re.search(r"; (look at )?%s(, which the service does not know| is wrong, or a proxy)" % re.escape(name), said), said
        assert service.secret_key not in said and "n0t-it" not in said and "NOBODY" not in said, said
    code, said = refused(*mine, env={"FLAMETREE_S3_ACCESS_KEY": service.access_key})
    assert code == 2 and said == "flametree: s3.secret_key: it is not set, and access_key is", said


def certificate(folder, names):
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=test", "-addext", "subjectAltName=" + names,
                    "-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")], check=True, capture_output=True)
    return str(folder / "cert.pem"), str(folder / "key.pem")


@pytest.mark.parametrize("names,trusted,says", [
    ("IP:127.0.0.1", True, None),
    ("DNS:another.example", True, "no alternative certificate subject name matches"),
    ("IP:127.0.0.1", False, "certificate"),
], ids=["right", "another name", "not trusted"])
def test_tls_is_checked(service, tmp_path, names, trusted, says):
    cert, key = certificate(tmp_path, names)
    with S3Proxy(service.url, tls=(cert, key)) as proxy:
        f = on_bucket(service, endpoint=proxy.url, **({"ca_file": cert} if trusted else {}))
        try:
            f.start(wait=says is None)
            if says is None:
                push(f.server(), 3)
                flush(f)
            else:
                await_("the line", lambda: "event=storage.refuses" in f.tail())
                line = next(line for line in f.tail().splitlines() if "event=storage.refuses" in line)
                assert says in line, line
        finally:
            f.kill()
            f.__exit__(AssertionError, None, None)


def test_keys_that_become_wrong_are_told_and_nothing_is_lost(service, tmp_path):
    with on_bucket(service, prefix="keys", data=str(tmp_path)) as f:
        push(f.server(), 3)
        f.kill()
        right, f.args = f.args, [a.replace("--s3.secret_key=" + service.secret_key, "--s3.secret_key=wrong") for a in f.args]
        f.start(wait=False)
        f.await_listening()
        told = lambda: [line for line in f.tail().splitlines() if "event=storage.refuses" in line]
        line = await_("it to be told", told, 60)[0]
        assert "SignatureDoesNotMatch; s3.secret_key (FLAMETREE_S3_SECRET_KEY) is wrong" in line, line
        # No stream of it can be registered, so it takes no push; none is taken and then lost.
        reply = f.server().push({"__name__": "process_cpu", "service_name": "refused"}, Pprof(("main;work", 1)))
        assert reply.status == 503, reply
        says = "s3.secret_key (FLAMETREE_S3_SECRET_KEY) is wrong"
        ready = await_("/ready to name the key", lambda: (lambda r: r if says in r.body.decode() else None)(f.server().call("GET", "/ready")), 60)
        assert ready.status == 503 and "=wrong" not in ready.body.decode() and service.secret_key not in ready.body.decode() + f.tail(), ready
        assert f.server().call("GET", "/live").status == 200
        f.kill()
        f.args = right
        f.start()
        flush(f)
        assert total(f.server()) == 6


class Liar(S3Proxy):
    """Heeds no condition: takes it out of each request, which it signs anew."""

    def change(self, method, path, headers, body):
        from s3_service import KEYS, signed
        headers = {k: v for k, v in headers.items() if k.lower() not in ("if-none-match", "authorization")}
        return signed(self.upstream_url, KEYS, method, path, headers, body)


def test_a_service_that_lies_about_conditions_is_refused(service):
    with Liar(service.url) as proxy:
        code, said = refused(*flags(service, endpoint=proxy.url))
        assert code == 1 and "it accepts two creations of one name; clients of a store must see each other's changes at once" in said, said


def test_secrets_are_told_nowhere(service):
    token = "a-session-token"  # radosgw takes any
    with on_bucket(service, session_token=token) as f:
        push(f.server(), 3)
        flush(f)
        told = f.tail(100000)
        for path in ("/config", "/metrics", "/ready", "/routes", "/compactor/status"):
            told += f.operator().call("GET", path).text
        assert BUCKET in told
        for secret in (service.access_key, service.secret_key, token):
            assert secret not in told.replace("flametree-test", "")
