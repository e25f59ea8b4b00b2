// SPDX-License-Identifier: Apache-2.0
//
// Media types and their parameters, by a table.
#include "codec/media.h"
#include "lib/test.h"

// "type|name=value|..." or "!" and the fault.
static str walk(struct arena *a, str text)
{
    const uint8_t *p = tail_guard(text.p, text.n);
    str type = {0};
    str rest = {0};
    str name = {0};
    str value = {0};
    err e = {0};
    if (!media_type(str_make(p, text.n), &type, &rest, &e)) return arena_printf(a, "!%s", e.msg);
    str out = arena_str(a, type);
    for (;;) {
        enum media_step step = media_next(a, &rest, &name, &value, &e);
        if (step == MEDIA_END) return out;
        if (step == MEDIA_FAULT) return arena_printf(a, "!%s", e.msg);
        out = arena_printf(a, "%.*s|%.*s=%.*s", STR(out), STR(name), STR(value));
    }
}

static void media_types_are_taken_apart(void **state)
{
    (void)state;
    static const struct {
        const char *text, *want;
    } cases[] = {
        {"application/json", "application/json"},
        {"*/*", "*/*"},
        {" text/HTML ; q=0.9;", "text/HTML|q=0.9"},
        {"attachment; Filename=\"a\\\"b;c\"; x = y", "attachment|Filename=a\"b;c|x=y"},
        {"*/*;allow-utf8-labelnames=true", "*/*|allow-utf8-labelnames=true"},
        {"a/b; x=\"\"", "a/b|x="},
        {"", "!mime: no media type"},
        {"; x=y", "!mime: no media type"},
        {"a b", "!mime: expected slash after first token"},
        {"a/", "!mime: expected token after slash"},
        {"invalid/mime/type/format", "!mime: unexpected content after media subtype"},
        {"a/b; x", "!mime: invalid media parameter"},
        {"a/b; =y", "!mime: invalid media parameter"},
        {"a/b; x=", "!mime: invalid media parameter"},
        {"a/b; x=\"open", "!mime: invalid media parameter"},
        {"a/b; x=\"open\\", "!mime: invalid media parameter"},
        {"a/b; x=y z=w", "!mime: invalid media parameter"},
        {"a/b;;", "!mime: invalid media parameter"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 16);
        str got = walk(&a, str_of(cases[i].text));
        if (!str_is(got, cases[i].want)) fail_msg("%s: %.*s", cases[i].text, STR(got));
        arena_release(&a);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(media_types_are_taken_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
