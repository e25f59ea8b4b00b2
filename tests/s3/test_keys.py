"""Where the keys come from, and that they are renewed before they end; secrets are told nowhere."""
import http.server
import json
import os
import threading
import time

import pytest
from bucket import no_secrets, on_bucket, push, refused, total
from flametree import await_, flush


class Keys(http.server.BaseHTTPRequestHandler):
    """The services of Amazon that give keys, each as far as it is asked: STS, the container's, the instance's."""
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def say(self, text, status=200):
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def ends(self):
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() + self.server.seconds))

    def any(self):
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
        g, path = self.server.service, self.path
        self.server.asked.append((self.command, path, dict(self.headers), body))
        if self.server.away:
            self.say("away", 500)
        elif "Action=AssumeRoleWithWebIdentity" in body:
            self.say("<AssumeRoleWithWebIdentityResponse><AssumeRoleWithWebIdentityResult><Credentials><AccessKeyId>%s</AccessKeyId><SecretAccessKey>%s"
                     "</SecretAccessKey><SessionToken></SessionToken><Expiration>%s</Expiration></Credentials></AssumeRoleWithWebIdentityResult>"
                     "</AssumeRoleWithWebIdentityResponse>" % (g.access_key, g.secret_key, self.ends()))
        elif path == "/latest/api/token" and self.command == "PUT":
            self.say("a-token")
        elif path == "/latest/meta-data/iam/security-credentials/":
            self.say("a-role")
        elif path in ("/latest/meta-data/iam/security-credentials/a-role", "/creds"):
            self.say(json.dumps({"AccessKeyId": g.access_key, "SecretAccessKey": g.secret_key, "Expiration": self.ends()}))
        else:
            self.say("?", 404)

    do_GET = do_PUT = do_POST = any


@pytest.fixture
def giver(service):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Keys)
    server.service, server.asked, server.seconds, server.away = service, [], 3600, False
    server.url = "http://127.0.0.1:%d" % server.server_address[1]
    threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def sources(service, url, folder):
    file = folder / "credentials"
    file.write_text("[other]\naws_access_key_id = x\n\n[mine]\n# a comment\naws_access_key_id = %s\naws_secret_access_key=%s\n" % (service.access_key, service.secret_key))
    (folder / "token").write_text("a.web.token\n")
    return {
        "environment": {"AWS_ACCESS_KEY_ID": service.access_key, "AWS_SECRET_ACCESS_KEY": service.secret_key},
        "file": {"AWS_SHARED_CREDENTIALS_FILE": str(file), "AWS_PROFILE": "mine"},
        "web identity": {"AWS_WEB_IDENTITY_TOKEN_FILE": str(folder / "token"), "AWS_ROLE_ARN": "arn:aws:iam::1:role/a b", "AWS_ENDPOINT_URL_STS": url},
        "container": {"AWS_SHARED_CREDENTIALS_FILE": "", "AWS_CONTAINER_CREDENTIALS_FULL_URI": url + "/creds", "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE": str(folder / "token")},
        "machine": {"AWS_SHARED_CREDENTIALS_FILE": "", "AWS_EC2_METADATA_SERVICE_ENDPOINT": url},
    }


@pytest.mark.parametrize("source", ["environment", "file", "web identity", "container", "machine"])
def test_keys_come_from_the_first_source_that_is_there(service, giver, tmp_path, source):
    env = sources(service, giver.url, tmp_path)[source]
    with on_bucket(service, env=env, access_key=None, secret_key=None) as f:
        push(f.server(), 5)
        flush(f)
        assert total(f.server()) == 15
        no_secrets(f, service.secret_key + '"', "a.web.token", "a-token")
    asked = giver.asked[:len(giver.asked) // 2]  # the store's own client, and then the second one that tries it out
    if source == "web identity":
        assert len(asked) == 1 and "RoleArn=arn%3Aaws%3Aiam%3A%3A1%3Arole%2Fa%20b&" in asked[0][3] and asked[0][3].endswith("WebIdentityToken=a.web.token")
    elif source == "container":
        assert [a[1] for a in asked] == ["/creds"] and asked[0][2].get("authorization") == "a.web.token"
    elif source == "machine":
        assert [a[1].rsplit("/", 1)[1] for a in asked] == ["token", "", "a-role"] and asked[2][2].get("x-aws-ec2-metadata-token") == "a-token"
    else:
        assert not asked


def test_keys_that_end_are_renewed_before_and_a_renewal_that_fails_does_no_harm(service, giver, tmp_path):
    giver.seconds = 595  # they are renewed ten minutes before they end
    env = sources(service, giver.url, tmp_path)["machine"]
    with on_bucket(service, env=env, access_key=None, secret_key=None) as f:
        giver.away = True
        push(f.server(), 3)
        flush(f)
        assert total(f.server()) == 6
        giver.away = False

        def renewed():
            push(f.server(), 1)
            flush(f)
            return sum(a[1].endswith("/a-role") for a in giver.asked) >= 2
        await_("the keys to be renewed", renewed, 60, 0.5)


def test_half_a_pair_is_refused(service):
    code, said = refused("--storage.kind=s3", "--s3.endpoint=" + service.url, "--s3.bucket=flametree-test", "--s3.access_key=A")
    assert code == 2 and said == "flametree: s3.secret_key: it is not set, and access_key is", said
