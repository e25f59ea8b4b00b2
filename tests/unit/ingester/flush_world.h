// SPDX-License-Identifier: Apache-2.0
//
// flush_world.h - an ingester with a store in memory, what was pushed to it, and whether questions
// find all of that once.
#pragma once

#include "ingester/metrics.h"
#include "segments.h"
#include "sys/clock.h"

#define HOUR (3600 * NS_PER_S)

struct world {
    char dir[DIR_MAX];
    char flags[200];
    struct store *store;
    struct whole w;
    struct dice dice;
    struct lines want[COUNT(fact_tenants)];
    uint64_t rows;
};

void start(struct world *x);
void world_start(struct world *x, uint64_t seed, const char *flags);
void world_end(struct world *x);
void restart(struct world *x);

// Skips a test that counts creations, or makes them fail for long, where they are the log's too
// (FLAMETREE_INGESTER_LOG).
void world_needs_log_on_disk(void);

// ---- pushes

// A batch with all that a record may have: siblings, repeated attempts, first streams, and while
// this is set ids of clients: an ingester that let ids go would take those with raised attempts.
extern bool rich_batch_ids;
str rich_batch(struct arena *a, struct dice *d, const struct fact *facts, size_t n,
               struct batch *b);

MUST_CHECK bool push_bytes(struct world *x, str tenant, str batch, err *e);

// Profiles of one service and tenant with times in the last `span_ns`.
void push(struct world *x, size_t n, int64_t span_ns);

// ---- looking

bool flush(struct world *x, struct flush_totals *done, err *e);
bool flush_within(struct world *x, unsigned seconds, struct flush_totals *done, err *e);

// Everything once, however it is spread.
void check(struct world *x);
size_t segments(struct world *x);
uint64_t rows_held(struct world *x);

// Distinct (tenant, hour) of what was pushed.
size_t hours_of(struct world *x);
uint64_t count_of(struct metric *m);

// ---- what a compactor does

// Makes a leaf of the listed segment of the tenant, which has one; `sweep`: and removes that. This
// is another process: its store works whatever that of the ingester does.
void world_absorb(struct world *x, str tenant, int64_t hour, bool sweep);
// Retention removes the leaf; nodes of its day would have the rows.
void world_expire(struct world *x, str tenant);
