// SPDX-License-Identifier: Apache-2.0
//
// order.c - marks the rows that are needed, numbers them, and copies them in the new order.
#include "block/order.h"

// For each row first a mark whether it is used, then its new number; 0: it is left out. Row 0, the
// empty one, is always there.
struct rows {
    uint32_t *strings;
    uint32_t *functions;
    uint32_t *mappings;
    uint32_t *frames;
};

// Turns marks into numbers; returns how many rows there are.
static uint32_t number(uint32_t *ids, uint32_t count)
{
    uint32_t next = 1;
    ids[0] = 0;
    for (uint32_t i = 1; i < count; i++)
        ids[i] = ids[i] ? next++ : 0;
    return next;
}

// Marks the rows that these stacks, whose frames are t's, need.
static void mark(const struct symbol_table *t, const struct symbol_stack *stacks, uint32_t count,
                 struct rows *m)
{
    for (uint32_t i = 1; i < count; i++)
        m->frames[stacks[i].frame] = 1;
    for (uint32_t i = 1; i < t->frame_count; i++) {
        if (!m->frames[i]) continue;
        m->functions[t->frames[i].function] = 1;
        m->mappings[t->frames[i].mapping] = 1;
    }
    for (uint32_t i = 1; i < t->function_count; i++) {
        if (!m->functions[i]) continue;
        m->strings[t->functions[i].name] = 1;
        m->strings[t->functions[i].system_name] = 1;
        m->strings[t->functions[i].filename] = 1;
    }
    for (uint32_t i = 1; i < t->mapping_count; i++) {
        if (!m->mappings[i]) continue;
        m->strings[t->mappings[i].filename] = 1;
        m->strings[t->mappings[i].build_id] = 1;
    }
}

static void copy_rows(const struct symbol_table *t, const struct rows *m, struct symbol_table *out)
{
    for (uint32_t i = 1; i < t->string_count; i++) {
        if (m->strings[i]) out->strings[m->strings[i]] = t->strings[i];
    }
    for (uint32_t i = 1; i < t->function_count; i++) {
        if (!m->functions[i]) continue;
        struct symbol_function *f = &out->functions[m->functions[i]];
        *f = t->functions[i];
        f->name = m->strings[f->name];
        f->system_name = m->strings[f->system_name];
        f->filename = m->strings[f->filename];
    }
    for (uint32_t i = 1; i < t->mapping_count; i++) {
        if (!m->mappings[i]) continue;
        struct symbol_mapping *p = &out->mappings[m->mappings[i]];
        *p = t->mappings[i];
        p->filename = m->strings[p->filename];
        p->build_id = m->strings[p->build_id];
    }
    for (uint32_t i = 1; i < t->frame_count; i++) {
        if (!m->frames[i]) continue;
        struct symbol_frame *f = &out->frames[m->frames[i]];
        *f = t->frames[i];
        f->function = m->functions[f->function];
        f->mapping = m->mappings[f->mapping];
    }
}

// Parents come before children, so the rows below a stack are counted backwards and places are
// given forwards: a stack gets the next free place of its parent. below[i] is first the number of
// rows of the subtree that are needed (0: the stack itself is not), then the next free place in it.
bool block_order_stacks(struct arena *a, const struct symbol_table *t, const bool *used,
                        struct symbol_stack **out, uint32_t *count, uint32_t *map, err *e)
{
    uint32_t *below = ARENA_ARRAY(a, uint32_t, t->stack_count);
    if (!below) {
        arena_fail(a, e);
        return false;  // in full: clang's analyser does not know that arena_fail() returns it
    }
    for (uint32_t i = t->stack_count; i-- > 1;) {
        assert(t->stacks[i].parent < i && t->stacks[i].frame < t->frame_count);
        // A row that no stack below it needs is needed only for itself.
        below[i] += below[i] > 0 || !used || used[i];
        below[t->stacks[i].parent] += below[i];
    }
    *count = below[0] + 1;
    struct symbol_stack *stacks = ARENA_ARRAY(a, struct symbol_stack, *count);
    if (!stacks) {
        arena_fail(a, e);
        return false;
    }
    assert(*count <= t->stack_count);
    map[0] = 0;
    below[0] = 1;
    for (uint32_t i = 1; i < t->stack_count; i++) {
        uint32_t parent = t->stacks[i].parent;
        uint32_t size = below[i];
        map[i] = size ? below[parent] : 0;
        if (!size) continue;
        below[parent] += size;
        below[i] = map[i] + 1;
        assert(map[i] < *count && map[parent] < map[i]);
        stacks[map[i]] = (struct symbol_stack){map[parent], t->stacks[i].frame};
    }
    *out = stacks;
    return true;
}

bool block_order(struct arena *a, const struct symbol_table *t, const bool *used,
                 struct symbol_table *out, uint32_t *map, err *e)
{
    struct rows m = {.strings = ARENA_ARRAY(a, uint32_t, t->string_count),
                     .functions = ARENA_ARRAY(a, uint32_t, t->function_count),
                     .mappings = ARENA_ARRAY(a, uint32_t, t->mapping_count),
                     .frames = ARENA_ARRAY(a, uint32_t, t->frame_count)};
    struct symbol_stack *stacks = NULL;
    uint32_t count = 0;
    if (!arena_ok(a, e) || !block_order_stacks(a, t, used, &stacks, &count, map, e)) return false;
    // The stacks first: only rows that they still name are needed.
    mark(t, stacks, count, &m);
    *out = (struct symbol_table){.string_count = number(m.strings, t->string_count),
                                 .function_count = number(m.functions, t->function_count),
                                 .mapping_count = number(m.mappings, t->mapping_count),
                                 .frame_count = number(m.frames, t->frame_count),
                                 .stacks = stacks,
                                 .stack_count = count};
    out->strings = ARENA_ARRAY(a, str, out->string_count);
    out->functions = ARENA_ARRAY(a, struct symbol_function, out->function_count);
    out->mappings = ARENA_ARRAY(a, struct symbol_mapping, out->mapping_count);
    out->frames = ARENA_ARRAY(a, struct symbol_frame, out->frame_count);
    if (!arena_ok(a, e)) return false;
    out->strings[0] = S("");
    copy_rows(t, &m, out);
    // Last, as mark and the numbers above go by the old rows of frames.
    for (uint32_t i = 1; i < count; i++)
        stacks[i].frame = m.frames[stacks[i].frame];
    return true;
}

// In depth-first order the parent of each stack is the stack before it or one of its ancestors.
// Walking up from the stack before takes a step for each stack that is left for good, so all walks
// together take no more steps than there are stacks.
bool block_is_ordered(const struct symbol_table *t)
{
    for (uint32_t i = 1; i < t->stack_count; i++) {
        uint32_t at = i - 1;
        assert(t->stacks[i].parent < i);
        while (at > t->stacks[i].parent)
            at = t->stacks[at].parent;
        if (at != t->stacks[i].parent) return false;
    }
    return true;
}
