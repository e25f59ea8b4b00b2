// SPDX-License-Identifier: Apache-2.0
//
// head_exemplar.c - spans and annotations of the head's rows, for common/aggregate.
#include "ingester/head/head_exemplar.h"

static void span_of(const void *row, uint32_t i, struct exemplar *x, str *vector)
{
    const struct row *r = row;
    exemplar_of_span(r, i, x);
    *vector = row_span_vector(r->spans, i);
}

static label note_of(const void *row, uint32_t i)
{
    const struct row *r = row;
    return row_note(r->notes, i);
}

const struct row_source head_rows = {.span = span_of, .note = note_of, .notes_last = true};
