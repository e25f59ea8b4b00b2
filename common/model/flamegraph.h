// SPDX-License-Identifier: Apache-2.0
//
// flamegraph.h - trees as levels of bars, as Pyroscope's clients draw them.
//
// A level is a flat list of bars from left to right; a bar is (gap, total, self, name), where gap
// is the distance from the end of the bar before it. A node's self is laid out first, its children
// follow. Names are numbered in the order of a walk that takes the last child first; name 0 is
// "total", the root. The bars of a diff have gap, total and self of the left side, then of the
// right, then the name. docs/formats/flamegraph.md has the bytes and examples.
#pragma once

#include "model/tree.h"

// querier.v1.FlameGraph as protobuf bytes: names, levels of 4-tuples, total, max_self.
bool tree_flamegraph(struct arena *a, const struct tree *t, struct buf *out, err *e) MUST_CHECK;

// querier.v1.FlameGraphDiff (7-tuples) of the union of two untruncated trees, truncated as by
// tree_truncate; the size of a node is the larger of its two totals. *shown, if not NULL, says how
// much is left.
bool tree_flamegraph_diff(struct arena *a, const struct tree *left, const struct tree *right,
                          int64_t max_nodes, struct tree_shown *shown, struct buf *out,
                          err *e) MUST_CHECK;
