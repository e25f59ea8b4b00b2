// SPDX-License-Identifier: Apache-2.0
//
// Expressions match whole values as in Prometheus, and cost no more memory than their bounds say.
#include "base/mem.h"
#include "base/regex.h"
#include "lib/test.h"

#include <stdio.h>

static void whole_values_match(void **state)
{
    (void)state;
    static const struct {
        const char *name, *pattern, *value;
        bool want;
    } cases[] = {
        {"literal", "api", "api", true},
        {"prefix is not enough", "api", "api-1", false},
        {"suffix is not enough", "api", "my-api", false},
        {"alternation is anchored as a whole", "a|b", "ab", false},
        {"alternation", "a|b", "b", true},
        {"dot takes newlines", "a.c", "a\nc", true},
        {"empty pattern, empty value", "", "", true},
        {"empty pattern, some value", "", "x", false},
        {"anything", ".*", "", true},
        {"something", ".+", "", false},
        {"case folding", "(?i)API", "api", true},
        {"UTF-8 is one character", "^.$", "\xc3\xa9", true},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        err e = {0};
        struct regex *r = regex_new(str_of(cases[i].pattern), NULL, &e);
        if (!r) fail_msg("%s: %s", cases[i].name, e.msg);
        if ((regex_match(r, str_of(cases[i].value)) == REGEX_YES) != cases[i].want)
            fail_msg("%s", cases[i].name);
        regex_free(r);
    }
    err e = {0};
    struct regex *r = regex_new((str){0}, NULL, &e);
    assert_int_equal(regex_match(r, (str){0}), REGEX_YES);
    regex_free(r);
    regex_free(NULL);
}

static void bad_and_monstrous_patterns_are_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "(", "a**", "[b-a]", "\\", "(?P<x", "\xff", "((a{1000}){1000}){1000}", "(?=a)"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        err e = {0};
        struct regex *r = regex_new(str_of(bad[i]), NULL, &e);
        if (r) fail_msg("%s", bad[i]);
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        assert_memory_equal(e.msg, "error parsing regexp: ", 22);
    }
}

static void groups_are_found_by_number_and_name(void **state)
{
    (void)state;
    err e = {0};
    struct regex *r = regex_new(S("(?P<a>x+)(y)?(z*)"), NULL, &e);
    assert_non_null(r);
    assert_int_equal(regex_group_count(r), 3);
    assert_int_equal(regex_group_number(r, S("a")), 1);
    assert_int_equal(regex_group_number(r, S("b")), -1);
    str g[3] = {0};
    assert_int_equal(regex_groups(r, S("xxz"), g, 3), REGEX_YES);
    assert_true(str_is(g[0], "xx"));
    assert_int_equal(g[1].n, 0);
    assert_true(str_is(g[2], "z"));
    assert_int_equal(regex_groups(r, S("y"), g, 3), REGEX_NO);
    regex_free(r);
}

// ---- lists of plain values

static void lists_match_as_re2_would(void **state)
{
    (void)state;
    static const struct {
        const char *pattern, *value;
        bool want;
        int groups;
    } cases[] = {
        {"a", "a", true, 0},
        {"b|a|c", "a", true, 0},
        {"b|a|c", "d", false, 0},
        {"b|a|c", "", false, 0},
        {"b|a|", "", true, 0},
        {"|", "", true, 0},
        {"(a|b)", "b", true, 1},
        {"(?:a|b)", "b", true, 0},
        {"(a|b)|c", "c", true, 1},  // no list
        {"(a)|(b)", "b", true, 2},  // no list, though it begins and ends with brackets
        {"()", "", true, 1},
        {"()", "x", false, 1},
        {"a\\.b|c\\-d", "a.b", true, 0},
        {"a\\.b|c\\-d", "axb", false, 0},
        {"a\\.b|c\\-d", "c-d", true, 0},
        {"a.b", "axb", true, 0},  // no list
        {"a\\|b", "a|b", true, 0},
        {"a\\|b", "a", false, 0},
        {"a\\\\|b", "a\\", true, 0},
        {"(a\\)", NULL, false, 0},  // refused: the bracket is not closed
        {"a\\d", "a1", true, 0},
        {"a|\xc3\xa9", "\xc3\xa9", true, 0},
        {"aa|a|aaa", "aa", true, 0},
        {"a|a", "a", true, 0},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        err e = {0};
        struct regex *r = regex_new(str_of(cases[i].pattern), NULL, &e);
        if (!r != !cases[i].value) fail_msg("%s: %s", cases[i].pattern, e.msg);
        if (!r) continue;
        str value = str_of(cases[i].value);
        if ((regex_match(r, value) == REGEX_YES) != cases[i].want) fail_msg("%s", cases[i].pattern);
        assert_int_equal(regex_group_count(r), cases[i].groups);
        str g[2] = {0};
        enum regex_answer found = regex_groups(r, value, g, (size_t)cases[i].groups);
        assert_int_equal(found == REGEX_YES, cases[i].want);
        if (cases[i].pattern[0] == '(' && cases[i].groups == 1 && cases[i].want &&
            !strchr(cases[i].pattern, 'c')) {
            assert_true(str_eq(g[0], value));
        }
        assert_int_equal(regex_group_number(r, S("x")), -1);
        regex_free(r);
    }
}

// The values of a dashboard's variable: `count` pods, each name with its dots escaped if asked.
static size_t pods(char *text, size_t count, const char *dot, const char *behind)
{
    size_t n = 0;
    for (size_t i = 0; i < count; i++) {
        n += (size_t)sprintf(text + n, "%scheckout%sapi-%08x-%05zu%s", i ? "|" : "", dot,  // NOLINT
                             (unsigned)i * 2654435761u, i, behind);
    }
    return n;
}

static void long_lists_work_and_cost_little(void **state)
{
    (void)state;
    static const struct {
        size_t count;
        const char *dot, *behind;
        size_t most;  // bytes while it is compiled
    } cases[] = {
        {400, "-", "", 32 << 10},  // 11 KB
        {400, "\\.", "", 32 << 10},
        {40000, "-", "", 3 << 20},  // 1.2 MB
        {400, "-", ".*", 8 << 20},  // a program
    };
    char *text = mem_must(4 << 20);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct mem_budget b;
        mem_budget_init(&b, "request", NULL, 0);
        err e = {0};
        size_t n = pods(text, cases[i].count, cases[i].dot, cases[i].behind);
        struct regex *r = regex_new(str_make(text, n), &b, &e);
        if (!r) fail_msg("%s", e.msg);
        assert_true(atomic_load(&b.used) > 0);
        if (atomic_load(&b.peak) > cases[i].most) fail_msg("case %zu: %zu", i, b.peak);
        char value[64];
        for (size_t k = 0; k < cases[i].count; k += 37) {
            snprintf(value, sizeof value, "checkout%sapi-%08x-%05zu",
                     cases[i].dot[0] == '-' ? "-" : ".", (unsigned)k * 2654435761u, k);
            assert_int_equal(regex_match(r, str_of(value)), REGEX_YES);
            value[0] = 'C';
            assert_int_equal(regex_match(r, str_of(value)), REGEX_NO);
        }
        regex_free(r);
        assert_int_equal(atomic_load(&b.used), 0);
    }
    mem_must_free(text);
}

// ---- bounds

static size_t repeat(char *to, const char *what, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memcpy(to + i * strlen(what), what, strlen(what));
    return n * strlen(what);
}

static void costly_patterns_are_refused_within_their_budget(void **state)
{
    (void)state;
    static const struct {
        const char *what;
        size_t times;
        const char *why;
    } cases[] = {
        {"\\pL{300}", 1, "pattern too large"},     {"(\\pL{0,3}x){60}", 1, "pattern too large"},
        {"\\pL", 2400, "2400 Unicode classes"},    {"[\\PL]", 65, "65 Unicode classes"},
        {"x*", 20000, "40000 bytes, limit 32768"}, {"[^a]", 8000, "pattern too large"},
        {".", 32768, "pattern too large"},
    };
    char *text = mem_must(64 << 10);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct mem_budget b;
        mem_budget_init(&b, "request", NULL, 16 << 20);
        err e = {0};
        size_t n = repeat(text, cases[i].what, cases[i].times);
        struct regex *r = regex_new(str_make(text, n), &b, &e);
        if (r) fail_msg("%s", cases[i].what);
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        if (!strstr(e.msg, cases[i].why)) fail_msg("%s", e.msg);
        assert_int_equal(atomic_load(&b.used), 0);
    }
    mem_must_free(text);
}

static void a_budget_without_room_refuses_a_program(void **state)
{
    (void)state;
    struct mem_budget b;
    mem_budget_init(&b, "request", NULL, 150 << 10);
    err e = {0};
    assert_null(regex_new(S("api-.*"), &b, &e));
    assert_int_equal(e.code, ERR_RESOURCE_EXHAUSTED);
    assert_int_equal(atomic_load(&b.used), 0);
    atomic_store(&b.limit, (size_t)2 << 20);
    struct regex *r = regex_new(S("api-.*"), &b, &e);
    assert_non_null(r);
    assert_true(atomic_load(&b.used) >= 128 << 10);
    regex_free(r);
    assert_int_equal(atomic_load(&b.used), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_values_match),
        cmocka_unit_test(bad_and_monstrous_patterns_are_refused),
        cmocka_unit_test(groups_are_found_by_number_and_name),
        cmocka_unit_test(lists_match_as_re2_would),
        cmocka_unit_test(long_lists_work_and_cost_little),
        cmocka_unit_test(costly_patterns_are_refused_within_their_budget),
        cmocka_unit_test(a_budget_without_room_refuses_a_program),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
