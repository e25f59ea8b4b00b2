// SPDX-License-Identifier: Apache-2.0
//
// Bytes that borrow: order, parts, distances, numbers, and the check for UTF-8 against its
// definition.
#include "base/str.h"
#include "lib/test.h"

#include <stdio.h>

static void assert_str(str got, const char *want)
{
    if (!str_is(got, want)) fail_msg("got \"%.*s\", want \"%s\"", STR(got), want);
}

static void order_is_bytewise_with_prefixes_first(void **state)
{
    (void)state;
    static const char *const sorted[] = {"", "a", "aa", "ab", "b", "\xc3\xa9"};
    for (size_t i = 0; i < COUNT(sorted); i++) {
        for (size_t k = 0; k < COUNT(sorted); k++) {
            int c = str_cmp(str_of(sorted[i]), str_of(sorted[k]));
            assert_int_equal(c < 0, i < k);
            assert_int_equal(c > 0, i > k);
        }
    }
    assert_true(str_eq((str){0}, S("")));
}

static void parts_are_found_and_compared(void **state)
{
    (void)state;
    assert_true(str_starts(S("abc"), S("")));
    assert_true(str_starts(S("abc"), S("ab")));
    assert_false(str_starts(S("ab"), S("abc")));
    assert_true(str_ends(S("abc"), S("bc")));
    assert_false(str_ends(S("c"), S("bc")));
    assert_true(str_contains(S("abc"), S("b")));
    assert_true(str_contains((str){0}, (str){0}));
    assert_false(str_contains(S("abc"), S("abcd")));
    assert_true(str_ieq(S("Content-Type"), S("content-tYPE")));
    assert_false(str_ieq(S("a"), S("b")));
    assert_int_equal(str_find(S("a:b:c"), ':'), 1);
    assert_int_equal(str_rfind(S("a:b:c"), ':'), 3);
    assert_int_equal(str_find(S("abc"), ':'), 3);
    assert_int_equal(str_find((str){0}, ':'), 0);
    assert_int_equal(str_find_part(S("a->b->c"), S("->")), 1);
    assert_int_equal(str_find_part(S("abc"), S("->")), 3);
    assert_int_equal(str_find_part((str){0}, S("->")), 0);
}

static void distances_count_edits(void **state)
{
    (void)state;
    static const struct {
        const char *a;
        const char *b;
        unsigned distance;
    } cases[] = {{"", "", 0},         {"abc", "", 3},          {"", "abc", 3},
                 {"shop", "shop", 0}, {"shop", "shops", 1},    {"shop", "sho", 1},
                 {"shop", "ship", 1}, {"lables", "labels", 1}, {"kitten", "sitting", 3}};
    for (size_t i = 0; i < COUNT(cases); i++) {
        unsigned d = str_distance(str_of(cases[i].a), str_of(cases[i].b));
        if (d != cases[i].distance) fail_msg("%s %s: %u", cases[i].a, cases[i].b, d);
    }
}

static void slices_are_clamped(void **state)
{
    (void)state;
    assert_str(str_slice(S("abcd"), 1, 3), "bc");
    assert_str(str_slice(S("abcd"), 2, 99), "cd");
    assert_str(str_slice(S("abcd"), 9, 99), "");
    assert_str(str_slice(S("abcd"), 3, 1), "");
    assert_str(str_trim(S(" \t a b\r\n")), "a b");
    assert_str(str_trim(S(" \t ")), "");
}

static void split_walks_the_parts(void **state)
{
    (void)state;
    str rest = S("a,,b,");
    assert_str(str_split(rest, ',', &rest), "a");
    assert_str(str_split(rest, ',', &rest), "");
    assert_str(str_split(rest, ',', &rest), "b");
    assert_non_null(rest.p);
    assert_str(str_split(rest, ',', &rest), "");
    assert_null(rest.p);
}

static void numbers_are_whole_texts_in_range(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool is_u64;
        uint64_t u;
        bool is_i64;
        int64_t i;
    } cases[] = {
        {"0", true, 0, true, 0},
        {"007", true, 7, true, 7},
        {"-5", false, 0, true, -5},
        {"+5", false, 0, true, 5},
        {"9223372036854775807", true, INT64_MAX, true, INT64_MAX},
        {"9223372036854775808", true, 1ull << 63, false, 0},
        {"-9223372036854775808", false, 0, true, INT64_MIN},
        {"-9223372036854775809", false, 0, false, 0},
        {"18446744073709551615", true, UINT64_MAX, false, 0},
        {"18446744073709551616", false, 0, false, 0},
        {"99999999999999999999999", false, 0, false, 0},
        {"", false, 0, false, 0},
        {"-", false, 0, false, 0},
        {" 1", false, 0, false, 0},
        {"1x", false, 0, false, 0},
        {"--1", false, 0, false, 0},
    };
    for (size_t c = 0; c < COUNT(cases); c++) {
        uint64_t u = 0;
        int64_t i = 0;
        str s = str_of(cases[c].text);
        if (str_u64(s, &u) != cases[c].is_u64 || u != cases[c].u) fail_msg("u64 \"%s\"", s.p);
        if (str_i64(s, &i) != cases[c].is_i64 || i != cases[c].i) fail_msg("i64 \"%s\"", s.p);
    }
}

static void hexadecimal_numbers_are_whole_strings_without_overflow(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        bool good;
        uint64_t v;
    } cases[] = {
        {"0", true, 0},
        {"1fA", true, 0x1fa},
        {"ffffffffffffffff", true, UINT64_MAX},
        {"0ffffffffffffffff", true, UINT64_MAX},
        {"10000000000000000", false, 0},
        {"", false, 0},
        {"0x1", false, 0},
        {"1g", false, 0},
        {"-1", false, 0},
    };
    for (size_t c = 0; c < COUNT(cases); c++) {
        uint64_t v = 0;
        str s = str_of(cases[c].text);
        if (str_hex(s, &v) != cases[c].good || (cases[c].good && v != cases[c].v))
            fail_msg("hex \"%s\"", s.p);
    }
}

// The definition, slowly: decode, then refuse what is overlong, a surrogate or too large. Returns
// the character's bytes, 0 if it is none.
static size_t character(const uint8_t *p, size_t n)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (p[0] < 0x80) return 1;
    size_t len = (p[0] & 0xe0) == 0xc0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : 4;
    if (p[0] < 0xc0 || p[0] > 0xf7 || len > n) return 0;
    uint32_t c = p[0] & (0x7fu >> len);
    for (size_t k = 1; k < len; k++) {
        if ((p[k] & 0xc0) != 0x80) return 0;
        c = c << 6 | (p[k] & 0x3f);
    }
    return c < least[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) ? 0 : len;
}

static bool utf8_by_definition(const uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n;) {
        size_t len = character(p + i, n - i);
        if (len == 0) return false;
        i += len;
    }
    return true;
}

static void check_utf8(const uint8_t *p, size_t n)
{
    if (str_utf8(str_make(p, n)) == utf8_by_definition(p, n)) return;
    fail_msg("%zu bytes: %02x %02x %02x %02x", n, p[0], p[1], p[2], p[3]);
}

static void utf8_agrees_with_its_definition(void **state)
{
    (void)state;
    // every pair of bytes, with and without valid continuations, after 0 to 8 plain ones
    for (unsigned pair = 0; pair < 65536; pair++) {
        for (size_t tail = 0; tail < 3; tail++) {
            uint8_t text[13] = "aaaaaaaa";
            text[8] = (uint8_t)(pair >> 8);
            text[9] = (uint8_t)pair;
            memset(text + 10, 0x80, tail);
            text[10 + tail] = 'z';
            check_utf8(text + pair % 8, 11 + tail - pair % 8);
            check_utf8(text + 8, 3 + tail);
        }
    }
}

static void utf8_never_reads_past_the_end(void **state)
{
    (void)state;
    static const char text[] = "plain \xc3\xa9 \xe2\x82\xac \xf0\x9f\x94\xa5";
    for (size_t n = 0; n <= sizeof text - 1; n++) {
        const uint8_t *p = tail_guard(text, n);
        assert_int_equal(str_utf8(str_make(p, n)), utf8_by_definition(p, n));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(order_is_bytewise_with_prefixes_first),
        cmocka_unit_test(parts_are_found_and_compared),
        cmocka_unit_test(distances_count_edits),
        cmocka_unit_test(slices_are_clamped),
        cmocka_unit_test(split_walks_the_parts),
        cmocka_unit_test(numbers_are_whole_texts_in_range),
        cmocka_unit_test(hexadecimal_numbers_are_whole_strings_without_overflow),
        cmocka_unit_test(utf8_agrees_with_its_definition),
        cmocka_unit_test(utf8_never_reads_past_the_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
