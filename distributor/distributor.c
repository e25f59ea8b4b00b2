// SPDX-License-Identifier: Apache-2.0
//
// distributor.c - the service: its rows, its routes, and what it opens and closes.
#include "distributor/distributor.h"

#include "distributor/explain.h"
#include "distributor/ingest.h"
#include "distributor/loss_page.h"
#include "distributor/metrics.h"
#include "distributor/otlp.h"
#include "distributor/parca.h"
#include "distributor/push.h"
#include "distributor/state.h"
#include "parca/debuginfo/v1alpha1/debuginfo.pb-c.h"
#include "parca/profilestore/v1alpha1/profilestore.pb-c.h"
#include "push/v1/push.pb-c.h"
#include "service/settings.h"
#include "service/values.h"
#include "sys/clock.h"

#include <limits.h>
#include <stdio.h>

static const struct config_row config_rows[] = {
#define ROW(...) CONFIG_ROW(struct distributor_config, __VA_ARGS__)
#include "distributor/config.def"
#undef ROW
};

static const struct config_section section =
    CONFIG_SECTION("distributor", config_rows, struct distributor_config);

// The rows of OTLP come last, as its own listeners have only these.
static const struct rpc_method methods[] = {
    {.path = "/push.v1.PusherService/Push",
     .in = &push__v1__push_request__descriptor,
     .out = &push__v1__push_response__descriptor,
     .run = push_run,
     .refused = push_refused,
     .auth = ROUTE_TENANT_WRITE,
     .rank = RANK_PUBLIC,
     .large_body = true},
    {.path = "/parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw",
     .in = &parca__profilestore__v1alpha1__write_raw_request__descriptor,
     .out = &parca__profilestore__v1alpha1__write_raw_response__descriptor,
     .run = parca_write_run,
     .refused = parca_refused,
     .auth = ROUTE_TENANT_WRITE,
     .rank = RANK_PUBLIC,
     .large_body = true},
    {.path = "/parca.debuginfo.v1alpha1.DebuginfoService/ShouldInitiateUpload",
     .in = &parca__debuginfo__v1alpha1__should_initiate_upload_request__descriptor,
     .out = &parca__debuginfo__v1alpha1__should_initiate_upload_response__descriptor,
     .run = parca_upload_run,
     .auth = ROUTE_OPEN,
     .rank = RANK_PUBLIC},
    // Without descriptors: the layout is told from the bytes, and JSON has a form of its own.
    {.path = OTLP_EXPORT,
     .run = otlp_grpc_run,
     .refused = otlp_refused,
     .auth = ROUTE_TENANT_WRITE,
     .rank = RANK_PUBLIC,
     .large_body = true,
     .checks_wire = true},
};

#define INGEST(path_)                                                                    \
    {                                                                                    \
        .verbs = "POST", .path = (path_), .run = ingest_run, .auth = ROUTE_TENANT_WRITE, \
        .rank = RANK_PUBLIC, .large_body = true, .no_gzip = true, .raw_body = true,      \
        .refused = ingest_refused                                                        \
    }

#define OTLP(path_)                                                                         \
    {                                                                                       \
        .verbs = "POST", .path = (path_), .run = otlp_http_run, .auth = ROUTE_TENANT_WRITE, \
        .rank = RANK_PUBLIC, .large_body = true, .no_gzip = true, .raw_body = true,         \
        .too_large = otlp_too_large, .refused = otlp_refused                                \
    }

static const struct http_route routes[] = {
    {.verbs = "GET,HEAD",
     .path = "/distributor/place",
     .run = explain_place,
     .auth = ROUTE_ADMIN,
     .rank = RANK_PUBLIC},
    {.verbs = "GET,HEAD",
     .path = "/distributor/losses",
     .run = loss_page_get,
     .auth = ROUTE_TENANT_READ,
     .rank = RANK_PUBLIC},
    INGEST("/ingest"),
    INGEST("/pyroscope/ingest"),
    OTLP("/v1development/profiles"),
    OTLP(OTLP_EXPORT),
};

// ---- listeners of OTLP

#define OTLP_METHODS 1
#define OTLP_ROUTES  2

static const char *grpc_address(const struct config *c)
{
    const struct distributor_config *d = config_section(c, "distributor");
    return d->otlp_grpc_address;
}

static const char *http_address(const struct config *c)
{
    const struct distributor_config *d = config_section(c, "distributor");
    return d->otlp_http_address;
}

#define LISTENER(name_, address_)                                                \
    {                                                                            \
        .name = "otlp_" name_, .setting = "distributor.otlp_" name_ "_address",  \
        .address = (address_), .rpc = methods + COUNT(methods) - OTLP_METHODS,   \
        .rpc_count = OTLP_METHODS, .http = routes + COUNT(routes) - OTLP_ROUTES, \
        .http_count = OTLP_ROUTES                                                \
    }

static const struct service_listener listeners[] = {LISTENER("grpc", grpc_address),
                                                    LISTENER("http", http_address)};

static bool check_address(const char *key, const char *address, err *e)
{
    return !address[0] || values_address(str_of(address), true, e) ||
           err_wrap(e, "distributor.%s", key);
}

static bool check(const struct config *c, err *e)
{
    return check_address("otlp_grpc_address", grpc_address(c), e) &&
           check_address("otlp_http_address", http_address(c), e);
}

// ---- life

static void set_gauges(void *arg)
{
    struct distributor_state *d = arg;
    struct lexicon_facts f = lexicons_facts(&d->lexicons);
    metric_set(&distributor_lexicons, (int64_t)f.count);
    metric_set(&distributor_lexicon_bytes, (int64_t)f.bytes);
    metric_mirror(&distributor_lexicons_opened, f.opened);
    metric_mirror(&distributor_lexicons_refused, f.refused);
    metric_mirror(&distributor_lexicons_evicted, f.evicted);
    metric_mirror(&distributor_lexicons_full, f.full);
}

// The all-in-one without a list has one ingester for ever.
static bool open_settle(struct distributor_state *d, err *e)
{
    const struct process *p = d->process;
    const struct cluster_settings *c = config_section(p->config, "cluster");
    char path[PATH_MAX];
    if (p->all_in_one && c->ingesters.n == 0) return true;
    snprintf(path, sizeof path, "%s/members", p->data_dir);
    return settle_open(path, (uint64_t)c->settle_time, clock_mono_ns(), &d->settle, e);
}

static bool start(const struct process *process, void **self, err *e)
{
    struct distributor_state *d = mem_must(sizeof *d);
    d->process = process;
    d->begun_wall_ns = clock_wall_ns();
    if (!open_settle(d, e)) {
        mem_must_free(d);
        return false;
    }
    rates_init(&d->rates);
    spread_init(&d->spread);
    quota_init(&d->samplers);
    refusals_init(&d->refusals);
    const struct distributor_config *c = config_section(process->config, "distributor");
    lexicons_init(&d->lexicons, process->memory, c->lexicon_memory);
    metric_on_print(set_gauges, d);
    *self = d;
    return true;
}

static bool ready(void *self, struct buf *why)
{
    const struct distributor_state *d = self;
    if (members_has(d->process->members, MEMBER_INGESTER)) return true;
    buf_z(why, "no ingester is known");
    return false;
}

static void stop(void *self)
{
    struct distributor_state *d = self;
    // First, so that no scrape reads what is released below.
    metric_off_print(set_gauges, d);
    lexicons_release(&d->lexicons);
    settle_close(d->settle, clock_mono_ns());
    rates_release(&d->rates);
    spread_release(&d->spread);
    quota_release(&d->samplers);
    refusals_release(&d->refusals);
    mem_must_free(d);
}

const struct service distributor = {
    .name = "distributor",
    .config = &section,
    .metrics = distributor_metrics,
    .metric_count = &distributor_metric_count,
    .public_rpc = methods,
    .public_rpc_count = COUNT(methods),
    .public_http = routes,
    .public_http_count = COUNT(routes),
    .listeners = listeners,
    .listener_count = COUNT(listeners),
    .check = check,
    .start = start,
    .ready = ready,
    .stop = stop,
    .lane_width = {[RANK_PUBLIC] = 64},  // they wait for the ingesters' disks, most of the time
};
