// SPDX-License-Identifier: Apache-2.0
//
// plain.c - routes without a protocol above HTTP: bodies are inflated, answers compressed, and
// errors are Pyroscope's JSON object {"code", "message"}.
#include "codec/compress.h"
#include "codec/json.h"
#include "rpc/rpc_int.h"

#define GZIP_MIN   1400  // smaller answers fit in one packet anyway
#define GZIP_LEVEL 1     // half the time of level 6, within 5 % of its size
#define SHOWN_MAX  40    // bytes of a header in a message

void route_header(struct http_exchange *x, const char *name, str value)
{
    struct http_headers *h = &x->answer_headers;
    for (size_t i = 0; i < h->n; i++) {
        if (!str_is(h->v[i].name, name)) continue;
        h->v[i].value = value;
        return;
    }
    http_headers_add(h, &x->req.arena, str_of(name), value);
}

static void drop_body(struct http_exchange *x)
{
    buf_clear(&x->out);
    x->fixed = (str){0};
}

void answer_clear(struct http_exchange *x)
{
    drop_body(x);
    // A header of the half-made answer, such as its type, would be wrong for the error.
    x->answer_headers.n = 0;
    x->trailers.n = 0;
}

void route_text(struct http_exchange *x, unsigned status, str body)
{
    drop_body(x);
    x->status = status;
    route_header(x, "content-type", S("text/plain; charset=utf-8"));
    route_header(x, "x-content-type-options", S("nosniff"));
    buf_str(&x->out, body);
}

void route_error(struct http_exchange *x, unsigned status, enum err_code code, const char *msg)
{
    drop_body(x);
    x->status = status;
    route_header(x, "content-type", S("application/json"));
    route_header(x, "x-content-type-options", S("nosniff"));
    assert(code != ERR_OK && status >= 400);
    buf_printf(&x->out, "{\"code\":\"%s\",\"message\":", err_name(code));
    json_put_string(&x->out, str_of(msg));
    buf_z(&x->out, "}\n");
}

// For an error that comes from the request's own time limit, the message tells the user how to
// avoid it.
void plain_error(struct http_exchange *x, const err *e)
{
    const char *msg = e->msg;
    if (e->code == ERR_CANCELED) msg = "the request was cancelled by the client";
    if (e->code == ERR_DEADLINE_EXCEEDED) {
        msg = "request timed out, decrease the duration of the request or add more label matchers "
              "(prefer exact match over regex match) to reduce the amount of data processed";
    }
    error_note(x, e);
    answer_clear(x);
    route_error(x, err_http_status(e->code), e->code, msg);
}

void plain_too_large(struct http_exchange *x, const char *msg)
{
    err e = {0};
    err_set(&e, ERR_INVALID_ARGUMENT, "request body too large: %s", msg);
    error_note(x, &e);
    answer_clear(x);
    route_error(x, 413, e.code, e.msg);
}

static bool plain_inflate(struct http_exchange *x, bool gzip, size_t max, err *e)
{
    str in = buf_view(&x->body);
    struct buf plain;
    buf_init(&plain, x->body.budget, max);
    bool ok = gzip ? compress_gunzip(in, &plain, e) : compress_unzstd(in, &plain, e);
    if (ok) {
        buf_release(&x->body);
        x->body = buf_take(&plain);
    }
    // The decompressor stopped at the cap: the body is too large. Otherwise memory was short.
    if (!ok && e->code == ERR_RESOURCE_EXHAUSTED && !plain.failed) e->code = ERR_OUT_OF_RANGE;
    buf_release(&plain);
    return ok;
}

// Compressions that nothing here can undo, also several in a row. Other words, as a charset, say
// nothing of the bytes.
static bool plain_is_packed(str encodings)
{
    static const str names[] = {S_INIT("br"),
                                S_INIT("deflate"),
                                S_INIT("zlib"),
                                S_INIT("snappy"),
                                S_INIT("x-snappy-framed"),
                                S_INIT("lz4"),
                                S_INIT("lzma"),
                                S_INIT("xz"),
                                S_INIT("bzip2"),
                                S_INIT("x-bzip2"),
                                S_INIT("compress"),
                                S_INIT("x-compress"),
                                S_INIT("dcb"),
                                S_INIT("dcz"),
                                S_INIT("gzip"),
                                S_INIT("zstd"),
                                S_INIT("x-gzip")};
    while (encodings.p) {
        str name = str_trim(str_split(encodings, ',', &encodings));
        for (size_t i = 0; i < COUNT(names); i++) {
            if (str_ieq(name, names[i])) return true;
        }
    }
    return false;
}

bool route_body(struct http_exchange *x, size_t max, err *e)
{
    str how = http_headers_get(&x->headers, "content-encoding");
    str in = buf_view(&x->body);
    bool gzip = str_ieq(how, S("gzip")) || str_ieq(how, S("x-gzip"));
    bool zstd = str_ieq(how, S("zstd"));
    if (gzip || zstd) {
        bool packed = gzip ? compress_is_gzip(in) : compress_is_zstd(in);
        return !packed || plain_inflate(x, gzip, max, e);
    }
    // A handler that read the compressed bytes would complain of a text that nobody sent.
    return !plain_is_packed(how) ||
           err_set(e, ERR_UNIMPLEMENTED,
                   "unknown compression \"%.*s\": supported encodings are " ENCODINGS,
                   STR(str_slice(how, 0, SHOWN_MAX)));
}

bool route_unpack(struct http_exchange *x, size_t max, err *e)
{
    bool gzip = compress_is_gzip(buf_view(&x->body));
    return (!gzip && !compress_is_zstd(buf_view(&x->body))) || plain_inflate(x, gzip, max, e);
}

void plain_head(struct http_exchange *x, struct rpc_call *c)
{
    c->gzip_answer =
        !c->row->http->no_gzip && accepts_gzip(http_headers_get(&x->headers, "accept-encoding"));
}

static void compress(struct http_exchange *x, const struct rpc_call *c)
{
    str body = x->fixed.n ? x->fixed : buf_view(&x->out);
    // 206: the range is one of the uncompressed bytes.
    if (body.n < GZIP_MIN || x->status == 206 ||
        http_headers_has(&x->answer_headers, "content-encoding")) {
        return;
    }
    struct buf packed;
    err e = {0};
    // The cap is the size of the plain answer: what is not smaller is not worth sending packed.
    buf_init(&packed, c->router->options.memory, body.n);
    if (compress_gzip(body, GZIP_LEVEL, &packed, &e)) {
        buf_release(&x->out);
        x->out = buf_take(&packed);
        x->fixed = (str){0};
        route_header(x, "content-encoding", S("gzip"));
    }
    buf_release(&packed);  // an answer that does not get smaller (the cap) is sent as it is
}

void plain_run(struct http_exchange *x, const struct rpc_call *c)
{
    const struct http_route *route = c->row->http;
    err e = {0};
    assert(route && c->protocol == PLAIN);
    if (!route->raw_body && !route_body(x, c->message_max, &e)) {
        if (e.code == ERR_OUT_OF_RANGE) return plain_too_large(x, e.msg);
        return plain_error(x, &e);
    }
    x->status = 200;
    handler_begins(x);
    bool ok = route->run(c->row->service, x, &e);
    if (!ok) handler_failed(&e);
    if (ok && x->out.failed) ok = buf_ok(&x->out, &e);
    if (!ok) plain_error(x, &e);
    if (!route->no_gzip && !http_headers_has(&x->answer_headers, "vary")) {
        route_header(x, "vary", S("Accept-Encoding"));
    }
    if (c->gzip_answer) compress(x, c);
}

bool route_accepts(str header, str token)
{
    while (header.p) {
        str parameters;
        str name = str_trim(str_split(str_split(header, ',', &header), ';', &parameters));
        if (!str_ieq(name, token) && !str_eq(name, S("*"))) continue;
        str q = str_trim(parameters);
        if (!str_starts(q, S("q=")) && !str_starts(q, S("Q="))) return true;
        q = str_slice(q, 2, q.n);
        return !(str_is(q, "0") || str_is(q, "0.") || str_is(q, "0.0") || str_is(q, "0.00") ||
                 str_is(q, "0.000"));
    }
    return false;
}
