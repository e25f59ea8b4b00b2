// SPDX-License-Identifier: Apache-2.0
#include "querier/request/page.h"

#include "querier/metrics.h"
#include "querier/request/assets.h"

static void put_header(struct http_exchange *x, const char *name, str value)
{
    http_headers_add(&x->answer_headers, &x->req.arena, str_of(name), value);
}

// If-None-Match: a list of tags, weak or not, or *.
static bool has_tag(str header, str etag)
{
    while (header.p) {
        str tag = str_trim(str_split(header, ',', &header));
        if (str_starts(tag, S("W/"))) tag = str_slice(tag, 2, tag.n);
        if (str_eq(tag, etag) || str_eq(tag, S("*"))) return true;
    }
    return false;
}

static void serve(struct http_exchange *x, const struct asset *file)
{
    metric_add(&querier_page_requests, 1);
    str etag = str_of(file->etag);
    put_header(x, "etag", etag);
    put_header(x, "cache-control",
               file->immutable ? S("public, max-age=31536000, immutable") : S("no-cache"));
    put_header(x, "x-content-type-options", S("nosniff"));
    if (file->gzip) put_header(x, "vary", S("Accept-Encoding"));
    if (has_tag(http_headers_get(&x->headers, "if-none-match"), etag)) {
        x->status = 304;
        return;
    }
    x->status = 200;
    put_header(x, "content-type", str_of(file->content_type));
    bool packed =
        file->gzip && route_accepts(http_headers_get(&x->headers, "accept-encoding"), S("gzip"));
    if (packed) put_header(x, "content-encoding", S("gzip"));
    x->fixed = packed ? str_make(file->gzip, file->gzip_size) : str_make(file->bytes, file->size);
}

bool page_index(void *service, struct http_exchange *x, err *e)
{
    (void)service;
    const struct asset *file = asset_find("/", 1);
    if (!file) return err_set(e, ERR_NOT_FOUND, "this program was built without the page");
    put_header(x, "content-security-policy", S(ASSET_CONTENT_SECURITY_POLICY));
    put_header(x, "referrer-policy", S("same-origin"));
    serve(x, file);
    return arena_ok(&x->req.arena, e);
}

bool page_for_browsers(void *service, struct http_exchange *x, err *e)
{
    if (route_accepts(http_headers_get(&x->headers, "accept"), S("text/html")))
        return page_index(service, x, e);
    route_text(x, 404, S("404 page not found\n"));
    return arena_ok(&x->req.arena, e);
}

bool page_asset(void *service, struct http_exchange *x, err *e)
{
    (void)service;
    const struct asset *file = asset_find(x->path.p, x->path.n);
    if (file) {
        serve(x, file);
    } else {
        route_text(x, 404, S("404 page not found\n"));
    }
    return arena_ok(&x->req.arena, e);
}

bool page_without_losses(void *service, struct http_exchange *x, err *e)
{
    (void)service;
    if (!str_is(x->path, "/distributor/losses")) {
        route_text(x, 404, S("404 page not found\n"));
        return arena_ok(&x->req.arena, e);
    }
    x->status = 200;
    put_header(x, "content-type", S("application/json"));
    x->fixed =
        S("{\"losses\":null,\"note\":\"What is refused, left out or mended is counted by each "
          "distributor, at /distributor/losses and in flametree_distributor_discarded_*; this "
          "process has none.\"}\n");
    return arena_ok(&x->req.arena, e);
}

bool page_redirect(void *service, struct http_exchange *x, err *e)
{
    (void)service;
    x->status = 302;
    put_header(x, "location",
               x->prefix.n ? arena_printf(&x->req.arena, "%.*s/", STR(x->prefix)) : S("/"));
    return arena_ok(&x->req.arena, e);
}
