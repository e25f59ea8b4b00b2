// SPDX-License-Identifier: Apache-2.0
#include "intake/mend.h"
#include "lib/arena.h"
#include "model/marks.h"

#include <stdio.h>

#define ROWS 40

// A profile of `n` samples: sample i has the stack `stack(i)`, values (one, two) and the label
// "pod" with `pods` values, unless that is 0; each has a span.
struct made {
    struct profile p;
    struct profile_type types[2];
    struct profile_sample samples[ROWS];
    int64_t values[2 * ROWS];
    uint32_t stacks[ROWS];
    struct profile_label labels[3 * ROWS];
    struct profile_location locations[ROWS];
};

static const str pods[] = {S_INIT("a"), S_INIT("b"), S_INIT("c"), S_INIT("d")};

static void make(struct made *m, uint32_t n, uint32_t stacks, uint32_t of_pods)
{
    memset(m, 0, sizeof *m);
    for (uint32_t i = 0; i < n; i++) {
        m->stacks[i] = i % stacks;
        m->values[2 * i] = 1 + i;
        m->values[2 * i + 1] = 100 + i;
        m->samples[i] = (struct profile_sample){i, 1, 3 * i, of_pods ? 2 : 1};
        m->labels[3 * i] =
            (struct profile_label){.key = S("span_id"), .text = S("0102030405060708")};
        if (of_pods)
            m->labels[3 * i + 1] =
                (struct profile_label){.key = S("pod"), .text = pods[i % of_pods]};
    }
    m->p = (struct profile){
        .types = m->types,
        .type_count = 2,
        .samples = m->samples,
        .sample_count = n,
        .values = m->values,
        .stack_locations = m->stacks,
        .stack_location_count = n,
        .labels = m->labels,
        .label_count = 3 * n,
        .locations = m->locations,
        .location_count = stacks,
    };
}

static int64_t sum(const struct profile *p, uint32_t type)
{
    int64_t total = 0;
    for (uint32_t i = 0; i < p->sample_count; i++)
        total += p->values[(size_t)i * p->type_count + type];
    return total;
}

static bool is_surplus(const struct profile *p, uint32_t row)
{
    const struct profile_sample *s = &p->samples[row];
    const struct profile_location *l = &p->locations[p->stack_locations[s->first_location]];
    return l->line_count == 1 &&
           str_is(p->functions[p->lines[l->first_line].function].name, STACK_SURPLUS_NAME);
}

static void equal_samples_become_one_before_any_is_cut(void **state)
{
    (void)state;
    struct made m;
    struct limits l = {.max_profile_stacktrace_samples = 10};
    make(&m, 30, 5, 2);  // stack i % 5, pod i % 2: ten pairs
    m.values[0] = m.values[1] = 0;
    int64_t one = sum(&m.p, 0);
    int64_t two = sum(&m.p, 1);
    assert_ok(mend_samples(&arena, &m.p, &l, e));
    assert_int_equal(m.p.sample_count, 10);
    assert_int_equal(sum(&m.p, 0), one);
    assert_int_equal(sum(&m.p, 1), two);
    assert_false(losses_any(&m.p.losses));
    assert_int_equal(m.p.values[0], 2 + 12 + 22);  // rows 1, 11, 21: row 0 has no value
}

static void surplus_samples_lose_their_stacks_and_no_value(void **state)
{
    (void)state;
    for (uint32_t of_pods = 0; of_pods <= 4; of_pods += 2) {
        struct made m;
        struct limits l = {.max_profile_stacktrace_samples = 12};
        make(&m, 40, 40, of_pods);
        int64_t one = sum(&m.p, 0);
        int64_t two = sum(&m.p, 1);
        uint32_t sets = MAX(of_pods, 1u);
        assert_ok(mend_samples(&arena, &m.p, &l, e));
        assert_int_equal(m.p.sample_count, 12);
        assert_int_equal(sum(&m.p, 0), one);
        assert_int_equal(sum(&m.p, 1), two);
        uint32_t kept = 12 - sets;
        assert_int_equal(m.p.losses.count[LOSS_SAMPLES_LIMIT], 40 - kept);
        assert_int_equal(m.p.losses.count[LOSS_LABELS_LIMIT], 0);
        for (uint32_t i = 0; i < 12; i++) {
            assert_int_equal(is_surplus(&m.p, i), i >= kept);
            // The largest stay, in their order.
            if (i < kept) assert_int_equal(m.p.values[2 * i], 41 - kept + i);
            const struct profile_sample *s = &m.p.samples[i];
            if (i >= kept) assert_int_equal(s->label_count, of_pods ? 1 : 0);
            if (i >= kept && of_pods) assert_true(str_is(m.p.labels[s->first_label].key, "pod"));
        }
    }
}

static void label_sets_beyond_half_of_the_limit_lose_their_labels(void **state)
{
    (void)state;
    struct made m;
    struct limits l = {.max_profile_stacktrace_samples = 4};
    make(&m, 40, 40, 4);
    int64_t one = sum(&m.p, 0);
    assert_ok(mend_samples(&arena, &m.p, &l, e));
    assert_int_equal(m.p.sample_count, 4);
    assert_int_equal(sum(&m.p, 0), one);
    assert_int_equal(m.p.losses.count[LOSS_SAMPLES_LIMIT], 38);
    // One of four pods has a sample of its own.
    assert_in_range(m.p.losses.count[LOSS_LABELS_LIMIT], 28, 29);
}

static void sums_that_do_not_fit_stay_apart(void **state)
{
    (void)state;
    struct made m;
    struct limits l = {.max_profile_stacktrace_samples = 2};
    make(&m, 4, 1, 0);
    for (uint32_t i = 0; i < 8; i++)
        m.values[i] = INT64_MAX;
    assert_ok(mend_samples(&arena, &m.p, &l, e));
    assert_int_equal(m.p.sample_count, 4);
    for (uint32_t i = 0; i < 8; i++)
        assert_int_equal(m.p.values[i], INT64_MAX);
}

static void profiles_within_the_limit_are_left_alone(void **state)
{
    (void)state;
    struct made m;
    make(&m, 40, 1, 0);
    for (int64_t most = 0; most <= 40; most += 40) {
        struct limits l = {.max_profile_stacktrace_samples = most};
        assert_ok(mend_samples(&arena, &m.p, &l, e));
        assert_int_equal(m.p.sample_count, 40);
    }
}

static void a_sample_keeps_its_span_and_the_first_names(void **state)
{
    (void)state;
    struct profile_label v[] = {
        {.key = S("z"), .text = S("1")}, {.key = S("bytes"), .number = 7},
        {.key = S("b"), .text = S("2")}, {.key = S("span_id"), .text = S("0102030405060708")},
        {.key = S("a"), .text = S("3")}, {.key = S("c"), .text = S("4")},
    };
    // The last two share their labels.
    struct profile_sample s[] = {{.label_count = 3}, {.label_count = 6}, {.label_count = 6}};
    struct profile p = {.samples = s + 1, .sample_count = 2, .labels = v, .label_count = 6};
    struct limits l = {.max_profile_stacktrace_sample_labels = 3};
    mend_sample_labels(&p, &l);
    for (size_t i = 1; i < 3; i++) {
        assert_int_equal(s[i].label_count, 3);
        assert_true(str_is(v[0].key, "span_id") && str_is(v[1].key, "a") && str_is(v[2].key, "b"));
    }
    assert_int_equal(p.losses.count[LOSS_LABELS_LIMIT], 4);
}

static void numbers_do_not_count_as_labels(void **state)
{
    (void)state;
    struct profile_label v[] = {{.key = S("bytes"), .number = 7},
                                {.key = S("x"), .number = 8},
                                {.key = S("b"), .text = S("2")}};
    struct profile_sample s = {.label_count = 3};
    struct profile p = {.samples = &s, .sample_count = 1, .labels = v, .label_count = 3};
    struct limits l = {.max_profile_stacktrace_sample_labels = 2};
    mend_sample_labels(&p, &l);
    assert_int_equal(s.label_count, 1);
    assert_true(str_is(v[0].key, "b"));
    assert_false(losses_any(&p.losses));
}

static const char *const names[] = {"__delta__",    "__name__",      "aa",
                                    "host.arch",    "host.name",     "k8s.pod",
                                    "of.a.sample",  "os.type",       "process.pid",
                                    "service_name", "telemetry.sdk", "zz"};

static void series_lose_labels_of_processes_first(void **state)
{
    (void)state;
    // Those that count: aa, host.arch, host.name, k8s.pod, os.type, process.pid, service_name,
    // telemetry.sdk, zz; in the order in which they go:
    static const char *const go[] = {"process.pid", "telemetry.sdk",
                                     "os.type",     "host.name",
                                     "host.arch",   "zz",
                                     "k8s.pod",     "aa"};
    label all[COUNT(names)];
    label own[COUNT(names)];
    size_t own_count = 0;
    for (size_t i = 0; i < COUNT(names); i++) {
        all[i] = (label){str_of(names[i]), S("1")};
        if (strcmp(names[i], "of.a.sample") != 0) own[own_count++] = all[i];
    }
    for (size_t most = 1; most <= 10; most++) {
        label v[COUNT(names)];
        labels set = {all, COUNT(all)};
        struct limits l = {.max_label_names_per_series = (int64_t)most};
        uint32_t n = mend_series_labels((labels){own, own_count}, &set, v, &l);
        assert_int_equal(n, most < 9 ? 9 - most : 0);
        assert_int_equal(set.n, COUNT(names) - n);
        for (size_t i = 0; i < COUNT(go); i++)
            assert_int_equal(labels_has(set, str_of(go[i])), i >= n);
        for (size_t i = 1; i < set.n; i++)
            assert_true(str_cmp(set.v[i - 1].name, set.v[i].name) < 0);
    }
}

static void long_labels_keep_what_fits(void **state)
{
    (void)state;
    label all[] = {{S("a"), S("1234")}, {S("b"), S("123\xc3\xa9")}, {S("long"), S("1")}};
    label v[COUNT(all)];
    labels set = {all, COUNT(all)};
    static const struct limits none;
    assert_int_equal(mend_label_lengths(&set, v, &none), 0);
    assert_true(set.v == all && set.n == COUNT(all));
    const struct limits l = {.max_label_name_length = 3, .max_label_value_length = 4};
    assert_true(mend_labels_fit(set, &none) && !mend_labels_fit(set, &l));
    assert_int_equal(mend_label_lengths(&set, v, &l), 2);
    assert_int_equal(set.n, 2);
    assert_true(str_is(labels_get(set, S("a")), "1234") && str_is(labels_get(set, S("b")), "123"));
    assert_int_equal(mend_label_lengths(&set, v, &l), 0);
    assert_true(mend_labels_fit(set, &l));
    assert_true(mend_labels_fit(set, &(struct limits){.max_label_names_per_series = 2}));
    assert_false(mend_labels_fit(set, &(struct limits){.max_label_names_per_series = 1}));
}

static void texts_become_utf8(void **state)
{
    (void)state;
    str twin = S("\xff\xfe");
    struct profile_function f[] = {{.name = S("ok"), .filename = S("\xc3")},
                                   {.name = twin, .system_name = twin}};
    struct profile_label v[] = {{.key = S("k"), .text = S("a\x80")}};
    struct profile p = {.functions = f, .function_count = 2, .labels = v, .label_count = 1};
    assert_ok(mend_text(&arena, &p, e));
    assert_true(str_is(f[0].name, "ok") && str_is(f[0].filename, "\xef\xbf\xbd"));
    assert_true(str_is(f[1].name, "\xef\xbf\xbd\xef\xbf\xbd"));
    assert_true(str_eq(f[1].name, f[1].system_name));
    assert_true(str_is(v[0].text, "a\xef\xbf\xbd"));
    assert_int_equal(p.losses.count[LOSS_BAD_TEXT], 3);
    label ls[] = {{S("a"), S("\x80")}, {S("b\xff"), S("1")}, {S("c"), S("2")}};
    labels set = {ls, 3};
    assert_ok(mend_label_text(&arena, &set, &p.losses, e));
    assert_true(str_is(labels_get(set, S("a")), "\xef\xbf\xbd"));
    assert_true(str_is(labels_get(set, S("b\xef\xbf\xbd")), "1"));
    assert_int_equal(p.losses.count[LOSS_BAD_TEXT], 5);
}

static void labels_without_a_name_are_left_out(void **state)
{
    (void)state;
    static const struct limits none;
    struct profile_label v[] = {{.text = S("x")}, {.key = S("k"), .text = S("y")}, {.number = 3}};
    struct profile_sample samples[] = {{.first_label = 0, .label_count = 3},
                                       {.first_label = 0, .label_count = 3}};
    struct profile p = {.samples = samples, .sample_count = 2, .labels = v, .label_count = 3};
    mend_sample_labels(&p, &none);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(samples[i].label_count, 2);
        assert_true(str_is(v[samples[i].first_label].key, "k"));
    }
    assert_int_equal(p.losses.count[LOSS_LABELS_LIMIT], 2);
}

static void types_that_are_there_twice_are_one(void **state)
{
    (void)state;
    struct profile_type types[] = {{S("x"), S("count")},
                                   {S("y"), S("count")},
                                   {S("x"), S("count")},
                                   {S("x"), S("bytes")},
                                   {S("x"), S("count")}};
    struct profile_sample samples[2] = {0};
    int64_t values[] = {1, 2, 4, 8, 16, 3, 5, 7, 9, 11};
    static const int64_t wanted[] = {21, 2, 8, 21, 5, 9};
    struct profile p = {
        .types = types, .type_count = 5, .samples = samples, .sample_count = 2, .values = values};
    assert_ok(mend_types(&p, e));
    assert_int_equal(p.type_count, 3);
    assert_memory_equal(p.values, wanted, sizeof wanted);
    assert_true(str_is(types[1].type, "y") && str_is(types[2].unit, "bytes"));
    values[0] = INT64_MAX;
    types[1] = types[0];
    err e = {0};
    assert_false(mend_types(&p, &e));
    assert_int_equal(e.code, ERR_OUT_OF_RANGE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(equal_samples_become_one_before_any_is_cut),
        ARENA_TEST(surplus_samples_lose_their_stacks_and_no_value),
        ARENA_TEST(label_sets_beyond_half_of_the_limit_lose_their_labels),
        ARENA_TEST(sums_that_do_not_fit_stay_apart),
        ARENA_TEST(profiles_within_the_limit_are_left_alone),
        ARENA_TEST(a_sample_keeps_its_span_and_the_first_names),
        ARENA_TEST(numbers_do_not_count_as_labels),
        ARENA_TEST(series_lose_labels_of_processes_first),
        ARENA_TEST(long_labels_keep_what_fits),
        ARENA_TEST(texts_become_utf8),
        ARENA_TEST(labels_without_a_name_are_left_out),
        ARENA_TEST(types_that_are_there_twice_are_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
