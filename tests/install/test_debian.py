"""The Debian packages in a bare Debian with its own systemd: installed, used, upgraded, removed, purged; and what is in them."""
import os
import re
import subprocess

import pytest
import yaml
from flametree import TOP, await_
from machine import Machine, why_not
from release import PACKAGES, ROLES, SERVICES, changed

FIGURE = re.compile(r"exposure level for \S+: ([0-9.]+)")
PROFILE = "main;work 12\nmain;idle 30\n"  # samples of 10 ms


@pytest.fixture(scope="module")
def upgrades(debs, tmp_path_factory):
    """Version 9 of each package, with another file of settings."""
    folder = tmp_path_factory.mktemp("upgrades")

    def edit(root):
        etc = os.path.join(root, "etc/flametree")
        for name in os.listdir(etc) if os.path.isdir(etc) else []:
            with open(os.path.join(etc, name), "a") as f:
                f.write("# of version 9\n")
    return {name: changed(path, "9.0.0-1", str(folder), edit) for name, path in debs.items()}


@pytest.fixture(scope="module")
def booted(debs, upgrades):
    if reason := why_not():
        pytest.skip(reason)
    with Machine({"/packages": os.path.dirname(debs["flametree"]), "/upgrades": os.path.dirname(upgrades["flametree"])}) as m:
        yield m


@pytest.fixture
def machine(booted):
    """As it was when it booted."""
    yield booted
    booted.run("sh", "-c", "dpkg-query -W -f '${Package}\\n' 'flametree*' | xargs dpkg --purge; rm -rf /var/lib/flametree* /etc/flametree /srv/store")


def install(m, folder, packages, names, *options):
    return m.run("apt-get", "install", "-y", "-q", "--no-install-recommends", *options, *[os.path.join(folder, os.path.basename(packages[n])) for n in names])


def state(m, service, what="is-active"):
    return m.run("systemctl", what, service, check=False).stdout.strip()


def main_pid(m, service):
    return int(m.run("systemctl", "show", "-P", "MainPID", service).stdout)


def ready(m, url="http://127.0.0.1:4040", service="flametree"):
    done = m.run("flametree", "ready", "--wait", "60s", "--url", url, check=False)
    assert done.returncode == 0, done.stderr + m.run("journalctl", "-u", service, "-n", "40", "--no-pager", check=False).stdout


def push(m, name, url="http://127.0.0.1:4040"):
    m.run("flametree", "push", "-", "--format", "folded", "--label", "service_name=" + name, "--time", "now", "--url", url, stdin=PROFILE)


def total(m, name, url="http://127.0.0.1:4040"):
    """Samples that were pushed for a service."""
    out = m.run("flametree", "query", "cpu", "--service", name, "--format", "folded", "--url", url).stdout
    return sum(int(line.rsplit(" ", 1)[1]) for line in out.splitlines()) // 10**7


def content(m, name):
    with open(m.path(name)) as f:
        return f.read()


def test_lintian_finds_nothing(debs):
    done = subprocess.run(["lintian", "--allow-root", "--tag-display-limit", "0", "--fail-on", "error,warning", *debs.values()], capture_output=True, text=True)
    assert set(debs) == set(PACKAGES)
    assert done.returncode == 0 and not done.stdout, done.stdout + done.stderr


def test_programs_have_no_folder_of_the_machine_in_them(debs, tmp_path):
    for name, path in debs.items():
        subprocess.run(["dpkg-deb", "-x", path, str(tmp_path / name)], check=True)
    found = subprocess.run(["grep", "-rlaF", "-e", os.path.realpath(TOP), str(tmp_path)], capture_output=True, text=True).stdout
    assert found == ""


@pytest.mark.parametrize("service", SERVICES)
def test_units_are_tight(service):
    unit = os.path.join(TOP, "deploy/systemd", service + ".service")
    done = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager", unit], capture_output=True, text=True)
    assert float(FIGURE.search(done.stdout)[1]) <= 2.0, done.stdout + done.stderr


@pytest.mark.parametrize("service", SERVICES)
def test_units_give_a_process_as_much_time_to_stop_as_the_chart(service):
    """An ingester flushes all that it has."""
    with open(os.path.join(TOP, "deploy/helm/flametree/values.yaml")) as f:
        values = yaml.safe_load(f)[{"flametree": "allInOne"}.get(service, service.removeprefix("flametree-"))]
    with open(os.path.join(TOP, "deploy/systemd", service + ".service")) as f:
        seconds = re.findall(r"^TimeoutStopSec=(\d+)$", f.read(), re.M)
    assert len(seconds) == 1 and int(seconds[0]) >= values["terminationGracePeriodSeconds"]


def test_one_process_is_installed_used_upgraded_removed_and_purged(machine, debs, upgrades):
    m, settings, environment = machine, "/etc/flametree/flametree.yaml", "/etc/flametree/environment"
    install(m, "/packages", debs, ("flametree-common", "flametree"))
    assert state(m, "flametree") == "active" and state(m, "flametree", "is-enabled") == "enabled"
    ready(m)
    push(m, "shop")
    assert total(m, "shop") == 42
    # It runs as its own user, and its files are for nobody else; the kernel lets it use io_uring, or the unit is not what forbids it.
    pid = main_pid(m, "flametree")
    assert m.run("stat", "-c", "%U", "/proc/%d" % pid).stdout.strip() == "flametree" and m.run("stat", "-c", "%U %a", "/var/lib/flametree").stdout.split() == ["flametree", "750"]
    assert 'flametree_store_io{mode="uring"} 1' in m.get("http://127.0.0.1:4040/metrics")
    for name in ("/usr/share/man/man1/flametree.1.gz", "/usr/share/bash-completion/completions/flametree", "/usr/share/doc/flametree-common/config.md"):
        assert os.path.getsize(m.path(name)) > 0

    # A setting of the operator's own, and secrets that only root reads.
    with open(m.path(settings), "a") as f:
        f.write("log:\n  level: debug\n")
    with open(m.path(environment), "w") as f:
        f.write("AWS_SECRET_ACCESS_KEY=secret\n")
    os.chmod(m.path(environment), 0o600)
    assert m.run("flametree", "config", "check", settings).returncode == 0
    m.run("systemctl", "restart", "flametree")
    ready(m)
    assert total(m, "shop") == 42
    assert "AWS_SECRET_ACCESS_KEY=secret" in m.run("cat", "/proc/%d/environ" % main_pid(m, "flametree")).stdout

    pid = main_pid(m, "flametree")
    install(m, "/upgrades", upgrades, ("flametree-common", "flametree"), "-o", "Dpkg::Options::=--force-confold")
    assert "of version 9" not in content(m, settings) and "level: debug" in content(m, settings) and os.path.exists(m.path(settings + ".dpkg-dist"))
    assert main_pid(m, "flametree") != pid and state(m, "flametree") == "active"
    ready(m)
    push(m, "shop")
    assert total(m, "shop") == 84

    m.run("apt-get", "remove", "-y", "-q", "flametree")
    assert state(m, "flametree") != "active" and os.path.exists(m.path(settings)) and os.listdir(m.path("/var/lib/flametree"))
    install(m, "/upgrades", upgrades, ("flametree-common", "flametree"))
    ready(m)
    assert total(m, "shop") == 84, "what was pushed before the removal"

    said = m.run("apt-get", "purge", "-y", "-q", "flametree", "flametree-common")
    assert "its data stay in /var/lib/flametree" in said.stdout, said.stdout
    assert not os.path.exists(m.path(settings)) and not os.path.lexists(m.path("/etc/systemd/system/multi-user.target.wants/flametree.service"))
    assert os.path.isdir(m.path("/var/lib/flametree/store")) and os.path.exists(m.path(environment)), "what is the operator's"
    assert not os.path.exists(m.path("/usr/bin/flametree")) and not os.path.exists(m.path("/usr/share/doc/flametree-common"))
    assert "flametree" in m.run("getent", "passwd", "flametree").stdout, "whose files stay, stays"


def test_an_operator_who_disabled_it_finds_it_disabled_after_an_upgrade(machine, debs, upgrades):
    m = machine
    install(m, "/packages", debs, ("flametree-common", "flametree"))
    m.run("systemctl", "disable", "--now", "flametree")
    install(m, "/upgrades", upgrades, ("flametree-common", "flametree"))
    assert state(m, "flametree", "is-enabled") == "disabled" and state(m, "flametree") == "inactive"
    assert "of version 9" in content(m, "/etc/flametree/flametree.yaml"), "nobody had changed it"
    m.run("apt-get", "purge", "-y", "-q", "flametree", "flametree-common")
    assert not os.path.exists(m.path("/etc/flametree"))


def test_roles_wait_for_their_settings_and_make_a_cluster_then(machine, debs):
    m = machine
    install(m, "/packages", debs, ["flametree-common"] + ["flametree-" + role for role in ROLES])
    for role in ROLES:
        assert state(m, "flametree-" + role) == "inactive" and state(m, "flametree-" + role, "is-enabled") == "disabled"
        refused = m.run("flametree-" + role, "--check-config", "--config", "/etc/flametree/%s.yaml" % role, check=False)
        assert refused.returncode != 0 and "bucket" in refused.stderr, "what is missing is named: " + refused.stderr
    os.makedirs(m.path("/srv/store"))
    m.run("chown", "flametree:flametree", "/srv/store")
    for role in ROLES:
        path = m.path("/etc/flametree/%s.yaml" % role)
        with open(path) as f:
            text = f.read()
        text = re.sub(r"storage:.*?cluster:[^\n]*", "storage:\n  dir: /srv/store\ncluster:", text, flags=re.S)
        text = text.replace("ingesters: []", "ingesters: [ingester=127.0.0.1:4051]").replace("queriers: []", "queriers: [querier=127.0.0.1:4061]").replace("compactors: []", "compactors: [compactor=127.0.0.1:4071]")
        with open(path, "w") as f:
            f.write(text.replace("server:\n", "server:\n  id: %s\n" % role))
        m.run("flametree-" + role, "--check-config", "--config", "/etc/flametree/%s.yaml" % role)
        # The store is outside of the service's own directory.
        os.makedirs(m.path("/etc/systemd/system/flametree-%s.service.d" % role))
        with open(m.path("/etc/systemd/system/flametree-%s.service.d/store.conf" % role), "w") as f:
            f.write("[Service]\nReadWritePaths=/srv/store\n")
    m.run("systemctl", "daemon-reload")
    m.run("systemctl", "enable", "--now", *["flametree-" + role for role in ROLES])
    for role, port in (("ingester", 4050), ("querier", 4060), ("compactor", 4070), ("distributor", 4040)):
        ready(m, "http://127.0.0.1:%d" % port, "flametree-" + role)
    push(m, "cart")
    await_("what was pushed", lambda: total(m, "cart", "http://127.0.0.1:4060") == 42)
    said = m.run("apt-get", "purge", "-y", "-q", "flametree-*")
    assert "its data stay in /var/lib/flametree-ingester" in said.stdout
    assert not [name for name in os.listdir(m.path("/usr/bin")) if name.startswith("flametree")]


