// SPDX-License-Identifier: Apache-2.0
//
// flamegraph.h - from a sum over stacks to what people see: trees by function name, truncated once.
//
// Input is always (symbol table, dense sums per stack). A tree has one node per distinct path of
// function names (lines, files and addresses folded together); frames without a name add no node,
// the empty stack none. Children are in byte order of their names. Totals come from one reverse
// pass. Rules of names, truncation and encodings: "pyroscope-api" 6.7-6.9, restated in
// docs/formats/flamegraph.md.
#pragma once

#include "model/symbols.h"

struct tree_node {
    str name;  // borrows from the symbol table
    int64_t self;
    int64_t total;
    uint32_t parent;
    uint32_t first_child;   // 0 = none
    uint32_t next_sibling;  // 0 = none
};

// Node 0 is the root, without name; its total is the total of the answer.
struct tree {
    struct tree_node *nodes;
    uint32_t count;
    int64_t max_self;
};

// call_site: if n > 0, only stacks whose names from the root begin with exactly these.
bool tree_build(struct arena *a, const struct symbol_table *t, const int64_t *sums,
                const str *call_site, size_t n, struct tree *out, err *e) MUST_CHECK;

// Keeps the max_nodes largest nodes and those that tie with the smallest of them; what is removed
// below a node becomes its child "other". 0 or less: no truncation. Once, at the end of a query.
bool tree_truncate(struct arena *a, const struct tree *in, int64_t max_nodes, struct tree *out,
                   err *e) MUST_CHECK;

// querier.v1.FlameGraph as protobuf bytes: names, levels of 4-tuples, total, max_self.
bool tree_flamegraph(struct arena *a, const struct tree *t, struct buf *out, err *e) MUST_CHECK;

// querier.v1.FlameGraphDiff (7-tuples) of two trees over the union of their nodes.
bool tree_flamegraph_diff(struct arena *a, const struct tree *left, const struct tree *right,
                          int64_t max_nodes, struct buf *out, err *e) MUST_CHECK;

// The TREE bytes: pre-order (name length, name, self, child count), siblings in reverse order;
// nothing for an empty tree.
bool tree_bytes(const struct tree *t, struct buf *out, err *e) MUST_CHECK;

// google.v1.Profile of the sums: one sample per stack, locations rebuilt from frames, ids from 1.
struct pprof_header {
    str sample_type;
    str sample_unit;
    str period_type;
    str period_unit;
    int64_t period;
    int64_t time_ns;
    int64_t duration_ns;
};
// max_nodes > 0 cuts leaf parts of small stacks as 6.7 says; 0 keeps all. Zero bytes if nothing is
// left. call_site as in tree_build.
struct pprof_options {
    struct pprof_header header;
    int64_t max_nodes;
    const str *call_site;
    size_t call_site_count;
};
bool pprof_encode(struct arena *a, const struct symbol_table *t, const int64_t *sums,
                  const struct pprof_options *o, struct buf *out, err *e) MUST_CHECK;
