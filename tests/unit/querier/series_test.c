// SPDX-License-Identifier: Apache-2.0
#include "querier/request/series.h"
#include "sys/clock.h"
#include "unit/querier/ask.h"

#include <stdio.h>
#include <stdlib.h>

typedef Querier__V1__SelectSeriesRequest request;
typedef Querier__V1__SelectSeriesResponse response;

static request make_request(int64_t start_ms, int64_t end_ms, double step)
{
    request m = QUERIER__V1__SELECT_SERIES_REQUEST__INIT;
    m.profile_typeid = ask_text(CPU);
    m.label_selector = ask_text("{}");
    m.start = start_ms;
    m.end = end_ms;
    m.step = step;
    return m;
}

static const response *ask_series(struct ask *k, const request *m)
{
    return ask_ok(k, series_select, &m->base, &querier__v1__select_series_response__descriptor);
}

// "b:20@0,1@15000 a:5@0" - groups in order, points as value@ms after `base`.
static void print_rows(const response *m, int64_t base, char *text, size_t room)
{
    size_t n = 0;
    text[0] = 0;
    for (size_t i = 0; i < m->n_series; i++) {
        const Types__V1__Series *s = m->series[i];
        if (i) n += (size_t)snprintf(text + n, room - n, " ");
        for (size_t k = 0; k < s->n_labels; k++)
            n += (size_t)snprintf(text + n, room - n, "%s%s", k ? "/" : "", s->labels[k]->value);
        for (size_t k = 0; k < s->n_points; k++)
            n += (size_t)snprintf(text + n, room - n, "%s%g@%lld", k ? "," : ":",
                                  s->points[k]->value, (long long)(s->points[k]->timestamp - base));
    }
}

#define T      INT64_C(1700000000000)
#define TYPED  "__profile_type__=" CPU
#define AT(s_) ((T + INT64_C(1000) * (s_)) * NS_PER_MS)

static const struct head_row step_rows[] = {
    {"t", TYPED, AT(0), {{"a;b", 1, 0}}, 1},
    {"t", TYPED, AT(10), {{"a;b", 2, 0}}, 2},
    {"t", TYPED, AT(15), {{"a;b", 4, 0}}, 3},
    {"t", TYPED, AT(20), {{"a;b", 8, 0}}, 4},
    {"t", TYPED, AT(47), {{"a;b", 16, 0}}, 5},
    {"t", "__profile_type__=x:y:z::", AT(10), {{"a", 64, 0}}, 6},
};

struct points_row {
    const char *name;
    int64_t start_ms;
    int64_t end_ms;
    double step;
    const char *wanted;
};

// Points of the rows above. lead: the first one has what lies a step before it, as in Pyroscope.
static void check_points(const struct points_row *rows, size_t n, bool lead)
{
    struct head h = {.member = "one",
                     .rows = step_rows,
                     .row_count = COUNT(step_rows),
                     .stream = 1};
    struct ask k;
    ask_open(&k, &h, 1);
    if (lead) ask_set(&k, "--limits.series_lead=true");
    for (size_t i = 0; i < n; i++) {
        ask_again(&k);
        request m = make_request(T + rows[i].start_ms, T + rows[i].end_ms, rows[i].step);
        char text[256];
        print_rows(ask_series(&k, &m), T, text, sizeof text);
        if (strcmp(text, rows[i].wanted) != 0) fail_msg("%s: %s", rows[i].name, text);
    }
    ask_close(&k);
}

static void points_lie_where_the_api_says(void **state)
{
    (void)state;
    static const struct points_row rows[] = {
        {"each on its own", 0, 50000, 1, ":1@0,2@10000,4@15000,8@20000,16@47000"},
        {"an edge belongs to the left", 0, 60000, 15, ":1@0,6@15000,8@30000,16@60000"},
        {"anchored at start", 5000, 65000, 10, ":1@5000,6@15000,8@25000,16@55000"},
        {"not two steps before", 41000, 61000, 15, ":16@56000"},
        {"one point", 20000, 20000, 20, ":15@20000"},
        {"nothing", 25000, 35000, 1, ""},
        {"a fraction", 9500, 11000, 0.5, ":2@10000"},
        {"start before the data", -60000, 0, 60, ":1@0"},
        {"left edge of the first point", 15000, 30000, 15, ":7@15000,8@30000"},
        {"the rest of a step is a point", 0, 59000, 15, ":1@0,6@15000,8@30000,16@60000"},
        {"it ends with the range", 0, 46000, 15, ":1@0,6@15000,8@30000"},
        {"a step beyond the range", 10000, 47000, 60, ":3@10000,28@70000"},
    };
    check_points(rows, COUNT(rows), true);
}

static void points_add_up_to_what_lies_in_the_range(void **state)
{
    (void)state;
    static const struct points_row rows[] = {
        {"all of it", 0, 47000, 20, ":1@0,14@20000,16@60000"},
        {"nothing before the start", 5000, 65000, 10, ":6@15000,8@25000,16@55000"},
        {"the start itself", 10000, 30000, 10, ":2@10000,12@20000"},
        {"one point", 20000, 20000, 20, ":8@20000"},
        {"a step beyond the range", 10000, 47000, 60, ":2@10000,28@70000"},
        {"nothing", 25000, 35000, 1, ""},
    };
    check_points(rows, COUNT(rows), false);
}

static void a_profile_of_the_starting_ms_is_of_the_first_point(void **state)
{
    (void)state;
    static const struct head_row rows[] = {
        {"t", TYPED, AT(0) - 1, {{"a", 1, 0}}, 1},
        {"t", TYPED, AT(0) + 749897, {{"a", 2, 0}}, 2},
        {"t", TYPED, AT(0) + 999999, {{"a", 4, 0}}, 3},
        {"t", TYPED, AT(0) + 1000000, {{"a", 8, 0}}, 4},
        {"t", TYPED, AT(5), {{"a", 16, 0}}, 5},
        {"t", TYPED, AT(5) + 1, {{"a", 32, 0}}, 6},
    };
    struct head h = {.member = "one", .rows = rows, .row_count = COUNT(rows), .stream = 1};
    struct ask k;
    ask_open(&k, &h, 1);
    for (int lead = 0; lead < 2; lead++) {
        char text[256];
        ask_set(&k, lead ? "--limits.series_lead=true" : "--limits.series_lead=false");
        ask_again(&k);
        request m = make_request(T, T + 5000, 1000);
        print_rows(ask_series(&k, &m), T, text, sizeof text);
        assert_string_equal(text, lead ? ":7@0,24@1000000" : ":6@0,24@1000000");
    }
    ask_close(&k);
}

static void the_answer_says_whether_values_are_spread(void **state)
{
    (void)state;
    struct head h = {.member = "one", .rows = step_rows, .row_count = 5, .stream = 1};
    struct ask k;
    ask_open(&k, &h, 1);
    ask_set(&k, "--limits.series_lead=true");
    request m = make_request(T + 10000, T + 30000, 10);
    const response *got = ask_series(&k, &m);
    assert_string_equal(got->spread, "");
    assert_string_equal(ask_said(&k, "flametree-spread"), "none");
    // As a field or as a header; and then there is no lead.
    char text[256];
    ask_again(&k);
    m.spread = true;
    got = ask_series(&k, &m);
    print_rows(got, T, text, sizeof text);
    assert_string_equal(text, ":2@10000,12@20000");
    assert_string_equal(got->spread, "duration");
    assert_string_equal(ask_said(&k, "flametree-spread"), "duration");
    ask_again(&k);
    m.spread = false;
    ask_header(&k, "flametree-spread", "duration");
    got = ask_series(&k, &m);
    assert_string_equal(got->spread, "");
    assert_string_equal(ask_said(&k, "flametree-spread"), "duration");
    // A mean is one of whole profiles.
    ask_again(&k);
    m.spread = true;
    m.aggregation = 1;
    m._aggregation_case = QUERIER__V1__SELECT_SERIES_REQUEST___AGGREGATION_AGGREGATION;
    got = ask_series(&k, &m);
    assert_string_equal(got->spread, "none");
    ask_close(&k);
}

static const struct head_row group_rows[] = {
    {"t", TYPED ",pod=a,env=x", AT(0), {{"f", 5, 0}}, 1},
    {"t", TYPED ",pod=b,env=x", AT(0), {{"f", 20, 0}}, 2},
    {"t", TYPED ",pod=b,env=y", AT(0), {{"f", 1, 0}}, 3},
    {"t", TYPED, AT(0), {{"f", 1, 0}, {"", 2, 0}}, 4},
};

static void groups_come_largest_first(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *by[3];
        int64_t limit;
        bool average;
        const char *wanted;
    } rows[] = {
        {"none", {NULL}, 0, false, ":29@0"},
        {"one", {"pod"}, 0, false, "b:21@0 a:5@0 :3@0"},
        {"two, in the order asked", {"pod", "env"}, 0, false, "b/x:20@0 a/x:5@0 :3@0 b/y:1@0"},
        {"two, the other way", {"env", "pod"}, 0, false, "x/b:20@0 x/a:5@0 :3@0 y/b:1@0"},
        {"twice the same", {"pod", "pod"}, 0, false, "b:21@0 a:5@0 :3@0"},
        {"unknown label", {"nope"}, 0, false, ":29@0"},
        {"limit", {"pod"}, 2, false, "b:21@0 a:5@0"},
        {"limit beyond", {"pod"}, 9, false, "b:21@0 a:5@0 :3@0"},
        {"mean of profiles", {"pod"}, 0, true, "b:10.5@0 a:5@0 :3@0"},
    };
    struct head h = {.member = "one",
                     .rows = group_rows,
                     .row_count = COUNT(group_rows),
                     .stream = 1};
    struct ask k;
    ask_open(&k, &h, 1);
    for (size_t i = 0; i < COUNT(rows); i++) {
        ask_again(&k);
        request m = make_request(T, T + 15000, 15);
        char *by[3];
        m.group_by = by;
        while (m.n_group_by < 3 && rows[i].by[m.n_group_by]) {
            by[m.n_group_by] = ask_text(rows[i].by[m.n_group_by]);
            m.n_group_by++;
        }
        m.limit = rows[i].limit;
        m._limit_case = QUERIER__V1__SELECT_SERIES_REQUEST___LIMIT_LIMIT;
        m.aggregation = rows[i].average ? 1 : 0;
        m._aggregation_case = QUERIER__V1__SELECT_SERIES_REQUEST___AGGREGATION_AGGREGATION;
        char text[256];
        print_rows(ask_series(&k, &m), T, text, sizeof text);
        if (strcmp(text, rows[i].wanted) != 0) fail_msg("%s: %s", rows[i].name, text);
        assert_string_equal(ask_said(&k, "flametree-profiles"), "4");
        assert_string_equal(ask_said(&k, "flametree-exact"), "exact");
    }
    ask_close(&k);
}

static void what_cannot_be_answered_is_refused(void **state)
{
    (void)state;
    struct head h = {.member = "one", .stream = 1};
    struct ask k;
    ask_open(&k, &h, 1);
    request m = make_request(T, T + 15000, 0);
    assert_false(ask_run(&k, series_select, &m.base));
    assert_string_equal(k.fault.msg, "step must be >= 1ms");
    m = make_request(T, T + 15000, 15);
    m.exemplar_type = 9;
    assert_false(ask_run(&k, series_select, &m.base));
    assert_string_equal(k.fault.msg, "unknown exemplar type: 9");
    m = make_request(T, T + 1000000, 0.001);
    assert_false(ask_run(&k, series_select, &m.base));
    assert_int_equal(k.fault.code, ERR_INVALID_ARGUMENT);
    assert_string_equal(k.fault.msg,
                        "the query asks for 1000001 points, (end - start) / step + 1, "
                        "which exceeds the limit (querier.max_points, limit: 1000000)");
    m = make_request(T, T + 999999, 0.001);
    assert_true(ask_run(&k, series_select, &m.base));
    assert_int_equal(k.asked, 1);
    static char *names[257];
    for (size_t i = 0; i < COUNT(names); i++)
        names[i] = ask_text("pod");
    m = make_request(T, T + 15000, 15);
    m.group_by = names;
    m.n_group_by = COUNT(names);
    assert_false(ask_run(&k, series_select, &m.base));
    assert_non_null(strstr(k.fault.msg, "257 labels"));
    assert_non_null(strstr(k.fault.msg, "(querier.max_labels, limit: 256)"));
    assert_int_equal(k.asked, 1);
    ask_close(&k);
}

static const struct head_row site_rows[] = {
    {"t", TYPED ",pod=a", AT(0), {{"main;a", 10, 0}, {"main;b", 5, 0}, {"init", 1, 0}}, 1},
    {"t", TYPED ",pod=b", AT(0), {{"init;main", 30, 0}, {"", 2, 0}}, 2},
};

static void a_call_site_restricts_totals(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        const char *site[3];
        bool average;
        const char *wanted;
    } rows[] = {
        {"none", {NULL}, false, ":48@0"},
        {"root", {"main"}, false, ":15@0"},
        {"two", {"main", "b"}, false, ":5@0"},
        {"other root", {"init"}, false, ":31@0"},
        {"nowhere", {"main", "x"}, false, ":0@0"},
        {"mean of all profiles", {"main"}, true, ":7.5@0"},
    };
    struct head h = {.member = "one", .rows = site_rows, .row_count = 2, .stream = 1};
    struct ask k;
    ask_open(&k, &h, 1);
    for (size_t i = 0; i < COUNT(rows); i++) {
        ask_again(&k);
        request m = make_request(T, T + 15000, 15);
        Types__V1__Location sites[3] = {TYPES__V1__LOCATION__INIT, TYPES__V1__LOCATION__INIT};
        Types__V1__Location *list[3];
        Types__V1__StackTraceSelector selector = TYPES__V1__STACK_TRACE_SELECTOR__INIT;
        selector.call_site = list;
        for (; rows[i].site[selector.n_call_site]; selector.n_call_site++) {
            sites[selector.n_call_site].name = ask_text(rows[i].site[selector.n_call_site]);
            list[selector.n_call_site] = &sites[selector.n_call_site];
        }
        m.stack_trace_selector = &selector;
        m.aggregation = rows[i].average ? 1 : 0;
        m._aggregation_case = QUERIER__V1__SELECT_SERIES_REQUEST___AGGREGATION_AGGREGATION;
        char text[256];
        print_rows(ask_series(&k, &m), T, text, sizeof text);
        if (strcmp(text, rows[i].wanted) != 0) fail_msg("%s: %s", rows[i].name, text);
    }
    ask_close(&k);
}

// "value@ms id=.. span=.. name=value,.." of the first point's exemplar.
static void print_exemplar(const Types__V1__Exemplar *x, char *text, size_t room)
{
    size_t n = (size_t)snprintf(text, room, "%lld@%lld", (long long)x->value,
                                (long long)(x->timestamp - T));
    if (x->profile_id[0]) n += (size_t)snprintf(text + n, room - n, " id=%s", x->profile_id + 34);
    if (x->span_id[0]) n += (size_t)snprintf(text + n, room - n, " span=%s", x->span_id);
    for (size_t i = 0; i < x->n_labels; i++) {
        if (strcmp(x->labels[i]->name, "__profile_type__") == 0) continue;
        n +=
            (size_t)snprintf(text + n, room - n, " %s=%s", x->labels[i]->name, x->labels[i]->value);
    }
}

#define SPAN UINT64_C(0x0102030405060708)

static void an_exemplar_is_the_largest_of_its_point(void **state)
{
    (void)state;
    static const struct head_row first[] = {
        {"t", TYPED ",pod=1,env=x", AT(0), {{"f", 10, 0}}, 1},
        {"t", TYPED ",pod=2,env=x", AT(-2), {{"f", 30, SPAN}, {"g", 1, 0}}, 2},
        {"t", TYPED ",pod=2,env=y", AT(9), {{"f", 7, 0}}, 3},
    };
    static const struct head_row second[] = {
        {"t", TYPED ",pod=3", AT(-3) + 999999, {{"f", 31, 0}}, 4},  // equal: earlier wins
        {"t", TYPED ",env=y", AT(9), {{"f", 7, 0}}, 3},             // the same profile once more
    };
    static const struct {
        const char *name;
        int kind;
        const char *by;
        const char *wanted;
    } rows[] = {
        {"of all", 2, NULL, "31@-3000 id=04 pod=3|7@9000 id=03 env=y"},
        {"of groups", 2, "pod",
         "31@-2000 id=02 env=x|7@9000 id=03 env=y|31@-3000 id=04|10@0 id=01 env=x|7@9000 id=03 "
         "env=y"},
        {"of spans", 3, NULL, "30@-2000 span=0807060504030201 env=x pod=2"},
        {"none", 1, NULL, ""},
        {"not asked for", 0, NULL, ""},
    };
    struct head h[2] = {{.member = "one", .rows = first, .row_count = COUNT(first), .stream = 1},
                        {.member = "two", .rows = second, .row_count = COUNT(second), .stream = 2}};
    struct ask k;
    ask_open(&k, h, 2);
    ask_set(&k, "--limits.series_lead=true");
    for (size_t i = 0; i < COUNT(rows); i++) {
        ask_again(&k);
        request m = make_request(T, T + 15000, 15);
        char *by = ask_text(rows[i].by ? rows[i].by : "");
        m.group_by = &by;
        m.n_group_by = rows[i].by != NULL;
        m.exemplar_type = (Types__V1__ExemplarType)rows[i].kind;
        const response *got = ask_series(&k, &m);
        char text[512] = "";
        for (size_t s = 0; s < got->n_series; s++) {
            for (size_t p = 0; p < got->series[s]->n_points; p++) {
                const Types__V1__Point *point = got->series[s]->points[p];
                size_t n = strlen(text);
                assert_true(point->n_exemplars <= 1);
                if (point->n_exemplars == 0) continue;
                if (n) text[n++] = '|';
                print_exemplar(point->exemplars[0], text + n, sizeof text - n);
            }
        }
        if (strcmp(text, rows[i].wanted) != 0) fail_msg("%s: %s", rows[i].name, text);
    }
    ask_close(&k);
}

static void annotations_of_a_point_come_once_and_in_order(void **state)
{
    (void)state;
    static const struct head_row first[] = {
        {"t", TYPED, AT(0), {{"f", 1, 0}}, 1},
        {"t", TYPED, AT(-15), {{"f", 1, 0}}, 2},
        {"t", TYPED, AT(-1), {{"f", 1, 0}}, 3},
        {"t", TYPED, AT(5), {{"f", 1, 0}}, 4},
    };
    static const char *const first_notes[] = {"b=2", "b=1", "b=2", NULL};
    static const struct head_row second[] = {
        {"t", TYPED, AT(0), {{"f", 1, 0}}, 5},
        {"t", TYPED, AT(-3), {{"f", 1, 0}}, 6},
    };
    static const char *const second_notes[] = {"b=2", "a={\"x\":[]}"};
    struct head h[2] = {{.member = "one", .rows = first, .row_count = COUNT(first), .stream = 1},
                        {.member = "two", .rows = second, .row_count = COUNT(second), .stream = 2}};
    h[0].annotations = first_notes;
    h[1].annotations = second_notes;
    struct ask k;
    ask_open(&k, h, 2);
    request m = make_request(T - 20000, T + 15000, 21);
    const response *got = ask_series(&k, &m);
    assert_int_equal(got->n_series, 1);
    assert_int_equal(got->series[0]->n_points, 2);
    const Types__V1__Point *p = got->series[0]->points[0];
    assert_int_equal(p->n_annotations, 3);
    assert_string_equal(p->annotations[0]->key, "a");
    assert_string_equal(p->annotations[0]->value, "{\"x\":[]}");
    assert_string_equal(p->annotations[1]->value, "1");
    assert_string_equal(p->annotations[2]->value, "2");
    assert_int_equal(got->series[0]->points[1]->n_annotations, 0);
    ask_close(&k);
}

static void points_beyond_64_bits_are_cut_and_the_answer_says_so(void **state)
{
    (void)state;
    static const struct head_row rows[] = {
        {"t", TYPED, AT(0), {{"f", INT64_MAX, 0}}, 1},
        {"t", TYPED, AT(-1), {{"f", 1, 0}}, 2},
    };
    struct head h = {.member = "one", .rows = rows, .row_count = COUNT(rows), .stream = 1};
    struct ask k;
    ask_open(&k, &h, 1);
    request m = make_request(T - 15000, T, 15);
    const response *got = ask_series(&k, &m);
    assert_int_equal(got->n_series, 1);
    assert_true(got->series[0]->points[0]->value == (double)INT64_MAX);
    assert_string_equal(ask_said(&k, "flametree-exact"), "partial=totals are cut at 64 bits");
    ask_close(&k);
}

// ---- against a model that reads the rule literally

static uint64_t seed;

static uint64_t next(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 7;
    seed ^= seed << 17;
    return seed;
}

#define PROFILES   40
#define POINTS_MAX 64

static int64_t model_point(const struct head_row *rows, size_t n, const request *m, int64_t step_ms,
                           int64_t t_ms, bool lead, bool *any)
{
    int64_t from = (m->start - (lead ? step_ms : 0)) * NS_PER_MS;
    int64_t sum = 0;
    *any = false;
    for (size_t i = 0; i < n; i++) {
        int64_t t = rows[i].time_ns;
        if (t < from || t > m->end * NS_PER_MS) continue;
        bool first = t < (m->start + 1) * NS_PER_MS;
        bool in = t > (t_ms - step_ms) * NS_PER_MS && t <= t_ms * NS_PER_MS && !first;
        if (t_ms == m->start ? !first : !in) continue;
        sum += rows[i].samples[0].value;
        *any = true;
    }
    return sum;
}

static void compare(const response *got, const struct head_row *rows, const request *m,
                    int64_t step_ms, bool lead, uint64_t from)
{
    size_t at = 0;
    for (int64_t t = m->start; t < m->end + step_ms; t += step_ms) {
        bool any = false;
        int64_t sum = model_point(rows, PROFILES, m, step_ms, t, lead, &any);
        if (!any) continue;
        if (got->n_series != 1 || at >= got->series[0]->n_points) {
            fail_msg("seed %llu: no point at %lld", (unsigned long long)from, (long long)t);
        }
        const Types__V1__Point *p = got->series[0]->points[at++];
        if (p->timestamp != t || p->value != (double)sum) {
            fail_msg("seed %llu: %g at %lld, wanted %lld at %lld", (unsigned long long)from,
                     p->value, (long long)p->timestamp, (long long)sum, (long long)t);
        }
    }
    size_t points = got->n_series ? got->series[0]->n_points : 0;
    if (points != at)
        fail_msg("seed %llu: %zu points too many", (unsigned long long)from, points - at);
}

static void points_equal_the_model_at_every_border(void **state)
{
    (void)state;
    static struct head_row rows[PROFILES];
    struct head h[2] = {
        {.member = "one", .rows = rows, .row_count = PROFILES / 3, .stream = 1},
        {.member = "two",
         .rows = rows + PROFILES / 3,
         .row_count = PROFILES - PROFILES / 3,
         .stream = 2},
    };
    struct ask k;
    ask_open(&k, h, 2);
    for (uint64_t from = 1; from <= 800; from++) {
        bool lead = from > 400;
        if (from == 401) ask_set(&k, "--limits.series_lead=true");
        seed = from * UINT64_C(0x9e3779b97f4a7c15);
        static const int64_t steps_ms[] = {1, 2, 7, 999, 1000, 15000, 86400000};
        int64_t step_ms = steps_ms[next() % COUNT(steps_ms)];
        int64_t start = T + (int64_t)(next() % 100000) - 50000;
        int64_t end = start + (int64_t)(next() % (uint64_t)(step_ms * 12 + 1));
        for (size_t i = 0; i < PROFILES; i++) {
            int64_t border = start + ((int64_t)(next() % 16) - 2) * step_ms;
            int64_t off = (int64_t)(next() % 3) - 1;  // the border itself and a ns beside it
            if (next() % 4 == 0) off = (int64_t)(next() % (uint64_t)(step_ms * NS_PER_MS));
            rows[i] = (struct head_row){
                "t", TYPED, border * NS_PER_MS + off, {{"f", (int64_t)(next() % 1000) + 1, 0}}, 1};
        }
        ask_again(&k);
        request m = make_request(start, end, (double)step_ms / 1000);
        compare(ask_series(&k, &m), rows, &m, step_ms, lead, from);
    }
    ask_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(points_lie_where_the_api_says),
        cmocka_unit_test(points_add_up_to_what_lies_in_the_range),
        cmocka_unit_test(a_profile_of_the_starting_ms_is_of_the_first_point),
        cmocka_unit_test(the_answer_says_whether_values_are_spread),
        cmocka_unit_test(groups_come_largest_first),
        cmocka_unit_test(what_cannot_be_answered_is_refused),
        cmocka_unit_test(a_call_site_restricts_totals),
        cmocka_unit_test(an_exemplar_is_the_largest_of_its_point),
        cmocka_unit_test(annotations_of_a_point_come_once_and_in_order),
        cmocka_unit_test(points_beyond_64_bits_are_cut_and_the_answer_says_so),
        cmocka_unit_test(points_equal_the_model_at_every_border),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
