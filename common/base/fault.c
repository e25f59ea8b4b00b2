// SPDX-License-Identifier: Apache-2.0
//
// fault.c - reads FLAMETREE_FAULTS once, counts how often each point is passed, and does what was
// asked for there.
#include "base/fault.h"

#include "base/str.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define POINTS_MAX 32

struct point {
    str name;
    str action;
    uint64_t from;  // first time at which it acts, 1-based
    bool onward;    // also every later time
    _Atomic uint64_t times;
};

static struct point points[POINTS_MAX];
static size_t point_count;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void arm(str row)
{
    assert(point_count < POINTS_MAX);
    struct point *p = &points[point_count];
    str action;
    p->name = str_split(row, '=', &action);
    str when;
    p->action = str_split(action, '@', &when);
    // "name=action@3" acts the third time, "@3+" from then on, without "@" each time.
    p->onward = when.n == 0 || str_ends(when, S("+"));
    if (when.n && p->onward) when.n--;
    if (!str_u64(when, &p->from)) p->from = 1;
    point_count++;
}

static void load(void)
{
    str rest = str_of(getenv("FLAMETREE_FAULTS"));
    while (rest.n && point_count < POINTS_MAX)
        arm(str_split(rest, ';', &rest));
}

static bool act(str action)
{
    static const struct {
        const char *name;
        int number;
    } errnos[] = {{"eio", EIO}, {"enospc", ENOSPC}, {"etimedout", ETIMEDOUT}};

    if (str_is(action, "die")) {
        kill(getpid(), SIGKILL);
        for (;;)  // the signal may need a moment, in which no further step may happen
            pause();
    }
    uint64_t ms = 0;
    if (str_starts(action, S("delay:")) && str_u64(str_slice(action, 6, action.n), &ms)) {
        nanosleep(&(struct timespec){(time_t)(ms / 1000), (long)(ms % 1000) * 1000000}, NULL);
        return false;
    }
    for (size_t i = 0; i < COUNT(errnos); i++) {
        if (!str_is(action, errnos[i].name)) continue;
        errno = errnos[i].number;
        return true;
    }
    fprintf(stderr, "FLAMETREE_FAULTS: unknown action %.*s\n", STR(action));
    abort();
}

static _Atomic(fault_fn *) asked;

void fault_on(fault_fn *fn)
{
    atomic_store(&asked, fn);
}

bool fault_at(const char *name)
{
    fault_fn *fn = atomic_load_explicit(&asked, memory_order_acquire);
    if (fn && fn(name)) return true;
    pthread_once(&once, load);
    for (size_t i = 0; i < point_count; i++) {
        struct point *p = &points[i];
        if (!str_is(p->name, name)) continue;
        // Each pass counts, whichever thread makes it.
        uint64_t time = atomic_fetch_add_explicit(&p->times, 1, memory_order_relaxed) + 1;
        if (time == p->from || (p->onward && time > p->from)) return act(p->action);
    }
    return false;
}
