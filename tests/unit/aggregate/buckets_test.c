// SPDX-License-Identifier: Apache-2.0
//
// Values are in the right bucket, and extents of parts are that of the whole.
#include "aggregate/buckets.h"
#include "base/buf.h"
#include "lib/test.h"

static void a_value_is_in_the_last_bucket_that_begins_before_it(void **state)
{
    (void)state;
    static const int64_t bounds[][6] = {{-150, 0, 0, 100, 700, 900},
                                        {5, 5, 5, 5, 5, 5},
                                        {INT64_MIN, -1, 0, 1, 2, INT64_MAX},
                                        {0, 0, 1, 1, 2, 2}};
    static const int64_t values[] = {INT64_MIN, -151, -150, -1,  0,   1,        2,
                                     4,         5,    6,    700, 899, INT64_MAX};
    for (size_t i = 0; i < COUNT(bounds); i++) {
        for (size_t n = 0; n <= COUNT(bounds[i]); n++) {
            const struct buckets b = {.bounds = bounds[i], .n = n, .largest = 1000};
            assert_ok(buckets_check(&b, e));
            for (size_t v = 0; v < COUNT(values); v++) {
                uint32_t want = UINT32_MAX;
                uint32_t got = UINT32_MAX;
                for (uint32_t k = 0; k < n && values[v] <= b.largest; k++) {
                    if (bounds[i][k] <= values[v]) want = k;
                }
                assert_int_equal(buckets_at(&b, values[v], &got), want != UINT32_MAX);
                assert_int_equal(got, want);
            }
        }
    }
}

static void bounds_that_descend_are_refused_with_their_values(void **state)
{
    (void)state;
    static const int64_t bounds[] = {1, 3, 2};
    err e = {0};
    assert_false(buckets_check(&(struct buckets){.bounds = bounds, .n = 3}, &e));
    assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(e.msg, "lower bound 2 of a heat map is 2, below the one before (3)"));
}

static struct extent extent_of(const int64_t *v, size_t n)
{
    struct extent x = {0};
    for (size_t i = 0; i < n; i++)
        extent_add(&x, v[i]);
    return x;
}

static void extents_of_parts_are_that_of_the_whole(void **state)
{
    (void)state;
    static const int64_t v[] = {7, -3, 12, INT64_MIN, 0, INT64_MAX, 5};
    for (size_t from = 0; from < COUNT(v); from++) {
        for (size_t n = 0; from + n <= COUNT(v); n++) {
            for (size_t cut = 0; cut <= n; cut++) {
                struct extent whole = extent_of(v + from, n);
                struct extent got = extent_of(v + from, cut);
                struct extent rest = extent_of(v + from + cut, n - cut);
                struct buf out;
                buf_init(&out, NULL, 100);
                extent_encode(&rest, &out, 1);
                // Tag and length go before the message.
                assert_ok(extent_merge_bytes(&got, str_make(out.p + 2, out.n - 2), e));
                buf_release(&out);
                assert_int_equal(got.count, whole.count);
                assert_int_equal(got.least, whole.least);
                assert_int_equal(got.largest, whole.largest);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_in_the_last_bucket_that_begins_before_it),
        cmocka_unit_test(bounds_that_descend_are_refused_with_their_values),
        cmocka_unit_test(extents_of_parts_are_that_of_the_whole),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
