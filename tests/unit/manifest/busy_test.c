// SPDX-License-Identifier: Apache-2.0
//
// A day of a busy tenant: a commit writes little of what it does not change.
#include "manifest/manifest_int.h"
#include "unit/manifest/bench.h"

#include <inttypes.h>
#include <stdlib.h>

#define INGESTERS 118
#define CUTS      6  // an hour
#define HOURS     24
#define DAY       (BENCH_HOUR - BENCH_HOUR % 24)
#define SOURCES   (INGESTERS * CUTS)  // of an hour

static struct segment_name of_hour[SOURCES];

// Cuts go on through the day; every seventh ingester was started again at noon.
static size_t sources_at(int hour)
{
    size_t n = 0;
    for (uint32_t i = 0; i < INGESTERS; i++) {
        bool is_new = i % 7 == 0 && hour >= 12;
        for (uint32_t c = 0; c < CUTS; c++) {
            struct segment_name *s = &of_hour[n++];
            *s = bench_segment(DAY + hour, (uint64_t)(is_new ? hour - 12 : hour + 700) * CUTS + c,
                               0);
            s->stream = (id128){{1, 0x9b, (uint8_t)i, is_new}};
        }
    }
    return n;
}

static void a_further_leaf_of_a_day_of_17000_sources_writes_little(void **state)
{
    struct bench b;
    uint64_t first = 0;
    uint64_t last = 0;
    size_t sources = 0;
    (void)state;
    bench_begin(&b);
    for (int hour = 0; hour < HOURS; hour++) {
        size_t n = sources_at(hour);
        struct manifest_block leaf =
            bench_leaf(DAY + hour, bench_id((uint32_t)hour + 1), of_hour, n);
        bench_write_block(&b, &leaf);
        memstore_reset_totals(b.store);
        assert_ok(bench_add(&b, &leaf, 1, e));
        last = memstore_totals(b.store).created_bytes;
        if (hour == 0) first = last;
        sources += n;
    }
    print_message("%zu sources: %" PRIu64 " bytes created by a commit, %" PRIu64 " by the first\n",
                  sources, last, first);
    assert_in_range(sources, 16900, 17100);
    assert_in_range(last, first, 24 << 10);  // page and root
    struct manifest *m = bench_newest(&b);
    for (int hour = 0; hour < HOURS; hour++) {
        size_t n = sources_at(hour);
        for (size_t i = 0; i < n; i++)
            assert_true(manifest_absorbed(m, &of_hour[i]));
        of_hour[0].cut += CUTS;
        assert_false(manifest_absorbed(m, &of_hour[0]));
    }
    manifest_unref(m);
    bench_end(&b);
}

// Leaves of the same segments in two packs, and a run that begins within another's: each is found.
static void runs_that_overlap_are_all_found(void **state)
{
    struct bench b;
    struct segment_name s[9];
    (void)state;
    bench_begin(&b);
    for (uint64_t i = 0; i < COUNT(s); i++)
        s[i] = bench_segment(BENCH_HOUR, i, 0);
    struct manifest_block low = bench_leaf(BENCH_HOUR, bench_id(1), s, 9);
    struct manifest_block high = bench_leaf(BENCH_HOUR, bench_id(2), s + 3, 2);
    struct manifest_block top = bench_leaf(BENCH_HOUR, bench_id(3), s + 1, 6);
    low.pack_hi = 99;
    high.pack_lo = 100;
    high.pack_hi = 199;
    top.pack_lo = 200;
    const struct manifest_block v[3] = {low, high, top};
    assert_ok(bench_add(&b, v, 3, e));
    struct manifest *m = bench_newest(&b);
    const struct page *p = manifest_page(m, BLOCK_RAW, manifest_window(BLOCK_RAW, BENCH_HOUR));
    for (uint64_t cut = 0; cut <= COUNT(s); cut++) {
        size_t found = 0;
        const struct segment_run r = {BENCH_HOUR, s[0].stream, cut, 1, 0};
        for (const struct absorbed *at = page_absorbed(p, &r, NULL); at;
             at = page_absorbed(p, &r, at))
            found++;
        size_t wanted = (cut < 9) + (cut >= 3 && cut < 5) + (cut >= 1 && cut < 7);
        assert_int_equal(found, wanted);
    }
    manifest_unref(m);
    // A leaf of one of these segments again, in packs that two of the three have.
    struct manifest_block again = bench_leaf(BENCH_HOUR, bench_id(4), s + 8, 1);
    err fault = {0};
    assert_false(bench_add(&b, &again, 1, &fault));
    assert_int_equal(fault.code, ERR_ABORTED);
    again.pack_lo = 100;
    assert_ok(bench_add(&b, &again, 1, e));
    bench_end(&b);
}

// ---- a tenant of many packs: what the checks of a commit look at grows as the blocks do
#ifdef FT_FAULTS

#define LEAVES_A_DAY 24

static int by_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(id128));
}

// A day whose first hours have expired, in so many packs; then all of its parents are made anew, as
// a day that is packed again. What the checks of that looked at.
static uint64_t steps_of_packs(uint32_t packs)
{
    struct bench b;
    bench_begin(&b);
    const size_t n = (size_t)packs * LEAVES_A_DAY;
    struct manifest_block *leaves = ARENA_ARRAY(&b.arena, struct manifest_block, n);
    struct manifest_block *parents = ARENA_ARRAY(&b.arena, struct manifest_block, 2 * packs);
    id128 *expire = ARENA_ARRAY(&b.arena, id128, n);
    id128 *remove = ARENA_ARRAY(&b.arena, id128, packs);
    const uint32_t width = UINT32_MAX / packs;
    for (uint32_t p = 0; p < packs; p++) {
        id128 *ids = ARENA_ARRAY(&b.arena, id128, LEAVES_A_DAY);
        struct manifest_cover *c = ARENA_NEW(&b.arena, struct manifest_cover);
        for (uint32_t h = 0; h < LEAVES_A_DAY; h++) {
            struct manifest_block *leaf = &leaves[p * LEAVES_A_DAY + h];
            *leaf = bench_block(BLOCK_RAW, DAY + h, 1, bench_id(1 + p * LEAVES_A_DAY + h));
            leaf->pack_lo = p * width;
            leaf->pack_hi = p + 1 == packs ? UINT32_MAX : (p + 1) * width - 1;
            ids[h] = leaf->id;
            expire[p * LEAVES_A_DAY + h] = leaf->id;
        }
        qsort(ids, LEAVES_A_DAY, sizeof *ids, by_id);
        *c = (struct manifest_cover){.hour = DAY,
                                     .hours = 24,
                                     .leaf_count = LEAVES_A_DAY,
                                     .leaves = ids};
        for (uint32_t k = 0; k < 2; k++) {
            struct manifest_block *d = &parents[k * packs + p];
            *d = bench_block(BLOCK_DAYS, DAY, 24, bench_id(1000000 + k * packs + p));
            d->pack_lo = leaves[(size_t)p * LEAVES_A_DAY].pack_lo;
            d->pack_hi = leaves[(size_t)p * LEAVES_A_DAY].pack_hi;
            d->covers = c;
            d->cover_count = 1;
        }
        remove[p] = parents[p].id;
    }
    assert_ok(bench_add(&b, leaves, n, e));
    assert_ok(bench_add(&b, parents, packs, e));
    assert_ok(bench_commit(&b, &(struct manifest_change){.expire = expire, .expire_count = n}, e));
    const struct manifest_change again = {.add = parents + packs,
                                          .add_count = packs,
                                          .remove = remove,
                                          .remove_count = packs};
    manifest_steps = 0;
    assert_ok(bench_commit(&b, &again, e));
    const uint64_t steps = manifest_steps;
    bench_end(&b);
    return steps;
}

static void the_checks_of_a_commit_are_not_quadratic(void **state)
{
    (void)state;
    const uint64_t few = steps_of_packs(20);
    const uint64_t many = steps_of_packs(80);
    print_message("%" PRIu64 " steps of 20 packs, %" PRIu64 " of 80\n", few, many);
    assert_in_range(many, few, 6 * few);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_further_leaf_of_a_day_of_17000_sources_writes_little),
#ifdef FT_FAULTS
        cmocka_unit_test(the_checks_of_a_commit_are_not_quadratic),
#endif
        cmocka_unit_test(runs_that_overlap_are_all_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
