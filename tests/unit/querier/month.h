// SPDX-License-Identifier: Apache-2.0
//
// month.h - facts of four weeks as blocks of all kinds in a store in memory, and plans that read
// them: each row of the range in exactly one piece.
#pragma once

#include "block/order.h"
#include "lib/arena.h"
#include "lib/memstore.h"
#include "lib/plain_block.h"
#include "querier/block/block_read.h"
#include "unit/ingester/facts.h"

#include <stdlib.h>

#define MONTH_DAYS 28
#define MONTH_HOUR (INT64_C(735) * 672)  // Unix hour in which the window begins
#define MONTH_FROM (MONTH_HOUR * SLOT_HOUR)

struct month_row {
    struct fact f;
    uint32_t attempt;
};

struct month {
    struct store *store;
    struct month_row *rows;  // by time
    size_t n;
    struct level_object *objects;
    size_t object_count;
    // by hour or day of the window; NULL: there is nothing in it
    const struct level_object *raw[MONTH_DAYS * 24];
    const struct level_object *segments[MONTH_DAYS * 24][2];
    const struct level_object *hours[MONTH_DAYS];
    const struct level_object *days;
    bool series_in_days;
    bool without_parents;  // plans use leaves and segments only
};

// ---- plans

struct month_plan {
    struct level_plan p;
    size_t cap;
    bool coarse;  // some piece is of sums, which have no annotations
};

void month_piece(struct month_plan *p, const struct level_object *o, enum level_use use,
                 int64_t from, int64_t to);

// A plan as the planner might make one, with more kinds in it.
struct month_plan month_plan(const struct month *f, struct dice *d, const struct level_ask *ask);
struct month_plan plan_of(const struct level_object *o, enum level_use use, int64_t from,
                          int64_t to);

// ---- a querier's part of it

struct rig {
    struct month *month;
    struct blocks *blocks;
    struct mem_budget memory;
    struct req req;
    struct dice dice;
    struct fact *facts;
};

void rig_make(struct rig *g, uint64_t seed, size_t n, size_t cache);
void rig_drop(struct rig *g);
void some_range(struct dice *d, struct query *q);
struct head_query brute(const struct query *q);
