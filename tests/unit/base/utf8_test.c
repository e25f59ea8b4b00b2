// SPDX-License-Identifier: Apache-2.0
//
// Every character of Unicode is written and read back, and nothing else is.
#include "base/utf8.h"
#include "lib/test.h"

static void every_character_there_and_back(void **state)
{
    (void)state;
    static const struct {
        uint32_t first;
        size_t bytes;
    } sizes[] = {{0, 1}, {0x80, 2}, {0x800, 3}, {0x10000, 4}, {0x110000, 0}};
    for (size_t i = 0; i + 1 < COUNT(sizes); i++) {
        for (uint32_t c = sizes[i].first; c < sizes[i + 1].first; c++) {
            if (c >= 0xd800 && c < 0xe000) continue;
            char out[4];
            uint32_t back = 0;
            size_t n = utf8_put(out, c);
            if (n != sizes[i].bytes || utf8_get(str_make(out, n), &back) != n || back != c) {
                fail_msg("U+%04X: %zu bytes, U+%04X", c, n, back);
            }
        }
    }
}

static void what_is_no_character_is_told(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        str bytes;
    } cases[] = {
        {"nothing", S_INIT("")},
        {"a rest", S_INIT("\x80")},
        {"cut", S_INIT("\xe2\x82")},
        {"overlong", S_INIT("\xc0\x80")},
        {"surrogate", S_INIT("\xed\xa0\x80")},
        {"too large", S_INIT("\xf4\x90\x80\x80")},
        {"no lead", S_INIT("\xff")},
        {"ASCII in it", S_INIT("\xe2\x41\x82")},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint32_t c = 7;
        if (utf8_get(cases[i].bytes, &c) != 0 || c != 7) fail_msg("%s", cases[i].name);
    }
}

static void text_is_mended_byte_by_byte(void **state)
{
    (void)state;
    static const struct {
        str bytes;
        str mended;
    } cases[] = {
        {S_INIT(""), S_INIT("")},
        {S_INIT("m\xc3\xa9thode"), S_INIT("m\xc3\xa9thode")},
        {S_INIT("m\xe9thode"), S_INIT("m\xef\xbf\xbdthode")},
        {S_INIT("\xff\xfe"), S_INIT("\xef\xbf\xbd\xef\xbf\xbd")},
        {S_INIT("a\xe2\x82"), S_INIT("a\xef\xbf\xbd\xef\xbf\xbd")},
        {S_INIT("\xc3\xa9\x80"), S_INIT("\xc3\xa9\xef\xbf\xbd")},
        {S_INIT("a\0b"), S_INIT("a\xef\xbf\xbd"
                                "b")},
    };
    struct arena a;
    arena_init(&a, NULL, 1 << 16);
    for (size_t i = 0; i < COUNT(cases); i++) {
        str got = utf8_mended(&a, cases[i].bytes);
        if (!str_eq(got, cases[i].mended)) fail_msg("case %zu: %.*s", i, STR(got));
    }
    assert_ptr_equal(utf8_mended(&a, cases[1].bytes).p, cases[1].bytes.p);
    arena_release(&a);
}

static void a_head_ends_at_a_character(void **state)
{
    (void)state;
    static const size_t heads[] = {0, 1, 1, 1, 4, 4, 6, 6};  // of "a\u20ac\u00e9", by most bytes
    str text = S("a\xe2\x82\xac\xc3\xa9");
    for (size_t most = 0; most < COUNT(heads); most++) {
        str head = utf8_head(text, most);
        assert_int_equal(head.n, heads[most]);
        assert_true(str_utf8(head) && head.p == text.p);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_character_there_and_back),
        cmocka_unit_test(what_is_no_character_is_told),
        cmocka_unit_test(text_is_mended_byte_by_byte),
        cmocka_unit_test(a_head_ends_at_a_character),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
