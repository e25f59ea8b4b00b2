// SPDX-License-Identifier: Apache-2.0
//
// order.h - symbols as a block wants them: only what is used, stacks in depth-first order.
//
// Depth-first means: a stack's children come after it and before the next stack that is not below
// it. So what lies under stack s is the rows s .. last(s), and a reverse pass over the rows adds
// selves to totals. Siblings keep the order of their rows.
#pragma once

#include "model/symbols.h"

// Copies of the rows that used stacks need (used[i] for each stack of t; NULL: all), ancestors
// included, as a table of the arena whose strings borrow from t. map[i] becomes the new row of
// stack i, 0 for those left out; it has room for t->stack_count.
bool block_order(struct arena *a, const struct symbol_table *t, const bool *used,
                 struct symbol_table *out, uint32_t *map, err *e) MUST_CHECK;

// The stacks alone: an array of the arena of *count rows, whose parents are its rows and whose
// frames are those of t. With it in the place of its own stacks t is a table that block_service
// takes, and the service's bytes are those of the table that block_order makes: nothing else is
// copied.
bool block_order_stacks(struct arena *a, const struct symbol_table *t, const bool *used,
                        struct symbol_stack **out, uint32_t *count, uint32_t *map,
                        err *e) MUST_CHECK;

// Is it in that order?
bool block_is_ordered(const struct symbol_table *t);
