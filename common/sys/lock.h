// SPDX-License-Identifier: Apache-2.0
//
// lock.h - mutexes with names and ranks.
//
// The ranks are the lines of sys/locks.def. A thread that holds a lock may take only locks of a
// higher rank. Any other order may deadlock one day, so it ends the process at once, in every build
// (the check is two loads). Locks are held for a few lines and never across a call that blocks.
#pragma once

#include "base/base.h"

#include <pthread.h>

enum lock_rank {
#define LOCK(name) LOCK_##name,
#include "sys/locks.def"
#undef LOCK
    LOCK_RANKS
};

struct lock {
    pthread_mutex_t mutex;
    enum lock_rank rank;
};

#define LOCK_INIT(rank_)                                     \
    {                                                        \
        .mutex = PTHREAD_MUTEX_INITIALIZER, .rank = (rank_), \
    }

void lock_init(struct lock *l, enum lock_rank rank);
void lock_release(struct lock *l);

void lock_take(struct lock *l);
void lock_give(struct lock *l);
bool lock_is_mine(const struct lock *l);  // does the calling thread hold a lock of this rank?

// A condition whose time limits are monotonic.
struct cond {
    pthread_cond_t cond;
};

void cond_init(struct cond *c);
void cond_release(struct cond *c);
void cond_wait(struct cond *c, struct lock *l);

// Waits until woken or clock_mono_ns() reaches `until`. False on time out.
bool cond_wait_until(struct cond *c, struct lock *l, uint64_t until_mono_ns);
void cond_wake_one(struct cond *c);
void cond_wake_all(struct cond *c);
