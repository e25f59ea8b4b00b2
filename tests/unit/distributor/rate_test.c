// SPDX-License-Identifier: Apache-2.0
#include "distributor/rate.h"
#include "lib/test.h"
#include "sys/clock.h"

#include <stdio.h>

#define SECOND ((uint64_t)NS_PER_S)

static void rate_refuses_what_the_bucket_lacks(void **state)
{
    (void)state;
    struct rates r;
    rates_init(&r);
    str t = S("a");
    assert_true(rates_take(&r, t, 100, 50, 1, 50, 5 * SECOND));
    assert_false(rates_take(&r, t, 100, 50, 1, 1, 5 * SECOND));
    assert_true(rates_take(&r, t, 100, 50, 1, 10, 5 * SECOND + SECOND / 10));
    assert_false(rates_take(&r, t, 100, 50, 1, 51, 500 * SECOND));  // never: larger than the burst
    assert_true(rates_take(&r, t, 100, 50, 1, 50, 500 * SECOND));
    assert_true(rates_take(&r, S("b"), 100, 50, 1, 50, 500 * SECOND));
    assert_true(rates_take(&r, t, 0, 0, 1, 1u << 30, 500 * SECOND));  // no limit
    rates_release(&r);
    rates_release(&r);
}

// Each distributor gets its part of all pushes, so the rate is divided among them. One push comes
// to one distributor as a whole, so the burst is not.
static void rate_is_shared_by_distributors_and_the_burst_is_not(void **state)
{
    (void)state;
    struct rates r;
    rates_init(&r);
    str t = S("a");
    assert_true(rates_take(&r, t, 100, 50, 5, 50, 5 * SECOND));
    assert_true(rates_take(&r, t, 100, 50, 5, 20, 6 * SECOND));
    assert_false(rates_take(&r, t, 100, 50, 5, 1, 6 * SECOND));
    assert_true(rates_take(&r, t, 100, 50, 5, 50, 500 * SECOND));
    rates_release(&r);
}

static void rate_keeps_many_tenants_apart(void **state)
{
    (void)state;
    struct rates r;
    rates_init(&r);
    unsigned refused = 0;
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < 5000; i++) {
            char name[16];
            snprintf(name, sizeof name, "t%d", i);
            refused += !rates_take(&r, str_of(name), 10, 100, 1, 80, SECOND);
        }
    }
    assert_true(refused > 4900 && refused <= 5000);
    rates_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rate_refuses_what_the_bucket_lacks),
        cmocka_unit_test(rate_is_shared_by_distributors_and_the_burst_is_not),
        cmocka_unit_test(rate_keeps_many_tenants_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
