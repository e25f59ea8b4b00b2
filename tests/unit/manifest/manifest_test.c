// SPDX-License-Identifier: Apache-2.0
#include "unit/manifest/bench.h"

static void nothing_is_version_0(void **state)
{
    struct bench b;
    size_t n = 1;
    (void)state;
    bench_begin(&b);
    struct manifest *m = bench_newest(&b);
    assert_int_equal(manifest_version(m), 0);
    (void)manifest_blocks(m, &n);
    assert_int_equal(n, 0);
    assert_false(manifest_counts(m, bench_id(1)));
    manifest_unref(m);
    assert_null(manifest_known(b.ms, TENANT));
    bench_end(&b);
}

static void a_leaf_absorbs_its_segments(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct segment_name s[3] = {bench_segment(BENCH_HOUR, 1, 0), bench_segment(BENCH_HOUR, 2, 0),
                                bench_segment(BENCH_HOUR, 3, 0)};
    for (int i = 0; i < 3; i++)
        bench_write_segment(&b, &s[i]);
    struct manifest_block leaf = bench_leaf(BENCH_HOUR, bench_id(1), s, 2);
    assert_ok(bench_add(&b, &leaf, 1, e));
    struct snapshot snap;
    assert_ok(snapshot_take(b.ms, &b.r, &b.arena, TENANT, &snap, e));
    assert_int_equal(snap.segment_count, 1);
    assert_int_equal(segment_name_cmp(&snap.segments[0].name, &s[2]), 0);
    assert_int_equal(manifest_version(snap.manifest), 1);
    assert_true(manifest_absorbed(snap.manifest, &s[0]));
    assert_false(manifest_absorbed(snap.manifest, &s[2]));
    const struct manifest_block *found = manifest_find(snap.manifest, leaf.id);
    assert_non_null(found);
    assert_int_equal(found->made_ns, BENCH_START);
    assert_int_equal(found->rows, 10);
    assert_true(memstore_has(b.store, arena_str(&b.arena, found->name).p));
    snapshot_release(&snap);
    bench_end(&b);
}

static void a_reader_elsewhere_sees_it(void **state)
{
    struct bench b;
    err fault = {0};
    (void)state;
    bench_begin(&b);
    struct manifest_block v[2] = {bench_leaf(BENCH_HOUR, bench_id(1), NULL, 0),
                                  bench_leaf(BENCH_HOUR + 48, bench_id(2), NULL, 0)};
    assert_ok(bench_add(&b, v, 2, e));
    struct store *again = memstore_again(b.store);
    struct manifests *other = manifests_open(again, NULL, bench_wall, &fault);
    struct manifest *m = manifest_newest(other, &b.r, TENANT, &fault);
    assert_non_null(m);
    size_t n = 0;
    const struct manifest_block *blocks = manifest_blocks(m, &n);
    assert_int_equal(n, 2);
    assert_true(id128_eq(blocks[0].id, v[0].id));
    assert_true(id128_eq(blocks[1].id, v[1].id));
    manifest_unref(m);
    manifests_close(other);
    store_close(again);
    bench_end(&b);
}

static void what_is_replaced_becomes_garbage(void **state)
{
    struct bench b;
    (void)state;
    bench_begin(&b);
    struct segment_name s = bench_segment(BENCH_HOUR, 1, 0);
    struct manifest_block old = bench_leaf(BENCH_HOUR, bench_id(1), &s, 1);
    struct manifest_block new = bench_leaf(BENCH_HOUR, bench_id(2), &s, 1);
    assert_ok(bench_add(&b, &old, 1, e));
    bench_write_block(&b, &new);
    struct manifest_change c = {
        .add = &new, .add_count = 1, .remove = &old.id, .remove_count = 1, .begun_ns = BENCH_START};
    assert_ok(manifest_commit(b.ms, &b.r, TENANT, &c, NULL, e));
    // once more: it is there
    assert_ok(manifest_commit(b.ms, &b.r, TENANT, &c, NULL, e));
    struct manifest *m = bench_newest(&b);
    assert_int_equal(manifest_version(m), 2);
    assert_null(manifest_find(m, old.id));
    assert_false(manifest_counts(m, old.id));
    assert_non_null(manifest_find(m, new.id));
    assert_true(manifest_absorbed(m, &s));
    manifest_unref(m);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nothing_is_version_0),
        cmocka_unit_test(a_leaf_absorbs_its_segments),
        cmocka_unit_test(a_reader_elsewhere_sees_it),
        cmocka_unit_test(what_is_replaced_becomes_garbage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
