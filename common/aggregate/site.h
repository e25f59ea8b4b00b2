// SPDX-License-Identifier: Apache-2.0
//
// site.h - a call site: what of a profile lies under it.
//
// A call site is a list of function names from the root. Which stacks of a symbol table lie under
// it is worked out once a table, not once a row: matched[stack] is the number of names that the
// stack has matched so far (tree_match). A row's value is then one pass over its vector.
//
// Without names every stack counts, and no table is looked at.
#pragma once

#include "model/symbols.h"
#include "model/vector.h"

// Names and the memory of `matched` are the caller's. Without names `stacks` is to be set.
struct site {
    const str *names;
    size_t n;
    uint32_t *matched;  // of `stacks`; NULL without names
    uint32_t stacks;    // that vectors may name
};

// Goes on for the stacks from s->stacks on: `matched` has room for all of the table, and what it
// had of those before. Tables only grow.
void site_match(struct site *s, const struct symbol_table *t, uint32_t *matched);

// The sum of a vector under the site, times factor; *any is false if none of it lies there. Fails
// with data_loss if it names a stack that is not there, with out_of_range if the product does not
// fit 64 bits (whatever the sums on the way were), else as the reader of that form.
bool site_sum_vector(const struct site *s, str vector, int64_t factor, int64_t *sum, bool *any,
                     err *e) MUST_CHECK;

// The same of columns. Entries are unpacked into *scratch, which is emptied now and then: nothing
// else is kept there.
bool site_sum_columns(const struct site *s, struct arena *scratch, str columns, int64_t factor,
                      int64_t *sum, bool *any, err *e) MUST_CHECK;
