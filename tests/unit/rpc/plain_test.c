// SPDX-License-Identifier: Apache-2.0
//
// Plain routes: which row answers, bodies, compression, errors.
#include "codec/compress.h"
#include "lib/echo.h"
#include "lib/exchange.h"
#include "lib/test.h"

static struct router *router;
static struct server_app app;

static int begin(void **state)
{
    (void)state;
    router = echo_router(true);
    app = router_app(router);
    return 0;
}

static int end(void **state)
{
    (void)state;
    router_free(router);
    return 0;
}

static struct http_exchange *get(const char *path, const char *query, const char *headers)
{
    struct ask a = {.method = "GET", .path = path, .headers = headers};
    struct http_exchange *x = exchange_ask(&a);
    x->query = str_of(query);
    if (app.head(app.self, x) == HEAD_READ_BODY) app.run(app.self, x);
    return x;
}

static struct http_exchange *post(const char *path, const char *headers, str body)
{
    struct ask a = {.path = path, .headers = headers, .body = body};
    return exchange_run(&app, &a);
}

static void expect(struct http_exchange *x, unsigned status, const char *body)
{
    if (x->status != status || !str_is(exchange_reply(x), body)) {
        fail_msg("%u %.*s, want %u %s", x->status, STR(exchange_reply(x)), status, body);
    }
}

static void paths_and_verbs_find_their_row(void **state)
{
    (void)state;
    static const struct {
        const char *verb, *path;
        unsigned status;
        const char *body;
    } cases[] = {
        {"GET", "/text", 200, "xxx"},
        {"HEAD", "/text", 200, "xxx"},
        {"POST", "/text", 405, ""},
        {"GET", "/text/", 404, "404 page not found\n"},
        {"GET", "/tex", 404, "404 page not found\n"},
        {"GET", "/t%65xt", 200, "xxx"},
        {"GET", "/no/such/path", 404, "404 page not found\n"},
        {"GET", "", 404, "404 page not found\n"},
        {"GET", "/upload", 405, ""},
        {"PUT", "/upload", 200, "xxx"},
        {"GET", "/static/a.js", 200, "xxx"},
        {"GET", "/static/", 200, "xxx"},
        {"GET", "/static", 404, "404 page not found\n"},
        {"POST", "/static/a.js", 405, ""},
        {"GET", "/static/own/a", 500,
         "{\"code\":\"unknown\",\"message\":\"broken \\\"thing\\\"\"}\n"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ask a = {.method = cases[i].verb, .path = cases[i].path};
        struct http_exchange *x = exchange_run(&app, &a);
        if (x->status != cases[i].status || !str_is(exchange_reply(x), cases[i].body)) {
            fail_msg("%s %s: %u %.*s", cases[i].verb, cases[i].path, x->status,
                     STR(exchange_reply(x)));
        }
        exchange_free(x);
    }
}

static void a_path_may_have_both_kinds_of_rows(void **state)
{
    (void)state;
    struct http_exchange *x = post("/both", "content-type: application/json\n", S("{}"));
    expect(x, 200, "{}");
    exchange_free(x);
    struct ask a = {.path = "/both",
                    .headers = "content-type: application/grpc\n",
                    .body = S("\0\0\0\0\0"),
                    .version = 20};
    x = exchange_run(&app, &a);
    assert_true(str_is(http_headers_get(&x->trailers, "grpc-status"), "0"));
    exchange_free(x);
}

static void large_answers_are_compressed_for_who_asks(void **state)
{
    (void)state;
    static const struct {
        const char *path, *query, *accept;
        bool packed;
    } cases[] = {
        {"/text", "1400", "gzip", true},
        {"/text", "1399", "gzip", false},
        {"/text", "5000", "deflate, gzip;q=1.0, *;q=0.5", true},
        {"/text", "5000", "gzip;q=0", false},
        {"/text", "5000", "gzip; q=0.000", false},
        {"/text", "5000", "GZIP ; q=0.1", true},
        {"/text", "5000", "br", false},
        {"/text", "5000", "", false},
        {"/packed", "5000", "gzip", false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char headers[100];
        snprintf(headers, sizeof headers, "accept-encoding: %s\n", cases[i].accept);
        struct http_exchange *x = get(cases[i].path, cases[i].query, headers);
        assert_int_equal(x->status, 200);
        str how = http_headers_get(&x->answer_headers, "content-encoding");
        if (str_is(how, "gzip") != cases[i].packed) fail_msg("%s", cases[i].accept);
        bool varies = strcmp(cases[i].path, "/packed") != 0;
        assert_true(
            str_is(http_headers_get(&x->answer_headers, "vary"), varies ? "Accept-Encoding" : ""));
        assert_true(str_is(http_headers_get(&x->answer_headers, "content-type"), "text/plain"));
        exchange_free(x);
    }
}

static void fixed_bytes_are_compressed_too(void **state)
{
    (void)state;
    char body[3000];
    memset(body, 'q', sizeof body);
    struct http_exchange *x =
        post("/upload", "x-scope-orgid: a\naccept-encoding: gzip\n", str_make(body, sizeof body));
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    assert_ok(compress_gunzip(exchange_reply(x), &b, e));
    assert_true(str_eq(buf_view(&b), str_make(body, sizeof body)));
    buf_release(&b);
    exchange_free(x);
}

static void bodies_are_inflated(void **state)
{
    (void)state;
    struct buf gz;
    struct buf zst;
    buf_init(&gz, NULL, 1 << 20);
    buf_init(&zst, NULL, 1 << 20);
    assert_ok(compress_gzip(S("some text"), 6, &gz, e));
    assert_ok(compress_zstd(S("some text"), 3, &zst, e));
    const struct {
        const char *name, *path, *encoding;
        str body;
        str want;
    } cases[] = {
        {"gzip", "/upload", "gzip", buf_view(&gz), S("some text")},
        {"zstd", "/upload", "zstd", buf_view(&zst), S("some text")},
        {"said but not done", "/upload", "gzip", S("plain"), S("plain")},
        {"not said", "/upload", "", buf_view(&gz), buf_view(&gz)},
        {"another name of it", "/upload", "x-gzip", buf_view(&gz), S("some text")},
        {"what is no compression passes", "/upload", "utf-8", S("plain"), S("plain")},
        {"the handler wants it raw", "/raw", "gzip", buf_view(&gz), buf_view(&gz)},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char headers[100];
        snprintf(headers, sizeof headers, "x-scope-orgid: a\ncontent-encoding: %s\n",
                 cases[i].encoding);
        struct http_exchange *x = post(cases[i].path, headers, cases[i].body);
        assert_int_equal(x->status, 200);
        if (!str_eq(exchange_reply(x), cases[i].want)) fail_msg("%s", cases[i].name);
        exchange_free(x);
    }
    static const char *const others[] = {"br", "deflate", "Snappy", "gzip, gzip", "identity,zlib"};
    for (size_t i = 0; i < COUNT(others); i++) {
        char headers[100];
        char want[200];
        snprintf(headers, sizeof headers, "x-scope-orgid: a\ncontent-encoding: %s\n", others[i]);
        snprintf(want, sizeof want,
                 "{\"code\":\"unimplemented\",\"message\":\"unknown compression \\\"%s\\\": "
                 "supported encodings are gzip,zstd\"}\n",
                 others[i]);
        struct http_exchange *x = post("/upload", headers, S("plain"));
        expect(x, 501, want);
        exchange_free(x);
    }
    gz.p[gz.n - 5] ^= 1;
    struct http_exchange *x =
        post("/upload", "x-scope-orgid: a\ncontent-encoding: gzip\n", buf_view(&gz));
    expect(x, 400, "{\"code\":\"invalid_argument\",\"message\":\"gzip data is damaged\"}\n");
    exchange_free(x);
    buf_release(&gz);
    buf_release(&zst);
}

static void bodies_over_the_limit_are_413(void **state)
{
    (void)state;
    char *zeros = calloc(1, 6000);
    struct http_exchange *x = post("/upload", "x-scope-orgid: a\n", str_make(zeros, 5001));
    expect(x, 413,
           "{\"code\":\"invalid_argument\",\"message\":\"request body too large: body is 5001 "
           "bytes, limit 5000\"}\n");
    exchange_free(x);
    struct buf gz;
    buf_init(&gz, NULL, 1 << 20);
    assert_ok(compress_gzip(str_make(zeros, 5001), 6, &gz, e));
    x = post("/upload", "x-scope-orgid: a\ncontent-encoding: gzip\n", buf_view(&gz));
    expect(x, 413,
           "{\"code\":\"invalid_argument\",\"message\":\"request body too large: decompressed data "
           "is larger than 5000 bytes\"}\n");
    exchange_free(x);

    // short memory is not the client's fault
    struct mem_budget little;
    mem_budget_init(&little, "bodies", NULL, 3000);
    struct ask a = {.path = "/upload",
                    .headers = "x-scope-orgid: a\ncontent-encoding: gzip\n",
                    .memory = 2000};
    x = exchange_ask(&a);
    assert_int_equal(app.head(app.self, x), HEAD_READ_BODY);
    buf_init(&x->body, &little, 5000);
    buf_str(&x->body, buf_view(&gz));
    app.run(app.self, x);
    assert_int_equal(x->status, 429);
    exchange_free(x);
    assert_int_equal(little.used, 0);
    buf_release(&gz);
    free(zeros);
}

static void errors_are_json_with_a_line_end(void **state)
{
    (void)state;
    static const struct {
        const char *query;
        unsigned status;
        const char *body;
    } cases[] = {
        {"not_found", 404, "{\"code\":\"not_found\",\"message\":\"broken \\\"thing\\\"\"}\n"},
        {"canceled", 499,
         "{\"code\":\"canceled\",\"message\":\"the request was cancelled by the client\"}\n"},
        {"deadline_exceeded", 504,
         "{\"code\":\"deadline_exceeded\",\"message\":\"request timed out, decrease the duration "
         "of "
         "the request or add more label matchers (prefer exact match over regex match) to reduce "
         "the amount of data processed\"}\n"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct http_exchange *x = get("/fail", cases[i].query, "");
        expect(x, cases[i].status, cases[i].body);
        assert_true(
            str_is(http_headers_get(&x->answer_headers, "content-type"), "application/json"));
        assert_true(
            str_is(http_headers_get(&x->answer_headers, "x-content-type-options"), "nosniff"));
        exchange_free(x);
    }
    struct http_exchange *x = post("/upload", "", (str){0});
    expect(x, 401, "{\"code\":\"unauthenticated\",\"message\":\"no org id\"}\n");
    exchange_free(x);
    x = post("/upload", "x-scope-orgid: a|b\n", (str){0});
    expect(x, 401, "{\"code\":\"unauthenticated\",\"message\":\"multiple org IDs present\"}\n");
    exchange_free(x);
    x = get("/text", "2000000", "");
    expect(
        x, 429,
        "{\"code\":\"resource_exhausted\",\"message\":\"output needs more than its 1048576 bytes "
        "(1048576 written)\"}\n");
    exchange_free(x);
}

static void accept_headers_are_read_and_checked(void **state)
{
    (void)state;
    static const struct {
        const char *headers;
        unsigned status;
        bool utf8;
    } cases[] = {
        {"", 200, false},
        {"accept: \n", 200, false},
        {"accept: */*\n", 200, false},
        {"accept: */*; allow-utf8-labelnames=true\n", 200, true},
        {"accept: */*;Allow-UTF8-LabelNames=\"true\"\n", 200, true},
        {"accept: */*; allow-utf8-labelnames=false\n", 200, false},
        {"accept: text/html, */*;q=0.5;allow-utf8-labelnames=true\n", 200, true},
        {"accept: text/html\naccept: a/b;allow-utf8-labelnames=true\n", 200, true},
        {"accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\n", 200, false},
        {"accept: ,, text/html ,\n", 200, false},
        {"accept: invalid/mime/type/format\n", 400, false},
        {"accept: text/html, /\n", 400, false},
        {"accept: text/html; q\n", 400, false},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct http_exchange *x = get("/text", "", cases[i].headers);
        if (x->status != cases[i].status) fail_msg("%s: %u", cases[i].headers, x->status);
        if (route_wants_utf8_names(x) != cases[i].utf8) fail_msg("%s", cases[i].headers);
        if (x->status == 400) {
            assert_true(str_starts(exchange_reply(x), S("Invalid header format: mime: ")));
        }
        exchange_free(x);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(paths_and_verbs_find_their_row),
        cmocka_unit_test(a_path_may_have_both_kinds_of_rows),
        cmocka_unit_test(large_answers_are_compressed_for_who_asks),
        cmocka_unit_test(fixed_bytes_are_compressed_too),
        cmocka_unit_test(bodies_are_inflated),
        cmocka_unit_test(bodies_over_the_limit_are_413),
        cmocka_unit_test(errors_are_json_with_a_line_end),
        cmocka_unit_test(accept_headers_are_read_and_checked),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
