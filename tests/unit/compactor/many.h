// SPDX-License-Identifier: Apache-2.0
//
// many.h - states of a tenant with very many blocks, for what a plan of them costs: counted by
// planner_test.c, timed by tests/bench/planner.c.
#pragma once

#include "compactor/plan.h"
#include "sys/clock.h"

#include <stdlib.h>

struct many_shape {
    const char *name;
    size_t deltas;     // leaves of an hour, each with all services
    size_t packs;      // into which each of them is cut
    size_t copies;     // of the parents, each with an id of its own; 0: nobody made parents
    bool hours_apart;  // hour nodes lie in a block for each hour
    bool segments;     // a fifth as many as blocks wait, of the last hours
    bool over;         // all of it is past its time
    bool rows_over;    // rows are
    bool asked;        // somebody waits for a run
    bool day_leaf;     // small raw blocks of a day become one
};

#define MANY_SHAPES 11
extern const struct many_shape many_shapes[MANY_SHAPES];

struct many {
    struct arena arena;
    struct plan_state state;
    struct plan_settings settings;
    struct manifest_block *blocks;
    size_t n;
    size_t cap;
    uint32_t leaves;  // ids from 1 on
};

// About n blocks.
void many_init(struct many *m, const struct many_shape *s, size_t n);
void many_release(struct many *m);
