// SPDX-License-Identifier: Apache-2.0
//
// head_exemplar.h - rows of the head as exemplars (aggregate/exemplar.h); private to head*.c.
#pragma once

#include "aggregate/exemplar.h"
#include "ingester/head/rows.h"

static inline struct exemplar exemplar_of_row(const struct row *row)
{
    return (struct exemplar){.profile = row->id, .time_ns = row->time_ns, .value = row->total};
}

// Of a row's i-th span part, without its value. span_id 0: it is of a trace but of no span, and
// never shown.
static inline struct exemplar exemplar_of_span(const struct row *row, uint32_t i)
{
    const struct row_span *span = &row->spans->v[i];
    struct exemplar x = exemplar_of_row(row);
    x.value = 0;
    x.span_id = span->span_id;
    x.has_trace = span->has_trace;
    if (x.has_trace) memcpy(x.trace.b, span->trace_id, sizeof x.trace.b);
    return x;
}
