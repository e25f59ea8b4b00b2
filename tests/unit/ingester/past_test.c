// SPDX-License-Identifier: Apache-2.0
#include "ingester/past.h"
#include "lib/test.h"

static struct loose_key key_of(uint64_t n)
{
    struct loose_key k = {.series = n % 7};
    memcpy(k.id.b, &n, sizeof n);
    return k;
}

static void what_was_added_is_known_by_tenant_series_and_id(void **state)
{
    (void)state;
    struct past p;
    struct mem_budget b;
    mem_budget_init(&b, "test", NULL, 0);
    past_init(&p, &b);
    assert_false(past_has(&p, S("a"), key_of(1)));
    for (uint64_t i = 0; i < 5000; i++)
        past_add(&p, S("a"), key_of(i), SIZE_MAX);
    for (uint64_t i = 0; i < 5000; i++) {
        struct loose_key other = key_of(i);
        assert_true(past_has(&p, S("a"), key_of(i)));
        assert_false(past_has(&p, S("b"), key_of(i)));
        other.series += 100;
        assert_false(past_has(&p, S("a"), other));
    }
    assert_false(past_has(&p, S("a"), key_of(5000)));
    past_release(&p);
    assert_int_equal(atomic_load(&b.used), 0);
}

static void the_oldest_are_forgotten_when_their_room_is_full(void **state)
{
    (void)state;
    struct past p;
    struct mem_budget b;
    const size_t most = (size_t)1 << 16;
    mem_budget_init(&b, "test", NULL, 0);
    past_init(&p, &b);
    for (uint64_t i = 0; i < 100000; i++) {
        past_add(&p, S("a"), key_of(i), most);
        assert_true(atomic_load(&b.used) <= 2 * most);
        assert_true(past_has(&p, S("a"), key_of(i)));
        if (i > 1000) assert_true(past_has(&p, S("a"), key_of(i - 1000)));
    }
    assert_false(past_has(&p, S("a"), key_of(0)));
    past_release(&p);
}

static void without_memory_nothing_is_known_and_nothing_breaks(void **state)
{
    (void)state;
    struct past p;
    struct mem_budget b;
    mem_budget_init(&b, "test", NULL, 16);
    past_init(&p, &b);
    past_add(&p, S("a"), key_of(1), SIZE_MAX);
    assert_false(past_has(&p, S("a"), key_of(1)));
    past_release(&p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_added_is_known_by_tenant_series_and_id),
        cmocka_unit_test(the_oldest_are_forgotten_when_their_room_is_full),
        cmocka_unit_test(without_memory_nothing_is_known_and_nothing_breaks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
