// SPDX-License-Identifier: Apache-2.0
//
// blocks.h - sections of blocks, as queries need them: read together, kept, bounded.
//
// Blocks never change, so what was read and checked once is good for ever. Footers, indexes,
// symbols and vectors of ALL nodes are kept, parsed, by object and service, the longest unused
// going first when querier.cache_memory is reached. Reads that are not served from there are
// collected, neighbours within 1 MB become one, and go out together.
#pragma once

#include "block/reader.h"
#include "store/store.h"

struct blocks;

// memory: the cache's limit within parent. Returns owned.
struct blocks *blocks_new(struct store *s, struct mem_budget *parent, size_t memory);
void blocks_free(struct blocks *b);
