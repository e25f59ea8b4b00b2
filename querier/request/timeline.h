// SPDX-License-Identifier: Apache-2.0
//
// timeline.h - the samples over time of /pyroscope/render.
//
// A timeline has slots of a round number of seconds, aligned to multiples of it from the epoch:
//
//     slot i      [start + i * step, start + (i + 1) * step)      start = floor(from / step) * step
//     slots       from that of `from` up to, without, that of `until`
//     one more    the slot of `until`, which is not over: shown only if something is in it, so that
//                 the samples add up to the flame graph beside them
//
// Samples have a sign, which Pyroscope's do not: a slot may be less than zero as well.
//
// Only profiles inside [from, until] count, as in the flame graph. Pure.
#pragma once

#include "base/buf.h"

struct timeline {
    int64_t start_s;
    int64_t step_s;
    size_t slots;  // whole ones
};

// Seconds of a slot for a range in ms: about a 1500th of it, at least 15 s.
int64_t timeline_step(int64_t start_ms, int64_t end_ms);

// Times more than about 146 years from 1970 are cut to that: no profile is there.
struct timeline timeline_of(int64_t start_ms, int64_t end_ms);

// Where the buckets of a question for totals end: bucket k is slot k, t->slots + 1 of them.
int64_t timeline_first_ns(const struct timeline *t);
int64_t timeline_step_ns(const struct timeline *t);

// {"startTime":..,"samples":[..],"durationDelta":..,"watermarks":null}; samples has slots + 1.
void timeline_print(const struct timeline *t, const int64_t *samples, struct buf *out);
