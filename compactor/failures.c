// SPDX-License-Identifier: Apache-2.0
//
// failures.c - jobs of a tenant that failed, known by kind and first hour. Each is tried again
// after 1 s, 2 s, 4 s ... retry_max; other jobs go on. All under the lock.
#include "compactor/work_int.h"
#include "sys/clock.h"

#include <stdio.h>

struct failure *failure_find(struct tenant_work *t, const struct task *j)
{
    for (size_t i = 0; i < t->failure_count; i++) {
        if (t->failures[i].kind == j->kind && t->failures[i].from_hour == j->from_hour)
            return &t->failures[i];
    }
    return NULL;
}

void failure_forget(struct tenant_work *t, const struct task *j)
{
    struct failure *f = failure_find(t, j);
    if (f) *f = t->failures[--t->failure_count];
}

static uint64_t retry_after(unsigned tries, int64_t most)
{
    assert(tries > 0);
    uint64_t ns = (uint64_t)NS_PER_S << MIN(tries - 1, 20u);
    return MIN(ns, (uint64_t)most);
}

static struct failure *failure_room(struct work *w, struct tenant_work *t)
{
    err ignored = {0};
    bool more = t->failure_count < FAILURES_MAX &&
                mem_grow(&w->memory, &t->failures, &t->failure_cap, t->failure_count + 1,
                         sizeof *t->failures, &ignored);
    if (!more && t->failure_count == 0) return NULL;
    // Without room the first one goes, and its job is tried sooner: mostly the oldest (forgetting
    // puts the last one in the place of another).
    if (!more) memmove(t->failures, t->failures + 1, --t->failure_count * sizeof *t->failures);
    assert(t->failure_count < MIN(t->failure_cap, (size_t)FAILURES_MAX));
    return &t->failures[t->failure_count++];
}

uint64_t failure_note(struct work *w, struct tenant_work *t, const struct task *j, const err *e)
{
    assert(lock_is_mine(&w->lock) && e->code);
    struct failure *f = failure_find(t, j);
    if (!f) {
        f = failure_room(w, t);
        if (!f) return 0;
        *f = (struct failure){.kind = j->kind, .from_hour = j->from_hour};
    }
    f->tries++;
    f->at_wall_ns = clock_wall_ns();
    f->code = e->code;
    uint64_t wait = retry_after(f->tries, work_settings(w)->retry_max);
    f->retry_mono_ns = clock_mono_ns() + wait;
    snprintf(f->message, sizeof f->message, "%s: %s", err_name(e->code), e->msg);
    return wait;
}
