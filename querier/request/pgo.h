// SPDX-License-Identifier: Apache-2.0
//
// pgo.h - profiles for Go's profile-guided optimisation: stacks cut to what the compiler looks at
// (go_pgo of a stack trace selector).
#pragma once

#include "model/merge.h"

struct pgo_options {
    uint32_t keep_locations;  // leaf-most locations that stay; 0 = all
    bool aggregate_callees;   // the leaf's line number becomes 0, so that lines of it are one
};

// Sums of the cut stacks, which are added to m's table: one for each of its rows, in the arena.
// m->sums stay as they are. Fails with resource_exhausted or out_of_range.
bool pgo_trim(struct merge *m, struct arena *a, const struct pgo_options *o, const int64_t **sums,
              err *e) MUST_CHECK;
