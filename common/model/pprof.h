// SPDX-License-Identifier: Apache-2.0
//
// pprof.h - sums over stacks as a google.v1.Profile, for export.
//
// One sample for each stack with a sum, in the order of the table's rows. Locations are rebuilt
// from frames (symbols.h: all but the first line of a location carry `inlined`). Only rows that
// samples need are written, with ids from 1 in the order of the table.
#pragma once

#include "model/tree.h"

struct pprof_header {
    str sample_type;
    str sample_unit;
    str period_type;
    str period_unit;
    int64_t period;
    int64_t time_ns;
    int64_t duration_ns;
};

// With max_nodes > 0 the tree by function name (tree.h) is made and truncated; the part of a stack
// that truncation removed becomes one location of a function "other", and samples that are equal
// then are added up. 0 keeps all. call_site as in tree_build.
struct pprof_options {
    struct pprof_header header;
    int64_t max_nodes;
    const str *call_site;
    size_t call_site_count;
    struct tree_shown *shown;  // set if the tree was made: how much of it there is; may be NULL
};

// Zero bytes if no stack is left. Fails with out_of_range or resource_exhausted.
bool pprof_encode(struct arena *a, const struct symbol_table *t, const int64_t *sums,
                  const struct pprof_options *o, struct buf *out, err *e) MUST_CHECK;
