// SPDX-License-Identifier: Apache-2.0
#include "querier/querier.h"

#include "capabilities/v1/feature_flags.pb-c.h"
#include "flametree/v1/internal.pb-c.h"
#include "loop/lane.h"
#include "manifest/manifest.h"
#include "querier/block/blocks.h"
#include "querier/disk/disk_cache.h"
#include "querier/head/streams.h"
#include "querier/metrics.h"
#include "querier/request/analyze.h"
#include "querier/request/diff.h"
#include "querier/request/discovery.h"
#include "querier/request/flags.h"
#include "querier/request/heatmap.h"
#include "querier/request/label_values.h"
#include "querier/request/merge_profile.h"
#include "querier/request/page.h"
#include "querier/request/render.h"
#include "querier/request/series.h"
#include "querier/request/stacktraces.h"
#include "querier/request/stats.h"
#include "querier/request/version.h"
#include "querier/v1/querier.pb-c.h"
#include "service/process.h"
#include "service/settings.h"
#include "sys/log.h"
#include "types/v1/types.pb-c.h"
#include "version/v1/version.pb-c.h"

#include <limits.h>
#include <stdio.h>

// Prefetch jobs that run and that wait at most; beyond these there is no prefetch. They wait for
// the store most of their time, so there are more of them than processors.
#define PREFETCH_WIDTH 16
#define PREFETCH_QUEUE 48

static const struct config_row config_rows[] = {
#define ROW(...) CONFIG_ROW(struct querier_config, __VA_ARGS__)
#include "querier/config.def"
#undef ROW
};

static const struct config_section section =
    CONFIG_SECTION("querier", config_rows, struct querier_config);

// ---- routes: service, method, access, messages, handler. One table for the functions, which know
// their method's name for metrics, and for the rows that the server gets.
#define METHODS(X)                                                                                \
    X("querier.v1.QuerierService", ProfileTypes, TENANT_READ, querier__v1__profile_types_request, \
      querier__v1__profile_types_response, discovery_profile_types)                               \
    X("querier.v1.QuerierService", LabelNames, TENANT_READ, types__v1__label_names_request,       \
      types__v1__label_names_response, discovery_label_names)                                     \
    X("querier.v1.QuerierService", LabelValues, TENANT_READ, types__v1__label_values_request,     \
      types__v1__label_values_response, discovery_label_values)                                   \
    X("querier.v1.QuerierService", Series, TENANT_READ, querier__v1__series_request,              \
      querier__v1__series_response, discovery_series)                                             \
    X("querier.v1.QuerierService", SelectMergeStacktraces, TENANT_READ,                           \
      querier__v1__select_merge_stacktraces_request,                                              \
      querier__v1__select_merge_stacktraces_response, stacktraces_merge)                          \
    X("querier.v1.QuerierService", SelectMergeSpanProfile, TENANT_READ,                           \
      querier__v1__select_merge_span_profile_request,                                             \
      querier__v1__select_merge_span_profile_response, stacktraces_merge_spans)                   \
    X("querier.v1.QuerierService", SelectMergeProfile, TENANT_READ,                               \
      querier__v1__select_merge_profile_request, google__v1__profile, merge_profile)              \
    X("querier.v1.QuerierService", SelectSeries, TENANT_READ, querier__v1__select_series_request, \
      querier__v1__select_series_response, series_select)                                         \
    X("querier.v1.QuerierService", SelectHeatmap, TENANT_READ,                                    \
      querier__v1__select_heatmap_request, querier__v1__select_heatmap_response, heatmap_select)  \
    X("querier.v1.QuerierService", Diff, TENANT_READ, querier__v1__diff_request,                  \
      querier__v1__diff_response, diff_run)                                                       \
    X("querier.v1.QuerierService", GetProfileStats, TENANT_READ,                                  \
      types__v1__get_profile_stats_request, types__v1__get_profile_stats_response, stats_run)     \
    X("querier.v1.QuerierService", AnalyzeQuery, TENANT_READ, querier__v1__analyze_query_request, \
      querier__v1__analyze_query_response, analyze_run)                                           \
    X("capabilities.v1.FeatureFlagsService", GetFeatureFlags, TENANT_READ,                        \
      capabilities__v1__get_feature_flags_request, capabilities__v1__get_feature_flags_response,  \
      flags_run)                                                                                  \
    X("version.v1.Version", Version, OPEN, version__v1__version_request,                          \
      version__v1__version_response, version_run)

#define X(service, method, access, in_type, out_type, fn)                                          \
    static bool run_##method(void *self, struct http_exchange *x, str in, struct buf *out, err *e) \
    {                                                                                              \
        return answer_run(self, x, S(#method), fn, in, out, e);                                    \
    }
METHODS(X)
#undef X

static const struct rpc_method methods[] = {
#define X(service, method, access, in_type, out_type, fn) \
    {.path = "/" service "/" #method,                     \
     .in = &in_type##__descriptor,                        \
     .out = &out_type##__descriptor,                      \
     .run = run_##method,                                 \
     .auth = ROUTE_##access,                              \
     .rank = RANK_PUBLIC},
    METHODS(X)
#undef X
};

// ---- the older routes: method's name in metrics, path, handler
#define GETS(X)                                          \
    X(Render, "/pyroscope/render", render_run)           \
    X(RenderDiff, "/pyroscope/render-diff", render_diff) \
    X(RenderLabelValues, "/pyroscope/label-values", label_values_run)

#define X(method, path, fn)                                               \
    static bool get_##method(void *self, struct http_exchange *x, err *e) \
    {                                                                     \
        return answer_run(self, x, S(#method), fn, x->query, &x->out, e); \
    }
GETS(X)
#undef X

#define PAGE(path_)                                                                  \
    {                                                                                \
        .verbs = "GET,HEAD", .path = (path_), .run = page_index, .auth = ROUTE_OPEN, \
        .rank = RANK_PUBLIC, .no_gzip = true                                         \
    }

static const struct http_route pages[] = {
#define X(method, path_, fn)    \
    {.verbs = "GET",            \
     .path = (path_),           \
     .run = get_##method,       \
     .auth = ROUTE_TENANT_READ, \
     .rank = RANK_PUBLIC},
    GETS(X)
#undef X
        PAGE("/"),
    PAGE("/explore"),
    {.verbs = "GET,HEAD",
     .path = "/labels",
     .run = page_for_browsers,
     .auth = ROUTE_OPEN,
     .rank = RANK_PUBLIC,
     .no_gzip = true},
    PAGE("/flame"),
    PAGE("/types"),
    PAGE("/compare"),
    PAGE("/comparison"),
    PAGE("/comparison-diff"),
    PAGE("/diff"),
    {.verbs = "GET,HEAD",
     .path = "/assets/",
     .prefix = true,
     .run = page_asset,
     .auth = ROUTE_OPEN,
     .rank = RANK_PUBLIC,
     .no_gzip = true},
    {.verbs = "GET,HEAD",
     .path = "/licenses.txt",
     .run = page_asset,
     .auth = ROUTE_OPEN,
     .rank = RANK_PUBLIC,
     .no_gzip = true},
    // As a prefix it fits less than the row of a distributor in the same process.
    {.verbs = "GET,HEAD",
     .path = "/distributor/",
     .prefix = true,
     .run = page_without_losses,
     .auth = ROUTE_TENANT_READ,
     .rank = RANK_PUBLIC,
     .no_gzip = true},
    {.verbs = "GET,HEAD",
     .path = "/ui",
     .run = page_redirect,
     .auth = ROUTE_OPEN,
     .rank = RANK_PUBLIC},
    {.verbs = "GET,HEAD",
     .path = "/ui/",
     .prefix = true,
     .run = page_redirect,
     .auth = ROUTE_OPEN,
     .rank = RANK_PUBLIC},
};

// ---- shares of other queriers

static bool partial_read(void *self, struct http_exchange *x, str in, struct buf *out, err *e)
{
    const struct querier_state *q = self;
    const struct querier_config *config = config_section(q->config, "querier");
    if (!q->blocks) return err_set(e, ERR_UNAVAILABLE, "this querier has no store");
    return peer_read_answer(q->blocks, q->memory, (size_t)config->query_memory, &x->req, in, out,
                            e);
}

static const struct rpc_method internal_methods[] = {
    {.path = PEER_READ_PATH,
     .in = &flametree__v1__partial_read_request__descriptor,
     .out = &flametree__v1__partial_read_response__descriptor,
     .run = partial_read,
     .auth = ROUTE_INTERNAL,
     .rank = RANK_QUERIER},
};

// ---- life

static void stop(void *self)
{
    struct querier_state *q = self;
    // First the jobs, which use the cache and the manifests; then what they use.
    if (q->prefetch) {
        lane_drain(q->prefetch);
        lane_free(q->prefetch);
    }
    blocks_free(q->blocks);
    if (q->manifests) process_unwatch_budget(manifests_budget(q->manifests));
    manifests_close(q->manifests);
    streams_free(q->streams);
    disk_cache_close(q->disk);
    mem_must_free(q->differ_mono_ns);
    mem_must_free(q);
}

static bool page_from_disk(void *arg, str name, uint64_t at, size_t n, char *to)
{
    return disk_cache_get(arg, name, at, n, to);
}

static void page_to_disk(void *arg, str name, uint64_t at, str bytes)
{
    disk_cache_put(arg, name, at, bytes);
}

// For buckets only: blocks of a local store are files of the same disk. Without it all works, only
// slower.
static void open_disk_cache(const struct process *process, const struct querier_config *config,
                            struct querier_state *q)
{
    char directory[PATH_MAX + sizeof "/cache/blocks"];
    err e = {0};
    char text[LOG_QUOTE_MAX];
    snprintf(directory, sizeof directory, "%s/cache/blocks", process->data_dir);
    if (config->disk_cache == 0 || !process->store->kind->remote) {
        disk_cache_remove(directory);  // of a process with other settings: nobody would expire it
        return;
    }
    q->disk = disk_cache_open(directory, config->disk_cache,
                              (uint64_t)(config->disk_cache_age / NS_PER_S), process->memory, &e);
    if (q->disk) {
        blocks_keep_on_disk(q->blocks, q->disk);
    } else {
        log_warn(NULL, "querier.no_disk_cache", "fault=%s", log_quote(text, str_of(e.msg)));
    }
}

static void keep_missed(const struct process *process, struct streams *s)
{
    const struct cluster_settings *c = config_section(process->config, "cluster");
    char path[PATH_MAX + sizeof "/cache/missed_streams"];
    snprintf(path, sizeof path, "%s/cache/missed_streams", process->data_dir);
    streams_keep_in(s, path);
    streams_lose_after(s, c->lost_after);
}

static bool check(const struct config *config, err *e)
{
    const struct querier_config *c = config_section(config, "querier");
    if (strcmp(c->incomplete, "mark") == 0 || strcmp(c->incomplete, "refuse") == 0) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "querier.incomplete is '%s', but must be mark or refuse", c->incomplete);
}

static bool start(const struct process *process, void **self, err *e)
{
    const struct querier_config *config = config_section(process->config, "querier");
    struct querier_state *q = mem_must(sizeof *q);
    *q = (struct querier_state){
        .config = process->config,
        .memory = process->memory,
        .ask = fetch_peers,
        .directories = process->directories,
        .differ_mono_ns = mem_must(sizeof *q->differ_mono_ns),
        .peers = {.client = process->client,
                  .members = process->members,
                  .config = process->config},
    };
    q->transport = &q->peers;
    q->readers = (struct peer_readers){.client = process->client,
                                       .members = process->members,
                                       .self = str_of(process->id)};
    // Without a store ingesters have everything, and their answers are the whole (check_store).
    if (process->store) {
        q->blocks = blocks_new(process->store, process->memory, (size_t)config->cache_memory);
        open_disk_cache(process, config, q);
        q->streams = q->peers.streams = streams_new(process->store, process->memory);
        keep_missed(process, q->streams);
        q->manifests = manifests_open(process->store, process->memory, NULL, e);
        if (q->manifests && q->disk) {
            manifests_keep_pages(q->manifests,
                                 &(struct manifest_page_keeper){page_from_disk, page_to_disk,
                                                                q->disk});
        }
        if (q->manifests) {
            manifests_limit(q->manifests, "querier.manifest_memory",
                            (size_t)config->manifest_memory);
            process_watch_budget(manifests_budget(q->manifests));
        }
        const struct lane_options o = {.name = "querier.prefetch",
                                       .rank = RANK_QUERIER,
                                       .width = PREFETCH_WIDTH,
                                       .queue_max = PREFETCH_QUEUE};
        if (q->manifests && manifests_rest_after(q->manifests, MANIFESTS_REST, e))
            q->prefetch = lane_new(&o, e);
        if (!q->prefetch) {
            stop(q);
            return false;
        }
    }
    *self = q;
    return true;
}

static bool ready(void *self, struct buf *why)
{
    const struct querier_state *q = self;
    // Only whether one is known. Whether they answer is said by each query: a querier that took
    // itself out while an ingester restarts would refuse what others can still answer.
    if (members_has(q->peers.members, MEMBER_INGESTER)) return true;
    buf_z(why, "no ingester is known");
    return false;
}

const struct service querier = {
    .name = "querier",
    .config = &section,
    .metrics = querier_metrics,
    .metric_count = &querier_metric_count,
    .public_rpc = methods,
    .public_rpc_count = COUNT(methods),
    .internal_rpc = internal_methods,
    .internal_rpc_count = COUNT(internal_methods),
    .public_http = pages,
    .public_http_count = COUNT(pages),
    .check = check,
    .start = start,
    .ready = ready,
    .stop = stop,
};
