// SPDX-License-Identifier: Apache-2.0
//
// inspect.c - a worker's turn of a tenant. Each step does the first of these that is to be done:
//
//     1. a sweep that is long overdue
//     2. the next job of the plan that the tenant's workers share (draw, do_job): is it still to be
//        done? then make it, and commit it, alone or with the next ones
//     3. commit the jobs that are made and wait for others
//     4. a new plan, if the old one has no jobs left and something changed (renew)
//     5. a run waits for other workers; then the sweep, if it is time; else the turn ends
//
// A job fails as a source is damaged (left out until it can be read), as another process was first
// (a new plan), or otherwise (tried again later and later). Its sources stay.
#include "base/fault.h"
#include "compactor/metrics.h"
#include "compactor/work_int.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>

#define JOB_BYTES     ((size_t)1 << 30)  // cap of what a job reads into its request
#define BATCH_MAX     24  // jobs whose blocks are named by one change, when much is due
#define BATCH_SHARED  2   // the same where other processes are at work on the tenant
#define BATCH_NS      ((uint64_t)30 * NS_PER_S)   // the first made job of a batch waits so long
#define PLAN_GOOD_NS  ((uint64_t)300 * NS_PER_S)  // then a plan is made anew
#define ABORTED_MAX   16  // jobs lost to others in a row; then losing one is a failure like others
#define TURN_NS       ((uint64_t)10 * NS_PER_S)  // then it is another tenant's turn,
#define TURN_JOBS     16                         // or after so many jobs
#define TICK_NS       ((uint64_t)100 * NS_PER_MS)
#define SWEEP_NS      ((uint64_t)3600 * NS_PER_S)  // time limit of a sweep
#define JOB_AGE_LEAST (SLOT_HOUR)                  // a job may take so long in any case
#define JOB_AGE_MOST  (4 * SLOT_HOUR)
#define COMMIT_NS     ((uint64_t)600 * NS_PER_S)  // time limit of a commit

// A job that is made and waits for its commit.
struct batch_job {
    struct job_result job;
    struct held held;
    uint64_t took_ns;
};

struct turn {
    struct worker *me;
    struct tenant_work *tenant;
    const struct req *asker;  // the run that waits; NULL: a worker's turn
    uint64_t begun_mono_ns;
    struct agenda *agenda;  // the plan of which it has jobs; NULL: none
    struct req req;         // of the jobs of a batch
    bool has_req;
    struct held now;                    // the job that is being made
    struct batch_job batch[BATCH_MAX];  // to be named by one change of the manifest
    size_t batch_n;
    uint64_t batch_mono_ns;  // when its first was made
    size_t jobs;
    bool inspected;    // it made a plan
    bool sweep_found;  // the sweep deleted something, or some objects have to wait
    bool swept;
};

// ---- held jobs; under the lock

static void link_held(struct tenant_work *t, struct held *h)
{
    assert(h->task);
    h->next = t->held;
    t->held = h;
}

static void unlink_held(struct tenant_work *t, struct held *h)
{
    struct held **at = &t->held;
    while (*at != h) {
        assert(*at);  // a job that was linked is in the list until it is unlinked
        at = &(*at)->next;
    }
    *at = h->next;
    h->task = NULL;
}

// A job is over, done or not: others may begin jobs that it was in the way of.
static void release_job(struct turn *u, struct held *h)
{
    struct tenant_work *t = u->tenant;
    assert(lock_is_mine(&u->me->work->lock) && h->task);
    unlink_held(t, h);
    t->open = t->agenda != NULL;
    cond_wake_all(&u->me->work->wake);
}

// The plan knows less than we do by now: it is made anew before the tenant is done.
static void want_plan(struct turn *u)
{
    assert(lock_is_mine(&u->me->work->lock));
    if (u->tenant->agenda) u->tenant->agenda->changed = true;
}

// How long after its snapshot a job may be committed: half the age of orphans, within limits.
static int64_t job_age(const struct compactor_config *c)
{
    if (c->orphan_age <= 0) return JOB_AGE_MOST;
    return MAX(MIN(c->orphan_age / 2, JOB_AGE_MOST), JOB_AGE_LEAST);
}

// The jobs of a batch share one request, with the time that a job may take.
static void begin_req(struct turn *u)
{
    struct worker *me = u->me;
    uint64_t limit = (uint64_t)job_age(work_settings(me->work));
    if (u->has_req) return;
    // Not zero, which would be no limit at all: a run whose time is over ends at once.
    if (u->asker) limit = MIN(limit, MAX(req_left_ns(u->asker), 1u));
    req_init(&u->req, RANK_DUTY, &me->memory, JOB_BYTES, limit);
    u->req.tenant = u->req.log.tenant = str_of(u->tenant->name);
    u->req.asker = u->asker;
    u->has_req = true;
    worker_set_req(me, &u->req);
}

static void end_req(struct turn *u)
{
    // Blocks that wait for their commit have names and sources in the request's arena.
    if (!u->has_req || u->batch_n) return;
    worker_set_req(u->me, NULL);
    req_release(&u->req);
    u->has_req = false;
}

// ---- jobs

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
    metric_add(&compactor_erased_rows, report->hidden);
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
    assert(u->agenda);
    limit_retired(u->agenda, j);
    lock_take(&w->lock);
    failure_forget(u->tenant, j);
    u->tenant->jobs_done++;
    u->tenant->done_at_ns = clock_wall_ns();
    u->tenant->aborted = 0;
    agenda_done(u->tenant, j);
    agenda_note_due(u->tenant);
    lock_give(&w->lock);
}

// A source is damaged: it is left out from now on, and the rest of its hour is merged without it.
static void job_damaged(struct turn *u, const struct task *j, const struct job_report *report,
                        const err *e)
{
    struct work *w = u->me->work;
    char text[LOG_QUOTE_MAX];
    assert(!report->damaged_segment != !report->damaged_block);
    struct damage d = {.is_segment = report->damaged_segment != NULL};
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
    want_plan(u);
    lock_give(&w->lock);
}

static void job_failed(struct turn *u, const struct task *j, const struct job_report *report,
                       const err *e)
{
    struct work *w = u->me->work;
    char text[LOG_QUOTE_MAX];
    count(j, "failed");
    if (report->miscounted) metric_add(&compactor_miscounted, 1);
    lock_take(&w->lock);
    uint64_t wait = failure_note(w, u->tenant, j, e);
    lock_give(&w->lock);
    log_warn(&u->req.log, "compactor.failed",
             "job=%s hour=%" PRId64 " hours=%u code=%s fault=%s retry_s=%" PRIu64 " action=\"%s\"",
             job_kind_name(j->kind), j->from_hour, j->hours, err_name(e->code),
             log_quote(text, str_of(e->msg)), wait / (uint64_t)NS_PER_S, failure_action(e->code));
}

// Another process was first: a new plan finds what is left. The time is noted for share.h.
static void job_lost(struct turn *u, const struct task *j, const char *result)
{
    struct work *w = u->me->work;
    count(j, result);
    lock_take(&w->lock);
    u->tenant->raced_mono_ns = clock_mono_ns();
    want_plan(u);
    lock_give(&w->lock);
}

// How many jobs of the tenant were lost in a row, this one included.
static unsigned count_lost(struct turn *u)
{
    struct work *w = u->me->work;
    lock_take(&w->lock);
    unsigned n = ++u->tenant->aborted;
    lock_give(&w->lock);
    return n;
}

// Is a source damaged, or gone although the newest version names it? A block that others replaced
// and a sweep deleted is not damaged; nor is a segment that is gone.
static bool is_damaged(struct turn *u, const struct job_report *report, const err *e)
{
    const struct manifest_block *b = report->damaged_block;
    err why = {0};
    if (e->code != ERR_NOT_FOUND) return b || report->damaged_segment;
    struct manifest *m =
        b ? manifest_newest(u->me->work->manifests, &u->req, str_of(u->tenant->name), &why) : NULL;
    bool named = m && manifest_find(m, b->id);
    if (m) manifest_unref(m);
    return named;
}

static void job_ended(struct turn *u, const struct task *j, const struct job_report *report,
                      const err *e)
{
    if (is_damaged(u, report, e))
        job_damaged(u, j, report, e);
    else if ((e->code == ERR_ABORTED || e->code == ERR_NOT_FOUND) && count_lost(u) <= ABORTED_MAX)
        job_lost(u, j, "aborted");
    else if (e->code == ERR_CANCELED || work_is_over(u->me->work))
        count(j, "aborted");
    else
        job_failed(u, j, report, e);
}

static struct job_bench bench_of(const struct turn *u)
{
    const struct work *w = u->me->work;
    assert(u->agenda);  // the job's plan, which says when its snapshot was taken
    return (struct job_bench){.manifests = w->manifests,
                              .store = w->process->store,
                              .memory = &u->me->memory,
                              .scratch = w->scratch,
                              .tenant = str_of(u->tenant->name),
                              .pack_bytes = work_settings(w)->pack_bytes,
                              .begun_ns = u->agenda->begun_ns,
                              .begun_boot_ns = u->agenda->begun_boot_ns,
                              .age_ns = job_age(work_settings(w)),
                              .wall_ns = clock_wall_ns,
                              .tombstones = u->agenda->tombstones,
                              .hides = u->agenda->hides,
                              .tombstone_count = u->agenda->tombstone_count,
                              .version = manifest_version(u->agenda->snapshot.manifest),
                              .snapshot = u->agenda->snapshot.manifest};
}

// One change for n jobs of the batch from number `from` on.
static bool commit_some(struct turn *u, struct req *r, size_t from, size_t n, err *e)
{
    assert(n > 0 && from + n <= u->batch_n);
    const struct job_bench bench = bench_of(u);
    struct job_result *v[BATCH_MAX];
    for (size_t i = 0; i < n; i++)
        v[i] = &u->batch[from + i].job;
    if (job_commit(&bench, r, v, n, e)) {
        for (size_t i = 0; i < n; i++)
            job_done(u, v[i]->task, &v[i]->report, u->batch[from + i].took_ns);
        return true;
    }
    if (e->code == ERR_ABORTED && n > 1) return false;  // the caller tries them one by one
    for (size_t i = 0; i < n; i++) {
        // After any other failure the commit may have landed, or may land later: the sweep decides.
        if (e->code == ERR_ABORTED) job_discard(&bench, r, v[i]);
        job_ended(u, v[i]->task, &v[i]->report, e);
    }
    return false;
}

// Commits the batch as one change; if that is refused, job by job. The time limit is short, however
// long the jobs took: a root created much later may be of a version that was swept meanwhile.
static void commit_all(struct turn *u)
{
    struct worker *me = u->me;
    struct req r;
    err e = {0};
    uint64_t limit = u->asker ? MIN(COMMIT_NS, MAX(req_left_ns(u->asker), 1u)) : COMMIT_NS;
    req_init(&r, RANK_DUTY, &me->memory, JOB_BYTES, limit);
    r.tenant = r.log.tenant = str_of(u->tenant->name);
    r.asker = u->asker;
    worker_set_req(me, &r);
    if (!commit_some(u, &r, 0, u->batch_n, &e) && e.code == ERR_ABORTED && u->batch_n > 1) {
        for (size_t i = 0; i < u->batch_n; i++)
            (void)!commit_some(u, &r, i, 1, &e);
    }
    worker_set_req(me, u->has_req ? &u->req : NULL);
    req_release(&r);
}

static void commit_batch(struct turn *u)
{
    if (u->batch_n) commit_all(u);
    lock_take(&u->me->work->lock);
    for (size_t i = 0; i < u->batch_n; i++)
        release_job(u, &u->batch[i].held);
    lock_give(&u->me->work->lock);
    for (size_t i = 0; i < u->batch_n; i++)
        job_release(&u->batch[i].job);
    u->batch_n = 0;
    end_req(u);
}

// May the job's commit wait for others? Only if it replaces nothing: changes of a batch are apart.
static bool may_wait(const struct task *j)
{
    return (j->kind == JOB_LEAF || j->kind == JOB_HOUR || j->kind == JOB_DAY) &&
           j->remove_count == 0;
}

// Is everything still there that the job is to be made from?
static bool has_inputs(const struct manifest *m, const struct task *j)
{
    for (size_t i = 0; i < j->need_count; i++) {
        if (!manifest_counts(m, j->needs[i])) return false;
    }
    for (size_t i = 0; i < j->remove_count; i++) {
        if (!manifest_find(m, j->remove[i])) return false;
    }
    for (size_t i = 0; i < j->source_count; i++) {
        const struct snapshot_segment *s = j->sources[i].segment;
        if (s && manifest_absorbed(m, &s->name)) return false;
    }
    return true;
}

static enum block_kind level_of(enum job_kind k)
{
    if (k == JOB_LEAF || k == JOB_FOLD) return BLOCK_RAW;
    return k == JOB_HOUR || k == JOB_PACK ? BLOCK_HOURS : BLOCK_DAYS;
}

// Is there a block of the job's level and hours that the plan did not know? Others did it then.
static bool has_news(const struct manifest *m, const struct manifest *before, const struct task *j)
{
    size_t n = 0;
    const struct manifest_block *v = manifest_blocks(m, &n);
    for (size_t i = 0; j->kind != JOB_RETIRE && i < n; i++) {
        if (v[i].kind == level_of(j->kind) && v[i].from_hour < j->from_hour + j->hours &&
            j->from_hour < v[i].from_hour + v[i].hours && !manifest_find(before, v[i].id))
            return true;
    }
    return false;
}

// Is a shared job still to be done? A LIST and perhaps some pages, against a whole job for nothing.
static bool is_still_due(struct turn *u, const struct task *j)
{
    const struct manifest *before = u->agenda->snapshot.manifest;
    err ignored = {0};
    struct manifest *m =
        manifest_newest(u->me->work->manifests, &u->req, str_of(u->tenant->name), &ignored);
    if (!m) return true;  // the job will find out what is wrong
    bool same = manifest_version(m) == manifest_version(before);
    bool due = same || (has_inputs(m, j) && !has_news(m, before, j));
    manifest_unref(m);
    return due;
}

static void release_now(struct turn *u)
{
    lock_take(&u->me->work->lock);
    release_job(u, &u->now);
    lock_give(&u->me->work->lock);
    end_req(u);
}

static void add_to_batch(struct turn *u, uint64_t begun)
{
    struct work *w = u->me->work;
    uint64_t now = clock_mono_ns();
    assert(u->batch_n < BATCH_MAX && u->now.task);
    struct batch_job *m = &u->batch[u->batch_n];
    if (u->batch_n == 0) u->batch_mono_ns = now;
    m->took_ns = now - begun;
    lock_take(&w->lock);
    // Linked under its new address before the old one is unlinked: the list is of addresses, and
    // all of it is under one lock, so nobody sees the job twice or not at all.
    m->held = u->now;
    link_held(u->tenant, &m->held);
    unlink_held(u->tenant, &u->now);
    u->batch_n++;
    lock_give(&w->lock);
}

// Makes the job in u->now and adds it to the batch, which has jobs of one kind only.
static void do_job(struct turn *u, const struct share_pick *p)
{
    const struct task *j = u->now.task;
    assert(j && u->agenda);
    err e = {0};
    uint64_t begun = clock_mono_ns();
    bool joins = u->batch_n && may_wait(j) && u->batch[0].held.task->kind == j->kind;
    if (!joins) commit_batch(u);
    begin_req(u);
    const struct job_bench bench = bench_of(u);
    assert(u->batch_n < BATCH_MAX);
    struct job_result *m = &u->batch[u->batch_n].job;
    u->jobs++;
    if (p->shared && !is_still_due(u, j)) {
        job_lost(u, j, "skipped");
        release_now(u);
        return;
    }
    if (!job_make(&bench, &u->req, j, m, &e)) {
        job_ended(u, j, &m->report, &e);
        job_release(m);
        release_now(u);
        return;
    }
    add_to_batch(u, begun);
    size_t most = p->shared ? BATCH_SHARED : BATCH_MAX;
    bool full = u->batch_n >= most || clock_mono_ns() - u->batch_mono_ns > BATCH_NS;
    if (full || !may_wait(j)) commit_batch(u);
}

// ---- sweep

// Under the lock. late: only if it is long overdue.
static bool wants_sweep(const struct turn *u, bool late)
{
    const struct tenant_work *t = u->tenant;
    const struct compactor_config *c = work_settings(u->me->work);
    uint64_t now = clock_mono_ns();
    assert(lock_is_mine(&u->me->work->lock));
    // With a batch open it would be too early: its blocks are not named yet, and a sweep takes time
    // that they may not have.
    if (t->sweeping || u->swept || u->batch_n) return false;
    if (late)
        return t->next_sweep_mono_ns && now >= t->next_sweep_mono_ns + (uint64_t)c->sweep_interval;
    // (A run sweeps before the first sweep of a process is due.)
    return u->me->sweeps || now >= t->next_sweep_mono_ns || (u->asker && !t->seen.swept);
}

static void tell_clocks(const struct req *r, const struct manifest_sweep *s)
{
    if (s->apart_ns == 0) return;
    int64_t seconds = s->apart_ns / NS_PER_S;
    log_warn(&r->log, "compactor.sweep_held",
             "apart_s=%" PRId64 " action=\"set the clocks: the newest manifest was made by a clock "
             "that is %s this machine's, so no object is deleted because nothing names it\"",
             seconds < 0 ? -seconds : seconds, seconds < 0 ? "behind" : "ahead of");
}

static bool sweep(struct turn *u, err *e)
{
    struct work *w = u->me->work;
    struct tenant_work *t = u->tenant;
    const struct compactor_config *c = work_settings(w);
    struct manifest_sweep s = {.seen = &t->seen,
                               .segment_grace_ns = c->delete_delay,
                               .garbage_grace_ns = c->delete_delay,
                               .version_age_ns = SLOT_DAY,
                               .versions = 64,
                               .orphan_age_ns = c->orphan_age};
    struct req r;
    uint64_t limit = u->asker ? MIN(SWEEP_NS, MAX(req_left_ns(u->asker), 1u)) : SWEEP_NS;
    req_init(&r, RANK_DUTY, &u->me->memory, JOB_BYTES, limit);
    r.tenant = r.log.tenant = str_of(t->name);
    r.asker = u->asker;
    worker_set_req(u->me, &r);
    FAULT("compact.sweep");
    bool ok = manifest_sweep(w->manifests, &r, str_of(t->name), &s, e);
    u->sweep_found = !ok || s.waiting || s.apart_ns ||
                     s.segments_deleted + s.blocks_deleted + s.pages_deleted + s.roots_deleted +
                         s.orphans_deleted;
    tell_clocks(&r, &s);
    worker_set_req(u->me, NULL);
    req_release(&r);
    metric_add_to(&compactor_deleted, S("segment"), s.segments_deleted);
    metric_add_to(&compactor_deleted, S("block"), s.blocks_deleted);
    metric_add_to(&compactor_deleted, S("page"), s.pages_deleted);
    metric_add_to(&compactor_deleted, S("root"), s.roots_deleted);
    metric_add_to(&compactor_deleted, S("orphan"), s.orphans_deleted);
    return ok;
}

// Under the lock, which is given up while it sweeps.
static bool sweep_now(struct turn *u, err *e)
{
    struct work *w = u->me->work;
    struct tenant_work *t = u->tenant;
    assert(lock_is_mine(&w->lock) && !t->sweeping && !u->batch_n);
    t->sweeping = true;
    lock_give(&w->lock);
    const struct share_place at = idle_place(w, t);
    bool ok = sweep(u, e);
    lock_take(&w->lock);
    t->sweeping = false;
    // Workers that found nothing else to do while this one swept closed the plan: they look again.
    t->open = t->agenda != NULL;
    idle_swept(w, t, u->sweep_found, &at);
    u->swept = true;
    cond_wake_all(&w->wake);
    return ok;
}

// ---- a turn; under the lock, which each step gives up while it works

static void free_without_lock(struct work *w, struct agenda *a)
{
    if (!a) return;
    lock_give(&w->lock);
    agenda_free(a);
    lock_take(&w->lock);
}

static void leave(struct turn *u)
{
    assert(lock_is_mine(&u->me->work->lock) && !u->now.task && !u->batch_n);
    struct agenda *a = agenda_leave(u->agenda);
    u->agenda = NULL;
    free_without_lock(u->me->work, a);
}

static bool is_old(const struct agenda *a)
{
    return clock_mono_ns() - a->made_mono_ns > PLAN_GOOD_NS;
}

// Takes the next job into u->now; not of a newer plan while the turn has jobs of an older one.
static bool draw(struct turn *u, struct share_pick *pick)
{
    struct tenant_work *t = u->tenant;
    assert(lock_is_mine(&u->me->work->lock) && !u->now.task);
    struct agenda *a = t->agenda;
    if (!a || is_old(a) || (u->agenda && u->agenda != a)) return false;
    // A run wants jobs of a plan that was made for a run: others leave out what is not due yet.
    if (u->asker && !a->asked) return false;
    if (!agenda_draw(t, a, u->me->forced, pick)) {
        if (!u->me->forced) t->open = false;
        return false;
    }
    a->users += u->agenda == NULL;
    u->agenda = a;
    u->now = (struct held){.task = &a->plan.jobs[pick->job], .since_ns = clock_wall_ns()};
    link_held(t, &u->now);
    return true;
}

static bool wants_plan(const struct turn *u)
{
    const struct tenant_work *t = u->tenant;
    const struct agenda *a = t->agenda;
    if (t->planning) return false;
    if (!a) return !u->inspected;
    if (a->changed || is_old(a)) return true;
    if (u->asker) return !a->asked || a->made_mono_ns < u->begun_mono_ns;
    return !u->inspected && clock_mono_ns() >= t->next_inspection_mono_ns;
}

// Drops the plans of tenants that nobody works on, to make room; they are looked at anew.
static void drop_idle(struct work *w)
{
    for (size_t i = 0; i < w->tenant_count; i++) {
        struct tenant_work *t = w->tenants[i];
        if (!t->agenda || t->agenda->users > 1 || t->planning) continue;
        struct agenda *old = agenda_publish(t, NULL);
        t->next_inspection_mono_ns = clock_mono_ns();
        turns_ready(w, t);
        free_without_lock(w, old);
    }
}

static struct agenda *make_agenda(struct turn *u, err *e)
{
    struct work *w = u->me->work;
    lock_give(&w->lock);
    struct agenda *a = agenda_make(u->me, u->tenant, e);
    lock_take(&w->lock);
    if (a || e->code != ERR_RESOURCE_EXHAUSTED) return a;
    drop_idle(w);
    lock_give(&w->lock);
    *e = (err){0};
    a = agenda_make(u->me, u->tenant, e);
    lock_take(&w->lock);
    return a;
}

// Does a LIST show that the tenant is as idle as before? *ok false: it failed.
static bool is_still_idle(struct turn *u, const struct share_place *at, bool *ok, err *e)
{
    struct work *w = u->me->work;
    struct tenant_work *t = u->tenant;
    uint64_t print = 0;
    if (!idle_may_peek(w, t)) return false;
    lock_give(&w->lock);
    bool same = limit_is_same(w, t);
    lock_take(&w->lock);
    if (!same) return false;
    lock_give(&w->lock);
    *ok = idle_peek(u->me, t, &print, e);
    lock_take(&w->lock);
    // (A run that began to wait meanwhile needs a plan.)
    if (!*ok || print != t->print || t->asked) return false;
    idle_rest(w, t, at);
    return true;
}

// Looks at the tenant anew: a LIST may do for an idle one; else a new plan replaces the old one.
static bool renew(struct turn *u, err *e)
{
    struct work *w = u->me->work;
    struct tenant_work *t = u->tenant;
    bool ok = true;
    assert(lock_is_mine(&w->lock) && !u->agenda && !u->batch_n);
    agenda_begin(w, t);
    // The lock is given up, but `planning` keeps other workers from planning for the tenant too.
    lock_give(&w->lock);
    const struct share_place at = idle_place(w, t);
    lock_take(&w->lock);
    u->inspected = true;
    if (is_still_idle(u, &at, &ok, e)) {
        agenda_end(w, t);
        return true;
    }
    struct agenda *a = ok ? make_agenda(u, e) : NULL;
    // Published before agenda_end, which forgets the jobs that ended meanwhile.
    struct agenda *old = agenda_publish(t, a);
    agenda_end(w, t);
    idle_note(w, t, a, &at);
    cond_wake_all(&w->wake);
    free_without_lock(w, old);
    return a != NULL;
}

bool work_is_wanted(const struct tenant_work *t, uint64_t now_mono_ns)
{
    return t->open || (!t->planning && now_mono_ns >= t->next_inspection_mono_ns);
}

// Is it another tenant's turn?
static bool is_over(const struct turn *u)
{
    uint64_t now = clock_mono_ns();
    if (u->asker || (u->jobs < TURN_JOBS && now - u->begun_mono_ns < TURN_NS)) return false;
    return turns_others_wait(u->me->work, u->tenant);
}

static bool goes_on(const struct turn *u)
{
    if (u->me->work->stopping || (u->asker && req_left_ns(u->asker) == 0)) return false;
    return !is_over(u);
}

// A run waits until other workers of the tenant are done: only then nothing is due.
static bool await_others(struct turn *u)
{
    struct work *w = u->me->work;
    const struct tenant_work *t = u->tenant;
    bool busy = t->held || t->planning || t->sweeping;
    if (!u->asker || !busy) return false;
    uint64_t left = req_left_ns(u->asker);
    (void)cond_wait_until(&w->wake, &w->lock, clock_mono_ns() + MIN(left, TICK_NS));
    return true;
}

// One step; false: there is nothing to do for it any more, or it failed.
static bool step(struct turn *u, bool *ok, err *e)
{
    struct work *w = u->me->work;
    struct share_pick pick;
    assert(lock_is_mine(&w->lock) && !u->now.task);
    if (wants_sweep(u, true)) return *ok = sweep_now(u, e);
    if (draw(u, &pick)) {
        lock_give(&w->lock);
        do_job(u, &pick);
        lock_take(&w->lock);
        return true;
    }
    if (u->batch_n) {
        lock_give(&w->lock);
        commit_batch(u);
        lock_take(&w->lock);
        return true;
    }
    if (u->agenda && u->agenda != u->tenant->agenda) {
        leave(u);
        return true;  // there is a newer plan: draw from that
    }
    leave(u);
    if (wants_plan(u)) return *ok = renew(u, e);
    if (await_others(u)) return true;
    if (wants_sweep(u, false)) return *ok = sweep_now(u, e);
    // Whoever plans, sweeps or gives up a job opens it again.
    if (!u->asker) u->tenant->open = false;
    return false;
}

static void end_turn(struct turn *u)
{
    struct work *w = u->me->work;
    struct tenant_work *t = u->tenant;
    lock_give(&w->lock);
    commit_batch(u);
    lock_take(&w->lock);
    assert(!u->has_req && !u->now.task);
    leave(u);
    assert(t->asked >= (u->asker != NULL));
    t->asked -= u->asker != NULL;
    // The plan has no job left, and nobody needs it: its memory goes.
    if (t->agenda && t->agenda->users == 1 && !t->open && !t->agenda->changed && !t->held &&
        !t->asked && !t->planning)
        free_without_lock(w, agenda_publish(t, NULL));
    if (t->idle && !t->agenda && t->workers == 1 && (u->inspected || u->swept)) {
        lock_give(&w->lock);
        manifests_forget(w->manifests, str_of(t->name));
        lock_take(&w->lock);
    }
    t->turn_mono_ns = clock_mono_ns();
}

// Notes for the status whether the last look failed, and why.
static void note_fault(struct work *w, struct tenant_work *t, bool ok, const err *e)
{
    err ignored = {0};
    t->is_ill = !ok;
    if (!ok && !t->fault) t->fault = mem_alloc(&w->memory, MESSAGE_MAX, &ignored);
    if (!ok && t->fault) snprintf(t->fault, MESSAGE_MAX, "%s: %s", err_name(e->code), e->msg);
    if (!ok || !t->fault) return;
    mem_free(&w->memory, t->fault, MESSAGE_MAX);
    t->fault = NULL;
}

bool inspect(struct worker *me, struct tenant_work *t, const struct req *asker, err *e)
{
    struct work *w = me->work;
    struct turn u = {.me = me, .tenant = t, .asker = asker, .begun_mono_ns = clock_mono_ns()};
    bool ok = true;
    lock_take(&w->lock);
    assert(t->workers > 0);  // the caller counted itself: the tenant is not put to rest meanwhile
    t->asked += asker != NULL;
    // A run checks each damage once, and so begins with none checked.
    t->damage_seen = t->damage_seen && !asker;
    while (goes_on(&u) && step(&u, &ok, e)) {
    }
    end_turn(&u);
    if (!ok || u.inspected) note_fault(w, t, ok, e);
    lock_give(&w->lock);
    return ok;
}
