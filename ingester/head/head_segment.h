// SPDX-License-Identifier: Apache-2.0
//
// head_segment.h - a piece of a closed cut as a block of kind SEGMENT.
//
// For each service of the tenant that has rows of the piece: its symbols as far as they are used,
// in depth-first order; by profile type the ALL key with the node of the hour, then the series with
// their rows. The node is of all rows but those of series with __sampled__="true"; it is left out
// where there is nothing else, or where its sums do not fit int64 (readers then add up rows).
// Records that shared a vector share its number.
//
// The head is held only while a run of rows is copied or encoded; the sink is called with no lock
// held and may block. If rows of a service go meanwhile the segment is aborted: begin anew.
#pragma once

#include "block/writer.h"
#include "ingester/head/head.h"

struct head_segment {
    const struct cut *cut;
    struct head_piece piece;
    struct mem_budget *memory;  // all that it takes
    block_sink *sink;
    void *arg;
};
bool head_segment(struct head *h, struct req *r, const struct head_segment *ask,
                  struct block_written *out, err *e) MUST_CHECK;
