// SPDX-License-Identifier: Apache-2.0
#include "querier/request/analyze.h"
#include "querier/request/heatmap.h"
#include "sys/clock.h"
#include "unit/querier/ask.h"

#include <stdio.h>

typedef Querier__V1__SelectHeatmapRequest request;
typedef Querier__V1__SelectHeatmapResponse response;

#define T     INT64_C(1700000000000)
#define TYPED "__profile_type__=" CPU
#define AT(s) ((T + (int64_t)(1000 * (s))) * NS_PER_MS)
#define SPAN  UINT64_C(0x0807060504030201)

static request make_request(int64_t start_ms, int64_t end_ms, double step)
{
    request m = QUERIER__V1__SELECT_HEATMAP_REQUEST__INIT;
    m.profile_typeid = ask_text(CPU);
    m.label_selector = ask_text("{}");
    m.start = T + start_ms;
    m.end = T + end_ms;
    m.step = step;
    m.query_type = QUERIER__V1__HEATMAP_QUERY_TYPE__HEATMAP_QUERY_TYPE_INDIVIDUAL;
    return m;
}

static const response *ask_heatmap(struct ask *k, const request *m)
{
    ask_again(k);
    return ask_ok(k, heatmap_select, &m->base, &querier__v1__select_heatmap_response__descriptor);
}

// "a[0:19=1 15000:2=1,19=2] b[..]": groups, slots by ms after T, counts by bucket that are not 0.
static void print_cells(const response *m, char *text, size_t room)
{
    size_t n = 0;
    text[0] = 0;
    for (size_t i = 0; i < m->n_series; i++) {
        const Types__V1__HeatmapSeries *s = m->series[i];
        if (i) n += (size_t)snprintf(text + n, room - n, " ");
        for (size_t k = 0; k < s->n_labels; k++)
            n += (size_t)snprintf(text + n, room - n, "%s%s", k ? "/" : "", s->labels[k]->value);
        for (size_t k = 0; k < s->n_slots; k++) {
            const Types__V1__HeatmapSlot *slot = s->slots[k];
            assert_int_equal(slot->n_y_min, HEAT_BUCKETS);
            assert_int_equal(slot->n_counts, HEAT_BUCKETS);
            n += (size_t)snprintf(text + n, room - n, "%s%lld:", k ? " " : "[",
                                  (long long)(slot->timestamp - T));
            const char *comma = "";
            for (size_t b = 0; b < slot->n_counts; b++) {
                if (slot->counts[b] == 0) continue;
                n += (size_t)snprintf(text + n, room - n, "%s%zu=%d", comma, b, slot->counts[b]);
                comma = ",";
            }
        }
        n += (size_t)snprintf(text + n, room - n, "]");
    }
}

// Values whose buckets are plain: 0 .. 2000 has bounds 0, 100, 200, ...
static const struct head_row rows_one[] = {
    {"t", TYPED ",pod=a", AT(0), {{"f", 1, 0}, {"g", 99, SPAN}}, 1},
    {"t", TYPED ",pod=a", AT(0) + NS_PER_MS, {{"f", 200, 0}}, 2},
    {"t", TYPED ",pod=b", AT(100), {{"f", 199, SPAN}}, 3},
    {"t", TYPED ",pod=b", AT(150), {{"f", 2000, 2}, {"g", 10, SPAN}, {"h", 5, 2}}, 4},
};
static const struct head_row rows_two[] = {
    {"t", TYPED ",pod=a", AT(-100), {{"f", 15, 0}}, 5},
    {"t", TYPED ",pod=a", AT(-100) - 1, {{"f", 1 << 20, 0}}, 6},
    {"t", TYPED ",pod=a", AT(190), {{"f", 2015, 0}}, 7},
    {"t", TYPED, AT(150), {{"f", 2000, 0}}, 8},
    {"t", "__profile_type__=x:y:z::", AT(0), {{"f", 1 << 20, 0}}, 9},
};

static struct head heads[] = {
    {.member = "one", .rows = rows_one, .row_count = COUNT(rows_one), .stream = 1},
    {.member = "two", .rows = rows_two, .row_count = COUNT(rows_two), .stream = 2},
};

static void values_count_where_the_api_says(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t start;
        int64_t end;
        double step;
        const char *by;
        int64_t limit;
        bool spans;
        const char *wanted;
    } rows[] = {
        {"slots by right edge, the last takes the rest", 0, 190000, 100, NULL, 0, false,
         "[0:0=2 100000:1=2,19=3]"},
        {"ends between slots", 0, 160000, 60, NULL, 0, false, "[0:0=1 60000:1=1 120000:1=1,19=2]"},
        {"groups by labels", 0, 190000, 100, "pod", 0, false,
         "[100000:19=1] a[0:0=2 100000:1=1,19=1] b[100000:1=1,19=1]"},
        {"the largest groups", 0, 190000, 100, "pod", 2, false,
         "a[0:0=2 100000:1=1,19=1] b[100000:1=1,19=1]"},
        {"limit beyond", 0, 190000, 100, "pod", 9, false,
         "a[0:0=2 100000:1=1,19=1] b[100000:1=1,19=1] [100000:19=1]"},
        {"one value", 185000, 195000, 6, NULL, 0, false, "[191000:19=1]"},
        {"nothing", 300000, 400000, 10, NULL, 0, false, ""},
        {"spans", 0, 190000, 100, NULL, 0, true, "[0:0=1 100000:0=1,1=1,19=1]"},
        {"spans of groups", 0, 190000, 100, "pod", 0, true, "a[0:0=1] b[100000:0=1,1=1,19=1]"},
    };
    struct ask k;
    ask_open(&k, heads, COUNT(heads));
    ask_set(&k, "--limits.series_lead=true");
    for (size_t i = 0; i < COUNT(rows); i++) {
        request m = make_request(rows[i].start, rows[i].end, rows[i].step);
        char *by = ask_text(rows[i].by ? rows[i].by : "");
        m.group_by = &by;
        m.n_group_by = rows[i].by != NULL;
        m.limit = rows[i].limit;
        m._limit_case = QUERIER__V1__SELECT_HEATMAP_REQUEST___LIMIT_LIMIT;
        if (rows[i].spans) {
            m.query_type = QUERIER__V1__HEATMAP_QUERY_TYPE__HEATMAP_QUERY_TYPE_SPAN;
        }
        char text[512];
        print_cells(ask_heatmap(&k, &m), text, sizeof text);
        if (strcmp(text, rows[i].wanted) != 0) fail_msg("%s: %s", rows[i].name, text);
    }
    ask_close(&k);
}

// Where a time lies, with start 100, end 1000 and step 100.
static void slots_are_named_by_their_right_edge(void **state)
{
    (void)state;
    static const struct {
        int64_t start;
        int64_t end;
        int64_t step;
        int64_t at;
        int64_t slot;
    } rows[] = {{100, 1000, 100, 50, 100},    {100, 1000, 100, 100, 100},
                {100, 1000, 100, 150, 200},   {100, 1000, 100, 200, 200},
                {100, 1000, 100, 550, 600},   {100, 1000, 100, 1000, 1000},
                {100, 1050, 100, 1001, 1000}, {100, 1050, 100, 1050, 1000},
                {12, 412, 200, 180, 212},     {12, 412, 200, 12, 12}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct head_row row = {"t", TYPED, (T + rows[i].at) * NS_PER_MS, {{"f", 5, 0}}, 1};
        struct head h = {.member = "one", .rows = &row, .row_count = 1, .stream = 1};
        struct ask k;
        ask_open(&k, &h, 1);
        ask_set(&k, "--limits.series_lead=true");
        request m = make_request(rows[i].start, rows[i].end, (double)rows[i].step / 1000);
        const response *got = ask_heatmap(&k, &m);
        assert_int_equal(got->n_series, 1);
        assert_int_equal(got->series[0]->n_slots, 1);
        assert_int_equal(got->series[0]->slots[0]->timestamp - T, rows[i].slot);
        ask_close(&k);
    }
}

static void profiles_outside_the_range_count_in_no_slot(void **state)
{
    (void)state;
    struct ask k;
    char text[512];
    ask_open(&k, heads, COUNT(heads));
    request m = make_request(0, 160000, 100);
    print_cells(ask_heatmap(&k, &m), text, sizeof text);
    assert_string_equal(text, "[0:0=1 100000:1=2,19=2]");
    ask_close(&k);
}

static void the_axis_has_20_whole_bounds(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t least;
        int64_t largest;
        int64_t first;
        int64_t second;
        int64_t last;
    } rows[] = {
        {"plain", 0, 2000, 0, 100, 1900},
        {"cut to whole numbers", 1, 16, 1, 1, 15},
        {"one value", 7, 7, 7, 7, 7},
        {"one value, the largest", INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX, INT64_MAX},
        {"negative", -10, 10, -10, -9, 9},
        {"all numbers", INT64_MIN, INT64_MAX, INT64_MIN, -8301034833169298176, 8301034833169299456},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        struct query_heat h = {0};
        query_set_axis(&h, rows[i].least, rows[i].largest);
        assert_int_equal(h.bound_count, 20);
        if (h.bounds[0] != rows[i].first || h.bounds[1] != rows[i].second ||
            h.bounds[19] != rows[i].last) {
            fail_msg("%s: %lld %lld .. %lld", rows[i].name, (long long)h.bounds[0],
                     (long long)h.bounds[1], (long long)h.bounds[19]);
        }
        for (size_t k = 1; k < h.bound_count; k++)
            assert_true(h.bounds[k - 1] <= h.bounds[k] && h.bounds[k] <= h.largest);
    }
}

static void exemplars_are_the_largest_of_their_cells(void **state)
{
    (void)state;
    struct ask k;
    ask_open(&k, heads, COUNT(heads));
    request m = make_request(0, 190000, 100);
    m.exemplar_type = TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_INDIVIDUAL;
    char *by = ask_text("pod");
    m.group_by = &by;
    m.n_group_by = 1;
    const response *got = ask_heatmap(&k, &m);
    const Types__V1__HeatmapSlot *slot = got->series[1]->slots[0];
    assert_int_equal(slot->n_exemplars, 1);
    assert_true(slot->exemplars[0]->value == 100 && slot->exemplars[0]->timestamp == T);
    assert_string_equal(slot->exemplars[0]->profile_id + 34, "01");
    assert_int_equal(slot->exemplars[0]->n_labels, 1);
    assert_string_equal(slot->exemplars[0]->labels[0]->name, "__profile_type__");
    slot = got->series[2]->slots[0];
    assert_int_equal(slot->n_exemplars, 2);
    assert_true(slot->exemplars[0]->value == 199 && slot->exemplars[1]->value == 2015);
    m.query_type = QUERIER__V1__HEATMAP_QUERY_TYPE__HEATMAP_QUERY_TYPE_SPAN;
    m.exemplar_type = TYPES__V1__EXEMPLAR_TYPE__EXEMPLAR_TYPE_SPAN;
    got = ask_heatmap(&k, &m);
    slot = got->series[1]->slots[0];
    assert_int_equal(slot->n_exemplars, 3);
    assert_string_equal(slot->exemplars[0]->span_id, "0102030405060708");
    assert_string_equal(slot->exemplars[0]->profile_id, "");
    assert_string_equal(slot->exemplars[2]->span_id, "0200000000000000");
    assert_true(slot->exemplars[2]->value == 2005);
    ask_close(&k);
}

static void what_makes_no_sense_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        int64_t start;
        int64_t end;
        double step;
        int64_t limit;
        int type;
        int exemplars;
        const char *message;
    } rows[] = {
        {"step", 0, 1000, 0.0005, 0, 1, 0, "step must be >= 1ms, got 0.0005 s"},
        {"limit", 0, 1000, 1, -1, 1, 0, "limit must be >= 0, got -1"},
        {"no length", 0, 0, 1, 0, 1, 0,
         "start time must be before end time, got start=1700000000000 end=1700000000000"},
        {"no range", -T, 0, 1, 0, 1, 0, "missing time range in the query"},
        {"no type", 0, 1000, 1, 0, 0, 0, "valid heatmap query type must be specified"},
        {"other type", 0, 1000, 1, 0, 3, 0, "valid heatmap query type must be specified"},
        {"profiles of spans", 0, 1000, 1, 0, 2, 2,
         "individual exemplars only available for individual query type"},
        {"spans of profiles", 0, 1000, 1, 0, 1, 3,
         "span exemplars only available for span query type"},
        {"other exemplars", 0, 1000, 1, 0, 1, 4, "unknown exemplar type: 4"},
        {"cells", 0, 50000, 0.001, 0, 1, 0,
         "the query asks for 1000020 cells, 20 for each of (end - start) / step + 1 slots, which "
         "exceeds the limit (querier.max_points, limit: 1000000)"},
    };
    struct ask k;
    ask_open(&k, heads, COUNT(heads));
    for (size_t i = 0; i < COUNT(rows); i++) {
        ask_again(&k);
        request m = make_request(rows[i].start, rows[i].end, rows[i].step);
        m.limit = rows[i].limit;
        m._limit_case = QUERIER__V1__SELECT_HEATMAP_REQUEST___LIMIT_LIMIT;
        m.query_type = (Querier__V1__HeatmapQueryType)rows[i].type;
        m.exemplar_type = (Types__V1__ExemplarType)rows[i].exemplars;
        if (ask_run(&k, heatmap_select, &m.base)) fail_msg("%s", rows[i].name);
        assert_int_equal(k.fault.code, ERR_INVALID_ARGUMENT);
        assert_string_equal(k.fault.msg, rows[i].message);
    }
    assert_int_equal(k.asked, 0);
    ask_close(&k);
}

static void analysis_tells_what_would_be_read(void **state)
{
    (void)state;
    struct ask k;
    ask_open(&k, heads, COUNT(heads));
    Querier__V1__AnalyzeQueryRequest m = QUERIER__V1__ANALYZE_QUERY_REQUEST__INIT;
    m.start = T - 1000000;
    m.end = T + 1000000;
    m.query = ask_text(CPU "{pod=~\".+\"}");
    const Querier__V1__AnalyzeQueryResponse *got =
        ask_ok(&k, analyze_run, &m.base, &querier__v1__analyze_query_response__descriptor);
    assert_int_equal(got->n_query_scopes, 1);
    assert_string_equal(got->query_scopes[0]->component_type, "Short term storage");
    assert_int_equal(got->query_scopes[0]->component_count, 2);
    assert_int_equal(got->query_scopes[0]->profile_count, 7);
    assert_int_equal(got->query_scopes[0]->sample_count, 7 * 5);
    assert_int_equal(got->query_impact->total_bytes_in_time_range, 7 * (6 + 7 + 8));
    ask_again(&k);
    m.query = ask_text("{pod=\"none\"}");
    assert_true(ask_run(&k, analyze_run, &m.base));
    assert_int_equal(k.out.n, 0);
    ask_again(&k);
    m.query = ask_text("{");
    assert_false(ask_run(&k, analyze_run, &m.base));
    assert_int_equal(k.fault.code, ERR_INVALID_ARGUMENT);
    ask_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_count_where_the_api_says),
        cmocka_unit_test(slots_are_named_by_their_right_edge),
        cmocka_unit_test(profiles_outside_the_range_count_in_no_slot),
        cmocka_unit_test(the_axis_has_20_whole_bounds),
        cmocka_unit_test(exemplars_are_the_largest_of_their_cells),
        cmocka_unit_test(what_makes_no_sense_is_refused),
        cmocka_unit_test(analysis_tells_what_would_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
