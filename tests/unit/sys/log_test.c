// SPDX-License-Identifier: Apache-2.0
#include "lib/test.h"
#include "sys/log.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

// What fn writes to stderr. The text ends with NUL.
static void stderr_of(void (*fn)(void), char *text, size_t size)
{
    FILE *f = tmpfile();
    assert_non_null(f);
    fflush(stderr);
    int saved = dup(STDERR_FILENO);
    assert_int_not_equal(saved, -1);
    assert_int_not_equal(dup2(fileno(f), STDERR_FILENO), -1);
    fn();
    assert_int_not_equal(dup2(saved, STDERR_FILENO), -1);
    assert_int_equal(close(saved), 0);
    rewind(f);
    size_t n = fread(text, 1, size - 1, f);
    text[n] = '\0';
    fclose(f);
}

static size_t lines(const char *text)
{
    size_t n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

static void say_one(void)
{
    struct log_fields f = {.tenant = S("a b"), .request_id = S("R1")};
    log_info(&f, "segment.flushed", "bytes=%d", 12);
}

static void a_line_has_time_level_event_fields_and_values(void **state)
{
    (void)state;
    char text[4096];
    stderr_of(say_one, text, sizeof text);
    assert_memory_equal(text, "ts=20", 5);
    assert_non_null(
        strstr(text, "Z level=info event=segment.flushed tenant=\"a b\" req=R1 bytes=12\n"));
    assert_int_equal(lines(text), 1);
}

static void say_twenty(void)
{
    for (int i = 0; i < 20; i++)
        log_warn(NULL, "disk.slow", "n=%d", i);
}

static void a_repeated_event_is_printed_ten_times(void **state)
{
    (void)state;
    char text[8192];
    stderr_of(say_twenty, text, sizeof text);
    size_t n = lines(text);
    assert_in_range(n, 10, 19);  // 10, unless a window of ten seconds ended in between
}

static void say_debug(void)
{
    log_debug(NULL, "detail", "x=1");
}

static void debug_is_silent_until_asked_for(void **state)
{
    (void)state;
    char text[4096];
    stderr_of(say_debug, text, sizeof text);
    assert_string_equal(text, "");
    log_set_level(LOG_DEBUG);
    stderr_of(say_debug, text, sizeof text);
    log_set_level(LOG_INFO);
    assert_non_null(strstr(text, "level=debug event=detail x=1\n"));
}

static void say_lines(void)
{
    char big[9000];
    memset(big, 'x', sizeof big);
    log_error(NULL, "odd", "text=%s", "two\nlines");
    log_error(NULL, "big", "text=%.*s", (int)sizeof big, big);
}

static void an_event_is_one_line_of_bounded_length(void **state)
{
    (void)state;
    char text[16384];
    stderr_of(say_lines, text, sizeof text);
    assert_int_equal(lines(text), 2);
    assert_true(strlen(text) < 4200);
}

static void values_are_quoted_where_needed(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        str in;
        const char *want;
    } cases[] = {
        {"plain", S_INIT("abc/1.5"), "abc/1.5"},
        {"empty", S_INIT(""), "\"\""},
        {"space", S_INIT("a b"), "\"a b\""},
        {"quote", S_INIT("a\"b\\"), "\"a\\\"b\\\\\""},
        {"line end", S_INIT("a\nb\x01"), "\"a\\nb\\x01\""},
        {"utf-8", S_INIT("gr\xc3\xbc n"), "\"gr\xc3\xbc n\""},
        {"not utf-8", S_INIT("a\xff"), "\"a\\xff\""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char text[LOG_QUOTE_MAX];
        if (strcmp(log_quote(text, cases[i].in), cases[i].want) != 0)
            fail_msg("%s: %s", cases[i].name, text);
    }
}

static void a_long_value_is_cut_at_a_character(void **state)
{
    (void)state;
    char in[3000];
    for (size_t i = 0; i < sizeof in; i += 3)
        memcpy(in + i, "\xe2\x82\xac", 3);
    for (size_t skip = 0; skip < 3; skip++) {  // the cut falls on each byte of a character
        char text[LOG_QUOTE_MAX];
        char shifted[3003] = "xx";
        memcpy(shifted + skip, in, sizeof in);
        log_quote(text, str_make(shifted, skip + sizeof in));
        assert_true(str_utf8(str_of(text)));
        assert_true(str_ends(str_of(text), S("...\"")));
    }
}

static void levels_have_names(void **state)
{
    (void)state;
    enum log_level l = LOG_DEBUG;
    assert_true(log_level_of(S("error"), &l));
    assert_int_equal(l, LOG_ERROR);
    assert_false(log_level_of(S("loud"), &l));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_time_level_event_fields_and_values),
        cmocka_unit_test(a_repeated_event_is_printed_ten_times),
        cmocka_unit_test(debug_is_silent_until_asked_for),
        cmocka_unit_test(an_event_is_one_line_of_bounded_length),
        cmocka_unit_test(values_are_quoted_where_needed),
        cmocka_unit_test(a_long_value_is_cut_at_a_character),
        cmocka_unit_test(levels_have_names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
