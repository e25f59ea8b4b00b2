// SPDX-License-Identifier: Apache-2.0
//
// What does not wait for its interval or delay, as much came or a run asks, and what waits even
// then.
#include "unit/compactor/plan_case.h"

#define NINE_DAYS_LATE                                                                       \
    BLOCKS(PARENT('w', 'w', 0, 48, 241, "0:a 24:b"), PARENT('d', 'd', 0, 24, 240, "0:a"),    \
           PARENT('d', 'e', 24, 24, 240, "24:b"), PARENT('d', 'f', 48, 24, 241, "48:c"),     \
           PARENT('d', 'g', 72, 24, 241, "72:c"), PARENT('d', 'h', 96, 24, 241, "96:c"),     \
           PARENT('d', 'i', 120, 24, 241, "120:c"), PARENT('d', 'j', 144, 24, 241, "144:c"), \
           PARENT('d', 'k', 168, 24, 241, "168:c"), PARENT('d', 'l', 192, 24, 241, "192:c"))

#define SIZED(kind_, id_, from_, hours_, made_, covers_, bytes_)                           \
    {                                                                                      \
        .kind = (kind_), .id = (id_), .from = (from_), .hours = (hours_), .made = (made_), \
        .covers = (covers_), .bytes = (bytes_)                                             \
    }
// A window's block of two days, and the third day.
#define ONE_DAY_LATE(day_bytes, window_bytes)                    \
    BLOCKS(SIZED('w', 'd', 0, 48, 74, "0:a 24:b", window_bytes), \
           SIZED('d', 'e', 48, 24, 75, "48:c", day_bytes))

static void what_came_to_much_or_is_asked_for_does_not_wait_for_its_interval(void **state)
{
    (void)state;
    const struct plan_case cases[] = {
        {.name = "days outside the window's block wait for the night",
         .now = 242,
         .blocks = NINE_DAYS_LATE,
         .expired = "abc",
         .want = "",
         .later = "window:1"},
        {.name = "not if somebody asks",
         .now = 242,
         .asked = true,
         .blocks = NINE_DAYS_LATE,
         .expired = "abc",
         .want = "window@0+216<8-1",
         .later = ""},
        {.name = "nor if they are many",
         .now = 242,
         .much = 8,
         .blocks = NINE_DAYS_LATE,
         .expired = "abc",
         .want = "window@0+216<8-1"},
        {.name = "a day outside the window's block waits for the night",
         .now = 76,
         .much = 8,
         .much_bytes = 1000,
         .blocks = ONE_DAY_LATE(900, 200),
         .expired = "abc",
         .want = "",
         .later = "window:1"},
        {.name = "not if it has many bytes",
         .now = 76,
         .much = 8,
         .much_bytes = 1000,
         .blocks = ONE_DAY_LATE(1000, 200),
         .expired = "abc",
         .want = "window@0+72<2-1"},
        {.name = "but few beside those of the window's block",
         .now = 76,
         .much = 8,
         .much_bytes = 1000,
         .blocks = ONE_DAY_LATE(1000, 5000),
         .expired = "abc",
         .want = "",
         .later = "window:1"},
        {.name = "of a day that grew only what the window's block lacks counts",
         .now = 76,
         .much = 8,
         .much_bytes = 1000,
         .blocks = BLOCKS(PARENT('w', 'd', 0, 48, 74, "0:a 24:b"),
                          SIZED('d', 'e', 24, 24, 75, "24:bc", 1900)),
         .expired = "abc",
         .want = "",
         .later = "window:1"},
        {.name = "a window waits for what is due below it",
         .now = 242,
         .asked = true,
         .segments = "170",
         .blocks = NINE_DAYS_LATE,
         .expired = "abc",
         .want = "leaf@170+1<1"},
        {.name = "the first block of a window does, too",
         .now = 60,
         .segments = "30",
         .blocks = BLOCKS(PARENT('d', 'd', 0, 24, 59, "0:a"), PARENT('d', 'e', 24, 24, 59, "24:b")),
         .expired = "ab",
         .want = "leaf@30+1<1",
         .later = "window:1"},
        {.name = "but not for ever",
         .now = 84,
         .segments = "30",
         .blocks = BLOCKS(PARENT('d', 'd', 0, 24, 59, "0:a"), PARENT('d', 'e', 24, 24, 59, "24:b")),
         .expired = "ab",
         .want = "window@0+48<2 leaf@30+1<1"},
        {.name = "an hour that is just over waits for what still comes, however much it got",
         .now = 3,
         .much = 1,
         .segments = "1",
         .want = "",
         .later = "leaf:1"},
        {.name = "not if somebody asks",
         .now = 3,
         .asked = true,
         .segments = "1",
         .want = "leaf@1+1<1",
         .later = ""},
        {.name = "the hour under way is never made",
         .now = 3.5,
         .asked = true,
         .segments = "2 3",
         .want = "leaf@2+1<1",
         .later = ""},
        {.name = "what is late to an hour does not wait if somebody asks",
         .now = 5,
         .asked = true,
         .segments = "1",
         .blocks = BLOCKS(LEAF('a', 1, 4)),
         .want = "leaf@1+1<2"},
        {.name = "nor if it is much",
         .now = 5,
         .much = 3,
         .segments = "1 1 1",
         .blocks = BLOCKS(LEAF('a', 1, 4)),
         .want = "leaf@1+1<4"},
        {.name = "two are not",
         .now = 5,
         .much = 3,
         .segments = "1 1",
         .blocks = BLOCKS(LEAF('a', 1, 4)),
         .want = "",
         .later = "leaf:1 hour:1"},
        {.name = "hour nodes of much are made at once",
         .now = 5.5,
         .much = 2,
         .blocks = BLOCKS(LEAF('a', 1, 5), LEAF('b', 2, 5)),
         .want = "hour@1+2<2"},
        {.name = "and of anything if somebody asks",
         .now = 5.5,
         .asked = true,
         .blocks = BLOCKS(LEAF('a', 1, 5)),
         .want = "hour@1+1<1"},
        {.name = "so are the first of a day that lies back",
         .now = 505.5,
         .much = 8,
         .blocks = BLOCKS(LEAF('a', 1, 505)),
         .want = "hour@1+1<1*"},
        {.name = "once its leaves are there",
         .now = 505.5,
         .much = 8,
         .segments = "2",
         .blocks = BLOCKS(LEAF('a', 1, 505)),
         .want = "leaf@2+1<1",
         .later = "hour:1"},
        {.name = "many leaves of an hour are folded at once",
         .now = 31,
         .much = 2,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 1, 30), LEAF('c', 1, 30)),
         .want = "fold@1+1<3-3"},
        {.name = "two if somebody asks",
         .now = 31,
         .asked = true,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 1, 30)),
         .want = "fold@1+1<2-2"},
        {.name = "and join the leaf of their day",
         .now = 34,
         .asked = true,
         .day_leaf = 1000,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 26), LEAF('b', 2, 31), EVERY_HOUR,
                          PARENT('d', 'd', 0, 24, 26, "0:a")),
         .want = "fold@0+24<2-4"},
        {.name = "which without waits for the night",
         .now = 32,
         .day_leaf = 1000,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 26), LEAF('b', 2, 31), EVERY_HOUR,
                          PARENT('d', 'd', 0, 24, 26, "0:a")),
         .want = "",
         .later = "fold:1 hour:1"},
        {.name = "blocks of hours are packed at once",
         .now = 9,
         .much = 1,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 2, 5), PARENT('h', 'h', 1, 1, 7, "1:a"),
                          PARENT('h', 'i', 2, 1, 8, "2:b")),
         .want = "pack@0+3<2-2"},
        {.name = "a day that is just over is made if somebody asks",
         .now = 24.5,
         .asked = true,
         .blocks = BLOCKS(LEAF('a', 1, 4), PARENT('h', 'h', 0, 24, 12, "1:a")),
         .want = "day@0+24<1"},
        {.name = "and one that is not is not",
         .now = 23.5,
         .asked = true,
         .blocks = BLOCKS(LEAF('a', 1, 4), PARENT('h', 'h', 0, 24, 12, "1:a")),
         .want = "",
         .later = ""},
        {.name = "a day that lacks much is made anew",
         .now = 40,
         .much = 1,
         .blocks = BLOCKS(LEAF('a', 1, 4), LEAF('b', 2, 30), PARENT('h', 'h', 0, 24, 39, "1:a 2:b"),
                          PARENT('d', 'd', 0, 24, 26, "0:a")),
         .want = "day@0+24<1-1"},
        {.name = "a day far back waits for its hours for a day since its first leaf came",
         .now = 501,
         .segments = "22",
         .blocks = BLOCKS(LEAF('a', 1, 500), PARENT('h', 'h', 0, 24, 500, "1:a")),
         .want = "leaf@22+1<1"},
        {.name = "nothing is left to do",
         .now = 60,
         .asked = true,
         .much = 1,
         .day_leaf = 1000,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 26), EVERY_HOUR, PARENT('d', 'd', 0, 24, 26, "0:a")),
         .want = "",
         .later = ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        plan_case_check(&cases[i]);
}

// "open" of a plan: segments that become a block only once their hour is over, asked for or not.
static void a_plan_tells_of_segments_whose_hour_is_not_over(void **state)
{
    (void)state;
    const struct snapshot_segment segments[] = {{.name = {.hour = PLAN_HOUR_0 + 1}},
                                                {.name = {.hour = PLAN_HOUR_0 + 3}},
                                                {.name = {.hour = PLAN_HOUR_0 + 3, .cut = 1}},
                                                {.name = {.hour = PLAN_HOUR_0 + 5}}};
    for (int asked = 0; asked < 2; asked++) {
        struct arena a;
        struct plan plan;
        struct ids ids = {0};
        struct plan_state s = {.segments = segments,
                               .segment_count = COUNT(segments),
                               .counts = plan_case_counts,
                               .arg = &ids,
                               .now_ns = plan_case_hours(3.5)};
        struct plan_settings settings = plan_usual;
        settings.asked = asked;
        arena_init(&a, NULL, 16 << 20);
        assert_ok(plan_make(&a, &s, &settings, &plan, e));
        assert_int_equal(plan.n, 1);
        assert_int_equal(plan.open_segments, 3);
        assert_int_equal(plan.open_until_ns, plan_case_hours(4));
        arena_release(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_came_to_much_or_is_asked_for_does_not_wait_for_its_interval),
        cmocka_unit_test(a_plan_tells_of_segments_whose_hour_is_not_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
