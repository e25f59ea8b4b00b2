// SPDX-License-Identifier: Apache-2.0
//
// node_http.c - GET /ingester/nodes and POST /ingester/nodes/forget, on the public listener.
#include "codec/url.h"
#include "ingester/holdings.h"
#include "ingester/ingester_int.h"

#define PAGE_MAX_BYTES ((size_t)16 << 20)

static struct buf *page(struct http_exchange *x)
{
    x->status = 200;
    http_headers_add(&x->answer_headers, &x->req.arena, S("content-type"), S("application/json"));
    // The router's buffer has the limit of messages, a page may be longer.
    buf_release(&x->out);
    buf_init(&x->out, x->req.arena.budget, PAGE_MAX_BYTES);
    return &x->out;
}

static bool has_store(const struct ingester *in, err *e)
{
    return in->holdings ||
           err_set(e, ERR_FAILED_PRECONDITION,
                   "there is no object store, so former data directories are not known");
}

bool ingester_get_nodes(void *service, struct http_exchange *x, err *e)
{
    struct ingester *in = service;
    return has_store(in, e) && holdings_print(in->holdings, &x->req, page(x), e);
}

bool ingester_post_forget(void *service, struct http_exchange *x, err *e)
{
    struct ingester *in = service;
    struct arena *a = &x->req.arena;
    str node = {0};
    str text = {0};
    str accept = {0};
    id128 directory = {0};
    size_t n = 0;
    bool one = url_query(a, x->query, "directory", &text);
    if (!has_store(in, e)) return false;
    if (!url_query(a, x->query, "node", &node) || node.n == 0)
        return err_set(e, ERR_INVALID_ARGUMENT, "node=ID is missing: the id of an ingester");
    // Asked for in so many words: this is the one request that gives up data.
    if (!url_query(a, x->query, "accept_loss", &accept) || !str_is(accept, "true")) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "accept_loss=true is missing: profiles that the data directory had not "
                       "flushed to the store are lost with it");
    }
    if (one && !ulid_parse(text, &directory, e)) return err_wrap(e, "directory");
    if (!holdings_forget(in->holdings, &x->req, node, one ? &directory : NULL, &n, e)) return false;
    buf_printf(page(x), "{\"forgotten\":%zu}\n", n);
    return buf_ok(&x->out, e);
}
