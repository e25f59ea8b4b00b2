// SPDX-License-Identifier: Apache-2.0
#include "ingester/head/ids.h"

#include "base/hash.h"
#include "base/map.h"

static size_t home(size_t size, uint32_t series, id128 id)
{
    return (size_t)hash_table_and(hash_table_bytes(id.b, sizeof id.b), series) & (size - 1);
}

// The slot of a key, or the free one where it belongs.
static struct id_slot *find(struct id_slot *slots, size_t size, uint32_t series, id128 id)
{
    size_t at = home(size, series, id);
    for (; slots[at].series && (slots[at].series != series + 1 || !id128_eq(slots[at].id, id));
         at = (at + 1) & (size - 1))
        map_stepped();
    return &slots[at];
}

static bool grow(struct ids *s, struct mem_budget *b, size_t need, err *e)
{
    size_t size = s->size ? s->size : 16;
    while (size / 4 * 3 < need) {
        if (__builtin_mul_overflow(size, 2, &size) || size > SIZE_MAX / sizeof *s->slots) {
            return err_set(e, ERR_RESOURCE_EXHAUSTED, "%zu profile ids do not fit", need);
        }
    }
    if (size == s->size) return true;
    struct id_slot *slots = mem_alloc(b, size * sizeof *slots, e);
    if (!slots) return false;
    for (size_t i = 0; i < s->size; i++) {
        const struct id_slot *old = &s->slots[i];
        if (old->series) *find(slots, size, old->series - 1, old->id) = *old;
    }
    mem_free(b, s->slots, s->size * sizeof *slots);
    s->slots = slots;
    s->size = size;
    return true;
}

bool ids_promise(struct ids *s, struct mem_budget *b, size_t n, err *e)
{
    if (!grow(s, b, s->n + s->promised + n, e)) return false;
    s->promised += n;
    return true;
}

void ids_forgive(struct ids *s, size_t n)
{
    assert(s->promised >= n);
    s->promised -= n;
}

bool ids_has(const struct ids *s, uint32_t series, id128 id)
{
    return s->size > 0 && find(s->slots, s->size, series, id)->series != 0;
}

bool ids_put(struct ids *s, uint32_t series, id128 id)
{
    assert(s->promised > 0 && series < UINT32_MAX);
    s->promised--;
    struct id_slot *slot = find(s->slots, s->size, series, id);
    if (slot->series) return false;
    *slot = (struct id_slot){id, series + 1};
    s->n++;
    return true;
}

// A free slot ends every search, so the slots behind the gap that a search would reach only across
// it move up, until a slot is free anyway.
void ids_remove(struct ids *s, uint32_t series, id128 id)
{
    if (s->size == 0) return;
    struct id_slot *gap = find(s->slots, s->size, series, id);
    if (!gap->series) return;
    size_t mask = s->size - 1;
    size_t free_at = (size_t)(gap - s->slots);
    for (size_t at = (free_at + 1) & mask; s->slots[at].series; at = (at + 1) & mask) {
        const struct id_slot *x = &s->slots[at];
        size_t from = home(s->size, x->series - 1, x->id);
        if (((at - from) & mask) < ((at - free_at) & mask)) continue;
        s->slots[free_at] = *x;
        free_at = at;
    }
    s->slots[free_at] = (struct id_slot){0};
    assert(s->n > 0);
    s->n--;
}

void ids_release(struct ids *s, struct mem_budget *b)
{
    mem_free(b, s->slots, s->size * sizeof *s->slots);
    *s = (struct ids){0};
}
