// SPDX-License-Identifier: Apache-2.0
#include "compactor/compactor.h"

#include "codec/url.h"
#include "compactor/closing.h"
#include "compactor/config.h"
#include "compactor/deletion.h"
#include "compactor/duties.h"
#include "compactor/import.h"
#include "compactor/metrics.h"
#include "compactor/work.h"
#include "service/html.h"
#include "sys/clock.h"

#include <inttypes.h>

#define PAGE_MAX_BYTES ((size_t)8 << 20)
#define RUN_DEFAULT_NS (60 * NS_PER_S)

static const struct config_row rows[] = {
#define ROW(...) CONFIG_ROW(struct compactor_config, __VA_ARGS__)
#include "compactor/config.def"
#undef ROW
};
const struct config_section compactor_section =
    CONFIG_SECTION("compactor", rows, struct compactor_config);

struct state {
    struct work *work;
    struct importer *importer;
};

// ---- life

static size_t backlog(void *self, struct service_backlog out[SERVICE_BACKLOG_MAX])
{
    const struct state *s = self;
    out[0] = (struct service_backlog){.what = "due_jobs"};
    out[1] = (struct service_backlog){.what = "bytes_to_read"};
    out[2] = (struct service_backlog){.what = "failing_jobs"};
    work_backlog(s->work, &out[0].n, &out[1].n, &out[2].n);
    return 3;
}

static void set_gauges(void *arg)
{
    struct state *s = arg;
    size_t n = 0;
    const struct duty *all = duties_list(&n);
    int64_t count[DUTY_STATES] = {0};
    for (size_t i = 0; i < n; i++)
        count[duty_state(&all[i], work_is_on(s->work))]++;
    for (size_t i = 0; i < DUTY_STATES; i++)
        metric_set_to(&compactor_duties, str_of(duty_state_name((enum duty_state)i)), count[i]);
    work_gauges(s->work);
}

static bool start(const struct process *process, void **self, err *e)
{
    struct state *s = mem_must(sizeof *s);
    s->work = work_new(process, e);
    if (!s->work) {
        mem_must_free(s);
        return false;
    }
    s->importer = importer_new(process, s->work);
    metric_on_print(set_gauges, s);
    *self = s;
    return true;
}

static bool ready(void *self, struct buf *why)
{
    (void)self;
    (void)why;
    return true;  // nothing is asked of it that it could not answer
}

static void draining(void *self)
{
    const struct state *s = self;
    work_call_off(s->work);
}

static void drain(void *self, uint64_t deadline_mono_ns)
{
    struct state *s = self;
    (void)deadline_mono_ns;  // jobs are called off: what they made is of no use, nothing is lost
    work_drain(s->work);
}

static void stop(void *self)
{
    struct state *s = self;
    metric_off_print(set_gauges, s);
    work_drain(s->work);
    importer_free(s->importer);
    work_free(s->work);
    mem_must_free(s);
}

// ---- routes

static struct buf *page(struct http_exchange *x, str type)
{
    x->status = 200;
    http_headers_add(&x->answer_headers, &x->req.arena, S("content-type"), type);
    buf_release(&x->out);
    buf_init(&x->out, x->req.arena.budget, PAGE_MAX_BYTES);
    return &x->out;
}

static bool get_duties(void *self, struct http_exchange *x, err *e)
{
    const struct state *s = self;
    duties_print(page(x, S("application/json")), work_is_on(s->work));
    return buf_ok(&x->out, e);
}

static bool get_status(void *self, struct http_exchange *x, err *e)
{
    const struct state *s = self;
    work_print_json(s->work, page(x, S("application/json")));
    return buf_ok(&x->out, e);
}

static bool get_page(void *self, struct http_exchange *x, err *e)
{
    const struct state *s = self;
    work_print_page(s->work, page(x, S("text/html; charset=utf-8")));
    http_headers_add(&x->answer_headers, &x->req.arena, S("content-security-policy"),
                     S(HTML_POLICY));
    return buf_ok(&x->out, e);
}

static bool read_sweep(struct http_exchange *x, bool *sweep, err *e)
{
    str text = {0};
    bool given = url_query(&x->req.arena, x->query, "sweep", &text);
    *sweep = given && str_is(text, "true");
    if (!given || *sweep || str_is(text, "false")) return true;
    return err_set(e, ERR_INVALID_ARGUMENT, "sweep is '%.*s', must be true or false", STR(text));
}

// ?timeout=60s, ?sweep=true: see work_run.
static bool post_run(void *self, struct http_exchange *x, err *e)
{
    const struct state *s = self;
    struct work_done done;
    str text = {0};
    int64_t timeout = RUN_DEFAULT_NS;
    bool sweep = false;
    if (url_query(&x->req.arena, x->query, "timeout", &text) && !config_duration(text, &timeout, e))
        return err_wrap(e, "timeout");
    if (!read_sweep(x, &sweep, e)) return false;
    uint64_t until = clock_mono_ns() + (uint64_t)MAX(timeout, 0);
    uint64_t before = x->req.deadline_mono_ns;
    if (before == 0 || until < before) x->req.deadline_mono_ns = until;
    bool ok = work_run(s->work, &x->req, sweep, &done, e);
    x->req.deadline_mono_ns = before;
    if (!ok) return false;
    work_print_done(&done, page(x, S("application/json")));
    return buf_ok(&x->out, e);
}

static bool get_deletions(void *self, struct http_exchange *x, err *e)
{
    const struct state *s = self;
    str tenant = {0};
    if (!deletion_tenant(x, &tenant, e)) return false;
    struct buf *out = page(x, S("application/json"));
    return work_print_deletions(s->work, &x->req, tenant, out, e) && buf_ok(out, e);
}

static bool post_delete(void *self, struct http_exchange *x, err *e)
{
    const struct state *s = self;
    struct manifest_tombstone t = {0};
    str tenant = {0};
    if (!deletion_tenant(x, &tenant, e) || !deletion_read(x, clock_wall_ns(), &t, e)) return false;
    if (!work_delete(s->work, &x->req, tenant, &t, e)) return false;
    deletion_print(&t, page(x, S("application/json")));
    return buf_ok(&x->out, e);
}

// ?tenant=NAME, which must be given.
static bool post_delete_tenant(void *self, struct http_exchange *x, err *e)
{
    const struct state *s = self;
    struct manifest_tombstone t = {0};
    str tenant = {0};
    if (!url_query(&x->req.arena, x->query, "tenant", &tenant))
        return err_set(e, ERR_INVALID_ARGUMENT, "tenant is missing: the tenant to be deleted");
    if (!deletion_tenant(x, &tenant, e) || !closing_begin(s->work, &x->req, tenant, &t, e))
        return false;
    deletion_print(&t, page(x, S("application/json")));
    return buf_ok(&x->out, e);
}

static bool post_import(void *self, struct http_exchange *x, err *e)
{
    const struct state *s = self;
    return importer_post(s->importer, x, e);
}

#define GET(path_, run_)                                                          \
    {                                                                             \
        .verbs = "GET,HEAD", .path = (path_), .run = (run_), .auth = ROUTE_ADMIN, \
        .rank = RANK_PUBLIC                                                       \
    }

static const struct http_route public_http[] = {
    GET("/compactor", get_page),
    GET("/compactor/duties", get_duties),
    GET("/compactor/status", get_status),
    GET("/compactor/deletions", get_deletions),
    {.verbs = "POST",
     .path = "/compactor/delete",
     .run = post_delete,
     .auth = ROUTE_ADMIN,
     .rank = RANK_PUBLIC},
    {.verbs = "POST",
     .path = "/compactor/delete-tenant",
     .run = post_delete_tenant,
     .auth = ROUTE_ADMIN,
     .rank = RANK_PUBLIC},
    {.verbs = "POST",
     .path = "/compactor/run",
     .run = post_run,
     .auth = ROUTE_ADMIN,
     .rank = RANK_PUBLIC},
    {.verbs = "POST",
     .path = "/compactor/import",
     .run = post_import,
     .auth = ROUTE_ADMIN,
     .rank = RANK_PUBLIC,
     .large_body = true},
};

const struct service compactor = {
    .name = "compactor",
    .config = &compactor_section,
    .metrics = compactor_metrics,
    .metric_count = &compactor_metric_count,
    .public_http = public_http,
    .public_http_count = COUNT(public_http),
    .writes_objects = true,
    .start = start,
    .ready = ready,
    .backlog = backlog,
    .draining = draining,
    .drain = drain,
    .stop = stop,
    .lane_width = {[RANK_PUBLIC] = 3},  // a run that somebody waits for, an import, and pages
};
