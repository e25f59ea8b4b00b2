// SPDX-License-Identifier: Apache-2.0
//
// Deleted profiles are in no block when the work on a deletion is done: not in rows, nor in any sum
// of any class. All that is in every block is compared with what was not deleted.
#include "unit/compactor/world.h"

#define DAYS 3

static void fill(struct world *w, size_t each)
{
    now_ns = slot_start(HOUR_0 + 24 * 40, SLOT_HOUR);
    for (int64_t day = 0; day < DAYS; day++) {
        fleet_hour(&w->fleet, HOUR_0 + day * 24 + 3, each);
        fleet_hour(&w->fleet, HOUR_0 + day * 24 + 4, each);
    }
    fleet_flush(&w->fleet, w->store, 0, 5);
}

static void check(struct world *w)
{
    (void)check_all(w, BLOCK_RAW);
    (void)check_all(w, BLOCK_HOURS);
    (void)check_all(w, BLOCK_DAYS);
}

static const char *const selectors[] = {"{pod=\"pod-1\"}", "{region=~\"e.*\"}",
                                        "{service_name=~\".*\",pod!=\"pod-2\"}", "{}"};

static void rows_are_written_anew_and_all_sums_follow(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * COUNT(selectors); i++) {
        struct world w;
        world_init(&w, 7 + i);
        w.settings.day_leaf_bytes = i % 2 ? 1 << 20 : 0;
        if (i / 2 == 1) w.pack_bytes = 2000;   // services are cut by their series
        if (i / 2 == 2) w.memory = 300 << 10;  // merges in groups
        fill(&w, 30);
        work_until_done(&w);
        // From the middle of an hour to the middle of another.
        world_delete(&w, selectors[i / 2], slot_start(HOUR_0 + 3, SLOT_HOUR) + SLOT_HOUR / 2,
                     slot_start(HOUR_0 + 28, SLOT_HOUR) + SLOT_HOUR / 3);
        work_until_done(&w);
        assert_int_equal(count_tombstones(&w), 0);
        check(&w);
        world_release(&w);
    }
}

static void segments_lose_their_rows_when_they_become_a_block(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 5);
    fill(&w, 20);
    world_delete(&w, selectors[0], -1, slot_start(HOUR_0 + 28, SLOT_HOUR));
    work_until_done(&w);
    assert_int_equal(count_tombstones(&w), 0);
    check(&w);
    world_release(&w);
}

static void begin_expired(struct world *w, uint64_t seed, size_t each)
{
    world_init(w, seed);
    w->settings.day_leaf_bytes = 1 << 20;
    fill(w, each);
    work_until_done(w);
    w->settings.raw_retention = SLOT_DAY;
    work_until_done(w);
    assert_int_equal(check_all(w, BLOCK_RAW), 0);
}

static void sums_without_rows_are_made_anew_of_series(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(selectors); i++) {
        struct world w;
        begin_expired(&w, 17 + i, 30);
        size_t hours = count_with_series(&w, BLOCK_HOURS);
        world_delete(&w, selectors[i], slot_start(HOUR_0 + 24, SLOT_HOUR),
                     slot_start(HOUR_0 + 48, SLOT_HOUR));
        work_until_done(&w);
        assert_int_equal(count_tombstones(&w), 0);
        assert_int_equal(count_with_series(&w, BLOCK_HOURS), hours);
        check(&w);
        world_release(&w);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_written_anew_and_all_sums_follow),
        cmocka_unit_test(segments_lose_their_rows_when_they_become_a_block),
        cmocka_unit_test(sums_without_rows_are_made_anew_of_series),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
