// SPDX-License-Identifier: Apache-2.0
//
// front.c - what a listener answers before there are routes: it is open early, so that /ready tells
// how the start goes. Afterwards requests go to the router, and only a refused /ready comes back
// here. /live is answered here at all times: its question is whether the process runs, and an
// answer from the loop, without a lane, a lock or memory, says so and nothing else.
#include "service/program.h"

static struct router *router_of(const struct front *f)
{
    // Acquire: a thread that sees the router sees its tables and the services behind it.
    return atomic_load_explicit(&f->router, memory_order_acquire);
}

// The path without the prefix of server.path_prefix. A path that has none is as it is: who reaches
// this process without the proxy needs no prefix. An address of ours may itself begin with the
// prefix, as /pyroscope/render does with /pyroscope: it is meant if nothing of ours is below.
static str path_within(const struct front *f, str path)
{
    if (f->prefix.n == 0 || !str_starts(path, f->prefix)) return path;
    str rest = str_slice(path, f->prefix.n, path.n);
    if (rest.n == 0) return rest;
    if (rest.p[0] != '/') return path;
    const struct router *r = router_of(f);
    return r && !router_has(r, rest) && router_has(r, path) ? path : rest;
}

// The page asks for its parts beside itself, so its path has to end with the '/'.
static void answer_moved(const struct front *f, struct http_exchange *x)
{
    x->status = 308;
    http_headers_add(&x->answer_headers, &x->req.arena, S("location"),
                     arena_printf(&x->req.arena, "%.*s/%s%.*s", STR(f->prefix),
                                  x->query.n ? "?" : "", STR(x->query)));
}

static void answer_starting(struct http_exchange *x, unsigned status, enum err_code code,
                            const char *message)
{
    http_headers_add(&x->answer_headers, &x->req.arena, S("retry-after"), S("1"));
    route_error(x, status, code, message);
}

static bool asks_live(const struct front *f, const struct http_exchange *x)
{
    return str_is(path_within(f, x->path), "/live") &&
           (str_is(x->method, "GET") || str_is(x->method, "HEAD"));
}

static void answer_live(struct http_exchange *x)
{
    x->status = 200;
    x->fixed = S("live\n");
}

// Before there are routes, everything is answered from the head: no body is read, no lane is used.
static enum head_verdict head(void *self, struct http_exchange *x)
{
    struct front *f = self;
    struct router *r = router_of(f);
    if (asks_live(f, x)) {
        answer_live(x);
        return HEAD_ANSWERED;
    }
    str within = path_within(f, x->path);
    if (within.n == 0) {
        answer_moved(f, x);
        return HEAD_ANSWERED;
    }
    if (within.n < x->path.n) x->prefix = f->prefix;
    x->path = within;
    if (r) {
        struct server_app app = router_app(r);
        return app.head(app.self, x);
    }
    err e = {0};
    // Supervisors ask from the first second on, and a start may take minutes.
    if (str_is(x->path, "/ready"))
        admin_ready(f, x);
    else if (str_is(x->path, "/metrics") && f->tells_all && guard_check(&f->guard, x, &e))
        admin_metrics(x);
    else
        answer_starting(x, 503, ERR_UNAVAILABLE, "starting");
    return HEAD_ANSWERED;
}

static void run_route(void *self, struct http_exchange *x)
{
    struct router *r = router_of(self);
    assert(r);  // its head came through the router, which stays once published
    struct server_app app = router_app(r);
    app.run(app.self, x);
}

static bool vital(void *self, const struct http_exchange *x)
{
    const struct front *f = self;
    struct router *r = router_of(self);
    str path = path_within(f, x->path);
    if (asks_live(f, x)) return true;
    if (!r) return str_is(path, "/ready") || str_is(path, "/metrics");
    struct server_app app = router_app(r);
    if (path.n == x->path.n) return app.vital(app.self, x);
    struct http_exchange inner = *x;
    inner.path = path;
    return app.vital(app.self, &inner);
}

// A supervisor takes a refused /ready for a sick process and restarts it, just when there is much
// to do. So it is never refused for lack of memory or of a place in the lane.
static bool must_tell(struct front *f, const struct http_exchange *x)
{
    return x->status == 429 && str_is(path_within(f, x->path), "/ready") && vital(f, x);
}

static void refuse(void *self, struct http_exchange *x, const err *e)
{
    struct front *f = self;
    struct router *r = router_of(f);
    assert(e->code != ERR_OK && x->status >= 400);
    if (x->status == 429 && asks_live(f, x)) {
        answer_live(x);
        return;
    }
    if (must_tell(f, x)) {
        admin_ready_bare(f->program, x);
        return;
    }
    if (!r) {
        answer_starting(x, err_http_status(e->code), e->code, e->msg);
        return;
    }
    struct server_app app = router_app(r);
    app.refuse(app.self, x, e);
}

struct server_app front_app(struct front *f)
{
    return (struct server_app){
        .self = f, .head = head, .run = run_route, .refuse = refuse, .vital = vital};
}

void front_print_routes(struct front *f, struct buf *out)
{
    const struct router *r = router_of(f);
    if (r) router_print(r, out);
}

void front_publish(struct front *f, struct router *r)
{
    assert(r && !router_of(f));
    atomic_store_explicit(&f->router, r, memory_order_release);
}
