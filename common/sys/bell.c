// SPDX-License-Identifier: Apache-2.0
//
// bell.c - three states in one word, and a futex.
#include "sys/bell.h"

#include <assert.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    SILENT,
    RUNG,
    AWAITED
};

// Release here, acquire in bell_await. The bell's memory may be freed before the system call: the
// kernel uses only the address. If another thread sleeps on a futex there by now, it wakes and
// checks its own word again, as all sleepers on futexes must.
bool bell_ring(struct bell *b)
{
    if (atomic_exchange_explicit(&b->state, RUNG, memory_order_release) != AWAITED) return false;
    (void)syscall(SYS_futex, &b->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    return true;
}

bool bell_await(struct bell *b)
{
    uint32_t seen = SILENT;
    bool sleeps =
        atomic_compare_exchange_strong_explicit(&b->state, &seen, AWAITED, memory_order_acquire,
                                                memory_order_acquire);
    assert(seen != AWAITED);  // one thread may wait
    while (sleeps && atomic_load_explicit(&b->state, memory_order_acquire) != RUNG)
        (void)syscall(SYS_futex, &b->state, FUTEX_WAIT_PRIVATE, AWAITED, NULL, NULL, 0);
    atomic_store_explicit(&b->state, SILENT, memory_order_relaxed);
    return sleeps;
}
