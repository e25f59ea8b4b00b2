// SPDX-License-Identifier: Apache-2.0
//
// Shares of a profile: where they lie, and that they add up to its value.
#include "aggregate/shares.h"
#include "lib/test.h"

#include <stdlib.h>

// "from: share share .." for a profile that is spread, else "-".
static void print_shares(const struct points *p, int64_t time, int64_t duration, int64_t value,
                         char *text, size_t room)
{
    struct shares s;
    if (!shares_init(&s, p, time, duration, value)) {
        snprintf(text, room, "-");
        return;
    }
    size_t n = (size_t)snprintf(text, room, "%lld:", (long long)s.from);
    for (int64_t k = s.from; k <= s.to; k++)
        n += (size_t)snprintf(text + n, room - n, " %lld", (long long)shares_at(&s, k));
}

static void a_value_lies_where_its_duration_does(void **state)
{
    (void)state;
    const struct points p = {.first_ns = 100, .step_ns = 20, .count = 5};  // to 180
    static const struct {
        const char *name;
        int64_t time;
        int64_t duration;
        int64_t value;
        const char *wanted;
    } rows[] = {
        {"within a point", 102, 15, 60, "1: 60"},
        {"up to a border", 105, 15, 60, "1: 60"},
        {"from a border", 120, 15, 60, "2: 60"},
        {"over a border", 115, 15, 60, "1: 20 40"},
        {"over three points", 110, 40, 80, "1: 20 40 20"},
        {"before the first point", 60, 60, 60, "0: 40 20"},
        {"behind the last point", 150, 100, 100, "3: 10 90"},
        {"all behind it", 300, 10, 7, "4: 7"},
        {"the odd unit to the largest remainder", 115, 15, 10, "1: 3 7"},
        {"to the earlier of equal ones", 110, 20, 1, "1: 1 0"},
        {"middle ones first to last", 110, 60, 4, "1: 1 1 1 1"},
        {"most to middle ones", 110, 60, 2, "1: 0 1 1 0"},
        {"negative", 115, 15, -10, "1: -3 -7"},
        {"nothing", 115, 15, 0, "1: 0 0"},
        {"no duration", 115, 0, 10, "-"},
        {"less than no duration", 115, -5, 10, "-"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        char text[256];
        print_shares(&p, rows[i].time, rows[i].duration, rows[i].value, text, sizeof text);
        if (strcmp(text, rows[i].wanted) != 0) fail_msg("%s: %s", rows[i].name, text);
    }
}

// Four cores in profiles of 15 s, in steps of 20 s, from any second on.
static void profiles_without_gaps_make_a_level_line(void **state)
{
    (void)state;
    const int64_t second = 1000000000;
    for (int64_t phase = 0; phase < 20; phase++) {
        int64_t sums[16] = {0};
        const struct points p = {.first_ns = 0, .step_ns = 20 * second, .count = 16};
        for (int64_t i = 0; i < 20; i++) {
            struct shares s;
            assert_true(shares_init(&s, &p, (phase + 15 * i) * second, 15 * second, 60 * second));
            for (int64_t k = s.from; k <= s.to; k++)
                sums[k] += shares_at(&s, k);
        }
        for (int64_t k = 2; k < 15; k++)
            assert_int_equal(sums[k], 80 * second);
    }
}

static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

// Against the definition, with the overlap of each point by itself.
static void shares_add_up_and_are_within_a_unit_of_their_part(void **state)
{
    (void)state;
    uint64_t seed = 4711;
    for (int round = 0; round < 20000; round++) {
        const struct points p = {.first_ns = (int64_t)(next(&seed) % 1000),
                                 .step_ns = (int64_t)(next(&seed) % 50) + 1,
                                 .count = (int64_t)(next(&seed) % 12) + 1};
        int64_t time = (int64_t)(next(&seed) % 1500);
        int64_t duration = (int64_t)(next(&seed) % 400) + 1;
        int64_t value = (int64_t)(next(&seed) % 1000) - 300;
        struct shares s;
        __int128 sum = 0;
        assert_true(shares_init(&s, &p, time, duration, value));
        assert_true(s.from >= 0 && s.from <= s.to && s.to < p.count);
        for (int64_t k = s.from; k <= s.to; k++) {
            int64_t left = k == 0 ? INT64_MIN : p.first_ns + (k - 1) * p.step_ns;
            int64_t right = k == p.count - 1 ? INT64_MAX : p.first_ns + k * p.step_ns;
            int64_t overlap = MIN(right, time + duration) - MAX(left, time);
            int64_t share = shares_at(&s, k);
            sum += share;
            assert_true(overlap > 0);
            assert_true(llabs(share * duration - value * overlap) < duration);
        }
        assert_true(sum == value);
    }
}

static void numbers_at_the_ends_of_int64_do_not_wrap(void **state)
{
    (void)state;
    const int64_t ends[] = {INT64_MIN, INT64_MIN + 1, -1, 0, 1, 7, INT64_MAX - 1, INT64_MAX};
    for (size_t i = 0; i < COUNT(ends) * COUNT(ends) * COUNT(ends); i++) {
        int64_t time = ends[i % COUNT(ends)];
        int64_t duration = ends[i / COUNT(ends) % COUNT(ends)];
        int64_t value = ends[i / COUNT(ends) / COUNT(ends)];
        for (size_t f = 0; f < COUNT(ends); f++) {
            const struct points p = {.first_ns = ends[f], .step_ns = INT64_MAX / 3, .count = 4};
            struct shares s;
            if (!shares_init(&s, &p, time, duration, value)) continue;
            __int128 sum = 0;
            for (int64_t k = s.from; k <= s.to; k++)
                sum += shares_at(&s, k);
            assert_true(sum == value);
        }
    }
}

static void a_claim_of_very_many_points_is_not_spread(void **state)
{
    (void)state;
    struct shares s;
    const struct points p = {.first_ns = 0, .step_ns = 1, .count = INT64_MAX};
    assert_false(shares_init(&s, &p, 0, INT64_MAX, 1));
    assert_false(shares_init(&s, &p, 0, SHARES_POINTS_MAX + 1, 1));
    assert_true(shares_init(&s, &p, 0, SHARES_POINTS_MAX, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_lies_where_its_duration_does),
        cmocka_unit_test(profiles_without_gaps_make_a_level_line),
        cmocka_unit_test(shares_add_up_and_are_within_a_unit_of_their_part),
        cmocka_unit_test(numbers_at_the_ends_of_int64_do_not_wrap),
        cmocka_unit_test(a_claim_of_very_many_points_is_not_spread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
