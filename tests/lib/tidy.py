#!/usr/bin/python3
"""clang-tidy over C files, which looks again only at what has changed.

    tests/lib/tidy.py BUILD LOG FILE...    BUILD has compile_commands.json

What clang-tidy says of a file follows from the program, .clang-tidy, the command that compiles the file, and the bytes
of all files that it includes. The hash of these names a file in the cache when clang-tidy found nothing; a file with
findings is looked at each time. Like ccache's, the cache lies in the user's folder, so that a fresh clone has it too:
$FLAMETREE_TIDY_CACHE, else flametree-tidy in $XDG_CACHE_HOME or ~/.cache. Ends with 0 if there is nothing to find.

Where hardly any file is known to be clean, as on a machine that is new, it looks at what the last commits changed and at
some of the others, drawn by FT_DRAWN (tests/run). Without it, as in tests/run nightly, it looks at all.
"""
import concurrent.futures
import functools
import hashlib
import json
import os
import random
import shlex
import subprocess
import sys
import time

TIDY, CLANG = "clang-tidy-14", "clang-14"
KEEP_S = 30 * 86400  # entries that nobody asked for so long go
MOST, COMMITS = 120, 30  # files looked at where few are known, and commits whose files are among them


def cache_folder():
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    folder = os.environ.get("FLAMETREE_TIDY_CACHE") or os.path.join(home, "flametree-tidy")
    os.makedirs(folder, exist_ok=True)
    now = time.time()
    for entry in os.scandir(folder):
        if now - entry.stat().st_mtime > KEEP_S:
            os.unlink(entry.path)
    return folder


@functools.lru_cache(maxsize=None)
def digest(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


def arguments(command):
    """Of the compiler, without its name, its launcher and its output."""
    words = shlex.split(command["command"])
    while not os.path.basename(words[0]).startswith("clang"):
        words.pop(0)
    words = words[1:]
    at = words.index("-o")
    return [word for i, word in enumerate(words) if i not in (at, at + 1) and word != "-c"]


def included(command, args):
    """All files that the compiler reads for it, itself among them."""
    rule = subprocess.run([CLANG, *args, "-M"], cwd=command["directory"], capture_output=True, text=True, check=True).stdout
    paths = shlex.split(rule.split(": ", 1)[1].replace("\\\n", " "))
    return sorted(os.path.realpath(os.path.join(command["directory"], path)) for path in paths)


def key(command, top, about):
    args = arguments(command)
    hashed = hashlib.sha256()
    for part in [about, *args, *(line for path in included(command, args) for line in (path, digest(path)))]:
        hashed.update(part.replace(top, ".").encode() + b"\0")  # a clone elsewhere has the same hashes
    return hashed.hexdigest()


def check(path, entry, build):
    """(path, its findings)"""
    done = subprocess.run([TIDY, "-p", build, "--quiet", path], capture_output=True, text=True)
    if done.returncode == 0 and not done.stdout.strip():
        open(entry, "w").close()
        return path, ""
    return path, done.stdout or done.stderr or "%s: clang-tidy ended with %d" % (path, done.returncode)


def changed_lately():
    names = subprocess.run(["git", "log", "-%d" % COMMITS, "--format=", "--name-only"], capture_output=True, text=True, check=True).stdout.split()
    return set(names + subprocess.run(["git", "diff", "--name-only", "HEAD"], capture_output=True, text=True, check=True).stdout.split())


def some_of(paths):
    """Those that are looked at in this run."""
    drawn = os.environ.get("FT_DRAWN")
    if not drawn or len(paths) <= MOST:
        return paths
    lately = changed_lately()
    chosen = [path for path in paths if path in lately]
    others = [path for path in paths if path not in lately]
    return chosen + random.Random(drawn).sample(others, min(len(others), max(0, MOST - len(chosen))))


def main(build, log, *files):
    top = os.path.realpath(os.curdir)
    cache = cache_folder()
    with open(os.path.join(build, "compile_commands.json")) as f:
        commands = {os.path.realpath(os.path.join(c["directory"], c["file"])): c for c in json.load(f)}
    version = subprocess.run([TIDY, "--version"], capture_output=True, text=True, check=True).stdout
    # The version tells the processor too, which has no say.
    about = "\n".join(line for line in version.splitlines() if "CPU" not in line) + digest(".clang-tidy") + digest(__file__)
    findings = 0
    with open(log, "w") as out, concurrent.futures.ThreadPoolExecutor(2) as pool:
        entries = dict(zip(files, pool.map(lambda path: os.path.join(cache, key(commands[os.path.realpath(path)], top, about)), files)))
        unknown = [path for path in files if not os.path.exists(entries[path])]
        for path in set(files) - set(unknown):
            os.utime(entries[path])
        chosen = some_of(unknown)
        jobs = [pool.submit(check, path, entries[path], build) for path in chosen]
        for job in concurrent.futures.as_completed(jobs):
            _, text = job.result()
            findings += bool(text)
            out.write(text)
            out.flush()
    print("tidy: %d files, %d of them unchanged since they were clean, %d looked at, %d with findings"
          % (len(files), len(files) - len(unknown), len(chosen), findings))
    return 1 if findings or not files else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
