// SPDX-License-Identifier: Apache-2.0
//
// selfprofile_sums.c - sums of samples by component and stack. There are at most STACKS_MAX stacks;
// samples of further ones are added up by component, so totals stay exact.
#include "base/hash.h"
#include "service/selfprofile_int.h"

struct stack_key {
    const struct stack_sums *sums;
    const struct stack_row *row;
    const uint64_t *pcs;
};

static bool same_stack(const void *ctx, uint32_t row)
{
    const struct stack_key *k = ctx;
    const struct stack_row *a = &k->sums->rows[row];
    const struct stack_row *b = k->row;
    if (a->component != b->component || a->end != b->end || a->depth != b->depth) return false;
    return a->depth == 0 || memcmp(&k->sums->pcs[a->first], k->pcs, a->depth * sizeof *k->pcs) == 0;
}

void stack_sums_init(struct stack_sums *s, struct mem_budget *memory)
{
    *s = (struct stack_sums){.memory = memory};
    map_init(&s->index, memory);
}

void stack_sums_release(struct stack_sums *s)
{
    mem_free(s->memory, s->rows, s->row_cap * sizeof *s->rows);
    mem_free(s->memory, s->pcs, s->pc_cap * sizeof *s->pcs);
    map_release(&s->index);
    stack_sums_init(s, s->memory);
}

static uint32_t find_stack(const struct stack_sums *s, const struct stack_row *row,
                           const uint64_t *pcs, uint64_t *hash)
{
    struct stack_key k = {.sums = s, .row = row, .pcs = pcs};
    *hash = hash_table_bytes(pcs, row->depth * sizeof *pcs);
    *hash = hash_table_and(hash_table_and(*hash, (uint64_t)row->component), row->end);
    return map_find(&s->index, *hash, same_stack, &k);
}

bool stack_sums_add(struct stack_sums *s, const struct stack_row *key, const uint64_t *pcs, err *e)
{
    struct stack_row rest = *key;
    rest.depth = 0;
    rest.end = STACK_OVERFLOW;
    uint64_t hash = 0;
    assert(key->samples > 0);
    assert(key->depth <= SAMPLER_DEPTH_MAX && (key->depth == 0 || pcs));
    assert(key->end != STACK_OVERFLOW || key->depth == 0);
    uint32_t i = find_stack(s, key, pcs, &hash);
    if (i == MAP_NONE && s->row_count >= STACKS_MAX) {
        // The table is full: the sample counts in a row without a stack.
        key = &rest;
        i = find_stack(s, key, pcs, &hash);
    }
    if (i != MAP_NONE) {
        s->rows[i].samples += key->samples;
        s->rows[i].cpu_ns += key->cpu_ns;
        return true;
    }
    if (!mem_grow(s->memory, &s->rows, &s->row_cap, s->row_count + 1, sizeof *s->rows, e) ||
        !mem_grow(s->memory, &s->pcs, &s->pc_cap, s->pc_count + key->depth + 1, sizeof *s->pcs,
                  e) ||
        !map_put(&s->index, hash, (uint32_t)s->row_count, e))
        return false;
    struct stack_row *row = &s->rows[s->row_count++];
    *row = *key;
    row->first = s->pc_count;
    memcpy(&s->pcs[s->pc_count], pcs, key->depth * sizeof *pcs);
    s->pc_count += key->depth;
    return true;
}
