// SPDX-License-Identifier: Apache-2.0
//
// stacks.h - sums over stacks from text, for tests: "a;b 1", frames from the root.
#pragma once

#include "lib/test.h"
#include "model/merge.h"
#include "model/tree.h"

#include <stdio.h>

// A name "f@7" has line 7, "f@7!" is inlined into the frame before it; "" is a frame without name
// at address 64.
uint32_t frame_of_text(struct symbols *s, str text, err *e);
uint32_t stack_of_text(struct symbols *s, str text, err *e);

struct text_sum {
    const char *stack;
    int64_t value;
};

MUST_CHECK bool sum_stack(struct merge *m, str stack, int64_t value, err *e);

// Up to the first row without stack.
MUST_CHECK bool sum_stacks(struct merge *m, const struct text_sum *v, size_t n, err *e);

// What a tree holds, as "a;b=1 c=2": nodes with self, depth first in the order of children, paths
// from the root. Does not recurse; the arena's.
str text_of_tree(struct arena *a, const struct tree *t);
