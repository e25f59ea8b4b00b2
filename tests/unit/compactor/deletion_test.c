// SPDX-License-Identifier: Apache-2.0
//
// What a plan does about a deletion: raw blocks are folded at once, sums without rows are made anew
// of themselves, nothing of its days expires before, and it is done when nothing may have it. And
// what a request for one says.
#include "compactor/deletion.h"
#include "unit/compactor/plan_case.h"

static void deletions_are_carried_out_and_then_done(void **state)
{
    (void)state;
    const struct plan_case cases[] = {
        {.name = "a raw block alone is folded, whenever the hour was folded last",
         .now = 30,
         .blocks = BLOCKS(LEAF('a', 3, 29), EVERY_HOUR),
         .deleted = {3, 4},
         .want = "fold@3+1<1-1"},
        {.name = "not one of another hour",
         .now = 104,
         .blocks = BLOCKS(LEAF('a', 3, 101)),
         .deleted = {4, 5},
         .want = "hour@3+1<1 done"},
        {.name = "a raw block of a day is folded with all that came to it",
         .now = 102,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 30), LEAF('b', 5, 101)),
         .deleted = {5, 6},
         .want = "fold@0+24<2-2"},
        {.name = "one that obeys it is left, and parents follow",
         .now = 104,
         .blocks = BLOCKS(LEAF('b', 3, 101), PARENT('h', 'h', 3, 1, 5, "3:a")),
         .deleted = {3, 4},
         .want = "hour@3+1<1"},
        {.name = "when all obey it, it is done",
         .now = 104,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 101),
                          PARENT('h', 'h', 0, 24, 102,
                                 "0:a 1:a 2:a 3:a 4:a 5:a 6:a 7:a 8:a 9:a "
                                 "10:a 11:a 12:a 13:a 14:a 15:a 16:a 17:a "
                                 "18:a 19:a 20:a 21:a 22:a 23:a"),
                          PARENT('d', 'd', 0, 24, 103, "0:a")),
         .deleted = {0, 24},
         .want = "done"},
        {.name = "so it is if only a window reaches over hours of which nothing is left",
         .now = 24 * 29,
         .blocks = BLOCKS(DAY_LEAF('a', 0, 30), DAY_LEAF('b', 48, 70),
                          PARENT('w', 'w', 0, 672, 74, "0:a 48:b"),
                          PARENT('d', 'd', 0, 24, 74, "0:a"), PARENT('d', 'e', 48, 24, 74, "48:b")),
         .deleted = {24, 48},
         .want = "hour@0+24<1* hour@48+24<1* done"},
        {.name = "not while a segment of its hours waits",
         .now = 4.5,
         .segments = "3",
         .blocks = BLOCKS(LEAF('b', 1, 2)),
         .deleted = {3, 4},
         .want = "hour@1+1<1"},
        {.name = "rows past their time wait until they are rewritten",
         .now = 24 * 15 + 30,
         .blocks = BLOCKS(LEAF('a', 3, 29), EVERY_HOUR, PARENT('d', 'd', 0, 24, 30, "0:a")),
         .deleted = {3, 4},
         .want = "fold@3+1<1-1"},
        {.name = "sums whose rows have expired are made anew of themselves, windows later",
         .now = 24 * 29,
         .blocks =
             BLOCKS(PARENT('h', 'h', 0, 24, 30, "0:a"), PARENT('w', 'w', 0, 672, 60, "0:a 24:b"),
                    PARENT('d', 'd', 0, 24, 30, "0:a"), PARENT('d', 'e', 24, 24, 50, "24:b")),
         .expired = "ab",
         .deleted = {0, 24},
         .want = "pack@0+24<1!-1 day@0+24<1!-1"},
        {.name = "then the window goes",
         .now = 24 * 29,
         .blocks =
             BLOCKS(PARENT('w', 'w', 0, 672, 60, "0:a 24:b"), PARENT('d', 'd', 0, 24, 101, "0:a"),
                    PARENT('d', 'e', 24, 24, 50, "24:b")),
         .expired = "ab",
         .deleted = {0, 24},
         .want = "retire@0+672-1"},
        {.name = "but not while a leaf is to be clean first",
         .now = 24 * 13,
         .blocks =
             BLOCKS(LEAF('a', 3, 29), PARENT('h', 'h', 0, 24, 101, "3:a 5:b"),
                    PARENT('w', 'w', 0, 672, 60, "0:ab"), PARENT('d', 'd', 0, 24, 101, "0:ab")),
         .expired = "b",
         .deleted = {0, 24},
         .want = ""},
        {.name = "what is left of a day that has expired in part goes in its time",
         .now = 24 * 15 + 30,
         .blocks = BLOCKS(LEAF('a', 3, 29), PARENT('h', 'h', 0, 24, 101, "3:a 5:b"),
                          PARENT('d', 'd', 0, 24, 101, "0:ab")),
         .expired = "b",
         .deleted = {0, 24},
         .want = "retire@3+1x1"},
        {.name = "a block of sums that has none of series stays",
         .now = 24 * 29,
         .blocks = BLOCKS(PARENT('e', 'd', 0, 24, 30, "0:a")),
         .expired = "a",
         .deleted = {0, 24},
         .want = ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        plan_case_check(&cases[i]);
}

#define NOW_MS INT64_C(5000)

static void a_range_has_its_first_and_its_last_moment(void **state)
{
    (void)state;
    const struct {
        const char *range;
        int64_t first_ns;
        int64_t last_ns;
    } cases[] = {
        {"", 0, NOW_MS * NS_PER_MS},
        {"&start=1000&end=2000", 1000 * NS_PER_MS, 2000 * NS_PER_MS},
        {"&start=1000", 1000 * NS_PER_MS, NOW_MS * NS_PER_MS},
        {"&end=2000", 0, 2000 * NS_PER_MS},
        {"&start=1000&end=1000", 1000 * NS_PER_MS, 1000 * NS_PER_MS},
        {"&start=0&end=9000", 0, NOW_MS * NS_PER_MS},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct http_exchange x = {0};
        struct manifest_tombstone t = {0};
        req_init(&x.req, RANK_PUBLIC, NULL, 1 << 20, 0);
        x.query = arena_printf(&x.req.arena, "match={pod=\"a\"}%s", cases[i].range);
        assert_ok(deletion_read(&x, NOW_MS * NS_PER_MS, &t, e));
        if (!hide_has_time(&t.hide, cases[i].first_ns) ||
            hide_has_time(&t.hide, cases[i].first_ns - 1) ||
            !hide_has_time(&t.hide, cases[i].last_ns) ||
            hide_has_time(&t.hide, cases[i].last_ns + 1))
            fail_msg("%s: after %lld up to %lld", cases[i].range, (long long)t.hide.from_ns,
                     (long long)t.hide.to_ns);
        req_release(&x.req);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(deletions_are_carried_out_and_then_done),
                                       cmocka_unit_test(a_range_has_its_first_and_its_last_moment)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
