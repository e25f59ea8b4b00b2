// SPDX-License-Identifier: Apache-2.0
//
// tree_int.h - the parts of tree.c that flamegraph.c and pprof.c use. All memory is the arena's;
// NULL, or false with an exhausted arena, means that the arena had none.
#pragma once

#include "model/tree.h"

#define TREE_OTHER "other"

// For each stack: whether it has a sum and lies under the call site.
bool *tree_select(struct arena *a, const struct symbol_table *t, const int64_t *sums,
                  const str *call_site, size_t n);

// The tree of the selected stacks. *node_of, for each of these and their ancestors: its node. That
// of the empty stack is the root, though its value is in the root's child [unknown].
bool tree_map(struct arena *a, const struct symbol_table *t, const int64_t *sums,
              const bool *selected, struct tree *out, uint32_t **node_of, err *e) MUST_CHECK;

// Which nodes to keep so that max_nodes remain, and those that tie with the smallest of them: a
// node is kept if its parent is and sizes[i] is at least the max_nodes-th largest of sizes[1 ..
// count - 1]. The root is always kept.
bool *tree_keep(struct arena *a, const struct tree *t, const int64_t *sizes, int64_t max_nodes);

// The tree of the nodes to keep; removed children become "other". Two trees of equal shape, with
// the same `keep`, get equal shapes.
bool tree_cut(struct arena *a, const struct tree *in, const bool *keep, struct tree *out,
              err *e) MUST_CHECK;
