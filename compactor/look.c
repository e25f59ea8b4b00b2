// SPDX-License-Identifier: Apache-2.0
//
// look.c - a turn of a tenant: snapshot, plan, jobs, sweep.
#include "base/fault.h"
#include "cluster/place.h"
#include "compactor/metrics.h"
#include "compactor/work_int.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>

#define LOOK_BYTES    ((size_t)1 << 30)  // cap of a snapshot and its plan
#define LOOK_LIMIT_NS ((uint64_t)3600 * NS_PER_S)
#define BATCH_MAX     24  // jobs whose blocks are named by one change, when much is due
#define BATCH_NS      ((uint64_t)30 * NS_PER_S)
#define PLAN_GOOD_NS  ((uint64_t)300 * NS_PER_S)  // then it is made anew
#define ABORTED_MAX   16                          // in a row; then it is a failure like others
#define PLACE_WAIT_NS ((int64_t)600 * NS_PER_S)

struct turn {
    struct worker *me;
    struct tenant_work *tenant;
    struct req req;
    struct snapshot snapshot;
    struct plan plan;
    bool *ended;  // of each of its jobs: done
    int64_t begun_ns;
    int64_t begun_boot_ns;
    uint64_t done;
    bool damage_seen;  // what was damaged was looked at
    bool again;        // something changed: a new plan may find more
    unsigned aborted;
    struct job_made batch[BATCH_MAX];  // made, to be named by one change of the manifest
    uint64_t took_ns[BATCH_MAX];
    size_t batch_n;
    uint64_t batch_mono_ns;  // when its first was made
};

// ---- failures and damages; under the lock

static struct failure *find_failure(struct tenant_work *t, const struct task *j)
{
    for (size_t i = 0; i < t->failure_count; i++) {
        if (t->failures[i].kind == j->kind && t->failures[i].from_hour == j->from_hour)
            return &t->failures[i];
    }
    return NULL;
}

static void forget_failure(struct tenant_work *t, const struct task *j)
{
    struct failure *f = find_failure(t, j);
    if (f) *f = t->failures[--t->failure_count];
}

static uint64_t retry_after(unsigned tries, int64_t most)
{
    uint64_t ns = (uint64_t)NS_PER_S << MIN(tries - 1, 20u);
    return MIN(ns, (uint64_t)most);
}

static struct failure *failure_room(struct work *w, struct tenant_work *t)
{
    err ignored = {0};
    bool more = t->failure_count < FAILURES_MAX &&
                mem_grow(&w->memory, &t->failures, &t->failure_cap, t->failure_count + 1,
                         sizeof *t->failures, &ignored);
    if (!more && t->failure_count == 0) return NULL;
    if (!more) memmove(t->failures, t->failures + 1, --t->failure_count * sizeof *t->failures);
    return &t->failures[t->failure_count++];
}

// In how many nanoseconds it is tried again.
static uint64_t note_failure(struct turn *u, const struct task *j, const err *e)
{
    struct tenant_work *t = u->tenant;
    struct failure *f = find_failure(t, j);
    if (!f) {
        // The table is full, or there is no memory for more: the oldest makes room, which only
        // means that it is tried sooner.
        f = failure_room(u->me->work, t);
        if (!f) return 0;
        *f = (struct failure){.kind = j->kind, .from_hour = j->from_hour};
    }
    f->tries++;
    f->at_wall_ns = clock_wall_ns();
    f->code = e->code;
    uint64_t wait = retry_after(f->tries, work_settings(u->me->work)->retry_max);
    f->retry_mono_ns = clock_mono_ns() + wait;
    snprintf(f->message, sizeof f->message, "%s: %s", err_name(e->code), e->msg);
    return wait;
}

// ---- the plan

static bool leaf_counts(void *arg, id128 leaf)
{
    return manifest_counts(arg, leaf);
}

static struct plan_settings plan_settings_of(const struct compactor_config *c)
{
    return (struct plan_settings){.leaf_delay = c->leaf_delay,
                                  .hour_delay = c->hour_delay,
                                  .day_delay = c->day_delay,
                                  .pack_interval = c->repack_interval,
                                  .fold_interval = c->fold_interval,
                                  .window_interval = c->window_interval,
                                  .day_leaf_bytes = c->day_leaf ? c->pack_bytes : 0,
                                  .leaf_stay = c->fold_interval,
                                  .raw_retention = c->raw_retention,
                                  .hours_retention = c->hours_retention,
                                  .days_retention = c->days_retention};
}

// What of the plan is still to be done; under the lock.
static void note_due(struct turn *u)
{
    struct tenant_work *t = u->tenant;
    memset(t->due, 0, sizeof t->due);
    t->due_bytes = 0;
    for (size_t i = 0; i < u->plan.n; i++) {
        const struct task *j = &u->plan.jobs[i];
        if (u->ended[i]) continue;
        int64_t *since = &t->due_since_ns[j->kind];
        *since = t->due[j->kind]++ ? MIN(*since, j->due_ns) : j->due_ns;
        t->due_bytes += j->bytes;
    }
}

static bool make_plan(struct turn *u, err *e)
{
    struct work *w = u->me->work;
    struct tenant_work *t = u->tenant;
    struct arena *a = &u->req.arena;
    const struct snapshot *s = &u->snapshot;
    struct plan_state state = {.segments = s->segments,
                               .segment_count = s->segment_count,
                               .counts = leaf_counts,
                               .arg = s->manifest,
                               .now_ns = u->begun_ns};
    state.blocks = manifest_blocks(s->manifest, &state.block_count);
    bool *segments = ARENA_ARRAY(a, bool, state.segment_count + 1);
    bool *blocks = ARENA_ARRAY(a, bool, state.block_count + 1);
    if (!segments || !blocks) return arena_ok(a, e);
    lock_take(&w->lock);
    for (size_t i = 0; t->damage_count && i < state.segment_count; i++)
        segments[i] = damage_has_segment(t, &state.segments[i].name);
    for (size_t i = 0; t->damage_count && i < state.block_count; i++)
        blocks[i] = damage_has_block(t, state.blocks[i].id);
    lock_give(&w->lock);
    state.damaged = segments;
    state.damaged_blocks = blocks;
    const struct plan_settings settings = plan_settings_of(work_settings(w));
    if (!plan_make(a, &state, &settings, &u->plan, e)) return false;
    u->ended = ARENA_ARRAY(a, bool, u->plan.n + 1);
    if (!u->ended) return arena_ok(a, e);

    size_t gaps = 0;
    for (size_t i = 0; i < state.block_count; i++)
        gaps += state.blocks[i].classes == 0;
    lock_take(&w->lock);
    t->looked = true;
    t->gaps = gaps;
    t->segments = state.segment_count;
    t->oldest_hour = state.segment_count ? state.segments[0].name.hour : 0;
    t->newest_hour = state.segment_count ? state.segments[state.segment_count - 1].name.hour : 0;
    t->blocks = state.block_count;
    t->version = manifest_version(s->manifest);
    note_due(u);
    lock_give(&w->lock);
    return true;
}

// ---- jobs

// Is it for this process to do? Who comes later in the order waits, in case those before are gone.
static bool is_mine(struct turn *u, const struct task *j)
{
    const struct process *p = u->me->work->process;
    size_t n = 0;
    if (u->me->forced) return true;
    struct member *v = members_of(p->members, &u->req.arena, MEMBER_COMPACTOR, &n);
    uint32_t *order = ARENA_ARRAY(&u->req.arena, uint32_t, n + 1);
    if (!v || !order || n < 2) return true;
    const struct place_options o = {0};
    uint64_t day = (uint64_t)slot_of(slot_start(j->from_hour, SLOT_HOUR) + 1, SLOT_DAY);
    place_order(v, n, &o, str_of(u->tenant->name), (str){0}, day, order);
    for (size_t i = 0; i < n; i++) {
        if (!str_is(v[order[i]].id, p->id)) continue;
        return clock_wall_ns() >= j->due_ns + (int64_t)i * PLACE_WAIT_NS;
    }
    return true;
}

static bool is_waiting(struct turn *u, const struct task *j)
{
    struct work *w = u->me->work;
    lock_take(&w->lock);
    const struct failure *f = find_failure(u->tenant, j);
    bool waits = f && f->retry_mono_ns > clock_mono_ns();
    lock_give(&w->lock);
    return waits;
}

static void set_running(struct turn *u, const struct task *j)
{
    struct work *w = u->me->work;
    struct tenant_work *t = u->tenant;
    lock_take(&w->lock);
    t->running = j != NULL;
    if (j) {
        t->running_kind = j->kind;
        t->running_hour = j->from_hour;
        t->running_since_ns = clock_wall_ns();
    }
    lock_give(&w->lock);
}

static void count(const struct task *j, const char *result)
{
    const str values[] = {str_of(job_kind_name(j->kind)), str_of(result)};
    metric_add_set(&compactor_jobs, values, 1);
}

static void job_done(struct turn *u, const struct task *j, const struct job_report *report,
                     uint64_t took_ns)
{
    struct work *w = u->me->work;
    str level = str_of(job_kind_name(j->kind));
    count(j, "done");
    metric_observe_ns_to(&compactor_job_seconds, level, took_ns);
    metric_add_to(&compactor_read_bytes, level, report->bytes_in);
    metric_add_to(&compactor_written_bytes, level, report->bytes_out);
    if (j->kind == JOB_LEAF || j->kind == JOB_FOLD) metric_add(&compactor_rows, report->rows);
    metric_add(&compactor_duplicate_rows, report->duplicates);
    metric_add(&compactor_scratch_files, report->files);
    log_info(&u->req.log, "compactor.job",
             "job=%s hour=%" PRId64 " hours=%u sources=%zu blocks=%zu bytes_in=%" PRIu64
             " bytes_out=%" PRIu64 " duplicates=%" PRIu64 " ms=%" PRIu64,
             job_kind_name(j->kind), j->from_hour, j->hours, j->source_count, report->blocks,
             report->bytes_in, report->bytes_out, report->duplicates,
             took_ns / (uint64_t)NS_PER_MS);
    if (report->overflows) {
        char text[LOG_QUOTE_MAX];
        metric_add(&compactor_overflows, report->overflows);
        log_warn(&u->req.log, "compactor.overflow",
                 "job=%s hour=%" PRId64 " hours=%u services=%zu service=%s action=\"none: values "
                 "of this service do not add up within 64 bits, so it has no sums here and "
                 "queries read its profiles; look at who sends such values\"",
                 job_kind_name(j->kind), j->from_hour, j->hours, report->overflows,
                 log_quote(text, str_of(report->overflow.service)));
    }
    lock_take(&w->lock);
    forget_failure(u->tenant, j);
    u->tenant->jobs_done++;
    u->tenant->done_at_ns = clock_wall_ns();
    u->ended[j - u->plan.jobs] = true;
    note_due(u);
    lock_give(&w->lock);
    u->done++;
    u->again = true;
}

// A source that is not what it should be: it is left out, everything else goes on.
static void job_damaged(struct turn *u, const struct task *j, const struct job_report *report,
                        const err *e)
{
    struct work *w = u->me->work;
    char text[LOG_QUOTE_MAX];
    struct damage d = {
        .is_segment = report->damaged_segment != NULL,
    };
    if (report->damaged_segment)
        d.segment = report->damaged_segment->name;
    else
        d.block = report->damaged_block->id;
    count(j, "damaged");
    log_error(&u->req.log, "compactor.damaged",
              "job=%s hour=%" PRId64 " fault=%s action=\"left out until it can be read; restore "
              "the object from a copy, or, if it is a segment, delete it to give up its profiles\"",
              job_kind_name(j->kind), j->from_hour, log_quote(text, str_of(e->msg)));
    lock_take(&w->lock);
    damage_note(w, u->tenant, &d);
    lock_give(&w->lock);
    u->again = true;
}

static void job_failed(struct turn *u, const struct task *j, const struct job_report *report,
                       const err *e)
{
    struct work *w = u->me->work;
    char text[LOG_QUOTE_MAX];
    count(j, "failed");
    if (report->miscounted) metric_add(&compactor_miscounted, 1);
    lock_take(&w->lock);
    uint64_t wait = note_failure(u, j, e);
    lock_give(&w->lock);
    log_warn(&u->req.log, "compactor.failed",
             "job=%s hour=%" PRId64 " hours=%u code=%s fault=%s retry_s=%" PRIu64 " action=\"%s\"",
             job_kind_name(j->kind), j->from_hour, j->hours, err_name(e->code),
             log_quote(text, str_of(e->msg)), wait / (uint64_t)NS_PER_S, failure_action(e->code));
}

// Others were first with something: a new plan sees what is left to do.
static void job_aborted(struct turn *u, const struct task *j)
{
    count(j, "aborted");
    u->again = true;
}

// Is a source damaged, or gone though the newest version names it? What others replaced meanwhile,
// and a sweep deleted, is not.
static bool is_damaged(struct turn *u, const struct job_report *report, const err *e)
{
    const struct manifest_block *b = report->damaged_block;
    err why = {0};
    if (e->code != ERR_NOT_FOUND) return b || report->damaged_segment;
    struct manifest *m =
        b ? manifest_newest(u->me->work->manifests, &u->req, str_of(u->tenant->name), &why) : NULL;
    bool named = m && manifest_find(m, b->id);
    if (m) manifest_let_go(m);
    return named;
}

static void job_ended(struct turn *u, const struct task *j, const struct job_report *report,
                      const err *e)
{
    if (is_damaged(u, report, e))
        job_damaged(u, j, report, e);
    else if ((e->code == ERR_ABORTED || e->code == ERR_NOT_FOUND) && u->aborted++ < ABORTED_MAX)
        job_aborted(u, j);
    else if (e->code == ERR_CANCELED || work_is_over(u->me->work))
        count(j, "aborted");
    else
        job_failed(u, j, report, e);
}

static struct job_bench bench_of(const struct turn *u)
{
    const struct work *w = u->me->work;
    return (struct job_bench){.manifests = w->manifests,
                              .store = w->process->store,
                              .memory = &u->me->memory,
                              .scratch = w->scratch,
                              .tenant = str_of(u->tenant->name),
                              .pack_bytes = work_settings(w)->pack_bytes,
                              .begun_ns = u->begun_ns,
                              .begun_boot_ns = u->begun_boot_ns,
                              .wall_ns = clock_wall_ns};
}

// One change for n jobs of the batch from number `from` on.
static bool commit_some(struct turn *u, size_t from, size_t n, err *e)
{
    const struct job_bench bench = bench_of(u);
    struct job_made *v[BATCH_MAX];
    for (size_t i = 0; i < n; i++)
        v[i] = &u->batch[from + i];
    if (job_commit(&bench, &u->req, v, n, e)) {
        for (size_t i = 0; i < n; i++)
            job_done(u, v[i]->task, &v[i]->report, u->took_ns[from + i]);
        return true;
    }
    if (e->code == ERR_ABORTED && n > 1) return false;  // it may still do for some of them
    for (size_t i = 0; i < n; i++) {
        if (e->code == ERR_ABORTED) job_discard(&bench, &u->req, v[i]);
        job_ended(u, v[i]->task, &v[i]->report, e);
    }
    return false;
}

static void commit_batch(struct turn *u)
{
    err e = {0};
    if (u->batch_n && !commit_some(u, 0, u->batch_n, &e) && e.code == ERR_ABORTED &&
        u->batch_n > 1) {
        for (size_t i = 0; i < u->batch_n; i++)
            (void)!commit_some(u, i, 1, &e);
    }
    for (size_t i = 0; i < u->batch_n; i++)
        job_release(&u->batch[i]);
    u->batch_n = 0;
}

// Jobs whose changes have nothing to do with each other.
static bool may_wait(const struct task *j)
{
    return (j->kind == JOB_LEAF || j->kind == JOB_HOUR || j->kind == JOB_DAY) &&
           j->remove_count == 0;
}

static void do_job(struct turn *u, const struct task *j)
{
    const struct job_bench bench = bench_of(u);
    err e = {0};
    uint64_t begun = clock_mono_ns();
    bool joins = u->batch_n && may_wait(j) && u->batch[0].task->kind == j->kind;
    if (!joins) commit_batch(u);
    struct job_made *m = &u->batch[u->batch_n];
    set_running(u, j);
    if (!job_make(&bench, &u->req, j, m, &e)) {
        job_ended(u, j, &m->report, &e);
        job_release(m);
    } else {
        uint64_t now = clock_mono_ns();
        if (u->batch_n == 0) u->batch_mono_ns = now;
        u->took_ns[u->batch_n++] = now - begun;
        bool full = u->batch_n == BATCH_MAX || now - u->batch_mono_ns > BATCH_NS;
        if (full || !may_wait(j)) commit_batch(u);
    }
    set_running(u, NULL);
}

static void do_jobs(struct turn *u)
{
    uint64_t until = clock_mono_ns() + PLAN_GOOD_NS;
    for (size_t i = 0; i < u->plan.n; i++) {
        const struct task *j = &u->plan.jobs[i];
        err ignored = {0};
        if (work_is_over(u->me->work) || !req_alive(&u->req, &ignored)) break;
        if (clock_mono_ns() > until) {
            u->again = true;
            break;
        }
        if (is_waiting(u, j) || !is_mine(u, j)) continue;
        do_job(u, j);
    }
    commit_batch(u);
}

// ---- sweep

static void tell_clocks(struct turn *u, const struct manifest_sweep *s)
{
    if (s->apart_ns == 0) return;
    int64_t seconds = s->apart_ns / NS_PER_S;
    log_warn(&u->req.log, "compactor.sweep_held",
             "apart_s=%" PRId64 " action=\"set the clocks: the newest manifest was made by a clock "
             "that is %s this machine's, so no object is deleted because nothing names it\"",
             seconds < 0 ? -seconds : seconds, seconds < 0 ? "behind" : "ahead of");
}

static bool sweep(struct turn *u, err *e)
{
    struct work *w = u->me->work;
    struct tenant_work *t = u->tenant;
    const struct compactor_config *c = work_settings(w);
    lock_take(&w->lock);
    bool due = u->me->sweeps || clock_mono_ns() >= t->next_sweep_mono_ns;
    lock_give(&w->lock);
    if (!due) return true;
    struct manifest_sweep s = {.seen = &t->seen,
                               .segment_grace_ns = c->delete_delay,
                               .garbage_grace_ns = c->delete_delay,
                               .version_age_ns = SLOT_DAY,
                               .versions = 64,
                               .orphan_age_ns = c->orphan_age};
    FAULT("compact.sweep");
    bool ok = manifest_sweep(w->manifests, &u->req, str_of(t->name), &s, e);
    tell_clocks(u, &s);
    metric_add_to(&compactor_deleted, S("segment"), s.segments_deleted);
    metric_add_to(&compactor_deleted, S("block"), s.blocks_deleted);
    metric_add_to(&compactor_deleted, S("page"), s.pages_deleted);
    metric_add_to(&compactor_deleted, S("root"), s.roots_deleted);
    metric_add_to(&compactor_deleted, S("orphan"), s.orphans_deleted);
    lock_take(&w->lock);
    t->next_sweep_mono_ns = clock_mono_ns() + (uint64_t)c->sweep_interval;
    lock_give(&w->lock);
    return ok;
}

// ---- a turn

static void set_req(struct worker *me, struct req *r)
{
    lock_take(&me->work->lock);
    me->req = r;
    if (r && me->work->stopping) atomic_store(&r->canceled, true);
    lock_give(&me->work->lock);
}

static bool turn_once(struct turn *u, err *e)
{
    struct work *w = u->me->work;
    u->again = false;
    u->begun_ns = clock_wall_ns();
    u->begun_boot_ns = clock_boot_ns();
    if (!snapshot_take(w->manifests, &u->req, &u->req.arena, str_of(u->tenant->name), &u->snapshot,
                       e)) {
        return false;
    }
    damage_look(u->me, u->tenant, &u->snapshot, &u->req, u->me->forced && !u->damage_seen);
    u->damage_seen = true;
    bool ok = make_plan(u, e);
    if (ok) do_jobs(u);
    snapshot_release(&u->snapshot);
    return ok;
}

bool look(struct worker *me, struct tenant_work *t, const struct req *asker, uint64_t *done, err *e)
{
    struct work *w = me->work;
    struct turn u = {.me = me, .tenant = t};
    uint64_t limit = LOOK_LIMIT_NS;
    bool ok = true;
    if (asker) limit = MIN(limit, req_left_ns(asker));
    do {
        req_init(&u.req, RANK_DUTY, &me->memory, LOOK_BYTES, limit);
        u.req.tenant = u.req.log.tenant = str_of(t->name);
        u.req.asker = asker;
        set_req(me, &u.req);
        ok = turn_once(&u, e) && (u.again || sweep(&u, e));
        set_req(me, NULL);
        req_release(&u.req);
    } while (ok && u.again && !work_is_over(w) && (!asker || req_left_ns(asker) > 0));
    *done = u.done;
    lock_take(&w->lock);
    t->fault[0] = '\0';
    if (!ok) snprintf(t->fault, sizeof t->fault, "%s: %s", err_name(e->code), e->msg);
    lock_give(&w->lock);
    return ok;
}
