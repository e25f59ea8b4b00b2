// SPDX-License-Identifier: Apache-2.0
//
// Manifests that nobody uses are packed, whoever asks meanwhile.
#include "lib/await.h"
#include "manifest/manifest_int.h"
#include "unit/manifest/bench.h"

#include <pthread.h>

#define RESTS 300

struct resting {
    struct bench *b;
    _Atomic bool over;
};

static void *ask_again(void *arg)
{
    struct resting *w = arg;
    struct req r;
    req_init(&r, RANK_PUBLIC, NULL, (size_t)1 << 28, 0);
    while (!atomic_load(&w->over)) {
        struct snapshot snap;
        size_t n = 0;
        err e = {0};
        if (!snapshot_take(w->b->ms, &r, &r.arena, TENANT, &snap, &e)) fail_msg("%s", e.msg);
        (void)manifest_blocks(snap.manifest, &n);
        if (n != manifest_version(snap.manifest)) fail_msg("%zu blocks", n);
        snapshot_release(&snap);
        struct manifest *known = manifest_known(w->b->ms, TENANT);
        if (known && manifest_version(known) == 0) fail_msg("version 0 is known");
        manifest_unref(known);
        arena_release(&r.arena);
    }
    req_release(&r);
    return NULL;
}

static void manifests_are_packed_while_others_ask(void **state)
{
    struct bench b;
    pthread_t threads[3];
    (void)state;
    bench_begin(&b);
    struct resting w = {.b = &b};
    for (size_t i = 0; i < COUNT(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ask_again, &w), 0);
    for (uint32_t i = 0; i < RESTS; i++) {
        (void)manifests_rest(b.ms, 0);
        if (i % 10) continue;
        struct manifest_block leaf = bench_leaf(BENCH_HOUR + i / 10, bench_id(i + 1), NULL, 0);
        assert_ok(bench_add(&b, &leaf, 1, e));
    }
    atomic_store(&w.over, true);
    for (size_t i = 0; i < COUNT(threads); i++)
        pthread_join(threads[i], NULL);
    struct manifest *m = bench_newest(&b);
    assert_int_equal(manifest_version(m), RESTS / 10);
    manifest_unref(m);
    assert_int_equal(manifests_rest(b.ms, 0), 1);
    bench_end(&b);
}

static bool is_packed(struct bench *b)
{
    lock_take(&b->ms->lock);
    bool packed = b->ms->oldest && b->ms->oldest->packed;
    lock_give(&b->ms->lock);
    return packed;
}

// The thread that services start; it ends with what it looks after.
static void the_thread_that_packs_packs(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0);
    assert_ok(bench_add(&b, &leaf, 1, e));
    assert_ok(manifests_rest_after(b.ms, NS_PER_MS, e));
    AWAIT(is_packed(&b));
    manifest_unref(bench_newest(&b));
    AWAIT(is_packed(&b));
    bench_end(&b);
}

static size_t kept_bytes(struct bench *b)
{
    return atomic_load(&manifests_budget(b->ms)->used);
}

// Nobody asks for a manifest any more, and what is kept is all that others could still have.
static void idle_manifests_give_way_to_others_without_being_used(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    atomic_store(&b.budget.limit, (size_t)64 << 20);
    manifests_limit(b.ms, "cache", 0);
    for (uint32_t i = 0; i < 50; i++) {
        struct manifest_block leaf = bench_leaf(BENCH_HOUR - i, bench_id(i + 1), NULL, 0);
        assert_ok(bench_add(&b, &leaf, 1, e));
    }
    size_t kept = kept_bytes(&b);
    size_t others = ((size_t)64 << 20) - atomic_load(&b.budget.used);
    assert_true(kept > 0);
    assert_ok(manifests_rest_after(b.ms, 3600 * (uint64_t)NS_PER_S, e));
    assert_ok(mem_reserve(&b.budget, others, e));
    AWAIT(kept_bytes(&b) == 0);
    assert_ok(mem_reserve(&b.budget, kept, e));
    mem_unreserve(&b.budget, others + kept);
    bench_end(&b);
}

// Where memory ends while it is packed or taken apart, nothing is lost: it is read from the store.
static void without_memory_it_is_read_anew(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    for (uint32_t i = 0; i < 50; i++) {
        struct manifest_block leaf = bench_leaf(BENCH_HOUR - i, bench_id(i + 1), NULL, 0);
        assert_ok(bench_add(&b, &leaf, 1, e));
    }
    const size_t known = b.budget.used;
    atomic_store(&b.budget.limit, known + 1000);
    assert_int_equal(manifests_rest(b.ms, 0), 0);
    assert_int_equal(b.budget.used, known);
    atomic_store(&b.budget.limit, 0);
    assert_int_equal(manifests_rest(b.ms, 0), 1);
    assert_in_range(b.budget.used, 1, known - 1);
    atomic_store(&b.budget.limit, b.budget.used + 1000);
    assert_null(manifest_known(b.ms, TENANT));
    atomic_store(&b.budget.limit, 0);
    struct manifest *m = bench_newest(&b);
    assert_int_equal(manifest_version(m), 50);
    manifest_unref(m);
    bench_end(&b);
}

// Leaves of a day that expired at different times: each has its own, however it is kept.
static void each_leaf_expired_when_it_did(void **state)
{
    struct bench b;
    struct manifest_block leaf[6];
    int64_t when[COUNT(leaf)];
    (void)state;
    bench_begin(&b);
    const int64_t day = BENCH_HOUR - BENCH_HOUR % 24;
    for (uint32_t i = 0; i < COUNT(leaf); i++)
        leaf[i] = bench_leaf(day + i, bench_id(i + 1), NULL, 0);
    assert_ok(bench_add(&b, leaf, COUNT(leaf), e));
    static const size_t order[] = {3, 0, 1, 5, 2, 4};
    for (size_t i = 0; i < COUNT(order); i++) {
        if (i % 2 == 0) atomic_fetch_add(&bench_now, BENCH_HOURS);
        when[order[i]] = bench_wall();
        const struct manifest_change c = {.expire = &leaf[order[i]].id, .expire_count = 1};
        assert_ok(bench_commit(&b, &c, e));
    }
    for (int packed = 0; packed < 2; packed++) {
        struct manifest *m = bench_newest(&b);
        const struct page *p = manifest_page(m, BLOCK_RAW, manifest_window(BLOCK_RAW, day));
        assert_int_equal(p->expired_count, COUNT(leaf));
        assert_int_equal(p->past_count, 0);
        for (size_t i = 0; i < COUNT(leaf); i++) {
            assert_true(manifest_counts(m, leaf[i].id));
            assert_true(id128_eq(p->expired[i], leaf[i].id));
            assert_int_equal(page_expired_ns(p, i), when[i]);
        }
        manifest_unref(m);
        assert_int_equal(manifests_rest(b.ms, 0), 1);
    }
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(manifests_are_packed_while_others_ask),
        cmocka_unit_test(the_thread_that_packs_packs),
        cmocka_unit_test(idle_manifests_give_way_to_others_without_being_used),
        cmocka_unit_test(each_leaf_expired_when_it_did),
        cmocka_unit_test(without_memory_it_is_read_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
