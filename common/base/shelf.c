// SPDX-License-Identifier: Apache-2.0
//
// shelf.c - buckets of items, and the list of last use through the same items.
#include "base/shelf.h"

#include "base/map.h"

#define BUCKETS_FIRST 16

void shelf_init(struct shelf *s, struct mem_budget *budget)
{
    *s = (struct shelf){.budget = budget};
}

void shelf_release(struct shelf *s)
{
    assert(s->count == 0);
    mem_free(s->budget, (void *)s->buckets, s->bucket_count * sizeof(struct shelf_item *));
    shelf_init(s, s->budget);
}

static struct shelf_item **bucket_of(const struct shelf *s, uint64_t hash)
{
    return &s->buckets[(hash >> 32) & (s->bucket_count - 1)];
}

static void unlink_age(struct shelf *s, struct shelf_item *item)
{
    assert(item->newer || s->newest == item);
    *(item->newer ? &item->newer->older : &s->newest) = item->older;
    *(item->older ? &item->older->newer : &s->oldest) = item->newer;
}

static void link_newest(struct shelf *s, struct shelf_item *item)
{
    item->newer = NULL;
    item->older = s->newest;
    *(s->newest ? &s->newest->newer : &s->oldest) = item;
    s->newest = item;
}

struct shelf_item *shelf_find(struct shelf *s, uint64_t hash,
                              bool (*same)(const void *ctx, struct shelf_item *item),
                              const void *ctx)
{
    if (s->count == 0) return NULL;
    for (struct shelf_item *item = *bucket_of(s, hash); item; item = item->chain) {
        map_stepped();
        if (item->hash != hash || !same(ctx, item)) continue;
        unlink_age(s, item);
        link_newest(s, item);
        return item;
    }
    return NULL;
}

static bool grow(struct shelf *s, err *e)
{
    size_t count = s->bucket_count ? 2 * s->bucket_count : BUCKETS_FIRST;
    struct shelf_item **buckets =
        (struct shelf_item **)mem_alloc(s->budget, count * sizeof(struct shelf_item *), e);
    if (!buckets) return false;
    mem_free(s->budget, (void *)s->buckets, s->bucket_count * sizeof(struct shelf_item *));
    s->buckets = buckets;
    s->bucket_count = count;
    // Oldest first, each put at the head of its chain: recently used items are found sooner.
    for (struct shelf_item *item = s->oldest; item; item = item->newer) {
        struct shelf_item **at = bucket_of(s, item->hash);
        item->chain = *at;
        *at = item;
    }
    return true;
}

bool shelf_put(struct shelf *s, struct shelf_item *item, uint64_t hash, err *e)
{
    if (s->count == s->bucket_count && !grow(s, e)) return false;
    assert(s->bucket_count > 0);
    assert(s->newest != item);
    item->hash = hash;
    struct shelf_item **at = bucket_of(s, hash);
    item->chain = *at;
    *at = item;
    link_newest(s, item);
    s->count++;
    return true;
}

void shelf_remove(struct shelf *s, struct shelf_item *item)
{
    assert(s->count > 0);
    struct shelf_item **at = bucket_of(s, item->hash);
    while (*at != item)
        at = &(*at)->chain;
    *at = item->chain;
    unlink_age(s, item);
    s->count--;
}
