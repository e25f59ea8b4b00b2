// SPDX-License-Identifier: Apache-2.0
//
// admin.c - the pages for operators: readiness, metrics, settings, limits of tenants, routes.
#include "codec/json.h"
#include "codec/url.h"
#include "service/program.h"
#include "sys/metric.h"

#define READY_MAX_BYTES ((size_t)128 << 10)
#define PAGE_MAX_BYTES  ((size_t)8 << 20)

// Begins a page in the exchange's buf. If it does not fit the memory budget, the buf fails, and the
// caller of the route answers with an error.
static struct buf *page(struct http_exchange *x, unsigned status, str type)
{
    assert(status == 200 || status == 503);
    x->status = status;
    http_headers_add(&x->answer_headers, &x->req.arena, S("content-type"), type);
    buf_release(&x->out);
    buf_init(&x->out, x->req.arena.budget, PAGE_MAX_BYTES);
    return &x->out;
}

static void explain(const struct program *p, struct buf *out)
{
    for (size_t i = 0; i < p->unit_count; i++) {
        const struct unit *u = &p->units[i];
        if (!atomic_load_explicit(&u->started, memory_order_acquire)) {  // `self` is not set yet
            buf_printf(out, "%s not ready: starting\n", u->service->name);
            continue;
        }
        struct buf why;
        buf_init(&why, NULL, 1024);
        assert(u->service->ready);
        if (!u->service->ready(u->self, &why))
            buf_printf(out, "%s not ready: %.*s\n", u->service->name, STR(buf_view(&why)));
        buf_release(&why);
    }
}

bool admin_is_ready(struct program *p, struct buf *why)
{
    if (atomic_load(&p->state) == PROGRAM_DRAINING)
        buf_z(why, "draining\n");
    else
        explain(p, why);
    // All services may have started and routes not be published yet.
    if (why->n == 0 && atomic_load(&p->state) == PROGRAM_STARTING) buf_z(why, "starting\n");
    if (why->failed) {  // without memory *why may be empty, which would mean "ready"
        buf_clear(why);
        buf_z(why, "no memory to say whether it is ready\n");
    }
    return why->n == 0 && !why->failed;
}

void admin_ready_bare(struct program *p, struct http_exchange *x)
{
    struct buf why;
    buf_init(&why, NULL, READY_MAX_BYTES);
    bool ready = admin_is_ready(p, &why);
    buf_release(&why);
    x->status = ready ? 200 : 503;
    x->fixed = ready ? S("ready") : S("not ready");
}

void admin_ready(struct front *f, struct http_exchange *x)
{
    struct program *p = f->program;
    struct buf why;
    err e = {0};
    // A page of another site that makes a browser ask gets the status, and none of the names.
    bool tells = guard_check(&f->guard, x, &e);
    buf_init(&why, NULL, READY_MAX_BYTES);
    bool ready = admin_is_ready(p, &why);
    struct buf *out = page(x, ready ? 200 : 503, S("text/plain; charset=utf-8"));
    if (!ready) buf_str(out, tells ? buf_view(&why) : S("not ready"));
    buf_clear(&why);
    // The lines are cut if they are too long: the process is ready all the same.
    if (tells) notices_print(p->notices, &why);
    if (ready) buf_z(out, why.n ? "ready\n" : "ready");
    buf_str(out, buf_view(&why));
    buf_release(&why);
}

void admin_metrics(struct http_exchange *x)
{
    metric_print(page(x, 200, S("text/plain; version=0.0.4; charset=utf-8")));
}

static bool get_ready(void *self, struct http_exchange *x, err *e)
{
    admin_ready(self, x);
    return buf_ok(&x->out, e);
}

static bool get_metrics(void *self, struct http_exchange *x, err *e)
{
    (void)self;
    admin_metrics(x);
    return buf_ok(&x->out, e);
}

static bool get_config(void *self, struct http_exchange *x, err *e)
{
    const struct program *p = self;
    config_print(p->config, page(x, 200, S("text/plain; charset=utf-8")));
    return buf_ok(&x->out, e);
}

static bool get_config_diff(void *self, struct http_exchange *x, err *e)
{
    const struct program *p = self;
    return config_print_diff(p->config, page(x, 200, S("text/plain; charset=utf-8")), e);
}

static bool get_config_default(void *self, struct http_exchange *x, err *e)
{
    const struct program *p = self;
    return config_print_defaults(p->config, page(x, 200, S("text/plain; charset=utf-8")), e);
}

// The API has fields for which a C program has no value: they are empty.
static bool get_buildinfo(void *self, struct http_exchange *x, err *e)
{
    (void)self;
    struct buf *out = page(x, 200, S("application/json"));
    buf_z(out, "{\"status\":\"success\",\"data\":{\"version\":");
    json_put_string(out, str_of(service_version));
    buf_z(out, ",\"revision\":");
    json_put_string(out, str_of(service_revision));
    buf_z(out, ",\"branch\":\"\",\"buildUser\":\"\",\"buildDate\":\"\",\"goVersion\":\"\"}}");
    return buf_ok(out, e);
}

static bool get_runtime_config(void *self, struct http_exchange *x, err *e)
{
    const struct program *p = self;
    if (!tenants_configured(p->tenants)) {
        route_text(x, 404, S("404 page not found\n"));
        return true;
    }
    str mode = {0};
    bool diff = url_query(&x->req.arena, x->query, "mode", &mode) && str_is(mode, "diff");
    tenants_print(p->tenants, diff, page(x, 200, S("text/plain; charset=utf-8")));
    return buf_ok(&x->out, e);
}

// Pyroscope's page. Its 0 for series means that there is no such limit.
static bool get_tenant_limits(void *self, struct http_exchange *x, err *e)
{
    const struct program *p = self;
    if (!tenants_configured(p->tenants)) {
        route_text(x, 404, S("404 page not found\n"));
        return true;
    }
    const struct limits *l = tenant_limits(p->config, &x->req.arena, x->req.tenant);
    assert(l);
    buf_printf(page(x, 200, S("application/json")),
               "{\"ingestion_rate\":%.15g,\"ingestion_burst_size\":%.15g,"
               "\"max_global_series_per_user\":0}",
               l->ingestion_rate_mb, l->ingestion_burst_size_mb);
    return buf_ok(&x->out, e);
}

static bool get_routes(void *self, struct http_exchange *x, err *e)
{
    struct program *p = self;
    front_print_routes(&p->public, page(x, 200, S("text/plain; charset=utf-8")));
    return buf_ok(&x->out, e);
}

#define PAGE(path_, run_, auth_)                                                                  \
    {                                                                                             \
        .verbs = "GET,HEAD", .path = (path_), .run = (run_), .auth = (auth_), .rank = RANK_PUBLIC \
    }

const struct http_route admin_routes[] = {
    {.verbs = "GET,HEAD",
     .path = "/ready",
     .run = get_ready,
     .auth = ROUTE_OPEN,
     .rank = RANK_PUBLIC,
     .vital = true},
    {.verbs = "GET,HEAD",
     .path = "/metrics",
     .run = get_metrics,
     .auth = ROUTE_ADMIN,
     .rank = RANK_PUBLIC,
     .vital = true},
};
const size_t admin_route_count = COUNT(admin_routes);

const struct http_route admin_public_routes[] = {
    PAGE("/routes", get_routes, ROUTE_ADMIN),
    PAGE("/cluster", cluster_get, ROUTE_ADMIN),
    PAGE("/config", get_config, ROUTE_ADMIN),
    PAGE("/api/v1/status/config", get_config, ROUTE_ADMIN),
    PAGE("/api/v1/status/config/diff", get_config_diff, ROUTE_ADMIN),
    PAGE("/api/v1/status/config/default", get_config_default, ROUTE_ADMIN),
    PAGE("/api/v1/status/buildinfo", get_buildinfo, ROUTE_OPEN),
    PAGE("/runtime_config", get_runtime_config, ROUTE_ADMIN),
    {.verbs = "GET,HEAD",
     .path = "/api/v1/tenant_limits",
     .run = get_tenant_limits,
     .auth = ROUTE_TENANT_READ,
     .rank = RANK_PUBLIC},
};
const size_t admin_public_route_count = COUNT(admin_public_routes);
