"""What is kept: the periods of single tenants, limits of bytes of a tenant and of the store, and how both show."""
import os
import time
import zlib

import pytest
from client import CPU, QUERIER, Pprof
from flametree import Flametree, SAYS_SOON, AT_ONCE, await_, expire, flush, objects_of
from test_full_disk import mounted

HOUR = 3600 * 10**9
DAY = 24 * HOUR
START = (time.time_ns() // DAY - 9) * DAY  # of the oldest profile
DAYS = 8
MANY = (8, 60)
USUAL = [*AT_ONCE, SAYS_SOON, "--limits.reject_older_than=0", "--compactor.interval=1h", "--auth.multitenancy_enabled=true"]


def data_of(tmp_path):
    data = tmp_path / "data"
    data.mkdir()
    return str(data)


def fill(s, each=1, stacks=2):
    """So many profiles a pod, with so many stacks each. With many of both the profiles have far more bytes than their sums."""
    for day in range(DAYS):
        for hour in (3, 17):
            for n in range(4 * each):
                labels = {"__name__": "process_cpu", "service_name": "kept", "pod": "p%d" % (n % 4)}
                samples = [("main;b%d" % k, 1 + zlib.crc32(b"%d %d %d" % (day, n, k)) % 1000) for k in range(stacks)]
                s.push(labels, Pprof(*samples, time_ns=START + day * DAY + hour * HOUR + n + 1)).expect(200)


def total(s, day=None):
    """Of one day or of all of them, and whether it is exact."""
    start = START + (day or 0) * DAY
    end = start + (DAY if day is not None else DAYS * DAY)
    body = {"profileTypeID": CPU, "labelSelector": '{service_name="kept"}', "start": start // 10**6, "end": end // 10**6, "maxNodes": 0, "format": "PROFILE_FORMAT_FLAMEGRAPH"}
    reply = s.rpc(QUERIER + "SelectMergeStacktraces", body).expect(200)
    return int(reply.json().get("flamegraph", {}).get("total", 0))


def of_day(day, each=1, stacks=2):
    return 2 * sum(1 + zlib.crc32(b"%d %d %d" % (day, n, k)) % 1000 for n in range(4 * each) for k in range(stacks))


def blocks(f, tenant, kind):
    found = []
    for path, _, names in os.walk(os.path.join(f.data, "store", "o")):
        found += [os.path.join(path, name) for name in names if "/%s/%s/" % (tenant, kind) in path + "/"]
    return found


def tenant_status(f, name):
    return next(t for t in f.operator().call("GET", "/compactor/status").expect(200).json()["tenants"] if t["tenant"] == name)


def test_each_tenant_is_kept_for_its_own_time(tmp_path):
    over = tmp_path / "overrides.yaml"
    over.write_text("overrides:\n  short: {retention_period: 5d}\n  fine: {raw_retention_period: 4d}\n")
    with Flametree(*USUAL, "--runtime_config.file=%s" % over, "--runtime_config.reload_period=50ms", "--compactor.days_retention=0", data=data_of(tmp_path)) as f:
        for tenant in ("short", "fine", "usual"):
            fill(f.server(tenant))
        flush(f)
        expire(f)
        # Five days before now: days 0 to 3 are over whatever the hour is, and the last ones are not.
        assert [total(f.server("short"), day) for day in (0, 1, 2, 6, 7)] == [0, 0, 0, of_day(6), of_day(7)]
        for tenant in ("fine", "usual"):
            assert [total(f.server(tenant), day) for day in range(DAYS)] == [of_day(day) for day in range(DAYS)]
        assert len(blocks(f, "fine", "raw")) < len(blocks(f, "usual", "raw")) == DAYS
        assert tenant_status(f, "short")["keep_hours"]["d"] == 5 * 24 and tenant_status(f, "fine")["keep_hours"]["raw"] == 4 * 24
        assert f.metric('flametree_compactor_retired_bytes_total{reason="age"}') > 0
        assert not f.metric('flametree_compactor_retired_bytes_total{reason="size"}')
        # A limit that changes takes effect without a restart.
        over.write_text("overrides:\n  short: {retention_period: 4d}\n")
        await_("the file to be read", lambda: f.metric('flametree_limits_overrides{limit_name="retention_period",tenant="short"}') == 4 * 86400)
        expire(f)
        assert [total(f.server("short"), day) for day in (3, 4, 6, 7)] == [0, 0, of_day(6), of_day(7)]


def test_a_tenant_with_too_many_bytes_gives_its_oldest_profiles_first(tmp_path):
    over = tmp_path / "overrides.yaml"
    over.write_text("overrides: {}\n")
    with Flametree(*USUAL, "--runtime_config.file=%s" % over, "--runtime_config.reload_period=50ms", data=data_of(tmp_path)) as f:
        for tenant in ("large", "other"):
            fill(f.server(tenant), *MANY)
        flush(f)
        expire(f)
        status = tenant_status(f, "large")
        have = sum(status["bytes"].values())
        assert len(blocks(f, "large", "raw")) == DAYS and not status["kept_by_size"]
        assert f.metric('flametree_compactor_stored_bytes{level="raw"}') >= status["bytes"]["raw"]
        over.write_text("overrides:\n  large: {max_stored_bytes: %d}\n" % (have - 1))
        await_("the file to be read", lambda: f.metric('flametree_limits_overrides{limit_name="max_stored_bytes",tenant="large"}'))
        expire(f)
        left = blocks(f, "large", "raw")
        assert 0 < len(left) < DAYS and len(blocks(f, "other", "raw")) == DAYS, left
        # Sums of the days whose profiles went are still there, and what went are the oldest.
        assert [total(f.server("large"), day) for day in range(DAYS)] == [of_day(day, *MANY) for day in range(DAYS)]
        hours = sorted(int(os.path.basename(os.path.dirname(path)).split("-")[0], 16) for path in left)
        assert hours[-1] == (START // DAY + DAYS - 1) * 24 and hours[0] > START // DAY * 24
        assert f.metric('flametree_compactor_retired_bytes_total{reason="size"}') > 0


def test_a_store_with_too_many_bytes_takes_the_same_share_of_all_tenants(tmp_path):
    with Flametree(*USUAL, data=str(tmp_path)) as f:
        for tenant in ("a", "b"):
            fill(f.server(tenant), *MANY)
        flush(f)
        expire(f)
        have = sum(sum(tenant_status(f, t)["bytes"].values()) for t in ("a", "b"))
        f.stop()
        f.args += ["--compactor.store_bytes=%d" % (have - 1)]
        f.start()
        expire(f)  # tenants are looked at
        expire(f)  # they are listed again, and get their parts
        for tenant in ("a", "b"):
            assert 0 < len(blocks(f, tenant, "raw")) < DAYS
            assert total(f.server(tenant)) == sum(of_day(day, *MANY) for day in range(DAYS))
        assert f.metric("flametree_compactor_store_limit_bytes") == have - 1
        assert "compactor.store_full" in open(f.log).read()


@pytest.fixture
def disk(tmp_path):
    yield from mounted(tmp_path / "disk", "-t", "tmpfs", "-o", "size=24m", "none")


def test_a_disk_that_fills_takes_the_oldest_profiles_long_before_it_is_full(tmp_path, disk):
    """Another program takes the room. A tenth of this disk is less than compactor.disk_reserve, so a tenth is kept free."""
    with Flametree(*USUAL, "--storage.dir=%s" % disk, data=data_of(tmp_path)) as f:
        for tenant in ("a", "b"):
            fill(f.server(tenant), *MANY)
        flush(f)
        expire(f)

        def stored():
            return {t: sum(tenant_status(f, t)["bytes"].values()) for t in ("a", "b")}

        def free():
            at = os.statvfs(disk)
            return at.f_bavail * at.f_frsize, at.f_blocks * at.f_frsize // 10
        expire(f)
        before, (have, want) = stored(), free()
        assert have > want and "compactor.store_full" not in open(f.log).read()
        with open(disk / "ballast", "wb") as junk:
            junk.write(b"x" * (have - want + sum(before.values()) // 2))

        def given():
            expire(f)
            return all(stored()[t] < before[t] * 0.8 for t in before)
        await_("both tenants to give their part", given, 60)
        for tenant in ("a", "b"):
            left = sorted(int(name.split("/")[-2].split("-")[0], 16) for name in objects_of(str(disk)) if "/%s/raw/" % tenant in name)
            assert 0 < len(left) < DAYS and left[-1] == (START // DAY + DAYS - 1) * 24 and left[0] > START // DAY * 24, left
            assert total(f.server(tenant)) == sum(of_day(day, *MANY) for day in range(DAYS))
        assert free()[0] >= want
        assert "compactor.store_full" in open(f.log).read() and f.metric('flametree_compactor_retired_bytes_total{reason="size"}') > 0
        # Once there is room again, nothing more goes.
        os.remove(disk / "ballast")
        rest = stored()
        for _ in range(3):
            expire(f)
        assert stored() == rest


@pytest.mark.parametrize("args, says", [([], "raw=14d hours=90d days=400d"), (["--compactor.raw_retention=0", "--compactor.days_retention=36h"], "raw=for_ever hours=90d days=129600s")])
def test_the_log_says_at_the_start_how_long_what_is_kept(tmp_path, args, says):
    with Flametree(*args, data=str(tmp_path)) as f:
        assert any("compactor.keeps" in line and says in line for line in open(f.log)), open(f.log).read()
