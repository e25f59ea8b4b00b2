"""Deletion on request: no answer has what is deleted from the moment of the call on, whatever holds it and whatever is asked; then no file has it.
What is not deleted stays what it was. Each question is compared with what is answered by a server that never got the deleted profiles."""
import json
import os
import subprocess
import time
import urllib.parse

import pytest
from client import CPU, QUERIER, Pprof
from faultclock import FaultClock
from flametree import AT_ONCE, BIN, SAYS_SOON, Flametree, await_, check_blocks, compact, deploy, fetched, flush, objects_of
from searched import files_with

HOUR = 3600 * 10**9
DAY = 24 * HOUR
MS = 10**6
START = (time.time_ns() // DAY - 3) * DAY
END = START + 2 * DAY
USUAL = [*AT_ONCE, SAYS_SOON, "--limits.reject_older_than=0", "--compactor.interval=1h", "--compactor.raw_retention=0", "--compactor.deletion_stay=0s"]
SECRET, FUNCTION = "v-sekret-7f3a", "main;handleSekret9b1c"


def pushes():
    """Two days of two services; one of the pods is the one to be deleted, and has a stack and a label value of its own."""
    n = 0
    for day in range(2):
        for hour in (1, 2, 14):
            for minute in (3, 4, 33):
                for service in ("shop", "cart"):
                    for pod in ("a", "b", SECRET):
                        n += 1
                        stacks = [("main;work%d" % (n % 5), 3 + n), ("main;idle", 1)]
                        if pod == SECRET:
                            stacks.append((FUNCTION, 7))
                        yield {"__name__": "process_cpu", "service_name": service, "pod": pod}, stacks, START + day * DAY + hour * HOUR + minute * 60 * 10**9 + n


def fill(s, but=lambda labels, at: False, only=lambda at: True):
    for labels, stacks, at in pushes():
        if only(at) and not but(labels, at):
            s.push(labels, Pprof(*stacks, time_ns=at)).expect(200)


def answers(s, start=START - HOUR, end=END + HOUR):
    """Every kind of question. Ids and exemplars differ between servers, so of these only what does not is compared."""
    given = {}
    span = {"start": start // MS, "end": end // MS}

    def rpc(method, body):
        return s.rpc(QUERIER + method, {**span, **body}).expect(200).json()
    for name, text in (("all", "{}"), ("service", '{service_name="shop"}'), ("pod", '{pod="a"}'), ("not", '{pod!="a"}'), ("deleted", '{pod="%s"}' % SECRET)):
        base = {"profileTypeID": CPU, "labelSelector": text}
        given["tree " + name] = rpc("SelectMergeStacktraces", {**base, "maxNodes": 0, "format": "PROFILE_FORMAT_FLAMEGRAPH"})
        given["series " + name] = rpc("SelectSeries", {**base, "step": 3600, "groupBy": ["pod"]})
        given["minutes " + name] = rpc("SelectSeries", {**base, "step": 60})
        given["heat " + name] = rpc("SelectHeatmap", {**base, "step": 3600, "queryType": "HEATMAP_QUERY_TYPE_INDIVIDUAL"})
        pprof = rpc("SelectMergeProfile", base)
        given["pprof " + name] = sorted(pprof.get("stringTable", [])), sum(int(v) for sample in pprof.get("sample", []) for v in sample["value"])
    given["pods"] = sorted(rpc("LabelValues", {"name": "pod"}).get("names", []))
    given["services of"] = sorted(rpc("LabelValues", {"name": "service_name", "matchers": ['{pod="%s"}' % SECRET]}).get("names", []))
    given["names"] = sorted(rpc("LabelNames", {}).get("names", []))
    given["sets"] = sorted(json.dumps(x, sort_keys=True) for x in rpc("Series", {"labelNames": ["service_name", "pod"]}).get("labelsSet", []))
    given["types"] = rpc("ProfileTypes", {})
    given["stats"] = rpc("GetProfileStats", {})
    return given


def delete(f, match, start=None, end=None, expect=200, **more):
    query = {"match": match, **more}
    if start is not None:
        query["start"] = start // MS
    if end is not None:
        query["end"] = end // MS
    server = (f["compactor"] if hasattr(f, "ingesters") else f).operator()
    return server.call("POST", "/compactor/delete?" + urllib.parse.urlencode(query)).expect(expect).json()


def deletions(f):
    server = (f["compactor"] if hasattr(f, "ingesters") else f).operator()
    return server.call("GET", "/compactor/deletions").expect(200).json()


def found(f, text):
    """Objects of the store that have the text, as it is or packed."""
    with fetched(f.store) as top:
        return files_with(top, text)


CASES = {
    "a pod": ('{pod="%s"}' % SECRET, None, None, lambda labels, at: labels["pod"] == SECRET),
    "a service": ('{service_name="cart"}', None, None, lambda labels, at: labels["service_name"] == "cart"),
    "a pod of a service in a range that cuts hours": ('{service_name="shop",pod="%s"}' % SECRET, START + HOUR + 4 * 60 * 10**9, START + DAY + 2 * HOUR,
                                                      lambda labels, at: labels["service_name"] == "shop" and labels["pod"] == SECRET and START + HOUR + 4 * 60 * 10**9 <= at <= START + DAY + 2 * HOUR),
    "all of a day": ("{}", START, START + DAY, lambda labels, at: at <= START + DAY),
    "by a regex": ('{pod=~"v-.*|b",service_name!="cart"}', None, None, lambda labels, at: labels["pod"] in ("b", SECRET) and labels["service_name"] != "cart"),
}


@pytest.mark.parametrize("case", CASES, ids=[name.replace(" ", "_") for name in CASES])
def test_what_is_deleted_is_hidden_at_once_and_gone_later(tmp_path, case):
    match, start, end, is_deleted = CASES[case]
    for name in "have", "want":
        (tmp_path / name).mkdir()
    with Flametree(*USUAL, data=str(tmp_path / "want")) as f:
        fill(f.server(), but=is_deleted)
        want = answers(f.server())
    with Flametree(*USUAL, data=str(tmp_path / "have")) as f:
        s = f.server()
        # A part in blocks, a part in segments, a part in the head.
        fill(s, only=lambda at: at < START + DAY)
        flush(f)
        compact(f)
        fill(s, only=lambda at: START + DAY <= at < START + DAY + 2 * HOUR)
        flush(f)
        fill(s, only=lambda at: at >= START + DAY + 2 * HOUR)
        assert answers(s) != want
        made = delete(f, match, start, end)
        got = answers(s)
        assert got == want, [k for k in want if got[k] != want[k]]
        assert [d["id"] for d in deletions(f)["deletions"]] == [made["id"]]
        f.stop()
        f.start()
        s = f.server()
        got = answers(s)
        assert got == want, [k for k in want if got[k] != want[k]]
        flush(f)
        got = answers(s)
        assert got == want, [k for k in want if got[k] != want[k]]

        def done():
            compact(f)
            return not deletions(f)["deletions"]
        await_("the deletion to be done", done, 120)
        got = answers(s)
        assert got == want, [k for k in want if got[k] != want[k]]
        check_blocks(f.store)


def done(f):
    """Each deletion is done then: ingesters have flushed, blocks are rewritten, and what was replaced is swept."""
    def gone():
        flush(f)
        compact(f)
        return not deletions(f)["deletions"]
    await_("deletions to be done", gone, 120)
    compact(f)


def test_no_file_has_what_was_deleted(tmp_path):
    """Of a manifest's versions, which stay for a day, those have the deletion itself."""
    with Flametree(*USUAL, "--ingester.cut_age=1s", data=str(tmp_path)) as f:
        s = f.server()
        fill(s, only=lambda at: at < START + DAY)
        flush(f)
        compact(f)
        fill(s, only=lambda at: at >= START + DAY)
        flush(f)
        for text in (SECRET, FUNCTION.split(";")[1]):
            assert len(found(f, text)) > 3, text
        before = s.call("GET", "/metrics").text
        delete(f, '{pod="%s"}' % SECRET)
        done(f)
        assert f.metric("flametree_compactor_erased_rows_total") == 2 * 9 * 2, before
        assert not [name for name in found(f, SECRET) if "/live/m/" not in name]
        assert not found(f, FUNCTION.split(";")[1])
        assert any("compactor.deletion " in line and SECRET in line for line in open(f.log)), "no audit line"


def test_no_file_of_an_idle_ingester_has_what_was_deleted(tmp_path):
    """Nothing more is pushed: nothing but time takes the log's files away."""
    clock = FaultClock(tmp_path / "clock")
    (tmp_path / "data").mkdir()
    with Flametree(*USUAL, data=str(tmp_path / "data"), env=clock.env) as f:
        s = f.server()
        fill(s, only=lambda at: at < START + 2 * HOUR)
        delete(f, '{pod="%s"}' % SECRET)
        done(f)
        log = os.path.join(f.data, "ingester")
        assert not found(f, FUNCTION.split(";")[1])
        assert files_with(log, SECRET) and files_with(log, FUNCTION.split(";")[1])
        clock.pass_(7 * HOUR)
        await_("the log's files to go", lambda: not files_with(log, SECRET, FUNCTION.split(";")[1]), 60)
        want = answers(s)
        f.stop()
        f.start()
        assert answers(f.server()) == want


def test_all_processes_of_a_cluster_hide_at_once():
    with deploy("cluster", *USUAL) as f:
        s = f.server()
        fill(s, only=lambda at: at < START + DAY)
        flush(f)
        fill(s, only=lambda at: at >= START + DAY)
        before = answers(s)
        assert SECRET in before["pods"] and before["tree deleted"]["flamegraph"]["total"]
        delete(f, '{pod="%s"}' % SECRET)
        hidden = answers(s)
        assert SECRET not in hidden["pods"] and not int(hidden["tree deleted"].get("flamegraph", {}).get("total", 0))
        assert hidden["tree pod"] == before["tree pod"] and hidden["series pod"] == before["series pod"]
        done(f)
        assert answers(s) == hidden


def test_a_deletion_that_is_repeated_counts_once_and_a_second_one_adds_up(tmp_path):
    with Flametree(*USUAL, data=str(tmp_path)) as f:
        fill(f.server())
        first = delete(f, '{pod="a"}', id="01KCEJWG001440E1G50G1G408F")
        again = delete(f, '{pod="a"}', id="01KCEJWG001440E1G50G1G408F")
        assert (first["id"], first["version"]) == (again["id"], again["version"])
        delete(f, '{pod="b"}')
        assert len(deletions(f)["deletions"]) == 2
        assert answers(f.server())["pods"] == [SECRET]
        done(f)
        assert answers(f.server())["pods"] == [SECRET]
        # Once it is done, profiles of the range count again.
        fill(f.server())
        assert answers(f.server())["pods"] == sorted([SECRET, "a", "b"])


@pytest.mark.parametrize("query, says", [
    ("", "match is missing"), ("match={}&start=x", "start is 'x'"), ("match={}&start=2&end=1", "the range is empty"),
    ("match={}&tenant=../x", "cannot be the name of a tenant"), ("match={}&id=1", "id"), ("match={a=~%22(%22}", ""), ("match={}&start=4102444800000", "the range is empty"),
    ("match={}&start=-5", "start is '-5'"), ("match={}&end=2026-02-30T00:00:00Z", "end is '2026-02-30T00:00:00Z'"), ("match={}&start=now%2B1h", "the range is empty"),
])
def test_requests_that_are_wrong_delete_nothing(tmp_path, query, says):
    with Flametree(*USUAL, data=str(tmp_path)) as f:
        fill(f.server(), only=lambda at: at < START + 2 * HOUR)
        reply = f.operator().call("POST", "/compactor/delete?" + query.replace("{", "%7B").replace("}", "%7D")).expect(400)
        assert says in reply.json()["message"], reply.text
        assert not deletions(f)["deletions"] and len(answers(f.server())["pods"]) == 3


def test_a_range_may_be_written_as_rfc3339(tmp_path):
    with Flametree(*USUAL, data=str(tmp_path)) as f:
        fill(f.server(), only=lambda at: at < START + 2 * HOUR)
        text = ["%s=%s" % (name, time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(at // 10**9))) for name, at in (("start", START), ("end", START + HOUR))]
        f.operator().call("POST", "/compactor/delete?match=%7B%7D&" + "&".join(text)).expect(200)
        assert " from_ns=%d to_ns=%d " % (START - 1, START + HOUR) in f.tail()


EXPIRING = [*[x for x in USUAL if "raw_retention" not in x], "--compactor.raw_retention=24h"]


def raw_blocks(f):
    return [name for name in objects_of(f.store) if "/raw/" in name]


def expire_rows(f):
    """Single profiles are gone then, and every sum is made that there will be."""
    def expired():
        compact(f)
        return not raw_blocks(f)
    flush(f)
    await_("single profiles to expire", expired, 120)


def sums(s):
    """What sums can answer: by whole days, and by whole hours within."""
    given = {}
    for name, start, end in (("both days", START, END), ("first", START, START + DAY), ("second", START + DAY, END), ("hour", START + DAY + HOUR, START + DAY + 2 * HOUR)):
        got = answers(s, start, end)
        given.update({key + " of " + name: value for key, value in got.items() if not key.startswith(("heat", "stats"))})
    return given


@pytest.mark.parametrize("match, is_deleted", [
    ('{pod="%s"}' % SECRET, lambda labels: labels["pod"] == SECRET), ('{service_name="cart"}', lambda labels: labels["service_name"] == "cart"),
    ('{pod=~"v-.*|b",service_name!="cart"}', lambda labels: labels["pod"] in ("b", SECRET) and labels["service_name"] != "cart"),
], ids=["pod", "service", "regex"])
def test_sums_whose_rows_expired_are_made_anew_without_what_is_deleted(tmp_path, match, is_deleted):
    """Of one of two days."""
    for name in "have", "want":
        (tmp_path / name).mkdir()
    with Flametree(*EXPIRING, data=str(tmp_path / "want")) as f:
        fill(f.server(), but=lambda labels, at: is_deleted(labels) and at <= START + DAY)
        expire_rows(f)
        want = sums(f.server())
    with Flametree(*EXPIRING, data=str(tmp_path / "have")) as f:
        fill(f.server())
        expire_rows(f)
        before = sums(f.server())
        assert before != want
        delete(f, match, START, START + DAY)
        got = sums(f.server())
        assert got == want, [k for k in want if got[k] != want[k]]
        done(f)
        got = sums(f.server())
        assert got == want, [k for k in want if got[k] != want[k]]
        check_blocks(f.store)
        # And the other day: then no file has it.
        delete(f, match)
        done(f)
        assert not int(f.server().rpc(QUERIER + "SelectMergeStacktraces", {"profileTypeID": CPU, "labelSelector": match, "start": START // MS, "end": END // MS}).json().get("flamegraph", {}).get("total", 0))
        if SECRET in match:
            assert not [name for name in found(f, SECRET) if "/live/m/" not in name] and not found(f, FUNCTION.split(";")[1])
        check_blocks(f.store)


def test_a_day_whose_rows_expired_is_not_deleted_by_halves(tmp_path):
    with Flametree(*EXPIRING, data=str(tmp_path)) as f:
        fill(f.server())
        expire_rows(f)
        before = sums(f.server())
        reply = delete(f, '{pod="a"}', start=START + 2 * HOUR, expect=400)
        assert "are not kept any more" in reply["message"], reply
        assert sums(f.server()) == before and not deletions(f)["deletions"]


def test_the_command_line_deletes_only_what_is_confirmed(tmp_path):
    def run(*args):
        return subprocess.run([os.path.join(BIN, "flametree"), *args, "--url", f.url], capture_output=True, text=True, timeout=60)
    with Flametree(*USUAL, data=str(tmp_path)) as f:
        fill(f.server())
        refused = run("delete", '{pod="a"}')
        assert refused.returncode == 2 and "lost for good" in refused.stderr and "--yes" in refused.stderr, refused
        assert not deletions(f)["deletions"]
        wrong = run("delete", "{pod", "--yes")
        assert wrong.returncode == 1 and "400" in wrong.stderr, wrong
        done = run("delete", '{pod="a"}', "--yes", "--from", "now-30d", "--until", "now")
        assert done.returncode == 0 and "hidden from now on" in done.stdout, done
        assert "a" not in answers(f.server())["pods"]
        shown = run("deletions")
        assert shown.returncode == 0 and shown.stdout.count("\n") == 1 and '{pod="a"}' in shown.stdout, shown
        assert len(json.loads(run("deletions", "--format", "json").stdout)["deletions"]) == 1
