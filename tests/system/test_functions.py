"""Function tables, and the headers that say how much of its tree an answer shows."""
import random

from client import CPU, flame, now_ms, select, table, unique

FUNCTIONS = "PROFILE_FORMAT_FUNCTIONS"


def numbers(row, *names):
    return tuple(int(row.get(n, 0)) for n in names)


def functions(s, service, **more):
    got = s.ok("SelectMergeStacktraces", profileTypeID=CPU, labelSelector=select(service), format=FUNCTIONS, **more)
    assert set(got) == {"functions"}, got
    return got["functions"]


def rows(t):
    return {r["name"]: numbers(r, "self", "total") for r in t.get("functions", [])}


def brute_force(stacks):
    """{function: (self, total)} of {stack: value}."""
    out = {}
    for stack, value in stacks.items():
        frames = stack.split(";")
        for f in set(frames):
            own, total = out.get(f, (0, 0))
            out[f] = own + (value if f == frames[-1] else 0), total + value
    return out


def send_random(s, seed, service=None):
    r = random.Random(seed)
    service = service or unique()
    for pod in "abc":
        s.send(*[(";".join(r.choices("fghijkl", k=r.randint(1, 9))), r.randint(1, 99)) for _ in range(300)], service=service, labels={"pod": pod})
    return service


def test_functions_equal_brute_force_over_the_whole_tree(s):
    """Recursion included: a function counts once a stack."""
    service = send_random(s, 1)
    whole = {k: v for k, v in s.stacks(service, maxNodes=1000000).items()}
    want = brute_force(whole)
    t = functions(s, service)
    assert rows(t) == want
    assert int(t["total"]) == sum(whole.values()) and int(t["totalFunctions"]) == len(want)
    order = [(-numbers(r, "self")[0], r["name"]) for r in t["functions"]]
    assert order == sorted(order)


def test_functions_of_part_of_the_profiles(s):
    service = send_random(s, 2)
    site = {"callSite": [{"name": "f"}]}
    assert rows(functions(s, service, stackTraceSelector=site)) == brute_force(s.stacks(service, stackTraceSelector=site, maxNodes=1000000))
    got = s.ok("SelectMergeStacktraces", profileTypeID=CPU, labelSelector=select(service, 'pod="b"'), format=FUNCTIONS)["functions"]
    assert rows(got) == brute_force(s.stacks(service, selector='pod="b"', maxNodes=1000000))


LIMITS = [
    ("none", {}, 4), ("max-nodes", {"maxNodes": 2}, 2), ("option", {"formatOptions": {"functions": {"limit": "1"}}}, 1),
    ("all", {"formatOptions": {"functions": {"limit": "0"}}, "maxNodes": 1}, 4), ("more-than-there-are", {"maxNodes": 2000000}, 4),
    ("minus-one-is-all", {"maxNodes": -1}, 4),
]


@table("more, count", LIMITS)
def test_limit_of_rows(s, more, count):
    service = s.send(("a;b", 5), ("a;c", 3), ("d", 1))
    t = functions(s, service, **more)
    assert [r["name"] for r in t["functions"]] == ["b", "c", "d", "a"][:count]
    assert (t["total"], t["totalFunctions"]) == ("9", "4")


def test_limit_below_zero_is_refused(s):
    s.query("SelectMergeStacktraces", profileTypeID=CPU, labelSelector="{}", format=FUNCTIONS, formatOptions={"functions": {"limit": -1}}).expect(
        400, "format_options.functions.limit", "invalid_argument")


def test_functions_of_nothing(s):
    """There is a table, for its absence means a server that has none."""
    assert functions(s, unique()) == {}


def diff(s, left, right, headers=None, **more):
    at = now_ms()
    side = lambda service: {"profileTypeID": CPU, "labelSelector": select(service), "start": at - 1_800_000, "end": at + 300_000}
    message = {"left": side(left), "right": side(right)}
    for key, value in more.items():
        (message["left"] if key.startswith("left_") else message)[key.removeprefix("left_")] = value
    return s.rpc("querier.v1.QuerierService/Diff", message, headers).expect(200)


def test_functions_of_a_diff(s):
    left, right = send_random(s, 3), send_random(s, 4)
    wants = [brute_force(s.stacks(x, maxNodes=1000000)) for x in (left, right)]
    t = diff(s, left, right, format=FUNCTIONS).json()["functions"]
    got = {r["name"]: numbers(r, "leftSelf", "leftTotal", "rightSelf", "rightTotal") for r in t["functions"]}
    assert got == {f: wants[0].get(f, (0, 0)) + wants[1].get(f, (0, 0)) for f in set(wants[0]) | set(wants[1])}
    totals = numbers(t, "leftTotal", "rightTotal")
    assert totals == tuple(sum(own for own, _ in w.values()) for w in wants)
    shares = [max(a / totals[0], b / totals[1]) for _, a, _, b in got.values()]
    assert shares == sorted(shares, reverse=True)


def test_functions_of_a_diff_in_the_newer_form(s):
    left, right = s.send(("a;b", 3), ("a", 1)), s.send(("a;c", 8), ("a", 2))
    got = diff(s, left, right, left_format=FUNCTIONS, left_formatOptions={"functions": {"limit": "2"}}).json()
    assert set(got) == {"functions"}
    t = got["functions"]
    assert [r["name"] for r in t["functions"]] == ["a", "c"]
    assert t["left"] == {"functions": [{"name": "a", "self": "1", "total": "4"}, {"name": "c"}], "total": "4", "totalFunctions": "3"}
    assert t["right"] == {"functions": [{"name": "a", "self": "2", "total": "10"}, {"name": "c", "self": "8", "total": "8"}], "total": "10", "totalFunctions": "3"}


def test_a_format_that_is_not_known_is_a_flame_graph(s):
    service = s.send(("a", 1))
    assert set(s.ok("SelectMergeStacktraces", profileTypeID=CPU, labelSelector=select(service), format="PROFILE_FORMAT_SANDWICH")) == {"flamegraph"}


# ---- headers

def shown(s, service, method="SelectMergeStacktraces", **more):
    return s.query(method, profileTypeID=CPU, labelSelector=select(service), **more).expect(200).headers


def test_a_whole_tree_is_exact(s):
    headers = shown(s, s.send(("a;b", 3), ("a;other", 1)))
    assert (headers["Flametree-Exact"], headers["Flametree-Frames"]) == ("exact", "sent=3; all=3; share=1.0000")
    assert "Flametree-Cut" not in headers


def test_a_truncated_tree_says_totals(s):
    service = s.send(("a;b", 10), ("a;c;d", 3), ("a;e", 4), ("f", 7))
    for method in ("SelectMergeStacktraces", "SelectMergeSpanProfile"):
        headers = shown(s, service, method, maxNodes=3)
        assert (headers["Flametree-Exact"], headers["Flametree-Frames"]) == ("totals", "sent=3; all=6; share=0.7083"), method
    graph = flame(s.flamegraph(service, maxNodes=3))
    assert sum(v[0] for k, v in graph.items() if not k.endswith("other")) / 24 == 17 / 24
    assert shown(s, service, format="PROFILE_FORMAT_TREE", maxNodes=3)["Flametree-Frames"] == "sent=3; all=6; share=0.7083"
    assert shown(s, service, format=FUNCTIONS, maxNodes=1)["Flametree-Exact"] == "exact"


def test_a_truncated_pprof_and_call_graph_say_totals(s):
    service = s.send(("a;b", 10), ("a;c;d", 3), ("a;e", 4), ("f", 7))
    said = lambda method="SelectMergeStacktraces", **more: tuple(shown(s, service, method, **more).get(name) for name in ("Flametree-Exact", "Flametree-Frames"))
    for method, more in (("SelectMergeStacktraces", {"format": "PROFILE_FORMAT_PPROF"}), ("SelectMergeProfile", {})):
        assert said(method, maxNodes=3, **more) == ("totals", "sent=3; all=6; share=0.7083"), method
        assert said(method, maxNodes=6, **more) == ("exact", "sent=6; all=6; share=1.0000"), method
        assert said(method, **more) == ("exact", None), method
    graph = {"format": "PROFILE_FORMAT_DOT"}
    assert said(maxNodes=3, **graph) == ("totals", "sent=3; all=6; share=0.7083")  # a, b and f, as functions
    assert said(**graph) == ("exact", "sent=6; all=6; share=1.0000")
    render = "/pyroscope/render?format=dot&from=now-15m&until=now&maxNodes=%d&query=%s%%7Bservice_name%%3D%%22%s%%22%%7D"
    assert [s.call("GET", render % (n, CPU, service)).expect(200).headers["Flametree-Exact"] for n in (3, 6)] == ["totals", "exact"]


def test_a_share_is_never_rounded_up_to_all(s):
    headers = shown(s, s.send(("a", 10**9), ("b", 1)), maxNodes=1)
    assert (headers["Flametree-Exact"], headers["Flametree-Frames"]) == ("totals", "sent=1; all=2; share=0.9999")


def test_a_diff_counts_both_sides(s):
    left, right = s.send(("a", 6), ("b", 2)), s.send(("a", 10), ("c", 2))
    headers = diff(s, left, right, maxNodes=1).headers
    assert (headers["Flametree-Exact"], headers["Flametree-Frames"]) == ("totals", "sent=1; all=3; share=0.8000")
    assert diff(s, left, right).headers["Flametree-Frames"] == "sent=3; all=3; share=1.0000"


def test_render_says_it_too(s):
    service = s.send(("a", 6), ("b", 2))
    query = "/pyroscope/render?from=now-15m&until=now&maxNodes=1&query=%s%%7Bservice_name%%3D%%22%s%%22%%7D" % (CPU, service)
    headers = s.call("GET", query).expect(200).headers
    assert (headers["Flametree-Exact"], headers["Flametree-Frames"]) == ("totals", "sent=1; all=2; share=0.7500")


def test_cut_stacks_are_told(s):
    service = s.send(("a;[truncated stack]", 5), ("b;[too many stacks]", 2), ("c", 1))
    assert shown(s, service)["Flametree-Cut"] == "7"
    assert shown(s, service, format=FUNCTIONS)["Flametree-Cut"] == "7"
    assert diff(s, service, service).headers["Flametree-Cut"] == "14"


def test_feature_flags_say_that_there_are_function_tables(s):
    flags = s.rpc("capabilities.v1.FeatureFlagsService/GetFeatureFlags", {}).expect(200).json()["featureFlags"]
    assert [f["enabled"] for f in flags if f["name"] == "functionProjections"] == [True]


# ---- names

READABLE = {"Flametree-Names": "readable"}
MANGLED = {"_ZNK3Foo3barEi": "Foo::bar(int) const", "_ZN4core3fmt5write17h0123456789abcdefE": "core::fmt::write", "_RNvCs1234_7mycrate3foo": "mycrate::foo"}


def readable(message, names):
    return {names[n.get("index", 0)]: n["text"] for n in message.get("readableNames", [])}


def test_readable_names(s):
    """Beside the names, which stay as they were pushed; only if they are asked for."""
    service = s.send((";".join(["main", *MANGLED]), 3), ("main;_Zlatan", 1))
    ask = lambda headers, **more: s.ok("SelectMergeStacktraces", headers, profileTypeID=CPU, labelSelector=select(service), **more)
    graph = ask(READABLE)["flamegraph"]
    assert set(MANGLED) < set(graph["names"]) and readable(graph, graph["names"]) == MANGLED
    t = ask(READABLE, format=FUNCTIONS)["functions"]
    assert readable(t, [r["name"] for r in t["functions"]]) == MANGLED
    cut = ask(READABLE, format=FUNCTIONS, maxNodes=1)["functions"]
    assert cut["readableNames"] == [{"text": "mycrate::foo"}] and len(cut["functions"]) == 1
    assert "readableNames" not in ask({})["flamegraph"] and "readableNames" not in ask({}, format=FUNCTIONS)["functions"]


def test_readable_names_of_a_diff(s):
    left, right = s.send(("main;_Z3foov", 3)), s.send(("main;_Z3barv", 3))
    want = {"_Z3foov": "foo()", "_Z3barv": "bar()"}
    graph = diff(s, left, right, headers=READABLE).json()["flamegraph"]
    assert readable(graph, graph["names"]) == want
    t = diff(s, left, right, headers=READABLE, format=FUNCTIONS).json()["functions"]
    assert readable(t, [r["name"] for r in t["functions"]]) == want


DEEP = ["_Z1f" + "P" * 1019 + "i", "_Z1f" + "A_" * 509 + "i", "_Z1fIJiEEv" + "Dp" * 500 + "T_", "_Z1f" + "PF" * 338 + "vE" * 168]


def test_names_that_nest_deeper_than_the_stack_of_a_worker(s):
    """Reading them recurses once a level. The server answers, and goes on answering."""
    service = s.send(*[(name, 1) for name in DEEP])
    for _ in range(3):
        graph = s.ok("SelectMergeStacktraces", READABLE, profileTypeID=CPU, labelSelector=select(service))["flamegraph"]
        assert set(DEEP) < set(graph["names"]), graph["names"]
