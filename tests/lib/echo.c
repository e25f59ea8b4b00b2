// SPDX-License-Identifier: Apache-2.0
#include "lib/echo.h"

static bool echo_version(void *self, struct http_exchange *x, str in, struct buf *out, err *e)
{
    (void)self;
    (void)x;
    (void)in;
    (void)e;
    pb_put_u64(out, 1, 1);
    return true;
}

static bool echo_names(void *self, struct http_exchange *x, str in, struct buf *out, err *e)
{
    (void)self;
    ProtobufCMessage *m =
        pb_unpack(&x->req.arena, &types__v1__label_names_request__descriptor, in, e);
    if (!m) return false;
    const Types__V1__LabelNamesRequest *r = (const Types__V1__LabelNamesRequest *)(void *)m;
    pb_put_bytes(out, 1, x->req.tenant);
    for (size_t i = 0; i < r->n_matchers; i++)
        pb_put_bytes(out, 1, pb_text(r->matchers[i]));
    return true;
}

static bool echo_fail(void *self, struct http_exchange *x, str in, struct buf *out, err *e)
{
    (void)self;
    struct pb_reader r = pb_reader(in);
    pb_put_bytes(out, 1, S("half an answer"));
    if (!pb_next(&r)) return true;
    str code = r.bytes;
    x->final = pb_next(&r);  // whatever comes second
    return err_set(e, err_code_of(code.p, code.n), "100%% \"wrong\"\n\xc3\xa9");
}

static bool echo_push(void *self, struct http_exchange *x, str in, struct buf *out, err *e)
{
    (void)self;
    (void)x;
    (void)in;
    (void)out;
    (void)e;
    return true;
}

static bool echo_raw(void *self, struct http_exchange *x, str in, struct buf *out, err *e)
{
    (void)self;
    (void)x;
    (void)e;
    buf_str(out, in);
    return true;
}

static bool echo_text(void *self, struct http_exchange *x, err *e)
{
    (void)self;
    (void)e;
    uint64_t n = 0;
    if (!str_u64(x->query, &n)) n = 3;
    route_header(x, "content-type", S("text/plain"));
    for (uint64_t i = 0; i < n; i++)
        buf_byte(&x->out, 'x');
    return true;
}

static bool echo_upload(void *self, struct http_exchange *x, err *e)
{
    (void)self;
    (void)e;
    x->fixed = buf_view(&x->body);
    return true;
}

static bool echo_broken(void *self, struct http_exchange *x, err *e)
{
    (void)self;
    route_header(x, "content-type", S("text/html"));
    buf_z(&x->out, "half an answer");
    return err_set(e, err_code_of(x->query.p, x->query.n), "broken \"thing\"");
}

static const struct rpc_method echo_rpc[] = {
    {"/t.v1.Echo/Version", &version__v1__version_request__descriptor,
     &version__v1__version_response__descriptor, echo_version, ROUTE_OPEN, RANK_PUBLIC, false,
     false, NULL},
    {"/t.v1.Echo/Names", &types__v1__label_names_request__descriptor,
     &types__v1__label_names_response__descriptor, echo_names, ROUTE_TENANT_READ, RANK_PUBLIC,
     false, false, NULL},
    {"/t.v1.Echo/Fail", &types__v1__label_names_request__descriptor,
     &types__v1__label_names_response__descriptor, echo_fail, ROUTE_OPEN, RANK_PUBLIC, false, false,
     NULL},
    {"/t.v1.Echo/Push", &push__v1__push_request__descriptor, &push__v1__push_response__descriptor,
     echo_push, ROUTE_TENANT_WRITE, RANK_PUBLIC, true, false, NULL},
    {"/t.v1.Echo/Raw", NULL, NULL, echo_raw, ROUTE_INTERNAL, RANK_INGESTER, false, false, NULL},
    {"/both", &version__v1__version_request__descriptor, &version__v1__version_response__descriptor,
     echo_version, ROUTE_OPEN, RANK_PUBLIC, false, false, NULL},
};

static const struct http_route echo_http[] = {
    {.verbs = "GET,HEAD",
     .path = "/text",
     .run = echo_text,
     .auth = ROUTE_OPEN,
     .rank = RANK_PUBLIC},
    {.verbs = "GET",
     .path = "/packed",
     .run = echo_text,
     .auth = ROUTE_OPEN,
     .rank = RANK_PUBLIC,
     .no_gzip = true},
    {.verbs = "GET", .path = "/fail", .run = echo_broken, .auth = ROUTE_OPEN, .rank = RANK_PUBLIC},
    {.verbs = "POST",
     .path = "/upload",
     .run = echo_upload,
     .auth = ROUTE_TENANT_WRITE,
     .rank = RANK_PUBLIC,
     .large_body = true},
    {.verbs = "PUT", .path = "/upload", .run = echo_text, .auth = ROUTE_OPEN, .rank = RANK_PUBLIC},
    {.verbs = "POST",
     .path = "/raw",
     .run = echo_upload,
     .auth = ROUTE_OPEN,
     .rank = RANK_PUBLIC,
     .raw_body = true},
    {.verbs = "GET",
     .path = "/static/",
     .prefix = true,
     .run = echo_text,
     .auth = ROUTE_OPEN,
     .rank = RANK_PUBLIC},
    {.verbs = "GET",
     .path = "/static/own/",
     .prefix = true,
     .run = echo_broken,
     .auth = ROUTE_OPEN,
     .rank = RANK_PUBLIC},
    {.verbs = "POST", .path = "/both", .run = echo_upload, .auth = ROUTE_OPEN, .rank = RANK_PUBLIC},
};

static size_t echo_large_body_max(void *arg, struct arena *a, str tenant)
{
    (void)arg;
    (void)a;
    return str_is(tenant, "small") ? 2000 : 5000;
}

struct router *echo_router(bool multitenancy)
{
    struct router_options o = {.multitenancy = multitenancy,
                               .body_max = 1000,
                               .large_body_max = echo_large_body_max,
                               .answer_max = 1 << 20};
    static struct lane *const lanes[RANK_COUNT];
    struct router *r = router_new(&o);
    router_add_rpc(r, echo_rpc, COUNT(echo_rpc), NULL, lanes);
    router_add_http(r, echo_http, COUNT(echo_http), NULL, lanes);
    return r;
}
