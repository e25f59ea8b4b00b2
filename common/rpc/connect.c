// SPDX-License-Identifier: Apache-2.0
//
// Connect unary (https://connectrpc.com/docs/protocol): the body is the message, the status says
// how it went, errors are JSON.
#include "codec/compress.h"
#include "codec/json.h"
#include "codec/pb.h"
#include "codec/pbjson.h"
#include "rpc/peer.h"
#include "rpc/rpc_int.h"
#include "sys/clock.h"

#define GZIP_LEVEL 1

static bool encodings(struct http_exchange *x, struct rpc_call *c, err *e)
{
    str sent = http_headers_get(&x->headers, "content-encoding");
    if (str_is(sent, "gzip")) {
        c->body = GZIP;
    } else if (str_is(sent, "zstd")) {
        c->body = ZSTD;
    } else if (sent.n > 0 && !str_is(sent, "identity")) {
        return err_set(e, ERR_UNIMPLEMENTED,
                       "unknown compression \"%.*s\": supported encodings are " ENCODINGS,
                       STR(sent));
    }
    c->gzip_answer = names_have(http_headers_get(&x->headers, "accept-encoding"), "gzip");
    return true;
}

static bool timeout(struct http_exchange *x, err *e)
{
    str text = http_headers_get(&x->headers, "connect-timeout-ms");
    if (text.n == 0) return true;
    if (text.n > 10) {
        return err_set(e, ERR_INVALID_ARGUMENT, "parse timeout: \"%.*s\" has >10 digits",
                       STR(text));
    }
    int64_t ms = 0;
    if (!str_i64(text, &ms)) {
        return err_set(e, ERR_INVALID_ARGUMENT, "parse timeout: \"%.*s\" is not a number",
                       STR(text));
    }
    // Ten digits of milliseconds fit 64 bits of nanoseconds. A negative time has passed already.
    deadline_within(x, ms > 0 ? (uint64_t)ms * (uint64_t)NS_PER_MS : 0);
    return true;
}

bool connect_head(struct http_exchange *x, struct rpc_call *c, err *e)
{
    if (!encodings(x, c, e)) return false;
    str version = http_headers_get(&x->headers, "connect-protocol-version");
    if (version.n > 0 && !str_is(version, "1")) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "Connect-Protocol-Version must be \"1\": got \"%.*s\"", STR(version));
    }
    return timeout(x, e);
}

bool message_too_large(struct http_exchange *x, const struct rpc_call *c, size_t size, err *e)
{
    x->status = 413;
    return err_set(e, ERR_RESOURCE_EXHAUSTED, "message size %zu is larger than configured max %zu",
                   size, c->message_max);
}

bool message_inflate(struct http_exchange *x, const struct rpc_call *c, str message,
                     struct buf *out, err *e)
{
    enum encoding how = c->body;
    assert(how == GZIP || how == ZSTD);
    buf_init(out, c->router->options.memory, c->message_max);
    bool known = how == GZIP ? compress_is_gzip(message) : compress_is_zstd(message);
    if (!known) {
        return err_set(e, ERR_INVALID_ARGUMENT, "get decompressor: %s: invalid header",
                       how == GZIP ? "gzip" : "zstd");
    }
    bool ok = how == GZIP ? compress_gunzip(message, out, e) : compress_unzstd(message, out, e);
    if (ok) return true;
    // The decompressor stopped at the buffer's cap; if memory was short, the buffer has failed.
    if (e->code == ERR_RESOURCE_EXHAUSTED && !out->failed) {
        x->status = 413;
        return err_set(e, e->code, "message size is larger than configured max %zu",
                       c->message_max);
    }
    return err_wrap(e, "decompress");
}

static bool from_json(struct http_exchange *x, const struct rpc_call *c, str text, struct buf *out,
                      err *e)
{
    const struct rpc_method *m = c->row->rpc;
    buf_init(out, c->router->options.memory, SIZE_MAX);
    if (!m->in || !m->out) {
        return err_set(e, ERR_UNIMPLEMENTED, "%s takes protobuf messages only", m->path);
    }
    if (text.n == 0) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "unmarshal message: zero-length payload is not a valid JSON object");
    }
    ProtobufCMessage *message = pbjson_parse(&x->req.arena, m->in, text, e);
    if (!message) return err_wrap(e, "unmarshal message");
    // Handlers know one form only: the JSON becomes the message that a binary client would send.
    pb_pack(message, out);
    return buf_ok(out, e);
}

static bool to_json(struct http_exchange *x, const struct rpc_call *c, str bytes, struct buf *out,
                    err *e)
{
    ProtobufCMessage *message = pb_unpack(&x->req.arena, c->row->rpc->out, bytes, e);
    if (!message) {
        // Our own handler wrote these bytes, so the fault is not the client's.
        if (e->code != ERR_RESOURCE_EXHAUSTED) e->code = ERR_INTERNAL;
        return err_wrap(e, "marshal message");
    }
    pbjson_print(message, out);
    return buf_ok(out, e);
}

static bool run_handler(struct http_exchange *x, const struct rpc_call *c, str message,
                        struct buf *out, err *e)
{
    handler_begins(x);
    if (c->row->rpc->run(c->row->service, x, message, out, e)) return buf_ok(out, e);
    return handler_failed(e);
}

static bool run_json(struct http_exchange *x, const struct rpc_call *c, str message,
                     struct buf *out, err *e)
{
    struct buf in;
    struct buf bytes;
    buf_init(&bytes, out->budget, out->cap);
    bool ok = from_json(x, c, message, &in, e) && run_handler(x, c, buf_view(&in), &bytes, e);
    // run_handler may borrow from it, so it lives until the answer is made.
    buf_release(&in);
    ok = ok && to_json(x, c, buf_view(&bytes), out, e);
    buf_release(&bytes);
    return ok;
}

bool method_run(struct http_exchange *x, const struct rpc_call *c, str message, struct buf *out,
                err *e)
{
    const struct rpc_method *m = c->row->rpc;
    assert(m && c->type);
    assert(message.n <= c->message_max);  // compressed or not
    if (c->type->json) return run_json(x, c, message, out, e);
    if (m->in && !m->checks_wire && !pb_check(m->in, message, e))
        return err_wrap(e, "unmarshal message");
    return run_handler(x, c, message, out, e);
}

// Connect compresses answers of any size: a client that asked for gzip gets gzip.
static bool compress(struct http_exchange *x, err *e)
{
    struct buf packed;
    buf_init(&packed, x->out.budget, SIZE_MAX);
    bool ok = compress_gzip(buf_view(&x->out), GZIP_LEVEL, &packed, e);
    if (ok) {
        assert(x->fixed.n == 0);
        buf_release(&x->out);
        x->out = buf_take(&packed);
        route_header(x, "content-encoding", S("gzip"));
    }
    buf_release(&packed);
    return ok;
}

static bool run_method(struct http_exchange *x, const struct rpc_call *c, err *e)
{
    str message = buf_view(&x->body);
    if (message.n > c->message_max) return message_too_large(x, c, message.n, e);
    if (c->body == IDENTITY || message.n == 0) return method_run(x, c, message, &x->out, e);
    struct buf inflated = {0};
    bool ok = message_inflate(x, c, message, &inflated, e);
    if (ok) {
        buf_release(&x->body);  // the handler needs memory, and the compressed bytes are of no use
        ok = method_run(x, c, buf_view(&inflated), &x->out, e);
    }
    buf_release(&inflated);
    return ok;
}

// A request of another node is what that one sent (PEER_SUM); one without a sum may have lost it on
// the way.
static bool is_whole(struct http_exchange *x, err *e)
{
    struct arena *a = &x->req.arena;
    str tenants = http_headers_get(&x->headers, "x-scope-orgid");
    str sum = peer_sum(a, x->path, tenants, buf_view(&x->body));
    if (!arena_ok(a, e)) return false;
    return str_eq(sum, http_headers_get(&x->headers, PEER_SUM)) ||
           err_set(e, ERR_UNAVAILABLE, "the request was damaged on the way from another node");
}

bool connect_run(struct http_exchange *x, const struct rpc_call *c, err *e)
{
    assert(c->protocol == CONNECT && c->type);
    enum route_auth auth = c->row->rpc->auth;
    bool of_node = auth == ROUTE_INTERNAL || auth == ROUTE_NODE;
    if ((of_node && !is_whole(x, e)) || !run_method(x, c, e)) return false;
    x->status = 200;
    route_header(x, "content-type", str_of(c->type->text));
    route_header(x, "accept-encoding", S(ENCODINGS));
    if (c->gzip_answer && !compress(x, e)) return false;
    if (of_node)
        route_header(x, PEER_SUM, peer_sum(&x->req.arena, S(""), S(""), buf_view(&x->out)));
    return arena_ok(&x->req.arena, e);
}

void connect_error(struct http_exchange *x, const err *e)
{
    error_note(x, e);
    answer_clear(x);  // the handler may have written a part of an answer
    x->status = err_http_status(e->code);
    route_header(x, "content-type", S("application/json"));
    if (x->final) route_header(x, PEER_FINAL, S("true"));
    buf_printf(&x->out, "{\"code\":\"%s\"", err_name(e->code));
    if (e->msg[0]) {
        buf_z(&x->out, ",\"message\":");
        json_put_string(&x->out, str_of(e->msg));
    }
    buf_byte(&x->out, '}');
}
