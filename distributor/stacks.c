// SPDX-License-Identifier: Apache-2.0
#include "distributor/stacks.h"

#include "base/hash.h"

struct stacks_slot {
    uint64_t key;   // parent << 32 | location
    uint32_t node;  // 0 = free; the root is in no slot
};

#define SLOTS_MIN 256

static uint32_t slot_of(const struct stacks *s, uint64_t key)
{
    uint32_t mask = s->slot_count - 1;
    uint32_t i = (uint32_t)(hash_mix(s->seed, key) & mask);
    while (s->slots[i].node && s->slots[i].key != key) {
        i = (i + 1) & mask;
    }
    return i;
}

static bool rehash(struct stacks *s, uint32_t slot_count)
{
    struct stacks_slot *old = s->slots;
    uint32_t old_count = s->slot_count;
    s->slots = ARENA_ARRAY(s->a, struct stacks_slot, slot_count);
    if (!s->slots) return false;
    s->slot_count = slot_count;
    for (uint32_t i = 0; i < old_count; i++) {
        if (old[i].node) s->slots[slot_of(s, old[i].key)] = old[i];
    }
    return true;
}

// The child of a node for a location; 0 if memory is out.
static uint32_t child(struct stacks *s, uint32_t parent, uint32_t location)
{
    uint64_t key = (uint64_t)parent << 32 | location;
    uint32_t i = slot_of(s, key);
    if (s->slots[i].node) return s->slots[i].node;
    uint32_t node = s->node_count;
    if (!arena_grow(s->a, &s->parent, &s->node_cap, (size_t)node + 1, sizeof *s->parent) ||
        !arena_grow(s->a, &s->location, &s->location_cap, (size_t)node + 1, sizeof *s->location)) {
        return 0;
    }
    s->parent[node] = parent;
    s->location[node] = location;
    s->node_count++;
    s->slots[i] = (struct stacks_slot){key, node};
    if (s->node_count > s->slot_count / 2 && !rehash(s, s->slot_count * 2)) return 0;
    return node;
}

bool stacks_init(struct stacks *s, struct arena *a, const struct profile *p, uint64_t seed, err *e)
{
    *s = (struct stacks){.a = a, .p = p, .node_count = 1, .seed = seed};
    s->node_of = ARENA_ARRAY(a, uint32_t, p->sample_count);
    // Most profiles have fewer nodes than a quarter of what their stacks list.
    uint32_t slots = SLOTS_MIN;
    while (slots < p->stack_location_count / 2) {
        slots *= 2;
    }
    if (!s->node_of || !rehash(s, slots) ||
        !arena_grow(a, &s->parent, &s->node_cap, slots / 4, sizeof *s->parent) ||
        !arena_grow(a, &s->location, &s->location_cap, slots / 4, sizeof *s->location)) {
        return arena_ok(a, e);
    }
    for (uint32_t i = 0; i < p->sample_count; i++) {
        const struct profile_sample *sample = &p->samples[i];
        const uint32_t *leaf = p->stack_locations + sample->first_location;
        uint32_t node = 0;
        for (uint32_t k = sample->location_count; k-- > 0;) {
            node = child(s, node, leaf[k]);
            if (node == 0) return arena_ok(a, e);
        }
        s->node_of[i] = node;
    }
    s->way = ARENA_ARRAY(a, uint32_t, s->node_count);
    return arena_ok(a, e);
}

bool stacks_rows_init(struct stacks_rows *r, const struct stacks *s, struct symbols *to, err *e)
{
    *r = (struct stacks_rows){
        .s = s,
        .to = to,
        .stacks = ARENA_ARRAY(s->a, uint32_t, s->node_count),
        .functions = ARENA_ARRAY(s->a, uint32_t, s->p->function_count),
        .mappings = ARENA_ARRAY(s->a, uint32_t, s->p->mapping_count),
    };
    return arena_ok(s->a, e);
}

static bool string_row(struct symbols *to, str text, uint32_t *row, err *e)
{
    *row = symbols_string(to, text, e);
    return *row != MAP_NONE;
}

static uint32_t function_row(struct stacks_rows *r, uint32_t function, err *e)
{
    if (r->functions[function]) return r->functions[function] - 1;
    const struct profile_function *f = &r->s->p->functions[function];
    struct symbol_function row = {.start_line = f->start_line};
    if (!string_row(r->to, f->name, &row.name, e) ||
        !string_row(r->to, f->system_name, &row.system_name, e) ||
        !string_row(r->to, f->filename, &row.filename, e)) {
        return MAP_NONE;
    }
    uint32_t id = symbols_function(r->to, row, e);
    r->functions[function] = id + 1;  // MAP_NONE + 1 is 0: not known
    return id;
}

static uint32_t mapping_row(struct stacks_rows *r, uint32_t mapping, err *e)
{
    if (mapping == PROFILE_NONE) return 0;
    if (r->mappings[mapping]) return r->mappings[mapping] - 1;
    const struct profile_mapping *m = &r->s->p->mappings[mapping];
    struct symbol_mapping row = {.start = m->start,
                                 .limit = m->limit,
                                 .offset = m->offset,
                                 .flags = m->flags};
    if (!string_row(r->to, m->filename, &row.filename, e) ||
        !string_row(r->to, m->build_id, &row.build_id, e)) {
        return MAP_NONE;
    }
    uint32_t id = symbols_mapping(r->to, row, e);
    r->mappings[mapping] = id + 1;
    return id;
}

// The stack of a location called by `parent`: outermost line first.
static uint32_t location_row(struct stacks_rows *r, uint32_t parent, uint32_t location, err *e)
{
    const struct profile *p = r->s->p;
    const struct profile_location *l = &p->locations[location];
    struct symbol_frame frame = {.address = l->address, .mapping = mapping_row(r, l->mapping, e)};
    if (frame.mapping == MAP_NONE) return MAP_NONE;
    uint32_t stack = parent;
    for (uint32_t k = l->line_count; k-- > 0;) {
        const struct profile_line *line = &p->lines[l->first_line + k];
        frame.function = function_row(r, line->function, e);
        if (frame.function == MAP_NONE) return MAP_NONE;
        frame.line = line->line;
        frame.inlined = k + 1 < l->line_count;
        uint32_t row = symbols_frame(r->to, frame, e);
        if (row != MAP_NONE) stack = symbols_stack(r->to, stack, row, e);
        if (row == MAP_NONE || stack == MAP_NONE) return MAP_NONE;
    }
    if (l->line_count > 0) return stack;
    uint32_t row = symbols_frame(r->to, frame, e);
    return row == MAP_NONE ? MAP_NONE : symbols_stack(r->to, stack, row, e);
}

uint32_t stacks_row(struct stacks_rows *r, uint32_t node, err *e)
{
    // Up to the nearest ancestor that has a row, remembering the way in the rows themselves, then
    // down again: parents first, no recursion.
    if (r->stacks[0] == 0) r->stacks[0] = 1;
    if (r->stacks[node]) return r->stacks[node] - 1;
    const struct stacks *s = r->s;
    uint32_t below = 0;  // reversed chain: way[node] = the node below it
    uint32_t at = node;
    uint32_t *way = s->way;
    while (r->stacks[at] == 0) {
        way[at] = below;
        below = at;
        at = s->parent[at];
    }
    uint32_t stack = r->stacks[at] - 1;
    for (at = below;; at = way[at]) {
        stack = location_row(r, stack, s->location[at], e);
        if (stack == MAP_NONE) return MAP_NONE;
        r->stacks[at] = stack + 1;
        if (at == node) return stack;
    }
}
