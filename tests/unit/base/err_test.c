// SPDX-License-Identifier: Apache-2.0
//
// Codes, messages and how a caller adds its place to them.
#include "base/err.h"
#include "base/str.h"
#include "lib/test.h"

static void err_set_returns_false_and_keeps_code_and_message(void **state)
{
    (void)state;
    err e = {0};
    assert_false(err_set(&e, ERR_DATA_LOSS, "crc is %x, footer says %x", 1u, 2u));
    assert_int_equal(e.code, ERR_DATA_LOSS);
    assert_string_equal(e.msg, "crc is 1, footer says 2");
}

static void err_wrap_puts_context_first_and_keeps_the_code(void **state)
{
    (void)state;
    err e = {0};
    err_set(&e, ERR_NOT_FOUND, "no such key");
    assert_false(err_wrap(&e, "block %s", "01H"));
    assert_int_equal(e.code, ERR_NOT_FOUND);
    assert_string_equal(e.msg, "block 01H: no such key");
}

static void long_messages_are_cut_at_a_character(void **state)
{
    (void)state;
    static const char *const letters[] = {"x", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x94\xa5"};
    for (size_t i = 0; i < COUNT(letters); i++) {
        for (size_t shift = 0; shift < 4; shift++) {
            char text[3000] = "aaa";
            text[shift] = '\0';
            size_t n = shift;
            for (; n + 4 < sizeof text; n += strlen(letters[i]))
                memcpy(text + n, letters[i], strlen(letters[i]));
            err e = {0};
            err_set(&e, ERR_INTERNAL, "%s", text);
            size_t len = strlen(e.msg);
            assert_true(len + 4 >= sizeof e.msg - 1);
            assert_true(str_utf8(str_make(e.msg, len)));
            err_wrap(&e, "where");
            assert_true(str_utf8(str_of(e.msg)));
            assert_memory_equal(e.msg, "where: ", 7);
        }
    }
}

static void codes_have_the_names_numbers_and_statuses_of_connect(void **state)
{
    (void)state;
    static const struct {
        enum err_code code;
        int number;
        const char *name;
        unsigned status;
    } cases[] = {
        {ERR_OK, 0, "ok", 200},
        {ERR_CANCELED, 1, "canceled", 499},
        {ERR_INVALID_ARGUMENT, 3, "invalid_argument", 400},
        {ERR_RESOURCE_EXHAUSTED, 8, "resource_exhausted", 429},
        {ERR_UNIMPLEMENTED, 12, "unimplemented", 501},
        {ERR_UNAVAILABLE, 14, "unavailable", 503},
        {ERR_UNAUTHENTICATED, 16, "unauthenticated", 401},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        assert_int_equal(cases[i].code, cases[i].number);
        assert_string_equal(err_name(cases[i].code), cases[i].name);
        assert_int_equal(err_http_status(cases[i].code), cases[i].status);
        if (cases[i].code == ERR_OK) continue;
        assert_int_equal(err_code_of(cases[i].name, strlen(cases[i].name)), cases[i].code);
    }
    assert_int_equal(err_code_of("nonsense", 8), ERR_UNKNOWN);
    assert_int_equal(err_code_of("", 0), ERR_UNKNOWN);
    assert_string_equal(err_name((enum err_code)99), "unknown");
    assert_int_equal(err_http_status((enum err_code)99), 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(err_set_returns_false_and_keeps_code_and_message),
        cmocka_unit_test(err_wrap_puts_context_first_and_keeps_the_code),
        cmocka_unit_test(long_messages_are_cut_at_a_character),
        cmocka_unit_test(codes_have_the_names_numbers_and_statuses_of_connect),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
