// SPDX-License-Identifier: Apache-2.0
//
// graft.h - makes a profile of trees: what decoders share whose files say which frame is below
// which. Private to this room.
//
// A node is a frame below another node; equal frames below the same node are one node. A root has
// no frame but the labels of all samples below it, such as those of a thread. Values are added to
// nodes; each node that has one becomes a sample, or, of stacks that are too deep for the text,
// part of one (STACKS_DEPTH). The value of a root is of a stack that nobody knows, and becomes the
// frame STACK_UNKNOWN_NAME.
//
// Names and texts of labels may have bytes that are no UTF-8, which are replaced and counted.
//
// Memory is the arena's. graft_release frees the indexes, also after a failure.
#pragma once

#include "decode/stacks.h"

struct graft_node {
    uint32_t parent;  // or GRAFT_NONE: a root
    uint32_t frame;   // row of s.p->functions; of a root the row of its labels
    uint32_t depth;   // frames from the root on
    uint32_t outer;   // the node at the depth STACKS_DEPTH on the way to this one, or itself
    uint32_t row;     // of its values, from 1; 0: it has none, as most inner nodes
};

struct graft_labels {
    uint32_t first;  // into s.p->labels
    uint32_t count;
};

struct graft {
    struct stacks s;
    struct graft_node *nodes;
    size_t node_count;
    size_t node_cap;
    int64_t *values;  // type_count for each node that has some
    size_t value_rows;
    size_t value_cap;
    struct graft_labels *roots;
    size_t root_count;
    size_t root_cap;
    size_t label_cap;
    struct map known;
};

#define GRAFT_NONE UINT32_MAX

// As stacks_begin.
bool graft_begin(struct graft *g, struct arena *a, size_t encoded_bytes,
                 const struct decode_options *o, const struct profile_type *types,
                 uint32_t type_count, err *e) MUST_CHECK;

// A new root. Labels without a text are left out, others are mended as names are.
bool graft_root(struct graft *g, const struct profile_label *labels, size_t n, uint32_t *node,
                err *e) MUST_CHECK;

// The node of a frame (stacks_frame) below another one.
bool graft_child(struct graft *g, uint32_t parent, uint32_t frame, uint32_t *node,
                 err *e) MUST_CHECK;

// The same for a frame that has only a name.
bool graft_named(struct graft *g, uint32_t parent, str name, uint32_t *node, err *e) MUST_CHECK;

// Fails with out_of_range if the sum does not fit.
bool graft_add(struct graft *g, uint32_t node, uint32_t type, int64_t value, err *e) MUST_CHECK;

// A profile with one sample for each node that has a value. Fails with invalid_argument if there is
// none.
bool graft_finish(struct graft *g, struct profile **out, err *e) MUST_CHECK;

void graft_release(struct graft *g);

static inline void graft_lose(struct graft *g, enum loss why, uint64_t n)
{
    losses_add(&g->s.p->losses, why, n);
}
