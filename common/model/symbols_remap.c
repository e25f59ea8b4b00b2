// SPDX-License-Identifier: Apache-2.0
#include "model/symbols.h"

bool symbols_remap_init(struct symbols_remap *m, struct arena *a, const struct symbol_table *from,
                        struct symbols *to, err *e)
{
    *m = (struct symbols_remap){
        .from = from,
        .to = to,
        .strings = ARENA_ARRAY(a, uint32_t, from->string_count),
        .functions = ARENA_ARRAY(a, uint32_t, from->function_count),
        .mappings = ARENA_ARRAY(a, uint32_t, from->mapping_count),
        .frames = ARENA_ARRAY(a, uint32_t, from->frame_count),
        .stacks = ARENA_ARRAY(a, uint32_t, from->stack_count),
    };
    return arena_ok(a, e);
}

static bool string(struct symbols_remap *m, uint32_t row, uint32_t *out, err *e)
{
    uint32_t *known = &m->strings[row];
    if (*known == 0) {
        uint32_t added = symbols_string(m->to, m->from->strings[row], e);
        if (added == MAP_NONE) return false;
        *known = added + 1;
    }
    *out = *known - 1;
    return true;
}

static bool function(struct symbols_remap *m, uint32_t row, uint32_t *out, err *e)
{
    uint32_t *known = &m->functions[row];
    if (*known == 0) {
        const struct symbol_function *f = &m->from->functions[row];
        struct symbol_function copy = {0};
        if (!string(m, f->name, &copy.name, e)) return false;
        if (!m->names_only) {
            copy.start_line = f->start_line;
            if (!string(m, f->system_name, &copy.system_name, e) ||
                !string(m, f->filename, &copy.filename, e)) {
                return false;
            }
        }
        uint32_t added = symbols_function(m->to, copy, e);
        if (added == MAP_NONE) return false;
        *known = added + 1;
    }
    *out = *known - 1;
    return true;
}

static bool mapping(struct symbols_remap *m, uint32_t row, uint32_t *out, err *e)
{
    uint32_t *known = &m->mappings[row];
    if (*known == 0) {
        struct symbol_mapping copy = m->from->mappings[row];
        if (!string(m, copy.filename, &copy.filename, e) ||
            !string(m, copy.build_id, &copy.build_id, e)) {
            return false;
        }
        uint32_t added = symbols_mapping(m->to, copy, e);
        if (added == MAP_NONE) return false;
        *known = added + 1;
    }
    *out = *known - 1;
    return true;
}

static bool frame(struct symbols_remap *m, uint32_t row, uint32_t *out, err *e)
{
    uint32_t *known = &m->frames[row];
    if (*known == 0) {
        const struct symbol_frame *f = &m->from->frames[row];
        struct symbol_frame copy = {0};
        if (!function(m, f->function, &copy.function, e)) return false;
        if (!m->names_only) {
            copy.line = f->line;
            copy.address = f->address;
            copy.inlined = f->inlined;
            if (!mapping(m, f->mapping, &copy.mapping, e)) return false;
        }
        uint32_t added = symbols_frame(m->to, copy, e);
        if (added == MAP_NONE) return false;
        *known = added + 1;
    }
    *out = *known - 1;
    return true;
}

// A stack may be a million frames deep and nobody may recurse. On the way up to the first row that
// is known, each row's slot in `stacks` (0, as it is unknown) notes the child that it was reached
// from; on the way down the notes become results. After a failure the remaining notes are wiped.
uint32_t symbols_remap_stack(struct symbols_remap *m, uint32_t stack, err *e)
{
    assert(stack < m->from->stack_count);
    const struct symbol_stack *rows = m->from->stacks;
    uint32_t child = 0;
    uint32_t at = stack;
    while (at != 0 && m->stacks[at] == 0) {
        uint32_t up = rows[at].parent;
        m->stacks[at] = child;
        child = at;
        at = up;
    }
    uint32_t result = at == 0 ? 0 : m->stacks[at] - 1;
    while (child != 0) {
        at = child;
        child = m->stacks[at];
        uint32_t to_frame = 0;
        if (result == MAP_NONE || !frame(m, rows[at].frame, &to_frame, e)) {
            result = MAP_NONE;
            m->stacks[at] = 0;
            continue;
        }
        result = symbols_stack(m->to, result, to_frame, e);
        m->stacks[at] = result == MAP_NONE ? 0 : result + 1;
    }
    return result;
}

uint32_t symbols_remap_frame(struct symbols_remap *m, uint32_t row, err *e)
{
    uint32_t to = 0;
    assert(row < m->from->frame_count);
    return frame(m, row, &to, e) ? to : MAP_NONE;
}
