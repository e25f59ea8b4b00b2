// SPDX-License-Identifier: Apache-2.0
//
// merged_int.h - parts of merging, for merge*.c only.
#pragma once

#include "querier/merge/merged.h"

// Fails with resource_exhausted, naming the budget of the query.
bool merged_no_room(const struct merged *m, err *e);
