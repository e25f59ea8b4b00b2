// SPDX-License-Identifier: Apache-2.0
#include "deploy/cli/cli_text.h"
#include "lib/test.h"

#include <locale.h>
#include <math.h>

static const struct {
    const char *name;
    const char *text;
    unsigned columns;
    const char *shown;
    unsigned used;
} cuts[] = {
    {"fits", "abc", 3, "abc", 3},
    {"one too long", "abcd", 3, "ab…", 3},
    {"no room", "abcd", 0, "", 0},
    {"room for the mark", "abcd", 1, "…", 1},
    {"empty", "", 5, "", 0},
    {"accents", "hä", 2, "hä", 2},
    {"wide", "日本語", 6, "日本語", 6},
    {"wide cut", "日本語", 5, "日本…", 5},
    {"wide cut at an odd column", "日本語", 4, "日…", 3},
    {"escape", "a\x1b[31mb", 9, "a\xef\xbf\xbd[31mb", 7},
    {"newline", "a\nb", 9,
     "a\xef\xbf\xbd"
     "b",
     3},
    {"C1",
     "a\xc2\x9b"
     "b",
     9,
     "a\xef\xbf\xbd"
     "b",
     3},
    {"not UTF-8", "a\xff\xc3", 9, "a\xef\xbf\xbd\xef\xbf\xbd", 3},
    {"overlong", "\xc0\x80", 9, "\xef\xbf\xbd\xef\xbf\xbd", 2},
    {"right to left override",
     "a\xe2\x80\xae"
     "b",
     9,
     "a\xef\xbf\xbd"
     "b",
     3},
    {"zero width",
     "a\xe2\x80\x8b"
     "b",
     9,
     "a\xef\xbf\xbd"
     "b",
     3},
    {"combining mark", "e\xcc\x81x", 9, "e\xcc\x81x", 2},
};

static void text_is_cut_at_columns_and_never_commands(void **state)
{
    (void)state;
    assert_non_null(setlocale(LC_CTYPE, "C.UTF-8"));
    for (size_t i = 0; i < COUNT(cuts); i++) {
        struct buf b;
        buf_init(&b, NULL, 1000);
        size_t n = strlen(cuts[i].text);
        str s = str_make(tail_guard(cuts[i].text, n), n);
        unsigned used = text_put_cut(&b, s, cuts[i].columns);
        if (used != cuts[i].used || !str_is(buf_view(&b), cuts[i].shown))
            fail_msg("%s: %u columns, '%.*s'", cuts[i].name, used, STR(buf_view(&b)));
        buf_release(&b);
    }
}

static void filter_keeps_lines(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 1000);
    text_filter(&b, S("a\tb\nc\rd\x1b"));
    assert_true(str_is(buf_view(&b), "a\tb\nc\xef\xbf\xbd"
                                     "d\xef\xbf\xbd"));
    buf_release(&b);
}

static const struct {
    double v;
    enum text_unit unit;
    const char *text;
} values[] = {
    {0, TEXT_NS, "0"},
    {1, TEXT_NS, "1 ns"},
    {999, TEXT_NS, "999 ns"},
    {1000, TEXT_NS, "1.00 µs"},
    {999.95e6, TEXT_NS, "1.00 s"},
    {12.34e9, TEXT_NS, "12.3 s"},
    {90e9, TEXT_NS, "1.50 min"},
    {86400e9 * 400, TEXT_NS, "400 d"},
    {-5e6, TEXT_NS, "-5.00 ms"},
    {7, TEXT_BYTES, "7 B"},
    {1536, TEXT_BYTES, "1.50 KiB"},
    {0x1p40, TEXT_BYTES, "1.00 TiB"},
    {12, TEXT_COUNT, "12"},
    {1.5, TEXT_COUNT, "1.50"},
    {123456, TEXT_COUNT, "123 k"},
    {9.2e18, TEXT_COUNT, "9.2e+06 T"},
};

static void values_have_three_digits_and_a_unit(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(values); i++) {
        char text[TEXT_NUMBER_MAX];
        assert_string_equal(text_value(text, values[i].v, values[i].unit), values[i].text);
    }
    char text[TEXT_NUMBER_MAX];
    assert_string_equal(text_value(text, (double)NAN, TEXT_NS), "?");
    assert_string_equal(text_percent(text, 0), "0.0 %");
    assert_string_equal(text_percent(text, 1), "100.0 %");
    assert_string_equal(text_percent(text, 0.05), "5.00 %");
    assert_string_equal(text_percent(text, 0.00001), "<0.01 %");
}

static void bars_are_as_long_as_their_share(void **state)
{
    (void)state;
    static const struct {
        double share;
        const char *bar;
    } bars[] = {{0, "    "}, {1, "████"},    {0.5, "██  "},
                {2, "████"}, {1e-9, "▏   "}, {0.53125, "██▏ "}};
    for (size_t i = 0; i < COUNT(bars); i++) {
        struct buf b;
        buf_init(&b, NULL, 100);
        text_bar(&b, bars[i].share, 4);
        if (!str_is(buf_view(&b), bars[i].bar))
            fail_msg("%g: '%.*s'", bars[i].share, STR(buf_view(&b)));
        buf_release(&b);
    }
}

static const struct {
    const char *unit;
    enum text_unit is;
    double factor;
} spellings[] = {
    {"nanoseconds", TEXT_NS, 1},
    {"Nanosecond", TEXT_NS, 1},
    {"nsec", TEXT_NS, 1},
    {"\xce\xbcs", TEXT_NS, 1e3},  // Greek letter
    {"\xc2\xb5s", TEXT_NS, 1e3},  // micro sign
    {"us", TEXT_NS, 1e3},
    {"usec", TEXT_NS, 1e3},
    {"usecs", TEXT_NS, 1e3},
    {"microsecond", TEXT_NS, 1e3},
    {"ms", TEXT_NS, 1e6},
    {"msec", TEXT_NS, 1e6},
    {"s", TEXT_NS, 1e9},
    {"sec", TEXT_NS, 1e9},
    {"seconds", TEXT_NS, 1e9},
    {"minutes", TEXT_NS, 60e9},
    {"hours", TEXT_NS, 3600e9},
    {"bytes", TEXT_BYTES, 1},
    {"byte", TEXT_BYTES, 1},
    {"B", TEXT_BYTES, 1},
    {"kb", TEXT_BYTES, 1024},
    {"KiB", TEXT_BYTES, 1024},
    {"MB", TEXT_BYTES, 1048576},
    {"megabytes", TEXT_BYTES, 1048576},
    {"GiB", TEXT_BYTES, 1073741824},
    {"count", TEXT_COUNT, 1},
    {"samples", TEXT_COUNT, 1},
    {"lock_nanoseconds", TEXT_COUNT, 1},
    {"cs", TEXT_COUNT, 1},
    {"", TEXT_COUNT, 1},
};

static void units_are_known_by_all_their_spellings(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(spellings); i++) {
        double factor = 0;
        enum text_unit is = text_unit_of(str_of(spellings[i].unit), &factor);
        if (is != spellings[i].is || factor != spellings[i].factor)
            fail_msg("%s: %d, %g", spellings[i].unit, is, factor);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_is_cut_at_columns_and_never_commands),
        cmocka_unit_test(filter_keeps_lines),
        cmocka_unit_test(values_have_three_digits_and_a_unit),
        cmocka_unit_test(bars_are_as_long_as_their_share),
        cmocka_unit_test(units_are_known_by_all_their_spellings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
