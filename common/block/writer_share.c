// SPDX-License-Identifier: Apache-2.0
//
// Vectors of nodes that are equal up to a factor are written once: sibling types (samples, and
// their value), a projection with one series, ALL of a service with one series. In the benchmark's
// month of ten pods these are three nodes in four.
//
// Vectors are compared by their bytes, which are kept for that; a hash finds the few to compare. A
// vector that does not fit into the kept bytes may be written twice: the block is larger then, not
// wrong.
#include "base/hash.h"
#include "block/writer_int.h"

// Bytes of vectors that are kept of a service, at most, and as a part of the budget.
#define KEPT_MAX  ((size_t)16 << 20)
#define KEPT_PART 32

// How many vectors with equal hashes are compared. More collide only by intent.
#define TRIES 8

struct writer_known {
    size_t at;  // of its bytes
    uint32_t n;
    bool all;
    uint64_t number;
};

void writer_share_init(struct writer_share *s, struct mem_budget *memory)
{
    *s = (struct writer_share){.cap = KEPT_MAX};
    const struct mem_budget *tight = memory ? mem_tightest(memory) : NULL;
    if (tight) s->cap = MIN(s->cap, atomic_load(&tight->limit) / KEPT_PART);
    map_init(&s->index, memory);
    buf_init(&s->bytes, memory, SIZE_MAX);
}

void writer_share_release(struct writer_share *s)
{
    struct mem_budget *memory = s->index.budget;
    map_release(&s->index);
    buf_release(&s->bytes);
    mem_free(memory, s->v, s->v_cap * sizeof *s->v);
    *s = (struct writer_share){0};
}

// Nodes of ALL name only vectors of their own section, so that reading ALL needs no other section.
bool writer_share_find(struct writer_share *s, str entries, bool all, uint64_t *number,
                       bool *is_of_all)
{
    uint32_t step = 0;
    s->hash = hash_table_str(entries);
    uint32_t row = map_next(&s->index, s->hash, &step);
    for (int i = 0; row != MAP_NONE && i < TRIES; i++) {
        const struct writer_known *one = &s->v[row];
        str known = str_make(s->bytes.p + one->at, one->n);
        if ((one->all || !all) && str_eq(known, entries)) {
            *number = one->number;
            *is_of_all = one->all;
            return true;
        }
        row = map_next(&s->index, s->hash, &step);
    }
    return false;
}

bool writer_share_keep(struct writer_share *s, str entries, bool all, uint64_t number, err *e)
{
    struct mem_budget *memory = s->index.budget;
    uint32_t row = s->index.count;
    if (s->bytes.n + entries.n + (size_t)row * sizeof *s->v > s->cap) return true;
    if (!mem_grow(memory, &s->v, &s->v_cap, (size_t)row + 1, sizeof *s->v, e) ||
        !map_put(&s->index, s->hash, row, e)) {
        return false;
    }
    s->v[row] = (struct writer_known){s->bytes.n, (uint32_t)entries.n, all, number};
    buf_str(&s->bytes, entries);
    return buf_ok(&s->bytes, e);
}
