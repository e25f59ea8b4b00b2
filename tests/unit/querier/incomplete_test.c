// SPDX-License-Identifier: Apache-2.0
//
// Answers that lack something: given and marked, or refused.
#include "querier/request/stacktraces.h"
#include "unit/querier/ask.h"

#define T  INT64_C(1700000000000)
#define TN (T * NS_PER_MS)

#define LABELS "__profile_type__=" CPU ",__name__=process_cpu,__type__=cpu,service_name=demo,"

static const struct head_row first_rows[] = {
    {"t", LABELS "pod=a", TN, {{"main;a", 7, 0}}, 1},
};
static const struct head_row second_rows[] = {
    {"t", LABELS "pod=b", TN, {{"main;a", 8, 0}}, 2},
};
static struct head heads[] = {
    {.member = "one", .rows = first_rows, .row_count = COUNT(first_rows), .stream = 1},
    {.member = "two", .rows = second_rows, .row_count = COUNT(second_rows), .stream = 2},
};

static int open_two(void **state)
{
    static struct ask k;
    ask_open(&k, heads, COUNT(heads));
    *state = &k;
    return 0;
}

static int close_two(void **state)
{
    heads_heal(heads, COUNT(heads));
    ask_close(*state);
    return 0;
}
static const err down = {ERR_UNAVAILABLE, "connection refused"};

static void a_silent_ingester_is_an_error_or_a_mark(void **state)
{
    struct ask *k = *state;
    merge_request m = ask_merge("{}", T);
    heads[1].fault = &down;
    assert_false(ask_run(k, stacktraces_merge, &m.base));
    assert_int_equal(k->fault.code, ERR_UNAVAILABLE);
    assert_non_null(strstr(k->fault.msg, "missing: two"));
    ask_again(k);
    ask_header(k, "flametree-partial", "allow");
    assert_true(ask_merge_ok(k, &m)->flamegraph->total == 7);
    assert_string_equal(ask_said(k, "flametree-missing"), "two");
    assert_string_equal(ask_said(k, "flametree-exact"), "partial=two did not answer");
    heads[0].fault = &down;
    ask_again(k);
    ask_header(k, "flametree-partial", "allow");
    assert_false(ask_run(k, stacktraces_merge, &m.base));
    assert_int_equal(k->fault.code, ERR_UNAVAILABLE);
}

static void a_damaged_stream_is_a_mark_or_an_error(void **state)
{
    struct ask *k = *state;
    static const struct {
        const char *said;  // Flametree-Partial; NULL: no header
        bool refuse;       // querier.incomplete
        bool given;
    } rows[] = {
        {NULL, false, true},     {NULL, true, false},    {"allow", true, true},
        {" Allow", false, true}, {"deny", false, false}, {" DENY", true, false},
        {"maybe", false, true},  {"maybe", true, false},
    };
    heads[1].recovering = true;
    for (size_t i = 0; i < COUNT(rows); i++) {
        merge_request m = ask_merge("{}", T);
        ask_again(k);
        ask_set(k, rows[i].refuse ? "--querier.incomplete=refuse" : "--querier.incomplete=mark");
        if (rows[i].said) ask_header(k, "flametree-partial", rows[i].said);
        if (!rows[i].given) {
            assert_false(ask_run(k, stacktraces_merge, &m.base));
            assert_int_equal(k->fault.code, ERR_UNAVAILABLE);
            assert_non_null(strstr(k->fault.msg, "missing: stream 00000000000000000000000002"));
            continue;
        }
        assert_true(ask_merge_ok(k, &m)->flamegraph->total == 15);
        assert_string_equal(ask_said(k, "flametree-missing"), "stream 00000000000000000000000002");
        assert_string_equal(ask_said(k, "flametree-exact"),
                            "partial=stream 00000000000000000000000002");
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_two, close_two)
    const struct CMUnitTest tests[] = {
        TEST(a_silent_ingester_is_an_error_or_a_mark),
        TEST(a_damaged_stream_is_a_mark_or_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
