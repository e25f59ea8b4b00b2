// SPDX-License-Identifier: Apache-2.0
//
// bench.h - a store in memory, a clock that stands where a test puts it, manifests over both.
#pragma once

#include "lib/memstore.h"
#include "lib/test.h"
#include "manifest/manifest.h"
#include "sys/clock.h"

#include <stdatomic.h>

#define TENANT      S("acme")
#define BENCH_START INT64_C(1790000000000000000)
#define BENCH_HOUR  INT64_C(497222)  // of that time
#define BENCH_HOURS (INT64_C(3600) * NS_PER_S)

extern _Atomic int64_t bench_now;
extern _Atomic int64_t bench_slept;

int64_t bench_wall(void);
int64_t bench_boot(void);

struct bench {
    struct store *store;
    struct sweep_seen seen;
    struct mem_budget budget;
    struct manifests *ms;
    struct req r;
    struct arena arena;
};

void bench_begin(struct bench *b);
void bench_end(struct bench *b);

// An id that says in which millisecond it was made, and which one it is.
id128 bench_id(uint32_t nr);
struct segment_name bench_segment(int64_t hour, uint64_t cut, uint32_t part);
struct manifest_block bench_block(enum block_kind kind, int64_t hour, uint32_t hours, id128 id);
struct manifest_block bench_leaf(int64_t hour, id128 id, const struct segment_name *sources,
                                 size_t n);

// The block's object, as a writer leaves it.
void bench_write_block(struct bench *b, const struct manifest_block *block);
void bench_write_segment(struct bench *b, const struct segment_name *s);

// What is added is there, as if its writer had made it.
bool bench_commit(struct bench *b, const struct manifest_change *c, err *e);
bool bench_add(struct bench *b, const struct manifest_block *v, size_t n, err *e);

// A sweep that has seen all that may go for long enough: what decides is the clock on the wall.
bool bench_sweep(struct bench *b, struct manifest_sweep *s, err *e);
struct manifest *bench_newest(struct bench *b);
