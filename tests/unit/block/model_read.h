// SPDX-License-Identifier: Apache-2.0
//
// model_read.h - a block against the model that it was written from.
#pragma once

#include "unit/block/model.h"

struct model_block {
    str bytes;
    struct block_footer footer;
};

str model_section(str bytes, const struct block_extent *x);
void model_open(str bytes, struct model_block *b);
bool model_has_vector(const struct model_block *b, const struct block_frame *f, uint64_t place,
                      str wanted);

// Vectors of nodes stand without their divisor, which is the node's factor.
bool model_node_has(const struct model_block *b, const struct block_index *x,
                    const struct block_node_ref *n, str wanted);

struct model_run {
    const struct block_frame *frame;
    struct block_heads heads;
    struct block_details details;
    struct block_row_spans *spans;
};

void model_run(const struct model_block *b, const struct block_index *x,
               const struct block_frame *f, struct model_run *run);

// The same stacks under the same numbers; other rows may have others.
void model_same_symbols(const struct symbol_table *t, const struct symbol_table *u);
void model_same(const struct model *m, str bytes);
