// SPDX-License-Identifier: Apache-2.0
//
// lock.c - a mutex that knows its rank, and each thread's list of the locks that it holds.
#include "sys/lock.h"

#include "sys/clock.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static const char *const names[] = {
#define LOCK(name) #name,
#include "sys/locks.def"
#undef LOCK
};

static _Thread_local uint64_t held;  // a bit for each rank of which the thread holds a lock
static_assert(LOCK_RANKS <= 64, "held has a bit per rank");

static void must(int failed, const char *what)
{
    if (!failed) return;
    // A lock that does not work cannot be reported through code that takes locks.
    fprintf(stderr, "flametree: %s failed with %d\n", what, failed);
    abort();
}

void lock_init(struct lock *l, enum lock_rank rank)
{
    assert(rank < LOCK_RANKS);
    must(pthread_mutex_init(&l->mutex, NULL), "pthread_mutex_init");
    l->rank = rank;
}

void lock_release(struct lock *l)
{
    must(pthread_mutex_destroy(&l->mutex), "pthread_mutex_destroy");
}

static void rank_check(const struct lock *l)
{
    // No bit at or above the rank: all that is held is lower.
    if (held >> l->rank == 0) return;
    fprintf(stderr,
            "flametree: lock %s is taken while locks of the same or a higher rank are held:",
            names[l->rank]);
    for (unsigned i = 0; i < LOCK_RANKS; i++) {
        if (held >> i & 1) fprintf(stderr, " %s", names[i]);
    }
    fputc('\n', stderr);
    abort();
}

void lock_take(struct lock *l)
{
    assert(l->rank < LOCK_RANKS);
    rank_check(l);  // before the mutex: afterwards the thread may hang, and report nothing
    must(pthread_mutex_lock(&l->mutex), "pthread_mutex_lock");
    held |= UINT64_C(1) << l->rank;
}

void lock_give(struct lock *l)
{
    assert(lock_is_mine(l));
    // Before the unlock: afterwards the lock may be another thread's.
    held &= ~(UINT64_C(1) << l->rank);
    must(pthread_mutex_unlock(&l->mutex), "pthread_mutex_unlock");
}

bool lock_is_mine(const struct lock *l)
{
    return held >> l->rank & 1;
}

void cond_init(struct cond *c)
{
    pthread_condattr_t a;
    must(pthread_condattr_init(&a), "pthread_condattr_init");
    must(pthread_condattr_setclock(&a, CLOCK_MONOTONIC), "pthread_condattr_setclock");
    must(pthread_cond_init(&c->cond, &a), "pthread_cond_init");
    must(pthread_condattr_destroy(&a), "pthread_condattr_destroy");
}

void cond_release(struct cond *c)
{
    must(pthread_cond_destroy(&c->cond), "pthread_cond_destroy");
}

void cond_wait(struct cond *c, struct lock *l)
{
    assert(lock_is_mine(l));
    // The bit of the rank stays while it waits: the thread runs nothing meanwhile.
    must(pthread_cond_wait(&c->cond, &l->mutex), "pthread_cond_wait");
}

bool cond_wait_until(struct cond *c, struct lock *l, uint64_t until_mono_ns)
{
    assert(lock_is_mine(l));
    uint64_t until = clock_mono_kernel_ns(until_mono_ns);
    struct timespec t = {.tv_sec = (time_t)(until / (uint64_t)NS_PER_S),
                         .tv_nsec = (long)(until % (uint64_t)NS_PER_S)};
    int r = pthread_cond_timedwait(&c->cond, &l->mutex, &t);
    if (r == ETIMEDOUT) return false;
    must(r, "pthread_cond_timedwait");
    return true;
}

void cond_wake_one(struct cond *c)
{
    must(pthread_cond_signal(&c->cond), "pthread_cond_signal");
}

void cond_wake_all(struct cond *c)
{
    must(pthread_cond_broadcast(&c->cond), "pthread_cond_broadcast");
}
