// SPDX-License-Identifier: Apache-2.0
//
// cli_flame.h - turns the flame graph of an answer (docs/formats/flamegraph.md) into a tree again,
// and that into collapsed text or a list of functions. Pure.
//
// The answer is not trusted: bars that are not four numbers each, names that do not exist, negative
// widths, and bars without a bar above them are invalid_argument. No function recurses.
//
// Selves may be negative, as those of differences are. Then a bar may be wider or narrower than
// what its selves and those below it add up to, and that sum counts. And a bar without width stands
// for those below it too, which are not there: of such a graph the tree is asked for as well.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "querier/v1/querier.pb-c.h"

#define FLAME_NONE UINT32_MAX

struct flame_node {
    uint32_t name;
    uint32_t parent;        // FLAME_NONE of the root
    uint32_t first_child;   // FLAME_NONE = none
    uint32_t next_sibling;  // FLAME_NONE = none
    int64_t left;           // edge
    int64_t width;
    int64_t self;
    int64_t total;  // the width, or the sum of selves (is_signed)
};

// Nodes level by level from the root, within a level from left to right.
struct flame {
    struct flame_node *nodes;
    uint32_t count;  // 0: there are no data
    uint32_t *level_ends;
    uint32_t level_count;
    str *names;
    uint32_t name_count;
    int64_t total;   // of the root: its width, or 0 and less
    bool is_signed;  // a self is negative
    bool is_flat;    // a bar has no width, so those below it are missing; not of a tree
};

// Reads the graph; memory is the arena's, names borrow from g.
bool flame_read(struct arena *a, const Querier__V1__FlameGraph *g, struct flame *out,
                err *e) MUST_CHECK;

// The same of the TREE bytes (model/tree.h), which names borrow from. They have every node.
bool flame_read_tree(struct arena *a, str bytes, struct flame *out, err *e) MUST_CHECK;

// "a;b 12\n" for each node with a self, without the root; control characters of names become '?'.
// put is called when the buffer is nearly full, and at the end; it must empty b.
struct flame_sink {
    bool (*put)(void *arg, struct buf *b, err *e);
    void *arg;
};
bool flame_folded(const struct flame *f, struct arena *a, struct buf *b,
                  const struct flame_sink *sink, err *e) MUST_CHECK;

// A walk from the root, a node before its children, from left to right.
struct flame_walk {
    uint32_t node;
    uint32_t depth;
    bool leaving;  // the children of `node` are done
};
struct flame_walk flame_walk_begin(const struct flame *f);  // entering the root
bool flame_walk_next(const struct flame *f, struct flame_walk *w);

// A name (not the root's): self is the sum over all its nodes, total the sum over those nodes that
// have no node of the same name above them.
struct flame_function {
    str name;
    int64_t self;
    int64_t total;
};
bool flame_functions(const struct flame *f, struct arena *a, struct flame_function **out, size_t *n,
                     err *e) MUST_CHECK;
void flame_functions_by_self(struct flame_function *v, size_t n);  // sorts
