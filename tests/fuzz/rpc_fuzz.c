// SPDX-License-Identifier: Apache-2.0
//
// One request to a router: the first byte chooses the path, the second the content type, the lines
// up to an empty one are headers, the rest is the body. Whatever comes in, an answer goes out that
// its protocol allows; and a message that is accepted as JSON gives the same answer as its protobuf
// form, bare and in an envelope.
#include "codec/compress.h"
#include "codec/json.h"
#include "codec/pbjson.h"
#include "lib/echo.h"
#include "lib/exchange.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const paths[] = {
    "/t.v1.Echo/Version", "/t.v1.Echo/Names", "/t.v1.Echo/Fail", "/t.v1.Echo/Push",
    "/t.v1.Echo/Raw",     "/upload",          "/both",           "/raw"};
static const char *const types[] = {"application/proto",          "application/json",
                                    "application/grpc",           "application/grpc+json",
                                    "application/grpc-web+proto", "application/grpc-web+json"};

static struct server_app app;

static bool is_json_error(str body)
{
    struct arena a;
    arena_init(&a, NULL, 1 << 20);
    struct json_reader r;
    json_reader_init(&r, &a, str_trim(body));
    bool ok = json_skip(&r) && json_next(&r) == JSON_END;
    arena_release(&a);
    return ok && str_starts(body, S("{\"code\":\""));
}

static str header(const struct http_exchange *x, const char *name)
{
    return http_headers_get(&x->answer_headers, name);
}

// The answer's envelopes: their number, and whether the last holds trailers.
static size_t envelopes(str body, bool *trailers)
{
    size_t n = 0;
    for (; body.n > 0; n++) {
        if (body.n < 5) abort();
        const uint8_t *p = (const uint8_t *)body.p;
        size_t len = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4];
        if (len > body.n - 5) abort();
        *trailers = (p[0] & 0x80) != 0;
        body = str_slice(body, 5 + len, body.n);
    }
    return n;
}

static void check_answer(const struct http_exchange *x, bool rpc, bool grpc)
{
    str body = exchange_reply(x);
    if (x->status < 200 || x->status > 599 || x->out.failed) abort();
    if (x->status != 200 || !rpc) {
        bool plain_text = str_starts(header(x, "content-type"), S("text/plain"));
        if (x->status >= 400 && body.n > 0 && !plain_text && !is_json_error(body)) abort();
        return;
    }
    if (!grpc) {
        bool gzip = str_is(header(x, "content-encoding"), "gzip");
        if (gzip && !compress_is_gzip(body)) abort();
        return;
    }
    bool web = str_starts(header(x, "content-type"), S("application/grpc-web"));
    bool in_body = false;
    size_t n = envelopes(body, &in_body);
    bool in_headers = header(x, "grpc-status").n > 0;
    bool in_trailers = http_headers_get(&x->trailers, "grpc-status").n > 0;
    if (in_body + in_headers + in_trailers != 1) abort();
    if (web ? in_trailers : !in_trailers) abort();
    if (n != (in_headers || (in_trailers && body.n == 0) ? 0u : web ? 2u : 1u)) abort();
}

static struct http_exchange *go(const char *path, const char *headers, str body)
{
    struct ask a = {.path = path, .headers = headers, .body = body, .version = 20};
    return exchange_run(&app, &a);
}

// JSON text that is a LabelNamesRequest: the same answer for the message in all its forms.
static void transcode(str text)
{
    struct arena a;
    arena_init(&a, NULL, 16 << 20);
    struct buf wire;
    buf_init(&wire, NULL, 1 << 20);
    err e = {0};
    ProtobufCMessage *m = pbjson_parse(&a, &types__v1__label_names_request__descriptor, text, &e);
    if (m) pb_pack(m, &wire);
    if (m && text.n <= 1000 && wire.n <= 900) {
        struct http_exchange *json =
            go(paths[1], "content-type: application/json\nx-scope-orgid: t\n", text);
        struct http_exchange *proto =
            go(paths[1], "content-type: application/proto\nx-scope-orgid: t\n", buf_view(&wire));
        if (json->status != 200 || proto->status != 200) abort();
        m = pb_unpack(&a, &types__v1__label_names_response__descriptor, exchange_reply(proto), &e);
        struct buf want;
        buf_init(&want, NULL, 1 << 20);
        if (!m) abort();
        pbjson_print(m, &want);
        if (!str_eq(buf_view(&want), exchange_reply(json))) abort();
        buf_release(&want);
        char envelope[1000] = {0, 0, 0, (char)(wire.n >> 8), (char)wire.n};
        if (wire.n) memcpy(envelope + 5, wire.p, wire.n);
        struct http_exchange *grpc =
            go(paths[1], "content-type: application/grpc\nx-scope-orgid: t\n",
               str_make(envelope, 5 + wire.n));
        str body = exchange_reply(grpc);
        if (!str_eq(str_slice(body, 5, body.n), exchange_reply(proto))) abort();
        exchange_free(grpc);
        exchange_free(proto);
        exchange_free(json);
    }
    buf_release(&wire);
    arena_release(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!app.self) {
        log_set_level(LOG_ERROR);
        app = router_app(echo_router(true));
    }
    transcode(str_make(data, size));
    if (size < 2) return 0;
    size_t path = data[0] % COUNT(paths);
    size_t type = data[1] % COUNT(types);
    str in = str_make(data + 2, size - 2);
    const char *gap = in.n ? memmem(in.p, in.n, "\n\n", 2) : NULL;
    size_t head = gap ? (size_t)(gap - in.p) + 1 : 0;
    char headers[2048];
    snprintf(headers, sizeof headers, "content-type: %s\nx-scope-orgid: a\n%.*s", types[type],
             (int)MIN(head, (size_t)1500), in.p);
    struct http_exchange *x = go(paths[path], headers, gap ? str_slice(in, head + 1, in.n) : in);
    bool grpc = strncmp(types[type], "application/grpc", 16) == 0;
    check_answer(x, path <= 4 || (path == 6 && grpc), grpc);
    exchange_free(x);
    return 0;
}
