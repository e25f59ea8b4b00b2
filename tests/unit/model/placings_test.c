// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "model/placings.h"

static void a_set_has_each_once_in_order(void **state)
{
    (void)state;
    static const uint64_t added[] = {9, 3, 9, 0, 5, 3};
    struct placings s = {0};
    assert_false(placings_differ(&s));
    for (size_t i = 0; i < COUNT(added); i++)
        placings_add(&s, added[i]);
    assert_int_equal(s.n, 3);
    assert_true(s.v[0] == 3 && s.v[1] == 5 && s.v[2] == 9);
}

static void two_differ_and_one_does_not(void **state)
{
    (void)state;
    struct placings s = {0};
    placings_add(&s, 3);
    assert_false(placings_differ(&s));
    // A distributor that tells none may have any list.
    placings_add(&s, PLACING_UNKNOWN);
    assert_true(placings_differ(&s));
}

// Nothing is forgotten: a set that is full is as good as one of all there are.
static void too_many_are_many_for_ever(void **state)
{
    (void)state;
    struct placings s = {0};
    struct placings other = {0};
    for (uint64_t i = 0; i < PLACINGS_MAX; i++)
        placings_add(&s, 2 * i + 1);
    assert_int_equal(s.n, PLACINGS_MAX);
    placings_add(&s, 1);
    assert_int_equal(s.n, PLACINGS_MAX);
    placings_add(&s, 101);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(s.n, 1);
        assert_true(s.v[0] == PLACING_MANY);
        assert_true(placings_differ(&s));
        placings_add(&s, 3);
    }
    placings_add(&other, 3);
    placings_join(&other, &s);
    assert_true(other.n == 1 && other.v[0] == PLACING_MANY);
    placings_join(&s, &other);
    assert_int_equal(s.n, 1);
}

static void a_field_comes_back(void **state)
{
    (void)state;
    struct placings s = {0};
    struct placings back = {0};
    struct buf out;
    buf_init(&out, NULL, 1000);
    placings_put(&s, 17, &out);
    assert_int_equal(out.n, 0);
    placings_add(&s, UINT64_C(0x8000000000000001));
    placings_add(&s, 5);
    placings_put(&s, 17, &out);
    struct pb_reader r = pb_reader(buf_view(&out));
    assert_true(pb_next(&r));
    assert_true(r.field == 17 && r.type == PB_BYTES);
    assert_ok(placings_read(&back, r.bytes, e));
    assert_memory_equal(&back, &s, sizeof s);
    for (size_t n = 0; n < 8; n++) {
        err e = {0};
        bool whole = n == 0;
        assert_int_equal(placings_read(&back, str_slice(r.bytes, 0, 8 + n), &e), whole);
        assert_int_equal(e.code, whole ? ERR_OK : ERR_INVALID_ARGUMENT);
    }
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_has_each_once_in_order),
        cmocka_unit_test(two_differ_and_one_does_not),
        cmocka_unit_test(too_many_are_many_for_ever),
        cmocka_unit_test(a_field_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
