// SPDX-License-Identifier: Apache-2.0
#include "service/selfprofile.h"

#include "base/ulid.h"
#include "codec/pb.h"
#include "model/pprof.h"
#include "service/metrics.h"
#include "service/settings.h"
#include "sys/clock.h"
#include "sys/lock.h"
#include "sys/log.h"
#include "sys/sampler.h"
#include "sys/sampler_names.h"
#include "sys/thread.h"

#include <stdio.h>

#define COMPONENTS_MAX 64  // thread names without their numbers; more count as "other"
#define MEMORY_MAX     ((size_t)32 << 20)  // of names, stacks and one push
#define PUSH_MAX       ((size_t)16 << 20)
#define PLACES_MAX     ((size_t)1 << 16)
#define READ_EVERY     (250 * NS_PER_MS)  // often enough for the queue at full load
#define SCAN_EVERY     (2 * NS_PER_S)
#define FIRST_PUSH     (2 * NS_PER_S)  // so that a fresh start shows something soon
#define PUSH_TIMEOUT   (10 * NS_PER_S)

struct component {
    const char *name;  // never freed
    int64_t *counts;   // samples by stack
    size_t cap;
};

struct selfprofile {
    const struct node *node;
    const struct self_profile_settings *settings;
    char address[300];  // host:port
    bool tls;
    struct mem_budget memory;
    pthread_t thread;
    struct lock lock;
    struct cond change;
    bool stopping;        // under lock
    struct req *pushing;  // under lock; the push on its way

    // of the thread alone
    struct sampler_names *names;
    struct symbols symbols;
    struct component components[COMPONENTS_MAX];
    size_t component_count;
    int64_t began_wall_ns;
};

bool selfprofile_check(const struct self_profile_settings *s, err *e)
{
    str rest = str_of(s->url);
    if (rest.n == 0 || str_starts(rest, S("http://")) || str_starts(rest, S("https://")))
        return true;
    return err_set(e, ERR_INVALID_ARGUMENT,
                   "self_profile.url: \"%s\" begins neither with http:// nor with https://",
                   s->url);
}

// ---- adding up

static bool reset(struct selfprofile *p, err *e)
{
    for (size_t i = 0; i < p->component_count; i++) {
        struct component *c = &p->components[i];
        mem_free(&p->memory, c->counts, c->cap * sizeof *c->counts);
        *c = (struct component){0};
    }
    p->component_count = 0;
    symbols_release(&p->symbols);
    sampler_names_trim(p->names, false);
    p->began_wall_ns = clock_wall_ns();
    return symbols_init(&p->symbols, &p->memory, e);
}

static struct component *component_of(struct selfprofile *p, const char *name)
{
    for (size_t i = 0; i < p->component_count; i++) {
        if (strcmp(p->components[i].name, name) == 0) return &p->components[i];
    }
    if (p->component_count == COMPONENTS_MAX) {
        p->components[COMPONENTS_MAX - 1].name = "other";
        return &p->components[COMPONENTS_MAX - 1];
    }
    p->components[p->component_count].name = name;
    return &p->components[p->component_count++];
}

static uint32_t marked(struct symbols *s, uint32_t parent, str name, err *e)
{
    uint32_t text = symbols_string(s, name, e);
    if (text == MAP_NONE) return MAP_NONE;
    uint32_t function =
        symbols_function(s, (struct symbol_function){.name = text, .system_name = text}, e);
    if (function == MAP_NONE) return MAP_NONE;
    uint32_t frame = symbols_frame(s, (struct symbol_frame){.function = function}, e);
    return frame == MAP_NONE ? MAP_NONE : symbols_stack(s, parent, frame, e);
}

static uint32_t mapping_of(struct selfprofile *p, uint32_t module, err *e)
{
    if (module == UINT32_MAX) return 0;
    const struct sampler_module *m = sampler_names_module(p->names, module);
    uint32_t file = symbols_string(&p->symbols, m->file, e);
    uint32_t build_id = file == MAP_NONE ? MAP_NONE : symbols_string(&p->symbols, m->build_id, e);
    if (build_id == MAP_NONE) return MAP_NONE;
    return symbols_mapping(&p->symbols,
                           (struct symbol_mapping){.start = m->begin,
                                                   .limit = m->end,
                                                   .filename = file,
                                                   .build_id = build_id,
                                                   .flags = SYMBOL_HAS_FUNCTIONS},
                           e);
}

static uint32_t function_of(struct selfprofile *p, uint32_t number, err *e)
{
    const struct sampler_function *f = sampler_names_function(p->names, number);
    struct symbol_function row = {.name = symbols_string(&p->symbols, f->name, e)};
    if (row.name == MAP_NONE) return MAP_NONE;
    row.system_name = symbols_string(&p->symbols, f->linked, e);
    if (row.system_name == MAP_NONE) return MAP_NONE;
    row.filename = symbols_string(&p->symbols, f->file, e);
    return row.filename == MAP_NONE ? MAP_NONE : symbols_function(&p->symbols, row, e);
}

// The functions of one pc below `parent`, the outermost first.
static uint32_t add_place(struct selfprofile *p, uint32_t parent, uint64_t pc, err *e)
{
    struct sampler_place place = {0};
    if (!sampler_names_find(p->names, pc, &place, e)) return MAP_NONE;
    uint32_t mapping = mapping_of(p, place.module, e);
    if (mapping == MAP_NONE) return MAP_NONE;
    struct symbol_frame bare = {.address = pc, .mapping = mapping};
    if (place.count == 0) {
        uint32_t frame = symbols_frame(&p->symbols, bare, e);
        return frame == MAP_NONE ? MAP_NONE : symbols_stack(&p->symbols, parent, frame, e);
    }
    for (uint32_t i = place.count; i-- > 0 && parent != MAP_NONE;) {
        uint32_t function = function_of(p, place.lines[i].function, e);
        if (function == MAP_NONE) return MAP_NONE;
        struct symbol_frame row = {.function = function,
                                   .line = place.lines[i].line,
                                   .mapping = mapping,
                                   .inlined = i + 1 < place.count};
        uint32_t frame = symbols_frame(&p->symbols, row, e);
        parent = frame == MAP_NONE ? MAP_NONE : symbols_stack(&p->symbols, parent, frame, e);
    }
    return parent;
}

static uint32_t stack_of(struct selfprofile *p, const struct sample *s, err *e)
{
    uint64_t pcs[SAMPLER_DEPTH_MAX];
    enum sample_end end = SAMPLE_WHOLE;
    uint32_t n = sampler_names_repair(p->names, s, pcs, &end);
    uint32_t stack = 0;
    if (end == SAMPLE_LOST) stack = marked(&p->symbols, stack, S("[no frame pointer]"), e);
    if (end == SAMPLE_DEEP) stack = marked(&p->symbols, stack, S("[too deep]"), e);
    while (n-- > 0 && stack != MAP_NONE) {
        stack = pcs[n] == SAMPLE_GAP ? marked(&p->symbols, stack, S("[no frame pointer]"), e)
                                     : add_place(p, stack, pcs[n], e);
    }
    return stack;
}

// What does not fit in memory is dropped; the next interval begins anew.
static void add_sample(void *ctx, const struct sample *s)
{
    struct selfprofile *p = ctx;
    err e = {0};
    uint32_t stack = stack_of(p, s, &e);
    struct component *c = component_of(p, s->component);
    if (stack == MAP_NONE ||
        !mem_grow(&p->memory, &c->counts, &c->cap, (size_t)stack + 1, sizeof *c->counts, &e)) {
        metric_add(&service_self_profile_dropped, s->weight);
        return;
    }
    c->counts[stack] += s->weight;
}

// ---- pushing

static void put_label(struct buf *b, const char *name, str value)
{
    size_t mark = pb_begin(b, 1);
    pb_put_bytes(b, 1, str_of(name));
    pb_put_bytes(b, 2, value);
    pb_end(b, mark);
}

static bool encode_component(struct selfprofile *p, struct arena *a, const struct component *c,
                             struct buf *out, err *e)
{
    uint32_t n = p->symbols.t.stack_count;
    int64_t *sums = ARENA_ARRAY(a, int64_t, n);
    if (!arena_ok(a, e)) return false;
    int64_t period = NS_PER_S / p->settings->rate;
    for (uint32_t i = 0; i < n && i < c->cap; i++)
        sums[i] = c->counts[i] * period;
    struct pprof_options o = {.header = {.sample_type = S("cpu"),
                                         .sample_unit = S("nanoseconds"),
                                         .period_type = S("cpu"),
                                         .period_unit = S("nanoseconds"),
                                         .period = period,
                                         .time_ns = clock_wall_ns(),
                                         .duration_ns = clock_wall_ns() - p->began_wall_ns}};
    size_t series = pb_begin(out, 1);
    put_label(out, "__name__", S("process_cpu"));
    put_label(out, "service_name", S("flametree"));
    put_label(out, "component", str_of(c->name));
    put_label(out, "instance", str_of(p->node->id));
    size_t sample = pb_begin(out, 2);
    size_t raw = pb_begin(out, 1);
    bool ok = pprof_encode(a, &p->symbols.t, sums, &o, out, e);
    pb_end(out, raw);
    pb_end(out, sample);
    pb_end(out, series);
    return ok && buf_ok(out, e);
}

static bool send_push(struct selfprofile *p, struct req *r, str body, err *e)
{
    struct http_call c = {.method = "POST",
                          .address = str_of(p->address),
                          .path = S(SELFPROFILE_PUSH_PATH),
                          .body = body,
                          .answer_max = 65536,
                          .tls = p->tls};
    http_headers_add(&c.headers, &r->arena, S("content-type"), S("application/proto"));
    http_headers_add(&c.headers, &r->arena, S("x-scope-orgid"), str_of(p->settings->tenant));
    if (!arena_ok(&r->arena, e)) return false;
    http_start(p->node->client, r, &c, RANK_PUBLIC);
    bool ok = call_wait(r, &c.call, e);
    if (ok && c.status != 200) {
        str text = buf_view(&c.answer);
        ok = err_set(e, ERR_UNAVAILABLE, "status %u: %.*s", c.status, STR(str_slice(text, 0, 200)));
    }
    http_call_release(&c);
    return ok;
}

static bool encode_and_send(struct selfprofile *p, struct req *r, err *e)
{
    struct buf body;
    buf_init(&body, &p->memory, PUSH_MAX);
    bool ok = true;
    for (size_t i = 0; ok && i < p->component_count; i++)
        ok = encode_component(p, &r->arena, &p->components[i], &body, e);
    if (ok && body.n > 0) ok = send_push(p, r, buf_view(&body), e);
    buf_release(&body);
    return ok;
}

// False: what was sampled is not sent yet.
static bool push(struct selfprofile *p)
{
    struct req r;
    err e = {0};
    req_init(&r, RANK_DUTY, &p->memory, PUSH_MAX, (uint64_t)PUSH_TIMEOUT);
    lock_take(&p->lock);
    p->pushing = p->stopping ? NULL : &r;
    bool go = p->pushing != NULL;
    lock_give(&p->lock);
    bool well = go && encode_and_send(p, &r, &e);
    if (go && !well && e.code != ERR_CANCELED) {
        char text[LOG_QUOTE_MAX];
        log_warn(NULL, "selfprofile.push_failed", "to=%s fault=%s", p->address,
                 log_quote(text, str_of(e.msg)));
        metric_add_to(&service_self_profile_pushes, S("failed"), 1);
    }
    if (well) metric_add_to(&service_self_profile_pushes, S("well"), 1);
    lock_take(&p->lock);
    p->pushing = NULL;
    lock_give(&p->lock);
    req_release(&r);
    return well;
}

// ---- the thread

static bool wait_a_little(struct selfprofile *p)
{
    uint64_t until = clock_mono_ns() + (uint64_t)READ_EVERY;
    lock_take(&p->lock);
    while (!p->stopping && clock_mono_ns() < until)
        cond_wait_until(&p->change, &p->lock, until);
    bool go_on = !p->stopping;
    lock_give(&p->lock);
    return go_on;
}

static void note_losses(uint64_t *told)
{
    struct sampler_stats stats;
    sampler_stats(&stats);
    metric_add(&service_self_profile_dropped, stats.dropped - *told);
    metric_set(&service_self_profile_threads, stats.threads);
    *told = stats.dropped;
}

static void *selfprofile_main(void *arg)
{
    struct selfprofile *p = arg;
    uint64_t told = 0;
    uint64_t scan_at = 0;
    uint64_t push_at = clock_mono_ns() + (uint64_t)FIRST_PUSH;
    err e = {0};
    bool ok = reset(p, &e);
    while (ok && wait_a_little(p)) {
        uint64_t now = clock_mono_ns();
        if (now >= scan_at) {
            sampler_scan();
            note_losses(&told);
            scan_at = now + (uint64_t)SCAN_EVERY;
        }
        sampler_read(add_sample, p);
        if (now < push_at) continue;
        // What could not be sent goes with the next push, as long as there is memory for both.
        bool keep = !push(p) && atomic_load(&p->memory.used) < MEMORY_MAX / 2;
        push_at = clock_mono_ns() + (uint64_t)p->settings->interval;
        if (!keep) ok = reset(p, &e);
    }
    if (!ok) {
        char text[LOG_QUOTE_MAX];
        log_error(NULL, "selfprofile.ended", "fault=%s", log_quote(text, str_of(e.msg)));
    }
    return NULL;
}

// ---- life

// The host and port of an http or https URL without a path.
static bool choose_address(struct selfprofile *p, bool takes_pushes)
{
    str url = str_of(p->settings->url);
    if (url.n == 0) {
        if (!takes_pushes) return false;
        snprintf(p->address, sizeof p->address, "%s", p->node->public_address);
        return true;
    }
    p->tls = str_starts(url, S("https://"));
    url = str_slice(url, str_find(url, ':') + 3, url.n);
    str rest;
    str host = str_split(url, '/', &rest);
    bool has_port = str_rfind(host, ':') < host.n && !str_ends(host, S("]"));
    snprintf(p->address, sizeof p->address, "%.*s%s", STR(host),
             has_port ? ""
             : p->tls ? ":443"
                      : ":80");
    return true;
}

static void selfprofile_free(struct selfprofile *p)
{
    for (size_t i = 0; i < p->component_count; i++)
        mem_free(&p->memory, p->components[i].counts,
                 p->components[i].cap * sizeof *p->components[i].counts);
    symbols_release(&p->symbols);
    sampler_names_free(p->names);
    cond_release(&p->change);
    lock_release(&p->lock);
    mem_must_free(p);
}

static bool begin(struct selfprofile *p, err *e)
{
    p->names = sampler_names_new(&p->memory, PLACES_MAX, e);
    if (!p->names || !sampler_start((unsigned)p->settings->rate, e)) return false;
    if (thread_start(&p->thread, "selfprofile", selfprofile_main, p, e)) return true;
    sampler_stop();
    return false;
}

struct selfprofile *selfprofile_start(const struct node *node, bool takes_pushes)
{
    const struct self_profile_settings *s = config_section(node->config, "self_profile");
    if (!s->enabled) return NULL;
    struct selfprofile *p = mem_must(sizeof *p);
    p->node = node;
    p->settings = s;
    mem_budget_init(&p->memory, "self_profile", node->memory, MEMORY_MAX);
    lock_init(&p->lock, LOCK_SELFPROFILE);
    cond_init(&p->change);
    err e = {0};
    if (choose_address(p, takes_pushes)) {
        if (begin(p, &e)) return p;
        char text[LOG_QUOTE_MAX];
        log_warn(NULL, "selfprofile.off", "fault=%s", log_quote(text, str_of(e.msg)));
    }
    selfprofile_free(p);
    return NULL;
}

void selfprofile_stop(struct selfprofile *p)
{
    if (!p) return;
    lock_take(&p->lock);
    p->stopping = true;
    if (p->pushing) atomic_store(&p->pushing->canceled, true);
    cond_wake_all(&p->change);
    lock_give(&p->lock);
    thread_join(p->thread);
    sampler_stop();
    selfprofile_free(p);
}
