// SPDX-License-Identifier: Apache-2.0
//
// The pure parts of export and import: times in names, files that know their series, differences.
#include "codec/pb.h"
#include "deploy/cli/cli_name_time.h"
#include "deploy/cli/cli_series_file.h"
#include "deploy/cli/cli_subtract.h"
#include "lib/pprof.h"
#include "lib/test.h"

#define DAY INT64_C(1706659200)  // 2024-01-31
#define NS  INT64_C(1000000000)

static void times_are_found_in_names(void **state)
{
    static const struct {
        const char *pattern;
        const char *name;
        int64_t ns;
    } cases[] = {
        {"%Y-%m-%d", "cpu-2024-01-31.pb", DAY * NS},
        {"%Y%m%dT%H%M%S", "20240131T093000Z.pb.gz", (DAY + 34200) * NS},
        {"%Y%m%d_%H%M%S.%L", "x.20240131_000001.250.pb", DAY * NS + 1250000000},
        {"%Y*%m*%d", "2024/01 31", DAY * NS},
        {"%s", "shop.1706659200.pb", DAY * NS},
        {"%s", "shop.1706659200123.pb", DAY * NS + 123000000},
        {"%s", "1706659200123456789", DAY * NS + 123456789},
        {"a%%%s", "a%1706659200", DAY * NS},
        {"*-%Y%m%d", "a-b-20231331-20240131", DAY * NS},  // the first is no day
    };
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        int64_t ns = 0;
        assert_ok(name_time_check(str_of(cases[i].pattern), e));
        assert_ok(name_time(str_of(cases[i].pattern), str_of(cases[i].name), &ns, e));
        assert_int_equal(ns, cases[i].ns);
    }
}

static void what_is_no_time_is_refused(void **state)
{
    static const char *const patterns[] = {"", "%", "%Y-%m", "%Q%s", "%H%M", "x"};
    static const char *const names[] = {"",           "x",        "2024-02-31",
                                        "2024-13-01", "20240131", "2024-1-1"};
    (void)state;
    for (size_t i = 0; i < COUNT(patterns); i++) {
        err e = {0};
        assert_false(name_time_check(str_of(patterns[i]), &e));
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    }
    for (size_t i = 0; i < COUNT(names); i++) {
        err e = {0};
        int64_t ns = 0;
        assert_false(name_time(S("%Y-%m-%d"), str_of(names[i]), &ns, &e));
    }
}

static void many_stars_take_no_long_time(void **state)
{
    char name[4000];
    int64_t ns = 0;
    err e = {0};
    (void)state;
    memset(name, 'a', sizeof name);
    assert_false(name_time(S("*a*a*a*a*a*a*a*b%s"), str_make(name, sizeof name), &ns, &e));
}

// main;work with one value, main with another.
static void build(struct buf *b, int64_t work, int64_t own)
{
    const char *strings[] = {"", "cpu", "nanoseconds", "main", "work"};
    for (size_t i = 0; i < COUNT(strings); i++)
        pp_string(b, strings[i]);
    pp_function(b, 1, 3, 0);
    pp_function(b, 2, 4, 0);
    pp_place(b, 1, 1);
    pp_place(b, 2, 2);
    pp_type(b, 1, 2);
    if (work) pp_sample(b, (uint64_t[]){2, 1}, 2, (int64_t[]){work}, 1);
    if (own) pp_sample(b, (uint64_t[]){1}, 1, (int64_t[]){own}, 1);
}

static void a_file_knows_its_series_and_time(void **state)
{
    static const label v[] = {{S_INIT("__name__"), S_INIT("process_cpu")},
                              {S_INIT("__profile_type__"), S_INIT("x")},
                              {S_INIT("service_name"), S_INIT("a \"b\"\n\\ \xc3\xa9")}};
    struct buf pprof;
    struct buf out;
    struct arena a;
    labels ls = {0};
    bool found = true;
    int64_t sum = 0;
    (void)state;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&pprof, NULL, 1 << 20);
    buf_init(&out, NULL, 1 << 20);
    build(&pprof, 7, 3);
    assert_ok(series_file_labels(&a, buf_view(&pprof), &ls, &found, e));
    assert_false(found);
    assert_ok(series_file_put(buf_view(&pprof), 12345, (labels){v, COUNT(v)}, &out, e));
    assert_ok(series_file_labels(&a, buf_view(&out), &ls, &found, e));
    assert_true(found);
    assert_int_equal(ls.n, 2);  // without the label that storage adds
    assert_true(str_eq(labels_get(ls, S("service_name")), v[2].value));
    assert_ok(series_file_sum(buf_view(&out), &sum, e));
    assert_int_equal(sum, 10);
    int64_t time_ns = 0;
    struct pb_reader r = pb_reader(buf_view(&out));
    while (pb_next(&r))
        if (r.field == 9) time_ns = (int64_t)r.number;
    assert_int_equal(time_ns, 12345);
    // A comment that was damaged is no other series.
    err e = {0};
    buf_clear(&out);
    build(&out, 1, 1);
    pp_string(&out, SERIES_FILE_MARK "{\"a\":");
    assert_false(series_file_labels(&a, buf_view(&out), &ls, &found, &e));
    assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    buf_release(&pprof);
    buf_release(&out);
    arena_release(&a);
}

static void a_difference_is_that_of_each_stack(void **state)
{
    struct buf whole;
    struct buf part;
    struct buf out;
    int64_t sum = 0;
    (void)state;
    buf_init(&whole, NULL, 1 << 20);
    buf_init(&part, NULL, 1 << 20);
    buf_init(&out, NULL, 1 << 20);
    build(&whole, 7, 3);
    build(&part, 2, 3);
    assert_ok(pprof_subtract(buf_view(&whole), buf_view(&part), &out, e));
    assert_ok(series_file_sum(buf_view(&out), &sum, e));
    assert_int_equal(sum, 5);
    // A difference may be negative, as values may.
    buf_clear(&out);
    assert_ok(pprof_subtract(buf_view(&part), buf_view(&whole), &out, e));
    assert_ok(series_file_sum(buf_view(&out), &sum, e));
    assert_int_equal(sum, -5);
    err e = {0};
    assert_false(pprof_subtract(S("\x0a\xff"), buf_view(&part), &out, &e));
    buf_release(&whole);
    buf_release(&part);
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(times_are_found_in_names),
        cmocka_unit_test(what_is_no_time_is_refused),
        cmocka_unit_test(many_stars_take_no_long_time),
        cmocka_unit_test(a_file_knows_its_series_and_time),
        cmocka_unit_test(a_difference_is_that_of_each_stack),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
