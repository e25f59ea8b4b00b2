// SPDX-License-Identifier: Apache-2.0
//
// How many pass a quota that is reached.
#include "distributor/quota.h"
#include "lib/test.h"
#include "sys/clock.h"

#include <stdio.h>

static void a_sampler_lets_so_many_pass_in_a_period(void **state)
{
    (void)state;
    struct quota_samplers s;
    quota_init(&s);
    const struct quota q = {.sampled = 2, .sample_period_ns = 60 * NS_PER_S};
    const uint64_t t = 1000 * (uint64_t)NS_PER_S;
    assert_true(quota_sample(&s, S("a"), (str){0}, &q, 1, 0.9, t));
    assert_true(quota_sample(&s, S("a"), (str){0}, &q, 1, 0.9, t + 1));
    assert_false(quota_sample(&s, S("a"), (str){0}, &q, 1, 0, t + 2));
    assert_true(quota_sample(&s, S("b"), (str){0}, &q, 1, 0, t + 2));
    assert_true(quota_sample(&s, S("a"), S("group"), &q, 1, 0, t + 2));
    assert_false(quota_sample(&s, S("a"), (str){0}, &q, 1, 0, t + 60 * (uint64_t)NS_PER_S - 1));
    assert_true(quota_sample(&s, S("a"), (str){0}, &q, 1, 0, t + 60 * (uint64_t)NS_PER_S));
    // 2 of 8 distributors: each lets a quarter try
    assert_false(quota_sample(&s, S("c"), (str){0}, &q, 8, 0.25, t));
    assert_true(quota_sample(&s, S("c"), (str){0}, &q, 8, 0.24, t));
    const struct quota none = {.sampled = 0, .sample_period_ns = 60 * NS_PER_S};
    assert_false(quota_sample(&s, S("d"), (str){0}, &none, 1, 0, t));
    for (int i = 0; i < 20000; i++) {  // more tenants than places
        char name[32];
        int n = snprintf(name, sizeof name, "t%d", i);
        assert_true(quota_sample(&s, str_make(name, (size_t)n), (str){0}, &q, 1, 0, t + 5));
    }
    quota_release(&s);
    quota_release(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_sampler_lets_so_many_pass_in_a_period),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
