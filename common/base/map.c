// SPDX-License-Identifier: Apache-2.0
//
// map.c - slots of a table: finding, putting, removing, growing. A slot has a part of the hash, so
// a table grows without a look at the rows of its owner.
#include "base/map.h"

#ifdef FT_FAULTS
_Thread_local uint64_t map_looked;
#endif

void map_init(struct map *m, struct mem_budget *budget)
{
    *m = (struct map){.budget = budget};
}

void map_release(struct map *m)
{
    mem_free(m->budget, m->slots, m->size * sizeof *m->slots);
    map_init(m, m->budget);
}

static uint32_t tag_of(uint64_t hash)
{
    return (uint32_t)(hash >> 32);
}

uint32_t map_find(const struct map *m, uint64_t hash, bool (*same)(const void *ctx, uint32_t row),
                  const void *ctx)
{
    uint32_t step = 0;
    uint32_t row = map_next(m, hash, &step);
    while (row != MAP_NONE && !same(ctx, row))
        row = map_next(m, hash, &step);
    return row;
}

static void place(struct map_slot *slots, uint32_t size, struct map_slot s)
{
    uint32_t i = s.tag & (size - 1);
    for (; slots[i].next; i = (i + 1) & (size - 1))
        map_stepped();
    slots[i] = s;
}

// The tags are kept in the slots, so the rows need not be hashed again.
static bool rebuild(struct map *m, uint32_t size, err *e)
{
    assert(size > m->count && (size & (size - 1)) == 0);
    struct map_slot *slots = mem_alloc(m->budget, size * sizeof *slots, e);
    if (!slots) return false;
    for (uint32_t i = 0; i < m->size; i++) {
        if (m->slots[i].next) place(slots, size, m->slots[i]);
    }
    mem_free(m->budget, m->slots, m->size * sizeof *m->slots);
    m->slots = slots;
    m->size = size;
    return true;
}

// Sizes end at 2^31 slots.
bool map_reserve(struct map *m, uint32_t rows, err *e)
{
    uint32_t size = m->size ? m->size : 16;
    while (size / 4 * 3 < rows) {
        if (size > UINT32_MAX / 4) {
            return err_set(e, ERR_RESOURCE_EXHAUSTED, "hash index of %u rows, limit", rows);
        }
        size *= 2;
    }
    return size == m->size || rebuild(m, size, e);
}

bool map_put(struct map *m, uint64_t hash, uint32_t row, err *e)
{
    assert(row != MAP_NONE);
    if (m->count >= m->size / 4 * 3 && !map_reserve(m, m->count + 1, e)) return false;
    assert(m->count < m->size);  // otherwise `place` and look-ups would not end
    place(m->slots, m->size, (struct map_slot){tag_of(hash), row + 1});
    m->count++;
    return true;
}

static uint32_t slot_of(const struct map *m, uint64_t hash, uint32_t row)
{
    uint32_t at = tag_of(hash) & (m->size - 1);
    for (; m->slots[at].next != row + 1; at = (at + 1) & (m->size - 1)) {
        assert(m->slots[at].next);
        map_stepped();
    }
    return at;
}

// A look-up ends at a free slot. So rows behind the gap move into it, if a look-up of them would
// pass the gap and end there.
void map_remove(struct map *m, uint64_t hash, uint32_t row)
{
    assert(m->count > 0);
    const uint32_t mask = m->size - 1;
    uint32_t gap = slot_of(m, hash, row);
    for (uint32_t at = (gap + 1) & mask; m->slots[at].next; at = (at + 1) & mask) {
        if (((at - m->slots[at].tag) & mask) < ((at - gap) & mask)) continue;
        m->slots[gap] = m->slots[at];
        gap = at;
    }
    m->slots[gap] = (struct map_slot){0};
    m->count--;
}

void map_renumber(struct map *m, uint64_t hash, uint32_t row, uint32_t now)
{
    assert(now != MAP_NONE);
    m->slots[slot_of(m, hash, row)].next = now + 1;
}
