// SPDX-License-Identifier: Apache-2.0
//
// merge_int.h - parts of merging, for merge*.c only.
#pragma once

#include "querier/merge.h"

// Fails with resource_exhausted, naming the budget of the query.
bool merged_no_room(const struct merged *m, err *e);

// One more; merged_finish unites it with its equals.
bool merged_new_set(struct merged *m, labels set, err *e) MUST_CHECK;  // copied
bool merged_new_name(struct merged *m, str name, err *e) MUST_CHECK;   // copied
