// SPDX-License-Identifier: Apache-2.0
#include "intake/validate.h"
#include "lib/arena.h"
#include "lib/limits.h"
#include "sys/clock.h"

#include <stdio.h>

#define NOW    (INT64_C(1700000000) * NS_PER_S)
#define MINUTE (60 * NS_PER_S)

// ---- labels

static const struct limits tight = {
    .max_label_name_length = 12,
    .max_label_value_length = 10,
    .max_label_names_per_series = 4,
    .disable_label_sanitization = true,
    .refuses_faulty = true,
};

static const struct {
    const char *name;
    label labels[6];
    size_t n;
    enum discard_reason why;
    const char *message;  // NULL: right
} sets[] = {
    {"right",
     {{S_INIT("__name__"), S_INIT("cpu")}, {S_INIT("service_name"), S_INIT("s")}},
     2,
     0,
     NULL},
    {"empty",
     {{{0}, {0}}},
     0,
     DISCARD_MISSING_LABELS,
     "error at least one label pair is required per profile"},
    {"too many",
     {{S_INIT("__name__"), S_INIT("c")},
      {S_INIT("a"), S_INIT("1")},
      {S_INIT("b"), S_INIT("1")},
      {S_INIT("c"), S_INIT("1")},
      {S_INIT("service_name"), S_INIT("s")}},
     5,
     DISCARD_MAX_LABEL_NAMES,
     "profile series '{__name__=\"c\", a=\"1\", b=\"1\", c=\"1\", service_name=\"s\"}' has 5 label "
     "names; limit 4"},
    {"no metric name",
     {{S_INIT("foo"), S_INIT("bar")}, {S_INIT("service_name"), S_INIT("s")}},
     2,
     DISCARD_INVALID_LABELS,
     "invalid labels '{foo=\"bar\", service_name=\"s\"}' with error: invalid metric name"},
    {"metric name not UTF-8",
     {{S_INIT("__name__"), S_INIT("\x80")}, {S_INIT("service_name"), S_INIT("s")}},
     2,
     DISCARD_INVALID_LABELS,
     "invalid labels '{__name__=\"\\x80\", service_name=\"s\"}' with error: invalid metric name"},
    {"no service",
     {{S_INIT("__name__"), S_INIT("cpu")}},
     1,
     DISCARD_MISSING_LABELS,
     "invalid labels '{__name__=\"cpu\"}' with error: service name is not provided"},
    {"name too long",
     {{S_INIT("__name__"), S_INIT("c")},
      {S_INIT("abcdefghijklm"), S_INIT("1")},
      {S_INIT("service_name"), S_INIT("s")}},
     3,
     DISCARD_LABEL_NAME_TOO_LONG,
     "profile with labels '{__name__=\"c\", abcdefghijklm=\"1\", service_name=\"s\"}' has label "
     "name too long: 'abcdefghijklm'"},
    {"value too long",
     {{S_INIT("__name__"), S_INIT("c")},
      {S_INIT("a"), S_INIT("0123456789x")},
      {S_INIT("service_name"), S_INIT("s")}},
     3,
     DISCARD_LABEL_VALUE_TOO_LONG,
     "profile with labels '{__name__=\"c\", a=\"0123456789x\", service_name=\"s\"}' has label "
     "value "
     "too long: '0123456789x'"},
    {"empty name",
     {{S_INIT(""), S_INIT("1")},
      {S_INIT("__name__"), S_INIT("c")},
      {S_INIT("service_name"), S_INIT("s")}},
     3,
     DISCARD_INVALID_LABELS,
     "invalid labels '{=\"1\", __name__=\"c\", service_name=\"s\"}' with error: invalid label name "
     "''"},
    {"name not UTF-8",
     {{S_INIT("__name__"), S_INIT("c")},
      {S_INIT("service_name"), S_INIT("s")},
      {S_INIT("\xc5"), S_INIT("1")}},
     3,
     DISCARD_INVALID_LABELS,
     "invalid labels '{__name__=\"c\", service_name=\"s\", \xc5=\"1\"}' with error: invalid label "
     "name '\xc5'"},
    {"value not UTF-8",
     {{S_INIT("__name__"), S_INIT("c")},
      {S_INIT("a"), S_INIT("\xc5")},
      {S_INIT("service_name"), S_INIT("s")}},
     3,
     DISCARD_INVALID_LABELS,
     "invalid labels '{__name__=\"c\", a=\"\\xc5\", service_name=\"s\"}' with error: invalid label "
     "value '\xc5'"},
    {"duplicate",
     {{S_INIT("__name__"), S_INIT("c")},
      {S_INIT("a"), S_INIT("1")},
      {S_INIT("a"), S_INIT("1")},
      {S_INIT("service_name"), S_INIT("s")}},
     4,
     DISCARD_DUPLICATE_LABEL_NAMES,
     "profile with labels '{__name__=\"c\", a=\"1\", a=\"1\", service_name=\"s\"}' has duplicate "
     "label name: 'a'"},
    {"odd but right",
     {{S_INIT("__name__"), S_INIT("a.b/c")},
      {S_INIT("1st"), S_INIT("1")},
      {S_INIT("gr\xc3\xb6-1"), S_INIT("\xc3\xbc")},
      {S_INIT("service_name"), S_INIT("s")}},
     4,
     0,
     NULL},
};

static void labels_are_checked_in_pyroscopes_order_and_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(sets); i++) {
        enum discard_reason why = DISCARD_UNKNOWN;
        err e = {0};
        bool ok = validate_labels(&arena, &(labels){sets[i].labels, sets[i].n}, &tight, &why, &e);
        if (ok != !sets[i].message || (!ok && strcmp(e.msg, sets[i].message) != 0)) {
            fail_msg("%s: %s", sets[i].name, e.msg);
        }
        if (ok) continue;
        assert_int_equal(why, sets[i].why);
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
    }
}

static const struct {
    const char *name;
    label labels[5];
    size_t n;
    const char *result;  // the set, or the message
} sanitised[] = {
#define SVC                                 \
    {S_INIT("__name__"), S_INIT("c")},      \
    {                                       \
        S_INIT("service_name"), S_INIT("s") \
    }
    {"plain",
     {SVC, {S_INIT("x"), S_INIT("1")}},
     3,
     "{__name__=\"c\", service_name=\"s\", x=\"1\"}"},
    {"dots",
     {SVC, {S_INIT("t.u.v"), S_INIT("1")}, {S_INIT("ta"), S_INIT("2")}},
     4,
     "{__name__=\"c\", service_name=\"s\", t_u_v=\"1\", ta=\"2\"}"},
    {"only dots",
     {{S_INIT(".."), S_INIT("1")}, SVC},
     3,
     "{__=\"1\", __name__=\"c\", service_name=\"s\"}"},
    {"equal to another that had dots",
     {SVC, {S_INIT("x.y.z"), S_INIT("1")}, {S_INIT("x.y_z"), S_INIT("1")}},
     4,
     "{__name__=\"c\", service_name=\"s\", x_y_z=\"1\"}"},
    {"different from another that had dots",
     {SVC, {S_INIT("x.y.z"), S_INIT("1")}, {S_INIT("x.y_z"), S_INIT("2")}},
     4,
     "profile with labels '{__name__=\"c\", service_name=\"s\", x.y.z=\"1\", x.y_z=\"2\"}' has "
     "duplicate label name 'x_y_z' after label name sanitization from 'x.y_z'"},
    {"dash",
     {SVC, {S_INIT("x-y"), S_INIT("1")}},
     3,
     "invalid labels '{__name__=\"c\", service_name=\"s\", x-y=\"1\"}' with error: invalid label "
     "name 'x-y'"},
    {"digit first",
     {{S_INIT("1x"), S_INIT("1")}, SVC},
     3,
     "invalid labels '{1x=\"1\", __name__=\"c\", service_name=\"s\"}' with error: invalid label "
     "name '1x'"},
    {"digit behind a dot",
     {{S_INIT(".1x"), S_INIT("1")}, SVC},
     3,
     "{_1x=\"1\", __name__=\"c\", service_name=\"s\"}"},
    {"letters of others",
     {SVC, {S_INIT("\xc3\xbc"), S_INIT("1")}},
     3,
     "invalid labels '{__name__=\"c\", service_name=\"s\", \xc3\xbc=\"1\"}' with error: invalid "
     "label name '\xc3\xbc'"},
    {"empty",
     {{S_INIT(""), S_INIT("1")}, SVC},
     3,
     "invalid labels '{=\"1\", __name__=\"c\", service_name=\"s\"}' with error: invalid label "
     "name ''"},
    {"twice without dots",
     {SVC, {S_INIT("x"), S_INIT("1")}, {S_INIT("x"), S_INIT("1")}},
     4,
     "profile with labels '{__name__=\"c\", service_name=\"s\", x=\"1\", x=\"1\"}' has duplicate "
     "label name: 'x'"},
    {"too long before it is sanitised",
     {SVC, {S_INIT("x.23456789012"), S_INIT("1")}},
     3,
     "profile with labels '{__name__=\"c\", service_name=\"s\", x.23456789012=\"1\"}' has label "
     "name too long: 'x.23456789012'"},
    {"value that is not UTF-8",
     {SVC, {S_INIT("x.y"), S_INIT("\xff")}},
     3,
     "invalid labels '{__name__=\"c\", service_name=\"s\", x.y=\"\\xff\"}' with error: invalid "
     "label value '\xff'"},
#undef SVC
};

static void names_are_sanitised(void **state)
{
    (void)state;
    struct limits l = tight;
    l.disable_label_sanitization = false;
    for (size_t i = 0; i < COUNT(sanitised); i++) {
        enum discard_reason why = DISCARD_UNKNOWN;
        err e = {0};
        struct buf b;
        buf_init(&b, NULL, SIZE_MAX / 2);
        labels ls = {sanitised[i].labels, sanitised[i].n};
        if (validate_labels(&arena, &ls, &l, &why, &e)) {
            labels_print(ls, &b);
        } else {
            buf_z(&b, e.msg);
        }
        if (!str_is(buf_view(&b), sanitised[i].result)) {
            fail_msg("%s: %.*s", sanitised[i].name, STR(buf_view(&b)));
        }
        buf_release(&b);
    }
}

static void label_limits_of_zero_are_none(void **state)
{
    (void)state;
    static char big[100000];
    memset(big, 'x', sizeof big);
    label v[] = {{S("__name__"), str_make(big, sizeof big)}, {S("service_name"), S("s")}};
    struct limits none = {0};
    enum discard_reason why = DISCARD_UNKNOWN;
    assert_ok(validate_labels(&arena, &(labels){v, 2}, &none, &why, e));
}

// ---- profiles

static const struct {
    const char *name;
    int64_t time_ns;
    const char *message;  // NULL: inside
} windows[] = {
    {"a minute ago", NOW - MINUTE, NULL},
    {"61 minutes ago", NOW - 61 * MINUTE,
     "profile with labels '{a=\"b\"}' is outside of ingestion window (profile timestamp: "
     "2023-11-14 "
     "21:12:20 +0000 UTC, the ingestion window starts at 2023-11-14 21:13:20 +0000 UTC and ends at "
     "2023-11-14 22:23:20 +0000 UTC)"},
    {"exactly at the start", NOW - 60 * MINUTE, "outside of ingestion window"},
    {"a millisecond later", NOW - 60 * MINUTE + NS_PER_MS, NULL},
    {"an hour ahead", NOW + 60 * MINUTE, "outside of ingestion window"},
    {"exactly at the end", NOW + 10 * MINUTE, "outside of ingestion window"},
    {"a millisecond before", NOW + 10 * MINUTE - NS_PER_MS, NULL},
    {"in 1970", NS_PER_S, "profile timestamp: 1970-01-01 00:00:01 +0000 UTC"},
};

static void profiles_have_to_be_in_the_window(void **state)
{
    (void)state;
    struct profile_type t = {S("cpu"), S("ns")};
    label ls = {S("a"), S("b")};
    for (size_t i = 0; i < COUNT(windows); i++) {
        struct profile p = {.types = &t, .type_count = 1, .time_ns = windows[i].time_ns};
        enum discard_reason why = DISCARD_UNKNOWN;
        err e = {0};
        bool ok = validate_profile(&arena, &p, (labels){&ls, 1}, &stock_limits, NOW, &why, &e);
        if (ok != !windows[i].message || (!ok && !strstr(e.msg, windows[i].message))) {
            fail_msg("%s: %s", windows[i].name, e.msg);
        }
        if (!ok) assert_int_equal(why, DISCARD_NOT_IN_INGESTION_WINDOW);
    }
}

static void windows_may_be_open_at_either_end(void **state)
{
    (void)state;
    struct profile_type t = {S("cpu"), S("ns")};
    struct limits l = {.reject_older_than = 60 * MINUTE};
    struct profile p = {.types = &t, .type_count = 1, .time_ns = NS_PER_S};
    enum discard_reason why = DISCARD_UNKNOWN;
    err e = {0};
    assert_false(validate_profile(&arena, &p, (labels){0}, &l, NOW, &why, &e));
    assert_non_null(strstr(e.msg, "window starts at 2023-11-14 21:13:20 +0000 UTC)"));
    l = (struct limits){.reject_newer_than = 10 * MINUTE};
    p.time_ns = NOW + 60 * MINUTE;
    assert_false(validate_profile(&arena, &p, (labels){0}, &l, NOW, &why, &e));
    assert_non_null(strstr(e.msg, "window ends at 2023-11-14 22:23:20 +0000 UTC)"));
    p.time_ns = NS_PER_S;
    assert_true(validate_profile(&arena, &p, (labels){0}, &l, NOW, &why, &e));
}

static void profiles_without_time_are_of_now(void **state)
{
    (void)state;
    struct profile_type t = {S("cpu"), S("ns")};
    for (int64_t time = -5; time <= 0; time += 5) {
        struct profile p = {.types = &t, .type_count = 1, .time_ns = time};
        enum discard_reason why = DISCARD_UNKNOWN;
        assert_ok(validate_profile(&arena, &p, (labels){0}, &stock_limits, NOW, &why, e));
        assert_int_equal(p.time_ns, NOW);
    }
}

static void deep_stacks_keep_their_root_and_end_in_a_mark(void **state)
{
    (void)state;
    struct profile_type t = {S("cpu"), S("ns")};
    struct profile_location locations[6] = {{.mapping = 7}};
    uint32_t stack[] = {0, 1, 2, 3, 4, 5, 1, 2, 0, 4, 5};
    struct profile_sample s[] = {{.location_count = 6},
                                 {.first_location = 6, .location_count = 2},
                                 {.first_location = 8, .location_count = 3}};
    struct profile p = {.types = &t,
                        .type_count = 1,
                        .samples = s,
                        .sample_count = 3,
                        .locations = locations,
                        .location_count = 6,
                        .stack_locations = stack,
                        .stack_location_count = 11};
    struct limits l = {.max_profile_stacktrace_depth = 2};
    enum discard_reason why = DISCARD_UNKNOWN;
    assert_ok(validate_profile(&arena, &p, (labels){0}, &l, NOW, &why, e));
    assert_int_equal(p.losses.count[LOSS_STACK_DEPTH], 2);
    assert_int_equal(p.location_count, 7);
    assert_int_equal(p.locations[0].mapping, 7);
    assert_int_equal(p.locations[6].mapping, PROFILE_NONE);
    assert_int_equal(p.locations[6].line_count, 1);
    str name = p.functions[p.lines[p.locations[6].first_line].function].name;
    assert_true(str_is(name, "[truncated stack]"));
    assert_int_equal(s[0].location_count, 3);
    assert_memory_equal(stack + s[0].first_location, ((uint32_t[]){6, 4, 5}), 3 * sizeof *stack);
    assert_int_equal(s[1].location_count, 2);
    assert_memory_equal(stack + s[1].first_location, ((uint32_t[]){1, 2}), 2 * sizeof *stack);
    assert_int_equal(s[2].location_count, 3);
    assert_memory_equal(stack + s[2].first_location, ((uint32_t[]){6, 4, 5}), 3 * sizeof *stack);
}

static void stacks_of_any_depth_pass_without_a_limit(void **state)
{
    (void)state;
    struct profile_type t = {S("cpu"), S("ns")};
    uint32_t stack[] = {0, 0, 0, 0};
    struct profile_sample s = {.location_count = 4};
    struct profile p = {
        .types = &t, .type_count = 1, .samples = &s, .sample_count = 1, .stack_locations = stack};
    for (int64_t depth = 0; depth <= 4; depth += 4) {
        struct limits l = {.max_profile_stacktrace_depth = depth};
        enum discard_reason why = DISCARD_UNKNOWN;
        assert_ok(validate_profile(&arena, &p, (labels){0}, &l, NOW, &why, e));
        assert_int_equal(s.location_count, 4);
        assert_false(losses_any(&p.losses));
    }
}

static const struct {
    const char *name;
    struct profile p;
    enum discard_reason why;
    const char *message;
} refused[] = {
    {"no types", {0}, DISCARD_MALFORMED_PROFILE, "empty profile"},
    {"size",
     {.type_count = 1, .encoded_bytes = 101},
     DISCARD_PROFILE_SIZE_LIMIT,
     "the profile with labels '{}' exceeds the size limit (max_profile_size_byte, actual: 101, "
     "limit: 100)"},
    {"samples",
     {.type_count = 1, .sample_count = 4},
     DISCARD_SAMPLES_LIMIT,
     "the profile with labels '{}' exceeds the samples count limit "
     "(max_profile_stacktrace_samples, actual: 4, limit: 3)"},
    {"labels",
     {.type_count = 1, .sample_count = 3},
     DISCARD_SAMPLE_LABELS_LIMIT,
     "the profile with labels '{}' exceeds the sample labels limit "
     "(max_profile_stacktrace_sample_labels, actual: 3, limit: 2)"},
    {"dash", {.type_count = 2}, DISCARD_MALFORMED_PROFILE, "sample type contains -"},
};

static void profiles_over_a_limit_are_refused(void **state)
{
    (void)state;
    struct profile_type t[] = {{S("cpu"), S("ns")}, {S("alloc-size"), S("bytes")}};
    struct profile_sample s[4] = {{0}, {0}, {.label_count = 3}};
    struct limits l = {.max_profile_size_bytes = 100,
                       .max_profile_stacktrace_samples = 3,
                       .max_profile_stacktrace_sample_labels = 2,
                       .refuses_faulty = true};
    for (size_t i = 0; i < COUNT(refused); i++) {
        struct profile p = refused[i].p;
        p.types = t;
        p.samples = s;
        enum discard_reason why = DISCARD_UNKNOWN;
        err e = {0};
        bool ok = validate_profile(&arena, &p, (labels){0}, &l, NOW, &why, &e);
        if (ok || strcmp(e.msg, refused[i].message) != 0 || why != refused[i].why) {
            fail_msg("%s: %s", refused[i].name, e.msg);
        }
    }
    enum discard_reason why = DISCARD_UNKNOWN;
    err e = {0};
    struct limits small = {.max_profile_size_bytes = 4194304};
    assert_true(validate_size(4194304, &small, &why, &e));
    assert_false(validate_size(4194305, &small, &why, &e));
    assert_string_equal(e.msg, "uncompressed profile payload size exceeds limit of 4.2 MB");
}

static void text_names_have_to_be_utf8_where_faults_are_refused(void **state)
{
    (void)state;
    struct profile_function f[] = {{.name = S("ok")}, {.name = S("\xff\xfe")}};
    struct profile p = {.functions = f, .function_count = 2};
    enum discard_reason why = DISCARD_UNKNOWN;
    err e = {0};
    assert_false(validate_text(&arena, &p, &stock_limits, &why, &e));
    assert_string_equal(e.msg, "invalid utf8 string hex: fffe");
    p.function_count = 1;
    assert_true(validate_text(&arena, &p, &stock_limits, &why, &e));
    losses_add(&p.losses, LOSS_BAD_TEXT, 1);  // by the decoder
    assert_false(validate_text(&arena, &p, &stock_limits, &why, &e));
    assert_int_equal(why, DISCARD_MALFORMED_PROFILE);
}

static void reasons_have_pyroscopes_names(void **state)
{
    (void)state;
    assert_string_equal(discard_name(DISCARD_UNKNOWN), "unknown");
    assert_string_equal(discard_name(DISCARD_NOT_IN_INGESTION_WINDOW), "not_in_ingestion_window");
    assert_string_equal(discard_name(DISCARD_DROPPED_BY_RELABEL_RULES), "dropped_by_relabel_rules");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(labels_are_checked_in_pyroscopes_order_and_words),
        ARENA_TEST(names_are_sanitised),
        ARENA_TEST(label_limits_of_zero_are_none),
        ARENA_TEST(profiles_have_to_be_in_the_window),
        ARENA_TEST(windows_may_be_open_at_either_end),
        ARENA_TEST(profiles_without_time_are_of_now),
        ARENA_TEST(deep_stacks_keep_their_root_and_end_in_a_mark),
        ARENA_TEST(stacks_of_any_depth_pass_without_a_limit),
        ARENA_TEST(profiles_over_a_limit_are_refused),
        ARENA_TEST(text_names_have_to_be_utf8_where_faults_are_refused),
        ARENA_TEST(reasons_have_pyroscopes_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
