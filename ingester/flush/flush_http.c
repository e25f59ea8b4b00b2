// SPDX-License-Identifier: Apache-2.0
//
// flush_http.c - POST /ingester/flush and GET /ingester/cuts, on the public listener.
#include "codec/url.h"
#include "ingester/flush/flush.h"
#include "ingester/ingester_int.h"

#include <inttypes.h>

#define PAGE_MAX_BYTES ((size_t)16 << 20)

static struct buf *page(struct http_exchange *x, unsigned status)
{
    x->status = status;
    http_headers_add(&x->answer_headers, &x->req.arena, S("content-type"), S("application/json"));
    buf_release(&x->out);
    buf_init(&x->out, x->req.arena.budget, PAGE_MAX_BYTES);
    return &x->out;
}

static bool has_store(const struct ingester *in, err *e)
{
    return in->flush || err_set(e, ERR_FAILED_PRECONDITION,
                                "there is no object store: profiles stay in the ingester");
}

bool ingester_get_cuts(void *service, struct http_exchange *x, err *e)
{
    struct ingester *in = service;
    if (!has_store(in, e)) return false;
    flush_print(in->flush, page(x, 200));
    return buf_ok(&x->out, e);
}

bool ingester_post_flush(void *service, struct http_exchange *x, err *e)
{
    struct ingester *in = service;
    struct flush_totals done = {0};
    str wait = {0};
    bool given = url_query(&x->req.arena, x->query, "wait", &wait);
    if (given && !str_is(wait, "true") && !str_is(wait, "false")) {
        return err_set(e, ERR_INVALID_ARGUMENT, "wait is '%.*s', must be true or false", STR(wait));
    }
    bool waits = !given || str_is(wait, "true");
    if (!has_store(in, e) || !flush_now(in->flush, &x->req, waits, &done, e)) return false;
    struct buf *out = page(x, waits ? 200 : 202);
    if (waits) {
        buf_printf(out,
                   "{\"cuts\":%" PRIu64 ",\"segments\":%" PRIu64 ",\"rows\":%" PRIu64
                   ",\"bytes\":%" PRIu64 "}\n",
                   done.cuts, done.segments, done.rows, done.bytes);
    } else {
        buf_z(out, "{\"begun\":true}\n");
    }
    return buf_ok(out, e);
}
