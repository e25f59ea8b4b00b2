// SPDX-License-Identifier: Apache-2.0
//
// order.h - brings symbols into the form that a block has: only rows that are used, and stacks in
// depth-first order.
//
// Depth-first means that a stack's children come after it and before the next stack that is not
// below it. So the stacks under a stack are a range of rows, and one reverse pass over the rows
// turns selves into totals. Siblings keep their order.
#pragma once

#include "model/symbols.h"

// Copies the rows that the used stacks need (used[i] for each stack of t; NULL: all), ancestors
// included, into a table of the arena whose strings borrow from t. map[i] becomes the new row of
// stack i, 0 for those left out; it has room for t->stack_count. Parents must come before children.
bool block_order(struct arena *a, const struct symbol_table *t, const bool *used,
                 struct symbol_table *out, uint32_t *map, err *e) MUST_CHECK;

// The stacks alone: an array of the arena of *count rows, whose parents are its rows and whose
// frames are those of t. A copy of t with these stacks instead of its own is a table for
// block_service, and the bytes of the service are the same as with the table that block_order
// makes; but no other rows are copied.
bool block_order_stacks(struct arena *a, const struct symbol_table *t, const bool *used,
                        struct symbol_stack **out, uint32_t *count, uint32_t *map,
                        err *e) MUST_CHECK;

// Are the stacks in depth-first order?
bool block_is_ordered(const struct symbol_table *t);
