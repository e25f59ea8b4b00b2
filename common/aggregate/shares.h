// SPDX-License-Identifier: Apache-2.0
//
// shares.h - a profile's value, spread over the points that its duration covers.
//
// A profile's time is when it began: it covers [time, time + duration). Point k takes of it what
// lies in [first + (k-1) * step, first + k * step), in proportion. What lies behind the last point
// is the last point's, and what lies before the first one the first's, so that nothing is lost:
//
//     profile            |-- 3 --|-------- 10 --------|----- 7 -----|          20 in all
//     points       ... k         |        k+1         |        k+2        |
//
// Shares are whole numbers that add up to the value: each is rounded down, and the units that are
// left go to the largest remainders, of equal ones to the earliest (Hamilton's method). All points
// between the two ends have the same remainder, so a share is found without the others.
#pragma once

#include "aggregate/points.h"

// A profile that covers more points counts at its time: work for a profile is bounded, whatever
// duration it claims.
#define SHARES_POINTS_MAX 4096

struct shares {
    int64_t from;  // the first point with a share, and the last
    int64_t to;
    bool negative;
    uint64_t first;   // share of `from`
    uint64_t middle;  // of each between
    uint64_t last;    // of `to`
    int64_t more;     // so many of those between, the earliest, have one more
};

// False if the profile is not to be spread: it has no duration, or covers too many points.
bool shares_init(struct shares *s, const struct points *p, int64_t time_ns, int64_t duration_ns,
                 int64_t value);

// The share of a point from..to.
int64_t shares_at(const struct shares *s, int64_t point);
