// SPDX-License-Identifier: Apache-2.0
//
// site.c - which stacks lie under a site, and sums over these.
#include "aggregate/site.h"

#include "model/columns.h"
#include "model/tree.h"

// Unpacked entries stay in the scratch arena up to this size, so that memory is not asked for and
// freed with each row.
#define SCRATCH_BYTES ((size_t)256 << 10)

void site_match(struct site *s, const struct symbol_table *t, uint32_t *matched)
{
    assert(s->n > 0 && s->stacks <= t->stack_count);
    s->matched = matched;
    if (s->stacks == 0 && t->stack_count) matched[s->stacks++] = 0;  // the empty stack
    for (; s->stacks < t->stack_count; s->stacks++) {
        const struct symbol_stack *stack = &t->stacks[s->stacks];
        assert(stack->parent < s->stacks);
        matched[s->stacks] = tree_match(t, stack->frame, matched[stack->parent], s->names, s->n);
    }
}

struct sum {
    struct wide value;
    int64_t factor;
    bool any;
};

static inline bool add_entry(const struct site *s, struct sum *to, const struct vector_entry *v,
                             err *e)
{
    if (v->stack >= s->stacks) {
        return err_set(e, ERR_DATA_LOSS, "a vector names stack %u of %u", v->stack, s->stacks);
    }
    if (v->stack == 0 ? !tree_match_empty(s->names, s->n) : s->n && s->matched[v->stack] != s->n) {
        return true;
    }
    to->any = true;
    wide_add_product(&to->value, v->value, to->factor);
    return true;
}

bool site_sum_vector(const struct site *s, str vector, int64_t factor, struct wide *sum, bool *any,
                     err *e)
{
    struct vector_reader r;
    struct vector_entry v;
    struct sum all = {.factor = factor};
    if (!vector_open(&r, vector, e)) return false;
    while (vector_next(&r, &v)) {
        if (!add_entry(s, &all, &v, e)) return false;
    }
    *sum = all.value;
    *any = all.any;
    return vector_done(&r, e);
}

bool site_sum_columns(const struct site *s, struct arena *scratch, str columns, int64_t factor,
                      struct wide *sum, bool *any, err *e)
{
    struct vector_entry *v = NULL;
    struct sum all = {.factor = factor};
    size_t n = 0;
    if (scratch->used > SCRATCH_BYTES) arena_release(scratch);
    if (!columns_entries(scratch, columns, s->stacks, &v, &n, e)) return false;
    for (size_t i = 0; i < n; i++) {
        if (!add_entry(s, &all, &v[i], e)) return false;
    }
    *sum = all.value;
    *any = all.any;
    return true;
}
