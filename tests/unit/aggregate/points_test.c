// SPDX-License-Identifier: Apache-2.0
//
// Times belong to the point that covers them, at the ends of int64 too.
#include "aggregate/points.h"
#include "lib/test.h"

// By the definition: point k covers (first + (k-1) * step, first + k * step], the first one all
// that is earlier too.
static bool covers(const struct points *p, int64_t k, int64_t time_ns)
{
    __int128 end = (__int128)p->first_ns + (__int128)k * p->step_ns;
    return (k == 0 || time_ns > end - p->step_ns) && time_ns <= end;
}

static void a_time_belongs_to_the_point_that_covers_it(void **state)
{
    (void)state;
    const struct points grids[] = {
        {.first_ns = 0, .step_ns = 1, .count = 3},   {.first_ns = 10, .step_ns = 7, .count = 4},
        {.first_ns = -20, .step_ns = 7, .count = 4}, {.first_ns = -3, .step_ns = 1, .count = 1},
        {.first_ns = 5, .step_ns = 100, .count = 2},
    };
    for (size_t i = 0; i < COUNT(grids); i++) {
        for (int64_t t = -250; t < 250; t++) {
            int64_t want = -1;
            int64_t got = -1;
            for (int64_t k = 0; k < grids[i].count; k++) {
                if (covers(&grids[i], k, t)) want = k;
            }
            bool found = points_at(&grids[i], t, &got);
            if (found != (want >= 0) || (found && got != want)) {
                fail_msg("grid %zu, time %lld: %lld", i, (long long)t, (long long)got);
            }
            int64_t nearest = points_nearest(&grids[i], t);
            if (want < 0) want = grids[i].count - 1;
            assert_int_equal(nearest, want);
        }
    }
}

// The ms in which a question begins, to its last ns.
static void rows_soon_after_the_first_point_belong_to_it(void **state)
{
    (void)state;
    const struct points p = {.first_ns = 10, .step_ns = 7, .count = 3, .early_ns = 4};
    static const int64_t wanted[] = {0, 0, 0, 0, 0, 0, 1, 1, 1, 2, 2};  // of times 9, 10, ..
    for (size_t i = 0; i < COUNT(wanted); i++) {
        int64_t point = -1;
        assert_true(points_of_row(&p, 9 + (int64_t)i, &point));
        assert_int_equal(point, wanted[i]);
        assert_int_equal(points_nearest(&p, 9 + (int64_t)i), wanted[i]);
    }
    int64_t point = -1;
    assert_true(points_at(&p, 11, &point));
    assert_int_equal(point, 1);  // of a slot
    assert_false(points_of_row(&p, 25, &point));
}

static void times_at_the_ends_of_int64_do_not_wrap(void **state)
{
    (void)state;
    const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, INT64_MAX - 1, INT64_MAX};
    for (size_t f = 0; f < COUNT(ends); f++) {
        for (size_t s = 0; s < COUNT(ends); s++) {
            struct points p = {.first_ns = ends[f], .step_ns = ends[s], .count = 3};
            if (p.step_ns < 1) continue;
            for (size_t t = 0; t < COUNT(ends); t++) {
                int64_t point = -1;
                if (points_at(&p, ends[t], &point)) assert_true(covers(&p, point, ends[t]));
                int64_t nearest = points_nearest(&p, ends[t]);
                assert_true(nearest >= 0 && nearest < p.count);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_time_belongs_to_the_point_that_covers_it),
        cmocka_unit_test(rows_soon_after_the_first_point_belong_to_it),
        cmocka_unit_test(times_at_the_ends_of_int64_do_not_wrap),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
