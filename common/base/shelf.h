// SPDX-License-Identifier: Apache-2.0
//
// shelf.h - an index of items by key, with a list of them in order of last use (LRU).
//
// Both are threaded through the items themselves (embed a struct shelf_item, get back by
// CONTAINER_OF), so that removing one costs nothing and cannot fail. Hashes are those of
// hash_table_*. Not thread-safe; the owner frees the items that it removes.
#pragma once

#include "base/mem.h"

struct shelf_item {
    struct shelf_item *chain;  // same bucket
    struct shelf_item *newer;
    struct shelf_item *older;
    uint64_t hash;
};

struct shelf {
    struct mem_budget *budget;
    struct shelf_item **buckets;
    size_t bucket_count;  // a power of two, or 0
    size_t count;
    struct shelf_item *newest;
    struct shelf_item *oldest;
};

void shelf_init(struct shelf *s, struct mem_budget *budget);
void shelf_release(struct shelf *s);  // the shelf must be empty

// Finds the item with this hash for which same(ctx, item) holds, and makes it the newest. NULL:
// none.
struct shelf_item *shelf_find(struct shelf *s, uint64_t hash,
                              bool (*same)(const void *ctx, struct shelf_item *item),
                              const void *ctx);

// Adds an item that shelf_find did not find, as the newest. Fails with resource_exhausted.
bool shelf_put(struct shelf *s, struct shelf_item *item, uint64_t hash, err *e) MUST_CHECK;

// Takes out an item that is on the shelf.
void shelf_remove(struct shelf *s, struct shelf_item *item);
