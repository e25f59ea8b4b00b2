// SPDX-License-Identifier: Apache-2.0
#include "flametree/v1/internal.pb-c.h"
#include "querier/request/diff.h"
#include "querier/request/discovery.h"
#include "querier/request/merge_profile.h"
#include "querier/request/stacktraces.h"
#include "querier/request/stats.h"
#include "querier/request/version.h"
#include "sys/clock.h"
#include "unit/querier/ask.h"
#include "version/v1/version.pb-c.h"

#include <stdio.h>

#define T                    INT64_C(1700000000000)
#define TN                   (T * NS_PER_MS)
#define BLOCK                "block:contentions:count:contentions:count"
#define TYPE(id, name, type) "__profile_type__=" id ",__name__=" name ",__type__=" type

#define ONE UINT64_C(0x0807060504030201)  // span 0102030405060708

static const struct head_row first_rows[] = {
    {"t",
     TYPE(CPU, "process_cpu", "cpu") ",service_name=demo,env=prod,pod=a-1",
     TN,
     {{"main;a", 1, 0}, {"main;a;x", 2, ONE}},
     1},
    {"t",
     TYPE(CPU, "process_cpu", "cpu") ",service_name=demo,env=dev",
     TN + 500000,
     {{"main;b", 4, 0}, {"", 100, 0}},
     2},
    {"u", TYPE(CPU, "process_cpu", "cpu") ",service_name=demo,own=u", TN, {{"main;a", 32, 0}}, 3},
};
static const struct head_row second_rows[] = {
    {"t",
     TYPE(CPU, "process_cpu", "cpu") ",service_name=demo,env=prod,k8s.pod=p",
     TN,
     {{"main;a", 8, ONE}},
     4},
    {"t", TYPE(BLOCK, "block", "contentions") ",service_name=demo,env=prod", TN, {{"x", 16, 0}}, 5},
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

static int64_t total(struct ask *k, const merge_request *m)
{
    ask_again(k);
    return ask_merge_ok(k, m)->flamegraph->total;
}

// ---- flame graphs

static void flame_graph_is_the_sum_of_all_ingesters(void **state)
{
    struct ask *k = *state;
    merge_request m = ask_merge("{service_name=\"demo\"}", T);
    const Querier__V1__FlameGraph *g = ask_merge_ok(k, &m)->flamegraph;
    static const char *const names[] = {"total", "main", "b", "a", "x", "[unknown]"};
    assert_int_equal(g->n_names, COUNT(names));
    for (size_t i = 0; i < COUNT(names); i++)
        assert_string_equal(g->names[i], names[i]);
    assert_true(g->total == 115 && g->max_self == 100);
    assert_int_equal(g->n_levels, 4);
    static const int64_t level[] = {100, 11, 9, 3, 0, 4, 4, 2};
    assert_int_equal(g->levels[2]->n_values, COUNT(level));
    for (size_t i = 0; i < COUNT(level); i++)
        assert_true(g->levels[2]->values[i] == level[i]);
    assert_string_equal(ask_said(k, "flametree-profiles"), "3");
    assert_string_equal(ask_said(k, "flametree-exact"), "exact");
    assert_string_equal(ask_said(k, "flametree-missing"), "");
    assert_int_equal(strncmp(ask_said(k, "server-timing"), "query;dur=", 10), 0);
}

static void edges_are_inclusive_to_the_ns(void **state)
{
    static const struct {
        const char *name;
        int64_t start;
        int64_t end;
        int64_t total;
    } rows[] = {
        {"the instant", T, T, 11},  // the profile at half a ms after it is not there
        {"starts at it", T, T + 1, 115},
        {"starts after it", T + 1, T + 1000, 0},
        {"ends before it", T - 1000, T - 1, 0},
        {"ends at it", T - 1000, T, 11},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        merge_request m = ask_merge("{}", T);
        m.start = rows[i].start;
        m.end = rows[i].end;
        if (total(*state, &m) != rows[i].total) fail_msg("%s", rows[i].name);
    }
}

static void selectors_choose_series(void **state)
{
    static const struct {
        const char *selector;
        int64_t total;
    } rows[] = {
        {"{env=\"prod\"}", 11},
        {"{env!=\"prod\"}", 104},
        {"{env=~\"p.*\"}", 11},
        {"{pod=\"\"}", 112},
        {"{pod!=\"\"}", 3},
        {"{\"k8s.pod\"=\"p\"}", 8},
        {"process_cpu{env=\"dev\"}", 104},
        {"{env=\"nope\"}", 0},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        merge_request m = ask_merge(rows[i].selector, T);
        if (total(*state, &m) != rows[i].total) fail_msg("%s", rows[i].selector);
    }
}

static void no_data_is_one_bar_of_nothing(void **state)
{
    struct ask *k = *state;
    merge_request m = ask_merge("{env=\"nope\"}", T);
    const Querier__V1__FlameGraph *g = ask_merge_ok(k, &m)->flamegraph;
    assert_int_equal(g->n_names, 1);
    assert_string_equal(g->names[0], "total");
    assert_int_equal(g->n_levels, 1);
    assert_int_equal(g->levels[0]->n_values, 4);
    assert_true(g->total == 0);
}

static void max_nodes_keeps_the_total(void **state)
{
    struct ask *k = *state;
    merge_request m = ask_merge("{}", T);
    m._max_nodes_case = QUERIER__V1__SELECT_MERGE_STACKTRACES_REQUEST___MAX_NODES_MAX_NODES;
    for (m.max_nodes = 1; m.max_nodes < 6; m.max_nodes++)
        assert_true(total(k, &m) == 115);
    m.max_nodes = 2;
    ask_again(k);
    const Querier__V1__FlameGraph *g = ask_merge_ok(k, &m)->flamegraph;
    bool other = false;
    for (size_t i = 0; i < g->n_names; i++)
        other = other || strcmp(g->names[i], "other") == 0;
    assert_true(other);
    m.max_nodes = 1048577;
    assert_false(ask_run(k, stacktraces_merge, &m.base));
    assert_string_equal(k->fault.msg,
                        "max flamegraph nodes limit 1048577 is greater than allowed 1048576");
}

static void call_site_spans_and_ids_narrow(void **state)
{
    struct ask *k = *state;
    merge_request m = ask_merge("{}", T);
    Types__V1__Location main_site = TYPES__V1__LOCATION__INIT;
    main_site.name = ask_text("main");
    Types__V1__Location a_site = TYPES__V1__LOCATION__INIT;
    a_site.name = ask_text("a");
    Types__V1__Location *sites[] = {&main_site, &a_site};
    Types__V1__StackTraceSelector selector = TYPES__V1__STACK_TRACE_SELECTOR__INIT;
    selector.call_site = sites;
    selector.n_call_site = 2;
    m.stack_trace_selector = &selector;
    assert_true(total(k, &m) == 11);
    m = ask_merge("{}", T);
    char *span = ask_text("0102030405060708");
    m.span_selector = &span;
    m.n_span_selector = 1;
    assert_true(total(k, &m) == 10);
    m = ask_merge("{}", T);
    char *id = ask_text("00000000-0000-0000-0000-000000000002");
    m.profile_id_selector = &id;
    m.n_profile_id_selector = 1;
    assert_true(total(k, &m) == 104);
}

static void spans_of_zeros_ask_nobody(void **state)
{
    struct ask *k = *state;
    merge_request m = ask_merge("{}", T);
    char *span = ask_text("0000000000000000");
    m.span_selector = &span;
    m.n_span_selector = 1;
    assert_true(total(k, &m) == 0);
    assert_int_equal(k->asked, 0);
}

static void span_profile_is_the_same_with_spans(void **state)
{
    struct ask *k = *state;
    Querier__V1__SelectMergeSpanProfileRequest m =
        QUERIER__V1__SELECT_MERGE_SPAN_PROFILE_REQUEST__INIT;
    m.profile_typeid = ask_text(CPU);
    m.label_selector = ask_text("{}");
    m.start = T - 1;
    m.end = T + 1;
    const Querier__V1__SelectMergeSpanProfileResponse *r =
        ask_ok(k, stacktraces_merge_spans, &m.base,
               &querier__v1__select_merge_span_profile_response__descriptor);
    assert_true(r->flamegraph->total == 115);
    char *span = ask_text("0102030405060708");
    m.span_selector = &span;
    m.n_span_selector = 1;
    m.format = QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_TREE;
    ask_again(k);
    r = ask_ok(k, stacktraces_merge_spans, &m.base,
               &querier__v1__select_merge_span_profile_response__descriptor);
    assert_null(r->flamegraph);
    static const char tree[] = "\0\0\1\4main\0\1\1a\x08\1\1x\2\0";
    assert_int_equal(r->tree.len, sizeof tree - 1);
    assert_memory_equal(r->tree.data, tree, r->tree.len);
}

static void bad_questions_are_refused_before_anybody_is_asked(void **state)
{
    struct ask *k = *state;
    static const struct {
        const char *name;
        const char *type;
        const char *selector;
        int64_t start;
        int64_t end;
        int32_t format;
        enum err_code code;
        const char *message;
    } rows[] = {
        {"no type", "", "{}", T, T, 0, ERR_INVALID_ARGUMENT, "profile-type selection must be"},
        {"four parts", "a:b:c:d", "{}", T, T, 0, ERR_INVALID_ARGUMENT, "of the form"},
        {"no selector", CPU, "", T, T, 0, ERR_INVALID_ARGUMENT, "label selector"},
        {"bad selector", CPU, "invalid{", T, T, 0, ERR_INVALID_ARGUMENT, "label selector"},
        {"no range", CPU, "{}", 0, 0, 0, ERR_INVALID_ARGUMENT, "missing time range in the query"},
        {"backwards", CPU, "{}", 2000, 1000, 0, ERR_INVALID_ARGUMENT, "start time is after end"},
        {"too long", CPU, "{}", 1, T, 0, ERR_INVALID_ARGUMENT, "max_query_length"},
        {"dot without a type", "", "{}", T, T, 3, ERR_INVALID_ARGUMENT, "of the form"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        ask_again(k);
        merge_request m = ask_merge(rows[i].selector, T);
        m.profile_typeid = ask_text(rows[i].type);
        m.start = rows[i].start;
        m.end = rows[i].end;
        m.format = (Querier__V1__ProfileFormat)rows[i].format;
        if (ask_run(k, stacktraces_merge, &m.base)) fail_msg("%s", rows[i].name);
        assert_int_equal(k->fault.code, rows[i].code);
        if (!strstr(k->fault.msg, rows[i].message)) fail_msg("%s: %s", rows[i].name, k->fault.msg);
    }
    merge_request m = ask_merge("{}", T);
    char *span = ask_text("0102030405060708");
    char *trace = ask_text("0123456789abcdef0123456789abcdef");
    m.span_selector = &span;
    m.trace_id_selector = &trace;
    m.n_span_selector = 1;
    m.n_trace_id_selector = 1;
    assert_false(ask_run(k, stacktraces_merge, &m.base));
    assert_string_equal(k->fault.msg, "span_selector and trace_id_selector cannot be combined");
    assert_int_equal(k->asked, 0);
}

// ---- pprof

static void check_pprof(const Google__V1__Profile *p, int64_t end_ms)
{
    assert_int_equal(p->n_sample_type, 1);
    assert_string_equal(p->string_table[p->sample_type[0]->type], "cpu");
    assert_string_equal(p->string_table[p->sample_type[0]->unit], "nanoseconds");
    assert_string_equal(p->string_table[p->period_type->unit], "nanoseconds");
    assert_true(p->period == 1000000000);
    assert_true(p->time_nanos == end_ms * NS_PER_MS);
    int64_t sum = 0;
    for (size_t i = 0; i < p->n_sample; i++)
        sum += p->sample[i]->value[0];
    assert_true(sum == 115);  // with the sample that has no stack
    assert_int_equal(p->n_sample, 4);
    assert_true(p->function[0]->start_line == 3);
    assert_true(p->location[0]->line[0]->line == 7);
}

static void profiles_are_exported_whole(void **state)
{
    struct ask *k = *state;
    Querier__V1__SelectMergeProfileRequest m = QUERIER__V1__SELECT_MERGE_PROFILE_REQUEST__INIT;
    m.profile_typeid = ask_text(CPU);
    m.label_selector = ask_text("{}");
    m.start = T - 1000;
    m.end = T + 2000;
    check_pprof(ask_ok(k, merge_profile, &m.base, &google__v1__profile__descriptor), m.end);
    merge_request f = ask_merge("{}", T);
    f.format = QUERIER__V1__PROFILE_FORMAT__PROFILE_FORMAT_PPROF;
    ask_again(k);
    const merge_response *r = ask_merge_ok(k, &f);
    assert_null(r->flamegraph);
    check_pprof(r->pprof->profile, f.end);
    m.label_selector = ask_text("{env=\"nope\"}");
    ask_again(k);
    assert_true(ask_run(k, merge_profile, &m.base));
    assert_int_equal(k->out.n, 0);
}

static void pgo_keeps_the_leaves(void **state)
{
    struct ask *k = *state;
    static const struct {
        uint32_t keep;
        bool aggregate;
        size_t samples;
        int64_t leaf_line;
    } rows[] = {{0, false, 4, 7}, {1, false, 4, 7}, {1, true, 4, 0}, {2, false, 4, 7}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        Querier__V1__SelectMergeProfileRequest m = QUERIER__V1__SELECT_MERGE_PROFILE_REQUEST__INIT;
        m.profile_typeid = ask_text(CPU);
        m.label_selector = ask_text("{}");
        m.start = T - 1000;
        m.end = T + 1000;
        Types__V1__GoPGO pgo = TYPES__V1__GO_PGO__INIT;
        pgo.keep_locations = rows[i].keep;
        pgo.aggregate_callees = rows[i].aggregate;
        Types__V1__Location site = TYPES__V1__LOCATION__INIT;
        site.name = ask_text("nowhere");  // go_pgo wins
        Types__V1__Location *sites[] = {&site};
        Types__V1__StackTraceSelector selector = TYPES__V1__STACK_TRACE_SELECTOR__INIT;
        selector.go_pgo = &pgo;
        selector.call_site = sites;
        selector.n_call_site = 1;
        m.stack_trace_selector = &selector;
        ask_again(k);
        const Google__V1__Profile *p =
            ask_ok(k, merge_profile, &m.base, &google__v1__profile__descriptor);
        assert_int_equal(p->n_sample, rows[i].samples);
        int64_t sum = 0;
        for (size_t s = 0; s < p->n_sample; s++) {
            sum += p->sample[s]->value[0];
            if (rows[i].keep) assert_true(p->sample[s]->n_location_id <= rows[i].keep);
            if (p->sample[s]->n_location_id == 0) continue;
            const Google__V1__Location *leaf = p->location[p->sample[s]->location_id[0] - 1];
            assert_true(leaf->line[0]->line == rows[i].leaf_line);
        }
        assert_true(sum == 115);
    }
}

// ---- diff

static const Querier__V1__DiffResponse *ask_diff(struct ask *k, const char *of_left,
                                                 const char *of_right)
{
    merge_request left = ask_merge(of_left, T);
    merge_request right = ask_merge(of_right, T);
    Querier__V1__DiffRequest m = QUERIER__V1__DIFF_REQUEST__INIT;
    m.left = &left;
    m.right = &right;
    return ask_ok(k, diff_run, &m.base, &querier__v1__diff_response__descriptor);
}

static void diff_has_both_sides(void **state)
{
    struct ask *k = *state;
    const Querier__V1__DiffResponse *r = ask_diff(k, "{env=\"prod\"}", "{env=\"dev\"}");
    assert_true(r->flamegraph->leftticks == 11 && r->flamegraph->rightticks == 104);
    assert_true(r->flamegraph->total == 115 && r->flamegraph->max_self == 100);
    assert_string_equal(ask_said(k, "flametree-profiles"), "3");
}

// Each of the profiles of "bad" fits 64 bits, their sum does not: the left side, which has one of
// them, is read again without it, for both sides compare the same services.
static void a_service_that_one_side_of_a_diff_leaves_out_the_other_does_too(void **state)
{
    (void)state;
    static const struct head_row one[] = {
        {"t", TYPE(CPU, "process_cpu", "cpu") ",service_name=good", TN, {{"main", 5, 0}}, 1},
        {"t",
         TYPE(CPU, "process_cpu", "cpu") ",service_name=bad,k=1",
         TN,
         {{"main", INT64_MAX - 10, 0}},
         2},
    };
    static const struct head_row two[] = {{"t",
                                           TYPE(CPU, "process_cpu", "cpu") ",service_name=bad,k=2",
                                           TN,
                                           {{"main", INT64_MAX - 10, 0}},
                                           3}};
    struct head large[] = {
        {.member = "one", .rows = one, .row_count = COUNT(one), .stream = 1},
        {.member = "two", .rows = two, .row_count = COUNT(two), .stream = 2},
    };
    struct ask k;
    ask_open(&k, large, COUNT(large));
    const Querier__V1__DiffResponse *r = ask_diff(&k, "{k!=\"2\"}", "{}");
    assert_true(r->flamegraph->leftticks == 5 && r->flamegraph->rightticks == 5);
    assert_string_equal(ask_said(&k, "flametree-profiles"), "2");
    assert_non_null(strstr(ask_said(&k, "flametree-missing"), "service bad is left out"));
    ask_close(&k);
}

static void bad_sides_of_a_diff_are_named(void **state)
{
    struct ask *k = *state;
    merge_request good = ask_merge("{}", T);
    merge_request bad = ask_merge("", T);
    Querier__V1__DiffRequest m = QUERIER__V1__DIFF_REQUEST__INIT;
    m.left = &good;
    m.right = &bad;
    assert_false(ask_run(k, diff_run, &m.base));
    assert_int_equal(k->fault.code, ERR_INVALID_ARGUMENT);
    assert_int_equal(strncmp(k->fault.msg, "right side: ", 12), 0);
    m.left = NULL;
    ask_again(k);
    assert_false(ask_run(k, diff_run, &m.base));
    assert_int_equal(k->fault.code, ERR_INVALID_ARGUMENT);
    assert_int_equal(strncmp(k->fault.msg, "left side: ", 11), 0);
}

// ---- discovery

// "a b c"
static void join(char *const *texts, size_t n, char *out, size_t room)
{
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; i < n; i++)
        at += (size_t)snprintf(out + at, room - at, "%s%s", i ? " " : "", texts[i]);
}

static void profile_types_are_sorted_and_taken_apart(void **state)
{
    struct ask *k = *state;
    Querier__V1__ProfileTypesRequest m = QUERIER__V1__PROFILE_TYPES_REQUEST__INIT;
    m.start = T;
    m.end = T;
    const Querier__V1__ProfileTypesResponse *r =
        ask_ok(k, discovery_profile_types, &m.base,
               &querier__v1__profile_types_response__descriptor);
    assert_int_equal(r->n_profile_types, 2);
    assert_string_equal(r->profile_types[0]->id, BLOCK);
    const Types__V1__ProfileType *t = r->profile_types[1];
    assert_string_equal(t->id, CPU);
    assert_string_equal(t->name, "process_cpu");
    assert_string_equal(t->sample_type, "cpu");
    assert_string_equal(t->sample_unit, "nanoseconds");
    assert_string_equal(t->period_type, "cpu");
    assert_string_equal(t->period_unit, "nanoseconds");
}

static void profile_types_without_a_range_are_of_the_last_hour(void **state)
{
    (void)state;
    int64_t now = clock_wall_ns();
    const struct head_row rows[] = {
        {"t", "__profile_type__=new:a:b::", now - 60 * NS_PER_S, {{"a", 1, 0}}, 1},
        {"t", "__profile_type__=old:a:b::", now - 3700 * NS_PER_S, {{"a", 1, 0}}, 2},
    };
    struct head h = {.member = "one", .rows = rows, .row_count = COUNT(rows), .stream = 1};
    struct ask k;
    ask_open(&k, &h, 1);
    Querier__V1__ProfileTypesRequest m = QUERIER__V1__PROFILE_TYPES_REQUEST__INIT;
    const Querier__V1__ProfileTypesResponse *r =
        ask_ok(&k, discovery_profile_types, &m.base,
               &querier__v1__profile_types_response__descriptor);
    assert_int_equal(r->n_profile_types, 1);
    assert_string_equal(r->profile_types[0]->name, "new");
    m.start = 1;
    assert_false(ask_run(&k, discovery_profile_types, &m.base));
    assert_string_equal(k.fault.msg, "missing time range in the query");
    ask_close(&k);
}

static void label_names_hide_what_old_clients_cannot_read(void **state)
{
    struct ask *k = *state;
    Types__V1__LabelNamesRequest m = TYPES__V1__LABEL_NAMES_REQUEST__INIT;
    m.start = T;
    m.end = T;
    char text[256];
    const Types__V1__LabelNamesResponse *r =
        ask_ok(k, discovery_label_names, &m.base, &types__v1__label_names_response__descriptor);
    join(r->names, r->n_names, text, sizeof text);
    assert_string_equal(text, "__name__ __profile_type__ __type__ env pod service_name");
    ask_again(k);
    ask_header(k, "accept", "*/*; allow-utf8-labelnames=true");
    r = ask_ok(k, discovery_label_names, &m.base, &types__v1__label_names_response__descriptor);
    join(r->names, r->n_names, text, sizeof text);
    assert_string_equal(text, "__name__ __profile_type__ __type__ env k8s.pod pod service_name");
}

static void label_values_are_distinct_and_obey_all_matchers(void **state)
{
    struct ask *k = *state;
    static const struct {
        const char *name;
        const char *one;
        const char *two;
        const char *wanted;
    } rows[] = {
        {"env", NULL, NULL, "dev prod"},
        {"k8s.pod", NULL, NULL, "p"},
        {"__type__", NULL, NULL, "contentions cpu"},
        {"nope", NULL, NULL, ""},
        {"pod", "{service_name=\"demo\"}", "{env=\"prod\"}", "a-1"},
        {"pod", "{env=\"dev\"}", "{env=\"prod\"}", ""},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        Types__V1__LabelValuesRequest m = TYPES__V1__LABEL_VALUES_REQUEST__INIT;
        char *matchers[] = {ask_text(rows[i].one), ask_text(rows[i].two)};
        m.name = ask_text(rows[i].name);
        m.matchers = matchers;
        m.n_matchers = rows[i].one ? 2 : 0;
        m.start = T;
        m.end = T + 1;
        ask_again(k);
        const Types__V1__LabelValuesResponse *r =
            ask_ok(k, discovery_label_values, &m.base,
                   &types__v1__label_values_response__descriptor);
        char text[256];
        join(r->names, r->n_names, text, sizeof text);
        if (strcmp(text, rows[i].wanted) != 0) fail_msg("%s: %s", rows[i].name, text);
    }
    Types__V1__LabelValuesRequest m = TYPES__V1__LABEL_VALUES_REQUEST__INIT;
    assert_false(ask_run(k, discovery_label_values, &m.base));
    assert_string_equal(k->fault.msg, "missing time range in the query");
    m.start = m.end = T;
    assert_false(ask_run(k, discovery_label_values, &m.base));
    assert_string_equal(k->fault.msg, "name is required");
}

static void print_sets(const Querier__V1__SeriesResponse *r, char *out, size_t room)
{
    size_t at = 0;
    out[0] = 0;
    for (size_t i = 0; i < r->n_labels_set; i++) {
        at += (size_t)snprintf(out + at, room - at, "%s{", i ? " " : "");
        for (size_t k = 0; k < r->labels_set[i]->n_labels; k++) {
            const Types__V1__LabelPair *p = r->labels_set[i]->labels[k];
            at += (size_t)snprintf(out + at, room - at, "%s%s=%s", k ? "," : "", p->name, p->value);
        }
        at += (size_t)snprintf(out + at, room - at, "}");
    }
}

static void series_are_distinct_sets_of_the_asked_labels(void **state)
{
    struct ask *k = *state;
    static const struct {
        const char *name;
        const char *matcher;
        const char *names[5];
        bool utf8;
        const char *wanted;
    } rows[] = {
        {"one label", NULL, {"env"}, false, "{env=dev} {env=prod}"},
        {"absent labels are left out", "{env=\"prod\"}", {"pod"}, false, "{} {pod=a-1}"},
        {"two labels",
         "{env=\"dev\"}",
         {"service_name", "env"},
         false,
         "{env=dev,service_name=demo}"},
        {"a dotted label is given when asked for", NULL, {"k8s.pod"}, false, "{} {k8s.pod=p}"},
        {"a label that nobody has", NULL, {"nope"}, false, ""},
        {"all labels, without dotted ones",
         "{\"k8s.pod\"=\"p\"}",
         {NULL},
         false,
         "{__name__=process_cpu,__profile_type__=" CPU ",__type__=cpu,env=prod,service_name=demo}"},
        {"all labels",
         "{\"k8s.pod\"=\"p\"}",
         {NULL},
         true,
         "{__name__=process_cpu,__profile_type__=" CPU
         ",__type__=cpu,env=prod,k8s.pod=p,service_name=demo}"},
        {"no match", "{env=\"zzz\"}", {"env"}, false, ""},
        {"as Grafana asks",
         "{}",
         {"pyroscope_app", "service_name", "__profile_type__", "__type__", "__name__"},
         false,
         "{__name__=block,__profile_type__=" BLOCK ",__type__=contentions,service_name=demo} "
         "{__name__=process_cpu,__profile_type__=" CPU ",__type__=cpu,service_name=demo}"},
    };
    for (size_t i = 0; i < COUNT(rows); i++) {
        Querier__V1__SeriesRequest m = QUERIER__V1__SERIES_REQUEST__INIT;
        char *matcher = ask_text(rows[i].matcher);
        m.matchers = &matcher;
        m.n_matchers = rows[i].matcher ? 1 : 0;
        char *names[5];
        for (; m.n_label_names < 5 && rows[i].names[m.n_label_names]; m.n_label_names++)
            names[m.n_label_names] = ask_text(rows[i].names[m.n_label_names]);
        m.label_names = names;
        m.start = T;
        m.end = T + 1;
        ask_again(k);
        if (rows[i].utf8) ask_header(k, "accept", "*/*; allow-utf8-labelnames=true");
        char text[1024];
        print_sets(ask_ok(k, discovery_series, &m.base, &querier__v1__series_response__descriptor),
                   text, sizeof text);
        if (strcmp(text, rows[i].wanted) != 0) fail_msg("%s: %s", rows[i].name, text);
    }
}

// ---- stats, version

static void stats_tell_from_when_to_when(void **state)
{
    struct ask *k = *state;
    Types__V1__GetProfileStatsRequest m = TYPES__V1__GET_PROFILE_STATS_REQUEST__INIT;
    const Types__V1__GetProfileStatsResponse *r =
        ask_ok(k, stats_run, &m.base, &types__v1__get_profile_stats_response__descriptor);
    assert_true(r->data_ingested);
    assert_true(r->oldest_profile_time == T);
    assert_true(r->newest_profile_time == T + 1);  // half a ms later, rounded outwards
    ask_again(k);
    k->x.req.tenant = S("nobody");
    r = ask_ok(k, stats_run, &m.base, &types__v1__get_profile_stats_response__descriptor);
    assert_false(r->data_ingested);
    assert_true(r->oldest_profile_time == 0 && r->newest_profile_time == 0);
    k->x.req.tenant = S("t|u");
    assert_false(ask_run(k, stats_run, &m.base));
    assert_int_equal(k->fault.code, ERR_INVALID_ARGUMENT);
}

static void version_is_one(void **state)
{
    struct ask *k = *state;
    Version__V1__VersionRequest m = VERSION__V1__VERSION_REQUEST__INIT;
    const Version__V1__VersionResponse *r =
        ask_ok(k, version_run, &m.base, &version__v1__version_response__descriptor);
    assert_true(r->querierapi == 1);
    assert_string_equal(ask_said(k, "flametree-exact"), "");
}

// ---- tenants, silent ingesters

static void several_tenants_are_added_up(void **state)
{
    struct ask *k = *state;
    static const struct {
        const char *tenant;
        int64_t total;
    } rows[] = {{"t", 115}, {"u", 32}, {"t|u", 147}, {"nobody", 0}, {"nobody|u", 32}};
    for (size_t i = 0; i < COUNT(rows); i++) {
        merge_request m = ask_merge("{}", T);
        ask_again(k);
        k->x.req.tenant = str_of(rows[i].tenant);
        if (ask_merge_ok(k, &m)->flamegraph->total != rows[i].total) fail_msg("%s", rows[i].tenant);
        assert_true(str_is(k->x.req.tenant, rows[i].tenant));
    }
}

static void deadline_and_cancel_end_a_query(void **state)
{
    struct ask *k = *state;
    merge_request m = ask_merge("{}", T);
    k->x.req.deadline_mono_ns = 1;
    ask_header(k, "flametree-partial", "allow");
    assert_false(ask_run(k, stacktraces_merge, &m.base));
    assert_int_equal(k->fault.code, ERR_DEADLINE_EXCEEDED);
    assert_true(k->x.req.deadline_mono_ns == 1);
    static const err late = {ERR_DEADLINE_EXCEEDED, "no answer in time"};
    heads[1].fault = &late;
    assert_false(ask_run(k, stacktraces_merge, &m.base));
    assert_int_equal(k->fault.code, ERR_DEADLINE_EXCEEDED);
    assert_string_equal(k->fault.msg, "the request's deadline has passed, waiting for: two");
    heads[1].fault = NULL;
    ask_again(k);
    atomic_store(&k->x.req.canceled, true);
    assert_false(ask_run(k, stacktraces_merge, &m.base));
    assert_int_equal(k->fault.code, ERR_CANCELED);
}

// What the heads said once, said again: they must not meet the failing allocations.
static struct head_replies kept;

static bool keep_ask(const void *transport, struct req *r, str tenant, str message,
                     struct head_replies *out, err *e)
{
    static struct arena forever;
    if (kept.n == 0) {
        if (!heads_ask(transport, r, tenant, message, out, e)) return false;
        arena_init(&forever, NULL, 1 << 20);
        kept = (struct head_replies){.v = ARENA_ARRAY(&forever, struct head_reply, out->n),
                                     .n = out->n};
        for (size_t i = 0; i < out->n; i++) {
            kept.v[i].member = out->v[i].member;
            kept.v[i].bytes = arena_str(&forever, out->v[i].bytes);
        }
    }
    if (!transport) arena_release(&forever);
    *out = kept;
    return true;
}

struct torn {
    struct ask *k;
    answer_fn *fn;
    str in;
};

static bool run_torn(void *arg, err *e)
{
    struct torn *t = arg;
    ask_again(t->k);
    buf_release(&t->k->out);
    return answer_run(&t->k->state, &t->k->x, S("Test"), t->fn, t->in, &t->k->out, e);
}

static void queries_survive_any_failed_allocation(void **state)
{
    struct ask *k = *state;
    merge_request m = ask_merge("{env=~\"p.*\"}", T);
    k->state.ask = keep_ask;
    static const Querier__V1__ProfileFormat formats[] = {1, 2, 4};
    for (size_t i = 0; i < COUNT(formats); i++) {
        m.format = formats[i];
        kept.n = 0;
        assert_true(ask_run(k, stacktraces_merge, &m.base));
        struct buf in;
        buf_init(&in, NULL, 1 << 16);
        pb_pack(&m.base, &in);
        struct torn t = {k, stacktraces_merge, buf_view(&in)};
        assert_true(torture(run_torn, &t) > 20);
        buf_release(&in);
        struct head_replies gone;
        err e = {0};
        assert_true(keep_ask(NULL, NULL, (str){0}, (str){0}, &gone, &e));
    }
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, open_two, close_two)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(flame_graph_is_the_sum_of_all_ingesters),
        TEST(edges_are_inclusive_to_the_ns),
        TEST(selectors_choose_series),
        TEST(no_data_is_one_bar_of_nothing),
        TEST(max_nodes_keeps_the_total),
        TEST(call_site_spans_and_ids_narrow),
        TEST(spans_of_zeros_ask_nobody),
        TEST(span_profile_is_the_same_with_spans),
        TEST(bad_questions_are_refused_before_anybody_is_asked),
        TEST(profiles_are_exported_whole),
        TEST(pgo_keeps_the_leaves),
        TEST(diff_has_both_sides),
        TEST(a_service_that_one_side_of_a_diff_leaves_out_the_other_does_too),
        TEST(bad_sides_of_a_diff_are_named),
        TEST(profile_types_are_sorted_and_taken_apart),
        cmocka_unit_test(profile_types_without_a_range_are_of_the_last_hour),
        TEST(label_names_hide_what_old_clients_cannot_read),
        TEST(label_values_are_distinct_and_obey_all_matchers),
        TEST(series_are_distinct_sets_of_the_asked_labels),
        TEST(stats_tell_from_when_to_when),
        TEST(version_is_one),
        TEST(several_tenants_are_added_up),
        TEST(deadline_and_cancel_end_a_query),
        TEST(queries_survive_any_failed_allocation),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
