// SPDX-License-Identifier: Apache-2.0
//
// merge.h - adds up sums over stacks of different symbol tables.
//
// An answer comes in parts, each with stack ids of its own: partial answers of several ingesters,
// services with different symbols, blocks. A merge owns one table of symbols, whose rows are
// unique, and a dense sum for each of its stacks. A part is added by mapping its stacks into that
// table; only the stacks that its vector names, and their ancestors, are mapped. The order of parts
// only changes the numbers of rows, never a sum.
//
//     struct merge m;
//     if (!merge_init(&m, budget, true, e)) return false;
//     merge_add(&m, &part.symbols, part.vector, 1, e) ...
//     tree_build(arena, &m.symbols.t, m.sums, NULL, 0, &tree, e);
//     merge_release(&m);
//
// A sum that does not fit int64 ends the merge, unless it is wide: then its sums have carries
// (model/wide.h), and merge_fits says whether the last ones fit.
//
// Memory counts against the budget given at init, scratch included. One thread at a time.
#pragma once

#include "model/symbols.h"
#include "model/wide.h"

struct merge {
    struct symbols symbols;
    int64_t *sums;  // of stacks 0 .. symbols.t.stack_count - 1
    size_t room;    // private: elements of sums
    bool names_only;
    int64_t period;     // of the profiles (model/period.h); the caller's, and merge_unite's
    bool wide;          // to be set after init
    int64_t *carries;   // of a wide merge; NULL: all are 0
    size_t carry_room;  // private: stacks from here on have carry 0
};

static inline struct wide merge_sum(const struct merge *m, uint32_t stack)
{
    return (struct wide){m->sums[stack], stack < m->carry_room ? m->carries[stack] : 0};
}

// names_only: frames keep only their function's name (what trees need), which makes tables of large
// programs several times smaller.
bool merge_init(struct merge *m, struct mem_budget *budget, bool names_only, err *e) MUST_CHECK;
void merge_release(struct merge *m);  // idempotent

// sums += vector * factor, whose stacks are rows of t. Trusts the table (symbols_decode checked
// it), not the vector. Fails with invalid_argument, out_of_range or resource_exhausted; the sums
// are then undefined.
bool merge_add(struct merge *m, const struct symbol_table *t, str vector, int64_t factor,
               err *e) MUST_CHECK;

// The same for dense sums of t->stack_count stacks.
bool merge_add_sums(struct merge *m, const struct symbol_table *t, const int64_t *sums,
                    err *e) MUST_CHECK;

// The same for wide sums, into a wide merge; and for the sums of another merge, wide or not.
bool merge_add_wide(struct merge *m, const struct symbol_table *t, const struct wide *sums,
                    err *e) MUST_CHECK;
bool merge_unite(struct merge *m, const struct merge *from, err *e) MUST_CHECK;

// Whether each stack's sum, and its sum with all that lies below it, fits int64, and so the tree.
// *total is the sum of all. Fails for lack of memory only.
bool merge_fits(const struct merge *m, bool *fits, struct wide *total, err *e) MUST_CHECK;

// Many vectors of one table: the mapping is kept between calls. Arrays are the arena's; the source
// borrows *t.
struct merge_source {
    struct merge *into;
    struct symbols_remap remap;
};
bool merge_from(struct merge *m, struct arena *a, const struct symbol_table *t,
                struct merge_source *source, err *e) MUST_CHECK;
bool merge_source_add(struct merge_source *source, str vector, int64_t factor, err *e) MUST_CHECK;

// What the merge holds as symbols and a sparse vector over them, for an answer to another node: two
// values of message Partial. Stacks without a sum are left out. `carries` may be NULL unless the
// merge is wide: it gets a vector of those that are not 0.
bool merge_encode(const struct merge *m, struct arena *scratch, struct buf *symbols,
                  struct buf *vector, struct buf *carries, err *e) MUST_CHECK;

// Adds what the other node's merge_encode of a wide merge wrote. Empty bytes are vectors without
// entries.
bool merge_add_encoded(struct merge *m, const struct symbol_table *t, str vector, str carries,
                       err *e) MUST_CHECK;
