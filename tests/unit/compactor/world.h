// SPDX-License-Identifier: Apache-2.0
//
// world.h - a tenant's objects in memory, a clock that the test sets, and the compactor at work on
// them.
#pragma once

#include "lib/job.h"
#include "unit/compactor/fleet.h"

extern _Atomic int64_t now_ns;

int64_t virtual_now(void);

#define DAY_0  (INT64_C(28) * 725)  // the first day of a window
#define HOUR_0 (DAY_0 * 24)

struct world {
    struct fleet fleet;
    bool may_fail;  // jobs, and looking
    struct store *store;
    struct manifests *manifests;
    struct plan_settings settings;
    char scratch[64];
    uint64_t pack_bytes;
    size_t jobs[JOB_KINDS];
    uint64_t duplicates;
    size_t files;
    size_t failed;
    err fault;  // the last one
    size_t memory;
    struct arena arena;  // of hides
    struct hide hides[4];
    size_t hide_count;
};

void world_init(struct world *w, uint64_t seed);
void world_release(struct world *w);

// Two hours of `each` profiles a series on each of so many days, in segments; it is 40 days later.
void world_fill(struct world *w, int64_t days, size_t each);

// The same, compacted, and single profiles are kept for a day: none is there any more.
void world_begin_expired(struct world *w, uint64_t seed, int64_t days, size_t each);

// A deletion, from now on; blocks that check_all looks at must not have what it hides.
void world_delete(struct world *w, const char *match, int64_t from_ns, int64_t to_ns);
size_t count_tombstones(struct world *w);

// One plan and its jobs; how many were done.
size_t work_once(struct world *w);
void work_until_done(struct world *w);

// Every live block against the facts of its hours; gaps are not counted, but for those of hours
// that rows are as small as.
size_t check_all(struct world *w, enum block_kind kind);
void check_each_level(struct world *w);  // check_all of raw blocks, hours and days
size_t count_with_series(struct world *w, enum block_kind kind);
size_t count_spared(struct world *w);
