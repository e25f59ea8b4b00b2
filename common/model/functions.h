// SPDX-License-Identifier: Apache-2.0
//
// functions.h - the functions of a tree, or of two, as a table.
//
// A row's self is the sum of the selves of all nodes with its name. Its total counts a stack once,
// however often the stack has the function: a node below another one of the same name adds nothing.
// The table of an untruncated tree is exact, even where a flame graph shows only a part of the
// tree.
//
// Nothing recurses. Memory is the arena's. A function's part of a tree need not fit int64 though
// the whole does, as values may be negative: it is then the nearest number that does, and the table
// says so.
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
    bool clipped;  // some sum of a row does not fit int64
};

// The table of one tree, or of two to compare. Rows of one tree are sorted by self, descending; of
// two by the larger of their two shares of a side's total; equal rows by name.
bool functions_build(struct arena *a, const struct tree *const *trees, size_t sides,
                     struct function_table *out, err *e) MUST_CHECK;

// querier.v1.FunctionTable of one side, FunctionTableDiff of two, with the first `limit` rows; 0 =
// all.
void functions_put(const struct function_table *t, uint64_t limit, struct buf *out);

// querier.v1.FunctionTable of one side of two: the same rows in the same order.
void functions_put_side(const struct function_table *t, size_t side, uint64_t limit,
                        struct buf *out);
