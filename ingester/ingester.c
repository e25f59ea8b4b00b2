// SPDX-License-Identifier: Apache-2.0
//
// ingester.c - start, readiness, drain and stop of the service, its gauges and its table of routes.
#include "ingester/ingester.h"

#include "flametree/v1/internal.pb-c.h"
#include "ingester/adopt.h"
#include "ingester/flush/flush.h"
#include "ingester/ingester_int.h"
#include "ingester/metrics.h"
#include "ingester/roll.h"
#include "ingester/streams.h"
#include "manifest/stream.h"
#include "service/settings.h"
#include "sys/clock.h"
#include "sys/file.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

// ---- settings

static const struct config_row rows[] = {
#define ROW(key, type, fallback, low, high, reload, sentence) \
    CONFIG_ROW(struct ingester_config, key, type, fallback, low, high, reload, sentence)
#include "ingester/config.def"
#undef ROW
};

const struct config_section ingester_section = {.name = "ingester",
                                                .rows = rows,
                                                .row_count = COUNT(rows),
                                                .size = sizeof(struct ingester_config)};

const struct ingester_config *ingester_settings(const struct ingester *in)
{
    return config_section(in->process->config, "ingester");
}

static bool is_in_store(const struct ingester_config *c)
{
    return strcmp(c->log, "object") == 0;
}

// ---- gauges

static void count_streams(struct ingester *in)
{
    static const char *const states[] = {"open", "unchecked", "sealed-owner"};
    err none = {0};
    size_t n = wal_streams(in->wal, NULL, 0);
    const size_t bytes = (n + 1) * sizeof(struct wal_stream);
    struct wal_stream *v = mem_alloc(NULL, bytes, &none);
    if (!v) return;  // the gauges stay
    // Streams may have come since they were counted; those are shown next time.
    n = MIN(n, wal_streams(in->wal, v, n));
    for (size_t s = 0; s < COUNT(states); s++) {
        int64_t count = 0;
        for (size_t i = 0; i < n; i++)
            count += strcmp(v[i].state, states[s]) == 0;
        metric_set_to(&ingester_streams_by_state, str_of(states[s]), count);
    }
    mem_free(NULL, v, bytes);
}

static size_t backlog(void *self, struct service_backlog out[SERVICE_BACKLOG_MAX])
{
    const struct ingester *in = self;
    struct wal_counts w = wal_count(in->wal);
    out[0] = (struct service_backlog){"open_cuts", w.open_cuts};
    out[1] = (struct service_backlog){"closed_cuts_to_flush", w.closed_cuts};
    out[2] = (struct service_backlog){"bytes_in_log", w.bytes};
    return 3;
}

static void set_gauges(void *arg)
{
    struct ingester *in = arg;
    const struct mem_budget *b = head_budget(in->head);
    struct head_counts h = head_count(in->head);
    struct wal_counts w = wal_count(in->wal);
    const struct ingester_config *c = ingester_settings(in);
    metric_mirror(&ingester_duplicates, h.duplicates);
    uint64_t known_ns = MIN(known_ids_ns(&in->known_ids), head_knows_ids_ns(in->head));
    metric_set(&ingester_ids_known, (int64_t)(known_ns / (uint64_t)NS_PER_S));
    metric_mirror(&ingester_capped, h.capped);
    metric_mirror(&ingester_head_refused, atomic_load_explicit(&b->refused, memory_order_relaxed));
    metric_set(&ingester_head_bytes, (int64_t)atomic_load_explicit(&b->used, memory_order_relaxed));
    metric_set(&ingester_head_limit, (int64_t)c->head_memory);
    metric_set(&ingester_head_services, (int64_t)h.services);
    metric_set(&ingester_head_series, (int64_t)h.series);
    metric_set(&ingester_head_active_series, (int64_t)h.active_series);
    metric_set(&ingester_head_rows, (int64_t)h.rows);
    metric_set(&ingester_lexicons, (int64_t)h.lexicons);
    metric_set(&ingester_lexicon_bytes, (int64_t)h.lexicon_bytes);
    metric_mirror(&ingester_lexicons_refused, h.lexicons_refused);
    metric_set_to(&ingester_cuts, S("open"), (int64_t)w.open_cuts);
    metric_set_to(&ingester_cuts, S("closed"), (int64_t)w.closed_cuts);
    metric_set(&ingester_log_bytes, (int64_t)w.bytes);
    metric_set(&ingester_log_limit, (int64_t)c->log_disk);
    struct wal_object_limit objects;
    wal_object_limit(in->wal, &objects);
    metric_set(&ingester_log_object_limit, (int64_t)objects.most);
    metric_set(&ingester_log_waiting, (int64_t)w.waiting);
    metric_set(&ingester_log_waiting_limit,
               wal_is_remote(in->wal) ? (int64_t)c->log_waiting_bytes : 0);
    count_streams(in);
    if (in->flush) flush_gauges(in->flush);
    streams_gauges(in->streams);
    adopt_gauges(in->adopt);
}

// ---- life

static void release(struct ingester *in)
{
    // The flush uses log and head, the log's cuts are named by rows of the head: freed in this
    // order.
    closings_free(in->closings);  // it uses the manifests of the flush
    flush_free(in->flush);
    wal_close(in->wal);
    head_free(in->head);
    cond_release(&in->wake);
    lock_release(&in->lock);
    known_ids_release(&in->known_ids);
    req_release(&in->adopting);
    mem_must_free(in->dir);
    mem_must_free(in);
}

// A store takes that long for an object, with some of its bad moments.
#define PUT_MARGIN_NS (1 * NS_PER_S)
#define LOG_BESIDES   (1 << 20)

// A push waits in the log for log_linger and a creation. Known only where both services run in one
// process.
static bool check_linger(const struct config *config, const struct ingester_config *c, err *e)
{
    int64_t timeout = 0;
    if (!is_in_store(c) ||
        !config_other_duration(config, S("distributor"), S("append_timeout"), &timeout) ||
        timeout >= c->log_linger + PUT_MARGIN_NS)
        return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "distributor.append_timeout is %" PRId64 " ms, but must be at least 1 s longer "
                   "than ingester.log_linger, which is %" PRId64 " ms: a push waits that long for "
                   "others, and then for the store",
                   timeout / NS_PER_MS, c->log_linger / NS_PER_MS);
}

static bool no_store_for_log(err *e)
{
    return err_set(e, ERR_FAILED_PRECONDITION,
                   "ingester.log is object, and there is no object store: set storage.kind, or "
                   "storage.dir");
}

// A log on disk takes its buffers out of memory_limit when it opens, and its tables besides: with
// less the process could not start.
static bool check_buffers(const struct config *config, const struct ingester_config *c, err *e)
{
    const struct server_settings *s = config_section(config, "server");
    if (is_in_store(c)) return true;
    if (c->log_memory < s->memory_limit && s->memory_limit - c->log_memory >= LOG_BESIDES)
        return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "server.memory_limit is %llu bytes, but must be at least 1 MiB more than "
                   "ingester.log_memory, which is %llu bytes: the log takes its buffers out of it",
                   (unsigned long long)s->memory_limit, (unsigned long long)c->log_memory);
}

// A log that grew up to the reserve must open again after a crash. RocksDB may be writing its
// buffers to the disk when pushes are refused, and writes them once more when it opens: twice
// log_memory.
static bool check(const struct config *config, err *e)
{
    const struct ingester_config *c = config_section(config, "ingester");
    assert(c->stream_settle > (int64_t)STREAMS_SHARED_NS);  // its row has a bound
    if (!check_linger(config, c, e) || !check_buffers(config, c, e)) return false;
    int64_t ignored = 0;
    bool all_in_one =
        config_other_duration(config, S("distributor"), S("append_timeout"), &ignored);
    if (is_in_store(c) && !storage_is_set(config, all_in_one)) return no_store_for_log(e);
    if (!is_in_store(c) && strcmp(c->log, "local") != 0)
        return err_set(e, ERR_INVALID_ARGUMENT, "ingester.log is '%s', but must be local or object",
                       c->log);
    if (c->disk_reserve == 0 || c->disk_reserve / 2 >= c->log_memory) return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "ingester.disk_reserve is %llu bytes, but must be 0 or at least twice "
                   "ingester.log_memory, which is %llu bytes: a start after a crash may need that",
                   (unsigned long long)c->disk_reserve, (unsigned long long)c->log_memory);
}

static const char *kind_text(bool in_store)
{
    return in_store ? "object" : "local";
}

static struct wal_options options_of(const struct ingester *in, bool in_store)
{
    const struct ingester_config *c = ingester_settings(in);
    struct wal_options o = {.dir = in->dir,
                            .owner = in->process->id,
                            .memory = in->process->memory,
                            .buffers = c->log_memory,
                            .cut_bytes = c->cut_bytes,
                            .cut_age_ns = c->cut_age,
                            .keep_ns = c->head_age,
                            .disk_reserve = c->disk_reserve,
                            .disk_max = c->log_disk};
    if (in_store) {
        o.object_max = in->process->store_takes;
        if (in->process->identity) o.directory = in->process->identity->directory;
        o.store = in->process->store;
        o.linger_ns = c->log_linger;
        o.waiting_max = (size_t)c->log_waiting_bytes;
    }
    return o;
}

// Whether a process that kept its log in that place left something there that is not flushed.
static bool is_left(const struct ingester *in, bool in_store, bool *left, err *e)
{
    char path[PATH_MAX];
    *left = false;
    snprintf(path, sizeof path, "%s/%s", in->dir, in_store ? "STREAMS" : "CURRENT");
    if (!file_exists(path)) return true;
    if (in_store && !in->process->store) {
        return err_set(e, ERR_FAILED_PRECONDITION,
                       "this ingester kept its log in an object store, and there is none now: "
                       "profiles in it may not be flushed");
    }
    const struct wal_options o = options_of(in, in_store);
    struct wal *w = wal_open(&o, e);
    bool ok = w && wal_find(w, e);
    *left = ok && wal_cuts(w, NULL, 0) > 0;
    wal_close(w);
    return ok;
}

// Every log is read, whatever is configured. What the other place still holds is flushed by an
// ingester that keeps its log there; so the setting waits for the next start after a clean stop.
static struct wal *open_log(const struct ingester *in, err *e)
{
    bool in_store = is_in_store(ingester_settings(in));
    bool left = false;
    if (in_store && !in->process->store) {
        (void)!no_store_for_log(e);
        return NULL;
    }
    if (!is_left(in, !in_store, &left, e)) return NULL;
    const struct wal_options o = options_of(in, left ? !in_store : in_store);
    struct wal *w = wal_open(&o, e);
    if (w && left) {
        notice_raise(in->process->notices, "log.other", str_of(in->process->id), NOTICE_FOREVER,
                     "ingester.log is %s, but this ingester goes on with its log of kind %s, which "
                     "has profiles that are not flushed; stop it, which flushes them, and start it",
                     kind_text(in_store), kind_text(!in_store));
    }
    return w;
}

static bool start(const struct process *process, void **self, err *e)
{
    static const char below[] = "/ingester/log";
    struct ingester *in = mem_must(sizeof *in);
    in->process = process;
    size_t room = strlen(process->data_dir) + sizeof below;
    in->dir = mem_must(room);
    snprintf(in->dir, room, "%s%s", process->data_dir, below);
    lock_init(&in->lock, LOCK_INGESTER);
    cond_init(&in->wake);
    req_init(&in->adopting, RANK_DUTY, NULL, SIZE_MAX, 0);
    known_ids_init(&in->known_ids, process->data_dir);
    const struct ingester_config *c = ingester_settings(in);
    // Zeroed memory is INGESTER_REPLAYING: requests are answered "replaying" until the duty thread
    // is through.
    in->head = head_new(process->memory, c->head_memory);
    head_set_lexicons(in->head, c->lexicon_memory);
    in->wal = open_log(in, e);
    bool ok = in->wal != NULL;
    if (ok && process->store) {
        in->flush = flush_new(in, e);
        if (in->flush) in->closings = closings_new(flush_manifests(in->flush));
        ok = in->flush && flush_start(in->flush, e);
    }
    // Last but for the duty thread: it needs the log, whose streams it registers.
    ok = ok && streams_start(in, &in->streams, e);
    if (ok) in->roll = streams_roll(in->streams);
    if (ok && !in->streams) known_ids_need_none(&in->known_ids);
    ok = ok && adopt_start(in, &in->adopt, e);
    if (!ok || !thread_start(&in->duty, "ingester.duty", duty_main, in, e)) {
        adopt_stop(in->adopt);
        adopt_free(in->adopt);
        streams_drain(in->streams);
        streams_stop(in->streams);
        if (in->flush) flush_drain(in->flush, 0);  // ends its thread at once
        release(in);
        return false;
    }
    metric_on_print(set_gauges, in);
    *self = in;
    return true;
}

bool ingester_answers(struct ingester *in, err *e)
{
    lock_take(&in->lock);
    enum ingester_phase phase = in->phase;
    if (phase == INGESTER_FAILED) *e = in->fault;
    lock_give(&in->lock);
    switch (phase) {
    case INGESTER_READY:
    case INGESTER_REOPENING:
        return true;
    case INGESTER_FAILED:
        e->code = ERR_UNAVAILABLE;
        return err_wrap(e, "the log cannot be read");
    case INGESTER_REPLAYING:
        return err_set(e, ERR_UNAVAILABLE,
                       "replaying log: %" PRIu64 " of %" PRIu64 " entries, in %" PRIu64 " cuts",
                       atomic_load(&in->entries_read), atomic_load(&in->entries_found),
                       atomic_load(&in->cuts_found));
    }
    abort();
}

static bool ready(void *self, struct buf *why)
{
    struct ingester *in = self;
    err e = {0};
    if (!ingester_answers(in, &e)) {
        buf_z(why, e.msg);
        return false;
    }
    // A hanging disk fails no write. Without this check distributors would go on sending here.
    uint64_t stuck = stuck_for_ns(&in->appends);
    if (stuck >= STUCK_NS) {
        buf_printf(why, "the log has stored nothing for %" PRIu64 " s, and pushes wait for it",
                   stuck / (uint64_t)NS_PER_S);
        return false;
    }
    lock_take(&in->lock);
    bool open = in->phase == INGESTER_READY;
    if (!open) e = in->fault;
    lock_give(&in->lock);
    if (!open) buf_printf(why, "opening the log again: %s", e.msg);
    if (!open) return false;
    open = streams_inspected(in->streams);
    if (!open) {
        buf_z(why, "asking the store for the streams of this id");
        return false;
    }
    open = !in->roll || roll_is_open(in->roll);
    if (!open) buf_z(why, streams_blame(in->streams, &e) ? "" : e.msg);
    return open;
}

// Queries are answered meanwhile and until the listener closes. So an answer has the rows from here
// or, once they are gone from here, from segments; and when nobody answers any more, no stream is
// registered that a query would miss.
static void retire(void *self, uint64_t deadline_mono_ns)
{
    struct ingester *in = self;
    lock_take(&in->lock);
    bool first = !in->stopping;
    in->stopping = true;
    cond_wake_all(&in->wake);
    lock_give(&in->lock);
    if (!first) return;
    // An adoption under way is let go at once, and is the next ingester's.
    atomic_store(&in->adopting.canceled, true);
    // The duty thread ends before the log drains, as it may be opening the log. The log drains
    // before the flush, which then sees every cut closed; from then on pushes are refused.
    // Registrations of streams of which nothing is left in the log go last.
    thread_join(in->duty);
    adopt_stop(in->adopt);
    wal_drain(in->wal);
    if (in->flush) flush_drain(in->flush, deadline_mono_ns);
    wal_end(in->wal);
    streams_drain(in->streams);
}

static void drain(void *self, uint64_t deadline_mono_ns)
{
    struct ingester *in = self;
    retire(in, deadline_mono_ns);  // after a start that failed nothing has retired
    // Not in retire: until the listeners are closed both are asked, also by whoever wants metrics.
    adopt_free(in->adopt);
    in->adopt = NULL;
    in->roll = NULL;
    streams_stop(in->streams);
    in->streams = NULL;
}

static void stop(void *self)
{
    struct ingester *in = self;
    // A process whose start failed was never drained; after a drain this does nothing.
    drain(in, 0);
    metric_off_print(set_gauges, in);
    release(in);
}

// ---- the service

static const struct rpc_method methods[] = {
    {.path = "/flametree.v1.IngesterService/Append",
     .in = &flametree__v1__append_request__descriptor,
     .out = &flametree__v1__append_response__descriptor,
     .run = ingester_append,
     .auth = ROUTE_INTERNAL,
     .rank = RANK_INGESTER,
     .large_body = true,
     .checks_wire = true},
    {.path = "/flametree.v1.IngesterService/HeadRead",
     .in = &flametree__v1__head_read_request__descriptor,
     .out = &flametree__v1__head_read_response__descriptor,
     .run = ingester_head_read,
     .auth = ROUTE_INTERNAL,
     .rank = RANK_INGESTER},
    {.path = "/flametree.v1.IngesterService/Streams",
     .in = &flametree__v1__streams_request__descriptor,
     .out = &flametree__v1__streams_response__descriptor,
     .run = ingester_streams,
     .auth = ROUTE_INTERNAL,
     .rank = RANK_INGESTER},
    {.path = "/flametree.v1.IngesterService/Closed",
     .in = &flametree__v1__closed_request__descriptor,
     .out = &flametree__v1__closed_response__descriptor,
     .run = ingester_closed,
     .auth = ROUTE_INTERNAL,
     .rank = RANK_INGESTER},
};

static const struct http_route public_http[] = {
    {.verbs = "POST",
     .path = "/ingester/flush",
     .run = ingester_post_flush,
     .auth = ROUTE_ADMIN,
     .rank = RANK_PUBLIC},
    {.verbs = "GET,HEAD",
     .path = "/ingester/cuts",
     .run = ingester_get_cuts,
     .auth = ROUTE_ADMIN,
     .rank = RANK_PUBLIC},
    {.verbs = "GET,HEAD",
     .path = "/ingester/tenants",
     .run = ingester_get_tenants,
     .auth = ROUTE_ADMIN,
     .rank = RANK_PUBLIC},
    {.verbs = "GET,HEAD",
     .path = "/ingester/streams",
     .run = ingester_get_streams,
     .auth = ROUTE_ADMIN,
     .rank = RANK_PUBLIC},
    {.verbs = "POST",
     .path = "/ingester/streams/forget",
     .run = ingester_post_forget,
     .auth = ROUTE_ADMIN,
     .rank = RANK_PUBLIC},
    {.verbs = "GET,HEAD",
     .path = "/ingester/streams/forgotten",
     .run = ingester_get_forgotten,
     .auth = ROUTE_ADMIN,
     .rank = RANK_PUBLIC},
    {.verbs = "POST",
     .path = "/ingester/streams/recover",
     .run = ingester_post_recover,
     .auth = ROUTE_ADMIN,
     .rank = RANK_PUBLIC},
    {.verbs = "POST",
     .path = "/ingester/streams/remove",
     .run = ingester_post_remove,
     .auth = ROUTE_ADMIN,
     .rank = RANK_PUBLIC},
};

const struct service ingester = {
    .name = "ingester",
    .config = &ingester_section,
    .metrics = ingester_metrics,
    .metric_count = &ingester_metric_count,
    .public_http = public_http,
    .public_http_count = COUNT(public_http),
    .internal_rpc = methods,
    .internal_rpc_count = COUNT(methods),
    .keeps = {"ingester/log/CURRENT", "ingester/log/STREAMS"},
    .writes_objects = true,
    .check = check,
    .start = start,
    .ready = ready,
    .backlog = backlog,
    .retire = retire,
    .drain = drain,
    .stop = stop,
};
