// SPDX-License-Identifier: Apache-2.0
//
// Deleted profiles are in no block when the work on a deletion is done: not in rows, nor in any sum
// of any class. All that is in every block is compared with what was not deleted.
#include "unit/compactor/world.h"

#define DAYS 3

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
        world_fill(&w, DAYS, 30);
        work_until_done(&w);
        // From the middle of an hour to the middle of another.
        world_delete(&w, selectors[i / 2], slot_start(HOUR_0 + 3, SLOT_HOUR) + SLOT_HOUR / 2,
                     slot_start(HOUR_0 + 28, SLOT_HOUR) + SLOT_HOUR / 3);
        work_until_done(&w);
        assert_int_equal(count_tombstones(&w), 0);
        check_each_level(&w);
        world_release(&w);
    }
}

static void segments_lose_their_rows_when_they_become_a_block(void **state)
{
    (void)state;
    struct world w;
    world_init(&w, 5);
    world_fill(&w, DAYS, 20);
    world_delete(&w, selectors[0], -1, slot_start(HOUR_0 + 28, SLOT_HOUR));
    work_until_done(&w);
    assert_int_equal(count_tombstones(&w), 0);
    check_each_level(&w);
    world_release(&w);
}

static void sums_without_rows_are_made_anew_of_series(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(selectors); i++) {
        struct world w;
        world_begin_expired(&w, 17 + i, DAYS, 30);
        size_t hours = count_with_series(&w, BLOCK_HOURS);
        world_delete(&w, selectors[i], slot_start(HOUR_0 + 24, SLOT_HOUR),
                     slot_start(HOUR_0 + 48, SLOT_HOUR));
        work_until_done(&w);
        assert_int_equal(count_tombstones(&w), 0);
        assert_int_equal(count_with_series(&w, BLOCK_HOURS), hours);
        check_each_level(&w);
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
