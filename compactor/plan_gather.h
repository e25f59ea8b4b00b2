// SPDX-License-Identifier: Apache-2.0
//
// plan_gather.h - a job of a parent in the making: which blocks it reads, in which of their hours
// and packs, which hours and leaves the result covers, and which blocks it replaces. For plan_*.c.
//
//     gather_sources, gather_cover   child after child, in order of time
//     gather_into                    then the job has them
//     gather_removed                 and what goes when it is done
//
// All memory is the plan's arena; every function fails only when that has none.
#pragma once

#include "compactor/plan_int.h"

// The blocks chosen for a run of child windows, which become a job's sources.
struct gathered {
    const struct manifest_block *block;
    struct plan_span *spans;
    size_t n;
    size_t cap;
};
struct gathering {
    struct planning *p;
    struct gathered *sources;
    size_t source_count;
    size_t source_cap;
    struct manifest_cover *covers;
    size_t cover_count;
    size_t cover_cap;
    struct leaf_set leaves;
};

// The source that is this block, added if it is none yet. NULL: no memory.
struct gathered *gather_source(struct gathering *g, const struct manifest_block *b);

// A part of a block in these hours.
bool gather_span(struct gathering *g, const struct chosen_part *part, int64_t hour, uint32_t hours,
                 err *e) MUST_CHECK;

// All parts that were chosen for these hours, with their leaves.
bool gather_sources(struct gathering *g, const struct chosen *c, int64_t hour, uint32_t hours,
                    err *e) MUST_CHECK;

// The result sums these leaves in these hours.
bool gather_cover(struct gathering *g, const struct leaf_set *leaves, int64_t hour, uint32_t hours,
                  err *e) MUST_CHECK;

// The result also names empty child windows of `hours` each in [from, to), so that a query over
// them reads its block as one piece.
bool gather_empty(struct gathering *g, int64_t from, int64_t to, uint32_t hours, err *e) MUST_CHECK;

bool gather_into(struct task *j, const struct gathering *g, err *e) MUST_CHECK;

// The job replaces these n blocks, and damaged ones whose sums it has.
bool gather_removed(struct planning *p, struct task *j, const struct manifest_block *const *v,
                    size_t n, err *e) MUST_CHECK;

// Are all leaves live, so that their rows can be read?
bool gather_are_live(const struct planning *p, const struct leaf_set *leaves);
