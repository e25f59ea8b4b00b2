// SPDX-License-Identifier: Apache-2.0
//
// points.h - the points of a series over time, and the columns of a heat map.
//
// Point k of `count` covers (first + (k-1) * step, first + k * step]: a profile at the end of a
// point belongs to it, one at its beginning to the point before.
//
//     point        0                1                  2
//     covers  (first-step, first]   (first, first+step]   (first+step, first+2*step]
//
// Pure arithmetic. Any time and any step of at least 1 ns is right; overflows are handled.
#pragma once

#include "base/base.h"

struct points {
    int64_t first_ns;
    int64_t step_ns;  // 1 or more
    int64_t count;
};

// The point that covers a time. False if no point does.
static inline bool points_at(const struct points *p, int64_t time_ns, int64_t *point)
{
    int64_t distance = 0;
    assert(p->step_ns > 0);
    if (__builtin_sub_overflow(time_ns, p->first_ns, &distance)) return false;
    if (distance <= -p->step_ns) return false;
    // The quotient rounded up. C rounds a negative one towards 0, so a time up to first is of point
    // 0.
    *point = distance / p->step_ns + (distance % p->step_ns > 0);
    return *point < p->count;
}

// The point that covers a time, or the one that is nearest to it.
static inline int64_t points_nearest(const struct points *p, int64_t time_ns)
{
    int64_t distance = 0;
    assert(p->step_ns > 0 && p->count > 0);
    if (time_ns <= p->first_ns) return 0;
    if (__builtin_sub_overflow(time_ns, p->first_ns, &distance)) return p->count - 1;
    return MIN(distance / p->step_ns + (distance % p->step_ns > 0), p->count - 1);
}
