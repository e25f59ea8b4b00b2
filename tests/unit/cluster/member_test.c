// SPDX-License-Identifier: Apache-2.0
#include "cluster/member.h"
#include "lib/test.h"

static void members_are_listed_by_kind_in_order_of_id(void **state)
{
    (void)state;
    struct members *m = NULL;
    assert_ok((m = members_new(e)) != NULL);
    assert_ok(members_add(m, MEMBER_INGESTER, S(" b = 10.0.0.2:4041 "), e));
    assert_ok(members_add(m, MEMBER_QUERIER, S("q=10.0.0.9:4041"), e));
    assert_ok(members_add(m, MEMBER_INGESTER, S("a=unix:/run/a.sock"), e));
    assert_ok(members_add(m, MEMBER_INGESTER, S("10.0.0.1:4041"), e));
    struct arena a;
    arena_init(&a, NULL, 1 << 16);
    size_t n = 0;
    struct member *v = members_of(m, &a, MEMBER_INGESTER, &n);
    assert_int_equal(n, 3);
    assert_true(str_is(v[0].id, "10.0.0.1:4041"));
    assert_true(str_is(v[0].address, "10.0.0.1:4041"));
    assert_true(str_is(v[1].id, "a"));
    assert_true(str_is(v[1].address, "unix:/run/a.sock"));
    assert_true(str_is(v[2].id, "b"));
    assert_true(str_is(v[2].address, "10.0.0.2:4041"));
    assert_true(v[0].alive && v[1].alive && v[2].alive);
    assert_null(members_of(m, &a, MEMBER_COMPACTOR, &n));
    assert_int_equal(n, 0);
    arena_release(&a);
    members_free(m);
}

static bool alive(struct members *m)
{
    struct arena a;
    arena_init(&a, NULL, 4096);
    size_t n = 0;
    struct member *v = members_of(m, &a, MEMBER_INGESTER, &n);
    bool is = v && v[0].alive;
    arena_release(&a);
    return is;
}

static void three_failures_in_a_row_make_a_member_seem_dead(void **state)
{
    (void)state;
    struct members *m = NULL;
    assert_ok((m = members_new(e)) != NULL);
    assert_ok(members_add(m, MEMBER_INGESTER, S("a=x:1"), e));
    static const struct {
        bool answered;
        bool alive;
    } steps[] = {{false, true},  {false, true},  {true, true}, {false, true}, {false, true},
                 {false, false}, {false, false}, {true, true}, {false, true}};
    for (size_t i = 0; i < COUNT(steps); i++) {
        members_report(m, S("a"), steps[i].answered);
        members_report(m, S("nobody"), false);
        if (alive(m) != steps[i].alive) fail_msg("step %zu", i);
    }
    members_free(m);
}

static void wrong_entries_are_refused(void **state)
{
    (void)state;
    struct members *m = NULL;
    assert_ok((m = members_new(e)) != NULL);
    assert_ok(members_add(m, MEMBER_INGESTER, S("a=x:1"), e));
    static const char *const cases[] = {"", " ", "=", "b=", "=x:1", "a=y:2"};
    for (size_t i = 0; i < COUNT(cases); i++) {
        err fault = {0};
        assert_false(members_add(m, MEMBER_INGESTER, str_of(cases[i]), &fault));
        assert_int_equal(fault.code, ERR_INVALID_ARGUMENT);
    }
    assert_ok(members_add(m, MEMBER_QUERIER, S("a=x:1"), e));  // another kind may use the id
    members_free(m);
}

static void nothing_is_returned_from_an_exhausted_arena(void **state)
{
    (void)state;
    struct members *m = NULL;
    assert_ok((m = members_new(e)) != NULL);
    assert_ok(members_add(m, MEMBER_INGESTER, S("a=x:1"), e));
    for (size_t cap = 0; cap < 112; cap += 16) {
        struct arena a;
        arena_init(&a, NULL, cap);
        size_t n = 9;
        if (!members_of(m, &a, MEMBER_INGESTER, &n)) assert_int_equal(n, 0);
        arena_release(&a);
    }
    members_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members_are_listed_by_kind_in_order_of_id),
        cmocka_unit_test(three_failures_in_a_row_make_a_member_seem_dead),
        cmocka_unit_test(wrong_entries_are_refused),
        cmocka_unit_test(nothing_is_returned_from_an_exhausted_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
