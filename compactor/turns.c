// SPDX-License-Identifier: Apache-2.0
//
// turns.c - which tenant is next. Of ten thousand known tenants only those are looked at that may
// have something to do.
//
//     resting    a heap in order of the next look: tenants that nobody works on
//     ready      a queue: their time has come, their plan has a job, or workers have a turn of them
//
// A tenant of which workers have a turn is always in the queue, so nothing has to be moved when its
// state changes. A worker that looks for a turn goes past tenants that want nothing, of which there
// are no more than workers, and puts those to rest that nobody works on. All under the lock.
#include "compactor/work_int.h"
#include "sys/clock.h"

bool turns_room(struct work *w, size_t tenants, err *e)
{
    return mem_grow(&w->memory, &w->resting, &w->resting_cap, tenants, sizeof *w->resting, e);
}

// ---- the heap; places count from 1, so that 0 is none

static void put(struct work *w, size_t place, struct tenant_work *t)
{
    assert(place > 0 && place <= w->resting_count);
    w->resting[place - 1] = t;
    t->rests_at = place;
}

static bool sooner(const struct tenant_work *a, const struct tenant_work *b)
{
    return a->next_inspection_mono_ns < b->next_inspection_mono_ns;
}

static void rise(struct work *w, size_t place)
{
    struct tenant_work *t = w->resting[place - 1];
    for (; place > 1 && sooner(t, w->resting[place / 2 - 1]); place /= 2)
        put(w, place, w->resting[place / 2 - 1]);
    put(w, place, t);
}

static void sink(struct work *w, size_t place)
{
    struct tenant_work *t = w->resting[place - 1];
    for (size_t child; (child = 2 * place) <= w->resting_count; place = child) {
        bool second = child < w->resting_count && sooner(w->resting[child], w->resting[child - 1]);
        child += second;
        if (!sooner(w->resting[child - 1], t)) break;
        put(w, place, w->resting[child - 1]);
    }
    put(w, place, t);
}

static void take_out(struct work *w, struct tenant_work *t)
{
    size_t place = t->rests_at;
    assert(place > 0 && place <= w->resting_count && w->resting[place - 1] == t);
    struct tenant_work *last = w->resting[--w->resting_count];
    t->rests_at = 0;
    if (last == t) return;
    // The last one fills the gap. It comes from another branch, so it may have to go either way.
    put(w, place, last);
    rise(w, place);
    sink(w, last->rests_at);
}

// ---- the queue

static void unlink_ready(struct work *w, struct tenant_work *t)
{
    assert(t->ready);
    *(t->before ? &t->before->behind : &w->ready_first) = t->behind;
    *(t->behind ? &t->behind->before : &w->ready_last) = t->before;
    t->before = t->behind = NULL;
    t->ready = false;
}

static void link_ready(struct work *w, struct tenant_work *t)
{
    assert(!t->ready && !t->rests_at);
    t->before = w->ready_last;
    *(w->ready_last ? &w->ready_last->behind : &w->ready_first) = t;
    w->ready_last = t;
    t->ready = true;
}

void turns_ready(struct work *w, struct tenant_work *t)
{
    assert(lock_is_mine(&w->lock));
    if (t->rests_at) take_out(w, t);
    if (!t->ready) link_ready(w, t);
}

void turns_ended(struct work *w, struct tenant_work *t)
{
    assert(lock_is_mine(&w->lock));
    if (!t->ready || t->workers || t->planning || work_is_wanted(t, clock_mono_ns())) return;
    unlink_ready(w, t);
    assert(w->resting_count < w->resting_cap);  // turns_room made room for each tenant
    w->resting_count++;
    put(w, w->resting_count, t);
    rise(w, w->resting_count);
}

// ---- whose turn it is

static void wake_resting(struct work *w, uint64_t now)
{
    while (w->resting_count && w->resting[0]->next_inspection_mono_ns <= now)
        turns_ready(w, w->resting[0]);
}

struct tenant_work *turns_next(struct work *w, uint64_t *until)
{
    struct tenant_work *best = NULL;
    uint64_t now = clock_mono_ns();
    assert(lock_is_mine(&w->lock));
    wake_resting(w, now);
    for (struct tenant_work *t = w->ready_first, *next; t && !(best && best->workers == 0);
         t = next) {
        next = t->behind;  // before turns_ended takes the tenant out of the queue
        w->turns_inspected++;
        if (!work_is_wanted(t, now)) {
            if (!t->planning) *until = MIN(*until, t->next_inspection_mono_ns);
            turns_ended(w, t);
            continue;
        }
        bool better = !best || t->workers < best->workers ||
                      (t->workers == best->workers && t->turn_mono_ns < best->turn_mono_ns);
        if (better) best = t;
    }
    if (w->resting_count) *until = MIN(*until, w->resting[0]->next_inspection_mono_ns);
    if (!best) return NULL;
    unlink_ready(w, best);  // to the end of the queue
    link_ready(w, best);
    best->workers++;
    return best;
}

bool turns_others_wait(const struct work *w, const struct tenant_work *than)
{
    uint64_t now = clock_mono_ns();
    assert(lock_is_mine(&w->lock));
    if (w->resting_count && w->resting[0]->next_inspection_mono_ns <= now) return true;
    for (const struct tenant_work *o = w->ready_first; o; o = o->behind) {
        if (o != than && o->workers < than->workers && work_is_wanted(o, now)) return true;
    }
    return false;
}
