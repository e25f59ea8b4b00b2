"""The commands of README.md, CONTRIBUTING.md and docs/ run as they are written, in the order of each page, on a real server.

What is a command: every line of an indented block, and of a fenced block whose language is sh, bash or console. In a block without a
language are drawings; no line there may begin with a program of ours. Lines with # and the usage lines of docs/cli.md are no commands.

How it runs: in bash, in an empty directory with HOME and the files that a reader has by then (`sample_files`); those of CONTRIBUTING.md
run in the repository, with the programs of FLAMETREE_BIN for build/asan. `flametree` is in PATH, and FLAMETREE_URL is the server. The server's data are where deploy/run keeps them, ~/.local/share/flametree. Only the addresses in REPLACED
differ from the page, because port 4040 may be taken. It must end with 0, and a command that shows something must print something.

A block of YAML that begins with its name (`# values.yaml`) is that file. `helm install` and `helm upgrade` are run as `helm template`, which reads
the same chart and values and needs no cluster; what they do in one is seen by tests/kube. Of commands that only a cluster or an account of a
provider can run (ELSEWHERE) it is tested that the objects they name are the chart's.
"""
import contextlib
import glob
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import time

import pytest
import yaml
from client import Pprof
from flametree import AT_ONCE, BIN, TOP, Flametree, await_, compact, flush, own_host

IN_TREE = "CONTRIBUTING.md"
PAGES = ["README.md", IN_TREE] + sorted(os.path.relpath(p, TOP) for part in ("*.md", "decisions/*.md", "install/*.md") for p in glob.glob(os.path.join(TOP, "docs", part)))
PROGRAMS = ("flametree", "curl", "deploy/", "tests/", "printf", "export", "perf", "find", "build/", "cmake", "git ", "gdb", "/usr/bin/python3", "helm ", "kubectl ", "aws ", "gcloud ", "docker ", "sudo ", "apt")

BUILDS = "it builds for minutes; tests/run does it. That its presets and targets exist: test_presets_targets_and_fault_points_exist"
RELEASES = "it builds for minutes; tests/install packs a build that is there, twice, and compares"
OTHERS = "it looks into whatever process runs here, which takes rights that a test may not have"
FAULTY = "it dies or refuses on purpose; tests/system/test_kill_points.py does so at every point"
WRITES = "it writes a page of the repository; test_docs.py compares what it would write"
COPIES = "it writes outside of the home; tests/system/test_backup.py runs it"
# How a command begins that needs a cluster, an account, an engine of containers, or rights over the machine: tests/kube and tests/install have these.
OF_CLUSTER = re.compile(r"(kubectl|helm (test|history|rollback|uninstall)) ")
ELSEWHERE = re.compile(OF_CLUSTER.pattern + r"|(aws|gcloud|docker|docker-compose|podman|sudo|apt|apt-get|dpkg|systemctl|journalctl) ")
RENDER = ["helm", "template", "--kube-version", "1.31.4"]  # a helm that is built from source knows no recent version by itself
# Commands that no test of documents can run, and where they are run instead.
NOT_HERE = {
    "deploy/run": "it builds and installs packages; tests/deploy runs it",
    "deploy/cluster": "the same",
    "deploy/cluster --stop": "the same",
    "tests/run": "it runs this test",
    "deploy/release": RELEASES,
    "git checkout v0.1.0": RELEASES,
    "deploy/release --out again": RELEASES,
    "diff again/SHA256SUMS SHA256SUMS": RELEASES,
    "tests/bench/run": "it measures for many minutes and needs a machine of its own",
    "cmake --preset asan": BUILDS,
    "cmake --build build/asan --target flametree unit.model.tree": BUILDS,
    "cmake --preset fuzz": BUILDS,
    "cmake --build build/fuzz --target fuzz.folded": BUILDS,
    "mkdir -p /tmp/corpus && build/fuzz/fuzz.folded -max_total_time=60 /tmp/corpus tests/fuzz/corpus/folded": "it takes a minute and a build of its own; tests/run nightly runs it",
    'perf record -g -p "$(pgrep -xn flametree)" -o /tmp/flametree.perf -- sleep 10': OTHERS,
    "perf script -i /tmp/flametree.perf | flametree push - --label service_name=flametree-perf --sample-rate 4000": OTHERS,
    "gdb -p \"$(pgrep -xn flametree)\" -batch -ex 'thread apply all backtrace'": OTHERS,
    "FLAMETREE_FAULTS='wal.sync.after=die@3' build/asan/flametree serve --server.data_dir /tmp/faulty": FAULTY,
    "FLAMETREE_FAULTS='wal.write.before=enospc@1+' build/asan/flametree serve --server.data_dir /tmp/faulty": FAULTY,
    "build/asan/flametree --print-config-docs >docs/config.md": WRITES,
    "build/asan/flametree --print-metrics-docs >docs/metrics.md": WRITES,
    "build/asan/flametree help --markdown >docs/cli.md": WRITES,
    "build/asan/flametree help --man >deploy/cli/flametree.1": WRITES,
    "tests/docs/helm.py --schema >deploy/helm/flametree/values.schema.json": WRITES,
    "tests/docs/helm.py --markdown >docs/helm-values.md": WRITES,
    "tests/docs/dashboards.py --write": WRITES,
    "tests/docs/wrap.py README.md": WRITES,
    "tests/lint": "it is a part of tests/run",
    "git ls-files '*.c' '*.h' | xargs clang-format-14 --dry-run --Werror": "it is a part of tests/run",
    "flametree stream show 01JD2M3N4P5Q6R7S8T9V0W1X2Y": "there is no such stream; tests/system/test_identity.py runs it",
    "flametree stream forget --accept-loss ingester-2 --url http://127.0.0.1:4070": "it needs a directory that is gone; tests/system/test_identity.py runs it",
    "flametree stream forget --accept-loss flametree-ingester-1 --url http://localhost:4042": "it needs a directory that is gone; tests/system/test_identity.py runs it",
    "flametree stream recover 01JD2M3N4P5Q6R7S8T9V0W1X2Y": "it needs a disk that came back; tests/system/test_forgotten.py runs it",
    "flametree stream recover 01JD2M3N4P5Q6R7S8T9V0W1X2Y --url http://127.0.0.1:4070": "it needs a disk that came back; tests/system/test_forgotten.py runs it",
    "flametree stream remove --accept-loss 01JD2M3N4P5Q6R7S8T9V0W1X2Y": "it needs a disk that came back; tests/system/test_forgotten.py runs it",
    "flametree stream remove --accept-loss 01JD2M3N4P5Q6R7S8T9V0W1X2Y --url http://127.0.0.1:4070": "it needs a disk that came back; tests/system/test_forgotten.py runs it",
    "flametree import --source http://pyroscope:4040 --from now-30d --step 15m --dry-run": "it needs another server; tests/system/test_cli_import.py runs it",
    "flametree backup ~/.local/share/flametree /mnt/copy": COPIES,
    "flametree backup s3://profiles/flametree s3://copies/flametree": "it needs buckets; tests/s3/test_copies.py runs it",
    "flametree restore --check /mnt/copy": COPIES,
    "flametree restore /mnt/copy /var/lib/flametree/store": COPIES,
}
SHOWS = re.compile(r"flametree (query|top|series|labels|types|diff|ready|formats|manifest|help|completion|config|block)\b(?!.* (-o|>))")
DAY_NS = 86_400 * 10**9
# Pages about installing; their commands run where they install something: tests/install/test_pages.py.
PAGES = [page for page in PAGES if page not in ("docs/install/laptop.md", "docs/install/one-host.md")]


def blocks(text):
    """(language, lines) of each block of code; language None: indented."""
    fence, found, lines, before = None, [], [], ""
    for line in text.split("\n"):
        opens = re.fullmatch(r" *```(\w*)", line)
        if fence is not None:
            if opens:
                found.append((fence, lines))
                fence, lines = None, []
            else:
                lines.append(line)
        elif opens:
            fence = opens[1]
        elif line.startswith("    ") and (lines or not before.strip()):
            lines.append(line[4:])
        elif lines:
            found.append((None, lines))
            lines = []
        before = line
    return found + ([(None, lines)] if lines else [])


def is_usage(line):
    return line.startswith("flametree ") and line.endswith(("[OPTION...]", "[SETTINGS]"))


def commands(page):
    with open(os.path.join(TOP, page), encoding="utf-8") as f:
        text = f.read()
    found = []
    for language, lines in blocks(text):
        if language not in (None, "sh", "bash", "console"):
            assert language or not [x for x in lines if x.strip().startswith(PROGRAMS)], (page, lines)
            continue
        for line in re.sub(r"\\\n", "", "\n".join(lines)).split("\n"):
            line = line.strip()
            if line and not line.startswith("#") and not is_usage(line):
                found.append(line)
    return found


def program(path, text):
    path.write_text(text)
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def sample_files(home):
    """Files that the pages speak of, and programs that stand in for those of others."""
    (home / "profiles").mkdir()
    (home / "cpu.pb.gz").write_bytes(Pprof(("main;work", 60_000_000), ("main;idle", 30_000_000)).encode())
    (home / "allocs.pb.gz").write_bytes(Pprof(("main;alloc", [3, 3000]), types=[("alloc_objects", "count"), ("alloc_space", "bytes")]).encode())
    shutil.copy(os.path.join(TOP, "tests/fuzz/corpus/jfr/fixed"), home / "recording.jfr")
    (home / "profiles" / "old.pb").write_bytes(Pprof(("main;old", 1_000_000), time_ns=time.time_ns() - 90 * 86400 * 10**9).encode())
    (home / "dumps").mkdir()
    month_ago = time.time() - 30 * 86400
    (home / "dumps" / time.strftime("cpu-%Y-%m-%dT%H:%M:%S.pb", time.gmtime(month_ago))).write_bytes(Pprof(("main;dumped", 1_000_000)).encode())
    (home / "flametree.yaml").write_text("server:\n  listen: 127.0.0.1:4040\n")
    bin = home / "bin"
    bin.mkdir()
    program(bin / "perf", "#!/bin/sh\ncat '%s'\n" % os.path.abspath(os.path.join(TOP, "tests/fuzz/corpus/perf/plain")))
    program(bin / "flamegraph.pl", "#!/bin/sh\ngrep -q ';' && echo '<svg/>'\n")
    os.symlink(os.path.abspath(os.path.join(TOP, "deploy")), home / "deploy")
    (home / "build").mkdir()
    os.symlink(BIN, home / "build" / "release")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """A server as deploy/run starts it, besides the address and the delays, and a service with a history of a day."""
    home = tmp_path_factory.mktemp("home")
    sample_files(home)
    data = home / ".local/share/flametree"
    data.mkdir(parents=True)
    with Flametree("--limits.reject_older_than", "0", "--self_profile.interval", "1s", "--compactor.interval", "1h", *AT_ONCE, data=str(data), self_profile=True) as f:
        s = f.server()
        at = time.time_ns() - 60 * 10**9
        for version, age in (("1.4", 0), ("1.4", DAY_NS), ("1.5", 0)):
            s.push({"__name__": "process_cpu", "service_name": "shop", "region": "eu", "version": version, "pod": "a"},
                   Pprof(("main;work", 50_000_000), time_ns=at - age)).expect(200)
        s.push({"__name__": "memory", "service_name": "shop", "region": "eu-1"},
               Pprof(("main;keep", 4096), types=(("inuse_space", "bytes"),), period_type=("space", "bytes"), time_ns=at)).expect(200)
        shell = Shell(f, home)
        await_("the server's own profile", lambda: shell("flametree types --service flametree").returncode == 0, 60)
        yield shell


class Shell:
    def __init__(self, server, home):
        self.server, self.home = server, home
        self.replaced = {"http://127.0.0.1:4040": server.url, "http://localhost:4042": server.admin_url}
        self.replaced.update({written: " ".join(RENDER) for written in ("helm template", "helm install", "helm upgrade")})

    def env(self):
        kept = {k: v for k, v in os.environ.items() if not k.startswith("FLAMETREE_")}
        path = ":".join([str(self.home / "bin"), os.path.abspath(BIN), os.environ["PATH"]])
        return {**kept, "HOME": str(self.home), "PATH": path, "FLAMETREE_URL": self.server.url}

    def __call__(self, command, in_tree=False):
        replaced, cwd, env = self.replaced, self.home, self.env()
        if in_tree:
            replaced, cwd = {**replaced, "build/asan/": os.path.abspath(BIN) + "/"}, TOP
            env.update(FLAMETREE_BIN=os.path.abspath(BIN), PYTEST_ADDOPTS="-p no:cacheprovider", PYTHONDONTWRITEBYTECODE="1")
        for written, here in replaced.items():
            command = command.replace(written, here)
        return subprocess.run(["bash", "-c", "set -o pipefail\n" + command], cwd=cwd, env=env, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=600)

    def serves(self, command):
        """The command of a server: it gets ready and ends when it is asked to."""
        with socket.socket() as taken:
            taken.bind((own_host(), 0))
            at = "%s:%d" % taken.getsockname()
        data = self.home / "served"
        env = {**self.env(), "FLAMETREE_SERVER_DATA_DIR": str(data), "FLAMETREE_SELF_PROFILE_ENABLED": "false"}
        process = subprocess.Popen(["bash", "-c", "exec " + command.replace("0.0.0.0:4040", at)], cwd=self.home, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        ready = subprocess.run(["flametree", "ready", "--wait", "60s", "--url", "http://" + at], env=self.env(), capture_output=True, text=True)
        process.send_signal(signal.SIGTERM)
        said, _ = process.communicate(timeout=60)
        assert ready.returncode == 0 and process.returncode == 0, (ready, said)


def helm():
    return subprocess.run([os.path.join(TOP, "tests/lib/helm")], stdout=subprocess.PIPE, text=True, check=True).stdout.strip()


def check(shell, page, command):
    if re.sub(r"\s+#.*", "", command) in NOT_HERE or ELSEWHERE.match(command):
        return
    if command.startswith("flametree serve"):
        shell.serves(command)
        return
    if command.startswith("helm ") and not (shell.home / "bin/helm").exists():
        os.symlink(helm(), shell.home / "bin/helm")
    done = shell(command, in_tree=page == IN_TREE)
    if "curl " in command and "/ingest?" in command:  # curl ends with 0 also when the server refuses
        assert done.stdout == "", "%s: %s\n%s" % (page, command, done.stdout)
    assert done.returncode == 0, "%s: %s\nended with %d\n%s%s" % (page, command, done.returncode, done.stdout, done.stderr)
    assert not SHOWS.match(command) or done.stdout.strip() or "no blocks yet" in done.stderr, (page, command, done.stderr)
    if output := re.search(r"(?: -o |>)(\S+)$", command):
        assert (shell.home / output[1]).stat().st_size > 0, (page, command)


def test_the_pages_have_commands():
    assert len(commands("README.md")) >= 12 and len(commands("docs/cli.md")) >= 20 and len(commands(IN_TREE)) >= 25
    assert {c for page in PAGES for c in commands(page) if c in NOT_HERE} == set(NOT_HERE), "a row of NOT_HERE that no page has"


def test_usage_lines_are_those_of_help():
    with open(os.path.join(TOP, "docs/cli.md"), encoding="utf-8") as f:
        usages = [line.strip() for language, lines in blocks(f.read()) for line in lines if language is None and is_usage(line.strip())]
    assert len(usages) >= 15
    for usage in usages:
        words = [w for w in usage.split()[1:] if re.fullmatch(r"[a-z]+", w)]
        said = subprocess.run([os.path.join(BIN, "flametree"), "help", *words], capture_output=True, text=True)
        assert ("usage: " + usage) in said.stdout.split("\n"), (usage, said)


def test_presets_targets_and_fault_points_exist():
    """Of the commands of CONTRIBUTING.md that only build, or that die on purpose."""
    with open(os.path.join(TOP, "CMakePresets.json"), encoding="utf-8") as f:
        presets = {p["name"] for p in json.load(f)["configurePresets"] if not p.get("hidden")}
    points = subprocess.run(["git", "grep", "-hoE", r'FAULT(_ERRNO)?\("[^"]+"', "--", "*.c"], cwd=TOP, capture_output=True, text=True, check=True).stdout
    known, seen = {"flametree", "walk"}, set()
    for command in commands(IN_TREE):
        for preset in re.findall(r"--preset (\w+)|--build build/(\w+)", command):
            assert set(preset) - {""} <= presets, command
            seen.add("preset")
        for target in (re.search(r"--target (.*)", command) or ["", ""])[1].split():
            of = re.fullmatch(r"(unit|fuzz)\.(.*)", target)
            assert target in known or os.path.exists(os.path.join(TOP, "tests", of[1], of[2].replace(".", "/") + {"unit": "_test.c", "fuzz": "_fuzz.c"}[of[1]])), command
            seen.add("target")
        for point in re.findall(r"FLAMETREE_FAULTS='([\w.]+)=", command):
            assert '"%s"' % point in points, command
            seen.add("point")
    assert seen == {"preset", "target", "point"}


@pytest.mark.parametrize("page", PAGES)
def test_commands_run_as_they_are_written(world, page):
    for name, text in named_files(page).items():
        (world.home / name).write_text(text)
    for command in commands(page):
        if command.startswith("flametree block show FILE"):  # FILE stands for any of `block ls`
            segment_named_file(world)
        check(world, page, command)


def named_files(page):
    """Blocks of YAML that begin with the name of a file."""
    with open(os.path.join(TOP, page), encoding="utf-8") as f:
        found = [lines for language, lines in blocks(f.read()) if language == "yaml"]
    return {lines[0][2:]: "\n".join(lines) + "\n" for lines in found if re.fullmatch(r"# [\w-]+\.yaml", lines[0])}


def rendered(*flags):
    """{kind/name} of what the chart makes for the release of the pages."""
    done = subprocess.run([helm(), *RENDER[1:], "flametree", os.path.join(TOP, "deploy/helm/flametree"), *flags], capture_output=True, text=True, check=True)
    return {"%s/%s" % (d["kind"].lower(), d["metadata"]["name"]) for d in yaml.safe_load_all(done.stdout) if d}


SHORT = {"svc": "service", "deploy": "deployment", "sts": "statefulset"}


def test_commands_for_a_cluster_name_objects_of_the_chart():
    there, named = rendered("--set", "storage.s3.bucket=b,log=local"), 0
    assert "service/flametree-all-in-one" in rendered("--set", "mode=all-in-one,log=local,storage.kind=local")
    for page in (p for p in PAGES if p.startswith("docs/install/")):
        for command in filter(OF_CLUSTER.match, commands(page)):
            assert re.search(r"(-n|--namespace) flametree\b|create namespace flametree$", command), (page, command)
            for kind, name in re.findall(r"\b(svc|deploy|deployment|sts|statefulset|pod)/([\w-]+)", command) + re.findall(r"delete (pod|pvc) ([\w-]+)", command):
                named += 1
                owner = re.sub(r"^data-|-\d+$", "", name)
                kind = {"pod": "statefulset", "pvc": "statefulset"}.get(kind, SHORT.get(kind, kind))
                assert "%s/%s" % (kind, owner if kind == "statefulset" else name) in there, (page, command)
    assert named >= 8


def test_addresses_on_the_pages_of_kubernetes_are_those_of_the_chart():
    there = rendered("--set", "storage.s3.bucket=b") | rendered("--set", "mode=all-in-one,log=local,storage.kind=local")
    with open(os.path.join(TOP, "docs/install/kubernetes.md"), encoding="utf-8") as f:
        hosts = re.findall(r"http://([\w-]+)\.flametree\.svc:4040", f.read())
    assert len(hosts) == 3 and not [h for h in hosts if "service/" + h not in there]


def test_policies_on_the_pages_are_json():
    found = []
    for page in PAGES:
        with open(os.path.join(TOP, page), encoding="utf-8") as f:
            found += [json.loads("\n".join(lines)) for language, lines in blocks(f.read()) if language == "json"]
    actions = {action for policy in found for statement in policy.get("Statement", []) for action in statement["Action"]}
    assert actions >= {"s3:ListBucket", "s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload", "s3:ListBucketMultipartUploads"}


def segment_named_file(shell):
    flush(shell.server)
    segments = sorted(glob.glob(str(shell.home / ".local/share/flametree/store/o/v1/*/*/live/a/*")))  # the oldest hour, in which nobody else has profiles
    shutil.copy(segments[0], shell.home / "FILE")


def test_commands_on_blocks_run_when_there_are_some(world):
    flush(world.server)
    compact(world.server)
    for page in PAGES:
        for command in commands(page):
            if re.match("(flametree (block (ls|verify)|manifest)|find) ", command):
                check(world, page, command)
    assert world("flametree block ls ~/.local/share/flametree").stdout.count("\n") > 1
