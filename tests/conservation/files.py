"""The client on a file, without a server: what `convert`, `flame` and `top` say that a profile adds up to."""
import os
import re
import subprocess
from collections import Counter

from client import unpack, unpb
from flametree import BIN, WITHOUT_SETTINGS

import profiles
from totals import signed

UNITS = {"ns": 1, "µs": 1e3, "ms": 1e6, "s": 1e9, "min": 6e10, "h": 3.6e12, "d": 8.64e13, "": 1, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "B": 1, "KiB": 1 << 10, "MiB": 1 << 20,
         "GiB": 1 << 30, "TiB": 1 << 40}


def run(*args):
    return subprocess.run([os.path.join(BIN, "flametree"), *args], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL, env=WITHOUT_SETTINGS)


def about(text):
    """"1.25 s total" as a number; None without one."""
    said = re.search(r"^(-?[\d.]+) ?(\S*) total", text, re.M)
    return said and float(said[1]) * UNITS[said[2]]


def types_of(path, *more):
    """What `convert` says that a file has; None if it has one type, which it does not name."""
    done = run("convert", path, path + ".out", "--to", "pprof", *more)
    if done.returncode:
        raise AssertionError("convert to pprof: %s" % done.stderr)
    said = re.search(r": %s: (.*); --type chooses another: (.*)" % re.escape(path), done.stderr)
    return [said[1], *said[2].split(", ")] if said else [None]


def pprof_sums(path):
    """{(type, unit): sum} of all samples of a pprof file."""
    with open(path, "rb") as f:
        m = unpb(f.read())
    text = lambda i: m[6][i].decode()
    types = [(text(t.get(1, [0])[0]), text(t.get(2, [0])[0])) for t in map(unpb, m.get(1, []))]
    sums = Counter()
    for sample in map(unpb, m.get(2, [])):
        for kind, v in zip(types, unpack(sample.get(2, []))):
            sums[kind] += signed(v)
    return sums


def file_failure(spec, folder):
    """What is wrong with what the client says of a profile, if something is."""
    path = os.path.join(folder, "profile")
    with open(path, "wb") as f:
        f.write(profiles.FORMATS[spec["format"]].encode(spec))
    want, form = profiles.sums(spec), ["--format", spec["format"]]
    got, seen = Counter(), set()
    try:
        for type in types_of(path, *form):
            which = ["--type", type] if type else []
            done = run("convert", path, path + ".pb", "--to", "pprof", *form, *which)
            if done.returncode:
                return "convert --type %s: %s" % (type, done.stderr)
            part = (type or "").rsplit(" ", 1)[0] if " " in (type or "") else ""
            for kind, n in pprof_sums(path + ".pb").items():
                if (part, kind) not in seen:  # the file of one type has all types of its profile
                    seen.add((part, kind))
                    got[kind] += n
            wrong = drawn_failure(path, type, form + which, pprof_sums(path + ".pb"))
            if wrong:
                return wrong
    except AssertionError as e:
        return str(e)
    for (type, unit), total in want.items():
        # Samples of text are written as they are, and become time when they are pushed.
        exact = [n for (t, u), n in got.items() if u == unit and type in (None, t)]
        # A type whose values are all 0 need not be there.
        said = sum(exact) if exact or not total else sum(n for (_, u), n in got.items() if u == "count") * (profiles.period(spec) if unit == "nanoseconds" else 1)
        if said != total:
            return "convert says %s, and the file has %s" % (dict(got), want)
    return None


def drawn_failure(path, type, options, sums):
    """`convert` to collapsed stacks, `flame` and `top` of one type against its pprof."""
    totals = [n for (t, u), n in sums.items() if type is None or type.rsplit(" ", 1)[-1] == "%s/%s" % (t, u)] or [0]
    folded = run("convert", path, "-", "--to", "folded", *options)
    if "less than nothing" in folded.stderr:  # collapsed stacks have no such values
        return None
    if folded.returncode or sum(int(line.rsplit(" ", 1)[1]) for line in folded.stdout.splitlines()) not in totals:
        return "convert --to folded %s adds up to %s, its pprof to %s; %s" % (options, folded.stdout[:400], totals, folded.stderr)
    # top chooses its type by itself
    for command, more in (("flame", options), ("top", options[:2] if type is None else None)):
        done = run(command, path, *more) if more is not None else None
        if done and totals != [0] and (done.returncode or not any(abs(about(done.stdout) - n) <= 0.006 * abs(n) + 0.5 for n in totals)):
            return "%s %s says %s%s, its pprof %s" % (command, options, done.stdout[:300], done.stderr, totals)
    return None
