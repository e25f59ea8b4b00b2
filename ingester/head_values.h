// SPDX-License-Identifier: Apache-2.0
//
// head_values.h - what a row counts for: its total, what of it lies under a call site, or what it
// has of each span; private to head*.c.
//
// A call site is a list of function names from the root. Which stacks lie under it is worked out
// once a service (struct site), not once a row; a row's value is then one pass over its vector.
#pragma once

#include "ingester/head_int.h"

// Of one service; the table may grow while it is read (series are visited under the lock one by
// one), so every visitor calls site_know first.
struct site {
    const str *names;
    size_t n;  // 0: everything counts
    struct mem_budget *budget;
    uint32_t *matched;  // by stack: names matched so far
    size_t room;
    uint32_t known;  // stacks looked at
};
void site_forget(struct site *s);  // another service follows
bool site_know(struct site *s, const struct symbol_table *t, err *e) MUST_CHECK;
void site_release(struct site *s);

// The sum of a vector under the site, times factor; *any is false if none of it lies there.
bool site_sum(const struct site *s, str vector, int64_t factor, int64_t *sum, bool *any,
              err *e) MUST_CHECK;

// A row's own value. *any as in site_sum; without a site always true.
static inline MUST_CHECK bool row_value(const struct site *s, const struct row *row, int64_t *value,
                                        bool *any, err *e)
{
    *any = true;
    *value = row->total;
    return s->n == 0 || site_sum(s, payload_view(row->vector), row->factor, value, any, e);
}

// The value of a row's i-th span part; *any is false for those that are of a trace but of no span.
static inline MUST_CHECK bool span_value(const struct site *s, const struct row *row, uint32_t i,
                                         int64_t *value, bool *any, err *e)
{
    *any = false;
    *value = 0;
    return row->spans->v[i].span_id == 0 ||
           site_sum(s, row_span_vector(row->spans, i), 1, value, any, e);
}

// ---- exemplars
// A row, or a span of it, while the head is held.
struct found {
    bool any;
    bool has_trace;
    int64_t value;
    int64_t time_ns;
    id128 id;
    uint64_t span_id;
    id128 trace;
    struct service_head *service;
    uint32_t series;
};

// Of a row, or of its i-th span part.
struct found found_row(const struct row *row, int64_t value, struct service_head *s,
                       uint32_t series);
struct found found_span(const struct row *row, uint32_t i, int64_t value, struct service_head *s,
                        uint32_t series);

// Whether a is to be shown rather than b: the order of message Exemplar.
bool found_before(const struct found *a, const struct found *b);

// As the head's answer: its series' labels but those named.
bool found_show(const struct found *f, struct arena *a, const str *without, size_t n,
                struct head_exemplar *out, err *e) MUST_CHECK;
