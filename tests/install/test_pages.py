"""The commands of docs/install/laptop.md and docs/install/one-host.md, as they are written: those of one host in a bare Debian that boots its own
systemd, in the order of the page. Those of an engine of containers cannot run here; what they name has to be there."""
import os
import re
import shlex
import shutil
import subprocess
import time

import certificates
import pytest
import yaml
from flametree import TOP, Flametree, await_, own_host
from image import USER
from machine import Machine, why_not
from test_compose import DEPLOY

BY_TESTS_OF_DEPLOY = ("deploy/run", "deploy/cluster")  # tests/deploy runs them, with folders and ports of its own
NAME = "flame.example.com"


def page(name):
    with open(os.path.join(TOP, "docs/install", name), encoding="utf-8") as f:
        return f.read()


def commands(name):
    return [line.strip() for line in re.sub(r"```.*?```", "", page(name), flags=re.S).splitlines() if line.startswith("    ")]


def test_commands_of_one_host_run_in_order(released, tmp_path):
    if reason := why_not():
        pytest.skip(reason)
    settings = re.findall(r"```yaml\n(.*?)```", page("one-host.md"), re.S)
    assert len(settings) == 2 and "tls_cert_file" in settings[0] and "kind: s3" in settings[1]
    with Machine({"/release": str(released)}) as m:
        authority = certificates.Authority(tmp_path)
        authority.sign(NAME, NAME)
        work = m.path("/root/clone")
        os.makedirs(work)
        for n in os.listdir(released):
            os.symlink("/release/" + n, os.path.join(work, n))
        for made, there in ((NAME + ".pem", "/root/clone/%s.crt" % NAME), (NAME + ".key", "/root/clone/%s.key" % NAME), ("ca.pem", "/usr/local/share/ca-certificates/test.crt")):
            shutil.copy(authority.path(made), m.path(there))
        m.run("update-ca-certificates")
        with open(m.path("/etc/hosts"), "a") as f:
            f.write("127.0.0.1 %s\n" % NAME)
        with open(m.path("/root/clone/bucket.yaml"), "w") as f:
            f.write(settings[1])
        done = []
        for command in commands("one-host.md"):
            def run():
                return m.run("sh", "-c", "cd /root/clone && " + command, check=False)
            if command.startswith("flametree query"):
                await_("the profile of the server itself", lambda: run().stdout.strip(), 60, 0.2)
            end = run()
            assert end.returncode == 0, "%s\n%s%s" % (command, end.stdout, end.stderr)
            if "tls.key" in command:  # as the reader writes them then
                with open(m.path("/etc/flametree/flametree.yaml"), "w") as f:
                    f.write(settings[0])
                m.run("flametree", "config", "check", "/root/clone/bucket.yaml")
            done.append(command)
        assert len(done) >= 20 and sum("backup" in command for command in done) == 1
        assert not os.path.exists(m.path("/usr/bin/flametree")) and os.path.exists(m.path("/etc/flametree/environment")) and os.listdir(m.path("/srv/copy"))


KEPT = "        proxy_set_header Host $host;\n"


@pytest.mark.parametrize("left_out, below, settings", [("", "", ["--server.hosts", NAME]), (KEPT, "", []), (KEPT, "/flametree", ["--server.path_prefix", "/flametree"])], ids=["host-kept", "host-of-the-upstream", "below-a-path"])
def test_a_proxy_as_the_page_has_it(tmp_path, left_out, below, settings):
    """nginx with the page's own lines, but for addresses and files; with the Host that it sets by itself, and with a path that it leaves."""
    lines, = re.findall(r"```nginx\n(.*?)```", page("one-host.md"), re.S)
    authority, host = certificates.Authority(tmp_path), own_host()
    authority.sign(NAME, NAME)
    with Flametree(*settings) as f:
        assert KEPT in lines and "location / {" in lines
        lines = lines.replace(left_out or KEPT, "" if left_out else KEPT).replace("location / {", "location %s/ {" % below)
        replaced = {"listen 443": "listen %s:8443" % host, "http://127.0.0.1:4040": f.url, "/etc/nginx/%s.crt" % NAME: authority.path(NAME + ".pem"), "/etc/nginx/%s.key" % NAME: authority.path(NAME + ".key")}
        for written, here in replaced.items():
            assert written in lines
            lines = lines.replace(written, here)
        temporary = "".join("%s_temp_path %s/%s;\n" % (kind, tmp_path, kind) for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        (tmp_path / "nginx.conf").write_text("daemon off;\npid %s/pid;\nerror_log stderr;\nevents {}\nhttp {\naccess_log off;\n%s%s}\n" % (tmp_path, temporary, lines))
        proxy = subprocess.Popen(["/usr/sbin/nginx", "-p", str(tmp_path), "-c", str(tmp_path / "nginx.conf")], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

        def curl(*args):
            done = subprocess.run(["curl", "-s", "--noproxy", "*", "--cacert", authority.path("ca.pem"), "--connect-to", "%s:443:%s:8443" % (NAME, host), *args], capture_output=True, text=True)
            assert proxy.poll() is None, proxy.stdout.read()
            return done
        try:
            await_("the proxy", lambda: curl("https://%s%s/ready" % (NAME, below)).returncode == 0)
            pushed = curl("--fail", "--data-binary", "main;work 12", "-H", "X-Scope-OrgID: somebody", "https://%s%s/ingest?name=shop&from=now&until=now" % (NAME, below))
            assert pushed.returncode == 0 and pushed.stdout == "", pushed
            assert sum(f.server().stacks("shop").values()) == 12 * 10**7
            # As a browser of the page itself asks.
            page_itself = ["--fail", "-A", "Mozilla/5.0", "-H", "Origin: https://" + NAME, "-H", "Sec-Fetch-Site: same-origin"]
            assert "<html" in curl(*page_itself, "https://%s%s/" % (NAME, below)).stdout.lower()
            names = curl(*page_itself, "-H", "Content-Type: application/json", "--data", '{"name":"service_name","start":%d,"end":%d}' % (time.time() * 1000 - 600_000, time.time() * 1000 + 1000), "https://%s%s/querier.v1.QuerierService/LabelValues" % (NAME, below))
            assert '"shop"' in names.stdout, names
            foreign = ["-A", "Mozilla/5.0", "-H", "Origin: https://evil.example", "-H", "Sec-Fetch-Site: cross-site"]
            assert "permission_denied" in curl(*foreign, "-H", "Content-Type: application/json", "--data", "{}", "https://%s%s/querier.v1.QuerierService/LabelValues" % (NAME, below)).stdout
        finally:
            proxy.terminate()
            proxy.communicate()


def test_what_the_page_of_one_host_says_of_the_unit():
    said = float(re.search(r"says ([0-9.]+) of 10", page("one-host.md").replace("\n", " "))[1])
    unit = os.path.join(DEPLOY, "systemd/flametree.service")
    done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager", unit], capture_output=True, text=True)
    assert "service: %s " % said in done.stdout, done.stdout[-200:]


def test_commands_of_the_laptop_name_what_is_there():
    text = page("laptop.md")
    with open(os.path.join(DEPLOY, "compose.yaml")) as f:
        compose = yaml.safe_load(f)
    with open(os.path.join(TOP, "CMakeLists.txt")) as f:
        version = re.search(r"project\(flametree VERSION ([0-9.]+)", f.read())[1]
    profiles = {p for s in compose["services"].values() for p in s.get("profiles", [])}
    seen = set()
    for command in commands("laptop.md"):
        words = shlex.split(command)
        seen.add(" ".join(words[:2]))
        if words[0] in BY_TESTS_OF_DEPLOY:
            told = subprocess.run([os.path.join(TOP, words[0]), "--help"], capture_output=True, text=True).stdout
            assert all(word in told for word in words[1:] if word.startswith("--")), command
        elif words[:2] == ["docker", "compose"]:
            assert words[2:4] == ["-f", "deploy/compose.yaml"], command
            if "--profile" in words:
                assert words[words.index("--profile") + 1] in profiles, command
            scaled = words[words.index("--scale") + 1].split("=")[0] if "--scale" in words else "s3"
            assert {scaled} | ({words[-1]} if "logs" in words else set()) <= set(compose["services"]), command
        else:
            assert words[0] == "docker", command
            for file in (w.split("=")[-1] for w in words if re.search(r"(^|=)deploy/", w)):
                assert os.path.exists(os.path.join(TOP, file)), command
            assert all(v == version for v in re.findall(r"flametree[:-](\d+\.\d+\.\d+)", command)), command
    assert seen == {"deploy/run", "deploy/run --detach", "deploy/run --stop", "deploy/cluster", "deploy/cluster --status", "deploy/cluster --stop",
                    "docker compose", "docker load", "docker build", "docker run", "docker exec", "docker stop"}
    assert "Its user is %d" % USER in text.replace("\n", " ")
    ports = {port.split(":")[1] for s in compose["services"].values() for port in s.get("ports", [])}
    assert set(re.findall(r"<http://127\.0\.0\.1:(\d+)>", text)) <= ports and {"4317", "4318"} <= ports
