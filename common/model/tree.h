// SPDX-License-Identifier: Apache-2.0
//
// tree.h - from sums over stacks to the tree that people see: by function name, truncated once.
//
// The input is always a symbol table and dense sums by stack. A tree has one node for each distinct
// path of names (model/frame_name.h); lines and files do not matter, and addresses only where they
// are the name. Every stack has a node, so no value is lost: that of the empty stack is [unknown]
// below the root. Nodes come after their parents. Children are in byte order of their names, but
// the child "other" that truncation made comes last. docs/formats/flamegraph.md has the rules.
//
// Nothing recurses: a stack may be a million frames deep. Memory is the arena's, whose cap ends
// what is too large with resource_exhausted. A total outside int64 is out_of_range.
#pragma once

#include "model/symbols.h"

struct tree_node {
    str name;  // the symbol table's, or the arena's if it was made
    int64_t self;
    int64_t total;
    uint32_t parent;
    uint32_t first_child;   // 0 = none
    uint32_t next_sibling;  // 0 = none
};

// Node 0 is the root, without name; its total is the total of the answer, its self is 0.
struct tree {
    struct tree_node *nodes;
    uint32_t count;
    int64_t max_self;
    uint32_t removed;  // nodes that truncation took out; 0: the tree is whole
    double hidden;     // their values, which the nodes "other" hold now; for ratios, not exact
    bool clipped;      // such a node holds more than fits int64, though the whole does not
};

// How much of a tree, or of the union of two, an answer shows. Neither the root nor the nodes
// "other" that truncation made count as frames. A call graph has functions instead.
struct tree_shown {
    uint32_t sent;
    uint32_t all;
    double total;   // of both sides
    double hidden;  // the part of total in nodes "other"; for ratios, not exact
    bool clipped;   // some sum that is shown is not what it should be, as that does not fit int64
};

// call_site: if n > 0, only stacks whose names from the root begin with exactly these.
bool tree_build(struct arena *a, const struct symbol_table *t, const int64_t *sums,
                const str *call_site, size_t n, struct tree *out, err *e) MUST_CHECK;

// How many of the n names of a call site a stack has matched, from the root. `matched` is that
// number for its parent (0 for the empty stack). The stack lies under the call site if the result
// is n. After the first wrong name it stays above n.
uint32_t tree_match(const struct symbol_table *t, uint32_t frame, uint32_t matched,
                    const str *call_site, size_t n);

// Whether the empty stack lies under the call site: its node is [unknown] below the root.
bool tree_match_empty(const str *call_site, size_t n);

// Keeps the max_nodes largest nodes and those that tie with the smallest of them. Nodes that are
// removed below a node are added up in its child "other"; if it keeps a child of that name, in the
// self of that child. 0 or less: no truncation (*out shares the nodes of *in). To be called once,
// at the end of a query: a second truncation could not tell real nodes from "other".
bool tree_truncate(struct arena *a, const struct tree *in, int64_t max_nodes, struct tree *out,
                   err *e) MUST_CHECK;

// The TREE bytes: pre-order (name length, name, self, child count), siblings in reverse order;
// nothing for an empty tree.
bool tree_bytes(const struct tree *t, struct buf *out, err *e) MUST_CHECK;
