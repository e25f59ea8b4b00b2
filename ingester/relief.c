// SPDX-License-Identifier: Apache-2.0
#include "ingester/relief.h"

#include "ingester/flush/flush.h"
#include "ingester/ingester_int.h"
#include "ingester/metrics.h"
#include "sys/clock.h"

#include <inttypes.h>

// Between two looks at a head that is short of room while closed cuts wait.
#define RELIEF_LOOK_NS ((uint64_t)NS_PER_S)

bool relief_is_short(size_t used, size_t limit, size_t room)
{
    return used >= limit / 4 && room <= used / 3;
}

static size_t head_bytes(const struct ingester *in)
{
    return atomic_load_explicit(&head_budget(in->head)->used, memory_order_relaxed);
}

// Whether a look is due and finds the head short of room. Relaxed: an old time only makes the duty
// thread look once more.
static bool is_due(struct ingester *in)
{
    uint64_t from = atomic_load_explicit(&in->relief.not_before_mono_ns, memory_order_relaxed);
    size_t limit = (size_t)ingester_settings(in)->head_memory;
    if (!in->flush || clock_mono_ns() < from) return false;
    return relief_is_short(head_bytes(in), limit, mem_room(head_budget(in->head)));
}

void relief_look(struct ingester *in)
{
    if (is_due(in)) duty_wake(in);
}

static void rest(struct ingester *in, uint64_t ns)
{
    atomic_store_explicit(&in->relief.not_before_mono_ns, clock_mono_ns() + ns,
                          memory_order_relaxed);
}

void relief_tick(struct ingester *in)
{
    err e = {0};
    if (!is_due(in)) return;
    rest(in, RELIEF_LOOK_NS);
    if (wal_count(in->wal).closed_cuts > 0) return;
    size_t bytes = head_bytes(in);
    // If it fails the log is broken, and the next tick sees that.
    if (!wal_cut_now(in->wal, &e) || wal_count(in->wal).closed_cuts == 0) return;
    rest(in, RELIEF_REST_NS);
    metric_add(&ingester_early_cuts, 1);
    log_info(NULL, "cut.closed_early", "head_bytes=%zu limit=%" PRIu64, bytes,
             (uint64_t)ingester_settings(in)->head_memory);
}
