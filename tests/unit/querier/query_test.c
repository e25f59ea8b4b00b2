// SPDX-License-Identifier: Apache-2.0
//
// Requests as questions: ranges, limits, steps, ids, and the message to the ingesters.
#include "codec/pb.h"
#include "flametree/v1/internal.pb-c.h"
#include "lib/arena.h"
#include "querier/peer/question.h"
#include "sys/clock.h"

#include <math.h>
#include <stdio.h>

#define NOW_MS INT64_C(1700000000000)
#define HOUR   INT64_C(3600000)
#define DAY    (24 * HOUR)

static void range_obeys_limits(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t lookback_ms;
        int64_t length_ms;
        int64_t start;
        int64_t end;
        const char *message;  // NULL = accepted
        bool empty;
        int64_t wanted_start;
    } rows[] = {
        {"both zero", 0, 0, 0, 0, "missing time range in the query", false, 0},
        {"no start", 0, 0, 0, NOW_MS, "missing time range in the query", false, 0},
        {"no end", 0, 0, NOW_MS, 0, "missing time range in the query", false, 0},
        {"backwards", 0, 0, 2000, 1000, "query start time is after end time", false, 0},
        {"one instant", 0, DAY, NOW_MS, NOW_MS, NULL, false, NOW_MS},
        {"negative", 0, DAY, -2000, -1000, NULL, false, -2000},
        {"no limits", 0, 0, INT64_MIN, INT64_MAX, NULL, false, INT64_MIN},
        {"just as long as allowed", 0, DAY, NOW_MS - DAY, NOW_MS, NULL, false, NOW_MS - DAY},
        {"one ms too long", 0, DAY, NOW_MS - DAY - 1, NOW_MS,
         "the query time range exceeds the limit (max_query_length, actual: 24h0m0.001s, limit: "
         "1d)",
         false, 0},
        {"two days", 0, DAY, NOW_MS - 2 * DAY, NOW_MS,
         "the query time range exceeds the limit (max_query_length, actual: 48h0m0s, limit: 1d)",
         false, 0},
        {"all that there is", 0, 7 * DAY, INT64_MIN, INT64_MAX,
         "the query time range exceeds the limit (max_query_length, actual: "
         "2562047788015h12m55.807s, limit: 1w)",
         false, 0},
        {"short limit", 0, 90, NOW_MS, NOW_MS + 1500,
         "the query time range exceeds the limit (max_query_length, actual: 1.5s, limit: 90ms)",
         false, 0},
        {"minutes", 0, HOUR + 1000, NOW_MS, NOW_MS + HOUR + 90000,
         "the query time range exceeds the limit (max_query_length, actual: 1h1m30s, limit: 1h1s)",
         false, 0},
        {"milliseconds", 0, 1, NOW_MS, NOW_MS + 20,
         "the query time range exceeds the limit (max_query_length, actual: 20ms, limit: 1ms)",
         false, 0},
        {"inside the lookback", 3 * DAY, 2 * DAY, NOW_MS - DAY, NOW_MS, NULL, false, NOW_MS - DAY},
        {"before the lookback", 3 * DAY, 2 * DAY, NOW_MS - 75 * HOUR, NOW_MS - 73 * HOUR, NULL,
         true, 0},
        {"cut by the lookback", 3 * DAY, 2 * DAY, NOW_MS - 75 * HOUR, NOW_MS - 68 * HOUR, NULL,
         false, NOW_MS - 3 * DAY},
        {"length is measured after the cut", 3 * DAY, 2 * DAY, NOW_MS - 150 * HOUR, NOW_MS + HOUR,
         "the query time range exceeds the limit (max_query_length, actual: 73h0m0s, limit: 2d)",
         false, 0},
        {"negative start is cut, then too long", 7 * DAY, DAY, -1000, NOW_MS,
         "the query time range exceeds the limit (max_query_length, actual: 168h0m0s, limit: 1d)",
         false, 0},
        {"ends where the lookback begins", DAY, 0, NOW_MS - 2 * DAY, NOW_MS - DAY, NULL, false,
         NOW_MS - DAY},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct limits l = {.max_query_lookback = rows[i].lookback_ms * NS_PER_MS,
                                 .max_query_length = rows[i].length_ms * NS_PER_MS};
        struct query_range r;
        err e = {0};
        bool ok = query_range(&l, NOW_MS * NS_PER_MS, rows[i].start, rows[i].end, &r, &e);
        if (ok != !rows[i].message) fail_msg("%s: %s", rows[i].name, ok ? "accepted" : e.msg);
        if (!ok) {
            if (strcmp(e.msg, rows[i].message) != 0) fail_msg("%s: %s", rows[i].name, e.msg);
            assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
            continue;
        }
        if (r.empty != rows[i].empty) fail_msg("%s: empty", rows[i].name);
        if (r.empty) continue;
        if (r.start_ms != rows[i].wanted_start || r.end_ms != rows[i].end) {
            fail_msg("%s: range", rows[i].name);
        }
    }
}

static void range_in_ns_is_half_open_and_saturates(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t start;
        int64_t end;
        int64_t from_ns;
        int64_t to_ns;
    } rows[] = {
        {"plain", 1000, 2000, 999999999, 2000000000},
        {"instant", 5, 5, 4999999, 5000000},
        {"negative", -2, -1, -2000001, -1000000},
        {"all", INT64_MIN, INT64_MAX, INT64_MIN, INT64_MAX},
        {"far ahead", INT64_MAX - 1, INT64_MAX, INT64_MAX - 1, INT64_MAX},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct query q = {0};
        query_set_range(&q, &(struct query_range){rows[i].start, rows[i].end, false});
        if (q.from_ns != rows[i].from_ns || q.to_ns != rows[i].to_ns) {
            fail_msg("%s: (%lld, %lld]", rows[i].name, (long long)q.from_ns, (long long)q.to_ns);
        }
    }
}

static void max_nodes_obeys_limits(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t asked;
        int64_t fallback;
        int64_t most;
        int64_t wanted;
        const char *message;
    } rows[] = {
        {"not given", 0, 10, 100, 10, NULL},
        {"as many as allowed", 10, 5, 10, 10, NULL},
        {"too many", 10, 5, 5, 0, "max flamegraph nodes limit 10 is greater than allowed 5"},
        {"negative", -1, 10, 5, 0, "max flamegraph nodes limit must be set (max allowed 5)"},
        {"negative without a limit", -1, 10, 0, -1, NULL},
        {"any without a limit", 1 << 30, 10, 0, 1 << 30, NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct limits l = {.max_flamegraph_nodes_default = rows[i].fallback,
                                 .max_flamegraph_nodes_max = rows[i].most};
        int64_t got = 0;
        err e = {0};
        bool ok = query_max_nodes(&l, rows[i].asked, &got, &e);
        if (ok != !rows[i].message) fail_msg("%s: %s", rows[i].name, ok ? "accepted" : e.msg);
        if (ok && got != rows[i].wanted) fail_msg("%s: %lld", rows[i].name, (long long)got);
        if (!ok && strcmp(e.msg, rows[i].message) != 0) fail_msg("%s: %s", rows[i].name, e.msg);
    }
}

static void pprof_is_whole_unless_a_limit_or_the_request_cuts_it(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t asked;
        bool limited;
        bool pgo;
        int64_t wanted;
        const char *message;
    } rows[] = {
        {"not given", 0, false, false, 0, NULL},
        {"as asked", 1000, false, false, 1000, NULL},
        {"negative", -1, false, false, -1, NULL},
        {"for the compiler", 1000, false, true, 0, NULL},
        {"limited, not given", 0, true, false, 10, NULL},
        {"limited, as asked", 7, true, false, 7, NULL},
        {"limited, too many", 1000, true, false, 0,
         "max flamegraph nodes limit 1000 is greater than allowed 100"},
        {"limited, for the compiler", 7, true, true, 0, NULL},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        const struct limits l = {.max_flamegraph_nodes_default = 10,
                                 .max_flamegraph_nodes_max = 100,
                                 .max_flamegraph_nodes_on_select_merge_profile = rows[i].limited};
        int64_t got = 0;
        err e = {0};
        bool ok = query_pprof_nodes(&l, rows[i].asked, rows[i].pgo, &got, &e);
        if (ok != !rows[i].message) fail_msg("%s: %s", rows[i].name, ok ? "accepted" : e.msg);
        if (ok && got != rows[i].wanted) fail_msg("%s: %lld", rows[i].name, (long long)got);
        if (!ok && strcmp(e.msg, rows[i].message) != 0) fail_msg("%s: %s", rows[i].name, e.msg);
    }
}

static void type_becomes_a_matcher_of_five_parts(void **state)
{
    (void)state;
    struct query q = {0};
    struct ptype t;
    assert_ok(
        query_add_type(&arena, &q, S("process_cpu:cpu:nanoseconds:cpu:nanoseconds:delta"), &t, e));
    assert_int_equal(q.selector.n, 1);
    assert_true(str_is(q.selector.v[0].name, "__profile_type__"));
    assert_true(str_is(q.selector.v[0].value, "process_cpu:cpu:nanoseconds:cpu:nanoseconds"));
    assert_true(str_is(t.sample_unit, "nanoseconds"));
    err e = {0};
    assert_false(query_add_type(&arena, &q, S("a:b"), &t, &e));
    assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    assert_non_null(strstr(e.msg, "profile-type selection must be of the form"));
}

static void bad_selectors_name_the_selector(void **state)
{
    (void)state;
    static const char *const texts[] = {"",           "{a=b}",         "{a=\"b\"",
                                        "{a=~\"[\"}", "{a=\"b\"}[5m]", "{a=~\"\\\\pL{300}\"}"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct query q = {0};
        err e = {0};
        if (query_add_selector(&arena, &q, str_of(texts[i]), &e)) fail_msg("%s", texts[i]);
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        if (!strstr(e.msg, "label selector")) fail_msg("%s: %s", texts[i], e.msg);
    }
    struct query q = {0};
    assert_ok(query_add_selector(&arena, &q, S("{}"), e));
    assert_int_equal(q.selector.n, 0);
}

static void ids_of_spans_and_traces_are_bytes_in_order(void **state)
{
    (void)state;
    struct query q = {0};
    char *spans[] = {(char[]){"0807060504030201"}, (char[]){"0000000000000000"}};
    char *traces[] = {(char[]){"0123456789abcdef0123456789ABCDEF"}};
    char *profiles[] = {(char[]){"7c9e6679-7425-40de-944b-e07fc1f90ae7"}};
    assert_ok(query_add_spans(&arena, &q, spans, 2, e));
    assert_ok(query_add_traces(&arena, &q, traces, 1, e));
    assert_ok(query_add_profiles(&arena, &q, profiles, 1, e));
    assert_int_equal(q.tree.span_count, 1);
    assert_true(q.tree.spans[0] == UINT64_C(0x0102030405060708));
    assert_int_equal(q.tree.trace_count, 1);
    assert_int_equal(q.tree.traces[0].b[0], 0x01);
    assert_int_equal(q.tree.traces[0].b[15], 0xef);
    assert_int_equal(q.tree.profile_count, 1);
    assert_false(q.nothing);
}

static void ids_of_zeros_match_nothing(void **state)
{
    (void)state;
    struct query q = {0};
    char *span[] = {(char[]){"0000000000000000"}};
    assert_ok(query_add_spans(&arena, &q, span, 1, e));
    assert_true(q.nothing);
    q = (struct query){0};
    char *trace[] = {(char[]){"00000000000000000000000000000000"}};
    assert_ok(query_add_traces(&arena, &q, trace, 1, e));
    assert_true(q.nothing);
    q = (struct query){0};
    assert_ok(query_add_spans(&arena, &q, NULL, 0, e));
    assert_false(q.nothing);
}

static void bad_ids_are_refused(void **state)
{
    (void)state;
    char *texts[] = {(char[]){"abc"}, (char[]){"00000000000000000"}, (char[]){"xyzxyzxyzxyzxyzx"}};
    const char *const messages[] = {"invalid span id length: \"abc\"",
                                    "invalid span id length: \"00000000000000000\"",
                                    "invalid span id: \"xyzxyzxyzxyzxyzx\" is not hexadecimal"};
    for (size_t i = 0; i < COUNT(texts); i++) {
        struct query q = {0};
        err e = {0};
        assert_false(query_add_spans(&arena, &q, &texts[i], 1, &e));
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        assert_string_equal(e.msg, messages[i]);
    }
    struct query q = {0};
    err e = {0};
    assert_false(query_add_traces(&arena, &q, texts, 1, &e));
    assert_string_equal(e.msg, "invalid trace id length: \"abc\"");
    assert_false(query_add_profiles(&arena, &q, texts, 1, &e));
    assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
}

static void steps_become_buckets(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t start;
        int64_t end;
        double step;
        int64_t step_ms;  // 0 = refused
        int64_t points;
        int64_t to_ms;
    } rows[] = {
        {"zero", 1000, 2000, 0, 0, 0, 0},
        {"too small", 1000, 2000, 0.0009, 0, 0, 0},
        {"negative", 1000, 2000, -1, 0, 0, 0},
        {"not a number", 1000, 2000, NAN, 0, 0, 0},
        {"smallest", 1000, 1002, 0.001, 1, 3, 1002},
        {"cut to whole ms", 1000, 1010, 0.0029, 2, 6, 1010},
        {"instant", 5000, 5000, 15, 15000, 1, 5000},
        {"whole steps", 60000, 120000, 15, 15000, 5, 120000},
        {"ms that no double is", 60000, 62002, 1.001, 1001, 3, 62002},
        {"a hair less", 60000, 62000, 1.0009999, 1000, 3, 62000},
        {"the rest of a step is a point", 60000, 120001, 15, 15000, 6, 120001},
        {"step longer than the range", 60000, 120000, 1e6, 1000000000, 2, 120000},
        {"infinite step", 60000, 120000, INFINITY, 1152921504606, 2, 120000},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct query q = {0};
        struct query led = {0};
        struct query_step step = {.seconds = rows[i].step};
        struct query_step lead = {.seconds = rows[i].step, .lead = true};
        err e = {0};
        const struct query_range range = {rows[i].start, rows[i].end, false};
        bool ok = query_add_totals(&q, &range, &step, &e);
        if (ok != (rows[i].step_ms != 0)) fail_msg("%s", rows[i].name);
        if (!ok) {
            assert_string_equal(e.msg, "step must be >= 1ms");
            continue;
        }
        if (step.ms != rows[i].step_ms || q.totals.points != rows[i].points) {
            fail_msg("%s: step %lld, %lld points", rows[i].name, (long long)step.ms,
                     (long long)q.totals.points);
        }
        assert_true(q.totals.first_ns == rows[i].start * NS_PER_MS);
        assert_true(q.totals.step_ns == step.ms * NS_PER_MS);
        assert_true(q.from_ns == q.totals.first_ns - 1);
        assert_true(query_add_totals(&led, &range, &lead, &e));
        assert_true(led.from_ns == q.from_ns - q.totals.step_ns && led.to_ns == q.to_ns);
        assert_true(led.totals.points == q.totals.points);
        if (q.to_ns != rows[i].to_ms * NS_PER_MS) fail_msg("%s: to", rows[i].name);
    }
}

static void steps_stay_inside_64_bits(void **state)
{
    (void)state;
    static const int64_t edges[] = {INT64_MIN, INT64_MIN / NS_PER_MS, -1,
                                    1,         INT64_MAX / NS_PER_MS, INT64_MAX};
    static const double steps[] = {0.001, 1, 1e18, 1e300};
    for (size_t i = 0; i < COUNT(edges); i++) {
        for (size_t k = i; k < COUNT(edges); k++) {
            for (size_t s = 0; s < COUNT(steps); s++) {
                struct query q = {0};
                struct query_step step = {.seconds = steps[s], .lead = true};
                const struct query_range range = {edges[i], edges[k], false};
                assert_ok(query_add_totals(&q, &range, &step, e));
                assert_true(q.totals.points >= 1 && q.totals.points - q.steps <= 1);
                assert_true(q.from_ns < q.totals.first_ns);
                assert_true(q.totals.first_ns <= q.to_ns);
                assert_true(q.totals.first_ns > INT64_MIN + q.totals.step_ns);
            }
        }
    }
}

static void question_reads_back(void **state)
{
    (void)state;
    struct query q = {.from_ns = -5, .to_ns = INT64_MAX, .stats = true};
    struct ptype t;
    char *spans[] = {(char[]){"0807060504030201"}, (char[]){"ffffffffffffffff"}};
    char *traces[] = {(char[]){"0123456789abcdef0123456789abcdef"}};
    char *profiles[] = {(char[]){"7c9e6679-7425-40de-944b-e07fc1f90ae7"}};
    const str names[] = {S("pod"), S("zone")};
    assert_ok(query_add_type(&arena, &q, S("a:b:c:d:e"), &t, e));
    assert_ok(query_add_selector(&arena, &q, S("{x!=\"1\", y=~\"2|3\", z!~\"4\"}"), e));
    assert_ok(query_add_spans(&arena, &q, spans, 2, e));
    assert_ok(query_add_traces(&arena, &q, traces, 1, e));
    assert_ok(query_add_profiles(&arena, &q, profiles, 1, e));
    q.tree.wanted = true;
    q.tree.full_symbols = true;
    q.totals = (struct totals_want){.wanted = true,
                                    .first_ns = -10,
                                    .step_ns = 20,
                                    .points = 30,
                                    .early_ns = 7,
                                    .spread = true,
                                    .group_by = names,
                                    .group_by_count = 2,
                                    .call_site = names,
                                    .call_site_count = 1,
                                    .exemplars = EXEMPLAR_SPAN,
                                    .include_sampled = true};
    q.labels = (struct query_labels){true, true, names, 1};
    struct buf out;
    buf_init(&out, NULL, 1 << 20);
    query_encode(&q, &out);
    assert_ok(buf_ok(&out, e));
    err e = {0};
    const Flametree__V1__HeadReadRequest *m =
        (const void *)pb_unpack(&arena, &flametree__v1__head_read_request__descriptor,
                                buf_view(&out), &e);
    if (!m) fail_msg("%s", e.msg);
    assert_int_equal(m->n_matchers, 4);
    static const uint32_t ops[] = {0, 1, 2, 3};
    for (size_t i = 0; i < 4; i++)
        assert_int_equal(m->matchers[i]->op, ops[i]);
    assert_string_equal(m->matchers[0]->value, "a:b:c:d:e");
    assert_string_equal(m->matchers[2]->name, "y");
    assert_string_equal(m->matchers[2]->value, "2|3");
    assert_true(m->from_ns == -5 && m->to_ns == INT64_MAX);
    assert_int_equal(m->tree->n_span_ids, 2);
    assert_true(m->tree->span_ids[0] == UINT64_C(0x0102030405060708));
    assert_int_equal(m->tree->n_trace_ids, 1);
    assert_int_equal(m->tree->trace_ids[0].len, 16);
    assert_int_equal(m->tree->n_profile_ids, 1);
    assert_int_equal(m->tree->profile_ids[0].data[0], 0x7c);
    assert_true(m->tree->full_symbols);
    assert_true(m->totals->first_ns == -10 && m->totals->step_ns == 20 && m->totals->points == 30);
    assert_true(m->totals->early_ns == 7 && m->totals->spread);
    assert_int_equal(m->totals->n_group_by, 2);
    assert_string_equal(m->totals->group_by[1], "zone");
    assert_int_equal(m->labels->n_names, 1);
    assert_true(m->labels->names_only);
    assert_ptr_not_equal(m->stats, NULL);
    buf_release(&out);
}

// A querier gets what it adds up as another one has planned it.
static void pieces_of_a_question_read_back(void **state)
{
    (void)state;
    const struct level_object objects[] = {{.kind = BLOCK_RAW,
                                            .name = S("a"),
                                            .bytes = UINT64_C(1) << 33},
                                           {.kind = BLOCK_DAYS, .name = S("b"), .bytes = 1}};
    const struct level_piece pieces[] = {{&objects[0], LEVEL_ROWS, -1700000000000000007,
                                          1700000000000000007, 0, 0},
                                         {&objects[1], LEVEL_NODES, INT64_MIN, INT64_MAX, 3,
                                          UINT32_MAX},
                                         {&objects[1], LEVEL_TOTALS, -2, -1, 0, 1}};
    const struct query q = {.from_ns = -5, .to_ns = 7};
    struct question *x = NULL;
    struct buf out;
    buf_init(&out, NULL, 1 << 20);
    question_put(&q, false, pieces, COUNT(pieces), &out);
    assert_ok(question_read(&arena, buf_view(&out), NULL, NULL, &x, e));
    assert_true(x->q.from_ns == q.from_ns && x->q.to_ns == q.to_ns && !x->excluded);
    assert_int_equal(x->plan.n, COUNT(pieces));
    for (size_t i = 0; i < COUNT(pieces); i++) {
        const struct level_piece *is = &x->plan.pieces[i];
        const struct level_piece *was = &pieces[i];
        assert_true(is->object->kind == was->object->kind && is->use == was->use);
        assert_true(str_eq(is->object->name, was->object->name));
        assert_true(is->object->bytes == was->object->bytes);
        assert_true(is->from_ns == was->from_ns && is->to_ns == was->to_ns);
        assert_true(is->pack_lo == was->pack_lo && is->pack_hi == was->pack_hi);
    }
    buf_release(&out);
}

static void empty_question_wants_nothing(void **state)
{
    (void)state;
    const struct query q = {0};
    struct buf out;
    buf_init(&out, NULL, 100);
    query_encode(&q, &out);
    assert_int_equal(out.n, 0);
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(range_obeys_limits),
        cmocka_unit_test(range_in_ns_is_half_open_and_saturates),
        cmocka_unit_test(max_nodes_obeys_limits),
        cmocka_unit_test(pprof_is_whole_unless_a_limit_or_the_request_cuts_it),
        ARENA_TEST(type_becomes_a_matcher_of_five_parts),
        ARENA_TEST(bad_selectors_name_the_selector),
        ARENA_TEST(ids_of_spans_and_traces_are_bytes_in_order),
        ARENA_TEST(ids_of_zeros_match_nothing),
        ARENA_TEST(bad_ids_are_refused),
        cmocka_unit_test(steps_become_buckets),
        cmocka_unit_test(steps_stay_inside_64_bits),
        ARENA_TEST(question_reads_back),
        ARENA_TEST(pieces_of_a_question_read_back),
        cmocka_unit_test(empty_question_wants_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
