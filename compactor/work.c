// SPDX-License-Identifier: Apache-2.0
//
// work.c - workers and the list of tenants.
//
// A worker takes turns: the list of tenants if it is time, else the tenant that turns_next says,
// else it sleeps until something is due or somebody wakes it. A run (work_run) does the same on the
// thread of whoever asks, tenant after tenant. Tenants are never removed from the list, so pointers
// to them hold without the lock.
#include "compactor/closing.h"
#include "compactor/metrics.h"
#include "compactor/work_int.h"
#include "manifest/registry.h"
#include "service/process.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/stat.h>

#define LIST_BYTES    ((size_t)64 << 20)
#define LIST_LIMIT_NS ((uint64_t)60 * NS_PER_S)
#define PLAN_BYTES    ((size_t)1 << 30)  // plans of all tenants
#define TIDY_NS       ((uint64_t)24 * 3600 * NS_PER_S)
#define PLACE_BYTES   ((size_t)1 << 20)

const struct compactor_config *work_settings(const struct work *w)
{
    return config_section(w->process->config, "compactor");
}

bool work_is_on(const struct work *w)
{
    return w->worker_count > 0;
}

bool work_is_over(struct work *w)
{
    lock_take(&w->lock);
    bool over = w->stopping;
    lock_give(&w->lock);
    return over;
}

// ---- tenants

struct wanted_name {
    const struct work *work;
    str name;
};

static bool has_name(const void *ctx, uint32_t row)
{
    const struct wanted_name *wanted = ctx;
    return str_is(wanted->name, wanted->work->tenants[row]->name);
}

// Under the lock. NULL: no memory. All room is made before anything is changed, so that a tenant is
// in the list, in the map and in the queue, or nowhere.
struct tenant_work *work_tenant(struct work *w, str name)
{
    err ignored = {0};
    assert(lock_is_mine(&w->lock));
    const struct wanted_name wanted = {w, name};
    uint64_t hash = hash_table_str(name);
    uint32_t row = map_find(&w->by_name, hash, has_name, &wanted);
    if (row != MAP_NONE) return w->tenants[row];
    row = (uint32_t)w->tenant_count;
    if (!mem_grow(&w->memory, &w->tenants, &w->tenant_cap, w->tenant_count + 1,
                  sizeof(struct tenant_work *), &ignored) ||
        !turns_room(w, w->tenant_count + 1, &ignored) ||
        !map_reserve(&w->by_name, row + 1, &ignored)) {
        return NULL;
    }
    struct tenant_work *t = mem_alloc(&w->memory, sizeof *t, &ignored);
    char *copy = t ? mem_alloc(&w->memory, name.n + 1, &ignored) : NULL;
    if (!copy) {
        mem_free(&w->memory, t, sizeof *t);
        return NULL;
    }
    memcpy(copy, name.p, name.n);
    t->name = copy;
    sweep_seen_init(&t->seen, &w->memory);
    t->next_sweep_mono_ns = idle_first_sweep(w, name);
    bool put = map_put(&w->by_name, hash, row, &ignored);
    assert(put);  // there is room
    w->tenants[w->tenant_count++] = t;
    turns_ready(w, t);
    return t;
}

static void tell_skipped(size_t skipped, size_t n)
{
    metric_set(&compactor_skipped_tenants, (int64_t)skipped);
    if (skipped == 0) return;
    const struct log_fields f = {0};
    log_error(
        &f, "compactor.tenants_skipped",
        "skipped=%zu of=%zu action=\"raise memory_limit: there is no memory to note that these "
        "tenants exist, and nothing of them is compacted; it is tried again\"",
        skipped, n);
}

// (Bytes between fields may differ.)
static bool are_same(const struct compactor_config *a, const struct compactor_config *b)
{
#define ROW(key, ...) \
    if (a->key != b->key) return false;
#include "compactor/config.def"
#undef ROW
    return true;
}

// Plans of idle tenants are made anew if settings are others. Under the lock.
static void note_settings(struct work *w)
{
    const struct compactor_config *now = work_settings(w);
    assert(lock_is_mine(&w->lock));
    if (are_same(&w->settings, now)) return;
    w->settings = *now;
    w->settings_number++;
}

// For each tenant, whether another process is its first compactor. NULL: no memory.
static bool *find_places(const struct work *w, struct arena *a, const str *names, size_t n)
{
    struct share s = {.me = str_of(w->process->id)};
    bool *others = ARENA_ARRAY(a, bool, n + 1);
    s.members = members_of(w->process->members, a, MEMBER_COMPACTOR, &s.member_count);
    for (size_t i = 0; others && i < n; i++) {
        struct arena scratch;
        arena_init(&scratch, NULL, PLACE_BYTES);
        s.tenant = names[i];
        others[i] = share_place_of(&scratch, &s).place > 0;
        arena_release(&scratch);
    }
    return others;
}

static bool list_tenants(struct work *w, const struct req *asker, err *e)
{
    struct req r;
    str *names = NULL;
    size_t n = 0;
    size_t skipped = 0;
    str *closed = NULL;
    size_t closed_count = 0;
    uint64_t limit = asker ? MIN(LIST_LIMIT_NS, req_left_ns(asker)) : LIST_LIMIT_NS;
    req_init(&r, RANK_DUTY, &w->memory, LIST_BYTES, limit);
    bool ok = tenants_list(w->manifests, &r, &r.arena, &names, &n, e);
    // After the tenants: one that is closed meanwhile is in both lists. If it is created anew
    // between the two LISTs, it is found by the next.
    ok = ok && tenants_closed(w->manifests, &r, &r.arena, &closed, &closed_count, e);
    bool *places = ok ? find_places(w, &r.arena, names, n) : NULL;
    if (ok && !places) (void)arena_fail(&r.arena, e);
    ok = places != NULL;
    lock_take(&w->lock);
    note_settings(w);
    for (size_t i = 0; ok && i < n; i++) {
        struct tenant_work *t = work_tenant(w, names[i]);
        if (t) t->listed = true;
        if (t) turns_set_owner(w, t, places[i]);
        skipped += !t;
    }
    if (ok) skipped += closing_note(w, closed, closed_count);
    w->listed = w->listed || ok;
    if (ok) limit_share(w);
    lock_give(&w->lock);
    req_release(&r);
    if (!ok) metric_add(&compactor_failed_inspections, 1);
    if (ok) tell_skipped(skipped, n);
    return ok;
}

size_t tenant_backlog(const struct tenant_work *t)
{
    size_t n = 0;
    for (size_t i = 0; i < JOB_KINDS; i++)
        n += t->due[i];
    return n;
}

// ---- turns

static void report_fault(const char *tenant, const err *e)
{
    char text[LOG_QUOTE_MAX];
    const struct log_fields f = {.tenant = str_of(tenant)};
    if (e->code == ERR_CANCELED) return;
    metric_add(&compactor_failed_inspections, 1);
    log_warn(&f, "compactor.inspect_failed",
             "code=%s fault=%s action=\"look at the store; "
             "nothing is lost, it is tried again\"",
             err_name(e->code), log_quote(text, str_of(e->msg)));
}

void worker_set_req(struct worker *me, struct req *r)
{
    lock_take(&me->work->lock);
    me->req = r;
    // A drain that began before this request was known could not cancel it.
    if (r && me->work->stopping) atomic_store(&r->canceled, true);
    lock_give(&me->work->lock);
}

// What killed processes left of creations belongs to the store and not to a tenant: any compactor
// drops it, after its start and then once a day. Jobs older than an hour do not commit, so nobody
// waits for an upload that is a day old.
static void tidy(struct work *w, const struct req *asker)
{
    struct req r;
    uint64_t dropped = 0;
    err e = {0};
    uint64_t limit = asker ? MIN(LIST_LIMIT_NS, req_left_ns(asker)) : LIST_LIMIT_NS;
    req_init(&r, RANK_DUTY, &w->memory, LIST_BYTES, limit);
    bool ok = store_tidy(w->process->store, &r, TIDY_NS, &dropped, &e);
    if (dropped) log_info(NULL, "compactor.tidied", "uploads=%" PRIu64, dropped);
    metric_add_to(&compactor_deleted, S("upload"), dropped);
    if (!ok) report_fault("", &e);
    req_release(&r);
}

static void take_turn(struct worker *me, struct tenant_work *t, const struct req *asker)
{
    struct work *w = me->work;
    err e = {0};
    lock_take(&w->lock);
    bool closed = t->closing != NULL;
    lock_give(&w->lock);
    bool ok = closed ? closing_step(me, t, asker, &e) : inspect(me, t, asker, &e);
    if (!ok) report_fault(t->name, &e);
    lock_take(&w->lock);
    assert(t->workers > 0);
    t->workers--;
    // What cannot be looked at is tried again in its time.
    if (!ok) t->next_inspection_mono_ns = clock_mono_ns() + (uint64_t)work_settings(w)->interval;
    turns_ended(w, t);
    cond_wake_all(&w->wake);
    lock_give(&w->lock);
}

static void *worker_main(void *arg)
{
    struct worker *me = arg;
    struct work *w = me->work;
    lock_take(&w->lock);
    while (!w->stopping) {
        uint64_t now = clock_mono_ns();
        uint64_t until = w->next_list_mono_ns;
        if (!w->listing && now >= w->next_list_mono_ns) {
            err e = {0};
            w->listing = true;  // other workers take turns meanwhile
            lock_give(&w->lock);
            if (!list_tenants(w, NULL, &e)) report_fault("", &e);
            if (now >= w->next_tidy_mono_ns) tidy(w, NULL);
            lock_take(&w->lock);
            if (now >= w->next_tidy_mono_ns) w->next_tidy_mono_ns = now + TIDY_NS;
            w->listing = false;
            w->next_list_mono_ns = clock_mono_ns() + (uint64_t)work_settings(w)->interval;
            continue;
        }
        struct tenant_work *t = turns_next(w, &until);
        if (!t) {
            (void)cond_wait_until(&w->wake, &w->lock, MAX(until, now + NS_PER_MS));
            continue;
        }
        lock_give(&w->lock);
        atomic_store(&me->memory.limit, (size_t)work_settings(w)->worker_memory);
        take_turn(me, t, NULL);
        lock_take(&w->lock);
    }
    lock_give(&w->lock);
    return NULL;
}

// ---- work that somebody waits for

// The tenant with this number; NULL: there is none, or no time.
static struct tenant_work *take_tenant(struct work *w, size_t i, const struct req *r,
                                       uint64_t *done)
{
    struct tenant_work *t = NULL;
    lock_take(&w->lock);
    if (!w->stopping && i < w->tenant_count && req_left_ns(r) > 0) {
        t = w->tenants[i];
        t->workers++;
        turns_ready(w, t);
        *done = t->jobs_done;
    }
    lock_give(&w->lock);
    return t;
}

static uint64_t jobs_since(struct work *w, const struct tenant_work *t, uint64_t before)
{
    lock_take(&w->lock);
    uint64_t n = t->jobs_done - before;
    lock_give(&w->lock);
    return n;
}

static uint64_t backlog_of_all(struct work *w, bool *inspected)
{
    uint64_t n = 0;
    *inspected = true;
    lock_take(&w->lock);
    for (size_t i = 0; i < w->tenant_count; i++) {
        n += tenant_backlog(w->tenants[i]);
        *inspected = *inspected && w->tenants[i]->inspected && !w->tenants[i]->is_ill;
    }
    lock_give(&w->lock);
    return n;
}

static void note_open(struct work *w, struct work_done *out)
{
    lock_take(&w->lock);
    for (size_t i = 0; i < w->tenant_count; i++) {
        const struct tenant_work *t = w->tenants[i];
        if (t->open_segments == 0) continue;
        out->open_until_ns =
            out->open_segments ? MIN(out->open_until_ns, t->open_until_ns) : t->open_until_ns;
        out->open_segments += t->open_segments;
    }
    lock_give(&w->lock);
}

static void add_run(struct work *w, struct worker *me)
{
    lock_take(&w->lock);
    me->next = w->runs;
    w->runs = me;
    lock_give(&w->lock);
}

static void end_run(struct work *w, struct worker *me)
{
    lock_take(&w->lock);
    struct worker **at = &w->runs;
    while (*at != me) {
        assert(*at);
        at = &(*at)->next;
    }
    *at = me->next;
    lock_give(&w->lock);
}

static bool called_off(err *e)
{
    return err_set(e, ERR_UNAVAILABLE,
                   "this process is about to stop; what is left is done after its restart, or by "
                   "other compactors");
}

bool work_run(struct work *w, struct req *r, bool sweep, struct work_done *out, err *e)
{
    *out = (struct work_done){0};
    if (!w->manifests)
        return err_set(e, ERR_FAILED_PRECONDITION, "there is no object storage: nothing to do");
    if (work_is_over(w)) return called_off(e);
    if (!list_tenants(w, r, e)) return false;
    if (sweep) tidy(w, r);
    struct worker me = {.work = w, .forced = true, .sweeps = sweep};
    mem_budget_init(&me.memory, "compactor.run", w->process->memory,
                    (size_t)work_settings(w)->worker_memory);
    bool inspected = false;
    add_run(w, &me);
    // By number, not by a copy of the list: tenants that are found meanwhile are worked on as well.
    for (size_t i = 0;; i++) {
        uint64_t before = 0;
        struct tenant_work *t = take_tenant(w, i, r, &before);
        if (!t) break;
        take_turn(&me, t, r);
        out->jobs += jobs_since(w, t, before);
    }
    end_run(w, &me);
    out->backlog = backlog_of_all(w, &inspected);
    note_open(w, out);
    out->settled = out->backlog == 0 && inspected && req_left_ns(r) > 0;
    return out->settled || !work_is_over(w) || called_off(e);
}

// ---- life

static bool start_workers(struct work *w, err *e)
{
    size_t n = (size_t)work_settings(w)->workers;
    if (n == 0) return true;
    w->workers = mem_must(n * sizeof *w->workers);
    for (size_t i = 0; i < n; i++) {
        struct worker *me = &w->workers[i];
        me->work = w;
        mem_budget_init(&me->memory, "compactor.worker", w->process->memory,
                        (size_t)work_settings(w)->worker_memory);
        if (!thread_start(&me->thread, "compactor", worker_main, me, e)) return false;
        w->worker_count++;
    }
    return true;
}

static char *scratch_folder(const char *data_dir)
{
    static const char below[] = "/cache/compactor";
    size_t n = strlen(data_dir);
    char *path = mem_must(n + sizeof below);
    snprintf(path, n + sizeof below, "%s/cache", data_dir);
    (void)mkdir(path, 0700);  // who cannot write there says so when he has to
    snprintf(path, n + sizeof below, "%s%s", data_dir, below);
    return path;
}

struct work *work_new(const struct process *process, err *e)
{
    struct work *w = mem_must(sizeof *w);
    w->process = process;
    mem_budget_init(&w->memory, "compactor", process->memory, 0);
    mem_budget_init(&w->plans, "compactor.plans", process->memory, PLAN_BYTES);
    lock_init(&w->lock, LOCK_COMPACTOR);
    cond_init(&w->wake);
    watch_init(&w->watch, &w->memory);
    map_init(&w->by_name, &w->memory);
    if (!process->store) return w;
    w->registry = registry_new(process->store, &w->memory, "compactor");
    w->scratch = scratch_folder(process->data_dir);
    w->manifests = manifests_open(process->store, process->memory, NULL, e);
    if (w->manifests) {
        manifests_limit(w->manifests, "compactor.manifest_memory",
                        (size_t)work_settings(w)->manifest_memory);
        process_watch_budget(manifests_budget(w->manifests));
        limit_say(w);
    }
    if (w->manifests && manifests_rest_after(w->manifests, MANIFESTS_REST, e) &&
        start_workers(w, e))
        return w;
    work_drain(w);
    work_free(w);
    return NULL;
}

void work_call_off(struct work *w)
{
    lock_take(&w->lock);
    w->stopping = true;
    for (size_t i = 0; i < w->worker_count; i++) {
        if (w->workers[i].req) atomic_store(&w->workers[i].req->canceled, true);
    }
    for (struct worker *run = w->runs; run; run = run->next) {
        if (run->req) atomic_store(&run->req->canceled, true);
    }
    cond_wake_all(&w->wake);
    lock_give(&w->lock);
}

void work_drain(struct work *w)
{
    work_call_off(w);
    lock_take(&w->lock);
    bool first = !w->joined;  // a thread is joined once; drain and stop both come here
    w->joined = true;
    lock_give(&w->lock);
    for (size_t i = 0; first && i < w->worker_count; i++)
        thread_join(w->workers[i].thread);
}

void work_free(struct work *w)
{
    if (!w) return;
    assert((w->joined || w->worker_count == 0) && !w->runs);
    // Plans before manifests: their snapshots hold versions.
    for (size_t i = 0; i < w->tenant_count; i++)
        agenda_free(agenda_publish(w->tenants[i], NULL));
    if (w->manifests) process_unwatch_budget(manifests_budget(w->manifests));
    manifests_close(w->manifests);
    for (size_t i = 0; i < w->tenant_count; i++) {
        struct tenant_work *t = w->tenants[i];
        sweep_seen_release(&t->seen);
        wish_release(&t->wish, &w->memory);
        mem_free(&w->memory, t->failures, t->failure_cap * sizeof *t->failures);
        mem_free(&w->memory, t->damages, t->damage_cap * sizeof *t->damages);
        mem_free(&w->memory, t->fault, MESSAGE_MAX);
        closing_free(w, t->closing);
        mem_free(&w->memory, t->lately, DONE_LATELY_MAX * sizeof *t->lately);
        mem_free(&w->memory, t->name, strlen(t->name) + 1);
        mem_free(&w->memory, t, sizeof *t);
    }
    mem_free(&w->memory, w->tenants, w->tenant_cap * sizeof(struct tenant_work *));
    mem_free(&w->memory, w->resting, w->resting_cap * sizeof(struct tenant_work *));
    map_release(&w->by_name);
    watch_release(&w->watch);
    registered_release(&w->streams);
    registry_free(w->registry);
    mem_must_free(w->workers);
    mem_must_free(w->scratch);
    cond_release(&w->wake);
    lock_release(&w->lock);
    mem_must_free(w);
}

void work_backlog(struct work *w, uint64_t *jobs, uint64_t *bytes, uint64_t *failing)
{
    *jobs = *bytes = *failing = 0;
    lock_take(&w->lock);
    for (size_t i = 0; i < w->tenant_count; i++) {
        const struct tenant_work *t = w->tenants[i];
        *jobs += tenant_backlog(t);
        *bytes += t->due_bytes;
        *failing += t->failure_count;
    }
    lock_give(&w->lock);
}

void work_gauges(struct work *w)
{
    int64_t due[JOB_KINDS] = {0};
    int64_t later[JOB_KINDS] = {0};
    int64_t behind[JOB_KINDS] = {0};
    int64_t oldest = INT64_MAX;
    int64_t now_ns = clock_wall_ns();
    size_t leaves = 0;
    size_t failing = 0;
    size_t left_out = 0;
    lock_take(&w->lock);
    for (size_t i = 0; i < w->tenant_count; i++) {
        const struct tenant_work *t = w->tenants[i];
        for (size_t k = 0; k < JOB_KINDS; k++) {
            due[k] += (int64_t)t->due[k];
            later[k] += (int64_t)t->later[k];
            if (t->due[k]) behind[k] = MAX(behind[k], now_ns - t->due_since_ns[k]);
        }
        leaves += t->held_leaves;
        failing += t->failure_count;
        left_out += t->damage_count;
        if (t->segments) oldest = MIN(oldest, slot_start(t->oldest_hour + 1, SLOT_HOUR));
    }
    int64_t wait = leaves && w->watch.count ? clock_boot_ns() - w->round_boot_ns : 0;
    metric_set(&compactor_tenants, (int64_t)w->tenant_count);
    lock_give(&w->lock);
    for (size_t k = 0; k < JOB_KINDS; k++) {
        str level = str_of(job_kind_name((enum job_kind)k));
        metric_set_to(&compactor_backlog, level, due[k]);
        metric_set_to(&compactor_later, level, later[k]);
        metric_set_to(&compactor_behind, level, behind[k] / NS_PER_S);
    }
    metric_set(&compactor_failing, (int64_t)failing);
    metric_set(&compactor_held_leaves, (int64_t)leaves);
    metric_set(&compactor_streams_wait, wait / NS_PER_S);
    metric_set(&compactor_left_out, (int64_t)left_out);
    int64_t age = oldest == INT64_MAX ? 0 : now_ns - oldest;
    metric_set(&compactor_lag, MAX(age, 0) / NS_PER_S);
    limit_gauges(w);
}
