// SPDX-License-Identifier: Apache-2.0
//
// functions.h - the functions of a tree, or of two, as a table.
//
// A row's self is the sum of the selves of all nodes with its name; its total counts a stack once,
// however often the function is in there: nodes below another one of the same name add nothing. So
// the table of an untruncated tree is exact, whatever part of it a flame graph shows.
//
// Nothing recurses. Memory is the arena's; a sum outside int64 is out_of_range.
#pragma once

#include "model/tree.h"

#define FUNCTIONS_SIDES 2

struct function_row {
    str name;  // borrows from the trees
    int64_t self[FUNCTIONS_SIDES];
    int64_t total[FUNCTIONS_SIDES];
};

struct function_table {
    struct function_row *rows;
    uint32_t count;
    size_t sides;
    int64_t total[FUNCTIONS_SIDES];
};

// One tree, or two to compare. Rows of one are by self, descending; of two by the larger of their
// shares of a side's total; equal ones by name.
bool functions_build(struct arena *a, const struct tree *const *trees, size_t sides,
                     struct function_table *out, err *e) MUST_CHECK;

// querier.v1.FunctionTable of one side, FunctionTableDiff of two, without what is left out beyond
// the first `limit` rows; 0 = all.
void functions_put(const struct function_table *t, uint64_t limit, struct buf *out);

// querier.v1.FunctionTable of one side of two: the same rows in the same order.
void functions_put_side(const struct function_table *t, size_t side, uint64_t limit,
                        struct buf *out);
