"""What all formats of profiles.py share: how a profile is described, and how it is made, sent and counted."""
CPU_SAMPLE = 10**7  # ns, at the rate of 100 Hz that is sent
OF_SAMPLES = ("folded", "lines", "perf", "tree", "trie", "jfr")  # which do not say for how long a sample stands
OWN_TIMES = {"periods", "rate", "events"}  # twists of files that do
NAMES = ["main", "work", "idle", "größe", "函数", "a b", "net/http.(*conn).serve", "std::vector<int>::push_back", "total", "other", "[unknown]", "x" * 200]


class Held:
    """One value of a profile: of which type (None: of the one type of the file that has this unit), under which labels of its sample."""
    __slots__ = ("type", "unit", "value", "labels")

    def __init__(self, type, unit, value, labels=()):
        self.type, self.unit, self.value, self.labels = type, unit, value, dict(labels)


def stack(rng, names, most=6):
    return [rng.choice(names) for _ in range(rng.choice([1, 1, 2, 3, most]))]


def plain_samples(rng, values, count=None, names=NAMES):
    return [{"stack": stack(rng, names), "values": values()} for _ in range(count or rng.choice([1, 2, 5, 20]))]


def base(format, time_ns, types, samples, rng=None, twists=(), duration_ns=0):
    return {"format": format, "time_ns": time_ns, "duration_ns": duration_ns, "types": types, "samples": samples, "twists": {t: True for t in twists}}


def some(rng, *twists):
    """Each of them one time in four."""
    return [t for t in twists if rng.random() < 0.25]


def ingest(server, spec, labels, body, headers=None, suffix="", **params):
    own = {k: v for k, v in labels.items() if k != "service_name"}
    name = "%s%s{%s}" % (labels["service_name"], suffix, ",".join("%s=%s" % kv for kv in own.items()))
    until = spec["time_ns"] + (spec["duration_ns"] or 10**10)
    rate = "100" if spec["format"] in OF_SAMPLES and not OWN_TIMES & set(spec["twists"]) else None  # where a file has times, this would be told instead of them
    return server.ingest(name, body, headers, **{"from": str(spec["time_ns"]), "until": str(until), "sampleRate": rate, "format": spec["format"], **params})


class Format:
    """How one is made, sent and counted. twists that change how often something is told have their reason in `reasons`."""
    names = NAMES

    def held(self, spec):
        return [Held(t, u, value, s.get("labels", {})) for s in spec["samples"] for (t, u), value in zip(spec["types"], s["values"])]

    def period(self, spec):
        """Nanoseconds of a sample, of formats that have only these."""
        return CPU_SAMPLE

    def told(self, spec):
        return {}

    def send(self, server, spec, labels):
        return ingest(server, spec, labels, self.encode(spec))
