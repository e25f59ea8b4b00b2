// SPDX-License-Identifier: Apache-2.0
//
// head_exemplar.h - rows of the head as totals and heat maps take them (aggregate/source_row.h),
// and their spans as exemplars; private to head*.c.
#pragma once

#include "aggregate/source_row.h"
#include "ingester/head/rows.h"

// Fills the fields of a row's i-th span part. span_id 0: it is of a trace but of no span, and never
// shown.
static inline void exemplar_of_span(const struct row *row, uint32_t i, struct exemplar *x)
{
    const struct row_span *span = &row->spans->v[i];
    x->span_id = span->span_id;
    x->has_trace = span->has_trace;
    if (x->has_trace) memcpy(x->trace.b, span->trace_id, sizeof x->trace.b);
}

extern const struct row_source head_rows;

// A row without its vector, which only a call site needs. Without `spans` it has none: they lie
// elsewhere, and few questions ask for them.
static inline struct source_row head_source_row(const struct row *row, const struct site *site,
                                                bool spans)
{
    return (struct source_row){.source = &head_rows,
                               .row = row,
                               .site = site,
                               .id = row->id,
                               .time_ns = row->time_ns,
                               .duration_ns = row->duration_ns,
                               .total = row->total,
                               .factor = row->factor,
                               .spans = spans && row->spans ? row->spans->count : 0,
                               .notes = row->notes ? row->notes->count : 0};
}
