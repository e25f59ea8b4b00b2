// SPDX-License-Identifier: Apache-2.0
#include "distributor/refusal.h"
#include "lib/test.h"
#include "sys/clock.h"

#include <stdio.h>

#define SECOND ((uint64_t)NS_PER_S)

static struct refusals r;

static bool admitted(const char *tenant, const char *reason, uint64_t second, struct refusal *x)
{
    *x = (struct refusal){.tenant = str_of(tenant), .reason = str_of(reason)};
    return refusals_admit(&r, x, second * SECOND) != NULL;
}

static void one_line_per_tenant_and_reason_in_an_interval(void **state)
{
    (void)state;
    struct refusal x;
    refusals_init(&r);
    assert_true(admitted("a", "rate_limited", 100, &x));
    assert_int_equal(x.again, 0);
    assert_false(admitted("a", "rate_limited", 100, &x));
    assert_false(admitted("a", "rate_limited", 109, &x));
    assert_true(admitted("a", "samples_limit", 109, &x));
    assert_true(admitted("b", "rate_limited", 109, &x));
    assert_true(admitted("", "unauthenticated", 109, &x));
    assert_true(admitted("a", "rate_limited", 110, &x));
    assert_int_equal(x.again, 2);
    assert_false(admitted("a", "rate_limited", 119, &x));
    assert_true(admitted("a", "rate_limited", 120, &x));
    assert_int_equal(x.again, 1);
    refusals_release(&r);
}

static void tenants_without_end_are_counted_together(void **state)
{
    (void)state;
    struct refusal x;
    refusals_init(&r);
    unsigned lines = 0;
    for (int i = 0; i < 1000; i++) {
        char tenant[16];
        snprintf(tenant, sizeof tenant, "t%d", i);
        lines += admitted(tenant, "rate_limited", 100, &x);
    }
    assert_int_equal(lines, REFUSAL_ROWS);
    assert_true(admitted("later", "rate_limited", 110, &x));
    assert_int_equal(x.unlisted, 1000 - REFUSAL_ROWS);
    assert_true(admitted("latest", "rate_limited", 110, &x));
    assert_int_equal(x.unlisted, 0);
    refusals_release(&r);
}

static void a_row_that_is_taken_over_leaves_its_count(void **state)
{
    (void)state;
    struct refusal x;
    refusals_init(&r);
    for (int i = 0; i < REFUSAL_ROWS; i++) {
        char tenant[16];
        snprintf(tenant, sizeof tenant, "t%d", i);
        assert_true(admitted(tenant, "rate_limited", 100, &x));
        assert_false(admitted(tenant, "rate_limited", 101, &x));
    }
    assert_true(admitted("new", "rate_limited", 111, &x));
    assert_int_equal(x.unlisted, 1);
    refusals_release(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_line_per_tenant_and_reason_in_an_interval),
        cmocka_unit_test(tenants_without_end_are_counted_together),
        cmocka_unit_test(a_row_that_is_taken_over_leaves_its_count),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
