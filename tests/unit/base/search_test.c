// SPDX-License-Identifier: Apache-2.0
//
// search.h, sort.h and number.h against the slow way.
#include "base/number.h"
#include "base/search.h"
#include "base/sort.h"
#include "lib/test.h"

#define MOST 40

static uint64_t seed = 7;

static uint32_t below(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

static size_t first_not_below(const uint32_t *v, size_t from, size_t to, uint32_t key)
{
    while (from < to && v[from] < key)
        from++;
    return from;
}

static void a_search_finds_the_first_place(void **state)
{
    (void)state;
    uint32_t v[MOST];
    for (size_t n = 0; n <= MOST; n++) {
        v[0] = below(3);
        for (size_t i = 1; i < n; i++)
            v[i] = v[i - 1] + below(3);
        for (uint32_t key = 0; key < 2 * MOST + 3; key++) {
            for (size_t from = 0; from <= n; from += 1 + n / 5) {
                size_t looks = 0;
                size_t found = SEARCH(at, from, n, (looks++, v[at] < key));
                assert_int_equal(found, first_not_below(v, from, n, key));
                assert_true(looks <= 7);  // 2^6 > MOST
                assert_int_equal(SEARCH(at, from, n, v[at] <= key),
                                 first_not_below(v, from, n, key + 1));
            }
        }
    }
    assert_int_equal(SEARCH(at, 3, 2, false), 3);  // nothing is looked at
}

struct pair {
    uint32_t key;
    uint32_t place;
};

static bool is_later(struct pair a, struct pair b)
{
    return a.key > b.key;
}

static void a_sort_keeps_the_order_of_equals(void **state)
{
    (void)state;
    struct pair v[MOST];
    for (size_t n = 0; n <= MOST; n++) {
        for (uint32_t i = 0; i < n; i++)
            v[i] = (struct pair){below(8), i};
        INSERTION_SORT(v, n, is_later);
        uint64_t places = 0;
        for (size_t i = 0; i < n; i++) {
            places |= UINT64_C(1) << v[i].place;
            if (i == 0) continue;
            assert_true(v[i - 1].key <= v[i].key);
            if (v[i - 1].key == v[i].key) assert_true(v[i - 1].place < v[i].place);
        }
        assert_int_equal(places, (UINT64_C(1) << n) - 1);
    }
}

static void a_divisor_divides_and_none_is_greater(void **state)
{
    (void)state;
    static const struct {
        uint64_t a, b, expected;
    } cases[] = {
        {0, 0, 0},
        {0, 12, 12},
        {12, 0, 12},
        {12, 18, 6},
        {18, 12, 6},
        {6, 600, 6},
        {1, UINT64_MAX, 1},
        {UINT64_MAX, UINT64_MAX, UINT64_MAX},
        {UINT64_C(1) << 63, UINT64_C(3) << 62, UINT64_C(1) << 62},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(number_gcd(cases[i].a, cases[i].b), cases[i].expected);
    for (uint32_t i = 0; i < 1000; i++) {
        uint64_t a = 1 + below(300);
        uint64_t b = 1 + below(300);
        uint64_t most = 0;
        for (uint64_t d = 1; d <= a; d++)
            if (a % d == 0 && b % d == 0) most = d;
        assert_int_equal(number_gcd(a, b), most);
    }
    assert_int_equal(number_magnitude(-5), 5);
    assert_int_equal(number_magnitude(INT64_MAX), INT64_MAX);
    assert_true(number_magnitude(INT64_MIN) == UINT64_C(1) << 63);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_search_finds_the_first_place),
        cmocka_unit_test(a_sort_keeps_the_order_of_equals),
        cmocka_unit_test(a_divisor_divides_and_none_is_greater),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
