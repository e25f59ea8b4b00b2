// SPDX-License-Identifier: Apache-2.0
//
// stuck.c - counts appends that are inside, and the time since the last return.
#include "ingester/stuck.h"

#include "sys/clock.h"

// The time is set before the count: a thread that sees the count sees this time or a newer one.
void stuck_enter(struct stuck *s)
{
    if (atomic_load(&s->inside) == 0) atomic_store(&s->moved_mono_ns, clock_mono_ns());
    atomic_fetch_add(&s->inside, 1);
}

void stuck_leave(struct stuck *s)
{
    assert(atomic_load(&s->inside) > 0);
    atomic_store(&s->moved_mono_ns, clock_mono_ns());
    atomic_fetch_sub(&s->inside, 1);
}

uint64_t stuck_for_ns(struct stuck *s)
{
    if (atomic_load(&s->inside) == 0) return 0;
    uint64_t moved = atomic_load(&s->moved_mono_ns);
    uint64_t now = clock_mono_ns();
    return now > moved ? now - moved : 0;
}
