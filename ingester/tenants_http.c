// SPDX-License-Identifier: Apache-2.0
//
// tenants_http.c - GET /ingester/tenants, on the public listener: which tenants have how much of
// the head, and how much of it they may have. Metrics have no tenants, whose number has no bound.
#include "codec/json.h"
#include "ingester/ingester_int.h"
#include "service/settings.h"

#include <inttypes.h>

#define PAGE_MAX_BYTES ((size_t)16 << 20)

// Tenants that are told, those with the most bytes; all are counted.
#define TENANTS_TOLD 100

// `a`: of the limits, which are released with it.
static void put_tenant(const struct ingester *in, struct arena *a, const struct head_tenant *t,
                       struct buf *out)
{
    const struct config *config = in->process->config;
    const struct auth_settings *auth = config_section(config, "auth");
    const struct limits *limits = tenant_limits(config, a, t->name);
    double share = auth->multitenancy_enabled ? limits->ingester_head_share : 0;
    double most = (double)ingester_settings(in)->head_memory * (share > 0 ? share : 1);
    buf_z(out, "{\"tenant\":");
    json_put_string(out, t->name);
    buf_printf(out,
               ",\"bytes\":%zu,\"share_bytes\":%.0f,\"services\":%" PRIu32
               ",\"active_series\":%" PRIu64 ",\"max_series\":%" PRId64 "}",
               t->bytes, most, t->services, t->series, limits->max_local_series_per_tenant);
}

bool ingester_get_tenants(void *service, struct http_exchange *x, err *e)
{
    struct ingester *in = service;
    struct arena *a = &x->req.arena;
    const struct mem_budget *b = head_budget(in->head);
    struct head_tenant *v = NULL;
    size_t n = 0;
    if (!head_tenants(in->head, a, &v, &n, e)) return false;
    x->status = 200;
    http_headers_add(&x->answer_headers, a, S("content-type"), S("application/json"));
    buf_release(&x->out);
    buf_init(&x->out, a->budget, PAGE_MAX_BYTES);
    buf_printf(&x->out, "{\"bytes\":%zu,\"limit_bytes\":%" PRIu64 ",\"count\":%zu,\"tenants\":[",
               atomic_load_explicit(&b->used, memory_order_relaxed),
               (uint64_t)ingester_settings(in)->head_memory, n);
    for (size_t i = 0; i < MIN(n, (size_t)TENANTS_TOLD); i++) {
        if (i > 0) buf_byte(&x->out, ',');
        put_tenant(in, a, &v[i], &x->out);
    }
    buf_z(&x->out, "]}\n");
    return buf_ok(&x->out, e);
}
