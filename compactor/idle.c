// SPDX-License-Identifier: Apache-2.0
//
// idle.c - when a tenant is looked at next, and how little it takes if there is nothing to do.
//
//     busy      it has jobs, segments that no raw block absorbed, or something that failed. It is
//               inspected once in an interval; by processes other than its first compactor once in
//               ten, as long as few small jobs are due
//     idle      none of that. It is inspected once in ten intervals, by all processes together
//               (share.h), and when something becomes due. An inspection is a LIST: if it shows
//               the same as before, nothing is read, and nothing of the tenant is kept in memory
//
// Once a day, and when settings changed, an idle tenant is planned for anew.
#include "compactor/work_int.h"
#include "service/process.h"
#include "sys/clock.h"

#define PEEK_BYTES   ((size_t)1 << 20)
#define PEEK_NS      ((uint64_t)60 * NS_PER_S)
#define PLAN_ANEW    ((uint64_t)24 * 3600 * NS_PER_S)
#define PLACE_BYTES  ((size_t)1 << 20)
#define INTERVAL_MAX (30 * SLOT_DAY)
#define SWEEPS_MOST  24  // intervals between two sweeps of an idle tenant
#define SWEEP_OTHER  4   // times as long for others than its first compactor

static uint64_t interval_of(const struct work *w)
{
    return (uint64_t)work_settings(w)->interval;
}

// Ten intervals. Very long ones are cut: ten of them would not fit 64 bits.
static int64_t idle_interval(const struct work *w)
{
    return MIN(work_settings(w)->interval, INTERVAL_MAX) * IDLE_INTERVALS;
}

struct share_place idle_place(const struct work *w, const struct tenant_work *t)
{
    const struct process *p = w->process;
    struct arena a;
    struct share s = {.me = str_of(p->id), .tenant = str_of(t->name)};
    arena_init(&a, NULL, PLACE_BYTES);
    s.members = members_of(p->members, &a, MEMBER_COMPACTOR, &s.member_count);
    struct share_place at = share_place_of(&a, &s);
    arena_release(&a);
    return at;
}

// A time of the clock on the wall as one of the monotonic clock; now, if it has passed.
static uint64_t mono_at(int64_t wall_ns)
{
    int64_t left = wall_ns - clock_wall_ns();
    return clock_mono_ns() + (uint64_t)MAX(left, 0);
}

static bool has_nothing(const struct tenant_work *t, const struct agenda *a)
{
    return a->snapshot.segment_count == 0 && a->plan.n == 0 && a->plan.held_count == 0 &&
           t->failure_count == 0 && t->damage_count == 0;
}

void idle_note(struct work *w, struct tenant_work *t, const struct agenda *a,
               const struct share_place *at)
{
    uint64_t now = clock_mono_ns();
    assert(lock_is_mine(&w->lock));
    t->idle = a && has_nothing(t, a);
    t->next_inspection_mono_ns = now + interval_of(w);
    if (!t->idle) {
        // (When the tenant is behind every process is needed; and who has helped tells soon that
        // nothing is left.)
        bool helped = clock_wall_ns() - t->done_at_ns < idle_interval(w);
        bool helps = a && at->place > 0 && !a->behind && !helped && share_is_few(&a->plan);
        if (helps) t->next_inspection_mono_ns = now + (uint64_t)idle_interval(w);
        // A tenant that was idle may have put its sweep off for a day: it has objects to delete
        // now.
        t->sweep_rest = 1;
        t->next_sweep_mono_ns =
            MIN(t->next_sweep_mono_ns, now + (uint64_t)work_settings(w)->sweep_interval);
        return;
    }
    t->print = a->snapshot.print;
    t->settings = w->settings_number;
    t->plan_by_mono_ns = now + PLAN_ANEW;
    // A job that becomes due is the first compactor's. Others look when they may take it over.
    t->due_ns = INT64_MAX;
    if (a->plan.next_due_ns < INT64_MAX - (int64_t)at->count * SHARE_WAIT_NS)
        t->due_ns = a->plan.next_due_ns + (int64_t)at->place * SHARE_WAIT_NS;
    idle_rest(w, t, at);
}

void idle_rest(struct work *w, struct tenant_work *t, const struct share_place *at)
{
    assert(lock_is_mine(&w->lock) && t->idle);
    int64_t next = share_idle_inspect(at, str_of(t->name), idle_interval(w), clock_wall_ns());
    t->next_inspection_mono_ns = mono_at(MIN(next, t->due_ns));
}

bool idle_may_peek(const struct work *w, const struct tenant_work *t)
{
    assert(lock_is_mine(&w->lock));
    return t->idle && !t->asked && t->settings == w->settings_number &&
           clock_wall_ns() < t->due_ns && clock_mono_ns() < t->plan_by_mono_ns;
}

bool idle_peek(struct worker *me, const struct tenant_work *t, uint64_t *print, err *e)
{
    struct work *w = me->work;
    struct req r;
    req_init(&r, RANK_DUTY, &w->plans, PEEK_BYTES, PEEK_NS);
    r.tenant = r.log.tenant = str_of(t->name);
    worker_set_req(me, &r);
    bool ok = snapshot_peek(w->manifests, &r, str_of(t->name), print, e);
    worker_set_req(me, NULL);
    req_release(&r);
    return ok;
}

// The first sweep of each tenant comes at a time of its own within an interval.
uint64_t idle_first_sweep(const struct work *w, str tenant)
{
    uint64_t interval = (uint64_t)work_settings(w)->sweep_interval;
    return clock_mono_ns() + hash_str(tenant) % MAX(interval, 1u);
}

void idle_swept(struct work *w, struct tenant_work *t, bool found, const struct share_place *at)
{
    uint64_t interval = (uint64_t)work_settings(w)->sweep_interval;
    assert(lock_is_mine(&w->lock));
    if (found || !t->idle)
        t->sweep_rest = 1;
    else
        t->sweep_rest = MIN(2 * MAX(t->sweep_rest, 1u), (unsigned)SWEEPS_MOST);
    uint64_t times = (uint64_t)t->sweep_rest * (at->place && t->idle ? SWEEP_OTHER : 1u);
    assert(times > 0 && times <= (uint64_t)SWEEPS_MOST * SWEEP_OTHER);  // so the product fits
    t->next_sweep_mono_ns = clock_mono_ns() + MIN(interval, UINT64_MAX / 256) * times;
}
