// SPDX-License-Identifier: Apache-2.0
//
// site.c - sums are made in 128 bits, so that only the result has to fit 64.
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

// A vector has less than 2^32 entries with values below 2^63, so a sum of 128 bits cannot overflow.
// Whether a result is refused then depends on its value, not on the order of the entries.
struct sum {
    __int128 value;
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
    to->value += v->value;
    return true;
}

static bool finish(const struct sum *s, int64_t factor, int64_t *sum, bool *any, err *e)
{
    *any = s->any;
    if (!__builtin_add_overflow(s->value, 0, sum) && !__builtin_mul_overflow(*sum, factor, sum)) {
        return true;
    }
    return err_set(e, ERR_OUT_OF_RANGE, "the value of a profile does not fit 64 bits");
}

bool site_sum_vector(const struct site *s, str vector, int64_t factor, int64_t *sum, bool *any,
                     err *e)
{
    struct vector_reader r;
    struct vector_entry v;
    struct sum all = {0};
    if (!vector_open(&r, vector, e)) return false;
    while (vector_next(&r, &v)) {
        if (!add_entry(s, &all, &v, e)) return false;
    }
    return vector_done(&r, e) && finish(&all, factor, sum, any, e);
}

bool site_sum_columns(const struct site *s, struct arena *scratch, str columns, int64_t factor,
                      int64_t *sum, bool *any, err *e)
{
    struct vector_entry *v = NULL;
    struct sum all = {0};
    size_t n = 0;
    if (scratch->used > SCRATCH_BYTES) arena_release(scratch);
    if (!columns_entries(scratch, columns, s->stacks, &v, &n, e)) return false;
    for (size_t i = 0; i < n; i++) {
        if (!add_entry(s, &all, &v[i], e)) return false;
    }
    return finish(&all, factor, sum, any, e);
}
