// SPDX-License-Identifier: Apache-2.0
#include "ingester/stuck.h"
#include "lib/clock.h"
#include "lib/test.h"

static void only_who_waits_for_long_is_stuck(void **state)
{
    (void)state;
    struct stuck s = {0};
    clock_pass_mono(10 * NS_PER_S);
    assert_int_equal(stuck_for_ns(&s), 0);
    stuck_enter(&s);
    assert_true(stuck_for_ns(&s) < STUCK_NS);
    clock_pass_mono(4 * NS_PER_S);
    assert_true(stuck_for_ns(&s) >= STUCK_NS);
    stuck_enter(&s);  // who comes later waits as well
    assert_true(stuck_for_ns(&s) >= STUCK_NS);
    stuck_leave(&s);  // one came back: it moves
    assert_true(stuck_for_ns(&s) < STUCK_NS);
    clock_pass_mono(4 * NS_PER_S);
    assert_true(stuck_for_ns(&s) >= STUCK_NS);
    stuck_leave(&s);
    assert_int_equal(stuck_for_ns(&s), 0);
}

int main(void)
{
    clock_take_over();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_who_waits_for_long_is_stuck),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
