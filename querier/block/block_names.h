// SPDX-License-Identifier: Apache-2.0
//
// block_names.h - stacks of a service as names, united once for all blocks in the cache.
//
// Blocks of one service have mostly the same stacks under different numbers. Flame graphs need
// their names only, and to unite names takes ten times longer than to add sums. So the cache keeps
// one table of names for a service, and for each block a map from its stacks to rows of that table,
// made when the block's symbols were parsed. A query adds the sums of many blocks by these maps,
// and unites the table with the names of its answer once.
//
// A table only grows; it goes with the last block that is mapped to it. When it has many more rows
// than a new block has stacks, new blocks begin a new table: the old one is full of names that only
// old blocks have.
#pragma once

#include "model/merge.h"

struct block_names;

// All tables of a cache. Any thread.
struct block_names_set;
struct block_names_set *block_names_set_new(struct mem_budget *memory);
void block_names_set_free(struct block_names_set *s);  // nobody holds one

// Maps all stacks of t to rows of the service's table; *map is the arena's. Returns the table with
// a reference, and in *rows a number of rows that contains all of the map. NULL and *e on failure.
struct block_names *block_names_map(struct block_names_set *s, str service, struct arena *a,
                                    const struct symbol_table *t, uint32_t **map, uint32_t *rows,
                                    err *e) MUST_CHECK;
void block_names_hold(struct block_names *n);
void block_names_unref(struct block_names *n);  // NULL is fine

// Adds sums by the table's rows to *m, which has names only. *sums grows to as many as it has.
bool block_names_add(struct block_names *n, struct merge *m, int64_t **sums, size_t *room,
                     err *e) MUST_CHECK;
