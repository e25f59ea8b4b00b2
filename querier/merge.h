// SPDX-License-Identifier: Apache-2.0
//
// merge.h - many partial answers, one result: adding, never choosing.
//
// Of each Partial (proto/flametree/v1/internal.proto) the stacks are added by model/merge.h; totals
// are added per (group, point), cells of heat maps per (group, slot, bucket); of two exemplars the
// larger stays; annotations, label sets and names are united. Sums are checked: what leaves int64
// is out_of_range.
//
// All memory counts against a budget of the query (setting querier.query_memory), whose message a
// client sees when a query is too large. Strings of labels and names borrow from the added bytes,
// which must outlive the result. One thread.
#pragma once

#include "base/ulid.h"
#include "model/label.h"
#include "model/merge.h"

// A profile, or one span of it, behind a point or a cell.
struct merged_exemplar {
    id128 profile;
    int64_t time_ns;
    int64_t value;
    labels ls;  // of its series, without those of the group
    uint64_t span_id;
    bool has_trace;
    id128 trace;
};

struct merged_total {
    uint32_t group;  // row of merged.groups
    int64_t point;
    int64_t sum;
    uint64_t profiles;
    const struct merged_exemplar *exemplar;  // or NULL
    const label *annotations;                // sorted by key and value, each once
    size_t annotation_count;
};

// A cell of a heat map.
struct merged_cell {
    uint32_t group;  // row of merged.groups
    uint32_t bucket;
    int64_t slot;
    uint64_t count;
    const struct merged_exemplar *exemplar;  // or NULL
};

struct merged {
    struct mem_budget memory;
    struct arena arena;  // also for what is built from the result: trees, pprof
    struct merge stacks;
    uint64_t profiles;  // in stacks

    labels *groups;
    size_t group_count;
    size_t group_cap;
    struct map group_index;
    struct merged_total *totals;
    size_t total_count;
    size_t total_cap;

    labels *sets;
    size_t set_count;
    size_t set_cap;
    str *names;
    size_t name_count;
    size_t name_cap;

    struct merged_cell *cells;
    size_t cell_count;
    size_t cell_cap;
    uint64_t extent_count;
    int64_t least;  // of extent_count > 0
    int64_t largest;

    uint64_t stat_profiles;
    uint64_t stat_streams;  // that have profiles; the rest are of each stream on its own
    uint64_t stat_series;
    uint64_t stat_samples;
    uint64_t profile_bytes;
    uint64_t symbol_bytes;
    uint64_t index_bytes;
    int64_t oldest_ns;  // of stat_profiles > 0
    int64_t newest_ns;
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

// Call once after the last add: sorts sets, names, totals (by group, then point) and cells (by
// group, slot, bucket) and makes each unique.
bool merged_finish(struct merged *m, err *e) MUST_CHECK;

// Adds one total to another, whatever their points. Memory of the result.
bool merged_total_add(struct merged *m, struct merged_total *to, const struct merged_total *from,
                      err *e) MUST_CHECK;
