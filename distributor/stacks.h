// SPDX-License-Identifier: Apache-2.0
//
// stacks.h - the stacks of one profile as a prefix tree over its locations.
//
// A profile repeats the same callers in thousands of samples. Here each distinct path of locations
// from the root becomes one node, found by one look-up of (parent, location), and names, frames and
// stacks of a batch (model/symbols.h) are asked for once a node instead of once a sample.
#pragma once

#include "model/profile.h"
#include "model/symbols.h"

struct stacks {
    struct arena *a;
    const struct profile *p;
    uint32_t *node_of;  // of each sample: its leaf; 0 = no frames
    uint32_t *parent;   // of each node, smaller than the node; row 0 is the root
    uint32_t *location;
    uint32_t node_count;
    size_t node_cap;
    size_t location_cap;
    struct stacks_slot *slots;
    uint32_t slot_count;
    uint64_t seed;
    uint32_t *way;  // scratch of stacks_row, a row for each node
};

// Builds the tree of all samples. `seed` is a number that senders cannot know. Fails with
// resource_exhausted.
bool stacks_init(struct stacks *s, struct arena *a, const struct profile *p, uint64_t seed,
                 err *e) MUST_CHECK;

// From nodes to rows of one symbol table, made when they are first asked for.
struct stacks_rows {
    const struct stacks *s;
    struct symbols *to;
    uint32_t *stacks;     // of nodes; row + 1, 0 = not yet asked for
    uint32_t *functions;  // of the profile's functions, likewise
    uint32_t *mappings;
};
bool stacks_rows_init(struct stacks_rows *r, const struct stacks *s, struct symbols *to,
                      err *e) MUST_CHECK;

// The stack row of a node; MAP_NONE and *e set on failure.
uint32_t stacks_row(struct stacks_rows *r, uint32_t node, err *e) MUST_CHECK;
