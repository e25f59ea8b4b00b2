// SPDX-License-Identifier: Apache-2.0
//
// Texts become tokens or a fault with its place; values that are written read back equal.
#include "codec/json.h"
#include "lib/test.h"

// The tokens of a text as one line, such as "{ k:a n:1 }"; a fault ends it with "!".
static str tokens(struct arena *a, str text)
{
    static const char *const names[] = {
        [JSON_OBJECT] = "{",    [JSON_OBJECT_END] = "}", [JSON_ARRAY] = "[",
        [JSON_ARRAY_END] = "]", [JSON_KEY] = "k:",       [JSON_STRING] = "s:",
        [JSON_NUMBER] = "n:",   [JSON_TRUE] = "true",    [JSON_FALSE] = "false",
        [JSON_NULL] = "null",   [JSON_END] = ".",        [JSON_FAULT] = "!",
    };
    struct json_reader r;
    const uint8_t *p = tail_guard(text.p, text.n);
    json_reader_init(&r, a, str_make(p, text.n));
    str out = {0};
    for (;;) {
        enum json_token t = json_next(&r);
        bool with_text = t == JSON_KEY || t == JSON_STRING || t == JSON_NUMBER;
        out = arena_printf(a, "%.*s%s%.*s ", STR(out), names[t], with_text ? (int)r.text.n : 0,
                           r.text.p);
        if (t == JSON_FAULT) assert_int_not_equal(r.fault.code, 0);
        if (t == JSON_FAULT || t == JSON_END) {
            assert_int_equal(json_next(&r), t);
            return str_trim(out);
        }
    }
}

static void texts_become_tokens(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"{}", "{ } ."},
        {" [ ] ", "[ ] ."},
        {"[[],{}]", "[ [ ] { } ] ."},
        {"{\"a\":1,\"b\":[true,false,null]}", "{ k:a n:1 k:b [ true false null ] } ."},
        {"\"x\"", "s:x ."},
        {"-0.5e+10", "n:-0.5e+10 ."},
        {"0", "n:0 ."},
        {"[1E2,1.0,-1]", "[ n:1E2 n:1.0 n:-1 ] ."},
        {"\"\\\"\\\\\\/\\b\\f\\n\\r\\t\"", "s:\"\\/\b\f\n\r\t ."},
        {"\"\\u00e9\\u20AC\\ud83d\\udd25\"", "s:\xc3\xa9\xe2\x82\xac\xf0\x9f\x94\xa5 ."},
        {"{\"\\u0061\":\"\"}", "{ k:a s: } ."},
        {"\"\xc3\xa9\"", "s:\xc3\xa9 ."},
        {"\t\r\n null \n", "null ."},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 20);
        str got = tokens(&a, str_of(cases[i].text));
        if (!str_is(got, cases[i].want)) fail_msg("%s: %.*s", cases[i].text, STR(got));
        arena_release(&a);
    }
}

static void texts_that_are_no_json_fault(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        " ",
        "{",
        "[",
        "{]",
        "[}",
        "]",
        "}",
        ",",
        ":",
        "[1,]",
        "[,1]",
        "{\"a\":1,}",
        "{,}",
        "{\"a\"}",
        "{\"a\" 1}",
        "{\"a\":}",
        "{a:1}",
        "{1:1}",
        "{'a':1}",
        "[1 2]",
        "1 2",
        "{} {}",
        "nul",
        "nulll",
        "True",
        "NaN",
        "Infinity",
        "+1",
        ".5",
        "1.",
        "1.e1",
        "01",
        "-",
        "1e",
        "1e+",
        "0x10",
        "\"",
        "\"\\\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\u12g4\"",
        "\"\\ud800\"",
        "\"\\udc00\"",
        "\"\\ud800\\u0041\"",
        "\"\\ud800\\ud800\"",
        "\"a\nb\"",
        "\"\x01\"",
        "\"\xff\"",
        "\xef\xbb\xbf{}",
        "\"\xed\xa0\x80\"",
        "/* */ 1",
        "[1]]",
        "\"\\",
        "\"\\u",
        "\"\\ud83d\\u",
        "{\"a\":1 \"b\":2}",
        "{\"invalid json\"",
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 20);
        str got = tokens(&a, str_of(cases[i]));
        if (!str_ends(got, S("!"))) fail_msg("%s: %.*s", cases[i], STR(got));
        arena_release(&a);
    }
}

static void faults_say_where_and_what(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"{\"a\" 1}", "syntax error at byte 5: unexpected character '1'"},
        {"[1,", "syntax error at byte 3: unexpected end of the text"},
        {"\"a\nb\"", "syntax error at byte 2: unexpected byte 0x0a"},
        {"\"\xff\"", "syntax error: the text is not valid UTF-8"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct json_reader r;
        struct arena a;
        arena_init(&a, NULL, 1 << 20);
        json_reader_init(&r, &a, str_of(cases[i].text));
        while (json_next(&r) != JSON_FAULT) {
        }
        assert_string_equal(r.fault.msg, cases[i].want);
        arena_release(&a);
    }
}

static void depth_is_limited(void **state)
{
    (void)state;
    for (int depth = JSON_DEPTH - 1; depth <= JSON_DEPTH + 1; depth++) {
        char text[2 * JSON_DEPTH + 4];
        for (int i = 0; i < depth; i++) {
            text[i] = '[';
            text[2 * depth - 1 - i] = ']';
        }
        struct json_reader r;
        json_reader_init(&r, NULL, str_make(text, 2 * (size_t)depth));
        enum json_token t = JSON_NULL;
        while (t != JSON_FAULT && t != JSON_END)
            t = json_next(&r);
        assert_int_equal(t, depth <= JSON_DEPTH ? JSON_END : JSON_FAULT);
    }
}

static void values_are_skipped_whole(void **state)
{
    (void)state;
    static const char *const values[] = {
        "1", "\"x\"", "null", "{}", "[]", "[1,{\"b\":[2,3]},[]]", "{\"k\":{\"l\":[{}]},\"m\":1}"};
    for (size_t i = 0; i < COUNT(values); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 20);
        str text = arena_printf(&a, "{\"skip\":%s,\"next\":true}", values[i]);
        struct json_reader r;
        json_reader_init(&r, &a, text);
        assert_int_equal(json_next(&r), JSON_OBJECT);
        assert_int_equal(json_next(&r), JSON_KEY);
        assert_true(json_skip(&r));
        assert_int_equal(json_next(&r), JSON_KEY);
        assert_true(str_is(r.text, "next"));
        assert_int_equal(json_next(&r), JSON_TRUE);
        arena_release(&a);
    }
    struct json_reader r;
    json_reader_init(&r, NULL, S("[1,[2"));
    assert_int_equal(json_next(&r), JSON_ARRAY);
    assert_true(json_skip(&r));
    assert_false(json_skip(&r));
}

static void unescaping_ends_at_the_arena(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 4);
    struct json_reader r;
    json_reader_init(&r, &a, S("\"\\nabcdef\""));
    assert_int_equal(json_next(&r), JSON_FAULT);
    assert_int_equal(r.fault.code, ERR_RESOURCE_EXHAUSTED);
    arena_release(&a);
}

static void strings_are_written_with_few_escapes(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        str text;
        const char *want;
    } cases[] = {
        {"plain", S_INIT("abc/<>&'"), "\"abc/<>&'\""},
        {"empty", S_INIT(""), "\"\""},
        {"quotes", S_INIT("\"\\"), "\"\\\"\\\\\""},
        {"controls", S_INIT("\b\f\n\r\t\x01\x1f\x7f"), "\"\\b\\f\\n\\r\\t\\u0001\\u001f\x7f\""},
        {"NUL", S_INIT("a\0b"), "\"a\\u0000b\""},
        {"UTF-8", S_INIT("\xc3\xa9\xf0\x9f\x94\xa5"), "\"\xc3\xa9\xf0\x9f\x94\xa5\""},
        {"bad bytes", S_INIT("a\xff\xc3\xa9\xc3"), "\"a\xef\xbf\xbd\xc3\xa9\xef\xbf\xbd\""},
        {"bad byte and a quote", S_INIT("\xff\""), "\"\xef\xbf\xbd\\\"\""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b;
        buf_init(&b, NULL, 4096);
        json_put_string(&b, cases[i].text);
        if (!str_is(buf_view(&b), cases[i].want)) {
            fail_msg("%s: %.*s", cases[i].name, STR(buf_view(&b)));
        }
        buf_release(&b);
    }
}

static void doubles_are_short_and_read_back_equal(void **state)
{
    (void)state;
    static const struct {
        double v;
        const char *want;
    } cases[] = {
        {0, "0"},
        {1, "1"},
        {-3, "-3"},
        {0.1, "0.1"},
        {1.0 / 3, "0.3333333333333333"},
        {123456789012, "123456789012"},
        {1e300, "1e+300"},
        {5e-324, "4.94065645841247e-324"},
        {0.1 + 0.2, "0.30000000000000004"},
        {9007199254740993.0, "9007199254740992"},
        {-__builtin_inf(), "\"-Infinity\""},
        {__builtin_inf(), "\"Infinity\""},
        {__builtin_nan(""), "\"NaN\""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct buf b;
        buf_init(&b, NULL, 4096);
        json_put_double(&b, cases[i].v);
        if (!str_is(buf_view(&b), cases[i].want)) {
            fail_msg("%s: %.*s", cases[i].want, STR(buf_view(&b)));
        }
        buf_release(&b);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(texts_become_tokens),
        cmocka_unit_test(texts_that_are_no_json_fault),
        cmocka_unit_test(faults_say_where_and_what),
        cmocka_unit_test(depth_is_limited),
        cmocka_unit_test(values_are_skipped_whole),
        cmocka_unit_test(unescaping_ends_at_the_arena),
        cmocka_unit_test(strings_are_written_with_few_escapes),
        cmocka_unit_test(doubles_are_short_and_read_back_equal),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
