// SPDX-License-Identifier: Apache-2.0
//
// source_row.h - a row as its source shows it: what totals and heat maps take from a row of a head
// or of a block.
//
// Sources keep vectors, spans and annotations in forms of their own. A source_row has the numbers
// of a row; its spans and annotations are read through the source's functions, and only if they are
// asked for. It borrows all that it names, and lives while its row is added.
#pragma once

#include "aggregate/exemplar.h"
#include "aggregate/site.h"

// One for each kind of source.
struct row_source {
    // Fills the fields of span i, and its vector. span_id 0: it is of a trace but of no span, and
    // never shown.
    void (*span)(const void *row, uint32_t i, struct exemplar *x, str *vector);
    label (*note)(const void *row, uint32_t i);  // annotation i
    bool notes_last;                             // the strings of annotations outlive the cells
};

struct source_row {
    const struct row_source *source;
    const void *row;  // for the source's functions
    const struct site *site;
    struct arena *scratch;  // vectors are columns (site_sum_columns); NULL: they are vectors
    id128 id;
    int64_t time_ns;
    int64_t duration_ns;  // 0: not known
    int64_t total;
    str vector;  // needed with a call site only, as is factor
    int64_t factor;
    uint32_t spans;
    uint32_t notes;
};

bool source_row_site_value(const struct source_row *r, struct wide *value, bool *any,
                           err *e) MUST_CHECK;  // of source_row_value, for a site with names

// The row's value under the call site; *any is false if no entry lies there.
static inline MUST_CHECK bool source_row_value(const struct source_row *r, struct wide *value,
                                               bool *any, err *e)
{
    *value = (struct wide){.low = r->total};
    *any = true;
    return r->site->n == 0 || source_row_site_value(r, value, any, e);
}

static inline struct exemplar source_row_exemplar(const struct source_row *r, int64_t value)
{
    return (struct exemplar){.profile = r->id, .time_ns = r->time_ns, .value = value};
}

// Span i with its value under the call site, or the nearest that fits int64; *any is false if it is
// not to be shown.
bool source_row_span(const struct source_row *r, uint32_t i, struct exemplar *x, bool *any,
                     err *e) MUST_CHECK;
