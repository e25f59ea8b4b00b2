// SPDX-License-Identifier: Apache-2.0
//
// call.c - the state of a call, moved by atomic exchanges, because a job, a loop and a canceller
// may meet.
#include "loop/call.h"

#include "loop/lane.h"
#include "loop/loop.h"
#include "sys/clock.h"
#include "sys/lock.h"

// A job that waits is not woken when its client goes away: it looks this often.
#define CANCEL_POLL_NS ((uint64_t)(100 * NS_PER_MS))

// Job and loop meet in call.group: NULL at first; the waiting job puts its group there; the loop
// puts `finished`. Both use one atomic exchange, so exactly one of them sees the other:
//
//     loop first:  the job sees `finished` and does not wait for this call
//     job first:   the loop sees the group, counts the call there and wakes the job
struct call_group {
    struct lock lock;
    struct cond change;
    size_t pending;
    size_t well;
};

static struct call_group finished;

void call_begin(struct call *c, enum rank rank, void (*stop)(struct call *c))
{
    assert(rank < RANK_COUNT);
    // One memory may be used for several calls, one after the other.
    c->rank = rank;
    c->stop = stop;
    c->done = false;
    c->ok = false;
    c->fault.code = ERR_OK;
    atomic_store_explicit(&c->group, NULL, memory_order_relaxed);
}

void call_finish(struct call *c, const err *fault)
{
    assert(!c->done);
    bool ok = !fault;
    c->ok = ok;
    c->done = true;
    c->ended_mono_ns = clock_mono_ns();
    if (fault) c->fault = *fault;
    // From here on the job may free *c, so only g is used.
    struct call_group *g = atomic_exchange_explicit(&c->group, &finished, memory_order_acq_rel);
    assert(g != &finished);
    if (!g) return;
    // The job cannot leave before pending is counted down under its lock.
    lock_take(&g->lock);
    assert(g->pending > 0);
    g->pending--;
    if (ok) g->well++;
    cond_wake_one(&g->change);
    lock_give(&g->lock);
}

static void join_group(struct call_group *g, struct call *c)
{
    struct call_group *none = NULL;
    if (atomic_compare_exchange_strong_explicit(&c->group, &none, g, memory_order_acq_rel,
                                                memory_order_acquire))
        return;
    assert(none == &finished);  // otherwise two jobs wait for one call
    assert(c->done);
    lock_take(&g->lock);
    g->pending--;
    if (c->ok) g->well++;
    lock_give(&g->lock);
}

bool call_is_over(const struct call *c)
{
    return atomic_load_explicit(&c->group, memory_order_acquire) == &finished;
}

void call_stop(struct call *c)
{
    if (!call_is_over(c) && c->stop) c->stop(c);
}

static void stop_rest_of(struct call *const *calls, size_t n)
{
    for (size_t i = 0; i < n; i++)
        call_stop(calls[i]);
}

// Waits until the group's outcome is decided or the request is over, which fills *why.
static void await_outcome(struct req *r, struct call_group *g, size_t need, bool stop_rest,
                          const struct call_watch *watch, err *why)
{
    uint64_t every = watch && watch->every_ns ? watch->every_ns : CANCEL_POLL_NS;
    uint64_t next_look = watch ? clock_mono_ns() + every : UINT64_MAX;
    lock_take(&g->lock);
    while (g->pending > 0) {
        bool decided = g->well >= need || g->well + g->pending < need;
        if (stop_rest && decided) break;
        if (!req_alive(r, why)) break;
        uint64_t left = MIN(req_left_ns(r), MIN(every, CANCEL_POLL_NS));
        cond_wait_until(&g->change, &g->lock, clock_mono_ns() + left);
        if (!watch || clock_mono_ns() < next_look) continue;
        lock_give(&g->lock);  // look may call call_stop, and take locks of its own
        watch->look(watch->arg);
        next_look = clock_mono_ns() + every;
        lock_take(&g->lock);
    }
    lock_give(&g->lock);
}

static void await_all(struct call_group *g)
{
    lock_take(&g->lock);
    while (g->pending > 0)
        cond_wait(&g->change, &g->lock);
    lock_give(&g->lock);
}

bool call_gather_watched(struct req *r, struct call *const *calls, size_t n, size_t need,
                         bool stop_rest, const struct call_watch *watch, err *e)
{
    assert(need <= n);
    assert(!loop_is_any_here());
    assert(r);
    struct call_group g = {.pending = n};
    lock_init(&g.lock, LOCK_GROUP);
    cond_init(&g.change);
    for (size_t i = 0; i < n; i++) {
        // Otherwise jobs of two lanes could wait for each other, on all nodes, for ever (req.h).
        assert((int)calls[i]->rank > lane_rank_here());
        join_group(&g, calls[i]);
    }
    err why = {0};
    await_outcome(r, &g, need, stop_rest, watch, &why);
    // Also those that went well: call_stop passes over calls that are over.
    stop_rest_of(calls, n);
    await_all(&g);  // also of calls that were stopped: the loop may still write into them
    cond_release(&g.change);
    lock_release(&g.lock);

    if (g.well >= need) return true;
    if (why.code) {
        *e = why;
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        if (calls[i]->ok) continue;
        *e = calls[i]->fault;
        return false;
    }
    return true;  // not reached: fewer than `need` <= n went well, so one has a fault
}

bool call_gather(struct req *r, struct call *const *calls, size_t n, size_t need, bool stop_rest,
                 err *e)
{
    return call_gather_watched(r, calls, n, need, stop_rest, NULL, e);
}

bool call_wait(struct req *r, struct call *c, err *e)
{
    return call_gather(r, &c, 1, 1, false, e);
}
