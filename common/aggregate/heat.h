// SPDX-License-Identifier: Apache-2.0
//
// heat.h - a heat map: how many profiles or spans there are of which values, over time, in groups.
//
// A question comes twice: first without bounds for the extent of the values, then with the buckets
// that were made of it (message WantHeat). What arrived in between and is outside of the buckets is
// left out.
#pragma once

#include "aggregate/buckets.h"
#include "aggregate/cells.h"
#include "aggregate/points.h"

// What is asked for.
struct heat_want {
    struct points slots;
    const str *group_by;
    size_t group_by_count;
    enum exemplar_kind kind;  // what is counted
    struct buckets buckets;
    bool exemplars;  // one for each cell
};

// Fails with invalid_argument: nothing that can be counted, no slots, bounds that descend.
bool heat_check(const struct heat_want *w, err *e) MUST_CHECK;

// Counts a profile or a span: its value, time and what else an exemplar shows of it. Its labels are
// those of the series.
bool heat_add(struct cells *c, struct extent *extent, const struct heat_want *w,
              struct cells_series *s, const struct exemplar *x, err *e) MUST_CHECK;

// Messages HeatGroup in `field`, of finished cells; and one of them added.
bool heat_encode(const struct cells *c, struct buf *out, uint32_t field, err *e) MUST_CHECK;
bool heat_merge_bytes(struct cells *c, str bytes, err *e) MUST_CHECK;
