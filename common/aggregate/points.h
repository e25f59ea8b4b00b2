// SPDX-License-Identifier: Apache-2.0
//
// points.h - the points of a series over time, and the columns of a heat map.
//
// Point k of `count` covers (first + (k-1) * step, first + k * step]: a profile at the end of a
// point belongs to it, one at its beginning to the point before. The first point also covers all
// that is earlier. A question has a range, so that is what of the range lies before `first`.
//
//     point        0             1                      2
//     covers  (..., first]   (first, first+step]   (first+step, first+2*step]
//
// Requests name a start in ms, and a profile may be at any ns of that ms. So the single rows of the
// first `early_ns` behind `first` belong to the first point as well (points_of_row). Sums of slots
// know no single times: a slot that begins at `first` is of the second point.
//
// Pure arithmetic. Any time and any step of at least 1 ns is right; overflows are handled.
#pragma once

#include "base/base.h"

struct points {
    int64_t first_ns;
    int64_t step_ns;  // 1 or more
    int64_t count;
    int64_t early_ns;  // less than a step
};

// The point that covers a time. False if no point does: the time is behind the last.
static inline bool points_at(const struct points *p, int64_t time_ns, int64_t *point)
{
    int64_t distance = 0;
    assert(p->step_ns > 0);
    *point = 0;
    if (time_ns <= p->first_ns) return p->count > 0;
    if (__builtin_sub_overflow(time_ns, p->first_ns, &distance)) return false;
    *point = distance / p->step_ns + (distance % p->step_ns > 0);
    return *point < p->count;
}

// The point of a row.
static inline bool points_of_row(const struct points *p, int64_t time_ns, int64_t *point)
{
    bool early =
        time_ns > p->first_ns && (uint64_t)time_ns - (uint64_t)p->first_ns <= (uint64_t)p->early_ns;
    return points_at(p, early ? p->first_ns : time_ns, point);
}

// The point of a row, or the last one if the row is behind it.
static inline int64_t points_nearest(const struct points *p, int64_t time_ns)
{
    int64_t point = 0;
    assert(p->count > 0);
    return points_of_row(p, time_ns, &point) ? point : p->count - 1;
}
