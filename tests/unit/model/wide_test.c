// SPDX-License-Identifier: Apache-2.0
//
// Sums of 64 bits with a carry are what sums of 128 bits are.
#include "lib/test.h"
#include "model/columns.h"
#include "model/vector.h"
#include "unit/model/random.h"

static const int64_t edges[] = {0, 1, -1, 5, INT64_MAX, INT64_MAX - 1, INT64_MIN, INT64_MIN + 1};

static __int128 value_of(struct wide v)
{
    return (__int128)v.carry * ((__int128)1 << 64) + v.low;
}

static void sums_and_products_are_those_of_128_bits(void **state)
{
    (void)state;
    struct random r = {3};
    for (int round = 0; round < 2000; round++) {
        struct wide sum = {0};
        struct wide other = {0};
        __int128 want = 0;
        for (int i = 0; i < 9; i++) {
            int64_t v = edges[random_below(&r, COUNT(edges))];
            int64_t factor = (int64_t)random_below(&r, 7) - 3;
            struct wide *to = i % 2 ? &sum : &other;
            if (i % 3) wide_add(to, v);
            if (i % 3 == 0) wide_add_product(to, v, factor);
            want += i % 3 ? (__int128)v : (__int128)v * factor;
        }
        wide_unite(&sum, other);
        bool fits = want >= INT64_MIN && want <= INT64_MAX;
        assert_true(value_of(sum) == want && wide_fits(sum) == fits);
        assert_true(wide_negative(sum) == (want < 0));
        assert_true((__int128)wide_size(sum) == (want < 0 ? -want : want));
        int64_t nearest = want < INT64_MIN ? INT64_MIN : INT64_MAX;
        assert_true(wide_clip(sum) == (fits ? (int64_t)want : nearest));
    }
}

static void both_forms_of_vectors_add_to_wide_sums(void **state)
{
    (void)state;
    const struct vector_entry v[] = {{0, 7}, {2, INT64_MAX}, {3, INT64_MIN}};
    struct wide sums[4] = {0};
    struct buf vector;
    struct buf columns;
    err why = {0};
    buf_init(&vector, NULL, 1000);
    buf_init(&columns, NULL, 1000);
    vector_encode(v, COUNT(v), &vector);
    columns_encode(v, COUNT(v), &columns);
    for (int i = 0; i < 3; i++) {
        assert_ok(vector_add_wide(buf_view(&vector), 2, sums, COUNT(sums), e));
        assert_ok(columns_add_wide(buf_view(&columns), -1, sums, COUNT(sums), e));
    }
    assert_true(value_of(sums[0]) == 21 && value_of(sums[1]) == 0);
    assert_true(value_of(sums[2]) == (__int128)INT64_MAX * 3);
    assert_true(value_of(sums[3]) == (__int128)INT64_MIN * 3);
    assert_false(vector_add_wide(buf_view(&vector), 1, sums, 3, &why));
    assert_int_equal(why.code, ERR_INVALID_ARGUMENT);
    assert_false(columns_add_wide(buf_view(&columns), 1, sums, 3, &why));
    assert_int_equal(why.code, ERR_INVALID_ARGUMENT);
    buf_release(&vector);
    buf_release(&columns);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_and_products_are_those_of_128_bits),
        cmocka_unit_test(both_forms_of_vectors_add_to_wide_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
