// SPDX-License-Identifier: Apache-2.0
//
// span_filter.h - of which profiles, and of those of which spans and traces, a tree is asked for.
//
// Empty lists ask for everything. A list that is not empty asks for what is in it; with spans and
// traces both have to hold. With either only what a profile has of spans counts, and a profile that
// has none of them does not count at all.
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

// A copy whose lists are in order, as the next two need them; the arena's.
bool span_filter_sort(struct arena *a, const struct span_filter *in, struct span_filter *out,
                      err *e) MUST_CHECK;

bool span_filter_has_profile(const struct span_filter *f, id128 profile);

// A span without id is none, whatever was asked for.
bool span_filter_has_span(const struct span_filter *f, uint64_t span_id, bool has_trace,
                          id128 trace);

// Whether it is spans that count, and not whole profiles.
static inline bool span_filter_is_of_spans(const struct span_filter *f)
{
    return f->span_count > 0 || f->trace_count > 0;
}
