// SPDX-License-Identifier: Apache-2.0
//
// gRPC unary (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md) and gRPC-Web unary
// (PROTOCOL-WEB.md beside it, binary form).
//
//     body     = envelope                                 gRPC; status in trailers
//     body     = envelope trailer-envelope                gRPC-Web; without a message the status is
//     envelope = flags:1 length:4 (big endian) bytes      in the headers
//     flags    = 1: bytes are compressed; 0x80: bytes are trailers
#include "codec/base64.h"
#include "codec/compress.h"
#include "codec/pb.h"
#include "rpc/rpc_int.h"

#define HEAD_BYTES  5
#define COMPRESSED  0x01
#define TRAILERS    0x80
#define GZIP_LEVEL  1
#define TIMEOUT_MAX 8  // digits
#define RETRY_S     1  // as Retry-After of HTTP answers

static bool timeout(struct http_exchange *x, err *e)
{
    static const struct {
        char unit;
        uint64_t ns;
    } units[] = {{'H', 3600000000000u}, {'M', 60000000000u}, {'S', 1000000000u},
                 {'m', 1000000u},       {'u', 1000u},        {'n', 1u}};
    str text = http_headers_get(&x->headers, "grpc-timeout");
    if (text.n == 0) return true;
    str digits = str_slice(text, 0, text.n - 1);
    uint64_t v = 0;
    for (size_t i = 0; digits.n <= TIMEOUT_MAX && i < COUNT(units); i++) {
        if (text.p[text.n - 1] != units[i].unit || !str_u64(digits, &v)) continue;
        uint64_t ns = 0;
        // Eight digits of hours overflow: that is no limit.
        if (!__builtin_mul_overflow(v, units[i].ns, &ns)) deadline_within(x, ns);
        return true;
    }
    return err_set(e, ERR_INVALID_ARGUMENT, "protocol error: invalid timeout \"%.*s\"", STR(text));
}

bool grpc_head(struct http_exchange *x, struct rpc_call *c, err *e)
{
    str sent = http_headers_get(&x->headers, "grpc-encoding");
    if (str_is(sent, "gzip")) {
        c->body = GZIP;
    } else if (str_is(sent, "zstd")) {
        c->body = ZSTD;
    } else if (sent.n > 0 && !str_is(sent, "identity")) {
        return err_set(e, ERR_UNIMPLEMENTED,
                       "unknown compression \"%.*s\": supported encodings are " ENCODINGS,
                       STR(sent));
    }
    c->gzip_answer = names_have(http_headers_get(&x->headers, "grpc-accept-encoding"), "gzip");
    return timeout(x, e);
}

// Takes the one message out of a unary body.
static bool unwrap(struct http_exchange *x, const struct rpc_call *c, uint8_t *flags, str *message,
                   err *e)
{
    str body = buf_view(&x->body);
    if (body.n == 0) return err_set(e, ERR_UNIMPLEMENTED, "unary request has zero messages");
    if (body.n < HEAD_BYTES) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "protocol error: incomplete envelope: %zu bytes of %d", body.n, HEAD_BYTES);
    }
    const uint8_t *head = (const uint8_t *)body.p;
    size_t n = (size_t)head[1] << 24 | (size_t)head[2] << 16 | (size_t)head[3] << 8 | head[4];
    *flags = head[0];
    if (n > c->message_max) return message_too_large(x, c, n, e);
    if (n > body.n - HEAD_BYTES) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "protocol error: promised %zu bytes in enveloped message, got %zu bytes", n,
                       body.n - HEAD_BYTES);
    }
    if (*flags & ~COMPRESSED) {
        return err_set(e, ERR_INTERNAL, "protocol error: invalid envelope flags %u", *flags);
    }
    if (n < body.n - HEAD_BYTES) {
        return err_set(e, ERR_UNIMPLEMENTED, "unary request has multiple messages");
    }
    *message = str_slice(body, HEAD_BYTES, body.n);
    return true;
}

// Appends an envelope; with gzip the bytes are compressed, however few they are. The head is filled
// in last, because it has the compressed length.
static bool wrap(struct buf *out, uint8_t flags, str bytes, bool gzip, err *e)
{
    size_t at = out->n;
    assert((flags & COMPRESSED) == 0);
    buf_put(out, (char[HEAD_BYTES]){0}, HEAD_BYTES);
    if (gzip && !out->failed && !compress_gzip(bytes, GZIP_LEVEL, out, e)) return false;
    if (!gzip) buf_str(out, bytes);
    if (!buf_ok(out, e)) return false;
    size_t n = out->n - at - HEAD_BYTES;
    if (n > UINT32_MAX) {
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "an answer of %zu bytes fits no envelope", n);
    }
    // Only now: out may have moved while it grew.
    uint8_t *head = (uint8_t *)out->p + at;
    head[0] = (uint8_t)(flags | (gzip ? COMPRESSED : 0));
    for (int i = 0; i < 4; i++)
        head[1 + i] = (uint8_t)(n >> (24 - 8 * i));
    return true;
}

static bool run_method(struct http_exchange *x, const struct rpc_call *c, struct buf *answer,
                       err *e)
{
    uint8_t flags = 0;
    str message = {0};
    if (!unwrap(x, c, &flags, &message, e)) return false;
    if (!(flags & COMPRESSED) || message.n == 0) return method_run(x, c, message, answer, e);
    if (c->body == IDENTITY) {
        return err_set(e, ERR_INTERNAL,
                       "protocol error: sent compressed message without compression support");
    }
    struct buf inflated = {0};
    bool ok = message_inflate(x, c, message, &inflated, e);
    if (ok) {
        buf_release(&x->body);
        ok = method_run(x, c, buf_view(&inflated), answer, e);
    }
    buf_release(&inflated);
    return ok;
}

static void heads(struct http_exchange *x, const struct rpc_call *c)
{
    x->status = 200;
    route_header(x, "content-type", str_of(c->type->text));
    route_header(x, "grpc-accept-encoding", S(ENCODINGS));
}

static bool answer(struct http_exchange *x, const struct rpc_call *c, str message, err *e)
{
    heads(x, c);
    if (c->gzip_answer) route_header(x, "grpc-encoding", S("gzip"));
    if (!wrap(&x->out, 0, message, c->gzip_answer, e)) return false;
    if (c->protocol == GRPC_WEB) {
        return wrap(&x->out, TRAILERS, S("grpc-status: 0\r\n"), c->gzip_answer, e);
    }
    // gRPC over HTTP/2 tells the status behind the message, because it may be known only then.
    http_headers_add(&x->trailers, &x->req.arena, S("grpc-status"), S("0"));
    return true;
}

bool grpc_run(struct http_exchange *x, const struct rpc_call *c, err *e)
{
    struct buf message;
    assert((c->protocol == GRPC || c->protocol == GRPC_WEB) && c->type);
    buf_init(&message, x->out.budget, x->out.cap);
    bool ok = run_method(x, c, &message, e) && answer(x, c, buf_view(&message), e);
    buf_release(&message);
    return ok;
}

// Escapes as the gRPC specification has them: printable ASCII stays, except '%'.
static str percent(struct arena *a, const char *text)
{
    static const char hex[] = "0123456789ABCDEF";
    str in = str_of(text);
    char *out = arena_new(a, in.n * 3);
    size_t n = 0;
    for (size_t i = 0; out && i < in.n; i++) {
        unsigned char c = (unsigned char)in.p[i];
        if (c >= 0x20 && c <= 0x7e && c != '%') {
            out[n++] = (char)c;
            continue;
        }
        out[n++] = '%';
        out[n++] = hex[c >> 4];
        out[n++] = hex[c & 15];
    }
    assert(n <= in.n * 3);
    return str_make(out, n);
}

// May the same request succeed a little later? Not if it is refused for its size, which shows
// before a method has begun; what net refuses before that tells by its status.
static bool may_come_again(const struct http_exchange *x, const struct rpc_call *c, const err *e)
{
    if (e->code == ERR_UNAVAILABLE) return true;
    return e->code == ERR_RESOURCE_EXHAUSTED && (c->begun || x->status == 429);
}

// google.rpc.Status with a RetryInfo
// (https://github.com/googleapis/googleapis/blob/master/google/rpc/error_details.proto). Exporters
// of OTLP drop what they get RESOURCE_EXHAUSTED for, unless this tells when to send it again.
static str retry_details(struct arena *a, const err *e)
{
    struct buf status;
    struct buf text;
    buf_init(&status, a->budget, 2 * sizeof e->msg);
    buf_init(&text, a->budget, 4 * sizeof e->msg);
    pb_put_u64(&status, 1, (uint64_t)e->code);
    pb_put_bytes(&status, 2, str_of(e->msg));
    size_t any = pb_begin(&status, 3);
    pb_put_bytes(&status, 1, S("type.googleapis.com/google.rpc.RetryInfo"));
    size_t info = pb_begin(&status, 2);
    size_t delay = pb_begin(&status, 1);
    pb_put_u64(&status, 1, RETRY_S);
    pb_end(&status, delay);
    pb_end(&status, info);
    pb_end(&status, any);
    base64_put(&text, buf_view(&status), false);
    str kept = status.failed || text.failed ? (str){0} : arena_str(a, buf_view(&text));
    buf_release(&status);
    buf_release(&text);
    return kept;
}

void grpc_error(struct http_exchange *x, const struct rpc_call *c, const err *e)
{
    assert((c->protocol == GRPC || c->protocol == GRPC_WEB) && c->type);
    struct arena *a = &x->req.arena;
    str details = may_come_again(x, c, e) ? retry_details(a, e) : (str){0};
    error_note(x, e);
    answer_clear(x);
    heads(x, c);
    // Browsers cannot read HTTP trailers, so gRPC-Web has the status of an empty answer in the
    // head.
    struct http_headers *to = c->protocol == GRPC_WEB ? &x->answer_headers : &x->trailers;
    http_headers_add(to, a, S("grpc-status"), arena_printf(a, "%d", (int)e->code));
    http_headers_add(to, a, S("grpc-message"), percent(a, e->msg));
    if (details.n) http_headers_add(to, a, S("grpc-status-details-bin"), details);
}
