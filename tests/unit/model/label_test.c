// SPDX-License-Identifier: Apache-2.0
//
// Label sets: sorting, comparing, fingerprints, quoting, copies.
#include "base/hash.h"
#include "lib/test.h"
#include "model/label.h"

#include <stdio.h>

static label pair(const char *name, const char *value)
{
    return (label){str_of(name), str_of(value)};
}

static void sorting_is_by_name_and_keeps_equal_names_in_order(void **state)
{
    (void)state;
    label v[] = {pair("b", "1"), pair("a", "2"), pair("b", "0"), pair("", "3"), pair("aa", "4")};
    labels_sort(v, COUNT(v));
    const char *wanted[] = {"3", "2", "4", "1", "0"};
    for (size_t i = 0; i < COUNT(v); i++)
        assert_true(str_is(v[i].value, wanted[i]));
    labels_sort(v, 0);
}

// More than insertion takes, also without memory for the copy.
static void sorting_many_is_stable_with_and_without_memory(void **state)
{
    (void)state;
    enum {
        N = 1000,
        NAMES = 37
    };
    static char names[NAMES][8];
    static char values[N][8];
    for (size_t i = 0; i < NAMES; i++)
        snprintf(names[i], sizeof names[i], "n%02zu", i);
    for (size_t i = 0; i < N; i++)
        snprintf(values[i], sizeof values[i], "%04zu", i);
    for (int starved = 0; starved < 2; starved++) {
        static label v[N];
        for (size_t i = 0; i < N; i++)
            v[i] = pair(names[i * 7919 % NAMES], values[i]);
        mem_fail_at(starved);
        labels_sort(v, N);
        assert_int_equal(mem_fault_fired(), starved);
        mem_fail_at(0);
        for (size_t i = 1; i < N; i++) {
            int c = str_cmp(v[i - 1].name, v[i].name);
            assert_true(c < 0 || (c == 0 && str_cmp(v[i - 1].value, v[i].value) < 0));
        }
    }
}

static void a_missing_label_reads_as_empty(void **state)
{
    (void)state;
    const label v[] = {pair("a", "1"), pair("b", "2")};
    labels ls = {v, COUNT(v)};
    assert_true(str_is(labels_get(ls, S("b")), "2"));
    assert_int_equal(labels_get(ls, S("c")).n, 0);
    assert_true(labels_has(ls, S("a")));
    assert_false(labels_has(ls, S("")));
}

static void comparing_goes_label_by_label(void **state)
{
    (void)state;
    const label one[] = {pair("a", "1"), pair("b", "2")};
    const label two[] = {pair("a", "1"), pair("b", "3")};
    const label three[] = {pair("a", "1"), pair("c", "0")};
    labels a = {one, 2};
    labels b = {two, 2};
    labels c = {three, 2};
    labels prefix = {one, 1};
    assert_true(labels_cmp(a, b) < 0);
    assert_true(labels_cmp(b, c) < 0);
    assert_true(labels_cmp(c, a) > 0);
    assert_true(labels_cmp(prefix, a) < 0);
    assert_true(labels_cmp(a, prefix) > 0);
    assert_int_equal(labels_cmp(a, a), 0);
    assert_true(labels_eq(a, a));
    assert_false(labels_eq(a, b));
    assert_false(labels_eq(a, prefix));
}

// XXH64 of "a\xff1\xffbc\xff23\xff" (computed apart from this code); every node and every segment
// must agree.
static void the_fingerprint_is_that_of_the_format(void **state)
{
    (void)state;
    const label v[] = {pair("a", "1"), pair("bc", "23")};
    assert_true(labels_fingerprint((labels){v, 2}) == 0x8c130302dd1da9u);
    const label moved[] = {pair("a", "1b"), pair("c", "23")};
    assert_true(labels_fingerprint((labels){moved, 2}) != labels_fingerprint((labels){v, 2}));
    assert_true(labels_fingerprint((labels){0}) == 0xef46db3751d8e999u);
}

// However long the set, it is the hash of one text.
static void fingerprints_of_long_sets_are_no_others(void **state)
{
    (void)state;
    static char text[3000];
    static char whole[2 * sizeof text];
    memset(text, 'x', sizeof text);
    for (size_t n = 900; n < sizeof text; n += n < 1100 ? 1 : 400) {
        const label v[] = {{S("a"), str_make(text, n / 2)}, {S("b"), str_make(text, n - n / 2)}};
        size_t used = 0;
        for (size_t i = 0; i < COUNT(v); i++) {
            used += (size_t)snprintf(whole + used, sizeof whole - used, "%.*s\377%.*s\377",
                                     STR(v[i].name), STR(v[i].value));
        }
        assert_true(labels_fingerprint((labels){v, COUNT(v)}) == hash_bytes(whole, used));
    }
}

static const struct {
    const char *name;
    str text;
    const char *quoted;
} quotes[] = {
    {"plain", S_INIT("abc"), "\"abc\""},
    {"empty", S_INIT(""), "\"\""},
    {"quote and backslash", S_INIT("a\"b\\c'"), "\"a\\\"b\\\\c'\""},
    {"named controls", S_INIT("\a\b\t\n\v\f\r"), "\"\\a\\b\\t\\n\\v\\f\\r\""},
    {"other controls", S_INIT("\x01\x1f\x7f\0"), "\"\\x01\\x1f\\x7f\\x00\""},
    {"letters", S_INIT("gr\u00f6\u00dfe \u4e16"), "\"gr\u00f6\u00dfe \u4e16\""},
    {"no utf-8", S_INIT("a\xff\xc3"), "\"a\\xff\\xc3\""},
    {"surrogate bytes", S_INIT("\xed\xa0\x80"), "\"\\xed\\xa0\\x80\""},
    {"no-break space", S_INIT("\xc2\xa0"), "\"\\u00a0\""},
    {"zero width", S_INIT("\xe2\x80\x8b"), "\"\\u200b\""},
    {"byte order mark", S_INIT("\xef\xbb\xbf"), "\"\\ufeff\""},
    {"plane 15", S_INIT("\xf3\xb0\x80\x80"), "\"\\U000f0000\""},
    {"emoji", S_INIT("\xf0\x9f\x94\xa5"), "\"\xf0\x9f\x94\xa5\""},
};

static void quoting_is_that_of_go(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 1000);
    for (size_t i = 0; i < COUNT(quotes); i++) {
        buf_clear(&b);
        const uint8_t *guarded = tail_guard(quotes[i].text.p, quotes[i].text.n);
        label_quote(str_make(guarded, quotes[i].text.n), &b);
        if (!str_is(buf_view(&b), quotes[i].quoted)) {
            fail_msg("%s: %.*s", quotes[i].name, STR(buf_view(&b)));
        }
    }
    buf_release(&b);
}

static void printing_looks_like_a_selector(void **state)
{
    (void)state;
    const label v[] = {pair("a", "x\ny"), pair("b.c", "2")};
    struct buf b;
    buf_init(&b, NULL, 1000);
    labels_print((labels){v, 2}, &b);
    labels_print((labels){0}, &b);
    assert_true(str_is(buf_view(&b), "{a=\"x\\ny\", b.c=\"2\"}{}"));
    buf_release(&b);
}

static void a_copy_needs_nothing_of_the_original(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 10000);
    char name[] = "name";
    char value[] = "";
    label v[] = {{str_of(name), str_of(value)}, {str_of(name), str_of(name)}};
    labels copy = labels_copy(&a, (labels){v, 2});
    memset(name, 'x', sizeof name - 1);
    memset(v, 0, sizeof v);
    assert_int_equal(copy.n, 2);
    assert_true(str_is(copy.v[0].name, "name"));
    assert_int_equal(copy.v[0].value.n, 0);
    assert_true(str_is(copy.v[1].value, "name"));
    assert_int_equal(labels_copy(&a, (labels){0}).n, 0);
    arena_release(&a);
}

static bool copy(void *arg, err *e)
{
    (void)arg;
    struct arena a;
    arena_init(&a, NULL, 10000);
    const label v[] = {pair("a", "1"), pair("b", "2")};
    labels two = labels_copy(&a, (labels){v, 2});
    bool ok = arena_ok(&a, e);
    if (ok) assert_int_equal(two.n, 2);
    arena_release(&a);
    return ok;
}

static void copies_survive_failing_allocations(void **state)
{
    (void)state;
    assert_true(torture(copy, NULL) > 0);
}

static const struct {
    const char *name;
    bool legacy;
} names[] = {
    {"a", true},    {"_", true},         {"aZ_9", true},          {"__x__", true},
    {"", false},    {"9a", false},       {"a-b", false},          {"a.b", false},
    {"a:b", false}, {"\xc3\xa9", false}, {"service name", false},
};

static void legacy_names_are_those_of_old_prometheus(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(names); i++) {
        if (label_name_is_legacy(str_of(names[i].name)) != names[i].legacy) {
            fail_msg("%s", names[i].name);
        }
    }
    assert_false(label_name_is_legacy(S("a\0b")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorting_is_by_name_and_keeps_equal_names_in_order),
        cmocka_unit_test(sorting_many_is_stable_with_and_without_memory),
        cmocka_unit_test(a_missing_label_reads_as_empty),
        cmocka_unit_test(comparing_goes_label_by_label),
        cmocka_unit_test(the_fingerprint_is_that_of_the_format),
        cmocka_unit_test(fingerprints_of_long_sets_are_no_others),
        cmocka_unit_test(quoting_is_that_of_go),
        cmocka_unit_test(printing_looks_like_a_selector),
        cmocka_unit_test(a_copy_needs_nothing_of_the_original),
        cmocka_unit_test(copies_survive_failing_allocations),
        cmocka_unit_test(legacy_names_are_those_of_old_prometheus),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
