// SPDX-License-Identifier: Apache-2.0
//
// pgo.c - cuts each stack to its last locations and adds its sum to the shorter one, in the same
// table.
#include "querier/request/pgo.h"

#include "model/vector.h"

struct trimmed {
    int64_t *sums;
    size_t cap;
};

// Frames of the stack's leaf-most locations, leaf first; a location's inlined lines stay together.
static bool collect(const struct symbol_table *t, uint32_t stack, uint32_t keep, struct arena *a,
                    uint32_t **frames, size_t *cap, size_t *count)
{
    size_t n = 0;
    uint32_t locations = 0;
    for (uint32_t at = stack; at && (keep == 0 || locations < keep); at = t->stacks[at].parent) {
        assert(t->stacks[at].parent < at);  // parents come first, so the way up ends
        if (!arena_grow(a, frames, cap, n + 1, sizeof **frames)) return false;
        (*frames)[n++] = t->stacks[at].frame;
        if (!t->frames[t->stacks[at].frame].inlined) locations++;
    }
    *count = n;
    return true;
}

static bool add(struct trimmed *to, struct arena *a, uint32_t stack, int64_t value, err *e)
{
    size_t old = to->cap;
    if (!arena_grow(a, &to->sums, &to->cap, (size_t)stack + 1, sizeof *to->sums)) {
        return arena_fail(a, e);
    }
    assert(stack < to->cap);
    memset(to->sums + old, 0, (to->cap - old) * sizeof *to->sums);
    // Parts of a total that fits need not fit, as values may be negative; the compiler wants
    // weights.
    struct wide sum = {.low = to->sums[stack]};
    wide_add(&sum, value);
    to->sums[stack] = wide_clip(sum);
    return true;
}

bool pgo_trim(struct merge *m, struct arena *a, const struct pgo_options *o, const int64_t **sums,
              err *e)
{
    struct trimmed to = {0};
    uint32_t *frames = NULL;
    size_t cap = 0;
    uint32_t stacks = m->symbols.t.stack_count;  // before any is added
    for (uint32_t i = 0; i < stacks; i++) {
        if (m->sums[i] == 0) continue;
        size_t n = 0;
        if (!collect(&m->symbols.t, i, o->keep_locations, a, &frames, &cap, &n)) {
            return arena_fail(a, e);
        }
        if (n && o->aggregate_callees) {
            struct symbol_frame leaf = m->symbols.t.frames[frames[0]];
            leaf.line = 0;
            frames[0] = symbols_frame(&m->symbols, leaf, e);
            if (frames[0] == MAP_NONE) return false;
        }
        // Frames were collected leaf first: the new stack is built from the root on.
        uint32_t stack = 0;
        while (n > 0) {
            stack = symbols_stack(&m->symbols, stack, frames[--n], e);
            if (stack == MAP_NONE) return false;
        }
        if (!add(&to, a, stack, m->sums[i], e)) return false;
    }
    // Readers expect a sum for every row of the table, which has grown.
    if (!add(&to, a, m->symbols.t.stack_count - 1, 0, e)) return false;
    assert(to.cap >= m->symbols.t.stack_count);
    *sums = to.sums;
    return true;
}
