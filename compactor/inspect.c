// SPDX-License-Identifier: Apache-2.0
//
// inspect.c - a worker's turn of a tenant. Each step does the first of these that is to be done:
//
//     1. a sweep that is long overdue
//     2. the next job of the plan that the tenant's workers share (draw, batch_make): is it still
//        to be done? then make it, and commit it with the next ones
//     3. commit the jobs that are made and wait for others
//     4. a new plan, if the old one has no jobs left and something changed (renew)
//     5. a run waits for other workers; then the sweep, if it is time; else the turn ends
#include "base/fault.h"
#include "compactor/metrics.h"
#include "compactor/turn_int.h"
#include "sys/clock.h"

#include <inttypes.h>
#include <stdio.h>

#define PLAN_GOOD_NS ((uint64_t)300 * NS_PER_S)  // then a plan is made anew
#define TURN_NS      ((uint64_t)10 * NS_PER_S)   // then it is another tenant's turn,
#define TURN_JOBS    16                          // or after so many jobs
#define TICK_NS      ((uint64_t)100 * NS_PER_MS)
#define SWEEP_NS     ((uint64_t)3600 * NS_PER_S)  // time limit of a sweep

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
    if (t->sweeping || u->swept || u->batch.n) return false;
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
    assert(lock_is_mine(&w->lock) && !t->sweeping && !u->batch.n);
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
    assert(lock_is_mine(&u->me->work->lock) && !u->now.task && !u->batch.n);
    struct agenda *a = agenda_leave(u->agenda);
    u->agenda = NULL;
    if (!a && !u->newest) return;
    lock_give(&u->me->work->lock);
    agenda_free(a);
    batch_forget_newest(u);
    lock_take(&u->me->work->lock);
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
    agenda_hold(t, &u->now);
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
    // A LIST cannot tell what made a plan old: a job whose change landed before the plan looked,
    // and was told after it, or an object that was found damaged.
    if (t->agenda && t->agenda->changed) return false;
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
    assert(lock_is_mine(&w->lock) && !u->agenda && !u->batch.n);
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
        batch_make(u, &pick);
        lock_take(&w->lock);
        return true;
    }
    if (u->batch.n) {
        lock_give(&w->lock);
        batch_commit(u);
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
    batch_commit(u);
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
