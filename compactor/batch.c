// SPDX-License-Identifier: Apache-2.0
//
// batch.c - a worker makes jobs, and names their blocks by one change of the manifest.
//
// A commit takes several operations of the store one after the other, and of a tenant's commits one
// lands at a time. So a worker collects jobs before it commits. And the batches of several workers
// that are ready at the same time become one change, which one of the workers makes:
//
//     worker 1   make make make | commit 1 ............ | make
//     worker 2   make make make make | waits .......... | commit 2, 3 and 4 | make
//     worker 3   make make make make make | waits ..................... | make
//     worker 4   make make make make make make | waits ................ | make
//
// Jobs that are held at the same time have nothing to do with each other (agenda.c), so their
// changes can be joined. If a change is refused, its batches are committed one by one; of a batch
// that is refused the jobs are given up that others have done; and what is refused even then is
// committed job by job. A run that somebody waits for commits its batches alone: it has a time
// limit.
//
// A batch that waits belongs to its turn, whose worker does nothing else. Who commits it reads the
// jobs' results and writes the state and the fault.
#include "compactor/turn_int.h"
#include "service/process.h"
#include "sys/clock.h"

#define GROUP_MAX     512                         // jobs of one change
#define BATCH_NS      ((uint64_t)30 * NS_PER_S)   // the first made job of a batch waits so long
#define LONG_NS       ((uint64_t)5 * NS_PER_S)    // a job that took so long waits for no other
#define NEWEST_JOBS   8                           // so many jobs are checked by one version,
#define NEWEST_NS     ((uint64_t)NS_PER_S)        // within this time
#define COMMIT_NS     ((uint64_t)600 * NS_PER_S)  // time limit of a commit
#define JOB_AGE_LEAST (SLOT_HOUR)                 // a job may take so long in any case
#define JOB_AGE_MOST  (4 * SLOT_HOUR)

// Half the age of orphans, within limits.
int64_t job_age(const struct compactor_config *c)
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
    if (!u->has_req || u->batch.n) return;
    worker_set_req(u->me, NULL);
    req_release(&u->req);
    u->has_req = false;
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

// A job is over, done or not: others may begin jobs that it was in the way of.
static void release_job(struct turn *u, struct held *h)
{
    struct tenant_work *t = u->tenant;
    assert(lock_is_mine(&u->me->work->lock) && h->task);
    agenda_let_go(t, h);
    t->open = t->agenda != NULL;
    cond_wake_all(&u->me->work->wake);
}

// ---- is a job still to be done?

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

static bool is_due_in(const struct turn *u, const struct manifest *m, const struct task *j)
{
    const struct manifest *before = u->agenda->snapshot.manifest;
    bool same = manifest_version(m) == manifest_version(before);
    return same || (has_inputs(m, j) && !has_news(m, before, j));
}

void batch_forget_newest(struct turn *u)
{
    manifest_unref(u->newest);
    u->newest = NULL;
}

// Is a job that others may have done still to be done? A LIST and perhaps some pages now and then,
// against whole jobs for nothing.
static bool is_still_due(struct turn *u, const struct task *j)
{
    uint64_t now = clock_mono_ns();
    err ignored = {0};
    bool old = now - u->newest_mono_ns > NEWEST_NS || u->jobs - u->newest_jobs >= NEWEST_JOBS;
    if (!u->newest || old) {
        batch_forget_newest(u);
        u->newest_mono_ns = now;
        u->newest_jobs = u->jobs;
        u->newest =
            manifest_newest(u->me->work->manifests, &u->req, str_of(u->tenant->name), &ignored);
    }
    return !u->newest || is_due_in(u, u->newest, j);  // without it the job finds out what is wrong
}

// ---- commits

// The time limit is short, however long the jobs took: a root created much later may be of a
// version that was swept meanwhile.
static void begin_commit(struct turn *u, struct req *r)
{
    uint64_t limit = u->asker ? MIN(COMMIT_NS, MAX(req_left_ns(u->asker), 1u)) : COMMIT_NS;
    req_init(r, RANK_DUTY, &u->me->memory, JOB_BYTES, limit);
    r->tenant = r->log.tenant = str_of(u->tenant->name);
    r->asker = u->asker;
    worker_set_req(u->me, r);
}

static void end_commit(struct turn *u, struct req *r)
{
    worker_set_req(u->me, u->has_req ? &u->req : NULL);
    req_release(r);
}

// One change for n jobs of the batch, by their numbers. The outcome is noted; but if it is refused
// and not about a single job the caller tries some of them.
static bool commit_some(struct turn *u, struct req *r, const size_t *which, size_t n, err *e)
{
    assert(n > 0 && n <= u->batch.n);
    const struct job_bench bench = bench_of(u);
    struct job_result *v[BATCH_MAX];
    for (size_t i = 0; i < n; i++)
        v[i] = &u->batch.v[which[i]].job;
    if (job_commit(&bench, r, v, n, e)) {
        for (size_t i = 0; i < n; i++)
            outcome_done(u, &u->batch.v[which[i]]);
        return true;
    }
    if (e->code == ERR_ABORTED && n > 1) return false;
    // After any other failure the commit may have landed, or may land later: the sweep decides.
    if (e->code == ERR_ABORTED) job_discard(&bench, r, v, n);
    for (size_t i = 0; i < n; i++)
        outcome_failed(u, v[i]->task, &v[i]->report, e);
    return false;
}

// A change was refused: of the jobs in `which` those that others have done, as the newest version
// shows, are given up. The others are left, and their number is returned.
static size_t give_up_done(struct turn *u, struct req *r, size_t *which, size_t n, const err *why)
{
    const struct job_bench bench = bench_of(u);
    struct job_result *gone[BATCH_MAX];
    size_t gone_count = 0;
    size_t left = 0;
    err ignored = {0};
    struct manifest *m =
        manifest_newest(u->me->work->manifests, r, str_of(u->tenant->name), &ignored);
    for (size_t i = 0; i < n; i++) {
        struct job_result *v = &u->batch.v[which[i]].job;
        if (!m || is_due_in(u, m, v->task))
            which[left++] = which[i];
        else
            gone[gone_count++] = v;
    }
    manifest_unref(m);
    if (gone_count) job_discard(&bench, r, gone, gone_count);
    for (size_t i = 0; i < gone_count; i++)
        outcome_failed(u, gone[i]->task, &gone[i]->report, why);
    return left;
}

// Commits what is left of a batch that was refused, alone or with others. Each time that it is
// refused some jobs less; job by job if no job was done by others.
static void commit_rest(struct turn *u)
{
    struct req r;
    size_t which[BATCH_MAX] = {0};
    err e = u->batch.fault;
    bool alone = u->batch.alone;
    size_t n = u->batch.n;
    for (size_t i = 0; i < n; i++)
        which[i] = i;
    begin_commit(u, &r);
    for (bool refused = true; refused;) {
        size_t before = n;
        n = give_up_done(u, &r, which, n, &e);
        if (n == 0 || (n == before && alone)) break;
        alone = true;
        refused = !commit_some(u, &r, which, n, &e) && e.code == ERR_ABORTED && n > 1;
        if (!refused) n = 0;
    }
    for (size_t i = 0; i < n; i++)
        (void)!commit_some(u, &r, &which[i], 1, &e);
    end_commit(u, &r);
}

// Notes what became of the batches in the list. From then on they are their turns' again.
static void tell(struct work *w, struct batch *first, bool ok, const err *e)
{
    bool alone = !first->next;
    lock_take(&w->lock);
    for (struct batch *b = first, *next; b; b = next) {
        next = b->next;
        b->next = NULL;
        b->alone = alone;
        b->fault = *e;
        b->state = ok ? BATCH_LANDED : e->code == ERR_ABORTED ? BATCH_REFUSED : BATCH_FAILED;
    }
    cond_wake_all(&w->wake);
    lock_give(&w->lock);
}

// One change for the batches in the list.
static void commit_list(struct turn *u, struct batch *first)
{
    struct job_result *v[GROUP_MAX];
    size_t n = 0;
    struct req r;
    err e = {0};
    struct job_bench bench = bench_of(u);
    for (struct batch *b = first; b; b = b->next) {
        assert(n + b->n <= GROUP_MAX);
        // The oldest of their snapshots counts.
        bench.begun_ns = MIN(bench.begun_ns, b->agenda->begun_ns);
        bench.begun_boot_ns = MIN(bench.begun_boot_ns, b->agenda->begun_boot_ns);
        for (size_t i = 0; i < b->n; i++)
            v[n++] = &b->v[i].job;
    }
    begin_commit(u, &r);
    bool ok = job_commit(&bench, &r, v, n, &e);
    end_commit(u, &r);
    tell(u->me->work, first, ok, &e);
}

// Takes batches that wait, in their order, as long as their jobs fit one change.
static struct batch *take_waiting(struct tenant_work *t)
{
    struct batch *first = t->waiting;
    struct batch **end = &t->waiting;
    size_t n = 0;
    for (; *end && n + (*end)->n <= GROUP_MAX; end = &(*end)->next) {
        n += (*end)->n;
        (*end)->state = BATCH_TAKEN;
    }
    assert(n > 0);  // a batch fits
    t->waiting = *end;
    *end = NULL;
    return first;
}

static void join_waiting(struct tenant_work *t, struct batch *b)
{
    struct batch **end = &t->waiting;
    while (*end)
        end = &(*end)->next;
    *end = b;
    b->next = NULL;
    b->state = BATCH_WAITS;
}

// Commits the batch together with those of other workers, or lets one of them do it.
static void commit_together(struct turn *u)
{
    struct work *w = u->me->work;
    struct tenant_work *t = u->tenant;
    struct batch *b = &u->batch;
    lock_take(&w->lock);
    join_waiting(t, b);
    while (b->state == BATCH_WAITS || b->state == BATCH_TAKEN) {
        if (t->committing) {
            cond_wait(&w->wake, &w->lock);
            continue;
        }
        assert(b->state == BATCH_WAITS);  // whoever took it is not done before it is told
        struct batch *first = take_waiting(t);
        t->committing = true;
        lock_give(&w->lock);
        commit_list(u, first);
        lock_take(&w->lock);
        t->committing = false;
        cond_wake_all(&w->wake);
    }
    lock_give(&w->lock);
}

// Workers of a process that commit at the same time would all but one have to begin again.
static void await_commits(struct turn *u, bool committing)
{
    struct work *w = u->me->work;
    lock_take(&w->lock);
    while (committing && u->tenant->committing)
        cond_wait(&w->wake, &w->lock);
    u->tenant->committing = committing;
    cond_wake_all(&w->wake);
    lock_give(&w->lock);
}

static void name_blocks(struct turn *u)
{
    struct batch *b = &u->batch;
    b->agenda = u->agenda;
    if (u->asker)
        commit_list(u, b);
    else
        commit_together(u);
    if (b->state == BATCH_REFUSED && !u->asker) await_commits(u, true);
    if (b->state == BATCH_REFUSED) commit_rest(u);
    if (b->state == BATCH_REFUSED && !u->asker) await_commits(u, false);
    for (size_t i = 0; i < b->n && b->state != BATCH_REFUSED; i++) {
        if (b->state == BATCH_LANDED)
            outcome_done(u, &b->v[i]);
        else
            outcome_failed(u, b->v[i].job.task, &b->v[i].job.report, &b->fault);
    }
}

void batch_commit(struct turn *u)
{
    struct batch *b = &u->batch;
    if (b->n) name_blocks(u);
    lock_take(&u->me->work->lock);
    for (size_t i = 0; i < b->n; i++)
        release_job(u, &b->v[i].held);
    lock_give(&u->me->work->lock);
    for (size_t i = 0; i < b->n; i++)
        job_release(&b->v[i].job);
    b->n = 0;
    b->state = BATCH_OPEN;
    end_req(u);
}

// ---- jobs

static void release_now(struct turn *u)
{
    lock_take(&u->me->work->lock);
    release_job(u, &u->now);
    lock_give(&u->me->work->lock);
    end_req(u);
}

static void add(struct turn *u, uint64_t began)
{
    struct work *w = u->me->work;
    struct batch *b = &u->batch;
    uint64_t now = clock_mono_ns();
    assert(b->n < BATCH_MAX && b->state == BATCH_OPEN && u->now.task);
    if (b->n == 0) b->begun_mono_ns = now;
    struct batch_job *m = &b->v[b->n];
    m->took_ns = now - began;
    lock_take(&w->lock);
    // It is held under its new address before the old one is let go: the list is of addresses, and
    // all of it is under one lock, so nobody sees the job twice or not at all.
    m->held = u->now;
    agenda_hold(u->tenant, &m->held);
    agenda_let_go(u->tenant, &u->now);
    b->n++;
    lock_give(&w->lock);
}

static bool is_full(const struct batch *b)
{
    assert(b->n > 0);
    return b->n == BATCH_MAX || clock_mono_ns() - b->begun_mono_ns > BATCH_NS ||
           b->v[b->n - 1].took_ns > LONG_NS;
}

void batch_make(struct turn *u, const struct share_pick *p)
{
    const struct task *j = u->now.task;
    struct batch *b = &u->batch;
    err e = {0};
    uint64_t began = clock_mono_ns();
    assert(j && u->agenda);
    if (b->n && b->helps != p->helps) batch_commit(u);
    begin_req(u);
    const struct job_bench bench = bench_of(u);
    assert(b->n < BATCH_MAX);
    struct job_result *m = &b->v[b->n].job;
    u->jobs++;
    if (p->shared && !is_still_due(u, j)) {
        outcome_lost(u, j, "skipped");
        release_now(u);
        return;
    }
    if (!job_make(&bench, &u->req, j, m, &e)) {
        outcome_failed(u, j, &m->report, &e);
        job_release(m);
        release_now(u);
        return;
    }
    b->helps = p->helps;
    add(u, began);
    if (is_full(b)) batch_commit(u);
}
