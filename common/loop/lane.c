// SPDX-License-Identifier: Apache-2.0
//
// lane.c - a queue of jobs and the workers that take them; all under the lane's lock.
#include "loop/lane.h"

#include "base/hash.h"
#include "loop/metrics.h"
#include "sys/bell.h"
#include "sys/clock.h"
#include "sys/lock.h"
#include "sys/thread.h"

#include <stdio.h>

#define NAME_MAX_BYTES 64

// Waiting jobs of one tenant. Turns with jobs are in the ring of the lane, in the order in which
// their tenants' next jobs run; the rest are spare. There is one for each job that can wait, so
// that admission needs no memory.
struct turn {
    struct turn *next;   // in the ring, or the next spare one
    struct turn *chain;  // in the hash bucket
    uint64_t hash;
    str tenant;  // borrowed from the first waiting job
    struct job *first;
    struct job *last;
};

// A thread of the lane.
struct worker {
    struct lane *lane;
    struct worker *below;  // in the pile of idle ones
    struct bell bell;
    pthread_t thread;
};

struct lane {
    char name[NAME_MAX_BYTES];
    enum rank rank;
    unsigned width;
    unsigned limit;  // of jobs inside
    uint64_t queue_age_ns;

    struct lock lock;
    struct cond empty;  // nothing is inside
    unsigned inside;    // jobs waiting and running
    unsigned waiting;
    unsigned running;     // in the lane's threads and in those that entered; at most `width`
    unsigned idle;        // threads that sleep, or were rung and are not here yet
    struct worker *pile;  // threads that sleep; the one that fell asleep last is on top
    unsigned thread_count;
    bool draining;
    bool ending;
    struct worker *workers;

    struct turn *turns;
    struct turn *spare;
    struct turn *ring_first;
    struct turn *ring_last;
    struct turn **buckets;
    size_t bucket_mask;
};

static _Thread_local int rank_here = -1;

int lane_rank_here(void)
{
    return rank_here;
}

// ---- turns; all under the lane's lock

static struct turn **bucket_of(struct lane *l, uint64_t hash)
{
    return &l->buckets[hash & l->bucket_mask];
}

static void ring_append(struct lane *l, struct turn *t)
{
    t->next = NULL;
    if (l->ring_last)
        l->ring_last->next = t;
    else
        l->ring_first = t;
    l->ring_last = t;
}

static struct turn *turn_of(struct lane *l, str tenant)
{
    uint64_t hash = hash_table_str(tenant);
    struct turn **bucket = bucket_of(l, hash);
    for (struct turn *t = *bucket; t; t = t->chain) {
        if (t->hash == hash && str_eq(t->tenant, tenant)) return t;
    }
    struct turn *t = l->spare;
    assert(t);  // there are as many turns as jobs that the lane admits
    // The tenant is borrowed from the job that comes first, and passed on when that job goes.
    assert(lock_is_mine(&l->lock));
    l->spare = t->next;
    *t = (struct turn){.chain = *bucket, .hash = hash, .tenant = tenant};
    *bucket = t;
    ring_append(l, t);
    return t;
}

static void turn_end(struct lane *l, struct turn *t)
{
    assert(!t->first);
    struct turn **at = bucket_of(l, t->hash);
    while (*at != t)
        at = &(*at)->chain;
    *at = t->chain;
    t->next = l->spare;
    l->spare = t;
}

static void job_put(struct lane *l, struct job *j)
{
    struct turn *t = turn_of(l, j->req->tenant);
    j->next = NULL;
    if (t->last)
        t->last->next = j;
    else
        t->first = j;
    t->last = j;
    l->waiting++;
}

static struct job *job_take(struct lane *l)
{
    assert(l->ring_first && l->waiting > 0);
    struct turn *t = l->ring_first;
    l->ring_first = t->next;
    if (!l->ring_first) l->ring_last = NULL;
    assert(t->first);
    struct job *j = t->first;
    t->first = j->next;
    if (t->first) {
        t->tenant = t->first->req->tenant;  // it borrowed j's, which may be freed with j
        // At the end: each tenant has one job in its turn, however many it has waiting.
        ring_append(l, t);
    } else {
        turn_end(l, t);
    }
    l->waiting--;
    return j;
}

static bool turn_unlink(struct turn *t, struct job *j)
{
    struct job *before = NULL;
    for (struct job *at = t->first; at; before = at, at = at->next) {
        if (at != j) continue;
        if (before)
            before->next = j->next;
        else
            t->first = j->next;
        if (t->last == j) t->last = before;
        return true;
    }
    return false;
}

static bool job_unlink(struct lane *l, struct job *j)
{
    struct turn *before = NULL;
    struct turn *t = l->ring_first;
    for (; t && !turn_unlink(t, j); t = t->next)
        before = t;
    if (!t) return false;
    l->waiting--;
    if (t->first) {
        t->tenant = t->first->req->tenant;
        return true;
    }
    if (before)
        before->next = t->next;
    else
        l->ring_first = t->next;
    if (l->ring_last == t) l->ring_last = before;
    turn_end(l, t);
    return true;
}

// ---- workers

static bool job_may_run(const struct lane *l, const struct job *j, uint64_t waited_ns, err *e)
{
    if (!req_alive(j->req, e)) return false;
    if (l->queue_age_ns == 0 || waited_ns <= l->queue_age_ns) return true;
    return err_set(e, ERR_RESOURCE_EXHAUSTED,
                   "lane %s: the request waited %llu ms for a thread, limit %llu ms", l->name,
                   (unsigned long long)(waited_ns / (uint64_t)NS_PER_MS),
                   (unsigned long long)(l->queue_age_ns / (uint64_t)NS_PER_MS));
}

static void job_do(struct lane *l, struct job *j)
{
    uint64_t waited_ns = clock_mono_ns() - j->queued_mono_ns;
    metric_observe_ns_to(&loop_lane_wait, str_of(l->name), waited_ns);
    err e = {0};
    if (job_may_run(l, j, waited_ns, &e)) {
        j->run(j);
        return;
    }
    // Not counted for a client that left: it is no sign of overload.
    // Too late or too old: refused without having run, so it costs a moment only.
    if (e.code != ERR_CANCELED) metric_add_to(&loop_lane_refused, str_of(l->name), 1);
    j->refuse(j, &e);
}

// Takes the sleeping worker off the pile that shall do the next job. NULL: no job can begin, or all
// threads are awake. Under the lane's lock; the caller rings after giving the lock back, because
// the woken thread takes it first of all.
static struct worker *to_ring(struct lane *l)
{
    assert(lock_is_mine(&l->lock));
    struct worker *top = l->ring_first && l->running < l->width ? l->pile : NULL;
    if (top) l->pile = top->below;
    return top;
}

static void ring(struct worker *w)
{
    if (w) (void)bell_ring(&w->bell);
}

static void *work(void *arg)
{
    struct worker *me = arg;
    struct lane *l = me->lane;
    rank_here = (int)l->rank;
    lock_take(&l->lock);
    for (;;) {
        if (!l->ring_first || l->running == l->width) {
            if (l->ending) break;
            l->idle++;
            me->below = l->pile;
            l->pile = me;
            lock_give(&l->lock);
            (void)bell_await(&me->bell);
            lock_take(&l->lock);
            assert(l->idle > 0);
            l->idle--;
            continue;
        }
        struct job *j = job_take(l);
        assert(l->running < l->width);
        l->running++;
        lock_give(&l->lock);
        job_do(l, j);
        lock_take(&l->lock);  // j may have been freed by now
        l->running--;
        if (--l->inside == 0) cond_wake_all(&l->empty);
    }
    lock_give(&l->lock);
    return NULL;
}

// ---- life

static void on_print(void *arg)
{
    struct lane *l = arg;
    lock_take(&l->lock);
    unsigned inside = l->inside;
    lock_give(&l->lock);
    metric_set_to(&loop_lane_jobs, str_of(l->name), inside);
    metric_set_to(&loop_lane_limit, str_of(l->name), l->limit);
}

struct lane *lane_new(const struct lane_options *o, err *e)
{
    if (o->width == 0 || o->width > 4096 || o->queue_max > 1u << 20) {
        err_set(e, ERR_INVALID_ARGUMENT,
                "lane %s: width %u must be in [1, 4096], queue %u at most %u", o->name, o->width,
                o->queue_max, 1u << 20);
        return NULL;
    }
    metric_register(loop_metrics, loop_metric_count);
    struct lane *l = mem_must(sizeof *l);
    snprintf(l->name, sizeof l->name, "%s", o->name);
    l->rank = o->rank;
    l->width = o->width;
    assert(o->name && o->rank < RANK_COUNT);
    l->limit = o->width + o->queue_max;
    l->queue_age_ns = o->queue_age_ns;
    lock_init(&l->lock, LOCK_LANE);
    cond_init(&l->empty);
    l->workers = mem_must(l->width * sizeof *l->workers);
    l->turns = mem_must(l->limit * sizeof *l->turns);
    for (unsigned i = 0; i < l->limit; i++) {
        l->turns[i].next = l->spare;
        l->spare = &l->turns[i];
    }
    size_t buckets = 16;
    while (buckets < l->limit)
        buckets *= 2;
    l->buckets = mem_must(buckets * sizeof *l->buckets);
    l->bucket_mask = buckets - 1;
    (void)metric_expect_to(&loop_lane_refused, str_of(l->name));
    metric_on_print(on_print, l);
    return l;
}

// Starts a thread if all are busy and the width allows. If the system gives none, the lane works
// with the threads that it has; only a lane without any refuses.
static bool threads_suffice(struct lane *l, err *e)
{
    // `idle` counts threads that were rung and are not here yet: each of them will take one of the
    // jobs that wait, so only idle threads beyond those are free.
    if (l->idle > l->waiting || l->thread_count == l->width) return true;
    err why = {0};
    struct worker *fresh = &l->workers[l->thread_count];
    assert(l->thread_count < l->width);
    fresh->lane = l;
    if (thread_start(&fresh->thread, l->name, work, fresh, &why)) {
        l->thread_count++;
        return true;
    }
    if (l->thread_count == 0) *e = why;
    return l->thread_count > 0;
}

static bool admit(struct lane *l, err *e)
{
    if (l->draining) return err_set(e, ERR_UNAVAILABLE, "lane %s: shutting down", l->name);
    if (l->inside >= l->limit)
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "lane %s: %u requests wait or run, limit %u",
                       l->name, l->inside, l->limit);
    return threads_suffice(l, e);
}

bool lane_submit(struct lane *l, struct job *j, err *e)
{
    assert(j->req && j->run && j->refuse);
    assert(j->req->rank < RANK_COUNT);
    j->queued_mono_ns = clock_mono_ns();
    lock_take(&l->lock);
    bool ok = admit(l, e);
    if (ok) {
        // After admit, which may fail: from here on a worker may run j as soon as the lock is
        // given.
        job_put(l, j);
        l->inside++;
    }
    struct worker *comes = ok ? to_ring(l) : NULL;
    lock_give(&l->lock);
    ring(comes);
    if (!ok) metric_add_to(&loop_lane_refused, str_of(l->name), 1);
    return ok;
}

bool lane_withdraw(struct lane *l, struct job *j)
{
    lock_take(&l->lock);
    // A job that runs, or has run, is in no turn.
    bool ok = job_unlink(l, j);
    if (ok && --l->inside == 0) cond_wake_all(&l->empty);
    lock_give(&l->lock);
    return ok;
}

bool lane_enter(struct lane *l, int *before)
{
    lock_take(&l->lock);
    // Only past an empty queue, or it would overtake those that wait.
    bool ok = !l->draining && l->waiting == 0 && l->running < l->width;
    if (ok) {
        l->inside++;
        l->running++;
    }
    lock_give(&l->lock);
    if (!ok) return false;
    metric_observe_ns_to(&loop_lane_wait, str_of(l->name), 0);
    *before = rank_here;
    rank_here = (int)l->rank;
    return true;
}

void lane_leave(struct lane *l, int before)
{
    assert(rank_here == (int)l->rank);
    rank_here = before;
    lock_take(&l->lock);
    assert(l->running > 0 && l->inside > 0);
    l->running--;
    if (--l->inside == 0) cond_wake_all(&l->empty);
    struct worker *comes = to_ring(l);  // the place that this thread had is free for a waiting job
    lock_give(&l->lock);
    ring(comes);
}

unsigned lane_sleepers(struct lane *l)
{
    unsigned n = 0;
    lock_take(&l->lock);
    for (const struct worker *w = l->pile; w; w = w->below)
        n++;
    lock_give(&l->lock);
    return n;
}

void lane_drain(struct lane *l)
{
    lock_take(&l->lock);
    l->draining = true;
    while (l->inside > 0)
        cond_wait(&l->empty, &l->lock);
    lock_give(&l->lock);
}

void lane_free(struct lane *l)
{
    if (!l) return;
    lock_take(&l->lock);
    assert(l->inside == 0);
    l->draining = true;
    l->ending = true;
    // Those on the pile sleep; others see `ending` before they would go to sleep.
    struct worker *pile = l->pile;
    l->pile = NULL;
    lock_give(&l->lock);
    for (struct worker *below; pile; pile = below) {
        below = pile->below;
        ring(pile);
    }
    for (unsigned i = 0; i < l->thread_count; i++)
        thread_join(l->workers[i].thread);
    metric_off_print(on_print, l);
    cond_release(&l->empty);
    lock_release(&l->lock);
    mem_must_free((void *)l->buckets);
    mem_must_free(l->turns);
    mem_must_free(l->workers);
    mem_must_free(l);
}
