// SPDX-License-Identifier: Apache-2.0
//
// A tenant of 400 days: what its manifest takes in memory, while asked for and while nobody asks.
#include "manifest/manifest_int.h"
#include "unit/manifest/year.h"

#define KB ((size_t)1024)

static void expect_year(struct manifest *m)
{
    size_t n = 0;
    size_t stale = 0;
    size_t leaves = 0;
    const struct manifest_block *v = manifest_blocks(m, &n);
    for (size_t i = 0; i < n; i++) {
        assert_ptr_equal(manifest_find(m, v[i].id), &v[i]);
        for (size_t k = 0; k < v[i].cover_count; k++) {
            leaves += v[i].covers[k].leaf_count;
            for (size_t l = 0; l < v[i].covers[k].leaf_count; l++)
                stale += !manifest_counts(m, v[i].covers[k].leaves[l]);
        }
    }
    assert_int_equal(stale, 0);
    assert_in_range(leaves, 2 * YEAR_DAYS * 24, 3 * YEAR_DAYS * 24);
    const struct segment_name in = {YEAR_LAST * 24 - 5,
                                    {{1, 0x9b, 1}},
                                    (YEAR_LAST * 24 - 5) * 6 % 100000 + 5,
                                    0};
    const struct segment_name out = {in.hour, in.stream, in.cut + 1, 0};
    assert_true(manifest_absorbed(m, &in));
    assert_false(manifest_absorbed(m, &out));
}

static void a_tenant_of_400_days_takes_little(void **state)
{
    struct bench b;
    struct manifests *ms = NULL;
    struct mem_budget memory;
    struct manifest *m = NULL;
    struct manifest_about about;
    struct manifest_about again;
    (void)state;
    bench_begin(&b);
    year_make(&b);
    mem_budget_init(&memory, "memory", NULL, 0);
    assert_ok((ms = manifests_open(b.store, &memory, bench_wall, e)) != NULL);
    const size_t nothing = memory.used;
    assert_ok((m = manifest_newest(ms, &b.r, TENANT, e)) != NULL);
    manifest_tell(m, &about);
    assert_int_equal(about.blocks,
                     YEAR_RAW_DAYS * 24 + 24 / YEAR_LATE + YEAR_H_DAYS + YEAR_DAYS + 15);
    assert_int_equal(about.expired, (YEAR_DAYS - YEAR_RAW_DAYS) * 24);
    expect_year(m);
    const size_t asked = memory.used - nothing;
    assert_int_equal(manifests_rest(ms, 0), 0);  // it is in use
    manifest_unref(m);
    assert_int_equal(manifests_rest(ms, MANIFESTS_REST), 0);  // it was used just now
    assert_int_equal(manifests_rest(ms, 0), 1);
    assert_int_equal(manifests_rest(ms, 0), 0);
    const size_t idle = memory.used - nothing;
    print_message("%zu pages, %zu KB; asked %zu KB, idle %zu KB\n", about.pages,
                  (size_t)about.page_bytes / KB, asked / KB, idle / KB);
    assert_in_range(asked, 1, 1 << 20);
    assert_in_range(idle, 1, 300 * KB);

    // It comes back as it was, and without a request.
    memstore_reset_totals(b.store);
    assert_non_null(m = manifest_known(ms, TENANT));
    manifest_tell(m, &again);
    assert_int_equal(memstore_totals(b.store).ops[MEMSTORE_READ], 0);
    assert_int_equal(memstore_totals(b.store).ops[MEMSTORE_LIST], 0);
    assert_int_equal(again.version, about.version);
    assert_true(again.hash == about.hash);
    assert_int_equal(again.expired, about.expired);
    // (Chunks that arenas kept may be larger than what is asked of them.)
    assert_in_range(memory.used - nothing, 1, 1 << 20);
    expect_year(m);
    manifest_unref(m);
    assert_int_equal(manifests_rest(ms, 0), 1);

    // A new version reads the page that is new.
    struct manifest_block leaf = bench_leaf(YEAR_LAST * 24, year_id(YEAR_LAST * 24, 0), NULL, 0);
    assert_ok(bench_add(&b, &leaf, 1, e));
    memstore_reset_totals(b.store);
    assert_ok((m = manifest_newest(ms, &b.r, TENANT, e)) != NULL);
    assert_int_equal(memstore_totals(b.store).ops[MEMSTORE_READ], 2);
    assert_non_null(manifest_find(m, leaf.id));
    expect_year(m);
    manifest_unref(m);
    manifests_close(ms);
    assert_int_equal(memory.used, 0);
    bench_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_tenant_of_400_days_takes_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
