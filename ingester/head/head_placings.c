// SPDX-License-Identifier: Apache-2.0
//
// head_placings.c - the placings of a head's rows (model/placings.h), which rows have by their
// numbers: two bytes instead of eight.
//
// A list of ingesters comes again and again, so there are few placings. They stay until the end of
// the process.
#include "ingester/head/head_int.h"

static uint16_t find(const struct head *h, uint32_t count, uint64_t placing)
{
    // The newest is the usual one.
    for (uint32_t i = count; i-- > 0;) {
        if (h->placings[i] == placing) return (uint16_t)(i + 1);
    }
    return 0;
}

uint16_t head_placing_number(struct head *h, uint64_t placing)
{
    // What lies below the count was written before it rose, and does not change.
    uint16_t number =
        find(h, atomic_load_explicit(&h->placing_count, memory_order_acquire), placing);
    if (number || placing == 0) return number;
    lock_take(&h->placing);
    uint32_t count = atomic_load_explicit(&h->placing_count, memory_order_relaxed);
    number = find(h, count, placing);
    if (!number && count + 1 >= HEAD_PLACINGS) {
        placing = PLACING_MANY;  // the last number is its
        number = find(h, count, placing);
    }
    if (!number) {
        h->placings[count] = placing;
        number = (uint16_t)(count + 1);
        atomic_store_explicit(&h->placing_count, count + 1, memory_order_release);
    }
    lock_give(&h->placing);
    return number;
}

uint64_t head_placing(const struct head *h, uint16_t number)
{
    if (number == 0) return 0;
    // Whoever has a number has it from a row, which came after it was given.
    assert(number <= atomic_load_explicit(&h->placing_count, memory_order_acquire));
    return h->placings[number - 1];
}
