// SPDX-License-Identifier: Apache-2.0
#include "ingester/past.h"

#include "base/hash.h"
#include "base/map.h"
#include "sys/clock.h"

#define SIZE_MIN ((size_t)256)

// Tenant and series as one number: with the id, which is a hash as well, that is enough.
struct past_slot {
    uint64_t series;
    id128 id;
    bool used;
    bool saved;
};

void past_init(struct past *p, struct mem_budget *budget)
{
    *p = (struct past){.budget = budget};
    pthread_rwlock_init(&p->lock, NULL);
}

static void forget(struct past *p, struct past_ids *s)
{
    mem_free(p->budget, s->slots, s->size * sizeof *s->slots);
    *s = (struct past_ids){0};
}

void past_release(struct past *p)
{
    forget(p, &p->young);
    forget(p, &p->old);
    pthread_rwlock_destroy(&p->lock);
}

static struct past_slot *find(struct past_slot *slots, size_t size, uint64_t series, id128 id)
{
    size_t at = (size_t)hash_table_and(hash_table_bytes(id.b, sizeof id.b), series) & (size - 1);
    for (; slots[at].used && (slots[at].series != series || !id128_eq(slots[at].id, id));
         at = (at + 1) & (size - 1))
        map_stepped();
    return &slots[at];
}

// At most three quarters full.
static bool grow(struct past *p, struct past_ids *s)
{
    err none = {0};
    if (s->size && s->n < s->size / 4 * 3) return true;
    size_t size = s->size ? s->size * 2 : SIZE_MIN;
    struct past_slot *slots = mem_alloc(p->budget, size * sizeof *slots, &none);
    if (!slots) return false;
    for (size_t i = 0; i < s->size; i++) {
        const struct past_slot *old = &s->slots[i];
        if (old->used) *find(slots, size, old->series, old->id) = *old;
    }
    mem_free(p->budget, s->slots, s->size * sizeof *slots);
    s->slots = slots;
    s->size = size;
    return true;
}

static void turn(struct past *p, size_t most)
{
    uint64_t now = clock_mono_ns();
    bool full = p->young.n >= p->young.size / 4 * 3 &&
                2 * p->young.size * sizeof *p->young.slots > MAX(most, SIZE_MIN);
    if (p->young.n && (full || now - p->young.since_ns > PAST_NS)) {
        forget(p, &p->old);
        p->old = p->young;
        p->young = (struct past_ids){0};
    }
    if (p->young.n == 0) p->young.since_ns = now;
}

// With the lock, for writing.
static void add(struct past *p, uint64_t series, id128 id, bool saved, size_t most)
{
    turn(p, most);
    if (!grow(p, &p->young)) return;
    struct past_slot *slot = find(p->young.slots, p->young.size, series, id);
    if (slot->used) return;
    *slot = (struct past_slot){series, id, true, saved};
    p->young.n++;
    p->fresh = p->fresh || !saved;
}

void past_add(struct past *p, str tenant, struct loose_key key, size_t most)
{
    uint64_t series = hash_mix(hash_str(tenant), key.series);
    pthread_rwlock_wrlock(&p->lock);
    add(p, series, key.id, false, most);
    pthread_rwlock_unlock(&p->lock);
}

bool past_has(struct past *p, str tenant, struct loose_key key)
{
    uint64_t series = hash_mix(hash_str(tenant), key.series);
    pthread_rwlock_rdlock(&p->lock);
    bool has = (p->young.size && find(p->young.slots, p->young.size, series, key.id)->used) ||
               (p->old.size && find(p->old.slots, p->old.size, series, key.id)->used);
    pthread_rwlock_unlock(&p->lock);
    return has;
}

// ---- for files

static void put_key(struct buf *out, const struct past_slot *slot)
{
    uint8_t bytes[PAST_KEY];
    for (size_t i = 0; i < 8; i++)
        bytes[i] = (uint8_t)(slot->series >> (8 * i));
    memcpy(bytes + 8, slot->id.b, sizeof slot->id.b);
    buf_put(out, bytes, sizeof bytes);
}

static uint64_t key_series(const char *key)
{
    uint64_t series = 0;
    for (size_t i = 0; i < 8; i++)
        series |= (uint64_t)(uint8_t)key[i] << (8 * i);
    return series;
}

static id128 key_id(const char *key)
{
    id128 id;
    memcpy(id.b, key + 8, sizeof id.b);
    return id;
}

void past_fresh(struct past *p, struct buf *out)
{
    struct past_ids *const both[] = {&p->old, &p->young};
    pthread_rwlock_wrlock(&p->lock);
    for (size_t k = 0; p->fresh && k < COUNT(both); k++) {
        for (size_t i = 0; i < both[k]->size; i++) {
            const struct past_slot *slot = &both[k]->slots[i];
            if (slot->used && !slot->saved) put_key(out, slot);
        }
    }
    p->fresh = false;
    pthread_rwlock_unlock(&p->lock);
}

void past_note_saved(struct past *p, str keys, bool saved)
{
    struct past_ids *const both[] = {&p->old, &p->young};
    pthread_rwlock_wrlock(&p->lock);
    if (!saved) p->fresh = true;
    for (size_t at = 0; saved && at + PAST_KEY <= keys.n; at += PAST_KEY) {
        for (size_t k = 0; k < COUNT(both); k++) {
            if (!both[k]->size) continue;
            struct past_slot *slot =
                find(both[k]->slots, both[k]->size, key_series(keys.p + at), key_id(keys.p + at));
            if (slot->used) slot->saved = true;
        }
    }
    pthread_rwlock_unlock(&p->lock);
}

void past_add_saved(struct past *p, str keys, size_t most)
{
    pthread_rwlock_wrlock(&p->lock);
    for (size_t at = 0; at + PAST_KEY <= keys.n; at += PAST_KEY)
        add(p, key_series(keys.p + at), key_id(keys.p + at), true, most);
    pthread_rwlock_unlock(&p->lock);
}
