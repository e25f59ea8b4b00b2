// SPDX-License-Identifier: Apache-2.0
#include "sys/clock.h"
#include "whole.h"

// Facts that are not sampled away and arrive in time.
static struct fact fresh(struct dice *d)
{
    struct fact f = fact_roll(d, clock_wall_ns() - 60 * NS_PER_S, 60 * NS_PER_S);
    f.sampled = false;
    return f;
}

static void what_is_acknowledged_is_there_once_after_a_restart(void **state)
{
    (void)state;
    struct whole w;
    struct dice d = {5};
    struct fact facts[60];
    char dir[DIR_MAX];
    dir_new(dir);
    size_t n = 0;
    for (int round = 0; round < 3; round++) {
        whole_start(&w, dir, "");
        whole_await(&w);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(whole_holds(&w, &facts[i]), 1);
        assert_int_equal(head_count(w.in->head).rows, n);
        for (int i = 0; i < 20; i++) {
            facts[n] = fresh(&d);
            assert_ok(whole_push(&w, &facts[n], 1, e));
            n++;
        }
        assert_ok(whole_push(&w, &facts[roll(&d, n)], 1, e));  // again
        assert_int_equal(head_count(w.in->head).rows, n);
        assert_int_equal(head_count(w.in->head).duplicates, 1);
        whole_stop(&w);
    }
    dir_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_acknowledged_is_there_once_after_a_restart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
