// SPDX-License-Identifier: Apache-2.0
#include "distributor/ingest_name.h"
#include "lib/test.h"

static const struct {
    const char *text;
    const char *app;     // NULL: refused
    const char *labels;  // as labels_print prints them, or the message
} cases[] = {
    {"foo", "foo", "{}"},
    {"foo{}", "foo", "{}"},
    {" foo { bar = 1 , baz = 2 } ", "foo", "{bar=\"1\", baz=\"2\"}"},
    {"foo{bar=1,baz=2}", "foo", "{bar=\"1\", baz=\"2\"}"},
    {"foo{bar=1,bar=2}", "foo", "{bar=\"2\"}"},
    {"a.b/c-d_e9{a.b=1}", "a.b/c-d_e9", "{a.b=\"1\"}"},
    {"foo{k=a\"b=c d/{}", "foo", "{k=\"a\\\"b=c d/{\"}"},
    {"foo{k=}", "foo", "{k=\"\"}"},
    {"foo{k=v,l=w", "foo", "{k=\"v\"}"},
    {"foo{k=v", "foo", "{}"},
    {"foo{k", "foo", "{}"},
    {"foo{k=v}garbage{", "foo", "{k=\"v\"}"},
    {"foo{k=v,}", "foo", "{k=\"v\"}"},
    {"foo{__name__=bar}", "bar", "{}"},
    {"", NULL, "service name is required"},
    {"  {k=v}", NULL, "service name is required"},
    {"app!{a=b}", "app!", "{a=\"b\"}"},
    {"gr\xc3\xb6\xc3\x9f", "gr\xc3\xb6\xc3\x9f", "{}"},
    {" my shop {a=b}", "my shop", "{a=\"b\"}"},
    {"https://a/b:1,2}", "https://a/b:1,2}", "{}"},
    {"app{process-description=x}", "app", "{process-description=\"x\"}"},
    {"app{a b/c:{d=e}", "app", "{a b/c:{d=\"e\"}"},
    {"a\xff", NULL, "invalid service name: \"a\\xff\": it is not UTF-8"},
    {"app{\xffz=c}", NULL, "invalid label name: \"\\xffz\": it is not UTF-8"},
    {"shop=eu", NULL, "invalid service name: shop=eu: character is not allowed: '='"},
    {"app{=c}", NULL, "label name is required"},
    {"app{a,b=c}", NULL, "invalid label name: a,b: character is not allowed: ','"},
};

static void name_is_an_application_and_labels(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        struct buf b;
        arena_init(&a, NULL, 1 << 20);
        buf_init(&b, NULL, 4096);
        struct ingest_name n = {0};
        err e = {0};
        size_t len = strlen(cases[i].text);
        str text = str_make(tail_guard(cases[i].text, len), len);
        bool ok = ingest_name_parse(&a, text, &n, &e);
        if (ok) labels_print((labels){n.labels, n.count}, &b);
        buf_byte(&b, 0);
        const char *got = ok ? b.p : e.msg;
        if (ok != (cases[i].app != NULL) || strcmp(got, cases[i].labels) != 0 ||
            (ok && !str_is(n.app, cases[i].app))) {
            fail_msg("%s: %s", cases[i].text, got);
        }
        buf_release(&b);
        arena_release(&a);
    }
}

static void name_finds_labels(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    struct ingest_name n = {0};
    assert_ok(ingest_name_parse(&a, S("x{profile_id=7}"), &n, e));
    assert_true(str_is(ingest_name_get(&n, "profile_id"), "7"));
    assert_int_equal(ingest_name_get(&n, "y").n, 0);
    arena_release(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(name_is_an_application_and_labels),
        cmocka_unit_test(name_finds_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
