// SPDX-License-Identifier: Apache-2.0
//
// pgo.h - profiles for Go's profile-guided optimisation: stacks cut to the part that the compiler
// uses (go_pgo of a stack trace selector).
#pragma once

#include "model/merge.h"

struct pgo_options {
    uint32_t keep_locations;  // leaf-most locations that stay; 0 = all
    bool aggregate_callees;   // the leaf's line number becomes 0, so all its lines are one frame
};

// Adds the cut stacks to m's table. *sums has one sum for each row of the table, in the arena;
// m->sums stay as they are. Fails with resource_exhausted or out_of_range.
bool pgo_trim(struct merge *m, struct arena *a, const struct pgo_options *o, const int64_t **sums,
              err *e) MUST_CHECK;
