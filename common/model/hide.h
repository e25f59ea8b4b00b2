// SPDX-License-Identifier: Apache-2.0
//
// hide.h - profiles that a deletion hides: those of series with matching labels, in a range of
// time.
//
// A deletion is a tombstone in the tenant's manifest (docs/formats/manifest.md). Heads, planner,
// blocks and merges all ask this file whether a series is meant, so that all hide the same.
#pragma once

#include "model/label.h"

struct hide {
    struct selector selector;
    int64_t from_ns;  // exclusive
    int64_t to_ns;    // inclusive
};

// Are series with these labels meant? A label that they have not is the empty value.
bool hide_is_of(const struct hide *h, labels ls, bool *is, err *e) MUST_CHECK;

static inline bool hide_has_time(const struct hide *h, int64_t time_ns)
{
    return time_ns > h->from_ns && time_ns <= h->to_ns;
}
static inline bool hide_meets(const struct hide *h, int64_t from_ns, int64_t to_ns)
{
    return h->from_ns < to_ns && from_ns < h->to_ns;
}

// The value that a matcher demands of a label (name="value"); NULL: no matcher demands one.
const str *hide_demands(const struct hide *h, str name);

// Could a series have both? False only if the two demand different values of a label.
bool hide_may_meet(const struct hide *h, const struct selector *sel);
