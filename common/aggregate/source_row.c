// SPDX-License-Identifier: Apache-2.0
//
// source_row.c - values of a row and of its spans, in the form that the source has.
#include "aggregate/source_row.h"

static bool sum(const struct source_row *r, str vector, int64_t factor, struct wide *value,
                bool *any, err *e)
{
    return r->scratch ? site_sum_columns(r->site, r->scratch, vector, factor, value, any, e)
                      : site_sum_vector(r->site, vector, factor, value, any, e);
}

bool source_row_site_value(const struct source_row *r, struct wide *value, bool *any, err *e)
{
    return sum(r, r->vector, r->factor, value, any, e);
}

bool source_row_span(const struct source_row *r, uint32_t i, struct exemplar *x, bool *any, err *e)
{
    str vector = {0};
    assert(i < r->spans);
    *x = source_row_exemplar(r, 0);
    *any = false;
    r->source->span(r->row, i, x, &vector);
    if (x->span_id == 0) return true;
    struct wide value = {0};
    if (!sum(r, vector, 1, &value, any, e)) return false;
    x->value = wide_clip(value);
    return true;
}
