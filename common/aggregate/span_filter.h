// SPDX-License-Identifier: Apache-2.0
//
// span_filter.h - which profiles, and which spans and traces of them, a tree is made of.
//
// An empty list selects everything, any other list the ids in it. A span has to be selected by the
// list of spans and by that of traces. With either of these lists only the spans of a profile
// count, and a profile without a selected span does not count at all.
#pragma once

#include "base/arena.h"
#include "base/ulid.h"

struct span_filter {
    const id128 *profiles;
    size_t profile_count;
    const uint64_t *spans;
    size_t span_count;
    const id128 *traces;
    size_t trace_count;
};

// A copy with sorted lists, which the functions below need; the arena's.
bool span_filter_sort(struct arena *a, const struct span_filter *in, struct span_filter *out,
                      err *e) MUST_CHECK;

bool span_filter_has_profile(const struct span_filter *f, id128 profile);

// Whether a span is selected. One without an id is never selected by a list of spans.
bool span_filter_has_span(const struct span_filter *f, uint64_t span_id, bool has_trace,
                          id128 trace);

// Whether spans count, and not whole profiles.
static inline bool span_filter_is_of_spans(const struct span_filter *f)
{
    return f->span_count > 0 || f->trace_count > 0;
}
