// SPDX-License-Identifier: Apache-2.0
//
// heat.h - a heat map: how many profiles or spans have values in which bucket, over time, in
// groups.
//
// A heat map takes two questions: the first, without bounds, asks for the extent of the values; the
// second has the buckets that were made of it (message WantHeat). Values outside the buckets, which
// can only have arrived in between, are left out.
#pragma once

#include "aggregate/buckets.h"
#include "aggregate/cells.h"
#include "aggregate/points.h"
#include "aggregate/source_row.h"

// What is asked for.
struct heat_want {
    struct points slots;
    const str *group_by;
    size_t group_by_count;
    enum exemplar_kind kind;  // what is counted
    struct buckets buckets;
    bool exemplars;  // one for each cell
};

// Fails with invalid_argument: an unknown kind, no slots, or bounds that descend.
bool heat_check(const struct heat_want *w, err *e) MUST_CHECK;

// Counts a profile or a span, given as an exemplar. Its labels are taken from the series.
bool heat_add(struct cells *c, struct extent *extent, const struct heat_want *w,
              struct cells_series *s, const struct exemplar *x, err *e) MUST_CHECK;

// Counts a row or its spans, as asked for.
bool heat_add_row(struct cells *c, struct extent *extent, const struct heat_want *w,
                  struct cells_series *s, const struct source_row *r, err *e) MUST_CHECK;

// Writes finished cells as messages HeatGroup in `field`; and merges one such message.
bool heat_encode(const struct cells *c, struct buf *out, uint32_t field, err *e) MUST_CHECK;
bool heat_merge_bytes(struct cells *c, str bytes, err *e) MUST_CHECK;
