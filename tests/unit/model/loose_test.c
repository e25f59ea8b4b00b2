// SPDX-License-Identifier: Apache-2.0
//
// Loose rows are found with the keeper that was noted first.
#include "lib/test.h"
#include "model/loose.h"

static struct loose_key key_of(uint32_t i)
{
    struct loose_key k = {.series = i % 7 * UINT64_C(0x0102030405060708)};
    memcpy(k.id.b + 4, &i, sizeof i);
    return k;
}

static void rows_are_found_with_their_first_keeper(void **state)
{
    (void)state;
    struct arena a;
    struct loose_set s;
    arena_init(&a, NULL, 1 << 24);
    loose_init(&s, &a, NULL, 5000);
    for (uint32_t i = 0; i < 5000; i++)
        assert_ok(loose_add(&s, key_of(i), i % 3, e));
    for (uint32_t i = 0; i < 5000; i++)
        assert_ok(loose_add(&s, key_of(i), 9, e));
    assert_int_equal(s.n, 5000);
    for (uint32_t i = 0; i < 5000; i++)
        assert_int_equal(loose_find(&s, key_of(i))->keeper, i % 3);
    assert_null(loose_find(&s, key_of(5000)));
    struct loose_key other = key_of(1);
    other.series++;  // the same profile id in another series
    assert_null(loose_find(&s, other));
    loose_release(&s);
    arena_release(&a);
}

static void more_than_allowed_is_refused_and_noted_once(void **state)
{
    (void)state;
    struct arena a;
    struct loose_set s;
    err e = {0};
    arena_init(&a, NULL, 1 << 20);
    loose_init(&s, &a, NULL, 2);
    for (uint32_t i = 0; i < 2; i++)
        loose_note(&s, key_of(i));
    assert_int_equal(s.fault.code, ERR_OK);
    assert_false(loose_add(&s, key_of(2), 0, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    assert_string_equal(e.msg, "more than 2 rows of the range may be in two ingesters");
    loose_note(&s, key_of(2));
    assert_int_equal(s.fault.code, ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(s.n, 2);
    loose_release(&s);
    arena_release(&a);
}

static void keys_come_back_from_their_bytes(void **state)
{
    (void)state;
    struct arena a;
    struct loose_set s;
    struct loose_set back;
    struct buf out;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&out, NULL, 1 << 20);
    loose_init(&s, &a, NULL, 100);
    loose_init(&back, &a, NULL, 100);
    for (uint32_t i = 0; i < 100; i++)
        assert_ok(loose_add(&s, key_of(i), i % 2, e));
    for (uint32_t keeper = 0; keeper < 2; keeper++) {
        buf_clear(&out);
        loose_encode(&s, keeper, &out);
        assert_int_equal(out.n, 50 * LOOSE_KEY_BYTES);
        const uint8_t *bytes = tail_guard(out.p, out.n);
        assert_ok(loose_decode(&back, str_make(bytes, out.n), keeper, e));
    }
    assert_int_equal(back.n, 100);
    for (uint32_t i = 0; i < 100; i++)
        assert_int_equal(loose_find(&back, key_of(i))->keeper, i % 2);
    err e = {0};
    assert_false(loose_decode(&back, str_make(out.p, out.n - 1), 0, &e));
    assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    loose_release(&s);
    loose_release(&back);
    buf_release(&out);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_found_with_their_first_keeper),
        cmocka_unit_test(more_than_allowed_is_refused_and_noted_once),
        cmocka_unit_test(keys_come_back_from_their_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
