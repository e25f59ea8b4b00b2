// SPDX-License-Identifier: Apache-2.0
//
// tenant.c - snapshots of all overrides, replaced as a whole by the thread that reads their files
// again.
#include "service/tenant.h"

#include "service/config_int.h"
#include "service/metrics.h"
#include "service/overrides.h"
#include "sys/clock.h"
#include "sys/lock.h"
#include "sys/log.h"
#include "sys/thread.h"

#include <stdatomic.h>
#include <stdlib.h>

// One state of all limits.
struct snapshot {
    atomic_uint refs;
    struct overrides overrides;
    uint64_t config_version;
    uint64_t files_hash;
    const struct limits *defaults;  // of the config, which keeps its old states
};

struct tenants {
    struct config *config;
    struct lock lock;  // of current, and of stopping
    struct snapshot *current;
    struct cond change;
    bool stopping;
    bool started;
    pthread_t thread;
    struct lock reading;                   // one reload at a time; of the fields below
    char fault[sizeof((err *)NULL)->msg];  // the last one that was logged
    bool faulty;
};

// ---- snapshots

static void unref(void *arg)
{
    struct snapshot *s = arg;
    unsigned before = atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel);
    assert(before > 0);
    // Released and acquired: what other threads did with it happens before it is freed.
    if (before > 1) return;
    overrides_release(&s->overrides);
    mem_free(NULL, s, sizeof *s);
}

// Under the lock: between reading the pointer and counting, the last reference might go.
static struct snapshot *take(struct tenants *t)
{
    lock_take(&t->lock);
    struct snapshot *s = t->current;
    assert(s);
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    lock_give(&t->lock);
    return s;
}

static void publish(struct tenants *t, struct snapshot *s)
{
    lock_take(&t->lock);
    struct snapshot *old = t->current;
    assert(s && s != old && s->defaults);
    t->current = s;
    lock_give(&t->lock);
    if (old) unref(old);
}

// ---- the limits of one request

// 0 means "no limit" in all numeric limits, so it is larger than any number.
static void shrink(const struct config_row *row, void *to, const void *by)
{
    switch (row->type) {
    case CONFIG_T_INT:
    case CONFIG_T_DURATION: {
        int64_t *x = to;
        int64_t y = *(const int64_t *)by;
        if (y > 0 && (*x <= 0 || y < *x)) *x = y;
        return;
    }
    case CONFIG_T_BYTES: {
        uint64_t *x = to;
        uint64_t y = *(const uint64_t *)by;
        if (y > 0 && (*x == 0 || y < *x)) *x = y;
        return;
    }
    case CONFIG_T_FLOAT: {
        double *x = to;
        double y = *(const double *)by;
        if (y > 0 && (*x <= 0 || y < *x)) *x = y;
        return;
    }
    case CONFIG_T_BOOL:
        *(bool *)to &= *(const bool *)by;
        return;
    case CONFIG_T_STRING:
    case CONFIG_T_LIST:
    case CONFIG_T_NODE:
        return;
    }
    abort();
}

static const struct limits *of_one(const struct snapshot *s, const struct limits *defaults,
                                   str tenant)
{
    const struct limits *l = overrides_find(&s->overrides, tenant);
    return l ? l : defaults;
}

static const struct limits *of_all(const struct snapshot *s, const struct limits *defaults,
                                   struct arena *a, str tenants)
{
    if (str_find(tenants, '|') == tenants.n) return of_one(s, defaults, tenants);
    // A query over several tenants gets the smallest of each limit.
    struct limits *least = ARENA_NEW(a, struct limits);
    if (!least) return defaults;
    str rest = {0};
    *least = *of_one(s, defaults, str_split(tenants, '|', &rest));
    while (rest.p) {
        const struct limits *l = of_one(s, defaults, str_split(rest, '|', &rest));
        for (size_t i = 0; i < limits_section.row_count; i++) {
            const struct config_row *row = &limits_section.rows[i];
            shrink(row, (char *)least + row->offset, (const char *)l + row->offset);
        }
    }
    return least;
}

const struct limits *tenant_limits(const struct config *c, struct arena *a, str tenant)
{
    const struct limits *defaults = config_section(c, "limits");
    struct tenants *t = config_tenants(c);
    assert(defaults);  // a request without limits would be admitted without any
    if (!t) return defaults;
    struct snapshot *s = take(t);
    const struct limits *l = defaults;
    if (s->overrides.count > 0) l = of_all(s, defaults, a, tenant);
    // The request's arena holds the reference, so the limits live as long as the request.
    if (l != defaults && arena_defer(a, unref, s)) return l;
    unref(s);
    return defaults;
}

// ---- reading

static struct snapshot *build(const struct tenants *t, CONFIG_LIST files, str *texts, err *e)
{
    struct snapshot *s = mem_alloc(NULL, sizeof *s, e);
    if (!s) return NULL;
    assert(config_version(t->config) > 0);
    atomic_init(&s->refs, 1);
    // Version first: limits of a newer state under an older number are only built once more.
    s->config_version = config_version(t->config);
    s->defaults = config_section(t->config, "limits");
    if (overrides_read(&s->overrides, files, texts, s->defaults, e)) return s;
    unref(s);
    return NULL;
}

static void show_row(struct metric *m, const str *values, const struct config_row *row,
                     const void *limits)
{
    const char *at = (const char *)limits + row->offset;
    switch (row->type) {
    case CONFIG_T_INT:
        metric_set_real(m, values, (double)*(const int64_t *)at);
        break;
    case CONFIG_T_DURATION:
        metric_set_real(m, values, (double)*(const int64_t *)at / (double)NS_PER_S);
        break;
    case CONFIG_T_FLOAT:
        metric_set_real(m, values, *(const double *)at);
        break;
    case CONFIG_T_BYTES:
        metric_set_real(m, values, (double)*(const CONFIG_BYTES *)at);
        break;
    case CONFIG_T_BOOL:
    case CONFIG_T_STRING:
    case CONFIG_T_LIST:
    case CONFIG_T_NODE:
        break;
    }
}

// Every numeric default, and the numbers that a tenant has otherwise.
static void show(const struct snapshot *s)
{
    // First all go: a tenant may have left the file.
    metric_forget_sets(&service_limits_overrides);
    metric_set(&service_overrides_tenants, (int64_t)s->overrides.count);
    for (size_t i = 0; i < limits_section.row_count; i++) {
        const struct config_row *row = &limits_section.rows[i];
        str values[2] = {str_of(row->key)};
        show_row(&service_limits_defaults, values, row, s->defaults);
        for (size_t k = 0; k < s->overrides.count; k++) {
            const struct override *o = &s->overrides.v[k];
            values[1] = o->tenant;
            if (!config_value_eq(row, (const char *)o->limits + row->offset,
                                 (const char *)s->defaults + row->offset))
                show_row(&service_limits_overrides, values, row, o->limits);
        }
    }
}

// A fault is told once, until it changes or is gone.
static void tell(struct tenants *t, const err *fault)
{
    char quoted[LOG_QUOTE_MAX];
    assert(!fault || fault->code != ERR_OK);
    metric_set(&service_overrides_reload_ok, fault == NULL);
    metric_add_to(&service_overrides_reloads, fault ? S("refused") : S("well"), 1);
    if (!fault) {
        t->faulty = false;
        return;
    }
    if (t->faulty && strcmp(t->fault, fault->msg) == 0) return;
    t->faulty = true;
    memcpy(t->fault, fault->msg, sizeof t->fault);
    log_error(NULL, "overrides.refused", "why=%s", log_quote(quoted, str_of(fault->msg)));
}

// Under `reading`, which is held while files are read: only other reloads wait for it.
static bool reload(struct tenants *t, err *e)
{
    const struct runtime_config_settings *set = config_section(t->config, "runtime_config");
    struct arena texts;
    arena_init(&texts, NULL, OVERRIDES_MAX_BYTES);
    struct snapshot *s = NULL;
    str *files = NULL;
    uint64_t hash = 0;
    // Before reading: a config that changes meanwhile makes the next reload build again.
    uint64_t version = config_version(t->config);
    bool ok = overrides_load(&texts, set->file, &files, &hash, e);
    struct snapshot *old = t->current;  // only a reload replaces it
    // Most reloads find nothing new, and must cost no more than reading the files.
    bool same = ok && old && old->files_hash == hash && old->config_version == version;
    if (ok && !same) {
        s = build(t, set->file, files, e);
        ok = s != NULL;
    }
    arena_release(&texts);
    if (s) {
        s->files_hash = hash;
        s->config_version = version;
        show(s);
        publish(t, s);
        if (old) log_info(NULL, "overrides.loaded", "tenants=%zu", s->overrides.count);
    }
    return ok;
}

bool tenants_reload(struct tenants *t, err *e)
{
    lock_take(&t->reading);
    bool ok = reload(t, e);
    tell(t, ok ? NULL : e);
    lock_give(&t->reading);
    return ok;
}

// ---- life

struct tenants *tenants_open(struct config *c, err *e)
{
    struct tenants *t = mem_must(sizeof *t);
    t->config = c;
    lock_init(&t->reading, LOCK_OVERRIDES);
    lock_init(&t->lock, LOCK_TENANTS);
    cond_init(&t->change);
    if (reload(t, e)) {
        metric_set(&service_overrides_reload_ok, 1);
        config_set_tenants(c, t);
        return t;
    }
    tenants_close(t);
    return NULL;
}

static void *run_reloader(void *arg)
{
    struct tenants *t = arg;
    lock_take(&t->lock);
    while (!t->stopping) {
        const struct runtime_config_settings *s = config_section(t->config, "runtime_config");
        (void)cond_wait_until(&t->change, &t->lock, clock_mono_ns() + (uint64_t)s->reload_period);
        if (t->stopping) break;
        lock_give(&t->lock);  // reading files may block
        err ignored = {0};    // tenants_reload has logged it
        s = config_section(t->config, "runtime_config");
        if (s->file.n > 0) (void)!tenants_reload(t, &ignored);
        lock_take(&t->lock);
    }
    lock_give(&t->lock);
    return NULL;
}

bool tenants_start(struct tenants *t, err *e)
{
    assert(!t->started && !t->stopping);
    t->started = thread_start(&t->thread, "overrides", run_reloader, t, e);
    return t->started;
}

void tenants_close(struct tenants *t)
{
    if (!t) return;
    lock_take(&t->lock);
    t->stopping = true;
    cond_wake_all(&t->change);
    lock_give(&t->lock);
    // The thread reloads nothing after this, so what follows needs no lock.
    if (t->started) thread_join(t->thread);
    if (config_tenants(t->config) == t) config_set_tenants(t->config, NULL);
    if (t->current) unref(t->current);
    cond_release(&t->change);
    lock_release(&t->lock);
    lock_release(&t->reading);
    mem_must_free(t);
}

// ---- pages

bool tenants_configured(const struct tenants *t)
{
    const struct runtime_config_settings *s = config_section(t->config, "runtime_config");
    return s->file.n > 0;
}

void tenants_print(struct tenants *t, bool diff, struct buf *out)
{
    struct snapshot *s = take(t);
    buf_z(out, s->overrides.count ? "overrides:\n" : "overrides: {}\n");
    for (size_t i = 0; i < s->overrides.count; i++) {
        const struct override *o = &s->overrides.v[i];
        size_t before = out->n;
        buf_z(out, "  ");
        yaml_node_print_text(o->tenant, out);
        buf_z(out, ":\n");
        size_t head = out->n;
        config_print_section(&limits_section, o->limits, diff ? s->defaults : NULL, "    ", out);
        if (out->n == head && !out->failed) out->n = before;  // nothing differs
    }
    unref(s);
}
