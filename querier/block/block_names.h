// SPDX-License-Identifier: Apache-2.0
//
// block_names.h - stacks of a service as names, united once for all blocks that are kept.
//
// Blocks of one service have mostly the same stacks under different numbers. Flame graphs need
// their names only, and to unite these takes ten times longer than to add the sums. So each table
// that is kept brings a map of its stacks to the rows of one table of the service, made when it was
// parsed; a query adds the sums of many blocks by these maps and unites names with the answer's
// once.
//
// A table only grows, and goes with the last block that is mapped to it. When it has many more rows
// than a newcomer a new one is begun, so that it does not keep what only blocks of long ago had.
#pragma once

#include "model/merge.h"

struct block_names;

// All tables of a cache. Any thread.
struct block_names_set;
struct block_names_set *block_names_set_new(struct mem_budget *memory);
void block_names_set_free(struct block_names_set *s);  // nobody holds one

// Maps all stacks of t: *map is the arena's. The table, with a reference; *rows it has by now, at
// least. NULL and *e set on failure.
struct block_names *block_names_map(struct block_names_set *s, str service, struct arena *a,
                                    const struct symbol_table *t, uint32_t **map, uint32_t *rows,
                                    err *e) MUST_CHECK;
void block_names_hold(struct block_names *n);
void block_names_unref(struct block_names *n);  // NULL is fine

// Adds sums by the table's rows to *m, which has names only. *sums grows to as many as it has.
bool block_names_add(struct block_names *n, struct merge *m, int64_t **sums, size_t *room,
                     err *e) MUST_CHECK;
