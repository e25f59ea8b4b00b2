// SPDX-License-Identifier: Apache-2.0
//
// stream_http.c - on the public listener:
//
//     GET  /ingester/streams              those that are registered
//     POST /ingester/streams/forget       a person gives some up
//     GET  /ingester/streams/forgotten    those that were given up
//     POST /ingester/streams/recover      takes the log of one into the store (aside.h),
//     POST /ingester/streams/remove       or removes it
#include "codec/url.h"
#include "ingester/aside.h"
#include "ingester/forget.h"
#include "ingester/ingester_int.h"
#include "ingester/streams.h"

#include <inttypes.h>

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
    return in->streams || err_set(e, ERR_FAILED_PRECONDITION,
                                  "there is no object store, so no streams are registered");
}

bool ingester_get_streams(void *service, struct http_exchange *x, err *e)
{
    struct ingester *in = service;
    return has_store(in, e) && streams_print(in->streams, &x->req, page(x), e);
}

// An id in the query; *given says whether it is there.
static bool read_id(struct http_exchange *x, const char *key, id128 *id, bool *given, err *e)
{
    str text = {0};
    *given = url_query(&x->req.arena, x->query, key, &text);
    return !*given || ulid_parse(text, id, e) || err_wrap(e, "%s", key);
}

// Asked for in so many words: these requests give up data.
static bool accepts_loss(struct http_exchange *x, err *e)
{
    str accept = {0};
    if (url_query(&x->req.arena, x->query, "accept_loss", &accept) && str_is(accept, "true"))
        return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "accept_loss=true is missing: profiles of the stream that are not in the store "
                   "are lost with it");
}

bool ingester_post_forget(void *service, struct http_exchange *x, err *e)
{
    struct ingester *in = service;
    struct forget what = {0};
    id128 stream = {0};
    id128 directory = {0};
    bool has_stream = false;
    bool has_directory = false;
    size_t n = 0;
    if (!has_store(in, e) || !read_id(x, "stream", &stream, &has_stream, e) ||
        !read_id(x, "directory", &directory, &has_directory, e)) {
        return false;
    }
    bool has_node = url_query(&x->req.arena, x->query, "node", &what.node) && what.node.n;
    if (has_stream == has_node) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "give stream=ULID or node=ID, the id of an ingester");
    }
    if (!accepts_loss(x, e)) return false;
    if (has_stream) what.stream = &stream;
    if (has_directory) what.directory = &directory;
    if (!streams_forget(in->streams, &x->req, &what, &n, e)) return false;
    buf_printf(page(x), "{\"forgotten\":%zu}\n", n);
    return buf_ok(&x->out, e);
}

// ---- what was forgotten

bool ingester_get_forgotten(void *service, struct http_exchange *x, err *e)
{
    struct ingester *in = service;
    return has_store(in, e) && aside_print(in, &x->req, page(x), e);
}

static bool read_stream(struct http_exchange *x, id128 *stream, err *e)
{
    bool given = false;
    return read_id(x, "stream", stream, &given, e) &&
           (given || err_set(e, ERR_INVALID_ARGUMENT, "stream=ULID is missing"));
}

bool ingester_post_recover(void *service, struct http_exchange *x, err *e)
{
    struct ingester *in = service;
    struct aside_recovered done = {0};
    id128 stream = {0};
    if (!has_store(in, e) || !read_stream(x, &stream, e) ||
        !aside_recover(in, &x->req, stream, &done, e))
        return false;
    buf_printf(page(x),
               "{\"segments\":%" PRIu64 ",\"rows\":%" PRIu64 ",\"deleted\":%" PRIu64
               ",\"lost\":%" PRIu64 "}\n",
               done.segments, done.rows, done.deleted, done.lost);
    return buf_ok(&x->out, e);
}

bool ingester_post_remove(void *service, struct http_exchange *x, err *e)
{
    struct ingester *in = service;
    id128 stream = {0};
    if (!has_store(in, e) || !read_stream(x, &stream, e) || !accepts_loss(x, e) ||
        !aside_remove(in, &x->req, stream, e))
        return false;
    buf_z(page(x), "{\"removed\":true}\n");
    return buf_ok(&x->out, e);
}
