// SPDX-License-Identifier: Apache-2.0
//
// What becomes of a profile's series under a tenant's rules: labels and samples in, series and
// their totals out, through the whole pipeline.
#include "intake/pipeline.h"
#include "intake/tenant_rules.h"
#include "lib/arena.h"
#include "sys/clock.h"

#define NOW         (INT64_C(1700000000) * NS_PER_S)
#define SAMPLES_MAX 3
#define PAIRS_MAX   4

struct sent {
    const char *labels[2 * PAIRS_MAX];
    int64_t value;
    uint32_t stack;  // number of one of three stacks
};

#define SVC "service_name", "s", "__name__", "n"
#define DROP_RULE                                                                          \
    "ingestion_relabeling_rules: [{action: drop, separator: /, source_labels: [__name__, " \
    "span_name], regex: unwanted/randomness}]"
#define BLANK_RULE                                                                  \
    "ingestion_relabeling_rules: [{source_labels: [span_name], regex: randomness, " \
    "target_label: span_name, replacement: ''}]"
#define ALL_RULE  "ingestion_relabeling_rules: [{action: drop}]"
#define SANITISED "disable_label_sanitization: false"

static const struct {
    const char *name;
    const char *limits;
    const char *series[2 * PAIRS_MAX];
    struct sent samples[SAMPLES_MAX];
    const char *result;  // "{labels} total samples\n" of each series, or the error's message
    uint64_t dropped;
} cases[] = {
    {"no labels",
     "",
     {NULL},
     {{{0}, 1, 0}},
     "invalid labels '{service_name=\"unknown_service\"}' with error: invalid metric name",
     0},
    {"no metric name",
     "",
     {"foo", "bar"},
     {{{0}, 1, 0}},
     "invalid labels '{foo=\"bar\", service_name=\"unknown_service\"}' with error: invalid metric "
     "name",
     0},
    {"series labels",
     "",
     {SVC, "foo", "bar"},
     {{{0}, 1, 0}},
     "{__name__=\"n\", foo=\"bar\", service_name=\"s\"} 1 1\n",
     0},
    {"sample labels",
     "",
     {SVC},
     {{{"foo", "bar"}, 1, 0}},
     "{__name__=\"n\", foo=\"bar\", service_name=\"s\"} 1 1\n",
     0},
    {"both",
     "",
     {SVC, "baz", "qux"},
     {{{"foo", "bar"}, 1, 0}},
     "{__name__=\"n\", baz=\"qux\", foo=\"bar\", service_name=\"s\"} 1 1\n",
     0},
    {"equal sets are merged",
     "",
     {SVC, "foo", "bar", "baz", "qux"},
     {{{"foo", "bar"}, 1, 0}, {{0}, 2, 0}},
     "{__name__=\"n\", baz=\"qux\", foo=\"bar\", service_name=\"s\"} 3 1\n",
     0},
    {"two sets",
     "",
     {SVC, "baz", "qux"},
     {{{"foo", "bar"}, 1, 0}, {{"waldo", "fred"}, 2, 0}},
     "{__name__=\"n\", baz=\"qux\", foo=\"bar\", service_name=\"s\"} 1 1\n"
     "{__name__=\"n\", baz=\"qux\", service_name=\"s\", waldo=\"fred\"} 2 1\n",
     0},
    {"godeltaprof",
     "",
     {"service_name", "s", "__name__", "godeltaprof_memory"},
     {{{0}, 2, 0}},
     "{__name__=\"memory\", __name_replaced__=\"godeltaprof_memory\", service_name=\"s\"} 2 1\n",
     0},
    {"a group is dropped",
     DROP_RULE,
     {"service_name", "s", "__name__", "unwanted"},
     {{{"span_name", "randomness"}, 2, 0}, {{0}, 1, 0}},
     "{__name__=\"unwanted\", service_name=\"s\"} 1 1\n",
     0},
    {"all is dropped", ALL_RULE, {SVC}, {{{"span_name", "randomness"}, 2, 0}, {{0}, 1, 0}}, "", 1},
    {"all is dropped at once", ALL_RULE, {SVC}, {{{0}, 1, 0}}, "", 1},
    {"a label is removed and its group merged",
     BLANK_RULE,
     {SVC},
     {{{"span_name", "randomness"}, 2, 0}, {{0}, 1, 0}},
     "{__name__=\"n\", service_name=\"s\"} 3 1\n",
     0},
    {"different stacks are not merged",
     "",
     {SVC},
     {{{0}, 1, 0}, {{0}, 2, 1}, {{0}, 4, 2}},
     "{__name__=\"n\", service_name=\"s\"} 7 3\n",
     0},
    {"traces and spans are no labels",
     "",
     {SVC},
     {{{"trace_id", "000102030405060708090a0b0c0d0e0f"}, 1, 0},
      {{"span_id", "0102030405060708"}, 2, 0},
      {{"profile_id", "0102030405060709"}, 4, 0}},
     "{__name__=\"n\", service_name=\"s\"} 7 1\n",
     0},
    {"the series label wins",
     "",
     {SVC, "foo", "a"},
     {{{"foo", "b"}, 1, 0}},
     "{__name__=\"n\", foo=\"a\", service_name=\"s\"} 1 1\n",
     0},

    {"what rules make is validated",
     "ingestion_relabeling_rules: [{action: labeldrop, regex: __name__}]",
     {SVC},
     {{{0}, 1, 0}},
     "invalid labels '{service_name=\"s\"}' with error: invalid metric name",
     0},
    {"what rules drop is not validated",
     "{max_label_names_per_series: 2, " ALL_RULE "}",
     {SVC, "foo", "bar"},
     {{{0}, 1, 0}},
     "",
     1},
    {"rules see sample labels",
     "ingestion_relabeling_rules: [{action: labelmap, regex: 'k(.*)', replacement: x$1}, "
     "{action: labeldrop, regex: 'k.*'}]",
     {SVC, "k1", "a"},
     {{{"k2", "b"}, 1, 0}},
     "{__name__=\"n\", service_name=\"s\", x1=\"a\", x2=\"b\"} 1 1\n",
     0},
    {"rules may move a series to another service",
     "ingestion_relabeling_rules: [{source_labels: [team], regex: '(.+)', target_label: "
     "service_name, replacement: 'of-$1'}]",
     {SVC},
     {{{"team", "a"}, 1, 0}, {{0}, 2, 0}},
     "{__name__=\"n\", service_name=\"of-a\", team=\"a\"} 1 1\n"
     "{__name__=\"n\", service_name=\"s\"} 2 1\n",
     0},
    {"default rules may be switched off",
     "ingestion_relabeling_default_rules_position: disabled",
     {"service_name", "s", "__name__", "godeltaprof_memory"},
     {{{0}, 2, 0}},
     "{__name__=\"godeltaprof_memory\", service_name=\"s\"} 2 1\n",
     0},

    {"dots are kept",
     "",
     {SVC, "a.b", "1"},
     {{{0}, 1, 0}},
     "{__name__=\"n\", a.b=\"1\", service_name=\"s\"} 1 1\n",
     0},
    {"dots become underscores",
     SANITISED,
     {SVC, "a.b.c", "1", ".d", "2"},
     {{{0}, 1, 0}},
     "{__name__=\"n\", _d=\"2\", a_b_c=\"1\", service_name=\"s\"} 1 1\n",
     0},
    {"equal labels become one",
     SANITISED,
     {SVC, "service.name", "s"},
     {{{0}, 1, 0}},
     "{__name__=\"n\", service_name=\"s\"} 1 1\n",
     0},
    {"groups become one",
     SANITISED,
     {SVC},
     {{{"a.b", "1"}, 1, 0}, {{"a_b", "1"}, 2, 0}},
     "{__name__=\"n\", a_b=\"1\", service_name=\"s\"} 3 1\n",
     0},
    {"different values",
     SANITISED,
     {SVC, "a.b", "1"},
     {{{"a_b", "2"}, 1, 0}},
     "profile with labels '{__name__=\"n\", a.b=\"1\", a_b=\"2\", service_name=\"s\"}' has "
     "duplicate label name 'a_b' after label name sanitization from 'a.b'",
     0},

    {"sessions are dropped",
     "",
     {SVC, "__session_id__", "0100000000000000"},
     {{{0}, 1, 0}},
     "{__name__=\"n\", service_name=\"s\"} 1 1\n",
     0},
    {"sessions are counted modulo",
     "max_sessions_per_series: 10",
     {SVC, "__session_id__", "0701000000000000"},
     {{{0}, 1, 0}},
     "{__name__=\"n\", __session_id__=\"0300000000000000\", service_name=\"s\"} 1 1\n",
     0},
    {"sessions that are none are dropped",
     "max_sessions_per_series: 10",
     {SVC, "__session_id__", "07010000000000"},
     {{{0}, 1, 0}},
     "{__name__=\"n\", service_name=\"s\"} 1 1\n",
     0},

    {"a sample type is dropped",
     "sample_type_relabeling_rules: [{action: drop, source_labels: [__type__], regex: second}]",
     {SVC},
     {{{0}, 1, 0}},
     "{__name__=\"n\", service_name=\"s\"} 1 1\n",
     0},
};

// Types first/count and second/bytes with the values v and 0; only a few columns are set.
static struct profile *profile_of(const struct sent *samples)
{
    static struct profile_type types[2];
    static struct profile_function functions[3];
    static struct profile_line lines[3];
    static struct profile_location locations[3];
    struct profile *p = ARENA_NEW(&arena, struct profile);
    types[0] = (struct profile_type){S("first"), S("count")};
    types[1] = (struct profile_type){S("second"), S("bytes")};
    static const char *const names[] = {"f", "g", "h"};
    p->stack_locations = ARENA_ARRAY(&arena, uint32_t, 3);
    for (uint32_t i = 0; i < 3; i++) {
        functions[i] = (struct profile_function){.name = str_of(names[i])};
        lines[i] = (struct profile_line){.function = i};
        locations[i] =
            (struct profile_location){.mapping = PROFILE_NONE, .first_line = i, .line_count = 1};
        p->stack_locations[i] = i;
    }
    p->types = types;
    p->type_count = 2;
    p->functions = functions;
    p->lines = lines;
    p->locations = locations;
    p->function_count = p->line_count = p->location_count = p->stack_location_count = 3;
    p->samples = ARENA_ARRAY(&arena, struct profile_sample, SAMPLES_MAX);
    p->values = ARENA_ARRAY(&arena, int64_t, 2 * SAMPLES_MAX);
    p->labels = ARENA_ARRAY(&arena, struct profile_label, SAMPLES_MAX * PAIRS_MAX);
    p->encoded_bytes = 300;
    for (; p->sample_count < SAMPLES_MAX && samples[p->sample_count].value; p->sample_count++) {
        const struct sent *s = &samples[p->sample_count];
        struct profile_sample *to = &p->samples[p->sample_count];
        *to = (struct profile_sample){s->stack, 1, p->label_count, 0};
        for (size_t i = 0; i < PAIRS_MAX && s->labels[2 * i]; i++, to->label_count++) {
            p->labels[p->label_count++] =
                (struct profile_label){.key = str_of(s->labels[2 * i]),
                                       .text = str_of(s->labels[2 * i + 1])};
        }
        p->values[(size_t)p->sample_count * 2] = s->value;
    }
    return p;
}

static const struct limits *limits_of(const char *yaml)
{
    struct limits *l = ARENA_NEW(&arena, struct limits);
    struct yaml_node *root = NULL;
    assert_ok(config_defaults(&limits_section, l, &arena, e));
    assert_ok(yaml_node_parse(str_of(*yaml ? yaml : "{}"), "limits", &arena, &root, e));
    assert_ok(config_read(&limits_section, root, l, &arena, e));
    return l;
}

static bool of_storage(str name)
{
    return str_is(name, "__type__") || str_is(name, "__unit__") ||
           str_is(name, "__profile_type__") || str_is(name, "__service_name__");
}

static void print_record(struct buf *out, const struct batch *b, const struct record *r)
{
    labels ls = b->series[r->series];
    label v[20];
    size_t n = 0;
    for (size_t i = 0; i < ls.n; i++) {
        if (!of_storage(ls.v[i].name)) v[n++] = ls.v[i];
    }
    labels_print((labels){v, n}, out);
    buf_printf(out, " %lld %u\n", (long long)r->total, (unsigned)(uint8_t)r->vector.p[0]);
}

static void series_become_what_rules_say(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        label ls[PAIRS_MAX];
        size_t n = 0;
        for (; n < PAIRS_MAX && cases[i].series[2 * n]; n++)
            ls[n] = (label){str_of(cases[i].series[2 * n]), str_of(cases[i].series[2 * n + 1])};
        struct pipeline in;
        pipeline_init(&in, &arena, limits_of(cases[i].limits), NOW, 1);
        struct pipeline_item item = {.bytes = S("x"), .labels = ls, .label_count = n};
        pipeline_profile(&in, &arena, profile_of(cases[i].samples), false, &item);
        send_buffer_seal(&in.out);
        struct buf out;
        buf_init(&out, NULL, SIZE_MAX / 2);
        for (size_t k = 0; k < in.out.batch_count; k++) {
            const struct batch *b = &in.out.batches[k]->batch;
            for (uint32_t r = 0; r < b->record_count; r++)
                print_record(&out, b, &b->records[r]);
        }
        if (in.failed) buf_z(&out, in.first.msg);
        if (!str_is(buf_view(&out), cases[i].result)) {
            fail_msg("%s: %.*s", cases[i].name, STR(buf_view(&out)));
        }
        assert_int_equal(in.discards.profiles[DISCARD_DROPPED_BY_RELABEL_RULES], cases[i].dropped);
        buf_release(&out);
    }
}

static void dropped_samples_count_by_their_share(void **state)
{
    (void)state;
    static const struct {
        const char *limits;
        uint64_t bytes;
    } parts[] = {{DROP_RULE, 100}, {ALL_RULE, 300}, {"", 0}};
    const struct sent samples[SAMPLES_MAX] = {{{"span_name", "randomness"}, 1, 0},
                                              {{0}, 2, 0},
                                              {{0}, 3, 1}};
    const label ls[] = {{S("__name__"), S("unwanted")}, {S("service_name"), S("s")}};
    for (size_t i = 0; i < COUNT(parts); i++) {
        struct pipeline in;
        pipeline_init(&in, &arena, limits_of(parts[i].limits), NOW, 1);
        struct pipeline_item item = {.bytes = S("x"), .labels = ls, .label_count = 2};
        pipeline_profile(&in, &arena, profile_of(samples), false, &item);
        assert_false(in.failed);
        assert_int_equal(in.discards.bytes[DISCARD_DROPPED_BY_RELABEL_RULES], parts[i].bytes);
    }
}

#define TYPE_RULES(rules) "sample_type_relabeling_rules: [" rules "]"

static const struct {
    const char *name;
    const char *limits;
    const char *types;  // what stays, and the sum of each
} type_cases[] = {
    {"none", "", "first=6 second=60 "},
    {"dropped", TYPE_RULES("{action: drop, source_labels: [__type__], regex: first}"),
     "second=60 "},
    {"kept by unit", TYPE_RULES("{action: keep, source_labels: [__unit__], regex: count}"),
     "first=6 "},
    {"by name and type",
     TYPE_RULES("{action: drop, source_labels: [__name__, __type__], regex: 'n;second'}"),
     "first=6 "},
    {"all", TYPE_RULES("{action: drop}"), ""},
};

static void sample_types_may_be_dropped(void **state)
{
    (void)state;
    const struct sent samples[SAMPLES_MAX] = {{{0}, 1, 0}, {{0}, 2, 0}, {{0}, 3, 1}};
    const label v[] = {{S("__name__"), S("n")}, {S("__type__"), S("lie")}};
    for (size_t i = 0; i < COUNT(type_cases); i++) {
        struct profile *p = profile_of(samples);
        for (uint32_t row = 0; row < p->sample_count; row++)
            p->values[row * 2 + 1] = p->values[row * 2] * 10;
        assert_ok(tenant_rules_sample_types(&arena, limits_of(type_cases[i].limits)->relabel_types,
                                            (labels){v, COUNT(v)}, p, e));
        struct buf out;
        buf_init(&out, NULL, SIZE_MAX / 2);
        for (uint32_t t = 0; t < p->type_count; t++) {
            int64_t sum = 0;
            for (uint32_t row = 0; row < p->sample_count; row++)
                sum += p->values[row * p->type_count + t];
            buf_printf(&out, "%.*s=%lld ", STR(p->types[t].type), (long long)sum);
        }
        if (!str_is(buf_view(&out), type_cases[i].types)) {
            fail_msg("%s: %.*s", type_cases[i].name, STR(buf_view(&out)));
        }
        buf_release(&out);
    }
}

static const struct {
    const char *id;
    int64_t most;
    const char *result;  // NULL: removed
} sessions[] = {
    {"0100000000000000", 0, NULL},
    {"0100000000000000", 1, "0000000000000000"},
    {"ffffffffffffffff", 256, "ff00000000000000"},
    {"FFFFFFFFFFFFFFFF", 7, "0100000000000000"},
    {"0000000000000080", INT64_MAX, "0100000000000000"},
    {"xy00000000000000", 5, NULL},
    {"", 5, NULL},
    {"000000000000000000", 5, NULL},
};

static void sessions_are_reduced(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(sessions); i++) {
        label v[] = {{S("__session_id__"), str_of(sessions[i].id)}, {S("k"), S("v")}};
        labels ls = {v, COUNT(v)};
        assert_true(tenant_rules_session(&arena, &ls, sessions[i].most));
        str got = labels_get(ls, S("__session_id__"));
        assert_int_equal(ls.n, sessions[i].result ? 2 : 1);
        if (!str_eq(got, str_of(sessions[i].result))) fail_msg("%zu: %.*s", i, STR(got));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(series_become_what_rules_say),
        ARENA_TEST(dropped_samples_count_by_their_share),
        ARENA_TEST(sample_types_may_be_dropped),
        ARENA_TEST(sessions_are_reduced),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
