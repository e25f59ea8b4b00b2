// SPDX-License-Identifier: Apache-2.0
//
// slow.h - very many small segments of a day over a store in which each operation takes its time:
// counted by slow_test.c, timed by tests/bench/slowstore.c.
#pragma once

#include "unit/compactor/world.h"

void slow_fill(struct world *w, size_t segments);

// All that a sweep may delete; how many segments went.
uint64_t slow_sweep(struct world *w);
