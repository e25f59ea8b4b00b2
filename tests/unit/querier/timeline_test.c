// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "querier/request/timeline.h"

#define S_MS INT64_C(1000)
#define H_MS (3600 * S_MS)
#define D_MS (24 * H_MS)

static void step_is_about_a_1500th_of_the_range(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t length_ms;
        int64_t step_s;
    } rows[] = {
        {"nothing", 0, 15},
        {"a second", S_MS, 15},
        {"an hour", H_MS, 15},
        {"six hours", 6 * H_MS, 15},
        {"twelve hours", 12 * H_MS, 30},
        {"a week", 7 * D_MS, 300},
        {"30 days", 30 * D_MS, 1800},
        {"180 days", 180 * D_MS, 10800},
        {"360 days", 360 * D_MS, 21600},
        {"720 days", 720 * D_MS, 43200},
        {"1800 days", 1800 * D_MS, 86400},
        {"all of time", INT64_MAX, 365 * 86400},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        if (timeline_step(0, rows[i].length_ms) != rows[i].step_s) fail_msg("%s", rows[i].name);
    }
    assert_int_equal(timeline_step(INT64_MIN, INT64_MAX), 365 * 86400);
}

static void slots_are_aligned_to_the_epoch(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t from_ms;
        int64_t until_ms;
        int64_t start_s;
        size_t slots;
    } rows[] = {
        {"on edges", 1500 * S_MS, 1530 * S_MS, 1500, 2},
        {"between edges", 1507 * S_MS, 1537 * S_MS, 1500, 2},
        {"an instant", 1507 * S_MS, 1507 * S_MS, 1500, 0},
        {"before the epoch", -1, 1, -15, 1},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct timeline t = timeline_of(rows[i].from_ms, rows[i].until_ms);
        if (t.start_s != rows[i].start_s || t.slots != rows[i].slots) fail_msg("%s", rows[i].name);
    }
    struct timeline t = timeline_of(1500 * S_MS, 1530 * S_MS);
    assert_true(timeline_first_ns(&t) == INT64_C(1514999999999));
    assert_true(timeline_step_ns(&t) == INT64_C(15000000000));
}

static void absurd_ranges_stay_small(void **state)
{
    (void)state;
    static const int64_t edges[] = {INT64_MIN, -1, 0, 1, INT64_C(1700000000000), INT64_MAX};
    for (size_t i = 0; i < COUNT(edges); i++) {
        for (size_t k = 0; k < COUNT(edges); k++) {
            struct timeline t = timeline_of(edges[i], edges[k]);
            assert_true(t.slots < 20000);
            __int128 last = (__int128)t.slots * timeline_step_ns(&t) + timeline_first_ns(&t);
            assert_true(last <= INT64_MAX);
        }
    }
}

static void the_slot_that_is_not_over_shows_if_it_has_something(void **state)
{
    (void)state;
    struct timeline t = timeline_of(1500 * S_MS, 1530 * S_MS);
    struct buf out;
    buf_init(&out, NULL, 4096);
    timeline_print(&t, (const int64_t[]){1, 2, 0}, &out);
    assert_true(str_is(buf_view(&out), "{\"startTime\":1500,\"samples\":[1,2],\"durationDelta\":15,"
                                       "\"watermarks\":null}"));
    buf_clear(&out);
    timeline_print(&t, (const int64_t[]){0, 0, 7}, &out);
    assert_true(str_is(buf_view(&out),
                       "{\"startTime\":1500,\"samples\":[0,0,7],\"durationDelta\":15,"
                       "\"watermarks\":null}"));
    buf_clear(&out);
    timeline_print(&t, (const int64_t[]){-1, INT64_MIN, -3}, &out);
    assert_true(str_is(buf_view(&out),
                       "{\"startTime\":1500,\"samples\":[-1,-9223372036854775808,-3],"
                       "\"durationDelta\":15,\"watermarks\":null}"));
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(step_is_about_a_1500th_of_the_range),
        cmocka_unit_test(slots_are_aligned_to_the_epoch),
        cmocka_unit_test(absurd_ranges_stay_small),
        cmocka_unit_test(the_slot_that_is_not_over_shows_if_it_has_something),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
