// SPDX-License-Identifier: Apache-2.0
//
// The collector's round, ten times a second:
//
//     1. take samples, put hidden callers back, look names up, add to the sums
//     2. if a push under way has ended: log the result
//     3. if the interval is over: encode the sums, begin a push, start anew
//
// No step waits for a push, and names are looked up as samples come. So the queue of samples is
// always emptied in time.
//
// Until the first push samples are taken START_TIMES as often, and that push is sent as soon as
// there are any: a start takes some tens of ms of CPU time, and a user who looks at a fresh process
// should see a profile.
#include "service/selfprofile.h"

#include "codec/compress.h"
#include "codec/pb.h"
#include "model/label.h"
#include "service/metrics.h"
#include "service/process.h"
#include "service/selfprofile_int.h"
#include "service/settings.h"
#include "sys/clock.h"
#include "sys/lock.h"
#include "sys/thread.h"

#define ROUND_NS        (100 * (uint64_t)NS_PER_MS)
#define START_TIMES     4
#define FIRST_PUSH_NS   (2 * (uint64_t)NS_PER_S)
#define SCAN_NS         (5 * (uint64_t)NS_PER_S)
#define PUSH_TIMEOUT_NS (10 * (uint64_t)NS_PER_S)
#define MEMORY_MAX      ((size_t)48 << 20)
#define PLACES_MAX      60000              // program counters whose names are remembered
#define PPROF_MAX       ((size_t)4 << 20)  // the push path's default limit
#define REQUEST_MAX     ((size_t)64 << 10)
#define ANSWER_MAX      4096

struct push {  // on its way
    struct req req;
    struct http_call call;
    struct buf body;
};

struct selfprofile {
    const struct self_profile_settings *settings;
    struct client *client;
    const char *id;
    struct mem_budget memory;
    char address[PATH_MAX + 8];
    char path[PATH_MAX];
    bool tls;

    // the collector's
    struct sampler_names *names;
    struct stack_sums sums;
    unsigned rate;     // at which is sampled now
    uint64_t samples;  // in sums
    int64_t begin_wall_ns;
    uint64_t begin_mono_ns;
    uint64_t dropped;  // of sampler_stats, when last looked at
    struct push push;
    bool pushing;

    pthread_t thread;
    struct lock lock;
    struct cond change;
    bool stopping;
    atomic_bool ready;
};

// ---- samples

static enum stack_end end_of(enum sample_end end)
{
    if (end == SAMPLE_WHOLE) return STACK_WHOLE;
    return end == SAMPLE_DEEP ? STACK_DEEP : STACK_LOST;
}

static void on_sample(void *ctx, const struct sample *s)
{
    struct selfprofile *p = ctx;
    err ignored;
    uint64_t pcs[SAMPLER_DEPTH_MAX];
    enum sample_end end = SAMPLE_LOST;
    assert(p->rate > 0 && s->weight > 0);
    struct stack_row row = {.component = s->component,
                            .samples = s->weight,
                            .cpu_ns = s->weight * ((uint64_t)NS_PER_S / p->rate)};
    row.depth = sampler_names_repair(p->names, s, pcs, &end);
    row.end = end_of(end);
    // Now, while the code is mapped: a name that is asked for at the push may be of another
    // library.
    assert(row.depth <= SAMPLER_DEPTH_MAX);
    for (uint32_t i = 0; i < row.depth; i++) {
        struct sampler_place place;
        // A failure is ignored: the encoder looks the name up again.
        if (pcs[i] != SAMPLE_GAP && !sampler_names_find(p->names, pcs[i], &place, &ignored)) break;
    }
    if (stack_sums_add(&p->sums, &row, pcs, &ignored)) {
        p->samples += s->weight;
        metric_add(&service_self_profile_samples, s->weight);
    } else {
        metric_add(&service_self_profile_dropped, s->weight);
    }
}

static void show_stats(struct selfprofile *p)
{
    struct sampler_stats now;
    sampler_stats(&now);
    metric_add(&service_self_profile_dropped, now.dropped - p->dropped);
    p->dropped = now.dropped;
    metric_set(&service_self_profile_threads, now.threads);
    metric_mirror(&service_self_profile_refused, now.refused);
}

// ---- pushes

// push.v1.PushRequest with one series and one sample.
static void put_request(const struct selfprofile *p, str pprof, struct buf *body)
{
    size_t series = pb_begin(body, 1);
    const label own[] = {{S(LABEL_NAME), S("process_cpu")},
                         {S(LABEL_SERVICE), S("flametree")},
                         {S("instance"), str_of(p->id)}};
    labels_put((labels){own, COUNT(own)}, body, 1);
    size_t sample = pb_begin(body, 2);
    pb_put_bytes(body, 1, pprof);
    pb_end(body, sample);
    pb_end(body, series);
}

static bool encode_once(struct selfprofile *p, const struct selfprofile_span *span, err *e)
{
    struct buf pprof;
    struct buf packed;
    buf_init(&pprof, &p->memory, PPROF_MAX);
    buf_init(&packed, &p->memory, PPROF_MAX);
    buf_init(&p->push.body, &p->memory, PPROF_MAX + REQUEST_MAX);
    // Level 1: the push goes to this machine as a rule.
    bool ok = selfprofile_encode(&p->sums, p->names, span, &pprof, e) &&
              compress_gzip(buf_view(&pprof), 1, &packed, e);
    if (ok) put_request(p, buf_view(&packed), &p->push.body);
    ok = ok && buf_ok(&p->push.body, e);
    buf_release(&pprof);
    buf_release(&packed);
    if (!ok) buf_release(&p->push.body);
    return ok;
}

static bool encode(struct selfprofile *p, const struct selfprofile_span *span, err *e)
{
    bool ok = encode_once(p, span, e);
    if (!ok && e->code == ERR_RESOURCE_EXHAUSTED) {
        sampler_names_trim(p->names, true);  // remembered names share the budget
        ok = encode_once(p, span, e);
    }
    sampler_names_trim(p->names, false);
    return ok;
}

static void tell_off(const err *e)
{
    char quoted[LOG_QUOTE_MAX];
    log_warn(NULL, "selfprofile.off", "why=%s", log_quote(quoted, str_of(e->msg)));
}

static void tell(const struct selfprofile *p, const err *e)
{
    char quoted[LOG_QUOTE_MAX];
    metric_add_to(&service_self_profile_pushes, S("failed"), 1);
    log_warn(NULL, "selfprofile.push_failed", "to=%s why=%s", p->address,
             log_quote(quoted, str_of(e->msg)));
}

static void begin_push(struct selfprofile *p)
{
    struct push *u = &p->push;
    struct http_call *c = &u->call;
    assert(!p->pushing);
    req_init(&u->req, RANK_DUTY, &p->memory, REQUEST_MAX, PUSH_TIMEOUT_NS);
    *c = (struct http_call){.method = "POST",
                            .address = str_of(p->address),
                            .path = str_of(p->path),
                            .body = buf_view(&u->body),
                            .answer_max = ANSWER_MAX,
                            .tls = p->tls};
    struct arena *a = &u->req.arena;
    http_headers_add(&c->headers, a, S("content-type"), S("application/proto"));
    http_headers_add(&c->headers, a, S("connect-protocol-version"), S("1"));
    assert(u->body.n > 0);
    http_headers_add(&c->headers, a, S("x-request-id"), str_of(u->req.request_id));
    http_headers_add(&c->headers, a, S("x-scope-orgid"), str_of(p->settings->tenant));
    http_start(p->client, &u->req, c, RANK_PUBLIC);
    p->pushing = true;
}

// Waits for a push that is over or is being given up, and logs its result.
static void end_push(struct selfprofile *p, bool give_up)
{
    struct push *u = &p->push;
    err e = {0};
    assert(p->pushing);
    // canceled ends the wait at once, because a process that stops must not wait for its own push.
    atomic_store_explicit(&u->req.canceled, give_up, memory_order_relaxed);
    bool ok = call_wait(&u->req, &u->call.call, &e);
    if (ok && u->call.status != 200) {
        str answer = buf_view(&u->call.answer);
        ok = err_set(&e, ERR_UNAVAILABLE, "status %u: %.*s", u->call.status, STR(answer));
    }
    if (ok) metric_add_to(&service_self_profile_pushes, S("well"), 1);
    if (!ok && !give_up) tell(p, &e);
    http_call_release(&u->call);
    req_release(&u->req);
    buf_release(&u->body);
    p->pushing = false;
}

static void start_anew(struct selfprofile *p)
{
    stack_sums_release(&p->sums);
    p->samples = 0;
    p->begin_wall_ns = clock_wall_ns();
    p->begin_mono_ns = clock_mono_ns();
}

static void push_sums(struct selfprofile *p)
{
    struct selfprofile_span span = {
        .begin_wall_ns = p->begin_wall_ns,
        .duration_ns = (int64_t)(clock_mono_ns() - p->begin_mono_ns),
        .period_ns = NS_PER_S / p->rate,
    };
    err e = {0};
    if (p->samples > 0) {
        if (encode(p, &span, &e))
            begin_push(p);
        else
            tell(p, &e);
    }
    // Also after a failure: an interval that cannot be sent is lost, and does not grow for ever.
    start_anew(p);
}

// ---- the collector

static bool wait_round(struct selfprofile *p)
{
    uint64_t until = clock_mono_ns() + ROUND_NS;
    lock_take(&p->lock);
    while (!p->stopping && cond_wait_until(&p->change, &p->lock, until)) {
    }
    bool stopping = p->stopping;
    lock_give(&p->lock);
    return !stopping;
}

// The start is over: samples that wait are counted at the old rate, then the rate of the settings
// holds.
static void slow_down(struct selfprofile *p)
{
    err e = {0};
    // Stopped first, so that no sample of one rate is counted at the other.
    sampler_stop();
    sampler_read(on_sample, p);
    p->rate = (unsigned)p->settings->rate;
    if (!sampler_start(p->rate, &e)) tell_off(&e);
}

static void *collect(void *arg)
{
    struct selfprofile *p = arg;
    sampler_names_load(p->names);
    uint64_t interval = (uint64_t)p->settings->interval;
    uint64_t next_scan = 0;
    uint64_t next = 0;
    bool starting = true;
    start_anew(p);
    while (wait_round(p)) {
        sampler_read(on_sample, p);
        if (p->pushing && call_is_over(&p->push.call.call)) end_push(p, false);
        if (clock_mono_ns() >= next_scan) {
            sampler_scan();
            show_stats(p);
            next_scan = clock_mono_ns() + SCAN_NS;
        }
        // Pushes begin once the process is ready: until then nobody takes them.
        if (next == 0 && atomic_load(&p->ready))
            next = clock_mono_ns() + MIN(FIRST_PUSH_NS, interval);
        if (next == 0 || clock_mono_ns() < next || p->pushing) continue;
        // The first push waits for a sample; an idle process has none for a while.
        if (starting && p->samples == 0) continue;
        push_sums(p);
        if (starting) slow_down(p);
        starting = false;
        next = clock_mono_ns() + interval;
    }
    if (p->pushing) end_push(p, true);
    return NULL;
}

// ---- where to

// address, path and tls of a checked url.
static void read_url(struct selfprofile *p, str url)
{
    p->tls = str_starts(url, S("https:"));
    assert(p->tls || str_starts(url, S("http://")));
    url = str_slice(url, p->tls ? 8 : 7, url.n);
    str host = str_slice(url, 0, str_find(url, '/'));
    str path = str_slice(url, host.n, url.n);
    while (str_ends(path, S("/")))
        path.n--;
    size_t colon = str_rfind(host, ':');
    size_t bracket = str_rfind(host, ']');  // of [::1]
    bool has_port = colon < host.n && (bracket == host.n || colon > bracket);
    const char *port = p->tls ? ":443" : ":80";
    if (has_port) port = "";
    snprintf(p->address, sizeof p->address, "%.*s%s", STR(host), port);
    snprintf(p->path, sizeof p->path, "%.*s" SELFPROFILE_PUSH_PATH, STR(path));
}

static bool find_target(struct selfprofile *p, const struct process *process, bool takes_pushes)
{
    if (p->settings->url[0]) {
        read_url(p, str_of(p->settings->url));
        return true;
    }
    if (!takes_pushes) return false;
    snprintf(p->address, sizeof p->address, "%s", process->public_address);
    snprintf(p->path, sizeof p->path, "%s", SELFPROFILE_PUSH_PATH);
    return true;
}

// ---- life

static bool begin(struct selfprofile *p, err *e)
{
    p->names = sampler_names_new(&p->memory, PLACES_MAX, e);
    p->rate = MIN((unsigned)p->settings->rate * START_TIMES, SAMPLER_HZ_MAX);
    if (!p->names || !sampler_start(p->rate, e)) return false;
    struct sampler_stats now;
    sampler_stats(&now);
    p->dropped = now.dropped;
    show_stats(p);
    if (thread_start(&p->thread, "selfprofile", collect, p, e)) return true;
    sampler_stop();
    return false;
}

static void release(struct selfprofile *p)
{
    assert(!p->pushing);
    stack_sums_release(&p->sums);
    sampler_names_free(p->names);
    process_unwatch_budget(&p->memory);
    cond_release(&p->change);
    lock_release(&p->lock);
    assert(atomic_load(&p->memory.used) == 0);
    mem_must_free(p);
}

struct selfprofile *selfprofile_start(const struct process *process, bool takes_pushes)
{
    const struct self_profile_settings *s = config_section(process->config, "self_profile");
    if (!s->enabled) return NULL;
    struct selfprofile *p = mem_must(sizeof *p);
    p->settings = s;
    p->client = process->client;
    p->id = process->id;
    mem_budget_init(&p->memory, "self_profile", process->memory, MEMORY_MAX);
    process_watch_budget(&p->memory);
    lock_init(&p->lock, LOCK_SELFPROFILE);
    cond_init(&p->change);
    stack_sums_init(&p->sums, &p->memory);
    if (!find_target(p, process, takes_pushes)) {
        release(p);
        return NULL;
    }
    err e = {0};
    if (!begin(p, &e)) {
        tell_off(&e);
        release(p);
        return NULL;
    }
    log_info(NULL, "selfprofile.on", "to=%s rate=%lld tenant=%s", p->address, (long long)s->rate,
             s->tenant);
    return p;
}

void selfprofile_ready(struct selfprofile *p)
{
    atomic_store(&p->ready, true);
}

void selfprofile_stop(struct selfprofile *p)
{
    if (!p) return;
    lock_take(&p->lock);
    p->stopping = true;
    cond_wake_all(&p->change);
    lock_give(&p->lock);
    thread_join(p->thread);
    sampler_stop();  // not before: the collector may just have started it again
    release(p);
}
