// SPDX-License-Identifier: Apache-2.0
//
// site.h - the part of a profile that lies under a call site.
//
// A call site is a list of function names from the root. Which stacks of a symbol table lie under
// it is found out once for each table, not for each row: matched[stack] is the number of names that
// the stack has matched so far (tree_match). The value of a row is then one pass over its vector.
//
// Without names every stack counts, and no table is needed.
#pragma once

#include "model/symbols.h"
#include "model/vector.h"

// Names and the memory of `matched` are the caller's. Without names the caller sets `stacks`.
struct site {
    const str *names;
    size_t n;
    uint32_t *matched;  // of `stacks`; NULL without names
    uint32_t stacks;    // vectors may name stacks below this
};

// Matches the stacks from s->stacks on, which are new since the last call. `matched` has room for
// all stacks of the table, and the results of earlier calls. A table only grows.
void site_match(struct site *s, const struct symbol_table *t, uint32_t *matched);

// The sum of the entries under the site, times factor; *any is false if there is none. A profile's
// total fits int64, but a part of it need not, as values may be negative. Fails with data_loss if
// the vector names a stack that does not exist; else as the reader of vectors does.
bool site_sum_vector(const struct site *s, str vector, int64_t factor, struct wide *sum, bool *any,
                     err *e) MUST_CHECK;

// The same for columns (model/columns.h). Entries are unpacked into *scratch, which this function
// releases now and then: the caller keeps nothing else there.
bool site_sum_columns(const struct site *s, struct arena *scratch, str columns, int64_t factor,
                      struct wide *sum, bool *any, err *e) MUST_CHECK;
