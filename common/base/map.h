// SPDX-License-Identifier: Apache-2.0
//
// map.h - a hash index over rows in an array of its owner.
//
// Slots hold (32 bits of hash, row number); the rows are the owner's array. That makes hash-consing
// tables of 8 bytes a row with no pointers, and one index type for every table. Open addressing,
// linear probing, at most 3/4 full.
//
//     ref = map_find(&m, hash, same, &key);
//     if (ref == MAP_NONE) { append the row; map_put(&m, hash, row, e); }
//
// Hashes are those of hash_table_* or of another keyed hash (hash.h), so that clients cannot choose
// rows that collide.
//
// Owned by one thread at a time; concurrent readers are fine while no thread writes.
#pragma once

#include "base/mem.h"

#define MAP_NONE UINT32_MAX

// The number of slots that this thread has looked at, in maps and in other tables that call
// map_stepped. Tests check it instead of time. Only in builds with fault points.
#ifdef FT_FAULTS
extern _Thread_local uint64_t map_looked;
static inline void map_stepped(void)
{
    map_looked++;
}
#else
static inline void map_stepped(void)
{
}
#endif

struct map_slot {
    uint32_t tag;   // upper half of the hash; its low bits are the first slot to look at
    uint32_t next;  // row + 1; 0 = free
};

struct map {
    struct map_slot *slots;
    uint32_t size;  // slots, a power of two, 0 before the first put
    uint32_t count;
    struct mem_budget *budget;
};

void map_init(struct map *m, struct mem_budget *budget);
void map_release(struct map *m);

// The rows with this hash one by one, MAP_NONE after the last; *step = 0 begins. For callers that
// compare inline:
//
//     uint32_t step = 0;
//     uint32_t row = map_next(&m, hash, &step);
//     while (row != MAP_NONE && !same(row)) row = map_next(&m, hash, &step);
static inline uint32_t map_next(const struct map *m, uint64_t hash, uint32_t *step)
{
    uint32_t tag = (uint32_t)(hash >> 32);
    if (m->size == 0) return MAP_NONE;
    for (;;) {
        map_stepped();
        struct map_slot s = m->slots[(tag + (*step)++) & (m->size - 1)];
        if (s.next == 0 || s.tag == tag) return s.next - 1;
    }
}

// Prefetches the slot of a hash that will be looked up soon.
static inline void map_fetch(const struct map *m, uint64_t hash)
{
    if (m->size) __builtin_prefetch(&m->slots[(uint32_t)(hash >> 32) & (m->size - 1)]);
}

// The first row with this hash for which same(ctx, row) holds; MAP_NONE if there is none.
uint32_t map_find(const struct map *m, uint64_t hash, bool (*same)(const void *ctx, uint32_t row),
                  const void *ctx);

// Makes room for `rows` rows in all, so that adding them does not rebuild the index again and
// again.
bool map_reserve(struct map *m, uint32_t rows, err *e) MUST_CHECK;

// Adds a row that map_find did not find.
bool map_put(struct map *m, uint64_t hash, uint32_t row, err *e) MUST_CHECK;

// Removes a row that map_put added under this hash, or gives it another number.
void map_remove(struct map *m, uint64_t hash, uint32_t row);
void map_renumber(struct map *m, uint64_t hash, uint32_t row, uint32_t now);
