// SPDX-License-Identifier: Apache-2.0
//
// series.h - SelectSeries: totals over time, in groups (pyroscope-api 6.12; plan.h draws the
// buckets).
//
// A group is the values of the asked labels; those that a series does not have are left out. Points
// exist only where profiles are. The value of a point is the sum of the profiles' totals, or that
// sum divided by their number; under a call site a profile's total is what lies there, 0 if nothing
// does. Series come largest first, then by labels. A point has the annotations of its profiles, and
// if exemplars are asked for the largest profile, or the largest span of one.
#pragma once

#include "querier/answer.h"

answer_fn series_select;

struct series_point {
    int64_t time_ms;
    double value;
    const struct merged_exemplar *exemplar;  // or NULL
    const label *annotations;
    size_t annotation_count;
};

struct series_row {
    labels group;  // in the order asked
    const struct series_point *points;
    size_t point_count;
    double sum;  // of the points
};

struct series_options {
    int64_t start_ms;
    int64_t step_ms;
    const str *group_by;
    size_t group_by_count;
    bool average;
    int64_t limit;  // rows kept; 0 or less: all
};

// From finished totals over the buckets of query_add_totals to rows in the order of the answer.
// Memory of the arena. Fails with out_of_range or resource_exhausted.
bool series_rows(struct arena *a, struct merged *m, const struct series_options *o,
                 struct series_row **rows, size_t *count, err *e) MUST_CHECK;
