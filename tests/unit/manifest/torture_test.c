// SPDX-License-Identifier: Apache-2.0
//
// Every allocation of manifests fails once, alone and with all that follow: nothing leaks, nothing
// lands twice, and what was refused succeeds when it is asked again.
#include "lib/torture.h"
#include "unit/manifest/bench.h"

struct life {
    struct bench b;
    struct mem_budget budget;
    struct segment_name s[2];
    struct manifest_block old;
    struct manifest_block new;
};

static void life_begin(void *arg)
{
    struct life *l = arg;
    bench_begin(&l->b);
    mem_budget_init(&l->budget, "torture", NULL, 0);
    req_release(&l->b.r);
    req_init(&l->b.r, RANK_DUTY, &l->budget, (size_t)1 << 30, 0);
    l->s[0] = bench_segment(BENCH_HOUR, 1, 0);
    l->s[1] = bench_segment(BENCH_HOUR, 2, 0);
    l->old = bench_leaf(BENCH_HOUR, bench_id(1), l->s, 1);
    l->new = bench_leaf(BENCH_HOUR, bench_id(2), l->s, 2);
    bench_write_segment(&l->b, &l->s[0]);
    bench_write_segment(&l->b, &l->s[1]);
    bench_write_block(&l->b, &l->old);
    err fault = {0};
    struct manifests *other = manifests_open(l->b.store, NULL, bench_wall, &fault);
    struct manifest_change c = {.add = &l->old, .add_count = 1, .begun_ns = BENCH_START};
    assert_true(manifest_commit(other, &l->b.r, TENANT, &c, NULL, &fault));
    manifests_close(other);
    bench_write_block(&l->b, &l->new);
}

static void life_end(void *arg)
{
    struct life *l = arg;
    bench_end(&l->b);
    assert_int_equal(l->budget.used, 0);
}

static bool again(struct life *l)
{
    arena_release(&l->b.r.arena);
    arena_release(&l->b.arena);
    return true;
}

static bool run_open(void *arg, err *e)
{
    struct life *l = arg;
    struct manifests *ms = manifests_open(l->b.store, &l->b.budget, bench_wall, e);
    manifests_close(ms);
    return ms != NULL;
}

static bool run_snapshot(void *arg, err *e)
{
    struct life *l = arg;
    struct snapshot snap;
    if (!again(l) || !snapshot_take(l->b.ms, &l->b.r, &l->b.arena, TENANT, &snap, e)) return false;
    bool well = snap.segment_count == 1 && manifest_version(snap.manifest) == 1;
    snapshot_release(&snap);
    return well || err_set(e, ERR_INTERNAL, "another snapshot");
}

static struct manifest_change change(const struct life *l)
{
    return (struct manifest_change){.add = &l->new,
                                    .add_count = 1,
                                    .remove = &l->old.id,
                                    .remove_count = 1,
                                    .begun_ns = BENCH_START};
}

static bool run_commit(void *arg, err *e)
{
    struct life *l = arg;
    struct manifest_change c = change(l);
    return again(l) && manifest_commit(l->b.ms, &l->b.r, TENANT, &c, NULL, e);
}

static void check_commit(void *arg, bool done)
{
    struct life *l = arg;
    if (!done || !again(l)) return;
    struct manifest *m = bench_newest(&l->b);
    assert_int_equal(manifest_version(m), 2);
    assert_non_null(manifest_find(m, l->new.id));
    assert_null(manifest_find(m, l->old.id));
    manifest_unref(m);
}

static void begin_sweep(void *arg)
{
    struct life *l = arg;
    err e = {0};
    life_begin(l);
    struct manifest_change c = change(l);
    assert_true(manifest_commit(l->b.ms, &l->b.r, TENANT, &c, NULL, &e));
    assert_true(bench_commit(&l->b,
                             &(struct manifest_change){.expire = &l->new.id, .expire_count = 1},
                             &e));
    atomic_fetch_add(&bench_now, 10 * 24 * BENCH_HOURS);
}

static bool run_sweep(void *arg, err *e)
{
    struct life *l = arg;
    struct manifest_sweep s = {.seen = &l->b.seen, .versions = 1, .orphan_age_ns = BENCH_HOURS};
    return again(l) && manifest_sweep(l->b.ms, &l->b.r, TENANT, &s, e);
}

static void check_sweep(void *arg, bool done)
{
    struct life *l = arg;
    if (!done) return;
    assert_int_equal(memstore_count(l->b.store, "v1/bb/acme/live/a/"), 0);
    assert_int_equal(memstore_count(l->b.store, "v1/bb/acme/raw/"), 0);
}

static bool run_tenants(void *arg, err *e)
{
    struct life *l = arg;
    str *v = NULL;
    size_t n = 0;
    id128 id = {0};
    if (!again(l) || !tenants_note(l->b.ms, &l->b.r, TENANT, e)) return false;
    if (!cluster_claim(l->b.store, &l->b.r, NULL, &id, e)) return false;
    if (!tenants_list(l->b.ms, &l->b.r, &l->b.arena, &v, &n, e)) return false;
    return n == 1 || err_set(e, ERR_INTERNAL, "%zu tenants", n);
}

static void manifests_survive_every_failure(void **state)
{
    static struct life l;
    const struct torture_work works[] = {
        {.name = "open", .run = run_open},
        {.name = "snapshot", .run = run_snapshot},
        {.name = "commit", .run = run_commit, .check = check_commit},
        {.name = "sweep", .begin = begin_sweep, .run = run_sweep, .check = check_sweep},
        {.name = "tenants", .run = run_tenants},
    };
    (void)state;
    for (size_t i = 0; i < COUNT(works); i++) {
        struct torture_work w = works[i];
        w.arg = &l;
        if (!w.begin) w.begin = life_begin;
        w.end = life_end;
        struct torture_count met = torture_work(&w);
        if (met.allocations == 0) fail_msg("%s: nothing was met", w.name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(manifests_survive_every_failure)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
