// SPDX-License-Identifier: Apache-2.0
//
// dot.h - a tree as a call graph in the language of Graphviz, drawn as pprof draws one.
//
// A node is a function: all nodes of the tree with its name. Its self is the sum of their selves;
// its total includes its callees, with recursive calls counted once. An edge means "called"; its
// weight is the sum of the callee below that caller, with each stack counted once. A function that
// calls itself has no edge to itself. Only the max_nodes functions with the largest totals are
// shown; an edge that passes over functions which are not shown is dotted.
//
//     digraph "unnamed" {
//     node [style=filled fillcolor="#f8f8f8"]
//     subgraph cluster_L { "legend" [shape=box fontsize=16 label="Type: cpu\l..."] }
//     N1 [label="main\n0 of 40ns (100%)" id="node1" fontsize=8 shape=box]
//     N2 [label="work\n30ns (75.00%)" id="node2" fontsize=24 shape=box]
//     N1 -> N2 [label=" 30ns" weight=75 penwidth=4]
//     }
//
// Names come from clients: they are quoted, controls become spaces, and names end after
// DOT_NAME_MAX bytes, so that the text stays small.
// Source of the language: https://graphviz.org/doc/info/lang.html.
#pragma once

#include "model/tree.h"

#define DOT_NAME_MAX 1024  // bytes of a name that are shown

struct dot_options {
    str sample_type;
    str sample_unit;           // "nanoseconds" and "bytes" are scaled, others are plain numbers
    int64_t max_nodes;         // 0 or less: all
    struct tree_shown *shown;  // how many functions there are; may be NULL
};

// t is not truncated. Nothing for a tree without nodes. Memory of the arena. Fails with
// out_of_range or resource_exhausted.
bool dot_print(struct arena *a, const struct tree *t, const struct dot_options *o, struct buf *out,
               err *e) MUST_CHECK;
