// SPDX-License-Identifier: Apache-2.0
#include "intake/normalise.h"
#include "lib/arena.h"
#include "model/symbols.h"

static void only_samples_with_zeros_go(void **state)
{
    (void)state;
    int64_t values[] = {1, 0, 0, 0, 5, -5, 2, 3, INT64_MIN, 9};
    struct profile_sample s[5] = {{.first_label = 10},
                                  {.first_label = 11},
                                  {.first_label = 12},
                                  {.first_label = 13},
                                  {.first_label = 14}};
    struct profile p = {.samples = s, .sample_count = 5, .values = values, .type_count = 2};
    assert_true(normalise_profile(&arena, &p));
    assert_int_equal(p.sample_count, 4);
    assert_int_equal(s[0].first_label, 10);
    assert_int_equal(s[1].first_label, 12);
    assert_int_equal(s[3].first_label, 14);
    int64_t want[] = {1, 0, 5, -5, 2, 3, INT64_MIN, 9};
    assert_memory_equal(values, want, sizeof want);
}

static void only_labels_with_text_stay(void **state)
{
    (void)state;
    struct profile_label l[] = {{.key = S("bytes"), .number = 8},
                                {.key = S("k"), .text = S("v")},
                                {.key = S("e"), .text = S("")},
                                {.key = S("x"), .text = S("y")}};
    int64_t values[] = {1, 1};
    struct profile_sample s[] = {{.first_label = 0, .label_count = 3},
                                 {.first_label = 3, .label_count = 1}};
    struct profile p = {.samples = s,
                        .sample_count = 2,
                        .values = values,
                        .type_count = 1,
                        .labels = l,
                        .label_count = 4};
    assert_true(normalise_profile(&arena, &p));
    assert_int_equal(s[0].label_count, 1);
    assert_true(str_is(l[s[0].first_label].key, "k"));
    assert_int_equal(s[1].label_count, 1);
    assert_true(str_is(l[s[1].first_label].key, "x"));
}

static str name_of(const struct profile *p, uint32_t location)
{
    const struct profile_location *l = &p->locations[location];
    return l->line_count ? p->functions[p->lines[l->first_line].function].name : (str){0};
}

static void frames_that_say_nothing_are_unknown_frames(void **state)
{
    (void)state;
    struct profile_function f[] = {{.name = S("f")}, {0}, {.filename = S("x.c")}};
    struct profile_mapping m[] = {{.filename = S("libc.so")}, {.flags = 1}};
    struct profile_line lines[] = {{0, 0}, {1, 0}, {1, 5}, {2, 0}, {1, 0}, {0, 0}};
    struct profile_location l[] = {
        {.mapping = PROFILE_NONE, .line_count = 1, .first_line = 0},
        {.mapping = PROFILE_NONE},
        {.mapping = PROFILE_NONE, .address = 16},
        {.mapping = 0},
        {.mapping = 1},
        {.mapping = PROFILE_NONE, .line_count = 1, .first_line = 1},
        {.mapping = PROFILE_NONE, .line_count = 1, .first_line = 2},
        {.mapping = PROFILE_NONE, .line_count = 1, .first_line = 3},
        {.mapping = PROFILE_NONE, .line_count = 2, .first_line = 4},
    };
    uint32_t stacks[] = {0, 2, 0, 1};
    int64_t values[] = {1, 2, 4};
    struct profile_sample s[] = {{.first_location = 0, .location_count = 2},
                                 {.first_location = 2, .location_count = 2},
                                 {0}};
    struct profile p = {.samples = s,
                        .sample_count = 3,
                        .values = values,
                        .type_count = 1,
                        .functions = f,
                        .function_count = COUNT(f),
                        .mappings = m,
                        .mapping_count = COUNT(m),
                        .lines = lines,
                        .line_count = COUNT(lines),
                        .locations = l,
                        .location_count = COUNT(l),
                        .stack_locations = stacks};
    assert_true(normalise_profile(&arena, &p));
    assert_int_equal(p.sample_count, 3);
    static const char *const names[] = {"f", "[unknown]", "", "", "[unknown]", "[unknown]", "", ""};
    for (uint32_t i = 0; i < COUNT(names); i++) {
        if (!str_is(name_of(&p, i), names[i])) fail_msg("%u: %.*s", i, STR(name_of(&p, i)));
    }
    // The inlined frame of two.
    assert_true(str_is(name_of(&p, 8), "[unknown]"));
    assert_true(str_is(p.functions[p.lines[5].function].name, "f"));
    assert_int_equal(p.function_count, COUNT(f) + 1);
    assert_int_equal(p.line_count, COUNT(lines) + 1);
}

static void addresses_of_named_functions_are_cleared(void **state)
{
    (void)state;
    struct profile_function f[] = {{.name = S("f")}, {.filename = S("x.c")}};
    struct profile_line lines[] = {{0, 1}, {1, 1}, {0, 1}};
    struct profile_mapping m[] = {
        {.start = 1, .limit = 2, .offset = 3, .flags = SYMBOL_HAS_FUNCTIONS},
        {.start = 1, .limit = 2, .offset = 3}};
    struct profile_location l[] = {
        {.line_count = 1, .mapping = 0, .address = 5},
        {.line_count = 1, .mapping = 1, .address = 6},
        {.line_count = 1, .mapping = PROFILE_NONE, .address = 7},
        {.mapping = 0, .address = 8},
        {.line_count = 1, .first_line = 1, .mapping = 0, .address = 9},
        {.line_count = 2, .first_line = 1, .mapping = 0, .address = 10},
    };
    struct profile p = {.functions = f,
                        .function_count = COUNT(f),
                        .lines = lines,
                        .line_count = COUNT(lines),
                        .mappings = m,
                        .mapping_count = 2,
                        .locations = l,
                        .location_count = COUNT(l)};
    assert_true(normalise_profile(&arena, &p));
    static const uint64_t want[] = {0, 6, 7, 8, 9, 10};
    for (size_t i = 0; i < COUNT(want); i++)
        assert_int_equal(l[i].address, want[i]);
    assert_true(m[0].start == 0 && m[0].limit == 0 && m[0].offset == 0);
    assert_int_equal(m[1].limit, 2);
}

static const struct {
    const char *name;
    const char *stripped;
} shapes[] = {
    {"main.f", "main.f"},
    {"main.f[go.shape.int]", "main.f"},
    {"main.f[go.shape.struct { X []int }]", "main.f"},
    {"main.(*T[go.shape.int,go.shape.string_0]).Get", "main.(*T).Get"},
    {"a[go.shape.int].b[go.shape.[]uint8].c", "a.b.c"},
    {"main.f[...]", "main.f[...]"},
    {"main.f[go.shape.int", "main.f[go.shape.int"},
    {"x[0].y[go.shape.int]", "x[0].y"},
};

static void go_names_lose_their_shapes(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(shapes); i++) {
        struct profile_function f = {.name = str_of(shapes[i].name), .system_name = S("s")};
        struct profile p = {.functions = &f, .function_count = 1};
        assert_true(normalise_go_names(&arena, &p));
        if (!str_is(f.name, shapes[i].stripped)) fail_msg("%.*s", STR(f.name));
        assert_true(str_is(f.system_name, "s"));
    }
}

static const struct {
    const char *spy;
    const char *hint;
    bool go;
} languages[] = {
    {"gospy", "x.rb", true},   {"rbspy", "x.go", false}, {"", "x.go", true},
    {"unknown", "x.go", true}, {"", "", false},          {"", "x.rb", false},
};

static void language_is_told_by_spy_then_by_strings(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(languages); i++) {
        label l = {S("pyroscope_spy"), str_of(languages[i].spy)};
        struct profile p = {.language_hint = str_of(languages[i].hint)};
        assert_int_equal(normalise_is_go(&p, (labels){&l, 1}), languages[i].go);
    }
}

static void version_goes_into_build_ids(void **state)
{
    (void)state;
    label ls[] = {{S("service_git_ref"), S("v\"1")}, {S("service_repository"), S("https://e/r")}};
    struct profile_mapping m[] = {{.build_id = S("abc")}};
    struct profile_location l[] = {{.line_count = 1, .mapping = 0},
                                   {.line_count = 1, .mapping = PROFILE_NONE}};
    struct profile p = {.mappings = m, .mapping_count = 1, .locations = l, .location_count = 2};
    assert_true(normalise_version(&arena, &p, (labels){0}));
    assert_true(str_is(p.mappings[0].build_id, "abc"));
    assert_true(normalise_version(&arena, &p, (labels){ls, 2}));
    assert_int_equal(p.mapping_count, 2);
    assert_int_equal(l[1].mapping, 1);
    assert_true(str_is(p.mappings[0].build_id,
                       "{\"repository\":\"https://e/r\",\"git_ref\":\"v\\\"1\",\"build_id\":"
                       "\"abc\"}"));
    assert_true(
        str_is(p.mappings[1].build_id, "{\"repository\":\"https://e/r\",\"git_ref\":\"v\\\"1\"}"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        ARENA_TEST(only_samples_with_zeros_go),
        ARENA_TEST(only_labels_with_text_stay),
        ARENA_TEST(frames_that_say_nothing_are_unknown_frames),
        ARENA_TEST(addresses_of_named_functions_are_cleared),
        ARENA_TEST(go_names_lose_their_shapes),
        ARENA_TEST(language_is_told_by_spy_then_by_strings),
        ARENA_TEST(version_goes_into_build_ids),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
