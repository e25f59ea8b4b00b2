// SPDX-License-Identifier: Apache-2.0
//
// random_block.h - blocks as compactors write them: random profiles of a few series, and all nodes
// and totals that follow from them. A test may order one thing to be wrong.
#pragma once

#include "lib/arena.h"
#include "lib/plain_block.h"
#include "unit/model/random.h"

enum random_block_wrong {
    WRONG_NOTHING,
    WRONG_NODE_PROFILES,  // the first node of ALL counts one profile more
    WRONG_NODE_TIMES,     // and has a later first time
    WRONG_NODE_VECTOR,    // and has a value moved to another stack
    WRONG_NODE_MISSING,   // and is left out
    WRONG_WIDE_NODE,      // the last node of ALL counts one profile more
    WRONG_TOTAL,          // the first total counts one profile more
    WRONG_ROW_TWICE,      // a row has the id and time of the one before
    WRONG_ROW_TIME,       // a row is of the next hour
    WRONG_VECTOR_UNUSED,  // a vector of no row
};

enum {
    RANDOM_BLOCK_SERIES = 6,
    RANDOM_BLOCK_TYPES = 2,
    RANDOM_BLOCK_VECTORS = 20,
};

struct random_event {
    uint32_t series;
    int64_t time_ns;
    uint32_t vector;
    id128 id;
};

struct random_block {
    struct random random;
    enum random_block_wrong wrong;
    bool spoilt;
    struct block_about about;
    struct symbol_table symbols;
    struct vector_entry *vectors[RANDOM_BLOCK_VECTORS];
    size_t vector_counts[RANDOM_BLOCK_VECTORS];
    int64_t totals[RANDOM_BLOCK_VECTORS];
    struct random_event *events;  // in order of time
    uint32_t event_count;
    int zstd_level;  // the writer's
};

void random_block_make(struct random_block *f, uint64_t seed, enum block_kind kind);

// The bytes of a block of so many services, all with the same profiles; the arena's.
bool random_block_write(struct random_block *f, uint32_t services, str *out, err *e);
