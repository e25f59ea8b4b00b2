// SPDX-License-Identifier: Apache-2.0
//
// levels_naive.h - the planner's work without a planner: rows are points, an object is the rows
// that are in it, and a plan is right if every row counts as often as it should.
//
// A world is made from numbers that somebody hands out, a test its dice, a fuzzer its bytes: three
// days around the border of a window of 28 days, leaves with late ones beside them, some replaced,
// some expired, parents that name some of them, segments, packs.
#pragma once

#include "querier/plan/levels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAIVE_DAYS     3
#define NAIVE_HOURS    (NAIVE_DAYS * 24)
#define NAIVE_LEAVES   256
#define NAIVE_PARENTS  24
#define NAIVE_ROWS     1024
#define NAIVE_SEGMENTS 8

// Hands out a number below n.
typedef uint32_t naive_pick(void *arg, uint32_t n);

struct naive_row {
    int64_t time_ns;
    uint32_t pack;
    uint32_t series;
    int leaf;     // or -1:
    int segment;  // its number
};

struct naive {
    naive_pick *pick;
    void *arg;
    struct manifest_block leaves[NAIVE_LEAVES];  // whatever became of them
    enum level_leaf state[NAIVE_LEAVES];
    size_t leaf_count;
    struct manifest_block parents[NAIVE_PARENTS];
    struct manifest_cover covers[NAIVE_PARENTS][NAIVE_HOURS];
    id128 named[NAIVE_PARENTS * NAIVE_LEAVES];
    size_t named_count;
    size_t parent_count;
    struct snapshot_segment segments[NAIVE_SEGMENTS];
    size_t segment_count;
    struct naive_row rows[NAIVE_ROWS];
    size_t row_count;
    struct manifest_block live[NAIVE_LEAVES + NAIVE_PARENTS];
    size_t live_count;
    char names[NAIVE_LEAVES + NAIVE_PARENTS][16];
    str without[4];
    size_t without_count;
    struct level_ask ask;
    const char *fault;  // of the last check
};

void naive_make(struct naive *w, naive_pick *pick, void *arg);
struct level_given naive_given(const struct naive *w);

// ---- what a plan is worth

unsigned naive_counted(const struct naive *w, const struct level_plan *p,
                       const struct naive_row *r);

// The plan as text, a line for each piece and each missing object.
void naive_print(const struct level_plan *p, struct buf *out);

// NULL if the plan is right, else what is wrong.
const char *naive_check(const struct naive *w, const struct level_plan *p);
