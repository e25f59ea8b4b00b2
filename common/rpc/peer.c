// SPDX-License-Identifier: Apache-2.0
//
// peer.c - makes the request to another node, and turns its answer or its error back into ours.
#include "rpc/peer.h"

#include "base/hash.h"
#include "codec/json.h"
#include "sys/clock.h"

#define ERROR_BODY_MAX 16384

static void stop_nothing(struct call *c)
{
    (void)c;
}

str peer_sum(struct arena *a, str path, str tenants, str message)
{
    uint32_t crc = crc32c(0, path.p, path.n);
    crc = crc32c(crc, tenants.p, tenants.n);
    return arena_printf(a, "%08x", (unsigned)crc32c(crc, message.p, message.n));
}

// NOLINTNEXTLINE(readability-function-size): eight parameters, all of them the question's
void peer_start(struct client *cl, struct req *r, struct peer_call *c, str address,
                const char *path, str message, enum rank rank, size_t answer_max)
{
    assert(path[0] == '/' && rank < RANK_COUNT);
    *c = (struct peer_call){0};
    struct http_call *h = &c->http;
    struct arena *a = &r->arena;
    h->method = "POST";
    h->address = address;
    h->tls = client_has_certificate(cl) && !str_starts(address, S("unix:"));
    h->path = str_of(path);
    h->body = message;
    h->answer_max = MAX(answer_max, (size_t)ERROR_BODY_MAX);  // an error must fit as well
    http_headers_add(&h->headers, a, S("content-type"), S("application/proto"));
    http_headers_add(&h->headers, a, S("connect-protocol-version"), S("1"));
    http_headers_add(&h->headers, a, S("x-request-id"), str_of(r->request_id));
    str node = {0};
    str cluster = {0};
    if (client_introduction(cl, &node, &cluster)) {
        http_headers_add(&h->headers, a, S(PEER_CLUSTER), cluster);
        http_headers_add(&h->headers, a, S(PEER_NODE), node);
    }
    str time = arena_printf(a, "%lld", (long long)(clock_wall_ns() / NS_PER_MS));
    http_headers_add(&h->headers, a, S(PEER_TIME), time);
    if (r->tenant.n) http_headers_add(&h->headers, a, S("x-scope-orgid"), r->tenant);
    http_headers_add(&h->headers, a, S(PEER_SUM), peer_sum(a, h->path, r->tenant, message));
    uint64_t left = req_left_ns(r);
    if (left != UINT64_MAX) {
        uint64_t ms = MIN(left / (uint64_t)NS_PER_MS, UINT64_C(9999999999));
        str text = arena_printf(a, "%llu", (unsigned long long)ms);
        http_headers_add(&h->headers, a, S("connect-timeout-ms"), text);
    }
    err e = {0};
    if (arena_ok(a, &e)) return http_start(cl, r, h, rank);
    // Headers are missing, the tenant's maybe: the call fails without being sent.
    assert(e.code != ERR_OK);
    call_begin(&h->call, rank, stop_nothing);
    call_finish(&h->call, &e);
}

// The code for a status whose body is no Connect error: that of a proxy, or of an overloaded node.
static enum err_code code_of_status(unsigned status)
{
    switch (status) {
    case 400:
        return ERR_INTERNAL;
    case 401:
        return ERR_UNAUTHENTICATED;
    case 403:
        return ERR_PERMISSION_DENIED;
    case 404:
        return ERR_UNIMPLEMENTED;
    case 429:
    case 502:
    case 503:
    case 504:
        return ERR_UNAVAILABLE;
    default:
        return ERR_UNKNOWN;
    }
}

// {"code":"...","message":"..."}; false if it is something else.
static bool error_of(str body, err *e)
{
    struct arena a;
    // Uncounted and small: errors of other nodes must be readable when memory is used up.
    arena_init(&a, NULL, ERROR_BODY_MAX);
    struct json_reader r;
    json_reader_init(&r, &a, str_slice(body, 0, ERROR_BODY_MAX));
    enum err_code code = ERR_OK;
    str message = {0};
    bool ok = json_next(&r) == JSON_OBJECT;
    enum json_token t = JSON_FAULT;
    while (ok && (t = json_next(&r)) == JSON_KEY) {
        bool is_code = str_is(r.text, "code");
        bool is_message = str_is(r.text, "message");
        if (!is_code && !is_message) {
            ok = json_skip(&r);
            continue;
        }
        ok = json_next(&r) == JSON_STRING;
        if (ok && is_code) code = err_code_of(r.text.p, r.text.n);
        if (ok && is_message) message = r.text;
    }
    ok = ok && t == JSON_OBJECT_END && code != ERR_OK;
    if (ok) err_set(e, code, "%.*s", STR(message));
    arena_release(&a);
    return ok;
}

static bool is_whole(struct http_call *h, err *e)
{
    str sum = http_headers_get(&h->answer_headers, PEER_SUM);
    struct arena a;
    arena_init(&a, NULL, 64);
    bool ok = str_eq(sum, peer_sum(&a, (str){0}, (str){0}, buf_view(&h->answer)));
    arena_release(&a);
    return ok || err_set(e, ERR_UNAVAILABLE, "%.*s at %.*s: the answer was damaged on the way",
                         STR(h->path), STR(h->address));
}

bool peer_answer(struct peer_call *c, str *message, err *e)
{
    struct http_call *h = &c->http;
    assert(message);
    if (!h->call.done || !h->call.ok) {
        *e = h->call.fault;
        if (!e->code) err_set(e, ERR_CANCELED, "the call did not end");
        return err_wrap(e, "%.*s at %.*s", STR(h->path), STR(h->address));
    }
    if (h->status == 200) {
        // Borrowed until peer_release.
        *message = buf_view(&h->answer);
        return is_whole(h, e);
    }
    str body = buf_view(&h->answer);
    if (error_of(body, e)) return false;
    return err_set(e, code_of_status(h->status), "%.*s at %.*s: status %u", STR(h->path),
                   STR(h->address), h->status);
}

bool peer_is_final(const struct peer_call *c)
{
    const struct http_call *h = &c->http;
    return h->call.done && h->call.ok && http_headers_has(&h->answer_headers, PEER_FINAL);
}

void peer_release(struct peer_call *c)
{
    http_call_release(&c->http);
}
