// SPDX-License-Identifier: Apache-2.0
//
// callgraph.h - stacks for profiles that have none, only what each function used itself and what it
// used through each of its callers. Private to this room.
//
// The value of a function itself is exact, and stays so. Which stacks it was used on is not known;
// it is divided among the function's callers as their calls were, theirs among their callers, and
// so on up to functions that nobody called. Pieces are whole numbers whose sum is what was divided.
// So that a graph of few lines does not make millions of stacks, pieces are not divided below
// 1/16384 of all, a function is on a stack once, stacks have at most 256 frames, and the steps in
// all are bounded: then stacks begin further inside.
#pragma once

#include "decode/graft.h"

struct callgraph_edge {
    uint32_t caller;
    uint32_t callee;
};

struct callgraph {
    struct arena *a;
    uint32_t types;
    uint32_t *frames;  // of each function
    size_t count;
    size_t frame_cap;
    int64_t *self;  // `types` for each function
    size_t self_cap;
    struct callgraph_edge *edges;
    size_t edge_count;
    size_t edge_cap;
    int64_t *weights;  // `types` for each edge
    size_t weight_cap;
    struct map known;      // edges
    struct map functions;  // by frame
};

void callgraph_init(struct callgraph *c, struct arena *a, uint32_t types);
void callgraph_release(struct callgraph *c);

// The function of a frame.
bool callgraph_function(struct callgraph *c, uint32_t frame, uint32_t *function, err *e) MUST_CHECK;

// Adds to what it used itself. Fails with out_of_range.
bool callgraph_self(struct callgraph *c, uint32_t function, uint32_t type, int64_t value,
                    err *e) MUST_CHECK;

// Adds to what the callee used for the caller; calls of a function by itself do not matter.
bool callgraph_call(struct callgraph *c, uint32_t caller, uint32_t callee, uint32_t *edge,
                    err *e) MUST_CHECK;
void callgraph_weight(struct callgraph *c, uint32_t edge, uint32_t type, int64_t value);

// Adds all of it below a root. `bytes` is the size of the input, by which steps are bounded.
bool callgraph_put(struct callgraph *c, struct graft *g, uint32_t root, size_t bytes,
                   err *e) MUST_CHECK;
