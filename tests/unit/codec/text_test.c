// SPDX-License-Identifier: Apache-2.0
//
// base64, URLs and multipart bodies.
#include "codec/base64.h"
#include "codec/multipart.h"
#include "codec/url.h"
#include "lib/test.h"

static bool decode(str text, struct buf *out, err *e)
{
    size_t n = 0;
    char *at = buf_reserve(out, base64_room(text.n));
    assert_non_null(at);
    if (!base64_decode(text, at, &n, e)) return false;
    out->n += n;
    return true;
}

static void base64_both_ways(str bytes, const char *text, bool padded)
{
    struct buf b;
    buf_init(&b, NULL, 4096);
    base64_put(&b, bytes, padded);
    assert_true(str_is(buf_view(&b), text));
    buf_clear(&b);
    assert_ok(decode(str_of(text), &b, e));
    assert_true(str_eq(buf_view(&b), bytes));
    buf_release(&b);
}

static void base64_has_the_values_of_rfc_4648(void **state)
{
    (void)state;
    static const struct {
        str bytes;
        const char *padded, *bare;
    } cases[] = {
        {S_INIT(""), "", ""},
        {S_INIT("f"), "Zg==", "Zg"},
        {S_INIT("fo"), "Zm8=", "Zm8"},
        {S_INIT("foo"), "Zm9v", "Zm9v"},
        {S_INIT("foob"), "Zm9vYg==", "Zm9vYg"},
        {S_INIT("fooba"), "Zm9vYmE=", "Zm9vYmE"},
        {S_INIT("foobar"), "Zm9vYmFy", "Zm9vYmFy"},
        {S_INIT("\xff\xfe\xfb\xf0"), "//778A==", "//778A"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        base64_both_ways(cases[i].bytes, cases[i].padded, true);
        base64_both_ways(cases[i].bytes, cases[i].bare, false);
    }
    struct buf b;
    buf_init(&b, NULL, 4096);
    assert_ok(decode(S("__778A"), &b, e));
    assert_true(str_is(buf_view(&b), "\xff\xfe\xfb\xf0"));
    static const char *const bad[] = {"A",   "AAAAA", "=",    "==",   "====",  "A===",
                                      "AA=", "AA=A",  "AA?A", "AA A", "AAA\n", "Zm9v="};
    for (size_t i = 0; i < COUNT(bad); i++) {
        err why = {0};
        if (decode(str_of(bad[i]), &b, &why)) fail_msg("%s", bad[i]);
        assert_int_equal(why.code, ERR_INVALID_ARGUMENT);
    }
    buf_release(&b);
}

static void queries_give_decoded_values(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 16);
    str q = S("query=process_cpu%3Acpu%7B%7D&from=now-1h&a+b=1&empty=&flag&&from=second&bad=%zz%4&"
              "p=%2B+");
    static const struct {
        const char *key, *want;  // NULL: absent
    } cases[] = {
        {"query", "process_cpu:cpu{}"},
        {"from", "now-1h"},
        {"a b", "1"},
        {"empty", ""},
        {"flag", ""},
        {"bad", "%zz%4"},
        {"p", "+ "},
        {"none", NULL},
        {"", NULL},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        str v = {0};
        bool found = url_query(&a, q, cases[i].key, &v);
        if (found != (cases[i].want != NULL)) fail_msg("%s", cases[i].key);
        if (found && !str_is(v, cases[i].want)) fail_msg("%s: %.*s", cases[i].key, STR(v));
    }
    str key = {0};
    str v = {0};
    int n = 0;
    while (url_query_next(&a, &q, &key, &v))
        n++;
    assert_int_equal(n, 8);
    assert_true(str_is(url_decode(&a, S("a+b%20c%"), false), "a+b c%"));
    arena_release(&a);
}

static void encoding_is_undone_by_decoding(void **state)
{
    (void)state;
    char all[256];
    for (int i = 0; i < 256; i++)
        all[i] = (char)i;
    struct arena a;
    arena_init(&a, NULL, 1 << 16);
    struct buf b;
    buf_init(&b, NULL, 4096);
    url_encode(&b, str_make(all, sizeof all));
    assert_true(str_eq(url_decode(&a, buf_view(&b), true), str_make(all, sizeof all)));
    assert_true(str_eq(url_decode(&a, buf_view(&b), false), str_make(all, sizeof all)));
    buf_clear(&b);
    url_encode(&b, S("aZ09-._~ /%"));
    assert_true(str_is(buf_view(&b), "aZ09-._~%20%2F%25"));
    buf_release(&b);
    arena_release(&a);
}

static const char form[] = "multipart/form-data; boundary=XyZ";

static void multipart_bodies_are_split(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, NULL, 1 << 16);
    str body = S("a preamble\r\n"
                 "--XyZ\r\n"
                 "Content-Disposition: form-data; name=\"profile\"; filename=\"profile.pprof\"\r\n"
                 "Content-Type: application/octet-stream\r\n"
                 "\r\n"
                 "\x1f\x8b\0\r\n--Xy\r\n--XyZz\r\n"
                 "\r\n--XyZ  \r\n"
                 "content-disposition: form-data; name=plain\r\n"
                 "\r\n"
                 "\r\n--XyZ\r\n"
                 "Content-Disposition: form-data; name=\"a\\\"b\"; filename=\"\"\r\n"
                 "\r\n"
                 "--XyZ\r\n"
                 "\r\n"
                 "no header at all"
                 "\r\n--XyZ--\r\nan epilogue");
    const uint8_t *p = tail_guard(body.p, body.n);
    struct multipart_part *parts = NULL;
    size_t n = 0;
    assert_ok(multipart_parse(&a, str_of(form), str_make(p, body.n), &parts, &n, e));
    assert_int_equal(n, 4);
    assert_true(str_is(parts[0].name, "profile"));
    assert_true(str_is(parts[0].filename, "profile.pprof"));
    assert_true(parts[0].is_file);
    assert_true(str_is(parts[0].content_type, "application/octet-stream"));
    assert_true(str_eq(parts[0].bytes, S("\x1f\x8b\0\r\n--Xy\r\n--XyZz\r\n")));
    assert_true(str_is(parts[1].name, "plain"));
    assert_false(parts[1].is_file);
    assert_int_equal(parts[1].bytes.n, 0);
    assert_true(str_is(parts[2].name, "a\"b"));
    assert_true(parts[2].is_file);
    assert_int_equal(parts[2].filename.n, 0);
    assert_int_equal(parts[2].bytes.n, 0);
    assert_int_equal(parts[3].name.n, 0);
    assert_true(str_is(parts[3].bytes, "no header at all"));
    arena_release(&a);
}

static void a_boundary_with_a_nul_is_taken_whole(void **state)
{
    (void)state;
    struct arena a;
    struct multipart_part *parts = NULL;
    size_t n = 0;
    arena_init(&a, NULL, 1 << 16);
    assert_ok(multipart_parse(&a, S("multipart/form-data; boundary=\"X\0Y\""),
                              S("--X\0Y\r\n\r\nx\r\n--X\r\n--X\0Y--"), &parts, &n, e));
    assert_int_equal(n, 1);
    assert_true(str_is(parts[0].bytes, "x\r\n--X"));
    arena_release(&a);
}

static void boundaries_are_found_in_all_spellings(void **state)
{
    (void)state;
    static const struct {
        const char *type;
        bool good;
    } cases[] = {
        {"multipart/form-data; boundary=XyZ", true},
        {"Multipart/Form-Data;boundary=\"XyZ\"", true},
        {"multipart/form-data; charset=utf-8; Boundary = XyZ ;", true},
        {"multipart/form-data; x=\"a;b\\\"\"; boundary=XyZ", true},
        {"multipart/form-data", false},
        {"multipart/form-data; boundary=", false},
        {"multipart/form-data; boundary=\"XyZ", false},
        {"multipart/form-data; boundary", false},
        {"multipart/form-data boundary=XyZ", false},
        {"multipart/mixed; boundary=XyZ", false},
        {"text/plain", false},
        {"", false},
        {"multipart/form-data; boundary="
         "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
         false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 16);
        struct multipart_part *parts = NULL;
        size_t n = 0;
        err e = {0};
        bool ok = multipart_parse(&a, str_of(cases[i].type), S("--XyZ\r\n\r\nx\r\n--XyZ--"), &parts,
                                  &n, &e);
        if (ok != cases[i].good) fail_msg("%s: %s", cases[i].type, e.msg);
        if (!ok) assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        arena_release(&a);
    }
}

static void broken_bodies_are_refused(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "--XyZ",
        "--XyZ\r\n",
        "--XyZ\r\n\r\nx",
        "--XyZ\r\n\r\nx\r\n--XyZ",
        "--XyZ\r\n\r\nx\r\n--XyZ\r\n",
        "--XyZ\r\nno colon\r\n\r\nx\r\n--XyZ--",
        "--XyZ\r\n: empty\r\n\r\nx\r\n--XyZ--",
        "--XyZ\r\nContent-Disposition: form-data; name=\"open\r\n\r\nx\r\n--XyZ--",
        "--XyZ\r\nContent-Disposition: form-data; name\r\n\r\nx\r\n--XyZ--",
        "--other\r\n\r\nx\r\n--other--",
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct arena a;
        arena_init(&a, NULL, 1 << 16);
        struct multipart_part *parts = NULL;
        size_t n = 0;
        err e = {0};
        const uint8_t *p = tail_guard(cases[i], strlen(cases[i]));
        if (multipart_parse(&a, str_of(form), str_make(p, strlen(cases[i])), &parts, &n, &e)) {
            fail_msg("%s", cases[i]);
        }
        assert_int_equal(e.code, ERR_INVALID_ARGUMENT);
        arena_release(&a);
    }
}

static void the_number_of_parts_is_limited(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    for (int i = 0; i < MULTIPART_PARTS_MAX + 1; i++)
        buf_z(&b, "--XyZ\r\n\r\n\r\n");
    buf_z(&b, "--XyZ--");
    struct arena a;
    arena_init(&a, NULL, 1 << 16);
    struct multipart_part *parts = NULL;
    size_t n = 0;
    err why = {0};
    assert_false(multipart_parse(&a, str_of(form), buf_view(&b), &parts, &n, &why));
    assert_string_equal(why.msg, "multipart body: too many parts");
    assert_ok(multipart_parse(&a, str_of(form), str_slice(buf_view(&b), 11, b.n), &parts, &n, e));
    assert_int_equal(n, MULTIPART_PARTS_MAX);
    arena_release(&a);
    arena_init(&a, NULL, 200);
    assert_false(
        multipart_parse(&a, str_of(form), str_slice(buf_view(&b), 11, b.n), &parts, &n, &why));
    assert_int_equal(why.code, ERR_RESOURCE_EXHAUSTED);
    arena_release(&a);
    buf_release(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(base64_has_the_values_of_rfc_4648),
        cmocka_unit_test(queries_give_decoded_values),
        cmocka_unit_test(encoding_is_undone_by_decoding),
        cmocka_unit_test(multipart_bodies_are_split),
        cmocka_unit_test(a_boundary_with_a_nul_is_taken_whole),
        cmocka_unit_test(boundaries_are_found_in_all_spellings),
        cmocka_unit_test(broken_bodies_are_refused),
        cmocka_unit_test(the_number_of_parts_is_limited),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
