// SPDX-License-Identifier: Apache-2.0
#include "base/regex.h"
#include "lib/test.h"

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
        struct regex *r = regex_new(str_of(cases[i].pattern), &e);
        if (!r) fail_msg("%s: %s", cases[i].name, e.msg);
        if (regex_match(r, str_of(cases[i].value)) != cases[i].want) fail_msg("%s", cases[i].name);
        regex_free(r);
    }
    err e = {0};
    struct regex *r = regex_new((str){0}, &e);
    assert_true(regex_match(r, (str){0}));
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
        struct regex *r = regex_new(str_of(bad[i]), &e);
        if (r) fail_msg("%s", bad[i]);
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        assert_memory_equal(e.msg, "error parsing regexp: ", 22);
    }
}

static void groups_are_found_by_number_and_name(void **state)
{
    (void)state;
    err e = {0};
    struct regex *r = regex_new(S("(?P<a>x+)(y)?(z*)"), &e);
    assert_non_null(r);
    assert_int_equal(regex_group_count(r), 3);
    assert_int_equal(regex_group_number(r, S("a")), 1);
    assert_int_equal(regex_group_number(r, S("b")), -1);
    str g[3] = {0};
    assert_true(regex_groups(r, S("xxz"), g, 3));
    assert_true(str_is(g[0], "xx"));
    assert_int_equal(g[1].n, 0);
    assert_true(str_is(g[2], "z"));
    assert_false(regex_groups(r, S("y"), g, 3));
    regex_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_values_match),
        cmocka_unit_test(bad_and_monstrous_patterns_are_refused),
        cmocka_unit_test(groups_are_found_by_number_and_name),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
