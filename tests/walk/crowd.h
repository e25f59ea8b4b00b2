// SPDX-License-Identifier: Apache-2.0
//
// crowd.h - a whole compactor, apart from the rest for the sake of names: workers that share plans.
#pragma once

#include "store/store.h"

struct req;

// A compactor with workers of its own starts, does all that is due, and ends. `number` says which
// of the two that know of each other it is. How many jobs were done meanwhile.
uint64_t walk_crowd(struct store *s, struct mem_budget *memory, struct req *r, unsigned number,
                    int64_t retention_ns, int64_t grace_ns);
