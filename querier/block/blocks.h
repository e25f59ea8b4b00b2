// SPDX-License-Identifier: Apache-2.0
//
// blocks.h - the cache of parsed sections of blocks, shared by all queries of a querier.
//
// Blocks never change, so a section that was read and checked once is good for ever. Footers,
// indexes, symbols, names and vectors of ALL nodes are kept, parsed; when querier.cache_memory is
// reached, those that were unused for the longest time go first. A section that several queries
// want at once is read by one of them (blocks.c).
#pragma once

#include "block/reader.h"
#include "querier/disk/disk_cache.h"
#include "store/store.h"

struct blocks;

// memory: bytes of the cache at most, within parent. Returns owned. The store must outlive it.
struct blocks *blocks_new(struct store *s, struct mem_budget *parent, size_t memory);

// What is not in memory is looked for on disk before the store is asked, and what the store answers
// goes there. Before the first query; c must outlive the cache.
void blocks_keep_on_disk(struct blocks *b, struct disk_cache *c);
void blocks_free(struct blocks *b);  // when no query uses it any more
