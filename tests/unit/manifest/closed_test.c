// SPDX-License-Identifier: Apache-2.0
//
// A closed tenant: nothing follows its last version, it is erased in an order in which nothing
// becomes visible again, and processes that know the old versions read those of a tenant created
// anew. (system/test_tenant_deletion.py has the whole of it.)
#include "unit/manifest/bench.h"

#define PREFIX "v1/bb/acme/"

static void add_leaf(struct bench *b, uint32_t nr)
{
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(nr), NULL, 0);
    assert_ok(bench_add(b, &leaf, 1, e));
}

static size_t blocks_of(struct bench *b, uint64_t *version)
{
    size_t n = 0;
    struct manifest *m = bench_newest(b);
    (void)manifest_blocks(m, &n);
    *version = manifest_version(m);
    manifest_unref(m);
    return n;
}

static size_t segments_and_blocks(struct bench *b, uint64_t *version)
{
    size_t n = 0;
    struct snapshot s;
    assert_ok(snapshot_take(b->ms, &b->r, &b->arena, TENANT, &s, e));
    (void)manifest_blocks(s.manifest, &n);
    *version = manifest_version(s.manifest);
    n += s.segment_count;
    snapshot_release(&s);
    return n;
}

static void close_it(struct bench *b, struct manifest_tombstone *t)
{
    assert_ok(tenants_note(b->ms, &b->r, TENANT, e));
    assert_ok(tenants_note_closed(b->ms, &b->r, TENANT, e));
    assert_ok(manifest_close(b->ms, &b->r, TENANT, t, e));
}

static void a_closed_tenant_has_nothing_and_takes_nothing(void **state)
{
    struct bench b;
    struct manifest_tombstone t;
    struct manifest_tombstone again;
    uint64_t version = 0;
    (void)state;
    bench_begin(&b);
    add_leaf(&b, 1);
    add_leaf(&b, 2);
    close_it(&b, &t);
    assert_int_equal(t.version, 3);
    assert_ok(manifest_close(b.ms, &b.r, TENANT, &again, e));
    assert_true(id128_eq(t.id, again.id));
    assert_int_equal(blocks_of(&b, &version), 0);
    assert_int_equal(version, 3);
    struct manifest *m = bench_newest(&b);
    assert_true(manifest_is_closed(m));
    manifest_unref(m);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(4), NULL, 0);
    err fault = {0};
    assert_false(bench_add(&b, &leaf, 1, &fault));
    assert_int_equal(fault.code, ERR_FAILED_PRECONDITION);
    const struct manifest_change end = {.forget = &t.id,
                                        .forget_count = 1,
                                        .begun_ns = bench_wall()};
    fault = (err){0};
    assert_false(bench_commit(&b, &end, &fault));
    assert_int_equal(fault.code, ERR_FAILED_PRECONDITION);
    struct manifest_sweep s = {.versions = 1};
    atomic_fetch_add(&bench_now, 100 * 24 * BENCH_HOURS);
    assert_ok(bench_sweep(&b, &s, e));
    assert_int_equal(memstore_count(b.store, PREFIX "live/m/"), 3);
    bench_end(&b);
}

// Another process that closes the tenant just before this one's version is created.
struct quicker {
    struct manifests *ms;
    struct manifest_tombstone t;
    bool done;
};

static enum memstore_fault close_first(void *arg, const struct memstore_event *ev)
{
    struct quicker *q = arg;
    struct req r;
    if (q->done || ev->op != MEMSTORE_CREATE || !str_starts(ev->name, S(PREFIX "live/m/")))
        return MEMSTORE_FINE;
    q->done = true;
    req_init(&r, RANK_DUTY, NULL, 1 << 22, 0);
    assert_ok(manifest_close(q->ms, &r, TENANT, &q->t, e));
    req_release(&r);
    return MEMSTORE_FINE;
}

static void of_two_that_close_a_tenant_at_once_both_have_closed_it(void **state)
{
    struct bench b;
    struct manifest_tombstone t;
    err fault = {0};
    (void)state;
    bench_begin(&b);
    add_leaf(&b, 1);
    struct store *same = memstore_again(b.store);
    struct quicker q = {.ms = manifests_open(same, &b.budget, bench_wall, &fault)};
    assert_non_null(q.ms);
    memstore_set_hooks(b.store, close_first, NULL, &q);
    close_it(&b, &t);
    memstore_set_hooks(b.store, NULL, NULL, NULL);
    assert_true(q.done && id128_eq(t.id, q.t.id));
    assert_int_equal(t.version, 2);
    manifests_close(q.ms);
    store_close(same);
    bench_end(&b);
}

static void a_deletion_of_everything_until_now_closes_nothing(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    const struct manifest_tombstone t = {.id = bench_id(1),
                                         .hide = {.from_ns = -1, .to_ns = BENCH_START}};
    assert_ok(bench_commit(
        &b, &(struct manifest_change){.bury = &t, .bury_count = 1, .begun_ns = bench_wall()}, e));
    struct manifest *m = bench_newest(&b);
    assert_false(manifest_is_closed(m));
    manifest_unref(m);
    add_leaf(&b, 2);
    bench_end(&b);
}

// Notes whether a version could be seen that is not the closed one.
struct watching {
    struct store *store;
    uint64_t seen;
    bool wrong;
};

static enum memstore_fault look(void *arg, const struct memstore_event *ev)
{
    struct watching *w = arg;
    if (ev->op != MEMSTORE_DELETE) return MEMSTORE_FINE;
    w->seen++;
    size_t roots = memstore_count(w->store, PREFIX "live/m/");
    // The highest that is there is what a reader finds.
    w->wrong |= roots > 0 && !memstore_has(w->store, PREFIX "live/m/0000000000000259");
    return MEMSTORE_FINE;
}

static void the_closed_version_is_erased_after_all_that_it_hides(void **state)
{
    struct bench b;
    struct manifest_tombstone t;
    struct manifest_rest rest;
    uint64_t deleted = 0;
    (void)state;
    bench_begin(&b);
    for (uint32_t i = 1; i <= 600; i++)  // more than go at once
        add_leaf(&b, i);
    struct segment_name s = bench_segment(BENCH_HOUR, 1, 0);
    bench_write_segment(&b, &s);
    close_it(&b, &t);
    assert_int_equal(t.version, 0x259);
    struct watching w = {.store = b.store};
    memstore_set_hooks(b.store, NULL, look, &w);
    // It is called off anywhere and begun anew.
    for (uint64_t nth = 1; nth < 1500; nth += 250) {
        err e = {0};
        memstore_fail(b.store, MEMSTORE_DELETE, MEMSTORE_FAILS, nth, 1);
        if (manifest_erase(b.ms, &b.r, TENANT, &deleted, &e)) break;
        memstore_heal(b.store);
    }
    memstore_heal(b.store);
    assert_ok(manifest_erase(b.ms, &b.r, TENANT, &deleted, e));
    memstore_set_hooks(b.store, NULL, NULL, NULL);
    assert_true(w.seen > 1000);
    assert_false(w.wrong);
    assert_int_equal(memstore_count(b.store, PREFIX), 0);
    assert_ok(manifest_rest(b.ms, &b.r, TENANT, &rest, e));
    assert_true(!rest.listed && rest.objects == 0);
    bool closed = false;
    assert_ok(tenants_is_closed(b.ms, &b.r, TENANT, &closed, e));
    assert_true(closed);
    assert_ok(tenants_reopen(b.ms, &b.r, TENANT, e));
    assert_ok(tenants_is_closed(b.ms, &b.r, TENANT, &closed, e));
    assert_false(closed);
    bench_end(&b);
}

// If an earlier version were left and the closed one gone, all that was deleted would be back.
static void deletions_that_only_are_said_to_have_happened_erase_nothing(void **state)
{
    struct bench b;
    struct manifest_tombstone t;
    uint64_t deleted = 0;
    (void)state;
    bench_begin(&b);
    add_leaf(&b, 1);
    add_leaf(&b, 2);
    close_it(&b, &t);
    for (uint64_t nth = 1; nth <= memstore_count(b.store, PREFIX); nth++) {
        err e = {0};
        memstore_fail(b.store, MEMSTORE_DELETE, MEMSTORE_PRETENDS, nth, UINT64_MAX);
        if (manifest_erase(b.ms, &b.r, TENANT, &deleted, &e)) fail_msg("from the %zu. on", nth);
        assert_int_equal(e.code, ERR_UNAVAILABLE);
        memstore_heal(b.store);
        // What a reader finds that knows nothing has nothing.
        struct manifests *anew = manifests_open(b.store, &b.budget, bench_wall, &e);
        struct manifest *m = manifest_newest(anew, &b.r, TENANT, &e);
        assert_true(m && manifest_is_closed(m));
        manifest_unref(m);
        manifests_close(anew);
    }
    assert_ok(manifest_erase(b.ms, &b.r, TENANT, &deleted, e));
    assert_int_equal(memstore_count(b.store, PREFIX), 0);
    bench_end(&b);
}

// `other` was idle all the while: it knows version 2 of the first tenant, and the second one's has
// the same number.
static void a_process_that_was_idle_reads_a_tenant_created_anew(void **state)
{
    struct bench b;
    struct manifest_tombstone t;
    uint64_t deleted = 0;
    uint64_t version = 0;
    (void)state;
    bench_begin(&b);
    add_leaf(&b, 1);
    add_leaf(&b, 2);
    assert_int_equal(blocks_of(&b, &version), 2);
    assert_int_equal(segments_and_blocks(&b, &version), 2);
    struct store *same = memstore_again(b.store);
    err fault = {0};
    struct manifests *idle = b.ms;
    struct manifests *busy = manifests_open(same, &b.budget, bench_wall, &fault);
    assert_non_null(busy);
    manifests_set_boot(busy, bench_boot);
    b.ms = busy;
    close_it(&b, &t);
    atomic_fetch_add(&bench_now, BENCH_HOURS);
    assert_ok(manifest_erase(b.ms, &b.r, TENANT, &deleted, e));
    atomic_fetch_add(&bench_now, BENCH_HOURS);
    assert_int_equal(blocks_of(&b, &version), 0);
    assert_int_equal(version, 0);
    struct manifest_block v[] = {bench_leaf(BENCH_HOUR, bench_id(11), NULL, 0),
                                 bench_leaf(BENCH_HOUR + 1, bench_id(12), NULL, 0),
                                 bench_leaf(BENCH_HOUR + 2, bench_id(13), NULL, 0)};
    assert_ok(bench_add(&b, v, 1, e));
    assert_ok(bench_add(&b, &v[1], 2, e));
    assert_int_equal(blocks_of(&b, &version), 3);
    assert_int_equal(version, 2);
    b.ms = idle;
    assert_int_equal(segments_and_blocks(&b, &version), 3);
    assert_int_equal(version, 2);
    assert_int_equal(blocks_of(&b, &version), 3);
    manifests_close(busy);
    store_close(same);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(of_two_that_close_a_tenant_at_once_both_have_closed_it),
        cmocka_unit_test(a_closed_tenant_has_nothing_and_takes_nothing),
        cmocka_unit_test(a_deletion_of_everything_until_now_closes_nothing),
        cmocka_unit_test(the_closed_version_is_erased_after_all_that_it_hides),
        cmocka_unit_test(deletions_that_only_are_said_to_have_happened_erase_nothing),
        cmocka_unit_test(a_process_that_was_idle_reads_a_tenant_created_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
