// SPDX-License-Identifier: Apache-2.0
#include "base/buf.h"
#include "intake/split.h"
#include "lib/crowd.h"
#include "lib/test.h"

#define SAMPLES_MAX 6
#define LABELS_MAX  4

struct sample {
    const char *labels[2 * LABELS_MAX];  // key, value, ...
};

struct split_case {
    const char *name;
    const char *common[2 * LABELS_MAX];
    struct sample samples[SAMPLES_MAX];
    uint32_t count;
    const char *groups;  // "{labels}=rows " for each
};

static const struct split_case cases[] = {
    {"no labels", {"foo", "bar"}, {{{0}}}, 1, "{foo=\"bar\"}=0 "},
    {"no labels at all", {0}, {{{0}}, {{0}}}, 2, "{}=0,1 "},
    {"no samples", {"foo", "bar"}, {{{0}}}, 0, ""},
    {"of the sample", {0}, {{{"foo", "bar"}}}, 1, "{foo=\"bar\"}=0 "},
    {"both", {"baz", "qux"}, {{{"foo", "bar"}}}, 1, "{baz=\"qux\", foo=\"bar\"}=0 "},
    {"equal sets are one",
     {"baz", "qux", "foo", "bar"},
     {{{"foo", "bar"}}, {{0}}},
     2,
     "{baz=\"qux\", foo=\"bar\"}=0,1 "},
    {"two sets",
     {"baz", "qux"},
     {{{"foo", "bar"}}, {{"waldo", "fred"}}, {{"foo", "bar"}}},
     3,
     "{baz=\"qux\", foo=\"bar\"}=0,2 {baz=\"qux\", waldo=\"fred\"}=1 "},
    {"order of labels does not matter",
     {0},
     {{{"a", "1", "b", "2"}}, {{"b", "2", "a", "1"}}},
     2,
     "{a=\"1\", b=\"2\"}=0,1 "},
    {"label of the profile wins",
     {"foo", "a"},
     {{{"foo", "b"}}, {{"foo", "c"}}},
     2,
     "{foo=\"a\"}=0,1 "},
    {"empty label of the profile gives way",
     {"foo", ""},
     {{{"foo", "b"}}, {{0}}},
     2,
     "{foo=\"b\"}=0 {}=1 "},
    {"same key twice in a sample", {0}, {{{"k", "2", "k", "1"}}}, 1, "{k=\"1\"}=0 "},
    {"names of storage make no series",
     {"a", "b"},
     {{{"__type__", "x", "__profile_type__", "y"}}, {{0}}, {{"__unit__", "z", "__other__", "o"}}},
     3,
     "{a=\"b\"}=0,1 {__other__=\"o\", a=\"b\"}=2 "},
    {"spans and traces stay with the sample",
     {"a", "b"},
     {{{"span_id", "0102030405060708", "trace_id", "000102030405060708090a0b0c0d0e0f"}},
      {{"profile_id", "0102030405060708", "k", "v"}},
      {{"span_id", "xyz"}}},
     3,
     "{a=\"b\"}=0,2 {a=\"b\", k=\"v\"}=1 "},
    {"duplicates of the client are kept for validation",
     {"k", "1", "k", "2"},
     {{{0}}},
     1,
     "{k=\"1\", k=\"2\"}=0 "},
};

static void fill(const struct split_case *c, struct profile *p, struct profile_sample *s,
                 struct profile_label *l)
{
    *p = (struct profile){.samples = s, .sample_count = c->count, .labels = l};
    for (uint32_t i = 0; i < c->count; i++) {
        s[i] = (struct profile_sample){.first_label = p->label_count};
        for (const char *const *at = c->samples[i].labels; *at; at += 2) {
            l[p->label_count++] =
                (struct profile_label){.key = str_of(at[0]), .text = str_of(at[1])};
            s[i].label_count++;
        }
    }
}

static void samples_are_split_by_their_labels(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct profile p;
        struct profile_sample s[SAMPLES_MAX];
        struct profile_label l[SAMPLES_MAX * LABELS_MAX];
        label common[LABELS_MAX];
        size_t n = 0;
        fill(&cases[i], &p, s, l);
        for (const char *const *at = cases[i].common; *at; at += 2)
            common[n++] = (label){str_of(at[0]), str_of(at[1])};
        struct arena a;
        struct buf b;
        arena_init(&a, NULL, 1 << 20);
        buf_init(&b, NULL, 4096);
        struct split split;
        assert_ok(split_profile(&a, &p, (labels){common, n}, NULL, &split, e));
        for (uint32_t g = 0; g < split.group_count; g++) {
            labels_print(split.groups[g].ls, &b);
            assert_true(split.groups[g].fingerprint == labels_fingerprint(split.groups[g].ls));
            for (uint32_t k = 0; k < split.groups[g].row_count; k++)
                buf_printf(&b, "%c%u", k ? ',' : '=', split.groups[g].rows[k]);
            buf_byte(&b, ' ');
        }
        if (!str_is(buf_view(&b), cases[i].groups)) {
            fail_msg("%s: %.*s", cases[i].name, STR(buf_view(&b)));
        }
        buf_release(&b);
        arena_release(&a);
    }
}

static void origins_are_read_from_hex(void **state)
{
    (void)state;
    const struct split_case c = {.samples = {{{"span_id", "0102030405060708"}},
                                             {{"trace_id", "000102030405060708090a0b0c0d0e0f",
                                               "profile_id", "ffffffffffffffff"}},
                                             {{"span_id", "12345"}},
                                             {{"trace_id", "0001"}},
                                             {{0}}},
                                 .count = 5};
    struct profile p;
    struct profile_sample s[SAMPLES_MAX];
    struct profile_label l[SAMPLES_MAX * LABELS_MAX];
    fill(&c, &p, s, l);
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    struct split split;
    assert_ok(split_profile(&a, &p, (labels){0}, NULL, &split, e));
    assert_int_equal(split.group_count, 1);
    assert_non_null(split.origins);
    assert_true(split.origins[0].span_id == UINT64_C(0x0807060504030201));
    assert_false(split.origins[0].has_trace);
    assert_true(split.origins[1].span_id == UINT64_MAX && split.origins[1].has_trace);
    assert_int_equal(split.origins[1].trace_id[15], 15);
    assert_true(split.origins[2].span_id == 0 && !split.origins[3].has_trace);
    arena_release(&a);
}

static void series_get_the_labels_of_storage(void **state)
{
    (void)state;
    struct profile_type t[] = {{S("cpu"), S("nanoseconds")}, {S("samples"), S("")}};
    struct profile p = {.types = t, .type_count = 2, .period_type = {S("cpu"), S("nanoseconds")}};
    label v[] = {{S("__delta__"), S("false")},    {S("__name__"), S("process_cpu")},
                 {S("__order__"), S("by_label")}, {S("__session_id__"), S("x")},
                 {S("__type__"), S("lie")},       {S("region"), S("eu")},
                 {S("service_name"), S("demo")}};
    struct arena a;
    struct buf b;
    arena_init(&a, NULL, 1 << 20);
    buf_init(&b, NULL, 4096);
    labels_print(split_series(&a, (labels){v, COUNT(v)}, &p, 0), &b);
    buf_byte(&b, 0);
    assert_string_equal(
        b.p, "{__name__=\"process_cpu\", __period_type__=\"cpu\", __period_unit__=\"nanoseconds\", "
             "__profile_type__=\"process_cpu:cpu:nanoseconds:cpu:nanoseconds\", "
             "__service_name__=\"demo\", __session_id__=\"x\", __type__=\"cpu\", "
             "__unit__=\"nanoseconds\", "
             "region=\"eu\", service_name=\"demo\"}");
    p.period_type = (struct profile_type){{0}, {0}};
    buf_clear(&b);
    labels_print(split_series(&a, (labels){v, COUNT(v)}, &p, 1), &b);
    buf_byte(&b, 0);
    assert_string_equal(
        b.p,
        "{__name__=\"process_cpu\", "
        "__profile_type__=\"process_cpu:samples:::\", "
        "__service_name__=\"demo\", __session_id__=\"x\", __type__=\"samples\", region=\"eu\", "
        "service_name=\"demo\"}");
    buf_release(&b);
    arena_release(&a);
}

static bool split_some(void *arg, err *e)
{
    (void)arg;
    struct profile p;
    struct profile_sample s[SAMPLES_MAX];
    struct profile_label l[SAMPLES_MAX * LABELS_MAX];
    fill(&cases[6], &p, s, l);
    struct mem_budget budget;
    mem_budget_init(&budget, "test", NULL, 0);
    struct arena a;
    arena_init(&a, &budget, 1 << 20);
    struct split split;
    bool ok = split_profile(&a, &p, (labels){0}, NULL, &split, e);
    arena_release(&a);
    assert_int_equal(budget.used, 0);
    return ok;
}

static void split_fails_cleanly_without_memory(void **state)
{
    (void)state;
    assert_true(torture(split_some, NULL) > 1);
}

static void label_sets_do_not_crowd(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 64 << 20);
    struct profile_sample *s = ARENA_ARRAY(&a, struct profile_sample, CROWD);
    struct profile_label *l = ARENA_ARRAY(&a, struct profile_label, CROWD);
    struct profile p = {.samples = s, .labels = l};
    for (unsigned i = 0; p.sample_count < CROWD; i++) {
        const label one = {S("a"), arena_printf(&a, "v%u", i)};
        if (!crowd_has(labels_fingerprint((labels){&one, 1}))) continue;
        l[p.label_count] = (struct profile_label){.key = one.name, .text = one.value};
        s[p.sample_count++] =
            (struct profile_sample){.first_label = p.label_count++, .label_count = 1};
    }
    struct split split;
    map_looked = 0;
    assert_ok(split_profile(&a, &p, (labels){0}, NULL, &split, e));
    assert_int_equal(split.group_count, CROWD);
    if (map_looked > CROWD_MOST(CROWD)) fail_msg("%llu", (unsigned long long)map_looked);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_split_by_their_labels),
        cmocka_unit_test(label_sets_do_not_crowd),
        cmocka_unit_test(origins_are_read_from_hex),
        cmocka_unit_test(series_get_the_labels_of_storage),
        cmocka_unit_test(split_fails_cleanly_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
