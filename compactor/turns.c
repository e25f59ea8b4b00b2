// SPDX-License-Identifier: Apache-2.0
//
// turns.c - which tenant is next. Of ten thousand known tenants only those are looked at that may
// have something to do.
//
//     resting    a heap in order of the next look: tenants that nobody works on
//     ready      two queues: their time has come, their plan has a job, or workers have a turn of
//                them. One is of the tenants whose first compactor this process is (share.h), the
//                other of those of other processes, which it helps when it has none of its own to
//                work on, and now and then, because the other process may be stuck
//
// All processes list tenants in one order. Who helps begins with the last, so that helper and owner
// meet late.
//
// A tenant of which workers have a turn is always in the queue, so nothing has to be moved when its
// state changes. A worker that looks for a turn goes past tenants that want nothing, of which there
// are no more than workers, and puts those to rest that nobody works on. All under the lock.
#include "compactor/work_int.h"
#include "sys/clock.h"

#define TURNS_OF_OWN 8  // then another's tenant has a turn

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

static struct ready_queue *queue_of(struct work *w, const struct tenant_work *t)
{
    return t->others ? &w->ready_others : &w->ready_own;
}

static void unlink_ready(struct work *w, struct tenant_work *t)
{
    struct ready_queue *q = queue_of(w, t);
    assert(t->ready);
    *(t->before ? &t->before->behind : &q->first) = t->behind;
    *(t->behind ? &t->behind->before : &q->last) = t->before;
    t->before = t->behind = NULL;
    t->ready = false;
}

static void link_last(struct work *w, struct tenant_work *t)
{
    struct ready_queue *q = queue_of(w, t);
    assert(!t->ready && !t->rests_at);
    t->before = q->last;
    *(q->last ? &q->last->behind : &q->first) = t;
    q->last = t;
    t->ready = true;
}

static void link_first(struct work *w, struct tenant_work *t)
{
    struct ready_queue *q = queue_of(w, t);
    assert(!t->ready && !t->rests_at);
    t->behind = q->first;
    *(q->first ? &q->first->before : &q->last) = t;
    q->first = t;
    t->ready = true;
}

void turns_set_owner(struct work *w, struct tenant_work *t, bool others)
{
    bool ready = t->ready;
    assert(lock_is_mine(&w->lock));
    if (t->others == others) return;
    if (ready) unlink_ready(w, t);
    t->others = others;
    if (ready) link_last(w, t);
}

void turns_ready(struct work *w, struct tenant_work *t)
{
    assert(lock_is_mine(&w->lock));
    if (t->rests_at) take_out(w, t);
    if (!t->ready) link_last(w, t);
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

// Of those in a queue that want work the one with the fewest workers, and of these the one that has
// waited longest. The queue of others is gone through from its end.
static struct tenant_work *best_of(struct work *w, struct ready_queue *q, uint64_t now,
                                   uint64_t *until)
{
    bool back = q == &w->ready_others;
    struct tenant_work *best = NULL;
    for (struct tenant_work *t = back ? q->last : q->first, *next; t && !(best && !best->workers);
         t = next) {
        next = back ? t->before : t->behind;
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
    return best;
}

struct tenant_work *turns_next(struct work *w, uint64_t *until)
{
    uint64_t now = clock_mono_ns();
    assert(lock_is_mine(&w->lock));
    wake_resting(w, now);
    bool help = w->turns_of_own >= TURNS_OF_OWN;
    struct tenant_work *best = help ? best_of(w, &w->ready_others, now, until) : NULL;
    if (!best) best = best_of(w, &w->ready_own, now, until);
    // An own tenant with workers may have nothing left for one more: another's comes first then.
    if (!help && (!best || best->workers)) {
        struct tenant_work *other = best_of(w, &w->ready_others, now, until);
        if (other && (!best || !other->workers)) best = other;
    }
    if (w->resting_count) *until = MIN(*until, w->resting[0]->next_inspection_mono_ns);
    if (!best) return NULL;
    w->turns_of_own = best->others ? 0 : w->turns_of_own + 1;
    unlink_ready(w, best);  // to where it is looked at last
    if (best->others)
        link_first(w, best);
    else
        link_last(w, best);
    best->workers++;
    return best;
}

static bool has_waiting(const struct ready_queue *q, const struct tenant_work *than, uint64_t now)
{
    for (const struct tenant_work *o = q->first; o; o = o->behind) {
        if (o != than && o->workers < than->workers && work_is_wanted(o, now)) return true;
    }
    return false;
}

bool turns_others_wait(const struct work *w, const struct tenant_work *than)
{
    uint64_t now = clock_mono_ns();
    if (w->resting_count && w->resting[0]->next_inspection_mono_ns <= now) return true;
    return has_waiting(&w->ready_own, than, now) || has_waiting(&w->ready_others, than, now);
}
