// SPDX-License-Identifier: Apache-2.0
//
// Connect, gRPC and gRPC-Web over one method table.
#include "codec/compress.h"
#include "lib/echo.h"
#include "lib/exchange.h"
#include "lib/test.h"
#include "rpc/peer.h"
#include "rpc/route.h"
#include "sys/clock.h"

#define JSON "content-type: application/json\n"
#define BIN  "content-type: application/proto\n"
#define WEB  "content-type: application/grpc-web+proto\n"
#define GRPC "content-type: application/grpc\nte: trailers\n"

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

static struct http_exchange *ask(const char *path, const char *headers, str body)
{
    struct ask a = {.path = path, .headers = headers, .body = body};
    return exchange_run(&app, &a);
}

static struct http_exchange *ask_h2(const char *path, const char *headers, str body)
{
    struct ask a = {.path = path, .headers = headers, .body = body, .version = 20};
    return exchange_run(&app, &a);
}

static void expect_body(struct http_exchange *x, unsigned status, const char *body)
{
    if (x->status != status || !str_is(exchange_reply(x), body)) {
        fail_msg("%u %.*s, want %u %s", x->status, STR(exchange_reply(x)), status, body);
    }
}

static void expect_header(const struct http_exchange *x, const char *name, const char *value)
{
    str got = http_headers_get(&x->answer_headers, name);
    if (!str_is(got, value)) fail_msg("%s: %.*s, want %s", name, STR(got), value);
}

static str gzip(struct http_exchange *owner, str plain)
{
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    err e = {0};
    assert_true(compress_gzip(plain, 6, &b, &e));
    str copy = arena_str(&owner->req.arena, buf_view(&b));
    buf_release(&b);
    return copy;
}

static str gunzip(struct http_exchange *x, str packed)
{
    struct buf b;
    buf_init(&b, NULL, 1 << 20);
    err e = {0};
    if (!compress_gunzip(packed, &b, &e)) fail_msg("%s", e.msg);
    str copy = arena_str(&x->req.arena, buf_view(&b));
    buf_release(&b);
    return copy;
}

static void content_types_choose_the_protocol_and_are_echoed(void **state)
{
    (void)state;
    static const struct {
        const char *sent;
        str body;
        const char *answered;
        const char *body_begins;
    } cases[] = {
        {"application/proto", S_INIT(""), "application/proto", "\x08\x01"},
        {"application/json", S_INIT("{}"), "application/json", "{\"QuerierAPI\":\"1\"}"},
        {"Application/JSON;charset=UTF-8", S_INIT("{}"), "application/json; charset=utf-8", "{"},
        {"application/grpc-web", S_INIT("\0\0\0\0\0"), "application/grpc-web", ""},
        {"application/grpc-web+proto", S_INIT("\0\0\0\0\0"), "application/grpc-web+proto", ""},
        {"application/grpc-web+json", S_INIT("\0\0\0\0\2{}"), "application/grpc-web+json", ""},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char headers[200];
        snprintf(headers, sizeof headers, "content-type: %s\n", cases[i].sent);
        struct http_exchange *x = ask("/t.v1.Echo/Version", headers, cases[i].body);
        assert_int_equal(x->status, 200);
        expect_header(x, "content-type", cases[i].answered);
        assert_true(str_starts(exchange_reply(x), str_of(cases[i].body_begins)));
        exchange_free(x);
    }
}

static void other_content_types_are_told_what_is_accepted(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "content-type: text/plain\n",
        "content-type: application/x-protobuf\n",
        "content-type: application/json; charset=latin1\n",
        "content-type: application/json; charset=utf-8; x=y\n",
        "content-type: application/proto; charset=utf-8\n",
        "content-type: application/grpc-web-text\n",
        "content-type: application/json; charset\n",
        "content-type: /\n",
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct http_exchange *x = ask("/t.v1.Echo/Version", cases[i], S("{}"));
        if (x->status != 415) fail_msg("%s: %u", cases[i], x->status);
        assert_int_equal(exchange_reply(x).n, 0);
        str list = http_headers_get(&x->answer_headers, "accept-post");
        str before = {0};
        int n = 0;
        for (str rest = list; rest.n > 0; n++) {
            str one = str_trim(str_split(rest, ',', &rest));
            assert_true(str_cmp(before, one) < 0);  // sorted
            before = one;
        }
        assert_int_equal(n, 11);
        exchange_free(x);
    }
}

static void only_post_reaches_a_method(void **state)
{
    (void)state;
    static const char *const verbs[] = {"GET", "PUT", "DELETE", "PATCH", "OPTIONS", "HEAD"};
    for (size_t i = 0; i < COUNT(verbs); i++) {
        struct ask a = {.method = verbs[i], .path = "/t.v1.Echo/Version", .headers = JSON};
        struct http_exchange *x = exchange_run(&app, &a);
        expect_body(x, 405, "");
        expect_header(x, "allow", "POST");
        exchange_free(x);
    }
    struct http_exchange *x = ask("/t.v1.Echo/Nope", JSON, S("{}"));
    expect_body(x, 404, "404 page not found\n");
    exchange_free(x);
}

static void connect_heads_are_checked(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        unsigned status;
        const char *body;
    } cases[] = {
        {"connect-protocol-version: 1\n", 200, "{\"QuerierAPI\":\"1\"}"},
        {"connect-protocol-version: 2\n", 400,
         "{\"code\":\"invalid_argument\",\"message\":\"Connect-Protocol-Version must be \\\"1\\\": "
         "got \\\"2\\\"\"}"},
        {"connect-timeout-ms: 10000\n", 200, "{\"QuerierAPI\":\"1\"}"},
        {"connect-timeout-ms: 12345678901\n", 400,
         "{\"code\":\"invalid_argument\",\"message\":\"parse timeout: \\\"12345678901\\\" has >10 "
         "digits\"}"},
        {"connect-timeout-ms: soon\n", 400,
         "{\"code\":\"invalid_argument\",\"message\":\"parse timeout: \\\"soon\\\" is not a "
         "number\"}"},
        {"content-encoding: identity\n", 200, "{\"QuerierAPI\":\"1\"}"},
        {"content-encoding: br\n", 501,
         "{\"code\":\"unimplemented\",\"message\":\"unknown compression \\\"br\\\": supported "
         "encodings are gzip,zstd\"}"},
        {"accept: invalid/mime/type/format\n", 400,
         "Invalid header format: mime: unexpected content after media subtype\n"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char headers[300];
        snprintf(headers, sizeof headers, JSON "%s", cases[i].header);
        struct http_exchange *x = ask("/t.v1.Echo/Version", headers, S("{}"));
        expect_body(x, cases[i].status, cases[i].body);
        exchange_free(x);
    }
}

static void timeouts_only_make_deadlines_earlier(void **state)
{
    (void)state;
    static const struct {
        const char *headers;
        uint64_t ns;  // 0: none
    } cases[] = {
        {JSON "connect-timeout-ms: 5000\n", 5000000000},
        {JSON "connect-timeout-ms: -5\n", 1},
        {JSON, 0},
        {WEB "grpc-timeout: 5S\n", 5000000000},
        {WEB "grpc-timeout: 90M\n", 90 * 60000000000u},
        {WEB "grpc-timeout: 99999999H\n", 0},
        {WEB "grpc-timeout: 250m\n", 250000000},
        {WEB "grpc-timeout: 99999999n\n", 99999999},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct ask a = {.path = "/t.v1.Echo/Version", .headers = cases[i].headers};
        struct http_exchange *x = exchange_ask(&a);
        uint64_t before = clock_mono_ns();
        assert_int_equal(app.head(app.self, x), HEAD_READ_BODY);
        uint64_t after = clock_mono_ns();
        uint64_t at = x->req.deadline_mono_ns;
        if (cases[i].ns == 0) {
            assert_int_equal(at, 0);
        } else if (cases[i].ns == 1) {
            assert_true(at >= before && at <= after);
        } else {
            assert_true(at >= before + cases[i].ns && at <= after + cases[i].ns);
        }
        x->req.deadline_mono_ns = 1;
        assert_int_equal(app.head(app.self, x), HEAD_READ_BODY);
        assert_int_equal(x->req.deadline_mono_ns, 1);
        exchange_free(x);
    }
    static const char *const bad[] = {"5", "S", "123456789S", "5s", "-5S", "5 S"};
    for (size_t i = 0; i < COUNT(bad); i++) {
        char headers[100];
        snprintf(headers, sizeof headers, WEB "grpc-timeout: %s\n", bad[i]);
        struct http_exchange *x = ask("/t.v1.Echo/Version", headers, S("\0\0\0\0\0"));
        if (!str_is(http_headers_get(&x->answer_headers, "grpc-status"), "3")) {
            fail_msg("%s", bad[i]);
        }
        exchange_free(x);
    }
}

static void connect_answers_have_their_headers(void **state)
{
    (void)state;
    struct http_exchange *x = ask("/t.v1.Echo/Names", JSON "x-scope-orgid: b|a\n",
                                  S("{\"matchers\":[\"x\",\"\\u00e9\"]}"));
    expect_body(x, 200, "{\"names\":[\"a|b\",\"x\",\"\xc3\xa9\"]}");
    expect_header(x, "content-type", "application/json");
    expect_header(x, "accept-encoding", "gzip,zstd");
    expect_header(x, "content-encoding", "");
    assert_true(str_is(x->req.log.tenant, "a|b"));
    exchange_free(x);

    x = ask("/t.v1.Echo/Names", BIN "x-scope-orgid: a\n", S("\x0a\x01z"));
    expect_body(x, 200,
                "\x0a\x01"
                "a\x0a\x01z");
    exchange_free(x);
}

static void connect_speaks_gzip_both_ways_and_reads_zstd(void **state)
{
    (void)state;
    struct http_exchange *x = NULL;
    static const char *const accepts[] = {"gzip", "gzip, deflate, br", "br gzip", "br,gzip"};
    for (size_t i = 0; i < COUNT(accepts); i++) {
        char headers[100];
        snprintf(headers, sizeof headers, BIN "accept-encoding: %s\n", accepts[i]);
        x = ask("/t.v1.Echo/Push", headers, (str){0});
        assert_int_equal(x->status, 401);  // errors are never compressed
        expect_header(x, "content-encoding", "");
        exchange_free(x);
        x = ask("/t.v1.Echo/Version", headers, (str){0});
        expect_header(x, "content-encoding", "gzip");
        assert_true(str_is(gunzip(x, exchange_reply(x)), "\x08\x01"));
        exchange_free(x);
    }
    x = ask("/t.v1.Echo/Push", BIN "accept-encoding: gzip\nx-scope-orgid: a\n", (str){0});
    expect_header(x, "content-encoding", "gzip");  // even an empty message
    assert_int_equal(gunzip(x, exchange_reply(x)).n, 0);
    exchange_free(x);
    x = ask("/t.v1.Echo/Version", BIN "accept-encoding: gzip;q=1.0, br\n", (str){0});
    expect_header(x, "content-encoding", "");
    exchange_free(x);

    struct http_exchange owner = {0};
    arena_init(&owner.req.arena, NULL, 1 << 20);
    str packed = gzip(&owner, S("{\"matchers\":[\"y\"]}"));
    x = ask("/t.v1.Echo/Names", JSON "content-encoding: gzip\nx-scope-orgid: t\n", packed);
    expect_body(x, 200, "{\"names\":[\"t\",\"y\"]}");
    exchange_free(x);
    arena_release(&owner.req.arena);
    struct buf z;
    buf_init(&z, NULL, 1 << 20);
    assert_ok(compress_zstd(S("{\"matchers\":[\"y\"]}"), 3, &z, e));
    x = ask("/t.v1.Echo/Names", JSON "content-encoding: zstd\nx-scope-orgid: t\n", buf_view(&z));
    expect_body(x, 200, "{\"names\":[\"t\",\"y\"]}");
    exchange_free(x);
    buf_release(&z);
}

static void malformed_messages_are_invalid_arguments(void **state)
{
    (void)state;
    static const struct {
        const char *headers;
        str body;
        const char *message;
    } cases[] = {
        {JSON, S_INIT(""), "unmarshal message: zero-length payload is not a valid JSON object"},
        {JSON, S_INIT("{"),
         "unmarshal message: syntax error at byte 1: unexpected end of the text"},
        {JSON, S_INIT("{\"start\":\"now\"}"),
         "unmarshal message: invalid value for field start: not an int64"},
        {BIN, S_INIT("\x0a\x05x"),
         "unmarshal message: types.v1.LabelNamesRequest: protobuf: a length reaches past the end"},
        {BIN, S_INIT("\x0a\x01\xff"),
         "unmarshal message: protobuf: types.v1.LabelNamesRequest.matchers: a string is not valid "
         "UTF-8"},
        {BIN "content-encoding: gzip\n", S_INIT("plain"), "get decompressor: gzip: invalid header"},
        {BIN "content-encoding: gzip\n", S_INIT("\x1f\x8b\x08 cut"),
         "decompress: gzip data is damaged"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct http_exchange *x = ask("/t.v1.Echo/Fail", cases[i].headers, cases[i].body);
        char want[300];
        snprintf(want, sizeof want, "{\"code\":\"invalid_argument\",\"message\":\"%s\"}",
                 cases[i].message);
        expect_body(x, 400, want);
        expect_header(x, "content-type", "application/json");
        exchange_free(x);
    }
}

static void sizes_are_limited_on_the_wire_and_inflated(void **state)
{
    (void)state;
    char *zeros = calloc(1, 6000);
    struct http_exchange *x =
        ask("/t.v1.Echo/Version", BIN "content-length: 1001\n", str_make(zeros, 1001));
    expect_body(x, 429,
                "{\"code\":\"resource_exhausted\",\"message\":\"message size 1001 is larger than "
                "configured max 1000\"}");
    exchange_free(x);
    x = ask("/t.v1.Echo/Push", BIN "x-scope-orgid: a\n", str_make(zeros, 5001));  // chunked
    expect_body(x, 429,
                "{\"code\":\"resource_exhausted\",\"message\":\"body is 5001 bytes, limit 5000\"}");
    exchange_free(x);

    struct http_exchange owner = {0};
    arena_init(&owner.req.arena, NULL, 1 << 20);
    str packed = gzip(&owner, str_make(zeros, 5001));
    x = ask("/t.v1.Echo/Push", BIN "content-encoding: gzip\nx-scope-orgid: a\n", packed);
    expect_body(x, 429,
                "{\"code\":\"resource_exhausted\",\"message\":\"message size is larger than "
                "configured max 5000\"}");
    exchange_free(x);
    arena_release(&owner.req.arena);

    char envelope[1100] = {0, 0, 0, 4, 0};
    x = ask("/t.v1.Echo/Version", WEB, str_make(envelope, 6));
    expect_header(x, "grpc-status", "8");
    expect_header(x, "grpc-message", "message size 1024 is larger than configured max 1000");
    exchange_free(x);
    x = ask_h2("/t.v1.Echo/Version", GRPC "content-length: 1100\n", str_make(envelope, 1100));
    assert_true(str_is(http_headers_get(&x->trailers, "grpc-status"), "8"));
    exchange_free(x);
    free(zeros);
}

static void errors_have_every_protocols_form(void **state)
{
    (void)state;
    struct http_exchange *x =
        ask("/t.v1.Echo/Fail", JSON, S("{\"matchers\":[\"already_exists\"]}"));
    expect_body(x, 409,
                "{\"code\":\"already_exists\",\"message\":\"100% \\\"wrong\\\"\\n\xc3\xa9\"}");
    expect_header(x, "content-type", "application/json");
    exchange_free(x);

    str body = S("\0\0\0\0\x10\x0a\x0e"
                 "already_exists");
    x = ask("/t.v1.Echo/Fail", WEB "grpc-accept-encoding: gzip\n", body);
    expect_body(x, 200, "");
    expect_header(x, "content-type", "application/grpc-web+proto");
    expect_header(x, "grpc-status", "6");
    expect_header(x, "grpc-message", "100%25 \"wrong\"%0A%C3%A9");
    expect_header(x, "grpc-encoding", "");
    exchange_free(x);

    x = ask_h2("/t.v1.Echo/Fail", GRPC, body);
    expect_body(x, 200, "");
    expect_header(x, "grpc-status", "");
    assert_true(str_is(http_headers_get(&x->trailers, "grpc-status"), "6"));
    assert_true(
        str_is(http_headers_get(&x->trailers, "grpc-message"), "100%25 \"wrong\"%0A%C3%A9"));
    exchange_free(x);
}

// google.rpc.Status with a RetryInfo of one second, for what may succeed a little later.
static void what_may_come_again_says_when(void **state)
{
    (void)state;
    static const struct {
        str body;
        const char *details;
    } cases[] = {
        {S_INIT("\0\0\0\0\x14\x0a\x12"
                "resource_exhausted"),
         "CAgSDzEwMCUgIndyb25nIgrDqRowCih0eXBlLmdvb2dsZWFwaXMuY29tL2dvb2dsZS5ycGMuUmV0cnlJbmZvEgQKA"
         "ggB"},
        {S_INIT("\0\0\0\0\x0d\x0a\x0b"
                "unavailable"),
         "CA4SDzEwMCUgIndyb25nIgrDqRowCih0eXBlLmdvb2dsZWFwaXMuY29tL2dvb2dsZS5ycGMuUmV0cnlJbmZvEgQKA"
         "ggB"},
        {S_INIT("\0\0\0\0\x10\x0a\x0e"
                "already_exists"),
         ""},
        {S_INIT("\0\0\0\x7f\xff"), ""},  // refused for its size
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct http_exchange *x = ask("/t.v1.Echo/Fail", WEB, cases[i].body);
        expect_header(x, "grpc-status-details-bin", cases[i].details);
        exchange_free(x);
        x = ask_h2("/t.v1.Echo/Fail", GRPC, cases[i].body);
        expect_header(x, "grpc-status-details-bin", "");
        assert_string_equal(arena_printf(&x->req.arena, "%.*s",
                                         STR(http_headers_get(&x->trailers,
                                                              "grpc-status-details-bin")))
                                .p,
                            cases[i].details);
        exchange_free(x);
    }
}

static void every_code_has_its_status(void **state)
{
    (void)state;
    for (int code = 1; code <= 16; code++) {
        char body[100];
        snprintf(body, sizeof body, "{\"matchers\":[\"%s\"]}", err_name((enum err_code)code));
        struct http_exchange *x = ask("/t.v1.Echo/Fail", JSON, str_of(body));
        assert_int_equal(x->status, err_http_status((enum err_code)code));
        snprintf(body, sizeof body, "{\"code\":\"%s\"", err_name((enum err_code)code));
        assert_true(str_starts(exchange_reply(x), str_of(body)));
        exchange_free(x);
    }
}

static void grpc_answers_an_envelope_and_trailers(void **state)
{
    (void)state;
    struct http_exchange *x = ask_h2("/t.v1.Echo/Version", GRPC, S("\0\0\0\0\0"));
    assert_int_equal(x->status, 200);
    assert_true(str_eq(exchange_reply(x), S("\0\0\0\0\x02\x08\x01")));
    expect_header(x, "content-type", "application/grpc");
    expect_header(x, "grpc-accept-encoding", "gzip,zstd");
    expect_header(x, "grpc-encoding", "");
    assert_int_equal(x->trailers.n, 1);
    assert_true(str_is(http_headers_get(&x->trailers, "grpc-status"), "0"));
    exchange_free(x);

    x = ask_h2("/t.v1.Echo/Version", GRPC "grpc-accept-encoding: identity,gzip\n", S("\0\0\0\0\0"));
    expect_header(x, "grpc-encoding", "gzip");
    str out = exchange_reply(x);
    assert_int_equal(out.p[0], 1);
    assert_int_equal((unsigned char)out.p[4], out.n - 5);
    assert_true(str_is(gunzip(x, str_slice(out, 5, out.n)), "\x08\x01"));
    exchange_free(x);

    // A message may be compressed by either of the names in grpc-accept-encoding.
    struct buf z;
    buf_init(&z, NULL, 1 << 20);
    buf_put(&z, "\1\0\0\0\0", 5);
    assert_ok(compress_zstd(S("\x0a\x01y"), 3, &z, e));
    z.p[4] = (char)(z.n - 5);
    x = ask_h2("/t.v1.Echo/Names", GRPC "grpc-encoding: zstd\nx-scope-orgid: t\n", buf_view(&z));
    assert_true(str_eq(exchange_reply(x), S("\0\0\0\0\x06\x0a\x01t\x0a\x01y")));
    exchange_free(x);
    buf_release(&z);

    // Over HTTP/1.1 too, whose trailers follow the last chunk.
    x = ask("/t.v1.Echo/Version", GRPC, S("\0\0\0\0\0"));
    assert_int_equal(x->status, 200);
    assert_true(str_is(http_headers_get(&x->trailers, "grpc-status"), "0"));
    exchange_free(x);
}

static void grpc_web_puts_trailers_into_the_body(void **state)
{
    (void)state;
    struct http_exchange *x = ask("/t.v1.Echo/Version", WEB, S("\0\0\0\0\0"));
    assert_true(
        str_eq(exchange_reply(x), S("\0\0\0\0\x02\x08\x01\x80\0\0\0\x10grpc-status: 0\r\n")));
    assert_int_equal(x->trailers.n, 0);
    exchange_free(x);

    x = ask("/t.v1.Echo/Version", WEB "grpc-accept-encoding: gzip\n", S("\0\0\0\0\0"));
    str out = exchange_reply(x);
    assert_int_equal(out.p[0], 1);
    size_t n = (size_t)out.p[4];
    assert_true(str_is(gunzip(x, str_slice(out, 5, 5 + n)), "\x08\x01"));
    out = str_slice(out, 5 + n, out.n);
    assert_int_equal((unsigned char)out.p[0], 0x81);
    assert_true(str_is(gunzip(x, str_slice(out, 5, out.n)), "grpc-status: 0\r\n"));
    exchange_free(x);
}

static void envelopes_that_are_none_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *name, *headers;
        str body;
        const char *status, *message;
    } cases[] = {
        {"nothing", WEB, S_INIT(""), "12", "unary request has zero messages"},
        {"cut head", WEB, S_INIT("\0\0\0"), "3",
         "protocol error: incomplete envelope: 3 bytes of 5"},
        {"cut message", WEB,
         S_INIT("\0\0\0\0\x05"
                "ab"),
         "3", "protocol error: promised 5 bytes in enveloped message, got 2 bytes"},
        {"two messages", WEB, S_INIT("\0\0\0\0\0\0\0\0\0\0"), "12",
         "unary request has multiple messages"},
        {"odd flags", WEB, S_INIT("\x40\0\0\0\0"), "13",
         "protocol error: invalid envelope flags 64"},
        {"trailers from a client", WEB, S_INIT("\x80\0\0\0\0"), "13",
         "protocol error: invalid envelope flags 128"},
        {"compressed without a word", WEB, S_INIT("\x01\0\0\0\x02\x1f\x8b"), "13",
         "protocol error: sent compressed message without compression support"},
        {"not compressed at all", WEB "grpc-encoding: gzip\n", S_INIT("\x01\0\0\0\x02zz"), "3",
         "get decompressor: gzip: invalid header"},
        {"unknown encoding", WEB "grpc-encoding: br\n", S_INIT("\0\0\0\0\0"), "12",
         "unknown compression \"br\": supported encodings are gzip,zstd"},
        {"bad message", WEB, S_INIT("\0\0\0\0\x02\x0a\xff"), "3",
         "unmarshal message: version.v1.VersionRequest: protobuf: a length is cut or too long"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct http_exchange *x = ask("/t.v1.Echo/Version", cases[i].headers, cases[i].body);
        assert_int_equal(x->status, 200);
        str status = http_headers_get(&x->answer_headers, "grpc-status");
        str message = http_headers_get(&x->answer_headers, "grpc-message");
        if (!str_is(status, cases[i].status) || !str_is(message, cases[i].message)) {
            fail_msg("%s: %.*s %.*s", cases[i].name, STR(status), STR(message));
        }
        exchange_free(x);
    }
}

static void tenants_are_asked_for_before_the_body_is_read(void **state)
{
    (void)state;
    static const struct {
        const char *path, *headers, *status, *message;
    } cases[] = {
        {"/t.v1.Echo/Names", "", "16", "no org id"},
        {"/t.v1.Echo/Push", "x-scope-orgid: a|b\n", "16", "multiple org IDs present"},
        {"/t.v1.Echo/Names", "x-scope-orgid: a b\n", "16",
         "tenant ID 'a b' contains unsupported character ' '"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        char headers[200];
        char body[200];
        snprintf(headers, sizeof headers, JSON "%s", cases[i].headers);
        snprintf(body, sizeof body, "{\"code\":\"unauthenticated\",\"message\":\"%s\"}",
                 cases[i].message);
        struct ask a = {.path = cases[i].path, .headers = headers};
        struct http_exchange *x = exchange_ask(&a);
        assert_int_equal(app.head(app.self, x), HEAD_ANSWERED);
        expect_body(x, 401, body);
        exchange_free(x);
        snprintf(headers, sizeof headers, WEB "%s", cases[i].headers);
        x = ask(cases[i].path, headers, S("\0\0\0\0\0"));
        expect_header(x, "grpc-status", cases[i].status);
        expect_header(x, "grpc-message", cases[i].message);
        exchange_free(x);
    }
}

// Headers of a request of another node, with the sum of it.
static const char *of_node(const char *head, str tenants, str body)
{
    static char text[512];
    struct arena a;
    arena_init(&a, NULL, 64);
    snprintf(text, sizeof text, "%s" PEER_SUM ": %.*s\n", head,
             STR(peer_sum(&a, S("/t.v1.Echo/Raw"), tenants, body)));
    arena_release(&a);
    return text;
}

static void internal_methods_take_bytes_as_they_are(void **state)
{
    (void)state;
    const char *head = of_node(BIN "x-scope-orgid: b|a\nx-request-id: 01ARZ3NDEKTSV4RRFFQ69G5FAV\n",
                               S("b|a"), S("\xff\xfe"));
    struct http_exchange *x = ask("/t.v1.Echo/Raw", head, S("\xff\xfe"));
    expect_body(x, 200, "\xff\xfe");
    assert_true(str_is(x->req.tenant, "b|a"));
    assert_string_equal(x->req.request_id, "01ARZ3NDEKTSV4RRFFQ69G5FAV");
    assert_int_equal(x->req.rank, RANK_INGESTER);
    assert_true(http_headers_has(&x->answer_headers, PEER_SUM));
    exchange_free(x);
    x = ask("/t.v1.Echo/Raw", head, S("\xff\xfc"));
    assert_int_equal(x->status, 503);
    exchange_free(x);
    x = ask("/t.v1.Echo/Raw", BIN, S("without a sum"));
    assert_int_equal(x->status, 503);
    exchange_free(x);
    x = ask("/t.v1.Echo/Raw", of_node(BIN "x-request-id: evil id\n", S(""), S("")), (str){0});
    assert_true(str_is(x->req.tenant, ""));
    assert_string_not_equal(x->req.request_id, "evil id");
    exchange_free(x);
    x = ask("/t.v1.Echo/Raw", BIN "x-scope-orgid: ../x\n", S("x"));
    assert_int_equal(x->status, 401);
    exchange_free(x);
    x = ask("/t.v1.Echo/Raw", of_node(JSON, S(""), S("{}")), S("{}"));
    assert_int_equal(x->status, 501);
    exchange_free(x);
    x = ask("/t.v1.Echo/Names", JSON "x-scope-orgid: a\nx-request-id: 01ARZ3NDEKTSV4RRFFQ69G5FAV\n",
            S("{}"));
    assert_string_not_equal(x->req.request_id, "01ARZ3NDEKTSV4RRFFQ69G5FAV");
    exchange_free(x);
}

static void overload_is_told_in_every_protocol(void **state)
{
    (void)state;
    err e = {0};
    err_set(&e, ERR_RESOURCE_EXHAUSTED, "lane public is full");
    struct ask a = {.path = "/t.v1.Echo/Version", .headers = JSON};
    struct http_exchange *x = exchange_ask(&a);
    assert_int_equal(app.head(app.self, x), HEAD_READ_BODY);
    exchange_refused(&app, x, 429, &e);
    expect_body(x, 429, "{\"code\":\"resource_exhausted\",\"message\":\"lane public is full\"}");
    exchange_free(x);

    a.headers = WEB;
    x = exchange_ask(&a);
    assert_int_equal(app.head(app.self, x), HEAD_READ_BODY);
    exchange_refused(&app, x, 429, &e);
    expect_header(x, "grpc-status", "8");
    exchange_free(x);

    x = exchange_ask(&a);  // refused before its head was looked at
    exchange_refused(&app, x, 408, &e);
    expect_body(x, 408, "{\"code\":\"resource_exhausted\",\"message\":\"lane public is full\"}\n");
    exchange_free(x);
}

// The n-th allocation after the head was read fails. False if there were fewer.
static bool request_survives(const struct ask *a, int n)
{
    struct http_exchange *x = exchange_ask(a);
    mem_fail_at(n);
    exchange_go(&app, x, a->body);
    str grpc = http_headers_get(&x->answer_headers, "grpc-status");
    bool fired = mem_fault_fired();
    bool ok = x->status == 200 && grpc.n == 0;
    if (!ok && !str_is(grpc, "8")) {
        bool told = str_starts(exchange_reply(x), S("{\"code\":\"resource_exhausted\""));
        if (x->status != 429 || !told) fail_msg("%u %.*s", x->status, STR(exchange_reply(x)));
    }
    exchange_free(x);
    mem_fail_at(0);
    return fired;
}

static void malloc_failures_are_resource_exhausted(void **state)
{
    (void)state;
    const struct ask connect = {.path = "/t.v1.Echo/Names",
                                .headers = JSON "x-scope-orgid: b|a\naccept-encoding: gzip\n",
                                .body = S("{\"matchers\":[\"\\n\",\"b\"]}")};
    const struct ask web = {.path = "/t.v1.Echo/Version", .headers = WEB, .body = S("\0\0\0\0\0")};
    int n = 1;
    while (request_survives(&connect, n))
        n++;
    assert_true(n > 5);
    for (n = 1; request_survives(&web, n);)
        n++;
    assert_true(n > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(content_types_choose_the_protocol_and_are_echoed),
        cmocka_unit_test(other_content_types_are_told_what_is_accepted),
        cmocka_unit_test(only_post_reaches_a_method),
        cmocka_unit_test(connect_heads_are_checked),
        cmocka_unit_test(timeouts_only_make_deadlines_earlier),
        cmocka_unit_test(connect_answers_have_their_headers),
        cmocka_unit_test(connect_speaks_gzip_both_ways_and_reads_zstd),
        cmocka_unit_test(malformed_messages_are_invalid_arguments),
        cmocka_unit_test(sizes_are_limited_on_the_wire_and_inflated),
        cmocka_unit_test(errors_have_every_protocols_form),
        cmocka_unit_test(what_may_come_again_says_when),
        cmocka_unit_test(every_code_has_its_status),
        cmocka_unit_test(grpc_answers_an_envelope_and_trailers),
        cmocka_unit_test(grpc_web_puts_trailers_into_the_body),
        cmocka_unit_test(envelopes_that_are_none_are_refused),
        cmocka_unit_test(tenants_are_asked_for_before_the_body_is_read),
        cmocka_unit_test(internal_methods_take_bytes_as_they_are),
        cmocka_unit_test(overload_is_told_in_every_protocol),
        cmocka_unit_test(malloc_failures_are_resource_exhausted),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
