"""The command line client as people use it: a real program, pipes and terminals, a running server and hostile ones."""
import fcntl
import gzip
import http.server
import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import ssl
import struct
import subprocess
import termios
import threading
import time

import pytest
from cli import ESCAPE, PROGRAM, env_of, fails, ok, on_terminal, run, service, url
from client import CPU, Pprof, pb, unique
from flametree import BIN, Flametree, await_, own_host


# ---- without a server

def test_help_names_every_command():
    text = ok("help")
    for name in ("push", "query", "series", "labels", "types", "diff", "ready", "config check", "completion"):
        assert re.search(r"^  %s +\w" % name, text, re.M), text


def commands():
    return [c for c in re.findall(r"^  ([a-z]+(?: [a-z]+)?)  ", ok("help").split("Exit status")[0], re.M)]


def test_each_command_explains_itself():
    names = commands()
    assert len(names) == 36, names
    for name in names:
        text = ok("help", *name.split())
        assert text.startswith("usage: flametree %s" % name), text
        assert ok(*name.split(), "--help") == text
        assert all(len(line) <= 80 for line in text.split("Examples:")[0].splitlines()), text


def test_help_and_version_of_the_server_stay():
    assert "--server.listen" in ok("--help") and "flametree help" in ok("--help")
    assert ok("version") == ok("--version")


WRONG = [
    (["qeury"], "did you mean `flametree query`?"), (["lables", "x"], "did you mean `flametree labels`?"), (["nonsense"], "flametree help"),
    (["query", "--formt", "dot"], "did you mean --format?"), (["query", "--format", "svg"], "must be one of flame|tree|folded|pprof|json|dot"),
    (["query", "--top"], "--top needs a value"), (["query", "--top", "many"], "--top is 'many', not a number from 1 to"),
    (["query", "a{", "--url", "http://127.0.0.1:1"], "selector {"), (["push"], "push FILE..."), (["labels", "a", "b"], "too many arguments: 'b'"),
    (["query", "cpu", "--from", "yesterday"], "'yesterday' is not a time"), (["query", "cpu", "--from", "now-5q"], "'now-5q' is not a time"),
    (["query", "cpu", "--from", "2026-02-31T00:00:00Z"], "is not a time"), (["query", "cpu", "--from", "now", "--until", "now-1h"], "is after --until"),
    (["ready", "--url", "ftp://x"], "must be http or https"), (["ready", "--url", "http://"], "needs a host"), (["ready", "--url", "http://x:99999"], "'99999'"),
    (["ready", "--url", "http://x/?y"], "cannot have '?' or '#'"), (["ready", "--timeout", "soon"], "--timeout"), (["ready", "--user", "nobody"], "NAME:PASSWORD"),
    (["push", "x", "--label", "region"], "not KEY=VALUE"), (["push", "x", "--parallel", "0"], "from 1 to 64"), (["config"], "config check [FILE]"),
    (["completion", "tcsh"], "must be one of bash|zsh|fish"), (["query", "cpu", "--format", "dot", "--top", "3"], "--top makes a table or JSON"),
    (["diff", "a:b:c:d:e"], "both sides are the same"), (["--tenant", "x", "completion", "bash"], "has no option --tenant"),
    (["query", "cpu{}", "--type", "cpu"], "both name a profile type"),
]


@pytest.mark.parametrize("args, said", WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_wrong_command_lines_end_with_2(args, said):
    assert said in fails(2, *args)


def test_a_plan_grows_with_pods_types_and_time():
    def plan(*args):
        return json.loads(ok("plan", "--format", "json", *args))
    one = plan("--pods", "100")
    assert one["raw_bytes"] > one["days_bytes"] > one["hours_bytes"] > 0 and one["store_bytes"] > one["raw_bytes"] + one["days_bytes"]
    two = plan("--pods", "100", "--types", "4")
    assert all(two[key] == 2 * one[key] or abs(two[key] - 2 * one[key]) <= 2 for key in ("raw_bytes", "hours_bytes", "days_bytes", "log_bytes")), (one, two)
    assert plan("--pods", "100", "--raw-retention", "28d")["raw_bytes"] in range(2 * one["raw_bytes"] - 2, 2 * one["raw_bytes"] + 3)
    # Everything goes after ten days, whatever finer levels are to be kept for.
    short = plan("--pods", "100", "--days-retention", "10d")
    assert short["raw_bytes"] < one["raw_bytes"] and short["days_bytes"] < one["days_bytes"]
    per_profile = ("log_bytes", "head_bytes", "received_bytes_per_second", "distributor_cores", "ingester_cores", "compactor_cores")
    assert all(abs(two[key] - 2 * one[key]) <= 2e-5 * two[key] + 2 for key in per_profile) and two["querier_cores"] == one["querier_cores"] > 0, (one, two)
    assert plan("--pods", "100", "--questions", "4")["querier_cores"] == 4 * one["querier_cores"] and plan("--pods", "1", "--questions", "0")["querier_cores"] == 0
    assert "kept for 14 days" in ok("plan", "--pods", "100")
    assert "how many --pods?" in fails(2, "plan") and "--every is less than a second" in fails(2, "plan", "--pods", "1", "--every", "1ms")


def test_config_check(tmp_path):
    good, bad = tmp_path / "good.yaml", tmp_path / "bad.yaml"
    good.write_text("server:\n  listen: 127.0.0.1:1\n")
    bad.write_text("server:\n  listne: x\n")
    assert "valid" in ok("config", "check", str(good))
    assert "bad.yaml:2" in fails(2, "config", "check", str(bad))
    assert "valid" in ok("config", "check", str(good), "--server.listen=127.0.0.1:2")


# ---- completion

@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_is_valid(shell):
    text = ok("completion", shell)
    assert "flametree" in text
    try:
        checked = subprocess.run([shell, "-n"], input=text, capture_output=True, text=True, timeout=30)
    except FileNotFoundError:
        pytest.skip("no %s here" % shell)
    assert checked.returncode == 0 and not checked.stderr, checked.stderr


COMPLETED = [("flametree qu", {"query"}), ("flametree query --fo", {"--format"}), ("flametree query --format f", {"flame", "folded"}),
             ("flametree config ", {"check"}), ("flametree block ", {"ls", "show", "verify"}), ("flametree block show --ke", {"--keys"}),
             ("flametree block show --keys the_f", {"the_file"}), ("flametree completion z", {"zsh"}), ("flametree push --time ", {"now", "file"}),
             ("flametree --url=x labels --ser", {"--service"}), ("flametree push the_f", {"the_file"})]


def bash_completes(line, words, cwd, url=None):
    """What bash offers for a line; `words` are its words as readline cuts them."""
    script = """
source /dev/stdin <<'END'
%s
END
COMP_LINE=$LINE COMP_POINT=${#LINE}
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_flametree
printf '%%s\\n' "${COMPREPLY[@]}"
""" % ok("completion", "bash")
    env = {**env_of(url, FLAMETREE_TIMEOUT="60s"), "LINE": line, "PATH": os.path.abspath(BIN) + ":" + os.environ["PATH"]}
    got = subprocess.run(["bash", "-c", script, "bash", *words], capture_output=True, text=True, cwd=cwd, timeout=60, env=env)
    assert got.stderr == "", got
    return {word for word in got.stdout.split("\n") if word}


@pytest.mark.parametrize("line, words", COMPLETED, ids=[c[0] for c in COMPLETED])
def test_bash_completes(tmp_path, line, words):
    (tmp_path / "the_file").write_text("")
    assert bash_completes(line, line.split(" "), tmp_path) == words


@pytest.fixture
def words_of_a_server(url, tmp_path):
    """A service and a label value, whose names no shell may expand."""
    name, value = unique("comp") + " $(touch pwned)`touch pwned`", "v;touch pwned'x"
    (tmp_path / "p").write_bytes(Pprof(("main", 1)).encode())
    ok("push", str(tmp_path / "p"), "-l", "service_name=" + name, "-l", "zzlabel=" + value, url=url)
    yield name, value
    assert not (tmp_path / "pwned").exists()


def test_bash_completes_from_the_server(url, words_of_a_server, tmp_path):
    name, value = words_of_a_server
    complete = lambda line, words: bash_completes(line, words, tmp_path, url)
    head = ["flametree", "query"]
    assert complete("flametree query --service comp", [*head, "--service", "comp"]) >= {name}
    assert complete("flametree query --service=" + name[:6], [*head, "--service", "=", name[:6]]) >= {name}
    assert complete("flametree query -s nobody", [*head, "-s", "nobody"]) == set()
    assert CPU in complete("flametree query --type process_cpu", [*head, "--type", "process_cpu"])
    assert "nanoseconds:cpu:nanoseconds" in complete("flametree query process_cpu:cpu:na", [*head, "process_cpu", ":", "cpu", ":", "na"])
    assert complete("flametree series --group-by zzl", ["flametree", "series", "--group-by", "zzl"]) == {"zzlabel"}
    assert complete("flametree labels zzl", ["flametree", "labels", "zzl"]) == {"zzlabel"}
    assert complete("flametree push -l zzl", ["flametree", "push", "-l", "zzl"]) == {"zzlabel="}
    assert value in complete("flametree push -l zzlabel=", ["flametree", "push", "-l", "zzlabel", "="])
    at = ["http", ":", url[5:-6], ":", url[-5:]]
    away = bash_completes("flametree --url=%s query -s comp" % url, ["flametree", "--url", "=", *at, "query", "-s", "comp"], tmp_path, "http://127.0.0.1:1")
    assert name in away, "the server of the line is asked"
    assert bash_completes("flametree query -s comp", [*head, "-s", "comp"], tmp_path, "http://127.0.0.1:1") == set()


def test_fish_and_zsh_complete_from_the_server(url, words_of_a_server, tmp_path):
    name, value = words_of_a_server
    env = {**env_of(url, FLAMETREE_TIMEOUT="60s"), "PATH": os.path.abspath(BIN) + ":" + os.environ["PATH"], "HOME": str(tmp_path)}
    for shell in ("fish", "zsh"):
        if not shutil.which(shell):
            pytest.skip("no %s here" % shell)
        (tmp_path / shell).write_text(ok("completion", shell))

    def fish(line):
        got = subprocess.run(["fish", "-c", "source $argv[1]; complete -C $argv[2]", str(tmp_path / "fish"), line], capture_output=True, text=True, cwd=tmp_path, env=env, timeout=60)
        return [word.split("\t")[0] for word in got.stdout.splitlines()]

    def zsh(call):
        """The functions of the script, with compadd as a printer."""
        script = "compadd() { print -rl -- $found }; compset() { return 1 }; source $1; words=(flametree query); %s" % call
        got = subprocess.run(["zsh", "-f", "-c", script, "zsh", str(tmp_path / "zsh")], capture_output=True, text=True, cwd=tmp_path, env=env, timeout=60)
        return got.stdout.splitlines()
    assert any(word.startswith(name[:17]) for word in fish("flametree query --service comp")), fish("flametree query --service comp")
    assert CPU in fish("flametree query process_cpu") and "zzlabel" in fish("flametree labels zzl")
    assert "zzlabel=" in fish("flametree push -l zzl") and fish("flametree push -l zzlabel=")
    assert name in zsh("_flametree_ask labels service_name") and CPU in zsh("_flametree_ask types") and "zzlabel" in zsh("_flametree_label")


# ---- ready, labels, types

def test_ready(url):
    assert ok("ready", url=url) == "ready\n"
    assert ok("ready", "--url", url.replace("http://", "") + "/") == "ready\n"


def test_ready_waits_for_a_server_that_starts():
    at = own_host() + ":4040"
    waiting = subprocess.Popen([PROGRAM, "ready", "--wait", "60s", "--url", "http://" + at], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env_of())
    with Flametree(listen=at):
        out, err = waiting.communicate(timeout=90)
    assert waiting.returncode == 0 and out == "ready\n", err


def test_ready_gives_up():
    said = fails(1, "ready", "--wait", "300ms", "--url", "http://127.0.0.1:1")
    assert "not ready within 300ms" in said and "127.0.0.1:1" in said


def test_labels_and_types(url, service):
    assert service in ok("labels", "service_name", url=url).split()
    assert {"region", "service_name"} <= set(ok("labels", "--service", service, url=url).split())
    assert ok("labels", "region", "--match", '{service_name="%s"}' % service, url=url) == "eu\n"
    assert ok("types", "--service", service, url=url) == CPU + "\n"
    assert json.loads(ok("types", "--format", "json", "-s", service, url=url)) == [CPU]
    assert CPU in ok("types", url=url).split()


def test_labels_shows_every_name_that_was_stored(url, tmp_path):
    name = unique("names")
    (tmp_path / "p").write_bytes(Pprof(("main", 1)).encode())
    names = ["k8s.pod.name", "process-description", "k8s.io/part-of"]
    ok("push", str(tmp_path / "p"), "-l", "service_name=" + name, *(word for n in names for word in ("-l", n + "=x")), url=url)
    assert set(names) <= set(ok("labels", "--service", name, url=url).splitlines())
    assert set(names) <= set(ok("labels", url=url).splitlines())
    for n in names:
        assert ok("labels", n, "--match", '{service_name="%s", "%s"="x"}' % (name, n), url=url) == "x\n"


def test_no_labels_is_3(url):
    assert "no values of label nobody_has_this" in fails(3, "labels", "nobody_has_this", url=url)


# ---- push

# ---- query

def test_query_says_what_there_is_where_there_is_nothing(url, service):
    wrong = service + "x"  # the nearest services are named; a server of many tests has more
    said = fails(3, "query", CPU + '{service_name="%s"}' % wrong, url=url)
    assert "no data for " + CPU in said and 'service_name="%s"' % wrong in said and "nearest: %s" % service in said and CPU in said, said
    said = fails(3, "query", CPU, "--from", "20200101", "--until", "20200102", url=url)
    assert "2020-01-01 00:00:00" in said and "no data at all" in said, said


def test_a_wrong_service_names_the_nearest_ones_first(url):
    name = unique("checkout")
    for service in (name, unique("aaa"), unique("zzz")):
        ok("push", "-", "-q", "-l", "service_name=" + service, data="x 1\n", url=url)
    wrong = name[:5] + name[6:-1] + "_"
    for args in (("query", "cpu", "-s", wrong), ("series", 'cpu{service_name="%s"}' % wrong), ("diff", 'cpu{service_name="%s"}' % wrong, 'cpu{service_name="%s"}' % name)):
        said = fails(3, *args, url=url)
        assert "no service '%s' in that range; nearest: %s" % (wrong, name) in said and "services, nearest first: " + name in said, said
    for args in (("types", "-s", wrong), ("labels", "pod", "-s", wrong)):
        said = fails(3, *args, url=url)
        assert "no service '%s' in that range; nearest: %s" % (wrong, name) in said, said


def test_type_may_be_short_or_left_out(url, service, tmp_path):
    by_word = ok("query", "cpu", "-s", service, "-F", "folded", url=url)
    assert by_word == ok("query", '{service_name="%s"}' % service, "-F", "folded", url=url)
    assert by_word == ok("query", 'process_cpu{service_name="%s"}' % service, "-F", "folded", url=url)
    assert by_word == ok("query", "-t", CPU, "-s", service, "-F", "folded", url=url)
    two = unique("cli")
    path = tmp_path / "two.pb"
    path.write_bytes(Pprof(("a", (1, 2)), types=(("samples", "count"), ("cpu", "nanoseconds"))).encode())
    ok("push", str(path), "-l", "service_name=" + two, url=url)
    said = fails(2, "query", "-s", two, url=url)
    assert "choose a profile type" in said and "process_cpu:samples:count:cpu:nanoseconds" in said, said
    assert "no profile type matches 'heap'" in fails(2, "query", "heap", "-s", two, url=url)


def test_a_sample_type_is_meant_before_a_name_that_others_share(url, tmp_path):
    of, path = unique("cli"), tmp_path / "wall.pb"
    path.write_bytes(Pprof(("a", (1, 2)), types=(("samples", "count"), ("wall", "nanoseconds")), period_type=("wall", "nanoseconds")).encode())
    ok("push", str(path), "-l", "service_name=" + of, "--name", "wall", url=url)
    assert ok("query", "wall", "-s", of, "-F", "folded", url=url) == "a 2\n"


def test_times_are_rfc3339_too(url, service):
    from_ = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - 600))
    until = time.strftime("%Y-%m-%d %H:%M+01:00", time.gmtime(time.time() + 3600 + 120))
    assert "main;work 60000000" in ok("query", "cpu", "-s", service, "--from", from_, "--until", until, "-F", "folded", url=url)


def test_top(url, service):
    lines = ok("query", "cpu", "-s", service, "--top", "2", url=url).splitlines()
    assert [re.split(r" {2,}", line.strip()) for line in lines[3:]] == [["60.0 ms", "60.0 %", "60.0 ms", "60.0 %", "work"], ["30.0 ms", "30.0 %", "30.0 ms", "30.0 %", "idle"]]
    rows = json.loads(ok("query", "cpu", "-s", service, "--top", "9", "--format", "json", url=url))
    assert rows["total"] == 100_000_000 and {"function": "main", "self": 0, "total": 90_000_000} in rows["functions"]


def test_top_without_a_terminal_is_one_table(url, service):
    lines = ok("top", "-s", service, url=url).splitlines()
    assert lines[0].startswith("process_cpu:cpu") and lines[1].startswith("100 ms total in the last 5.00 min") and "q ends" not in lines[1], lines
    assert "work" in lines[3] and "60.0 %" in lines[3], lines
    assert len(ok("top", '{service_name="%s"}' % service, "--rows", "1", url=url).splitlines()) == 4
    assert "no service 'nobody'" in fails(3, "top", "-s", "nobody", url=url)
    assert "--interval" in fails(2, "top", "--interval", "soon", url=url)


@pytest.mark.parametrize("end", ["q", "signal"])
def test_top_on_a_terminal_refreshes_until_it_is_ended(url, service, end):
    leader, follower = pty.openpty()
    fcntl.ioctl(follower, termios.TIOCSWINSZ, struct.pack("HHHH", 12, 80, 0, 0))
    kept = termios.tcgetattr(follower)
    process = subprocess.Popen([PROGRAM, "top", "-s", service, "--interval", "100ms"], stdin=follower, stdout=follower, stderr=subprocess.PIPE, env=env_of(url))
    out = b""
    while out.count(b"\x1b[H") < 3:  # three pages, of which two are refreshed
        assert select.select([leader], [], [], 60)[0], out
        out += os.read(leader, 65536)
    assert b"work" in out and b"q ends" in out and out.startswith(b"\x1b[?1049h"), out
    if end == "q":
        os.write(leader, b"q")
    else:
        process.send_signal(signal.SIGINT)
    while b"\x1b[?1049l" not in out:  # the screen is as it was
        assert select.select([leader], [], [], 60)[0], out
        out += os.read(leader, 65536)
    assert process.wait(60) == 0, process.stderr.read()
    assert termios.tcgetattr(follower) == kept
    process.stderr.close()
    os.close(leader)
    os.close(follower)


def test_people_read_demangled_names_and_programs_get_those_that_were_pushed(url):
    name, mangled = unique("cli"), ["_ZN4core3fmt5write17h0123456789abcdefE", "_ZNK3Foo3barEi", "_RNvCs1234_7mycrate4main"]
    ok("push", "-", "-l", "service_name=" + name, "--sample-rate", "0", data=";".join(mangled) + " 7\n", url=url)
    for args in ((), ("-F", "tree"), ("--top", "5")):
        shown = ok("query", "-s", name, "-w", "120", *args, url=url)
        assert all(text in shown for text in ("core::fmt::write", "Foo::bar(int) const", "mycrate::main")) and "_Z" not in shown, shown
    assert "core::fmt::write" in ok("top", '{service_name="%s"}' % name, "-t", "samples", url=url)
    assert ok("query", "-s", name, "-F", "folded", url=url) == ";".join(mangled) + " 7\n"
    assert mangled[0] in ok("query", "-s", name, "-F", "json", url=url) and mangled[0] in ok("query", "-s", name, "--top", "5", "-F", "json", url=url)
    other = name + "-b"
    ok("push", "-", "-l", "service_name=" + other, "--sample-rate", "0", data=mangled[1] + " 7\n", url=url)
    assert "Foo::bar(int) const" in ok("diff", '{service_name="%s"}' % name, '{service_name="%s"}' % other, url=url)


def test_recursion_counts_once(url):
    name = unique("cli")
    ok("push", "-", "-l", "service_name=" + name, "--sample-rate", "0", data="f;g;f 3\nf 1\n", url=url)
    rows = json.loads(ok("query", "-s", name, "--top", "9", "-F", "json", url=url))["functions"]
    assert rows == [{"function": "f", "self": 4, "total": 4}, {"function": "g", "self": 0, "total": 3}]


def test_json_and_dot_and_tree(url, service):
    graph = json.loads(ok("query", "cpu", "-s", service, "--format", "json", url=url))["flamegraph"]
    assert graph["total"] == "100000000" and set(graph["names"]) == {"total", "main", "work", "idle", "gc"}
    dot = ok("query", "cpu", "-s", service, "--format", "dot", url=url)
    assert dot.startswith("digraph") and "work" in dot
    tree = ok("query", "cpu", "-s", service, "--format", "tree", url=url)
    assert re.search(r"60\.0 ms   60\.0 %  │ │ work$", tree, re.M), tree
    assert "work" not in ok("query", "cpu", "-s", service, "-F", "tree", "--depth", "2", url=url)


def test_a_pipe_gets_plain_text_of_80_columns(url, service):
    out = ok("query", "cpu", "-s", service, url=url)
    assert "\x1b" not in out
    picture = out.splitlines()[2:]
    assert len(picture) == 3 and all(len(line) <= 80 for line in picture) and len(picture[0]) == 80, out
    assert picture[1].startswith("│ gc") and "│ main" in picture[1] and "90.0 %" in picture[1], out
    wide = ok("query", "cpu", "-s", service, "--width", "132", url=url).splitlines()[2]
    assert len(wide) == 132


def test_a_terminal_gets_its_width_and_colours(url, service):
    out, status = on_terminal("query", "cpu", "-s", service, url=url, columns=117)
    picture = out.splitlines()[2:]
    assert status == 0 and all("\x1b[48;5;" in line for line in picture), out
    assert len(ESCAPE.sub("", picture[0])) == 117 and picture[0].endswith("\x1b[0m")
    out, _ = on_terminal("query", "cpu", "-s", service, env=env_of(url, COLORTERM="truecolor"))
    assert "\x1b[48;2;" in out
    out, _ = on_terminal("query", "cpu", "-s", service, env=env_of(url, TERM="xterm"))
    assert "\x1b[48;" not in out and re.search("\x1b\\[30;4[2-7]m", out), out


@pytest.mark.parametrize("args, env", [([], {"NO_COLOR": "1"}), (["--color", "never"], {}), ([], {"TERM": "dumb"})], ids=["NO_COLOR", "never", "dumb"])
def test_a_terminal_without_colours(url, service, args, env):
    out, status = on_terminal("query", "cpu", "-s", service, *args, env=env_of(url, **env))
    assert status == 0 and "\x1b" not in out, out


def test_colours_may_be_forced(url, service):
    assert "\x1b[48;5;" in ok("query", "cpu", "-s", service, "--color", "always", env=env_of(url, NO_COLOR="1"))


def test_pprof_does_not_go_to_a_terminal(url, service):
    out, status = on_terminal("query", "cpu", "-s", service, "-F", "pprof", url=url, stderr_too=True)
    assert status == 2 and "-o FILE" in out


def test_a_reader_that_leaves_is_no_error(url):
    name = unique("cli")
    ok("push", "-", "-l", "service_name=" + name, "--sample-rate", "0", data="".join("%s;%d 1\n" % ("x" * 60, i) for i in range(15_000)), url=url)
    process = subprocess.Popen([PROGRAM, "query", "-s", name, "-F", "folded"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env_of(url))
    assert process.stdout.read(10) == b"x" * 10
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) == 141 and said == b""


def test_full_disk_is_an_error(url, service):
    with open("/dev/full", "w") as full:
        answer = subprocess.run([PROGRAM, "query", "cpu", "-s", service], stdout=full, stderr=subprocess.PIPE, text=True, env=env_of(url), timeout=60)
    assert answer.returncode == 1 and "No space" in answer.stderr


# ---- series and diff

def test_series(url, service):
    out = ok("series", "cpu", "-s", service, "--group-by", "region", "--step", "1m", url=url)
    row = next(line for line in out.splitlines() if line.startswith("eu"))
    assert row.split()[-4:] == ["1.67", "m"] * 2 and "█" in row and "cores in use, step 1.00 min" in out and " min " in out and " max " in out, out
    total = ok("series", "cpu", "-s", service, "--step", "1m", "--aggregation", "sum", url=url)
    assert "100 ms" in total and "sum of each step" in total, total
    answer = json.loads(ok("series", "cpu", "-s", service, "-g", "region", "--step", "1m", "--format", "json", url=url))
    assert [p["value"] for p in answer["series"][0]["points"]] == [100_000_000] and answer["series"][0]["labels"] == [{"name": "region", "value": "eu"}]
    assert "no data for" in fails(3, "series", CPU + '{service_name="nobody"}', url=url)
    assert "more than 11000 points" in fails(2, "series", "cpu", "--step", "1s", "--from", "now-7d", url=url)


def test_series_of_memory_are_per_second_and_of_gauges_the_mean(url, tmp_path):
    name, at = unique("cli"), time.time_ns() - 30 * 10**9
    for type, unit in (("alloc_space", "bytes"), ("inuse_space", "bytes"), ("alloc_objects", "count")):
        for n in (1, 2):
            path = tmp_path / (type + str(n))
            path.write_bytes(Pprof(("main", n * 61440), types=((type, unit),), period_type=("space", "bytes"), time_ns=at + n).encode())
            ok("push", str(path), "-l", "service_name=" + name, "--name", "memory", url=url)
    shown = {type: ok("series", type, "-s", name, "--step", "1m", url=url) for type in ("alloc_space", "inuse_space", "alloc_objects")}
    assert "3.00 KiB/s" in shown["alloc_space"] and "per second" in shown["alloc_space"], shown
    assert "90.0 KiB" in shown["inuse_space"] and "mean of the profiles" in shown["inuse_space"], shown
    assert "3.07 k/s" in shown["alloc_objects"], shown


def test_the_newest_profile_is_in_the_last_point(url, tmp_path):
    name, now = unique("cli"), time.time_ns()
    for age in (1, 3000):
        (tmp_path / "p").write_bytes(Pprof(("main", 6_000_000_000), time_ns=now - age * 10**9).encode())
        ok("push", str(tmp_path / "p"), "-l", "service_name=" + name, url=url)
    for step in ("7m", "10m", "2h"):  # 1 h is no multiple of 7 min, and shorter than 2 h
        series = json.loads(ok("series", "cpu", "-s", name, "--step", step, "--format", "json", url=url))["series"]
        assert sum(p["value"] for p in series[0]["points"]) == 12_000_000_000, (step, series)


def test_diff(url, service, tmp_path):
    other, path = unique("cli"), tmp_path / "b.pb"
    path.write_bytes(Pprof(("main;work", 20), ("main;new", 80)).encode())
    ok("push", str(path), "-l", "service_name=" + other, url=url)
    sides = ['cpu{service_name="%s"}' % service, 'cpu{service_name="%s"}' % other]
    lines = ok("diff", *sides, url=url).splitlines()
    assert lines[4].split() == ["self", "total"] and lines[5].split() == [*["before", "after", "change"] * 2, "function"], lines
    rows = {line.split()[-1]: line for line in lines[6:]}
    assert list(rows) == ["new", "work", "idle", "gc", "main"] and "+80.00 pp" in rows["new"] and "-40.00 pp" in rows["work"], lines
    answer = json.loads(ok("diff", *sides, "--format", "json", "--top", "1", url=url))
    assert answer["baseline"]["total"] == 100_000_000 and answer["comparison"]["total"] == 100
    assert answer["functions"] == [{"function": "new", "baseline": {"self": 0, "total": 0}, "comparison": {"self": 80, "total": 80}, "change": 0.8, "totalChange": 0.8}]
    said = fails(3, "diff", sides[1], "--before", "1d", url=url)
    assert "baseline: no data" in said and "no data at all in that range; try a shorter --before" in said, said


def test_diff_finds_and_refuses_a_function_that_grew_only_in_what_it_calls(url, tmp_path):
    """`parse` has no self time, and none of the functions that it calls grew by much; on a recursive stack it counts once."""
    before, after = unique("cli"), unique("cli")
    many = [("main;parse;parse;step%02d" % n, 2) for n in range(22)]
    for name, stacks in ((before, [("main;idle", 100)]), (after, [("main;idle", 56), *many])):
        (tmp_path / name).write_bytes(Pprof(*stacks).encode())
        ok("push", str(tmp_path / name), "-l", "service_name=" + name, url=url)
    sides = ['cpu{service_name="%s"}' % name for name in (before, after)]
    lines = ok("diff", *sides, url=url).splitlines()
    rows = {line.split()[-1]: [part.split()[0] for part in re.split("%|pp", line)[:-1]] for line in lines[6:8]}
    assert rows == {"idle": ["100.0", "56.0", "-44.00"] * 2, "parse": ["0.0", "0.0", "+0.00", "0.0", "44.0", "+44.00"]}, lines
    said = fails(4, "diff", *sides, "--fail-above", "10", url=url)
    assert "1 function grew by more than 10 points, most of all parse: total +44.00 pp" in said, said
    assert "23 functions grew by more than 1.5 points" in fails(4, "diff", *sides, "--fail-above", "1.5", url=url)
    ok("diff", *sides, "--fail-above", "44", url=url)
    assert "1 function grew by more than 43.99999999 points" in fails(4, "diff", *sides, "--fail-above", "43.99999999", url=url)
    ok("diff", *reversed(sides), "--fail-above", "44", url=url)
    assert "most of all idle: self +44.00 pp" in fails(4, "diff", *reversed(sides), "--fail-above", "43.9", "--format", "json", url=url)
    assert "not a number" in fails(2, "diff", *sides, "--fail-above", "-1", url=url)
    for limit in ("10", "100"):  # "other" is no function, and whether one is in it nobody knows
        said = fails(1, "diff", *sides, "--fail-above", limit, "--max-nodes", "1", url=url)
        assert "the answers lack frames" in said and "--max-nodes" in said, said
    ok("diff", *sides, "--max-nodes", "1", url=url)


def test_every_stack_is_shown_of_less_than_nothing(url, tmp_path):
    """A frame whose total is 0 or less has no width in a flame graph, and so none of what it calls has: the client asks for the tree then."""
    sides = {"less": [("main;a", 2), ("main;b;c", -7), ("d", 1)], "nothing": [("main;a", 5), ("main;b", -5)], "inner": [("main;a", 5), ("main;b", -5), ("d", 9)], "plain": [("d", 4)]}
    mark, query = unique("cli"), 'cpu{service_name="%s"}'
    for name, stacks in sides.items():
        (tmp_path / name).write_bytes(Pprof(*stacks).encode())
        ok("push", str(tmp_path / name), "-l", "service_name=" + mark + name, url=url)
        folded = sorted("%s %d" % stack for stack in stacks)
        assert sorted(ok("query", query % (mark + name), "--format", "folded", url=url).splitlines()) == folded
        assert sorted(ok("convert", str(tmp_path / name), "-", "--to", "folded").splitlines()) == folded
        table = json.loads(ok("query", query % (mark + name), "--format", "json", "--top", "99", url=url))
        assert table["total"] == sum(value for _, value in stacks) == sum(f["self"] for f in table["functions"])
        rows = {line.split()[-1] for line in ok("top", query % (mark + name), url=url).splitlines()[3:]}
        assert rows >= {stack.split(";")[-1] for stack, _ in stacks}, rows
    for pair in (("plain", "less"), ("nothing", "plain")):
        said = fails(1, "diff", *[query % (mark + name) for name in pair], "--fail-above", "50", url=url)
        assert "there are no shares that --fail-above could compare" in said, said


# ---- names that attack terminals

EVIL = "evil\x1b]0;owned\x07\x1b[31m\u009b31m\u202egnp"


def test_names_never_command_a_terminal(url, tmp_path):
    name, path = unique("cli"), tmp_path / "evil.pb"
    path.write_bytes(Pprof((["main", EVIL], 5)).encode())
    ok("push", str(path), "-l", "service_name=" + name, "-l", "region=" + EVIL.replace("\n", ""), url=url)
    args = [["query", "cpu"], ["query", "cpu", "--top", "5"], ["query", "cpu", "-F", "tree"], ["query", "cpu", "-F", "folded"], ["query", "cpu", "-F", "json"],
            ["query", "cpu", "-F", "dot"], ["series", "cpu", "-g", "region"], ["labels", "region"]]
    for a in args:
        out, status = on_terminal(*a, "-s", name, url=url, env=env_of(url, NO_COLOR="1"))
        bad = [c for c in out if c != "\n" and (ord(c) < 32 or 0x7f <= ord(c) < 0xa0 or c == "\u202e")]
        assert status == 0 and not bad and "evil" in out, (a, out)


# ---- servers of other kinds

class Stub:
    """A server that answers every request with answer(path, headers, body) -> (status, headers, body)."""

    def __init__(self, answer, context=None):
        self.seen = []
        stub = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def reply(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                stub.seen.append((self.path, dict(self.headers.items()), body))
                status, headers, data = answer(self.path, self.headers, body)
                self.send_response(status)
                for k, v in headers.items():
                    self.send_header(k, v)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                try:
                    self.wfile.write(data)
                except OSError:
                    pass
            do_GET = do_POST = reply

            def log_message(self, *args):
                pass
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        if context:
            self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.host = "127.0.0.1:%d" % self.server.server_address[1]
        self.url = "http://" + self.host
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.05,))

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()


PROTO = {"Content-Type": "application/proto"}


def always(status, headers, body):
    return lambda *_: (status, headers, body)


def test_credentials_tenant_and_prefix_are_sent(tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("anna:s3cret\n")
    with Stub(always(200, {}, b"ready")) as s:
        ok("ready", "--url", s.url + "/pyro/scope/", "--user", "@%s" % secret, "--tenant", "team-a")
        ok("ready", env=env_of(s.url, FLAMETREE_BEARER="t0ken", FLAMETREE_TENANT="a|b"))
        ok("ready", "--url", "http://bob:p%40ss@" + s.host)
        ok("--url", s.url, "ready")
    heads = [{k.lower(): v for k, v in h.items()} for _, h, _ in s.seen]
    assert s.seen[0][0] == "/pyro/scope/ready" and heads[0]["authorization"] == "Basic YW5uYTpzM2NyZXQ=" and heads[0]["x-scope-orgid"] == "team-a"
    assert heads[1]["authorization"] == "Bearer t0ken" and heads[1]["x-scope-orgid"] == "a|b"
    assert heads[2]["authorization"] == "Basic Ym9iOnBAc3M=" and "authorization" not in heads[3]


def test_secrets_are_never_shown():
    with Stub(always(401, {"Content-Type": "text/plain"}, b"go away")) as s:
        for args in (["--user", "anna:s3cret"], ["--bearer", "s3cret"], ["--url", "http://anna:s3cret@" + s.host]):
            said = fails(1, "ready", *(args if args[0] == "--url" else args + ["--url", s.url]))
            assert "s3cret" not in said and "401" in said and "--bearer" in said, said
    for args in (["--url", "http://anna:s3cret@"], ["--url", "http://anna:s3cret@h:x"], ["--url", "http://anna:s3cret@127.0.0.1:1"]):
        assert "s3cret" not in run("ready", *args).stderr


ANSWERS = [
    ("connect error", 400, {"Content-Type": "application/json"}, b'{"code":"invalid_argument","message":"max flamegraph nodes limit 1 is greater"}', ["400 invalid_argument: max flamegraph nodes"]),
    ("page not found", 404, {"Content-Type": "text/plain"}, b"404 page not found\n", ["404 with text/plain: 404 page not found", "--url"]),
    ("html of a proxy", 502, {"Content-Type": "text/html"}, b"<html><head><title>502 Bad\nGateway</title></head><body>nginx</body></html>", ["502 with text/html: 502 Bad Gateway nginx"]),
    ("login page", 200, {"Content-Type": "text/html"}, b"<h1>Please log in</h1>", ["200 with text/html instead of application/proto", "Please log in"]),
    ("redirect", 302, {"Location": "https://sso.example/login"}, b"", ["302", "https://sso.example/login"]),
    ("malformed message", 200, PROTO, b"\x0a\xff\xff\xff\xff\x7f", ["200, but the answer is malformed"]),
    ("broken gzip", 200, {**PROTO, "Content-Encoding": "gzip"}, b"\x1f\x8bnonsense", ["the answer"]),
    ("escapes in a message", 400, {"Content-Type": "application/json"}, b'{"code":"unknown","message":"\\u001b[31mred"}', ["\ufffd[31mred"]),
    ("levels that lie", 200, PROTO, pb((1, pb((1, "total"), (2, [pb((1, b"\x00\x05\x00\x00")), pb((1, b"\x00\x09\x00\x00"))]), (3, 5)))), ["malformed: level 1 has a bar that lies below none"]),
    ("names that are not there", 200, PROTO, pb((1, pb((1, "total"), (2, pb((1, b"\x00\x05\x00\x07"))), (3, 5)))), ["level 0 has a bar whose name does not exist"]),
    ("odd level", 200, PROTO, pb((1, pb((1, "total"), (2, pb((1, b"\x00\x05\x00"))), (3, 5)))), ["groups of 4"]),
    ("negative bar", 200, PROTO, pb((1, pb((1, "total"), (2, pb((1, b"\x00" + b"\xff" * 9 + b"\x01\x00\x00"))), (3, 5)))), ["negative"]),
]


@pytest.mark.parametrize("name, status, headers, body, said", ANSWERS, ids=[a[0] for a in ANSWERS])
def test_answers_of_strange_servers(name, status, headers, body, said):
    with Stub(always(status, headers, body)) as s:
        text = fails(1, "query", CPU, url=s.url)
    assert all(part in text for part in [*said, "SelectMergeStacktraces at " + s.url]), text
    assert "\x1b" not in text


def test_pyroscope_without_data_is_3():
    """As Pyroscope answers: one root of nothing, types and series empty."""
    def answer(path, *_):
        return 200, PROTO, pb((1, pb((1, "total"), (2, pb((1, b"\0\0\0\0")))))) if path.endswith("Stacktraces") else b""
    with Stub(answer) as s:
        assert "no data at all" in fails(3, "query", CPU, url=s.url)


def test_answer_that_is_too_large():
    with Stub(always(200, PROTO, b"\0" * 300_000)) as s:
        said = fails(1, "query", CPU, "--max-answer", "100KiB", url=s.url)
    assert "larger than 100KiB" in said and "--max-answer" in said
    bomb = gzip.compress(b"\0" * 50_000_000)
    with Stub(always(200, {**PROTO, "Content-Encoding": "gzip"}, bomb)) as s:
        assert "larger than 1MiB" in fails(1, "query", CPU, "--max-answer", "1MiB", url=s.url)


def test_slow_server():
    release = threading.Event()

    def answer(*_):
        release.wait(60)
        return 200, PROTO, b""
    with Stub(answer) as s:
        try:
            said = fails(1, "query", CPU, "--timeout", "300ms", url=s.url)
        finally:
            release.set()
    assert "no answer within 300ms" in said and "--timeout" in said


def test_nobody_there():
    with socket.socket() as held:  # bound, so that nobody else comes to listen there
        held.bind(("127.0.0.1", 0))
        url = "http://127.0.0.1:%d" % held.getsockname()[1]
        said = fails(1, "query", CPU, url=url)
    assert url in said and "SelectMergeStacktraces" in said and "onnect" in said and "--url" in said, said


def test_tls(tmp_path):
    key, cert = str(tmp_path / "key.pem"), str(tmp_path / "cert.pem")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", key, "-out", cert, "-days", "2", "-subj", "/CN=localhost",
                    "-addext", "subjectAltName=IP:127.0.0.1"], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    with Stub(always(200, {}, b"ready"), context) as s:
        assert ok("ready", "--url", "https://" + s.host, "--ca-file", cert) == "ready\n"
        said = fails(1, "ready", "--url", "https://" + s.host)
        assert "certificate" in said, said
        said = fails(1, "ready", "--url", "http://" + s.host)
        assert "the server there speaks https, not http" in said and "--url https://" + s.host in said, said
    with Stub(always(200, {}, b"ready")) as s:
        said = fails(1, "ready", "--url", "https://" + s.host)
        assert "the server there speaks http, not https" in said and "--url http://" + s.host in said, said
        assert "no such file" in fails(2, "ready", "--url", "https://" + s.host, "--ca-file", "/no/such.pem")


def test_an_overloaded_server_gets_the_file_again(tmp_path):
    tries = []

    def answer(path, headers, body):
        tries.append(path)
        if len(tries) < 3:
            return 429, {"Content-Type": "application/json", "Retry-After": "0"}, b'{"code":"resource_exhausted","message":"rate limited"}'
        return 200, PROTO, b""
    path = tmp_path / "a.pb"
    path.write_bytes(Pprof(("a", 1)).encode())
    with Stub(answer) as s:
        ok("push", str(path), url=s.url)
        assert len(tries) == 3
        del tries[:]
        assert "429 resource_exhausted: rate limited" in fails(1, "push", str(path), "--retry", "0", url=s.url)
        assert len(tries) == 1


def test_progress_of_a_long_push(tmp_path):
    """A line that moves on a terminal, and is gone at the end."""
    names = ["%03d.txt" % i for i in range(12)]
    for name in names:
        (tmp_path / name).write_text("a 1\n")
    gate = threading.Semaphore(0)

    def answer(*_):
        gate.acquire(timeout=60)
        return 200, {}, b""
    with Stub(answer) as s:
        leader, follower = pty.openpty()
        process = subprocess.Popen([PROGRAM, "push", str(tmp_path), "-j", "1"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=follower, env=env_of(s.url))
        os.close(follower)
        out = b""

        def seen(part):
            nonlocal out
            if select.select([leader], [], [], 0.1)[0]:
                try:
                    out += os.read(leader, 65536)
                except OSError:
                    return True
            return part in out
        await_("the first line of progress", lambda: seen(b"0 of 12 files"))
        gate.release(3)
        await_("progress", lambda: seen(b"3 of 12 files"))
        gate.release(20)
        await_("the summary", lambda: seen(b"\r\x1b[K12 files, "))
        assert process.wait(60) == 0
        os.close(leader)
    assert out.rindex(b"\r\x1b[K12 files, ") > out.rindex(b" of 12 files"), out


def test_output_may_be_a_device_or_a_link(url, service, tmp_path):
    """Only an ordinary file is replaced as a whole."""
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("before")
    link.symlink_to(target)
    ok("query", "cpu", "-s", service, "-F", "folded", "-o", str(link), url=url)
    assert link.is_symlink() and "main;work 60000000" in target.read_text()
    assert "main;work 60000000" in ok("query", "cpu", "-s", service, "-F", "folded", "-o", "/dev/stdout", url=url)
    assert "main;work 60000000" in ok("query", "cpu", "-s", service, "-F", "folded", "-o", "-", url=url)
    fails(3, "query", CPU + '{service_name="nobody"}', "-F", "folded", "-o", str(target), url=url)
    assert "main;work 60000000" in target.read_text() and sorted(os.listdir(tmp_path)) == ["cpu.pb", "link", "target"]
