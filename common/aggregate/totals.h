// SPDX-License-Identifier: Apache-2.0
//
// totals.h - sums and numbers of profiles over time, in groups, with exemplars and annotations.
//
// A source of rows (a head, blocks) adds each row of the range: at the point of its time, or, if
// that is wanted and its duration is known, spread over the points that it covers (shares.h).
// Totals of another answer are merged from their bytes by totals_merge_bytes.
//
//     struct cells_series s = {.ls = labels of the series, .lasting = true};
//     for each row of it:
//         totals_add_row(&cells, want, &s, &row, e) ...
#pragma once

#include "aggregate/cells.h"
#include "aggregate/points.h"
#include "aggregate/source_row.h"

// What is asked for. With a call site (names from the root) only entries under it count; a profile
// without any such entry still counts as a profile, with value 0.
struct totals_want {
    bool wanted;  // false: totals are not asked for, and the other fields mean nothing
    int64_t first_ns;
    int64_t step_ns;
    int64_t points;
    int64_t early_ns;  // of points.h
    bool spread;       // by duration
    const str *group_by;
    size_t group_by_count;
    const str *call_site;
    size_t call_site_count;
    enum exemplar_kind exemplars;
    bool include_sampled;  // also series of which sampling kept only totals (__sampled__="true")
};

// Fails with invalid_argument: a step below 1 ns, or an unknown kind of exemplars.
bool totals_check(const struct totals_want *w, err *e) MUST_CHECK;

static inline struct points totals_points(const struct totals_want *w)
{
    return (struct points){.first_ns = w->first_ns,
                           .step_ns = w->step_ns,
                           .count = w->points,
                           .early_ns = w->early_ns};
}

// Adds a row: its value, its annotations, and the exemplars that are asked for. A row behind the
// last point is left out. One that is spread counts as a profile, with exemplar and annotations, in
// the first point of those that it covers.
bool totals_add_row(struct cells *c, const struct totals_want *w, struct cells_series *s,
                    const struct source_row *r, err *e) MUST_CHECK;

// A cell as it is shown.
struct total {
    int64_t point;
    int64_t sum;  // or the nearest that fits int64
    uint64_t profiles;
    const struct exemplar *exemplar;  // or NULL
    labels annotations;               // in order of key and value, each once
};
bool totals_show(const struct cells *c, const struct cell *cell, struct total *out,
                 err *e) MUST_CHECK;

// Writes finished cells as messages SeriesTotals in `field`; and merges one such message. Who does
// not know carries (wide false) would read sums that do not fit int64 as others: out_of_range.
bool totals_encode(const struct cells *c, bool wide, struct buf *out, uint32_t field,
                   err *e) MUST_CHECK;
bool totals_merge_bytes(struct cells *c, str bytes, err *e) MUST_CHECK;
