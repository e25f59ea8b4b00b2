// SPDX-License-Identifier: Apache-2.0
//
// random.h - repeatable random tables and sums for property tests. The seed is not 0.
#pragma once

#include "lib/test.h"
#include "model/symbols.h"

#include <stdio.h>

struct random {
    uint64_t state;
};

uint64_t random_next(struct random *r);
uint32_t random_below(struct random *r, uint32_t n);

// `n` times a frame under one of the stacks that are there. Aborts the test without memory.
void random_symbols(struct random *r, struct symbols *s, int n);
