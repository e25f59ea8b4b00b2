// SPDX-License-Identifier: Apache-2.0
//
// slot.h - slots of time: hours, days, points of a series, nodes of the segment tree.
//
// Slot k of a width covers (k * width, (k + 1) * width], aligned to the epoch; a time t is in slot
// floor((t - 1 ns) / width). So a time on a border belongs to the slot that ends there, as in the
// points of SelectSeries. Times are Unix nanoseconds.
//
// The grid of the segment tree (docs/design.md, section 4): every width divides the next, so the
// slots of one level are whole slots of the level above.
#pragma once

#include "base/base.h"

#define SLOT_MINUTE INT64_C(60000000000)
#define SLOT_FIVE   (5 * SLOT_MINUTE)
#define SLOT_HOUR   (60 * SLOT_MINUTE)
#define SLOT_DAY    (24 * SLOT_HOUR)
#define SLOT_WEEK   (7 * SLOT_DAY)
#define SLOT_WINDOW (28 * SLOT_DAY)

// floor((t - 1) / width)
static inline int64_t slot_of(int64_t time_ns, int64_t width)
{
    assert(width > 0);
    if (time_ns > INT64_MIN) time_ns--;
    int64_t slot = time_ns / width;
    return time_ns % width < 0 ? slot - 1 : slot;
}

// The slot of the nanosecond after a time, so of a border the slot that begins there. It is
// floor(t / width): nothing is added to the time, which may be any that a damaged block has.
static inline int64_t slot_after(int64_t time_ns, int64_t width)
{
    assert(width > 0);
    int64_t slot = time_ns / width;
    return time_ns % width < 0 ? slot - 1 : slot;
}

// Where a slot begins (exclusive); saturates. It ends, inclusive, where the next begins.
static inline int64_t slot_start(int64_t slot, int64_t width)
{
    assert(width > 0);
    int64_t start = 0;
    if (!__builtin_mul_overflow(slot, width, &start)) return start;
    return slot < 0 ? INT64_MIN : INT64_MAX;
}
