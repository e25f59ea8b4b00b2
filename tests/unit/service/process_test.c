// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "service/process.h"
#include "sys/metric.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static double value_of(const char *metric)
{
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    metric_print(&b);
    buf_byte(&b, 0);
    char line[256];
    int n = snprintf(line, sizeof line, "\n%s ", metric);
    const char *at = strstr(b.p, line);
    double v = at ? strtod(at + n, NULL) : -1;
    buf_release(&b);
    return v;
}

static void the_kernel_is_asked(void **state)
{
    (void)state;
    assert_true(value_of("process_resident_memory_bytes") > 1 << 20);
    assert_true(value_of("process_virtual_memory_bytes") > 1 << 20);
    assert_true(value_of("process_cpu_seconds_total") >= 0);
    assert_true(value_of("process_open_fds") >= 3);
    assert_true(value_of("process_max_fds") >= 3);
    assert_true(value_of("process_threads") >= 1);
    assert_true(value_of("process_start_time_seconds") > 1.7e9);
}

static void watched_budgets_are_shown(void **state)
{
    (void)state;
    struct mem_budget b;
    mem_budget_init(&b, "test", NULL, 1000);
    process_watch_budget(&b);
    assert_ok(mem_reserve(&b, 700, e));
    err fault = {0};
    assert_false(mem_reserve(&b, 301, &fault));
    mem_unreserve(&b, 200);
    assert_true(value_of("flametree_memory_bytes{budget=\"test\"}") == 500);
    assert_true(value_of("flametree_memory_limit_bytes{budget=\"test\"}") == 1000);
    assert_true(value_of("flametree_memory_peak_bytes{budget=\"test\"}") == 700);
    assert_true(value_of("flametree_memory_refused_total{budget=\"test\"}") == 1);
    mem_unreserve(&b, 500);
    process_unwatch_budget(&b);
}

static void free_pages_go_back_once_there_are_many(void **state)
{
    (void)state;
    const size_t part = PROCESS_GIVE_BACK / 4;
    double before = value_of("flametree_memory_given_back_total");
    for (int round = 1; round <= 3; round++) {
        for (int i = 0; i < 3; i++)
            process_freed(part);
        process_freed(0);
        assert_true(value_of("flametree_memory_given_back_total") == before + round - 1);
        process_freed(part);
        assert_true(value_of("flametree_memory_given_back_total") == before + round);
    }
    process_freed(9 * PROCESS_GIVE_BACK);  // once is enough
    assert_true(value_of("flametree_memory_given_back_total") == before + 4);
}

static void all_allowed_descriptors_are_taken(void **state)
{
    (void)state;
    process_raise_files();
    struct rlimit l;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &l), 0);
    assert_int_equal(l.rlim_cur, l.rlim_max);
}

int main(void)
{
    process_metrics_begin();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_kernel_is_asked),
        cmocka_unit_test(watched_budgets_are_shown),
        cmocka_unit_test(free_pages_go_back_once_there_are_many),
        cmocka_unit_test(all_allowed_descriptors_are_taken),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    process_metrics_end();
    return failed;
}
