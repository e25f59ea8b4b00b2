// SPDX-License-Identifier: Apache-2.0
//
// span_filter.c - sorted lists of ids, searched.
#include "aggregate/span_filter.h"

#include <stdlib.h>

static int by_id(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(id128));
}

static int by_number(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static void *sorted(struct arena *a, const void *v, size_t n, size_t size,
                    int (*order)(const void *, const void *))
{
    void *out = arena_array(a, size, n);
    if (!out || n == 0) return out;
    memcpy(out, v, n * size);
    qsort(out, n, size, order);
    return out;
}

bool span_filter_sort(struct arena *a, const struct span_filter *in, struct span_filter *out,
                      err *e)
{
    *out = *in;
    out->profiles = sorted(a, in->profiles, in->profile_count, sizeof *in->profiles, by_id);
    out->spans = sorted(a, in->spans, in->span_count, sizeof *in->spans, by_number);
    out->traces = sorted(a, in->traces, in->trace_count, sizeof *in->traces, by_id);
    return arena_ok(a, e);
}

bool span_filter_has_profile(const struct span_filter *f, id128 profile)
{
    return f->profile_count == 0 ||
           bsearch(&profile, f->profiles, f->profile_count, sizeof profile, by_id);
}

bool span_filter_has_span(const struct span_filter *f, uint64_t span_id, bool has_trace,
                          id128 trace)
{
    if (f->span_count &&
        (span_id == 0 || !bsearch(&span_id, f->spans, f->span_count, sizeof span_id, by_number))) {
        return false;
    }
    return f->trace_count == 0 ||
           (has_trace && bsearch(&trace, f->traces, f->trace_count, sizeof trace, by_id));
}
