// SPDX-License-Identifier: Apache-2.0
//
// merged.h - adds up partial answers, of heads and of blocks, to one result.
//
// The stacks of a Partial (proto/flametree/v1/internal.proto) are added by model/merge.h,
// everything else by common/aggregate. A sum of stacks that does not fit int64 is out_of_range,
// unless the Partial has sums by service: those are kept apart (services.h).
//
// All memory counts against the query's own budget (setting querier.query_memory); a query that is
// too large fails with a message that names it. Strings of labels and names borrow from the added
// bytes, which must outlive the result. One thread at a time.
#pragma once

#include "aggregate/heat.h"
#include "aggregate/inventory.h"
#include "aggregate/label_sets.h"
#include "aggregate/totals.h"
#include "model/merge.h"
#include "querier/merge/services.h"

struct merged {
    struct mem_budget memory;
    struct arena arena;  // also of trees and pprof made from the result
    struct merge stacks;
    uint64_t profiles;  // in stacks
    struct services services;

    struct cells totals;  // aggregate/totals.h
    struct cells heat;    // aggregate/heat.h
    struct extent extent;

    struct label_sets sets;
    struct label_sets names;

    struct inventory there;
    uint64_t streams;  // that have profiles of it
};

// parent: budget of the process; limit in bytes, 0 = none of its own. full_symbols: frames keep
// files, lines, mappings and addresses (pprof needs them), else only names (trees). merged_release
// also after a failure; a zero value is fine.
bool merged_init(struct merged *m, struct mem_budget *parent, size_t limit, bool full_symbols,
                 err *e) MUST_CHECK;
void merged_release(struct merged *m);

// Adds the bytes of a Partial. Fails with resource_exhausted, out_of_range, or internal if the
// bytes are malformed.
bool merged_add(struct merged *m, str partial, err *e) MUST_CHECK;

// Appends the fields of a Partial with all that was added, for another querier. `scratch` has what
// is needed meanwhile. Statistics are not among them. wide_totals: as in totals_encode.
bool merged_encode(struct merged *m, bool wide_totals, struct arena *scratch, struct buf *out,
                   err *e) MUST_CHECK;

// Call once after the last add: totals, heat, sets and names come to their order.
bool merged_finish(struct merged *m, err *e) MUST_CHECK;
