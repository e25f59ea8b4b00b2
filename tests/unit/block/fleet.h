// SPDX-License-Identifier: Apache-2.0
//
// fleet.h - blocks as compactors write them: random profiles of a few series, and all nodes and
// totals that follow from them. A test may order one thing to be wrong.
#pragma once

#include "block/order.h"
#include "block/spans.h"
#include "block/writer.h"
#include "lib/arena.h"
#include "unit/model/random.h"

#include <stdlib.h>

enum fleet_fault {
    FLEET_FINE,
    FLEET_NODE_PROFILES,  // the first node of ALL counts one profile more
    FLEET_NODE_TIMES,     // and has a later first time
    FLEET_NODE_VECTOR,    // and has a value moved to another stack
    FLEET_NODE_MISSING,   // and is left out
    FLEET_WIDE_NODE,      // the last node of ALL counts one profile more
    FLEET_TOTAL,          // the first total counts one profile more
    FLEET_ROW_TWICE,      // a row has the id and time of the one before
    FLEET_ROW_TIME,       // a row is of the next hour
    FLEET_VECTOR_UNUSED,  // a vector of no row
};

enum {
    FLEET_SERIES = 6,
    FLEET_TYPES = 2,
    FLEET_VECTORS = 20,
};

struct fleet_event {
    uint32_t series;
    int64_t time_ns;
    uint32_t vector;
    id128 id;
};

struct fleet {
    struct random random;
    enum fleet_fault fault;
    struct block_about about;
    struct symbol_table symbols;
    int64_t *vectors[FLEET_VECTORS];  // dense
    str columns[FLEET_VECTORS];
    int64_t totals[FLEET_VECTORS];
    struct fleet_event *events;  // in order of time
    uint32_t event_count;
    bool faulted;
    int zstd_level;  // the writer's
};

void fleet_make(struct fleet *f, uint64_t seed, enum block_kind kind);

// ---- what is of what

// The bytes of a block of so many services; the arena's.
bool fleet_write(struct fleet *f, uint32_t services, str *out, err *e);
