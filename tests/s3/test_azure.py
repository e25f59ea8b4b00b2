"""Azure Blob Storage on Microsoft's azurite (lib/azurite.py): what is wrong in settings, keys of every source, conditions; what all services share
is in test_store.py, test_copies.py and test_trouble.py."""
import base64
import http.server
import json
import os
import subprocess
import threading
import time
import urllib.parse

import pytest
from azurite import ACCOUNT, BUCKET, KEY, Azurite
from bucket import flags, no_secrets, on_bucket, push, refused, total
from client import unique
from faultclock import FaultClock
from flametree import BIN, await_, flush
from s3_proxy import S3Proxy
from test_bad_input import certificate

OTHER_KEY = base64.b64encode(b"another key of 64 bytes, which nobody has given to any account!!").decode()


@pytest.fixture
def azure(services):
    return services("azurite")


REFUSED = {
    "another key": ({"account_key": OTHER_KEY}, "403 AuthorizationFailure: Server failed to authenticate the request"),
    "a key that is none": ({"account_key": "?!"}, "azure: the account key is no base64; copy it as the portal shows it"),
    "another account": ({"account": "another", "endpoint": "{host}/another"}, "look at azure.account and azure.endpoint"),
    "an account that is none": ({"account": "Mine"}, "azure.account: 'Mine' has a 'M' at 0, which no name has"),
    "no account": ({"account": None}, "azure.account: it is not set, and neither AZURE_STORAGE_ACCOUNT nor a connection string has it"),
    "a container that is not there": ({"container": "not-there"}, "404 ContainerNotFound: The specified container does not exist.; make the container, or look at azure.container"),
    "no container": ({"container": None}, "azure.container: storage.kind azure needs the name of a container"),
    "a container that is none": ({"container": "Mine"}, "azure.container: 'Mine' has a 'M' at 0, which no name has"),
    "an endpoint without a scheme": ({"endpoint": "127.0.0.1:1"}, "azure.endpoint: '127.0.0.1:1' begins with neither https:// nor http://"),
    "an endpoint without a host": ({"endpoint": "http:///x"}, "azure.endpoint: 'http:///x' is no address; it is written https://host:port"),
    "a prefix that is none": ({"prefix": "a//b"}, "azure.prefix: prefix of an object 'a//b' has a part ''"),
    "two proofs": ({"key_file": "/x"}, "azure.key_file: it is set, and account_key is, too"),
    "a file that is not there": ({"account_key": None, "key_file": "/nonexistent"}, "azure.key_file: open /nonexistent: No such file"),
    "a SAS token without the right to write": ({"account_key": None, "sas_token": "{reader}"}, "create object v1/check: container flametree-test at"),
    "a SAS token that is over": ({"account_key": None, "sas_token": "{over}"}, "403 AuthorizationFailure"),
    "a SAS token that was changed": ({"account_key": None, "sas_token": "{changed}"}, "403 AuthorizationFailure"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_told_in_one_line_and_the_start_ends(azure, name):
    change, says = REFUSED[name]
    texts = {"host": azure.host, "reader": azure.sas(BUCKET, "rl"), "over": azure.sas(BUCKET, minutes=-5), "changed": azure.sas(BUCKET).replace("sig=", "sig=A")}
    change = {k: v and v.format(**texts) for k, v in change.items()}
    code, said = refused(*flags(azure, **change))
    assert code in (1, 2) and said.startswith("flametree: ") and says in said, said
    for secret in (KEY, OTHER_KEY, "sig=", change.get("sas_token") or KEY):
        assert secret not in said


@pytest.mark.parametrize("hours", [-3, 30])
def test_a_clock_that_is_wrong_is_corrected_by_that_of_the_service(azure, tmp_path, hours):
    clock = FaultClock(tmp_path / "clock")
    clock.set(hours=hours)
    with StrictClock(azure) as proxy, on_bucket(azure, endpoint=azure.endpoint(proxy.url), env=clock.env) as f:
        assert "event=storage.opened" in f.tail()
        assert not f.metric('flametree_notices{notice="storage.untried"}')
        assert proxy.refused > 0


class StrictClock(S3Proxy):
    """Refuses times that are a quarter of an hour off, as Azure does and azurite does not."""
    refused = 0

    def __init__(self, service):
        super().__init__(service.url)

    def refuse(self, method, path, headers, body):
        at = time.mktime(time.strptime(headers["x-ms-date"], "%a, %d %b %Y %H:%M:%S GMT")) - time.timezone
        if abs(at - time.time()) < 900:
            return None
        self.refused += 1
        return 403, (b"\xef\xbb\xbf<?xml version=\"1.0\" encoding=\"utf-8\"?><Error><Code>AuthenticationFailed</Code><Message>Server failed to authenticate the "
                     b"request. Make sure the value of Authorization header is formed correctly including the signature.\nRequestId:1\nTime:2</Message>"
                     b"<AuthenticationErrorDetail>Request date header too old</AuthenticationErrorDetail></Error>")


class Liar(S3Proxy):
    """Heeds no condition: it is not in the request that goes on, which is signed anew."""

    def change(self, method, path, headers, body):
        from azurite import signed
        kept = {k.lower(): v for k, v in headers.items() if k.lower().startswith("x-ms-") or k.lower() == "content-type"}
        path, _, query = path.partition("?")
        return signed(method, path, dict(urllib.parse.parse_qsl(query, keep_blank_values=True)), kept, len(body))


def large_ones_pass(azure, proxy):
    """The tests of stores with large objects, which go up in blocks. Others are behind a proxy in test_trouble.py."""
    command = [os.path.join(BIN, "s3.store"), azure.endpoint(proxy.url), *azure.table()[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, env={**os.environ, "FLAMETREE_TEST_ONLY": "*large*"})
    assert done.returncode == 0 and done.stdout.count("       OK ]") == 2, done.stdout[-3000:] + done.stderr[-3000:]


def test_large_objects_are_created_once_whatever_the_service_does(azure):
    with S3Proxy(azure.url) as proxy:
        proxy.trouble = {"landed": 0.1, "lost": 0.1, "drop": 0.05, "busy": 0.05}
        large_ones_pass(azure, proxy)
        assert proxy.done["lost"] and proxy.done["landed"]


class OtherWords(S3Proxy):
    """Says otherwise that a name is taken: by the condition, and of blocks that went when another creation ended, before the condition is looked at."""
    said = 0

    def say(self, path, status, body):
        if status != 409 or b"BlobAlreadyExists" not in body:
            return status, body
        self.said += 1
        status, code = (400, b"InvalidBlockList") if "comp=blocklist" in path else (412, b"ConditionNotMet")
        return status, b"<?xml version=\"1.0\"?><Error><Code>%s</Code><Message>It is so.</Message></Error>" % code


def test_a_name_that_is_taken_may_be_told_in_other_words(azure):
    with OtherWords(azure.url) as proxy:
        large_ones_pass(azure, proxy)
        assert proxy.said > 2


def test_a_service_that_lies_about_conditions_is_refused(azure):
    with Liar(azure.url) as proxy:
        code, said = refused(*flags(azure, endpoint=azure.endpoint(proxy.url)))
        assert code == 1 and "it accepts two creations of one name" in said, said


def test_each_request_has_what_azure_asks_for(azure):
    seen = []

    class Recorder(S3Proxy):
        def refuse(self, method, path, headers, body):
            seen.append((method, path, {k.lower(): v for k, v in headers.items()}))
    with Recorder(azure.url) as proxy, on_bucket(azure, endpoint=azure.endpoint(proxy.url)) as f:
        push(f.server(), 3)
        flush(f)
        assert total(f.server()) == 6
    ids = [h["x-ms-client-request-id"] for _, _, h in seen]
    assert len(set(ids)) == len(ids)
    assert {h["x-ms-version"] for _, _, h in seen} == {"2019-12-12"}
    puts = [h for m, _, h in seen if m == "PUT"]
    assert puts and all(h["x-ms-blob-type"] == "BlockBlob" and "content-md5" in h for h in puts)
    assert any(h.get("if-none-match") == "*" and len(h["x-ms-meta-flametree_nonce"]) == 32 for h in puts)
    assert any(h.get("x-ms-range", "").startswith("bytes=") for m, _, h in seen if m == "GET")


# ---- where keys come from

class Tokens(http.server.BaseHTTPRequestHandler):
    """Microsoft Entra's and the machine's metadata service. Tokens are in form, and signed by nobody."""

    def log_message(self, *args):
        pass

    def any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        self.server.asked.append((self.command, self.path, dict((k.lower(), v) for k, v in self.headers.items()), body))
        seconds = self.server.seconds
        text = json.dumps({"token_type": "Bearer", "access_token": token(seconds), "expires_in": str(seconds) if self.command == "GET" else seconds}).encode()
        status = 500 if self.server.away else 200
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = any


def token(seconds):
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")
    now = int(time.time())
    claims = {"aud": "https://storage.azure.com", "iss": "https://sts.windows.net/00000000-0000-0000-0000-000000000000/", "iat": now - 60, "nbf": now - 60, "exp": now + seconds}
    return "%s.%s.%s" % (part({"alg": "RS256", "typ": "JWT"}), part(claims), part({"of": "nobody"}))


@pytest.fixture
def giver():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Tokens)
    server.asked, server.seconds, server.away = [], 3600, False
    server.url = "http://127.0.0.1:%d" % server.server_address[1]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    """One that takes tokens of identities, which go over TLS only."""
    cert, key = certificate(tmp_path_factory.mktemp("tls"), "IP:127.0.0.1")
    with Azurite(tls=(cert, key), oauth=True) as g:
        g.ca_file = cert
        yield g


def works(f):
    push(f.server(), 5)
    flush(f)
    assert total(f.server()) == 15


def connection(azure, proof):
    return "DefaultEndpointsProtocol=http;AccountName=%s;%s;BlobEndpoint=%s;" % (ACCOUNT, proof, azure.url)


@pytest.mark.parametrize("source", ["key", "sas", "connection string", "connection string with sas"])
def test_keys_come_from_the_environment(azure, source):
    sas = azure.sas(BUCKET)
    env = {
        "key": {"AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_SERVICE_ENDPOINT": azure.url, "AZURE_STORAGE_KEY": KEY},
        "sas": {"AZURE_STORAGE_ACCOUNT": ACCOUNT, "AZURE_STORAGE_SERVICE_ENDPOINT": azure.url, "AZURE_STORAGE_SAS_TOKEN": "?" + sas},
        "connection string": {"AZURE_STORAGE_CONNECTION_STRING": connection(azure, "AccountKey=" + KEY)},
        "connection string with sas": {"AZURE_STORAGE_CONNECTION_STRING": connection(azure, "SharedAccessSignature=" + sas)},
    }[source]
    with on_bucket(azure, env=env, account=None, endpoint=None, account_key=None) as f:
        works(f)
        no_secrets(f, KEY, sas[sas.index("sig="):])


@pytest.mark.parametrize("form", ["key", "sas", "connection string"])
def test_keys_come_from_a_file(azure, tmp_path, form):
    file = tmp_path / "key"
    forms = {"key": KEY, "sas": "?" + azure.sas(BUCKET), "connection string": connection(azure, "AccountKey=" + KEY)}
    file.write_text(forms[form] + "\n")
    with on_bucket(azure, account_key=None, key_file=file, prefix=unique("file")) as f:
        works(f)


def test_a_key_that_was_changed_in_its_file_is_read_again_when_the_service_refuses_the_old_one(azure, tmp_path):
    file = tmp_path / "key"
    file.write_text(azure.sas(BUCKET, minutes=60))

    class Revoker(S3Proxy):
        revoked = 0

        def refuse(self, method, path, headers, body):
            if not self.revoked or "authorization" in {k.lower() for k in headers}:
                return None
            self.revoked += 1
            return 403, b"<Error><Code>AuthenticationFailed</Code><Message>Signature did not match.</Message></Error>"
    with Revoker(azure.url) as proxy, on_bucket(azure, account_key=None, key_file=file, endpoint=azure.endpoint(proxy.url)) as f:
        push(f.server(), 2)
        flush(f)
        file.write_text(KEY)
        proxy.revoked = 1
        push(f.server(), 3, 2)
        flush(f)
        assert total(f.server()) == 15 and proxy.revoked > 1


def test_a_sas_token_of_the_settings_is_told_nowhere(azure):
    sas = azure.sas(BUCKET)
    with on_bucket(azure, account_key=None, sas_token=sas) as f:
        works(f)
        told = f.tail(100000)
        for path in ("/config", "/metrics", "/ready", "/routes", "/compactor/status"):
            told += f.operator().call("GET", path).text
        assert BUCKET in told and sas[sas.index("sig="):] not in told and sas not in told


def test_an_account_key_is_told_nowhere(azure):
    with on_bucket(azure) as f:
        works(f)
        told = f.tail(100000)
        for path in ("/config", "/metrics", "/ready", "/routes", "/compactor/status"):
            told += f.operator().call("GET", path).text
        assert ACCOUNT in told and KEY not in told


def identity(kind, url, folder):
    (folder / "token").write_text("a.federated.token\n")
    return {
        "workload": {"AZURE_FEDERATED_TOKEN_FILE": str(folder / "token"), "AZURE_CLIENT_ID": "a client", "AZURE_TENANT_ID": "a-tenant", "AZURE_AUTHORITY_HOST": url + "/"},
        "machine": {"AZURE_POD_IDENTITY_AUTHORITY_HOST": url, "AZURE_CLIENT_ID": "a client"},
    }[kind]


@pytest.mark.parametrize("kind", ["workload", "machine"])
def test_tokens_of_identities_are_asked_for_and_used(secure, giver, tmp_path, kind):
    with on_bucket(secure, env=identity(kind, giver.url, tmp_path), account_key=None, ca_file=secure.ca_file) as f:
        works(f)
        no_secrets(f, "a.federated.token", "eyJ")
    method, path, headers, body = giver.asked[0]
    if kind == "workload":
        assert (method, path) == ("POST", "/a-tenant/oauth2/v2.0/token")
        form = dict(urllib.parse.parse_qsl(body))
        assert form == {"grant_type": "client_credentials", "client_id": "a client", "scope": "https://storage.azure.com/.default",
                        "client_assertion_type": "urn:ietf:params:oauth:client-assertion-type:jwt-bearer", "client_assertion": "a.federated.token"}
    else:
        assert method == "GET" and headers["metadata"] == "true"
        assert path == "/metadata/identity/oauth2/token?api-version=2018-02-01&resource=https%3A%2F%2Fstorage.azure.com%2F&client_id=a%20client"
    assert len(giver.asked) == 2  # of the store's own client, and of the second one that tries it out


def test_tokens_are_renewed_before_they_end_and_a_renewal_that_fails_does_no_harm(secure, giver, tmp_path):
    giver.seconds = 595  # they are renewed ten minutes before they end
    with on_bucket(secure, env=identity("machine", giver.url, tmp_path), account_key=None, ca_file=secure.ca_file) as f:
        giver.away = True
        works(f)
        giver.away, before = False, len(giver.asked)

        def renewed():
            push(f.server(), 1)
            flush(f)
            return len(giver.asked) > before
        await_("the token to be renewed", renewed, 60, 0.5)


def test_a_token_does_not_go_without_tls(azure, giver, tmp_path):
    code, said = refused(*flags(azure, account_key=None), env=identity("machine", giver.url, tmp_path))
    assert code == 1 and "azure.endpoint: the token of an identity goes over https:// only" in said, said
