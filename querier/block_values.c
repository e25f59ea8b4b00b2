// SPDX-License-Identifier: Apache-2.0
#include "model/columns.h"
#include "model/tree.h"
#include "querier/block_cells.h"

// Vectors that are looked at before the memory of their entries is given back.
#define TOGETHER 256u

void block_site_init(struct block_site *s, struct block_walk *w, const str *names, size_t n)
{
    *s = (struct block_site){.names = names, .n = n};
    arena_init(&s->scratch, &w->m->memory, SIZE_MAX);
}

void block_site_release(struct block_site *s)
{
    arena_release(&s->scratch);
}

bool block_site_know(const struct block_site *s, struct block_walk *w, const struct block_unit *u,
                     struct block_matched *matched, err *e)
{
    const struct symbol_table *t = u->symbols;
    *matched = (struct block_matched){.stacks = u->index->stack_count};
    if (s->n == 0) return true;
    uint32_t *v = ARENA_ARRAY(&w->wave, uint32_t, matched->stacks);
    if (!v) return block_no_room(w, e);
    for (uint32_t i = 1; i < matched->stacks; i++) {
        const struct symbol_stack *stack = &t->stacks[i];
        v[i] = tree_match(t, stack->frame, v[stack->parent], s->names, s->n);
    }
    matched->v = v;
    return true;
}

bool block_site_sum(struct block_site *s, const struct block_matched *matched, str columns,
                    int64_t *sum, bool *any, err *e)
{
    struct vector_entry *v = NULL;
    size_t n = 0;
    *sum = 0;
    *any = false;
    if (++s->used % TOGETHER == 0) arena_release(&s->scratch);
    if (!columns_entries(&s->scratch, columns, matched->stacks, &v, &n, e)) return false;
    for (size_t i = 0; i < n; i++) {
        if (v[i].stack >= matched->stacks) {
            return err_set(e, ERR_DATA_LOSS, "a vector names stack %u of %u", v[i].stack,
                           matched->stacks);
        }
        if (matched->v && matched->v[v[i].stack] != s->n) continue;
        *any = true;
        if (!sum_add(sum, v[i].value)) return block_no_value(e);
    }
    return true;
}

bool block_no_value(err *e)
{
    return err_set(e, ERR_OUT_OF_RANGE, "the value of a profile does not fit 64 bits");
}
