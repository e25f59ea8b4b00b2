// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "sys/metric.h"
#include "sys/thread.h"

#include <stdio.h>
#include <stdlib.h>

static struct metric_cell one[1];
static struct metric_cell by_reason[METRIC_CELLS];
static struct metric_cell times[1];
static struct metric counter = {
    .name = "t_pushes_total", .label = "", .help = "Pushes.", .kind = METRIC_COUNTER, .cells = one};
static struct metric labelled = {.name = "t_jobs",
                                 .label = "reason",
                                 .help = "Jobs\nby \\ reason.",
                                 .kind = METRIC_GAUGE,
                                 .cells = by_reason};
static struct metric histogram = {
    .name = "t_seconds", .label = "", .help = "Time.", .kind = METRIC_HISTOGRAM, .cells = times};
static struct metric pairs = {.name = "t_discarded_total",
                              .label = "reason,tenant",
                              .help = "Discarded.",
                              .kind = METRIC_COUNTER};
static struct metric reals = {.name = "t_limits",
                              .label = "limit_name",
                              .help = "Limits.",
                              .kind = METRIC_REAL};
static struct metric refusals = {.name = "t_refusals_total",
                                 .label = "reason,tenant",
                                 .help = "Refused.",
                                 .kind = METRIC_COUNTER};
static struct metric_cell by_code[METRIC_CELLS];
static struct metric failures = {.name = "t_failures_total",
                                 .label = "code",
                                 .expected = "lost late ",
                                 .help = "Failed.",
                                 .kind = METRIC_COUNTER,
                                 .cells = by_code};
static struct metric *const table[] = {&labelled, &histogram, &counter, &pairs,
                                       &reals,    &refusals,  &failures};

static str print(struct buf *b)
{
    buf_init(b, NULL, 1 << 20);
    metric_print(b);
    assert_ok(buf_ok(b, e));
    buf_byte(b, 0);
    return (str){b->p, b->n - 1};
}

static void rows_are_printed_in_order_of_name(void **state)
{
    (void)state;
    metric_add(&counter, 2);
    metric_add(&counter, 3);
    metric_set_to(&labelled, S("a\"b"), -4);
    struct buf b;
    str text = print(&b);
    assert_true(str_contains(text, S("# HELP t_pushes_total Pushes.\n# TYPE t_pushes_total "
                                     "counter\nt_pushes_total 5\n")));
    assert_true(str_contains(text, S("# HELP t_jobs Jobs\\nby \\\\ reason.\n# TYPE t_jobs "
                                     "gauge\nt_jobs{reason=\"a\\\"b\"} -4\n")));
    assert_true(strstr(text.p, "t_jobs") < strstr(text.p, "t_pushes_total"));
    assert_true(strstr(text.p, "t_pushes_total") < strstr(text.p, "t_seconds"));
    buf_release(&b);
}

static void a_histogram_is_cumulative_in_seconds(void **state)
{
    (void)state;
    metric_observe_ns(&histogram, 100000);  // on a bound: belongs to it
    metric_observe_ns(&histogram, 1500000000);
    metric_observe_ns(&histogram, 200000000000u);  // above all
    struct buf b;
    str text = print(&b);
    assert_true(str_contains(text, S("t_seconds_bucket{le=\"0.0001\"} 1\n")));
    assert_true(str_contains(text, S("t_seconds_bucket{le=\"1\"} 1\n")));
    assert_true(str_contains(text, S("t_seconds_bucket{le=\"2\"} 2\n")));
    assert_true(str_contains(text, S("t_seconds_bucket{le=\"+Inf\"} 3\n")));
    assert_true(str_contains(text, S("t_seconds_sum 201.500100000\nt_seconds_count 3\n")));
    buf_release(&b);
}

static struct metric_cell many_cells[METRIC_CELLS];
static struct metric many = {
    .name = "t_many_total", .label = "x", .help = "h", .kind = METRIC_COUNTER, .cells = many_cells};

static void *add_many(void *arg)
{
    (void)arg;
    for (int round = 0; round < 20; round++) {
        for (int i = 0; i < 100; i++) {
            char v[16];
            int n = snprintf(v, sizeof v, "v%d", i);
            metric_add_to(&many, str_make(v, (size_t)n), 1);
        }
    }
    return NULL;
}

static void values_beyond_the_bound_count_as_other(void **state)
{
    (void)state;
    pthread_t t[4];
    for (size_t i = 0; i < COUNT(t); i++)
        assert_ok(thread_start(&t[i], "adder", add_many, NULL, e));
    for (size_t i = 0; i < COUNT(t); i++)
        thread_join(t[i]);
    assert_int_equal(many.cell_count, METRIC_CELLS);
    assert_string_equal(many_cells[METRIC_CELLS - 1].value, "other");
    int64_t sum = 0;
    for (size_t i = 0; i < METRIC_CELLS; i++)
        sum += many_cells[i].sum;
    assert_int_equal(sum, 4 * 20 * 100);
    assert_int_equal(many_cells[METRIC_CELLS - 1].sum, 4 * 20 * (100 - (METRIC_CELLS - 1)));
}

static void odd_values_count_as_other(void **state)
{
    (void)state;
    static struct metric_cell cells[METRIC_CELLS];
    static struct metric m = {
        .name = "t_odd", .label = "x", .help = "h", .kind = METRIC_COUNTER, .cells = cells};
    char big[100];
    memset(big, 'x', sizeof big);
    metric_add_to(&m, str_make(big, sizeof big), 1);
    metric_add_to(&m, S("\xff"), 1);
    assert_int_equal(m.cell_count, 1);
    assert_string_equal(cells[0].value, "other");
    assert_int_equal(cells[0].sum, 2);
}

static void set_seven(void *arg)
{
    metric_set_to(arg, S("now"), 7);
}

static void values_may_be_computed_when_asked(void **state)
{
    (void)state;
    metric_on_print(set_seven, &labelled);
    struct buf b;
    assert_true(str_contains(print(&b), S("t_jobs{reason=\"now\"} 7\n")));
    buf_release(&b);
    metric_off_print(set_seven, &labelled);
    metric_set_to(&labelled, S("now"), 8);
    assert_true(str_contains(print(&b), S("t_jobs{reason=\"now\"} 8\n")));
    buf_release(&b);
}

static void every_combination_of_several_labels_counts(void **state)
{
    (void)state;
    metric_add_set(&pairs, (str[]){S("rate"), S("b")}, 1);
    metric_add_set(&pairs, (str[]){S("rate"), S("a")}, 2);
    metric_add_set(&pairs, (str[]){S("rate"), S("b")}, 3);
    metric_add_set(&pairs, (str[]){str_make("bad\0", 4), S("x")}, 1);
    metric_set_real(&reals, (str[]){S("rate_mb")}, 0.02);
    struct buf b;
    str text = print(&b);
    assert_true(str_contains(text, S("# TYPE t_discarded_total counter\n"
                                     "t_discarded_total{reason=\"other\",tenant=\"x\"} 1\n"
                                     "t_discarded_total{reason=\"rate\",tenant=\"a\"} 2\n"
                                     "t_discarded_total{reason=\"rate\",tenant=\"b\"} 4\n")));
    assert_true(
        str_contains(text, S("# TYPE t_limits gauge\nt_limits{limit_name=\"rate_mb\"} 0.02\n")));
    buf_release(&b);
    metric_forget_sets(&reals);
    text = print(&b);
    assert_false(str_contains(text, S("t_limits{")));
    buf_release(&b);
}

static void expected_values_exist_with_zero(void **state)
{
    (void)state;
    assert_false(metric_has_set(&refusals, (str[]){S("rate"), S("a")}));
    assert_true(metric_expect_set(&refusals, (str[]){S("rate"), S("a")}));
    assert_true(metric_has_set(&refusals, (str[]){S("rate"), S("a")}));
    metric_add_set(&refusals, (str[]){S("rate"), S("b")}, 2);
    assert_true(metric_expect_set(&refusals, (str[]){S("rate"), S("b")}));
    metric_register(table, COUNT(table));
    struct buf b;
    str text = print(&b);
    assert_true(str_contains(text, S("# TYPE t_refusals_total counter\n"
                                     "t_refusals_total{reason=\"rate\",tenant=\"a\"} 0\n"
                                     "t_refusals_total{reason=\"rate\",tenant=\"b\"} 2\n")));
    assert_true(str_contains(text, S("t_failures_total{code=\"lost\"} 0\n"
                                     "t_failures_total{code=\"late\"} 0\n")));
    buf_release(&b);
}

static void expected_values_leave_room_for_counted_ones(void **state)
{
    (void)state;
    char tenant[32];
    size_t expected = 0;
    for (int i = 0; i < 2 * METRIC_SETS; i++) {
        int n = snprintf(tenant, sizeof tenant, "tenant-%d", i);
        expected += metric_expect_set(&refusals, (str[]){S("many"), str_make(tenant, (size_t)n)});
    }
    assert_int_equal(expected, METRIC_SETS / 2 - 2);  // two are there already
    metric_add_set(&refusals, (str[]){S("many"), S("late")}, 1);
    assert_true(metric_has_set(&refusals, (str[]){S("many"), S("late")}));
    for (int i = 0; i < METRIC_CELLS; i++) {
        int n = snprintf(tenant, sizeof tenant, "code-%d", i);
        (void)metric_expect_to(&failures, str_make(tenant, (size_t)n));
    }
    assert_int_equal(atomic_load(&failures.cell_count), METRIC_CELLS / 2);
}

static void counters_can_be_read(void **state)
{
    (void)state;
    uint64_t n = 7;
    assert_true(metric_read_set(&refusals, (str[]){S("read"), S("a")}, &n));
    assert_int_equal(n, 0);
    assert_false(metric_has_set(&refusals, (str[]){S("read"), S("a")}));  // only looked at
    metric_add_set(&refusals, (str[]){S("read"), S("a")}, 5);
    assert_true(metric_read_set(&refusals, (str[]){S("read"), S("a")}, &n));
    assert_int_equal(n, 5);
}

static void tenants_without_end_count_as_other(void **state)
{
    (void)state;
    char tenant[32];
    for (int i = 0; i < 3 * METRIC_SETS; i++) {
        int n = snprintf(tenant, sizeof tenant, "tenant-%d", i);
        metric_add_set(&pairs, (str[]){S("many"), str_make(tenant, (size_t)n)}, 1);
    }
    for (int i = 0; i < 1000; i++) {
        int n = snprintf(tenant, sizeof tenant, "reason-%d", i);
        metric_add_set(&pairs, (str[]){str_make(tenant, (size_t)n), S("t")}, 1);
    }
    struct buf b;
    str text = print(&b);
    unsigned long long all = 0;
    size_t lines = 0;
    for (const char *at = text.p; (at = strstr(at, "\nt_discarded_total{")); at++) {
        all += strtoull(strchr(at, '}') + 1, NULL, 10);
        lines++;
    }
    assert_int_equal(all, 3 * METRIC_SETS + 1000 + 7);
    assert_true(lines < METRIC_SETS + 300);
    assert_true(str_contains(text, S("t_discarded_total{reason=\"many\",tenant=\"other\"} ")));
    assert_true(str_contains(text, S("t_discarded_total{reason=\"other\",tenant=\"other\"} ")));
    buf_release(&b);
    uint64_t n = 7;
    assert_false(metric_read_set(&pairs, (str[]){S("many"), S("nobody")}, &n));
    assert_int_equal(n, 0);
    assert_true(metric_read_set(&pairs, (str[]){S("many"), S("tenant-0")}, &n));
    assert_int_equal(n, 1);
}

int main(void)
{
    metric_register(table, COUNT(table));
    metric_register(table, COUNT(table));  // a second time changes nothing
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_printed_in_order_of_name),
        cmocka_unit_test(a_histogram_is_cumulative_in_seconds),
        cmocka_unit_test(values_beyond_the_bound_count_as_other),
        cmocka_unit_test(odd_values_count_as_other),
        cmocka_unit_test(values_may_be_computed_when_asked),
        cmocka_unit_test(every_combination_of_several_labels_counts),
        cmocka_unit_test(expected_values_exist_with_zero),
        cmocka_unit_test(expected_values_leave_room_for_counted_ones),
        cmocka_unit_test(counters_can_be_read),
        cmocka_unit_test(tenants_without_end_count_as_other),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
