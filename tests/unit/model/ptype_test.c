// SPDX-License-Identifier: Apache-2.0
//
// Ids of profile types, by a table, with Pyroscope's words for those that are refused.
#include "lib/test.h"
#include "model/ptype.h"

static const struct {
    const char *text;
    const char *parts[5];
} good[] = {
    {"process_cpu:cpu:nanoseconds:cpu:nanoseconds",
     {"process_cpu", "cpu", "nanoseconds", "cpu", "nanoseconds"}},
    {"memory:alloc_space:bytes::", {"memory", "alloc_space", "bytes", "", ""}},
    {"::::", {"", "", "", "", ""}},
    {"a:b:c:d:e:delta", {"a", "b", "c", "d", "e"}},
    {"a:b:c:d:e:", {"a", "b", "c", "d", "e"}},
};

static void ids_have_five_parts_or_an_ignored_sixth(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 10000);
    for (size_t i = 0; i < COUNT(good); i++) {
        struct ptype t;
        assert_ok(ptype_parse(str_of(good[i].text), &t, e));
        const str parts[] = {t.name, t.sample_type, t.sample_unit, t.period_type, t.period_unit};
        for (size_t k = 0; k < COUNT(parts); k++)
            assert_true(str_is(parts[k], good[i].parts[k]));
        str printed = ptype_print(&a, &t);
        assert_true(str_starts(str_of(good[i].text), printed));
        assert_true(printed.n >= 4);
    }
    arena_release(&a);
}

static void colons_within_parts_are_not_printed(void **state)
{
    (void)state;
    struct arena a;
    struct ptype again;
    arena_init(&a, NULL, 10000);
    const struct ptype t = {S("a:b"), S("page:faults:u"), S(":"), S(""), S("n:s")};
    str id = ptype_print(&a, &t);
    assert_true(str_is(id, "a_b:page_faults_u:_::n_s"));
    assert_ok(ptype_parse(id, &again, e));
    assert_true(str_is(again.sample_type, "page_faults_u"));
    arena_release(&a);
}

#define FORM                                      \
    "profile-type selection must be of the form " \
    "<name>:<sample-type>:<sample-unit>:<period-type>:<period-unit>(:delta), "

static const struct {
    const char *text;
    const char *message;
} bad[] = {
    {"", FORM "got(1): \"\""},
    {"cpu", FORM "got(1): \"cpu\""},
    {"a:b:c:d", FORM "got(4): \"a:b:c:d\""},
    {"a:b:c:d:e:f:g", FORM "got(7): \"a:b:c:d:e:f:g\""},
    {"\"\n", FORM "got(1): \"\\\"\\n\""},
};

static void other_ids_are_refused_in_pyroscopes_words(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(bad); i++) {
        struct ptype t;
        err e = {0};
        assert_false(ptype_parse(str_of(bad[i].text), &t, &e));
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        assert_string_equal(e.msg, bad[i].message);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_have_five_parts_or_an_ignored_sixth),
        cmocka_unit_test(colons_within_parts_are_not_printed),
        cmocka_unit_test(other_ids_are_refused_in_pyroscopes_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
