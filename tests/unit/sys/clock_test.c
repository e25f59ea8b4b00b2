// SPDX-License-Identifier: Apache-2.0
#include "lib/clock.h"
#include "lib/test.h"
#include "sys/lock.h"

#define HOUR_NS ((uint64_t)3600 * (uint64_t)NS_PER_S)

static void time_goes_by_when_a_test_says_so(void **state)
{
    (void)state;
    int64_t wall = clock_wall_ns();
    int64_t boot = clock_boot_ns();
    uint64_t mono = clock_mono_ns();
    clock_pass((int64_t)HOUR_NS);
    assert_true(clock_wall_ns() - wall >= (int64_t)HOUR_NS);
    assert_true(clock_boot_ns() - boot >= (int64_t)HOUR_NS);
    assert_true(clock_mono_ns() - mono < HOUR_NS);
}

static void time_limits_pass_when_a_test_says_so(void **state)
{
    (void)state;
    int64_t wall = clock_wall_ns();
    uint64_t mono = clock_mono_ns();
    clock_pass_mono((int64_t)HOUR_NS);
    assert_true(clock_mono_ns() - mono >= HOUR_NS);
    assert_true(clock_wall_ns() - wall < (int64_t)HOUR_NS);
}

// Else it would take as long as the clock is ahead.
static void a_wait_ends_though_its_clock_is_ahead(void **state)
{
    (void)state;
    struct lock l = LOCK_INIT(LOCK_CONFIG);
    struct cond c;
    cond_init(&c);
    clock_pass_mono((int64_t)HOUR_NS);
    lock_take(&l);
    uint64_t until = clock_mono_ns() + (uint64_t)(10 * NS_PER_MS);
    while (cond_wait_until(&c, &l, until)) {
    }
    assert_true(clock_mono_ns() >= until);
    lock_give(&l);
    cond_release(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(time_goes_by_when_a_test_says_so),
        cmocka_unit_test(time_limits_pass_when_a_test_says_so),
        cmocka_unit_test(a_wait_ends_though_its_clock_is_ahead),
    };
    clock_take_over();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
