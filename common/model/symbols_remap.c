// SPDX-License-Identifier: Apache-2.0
//
// symbols_remap.c - copies rows of one table into another when they are first asked for, and notes
// their new numbers + 1, so that 0 says that a row was not copied yet.
//
// Most rows of a source are in the target already, as a service has the same symbols in each of its
// blocks. With hints (symbols_remap_hint) such rows are found before any is copied, some at a time:
// first the lines of memory that all of them need are fetched, then they are compared. A row that
// is not found, or not as guessed, takes the ordinary way.
#include "model/frame_name.h"

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

// ---- hints

void symbols_hints_init(struct symbols_hints *h, struct mem_budget *budget)
{
    *h = (struct symbols_hints){.budget = budget};
}

void symbols_hints_release(struct symbols_hints *h)
{
    mem_free(h->budget, h->function_of, h->function_cap * sizeof *h->function_of);
    symbols_hints_init(h, h->budget);
}

bool symbols_hint(struct symbols_hints *h, uint32_t name, uint32_t function, err *e)
{
    if (name >= h->function_cap && !mem_grow(h->budget, &h->function_of, &h->function_cap,
                                             (size_t)name + 1, sizeof *h->function_of, e)) {
        return false;
    }
    h->function_of[name] = function;
    return true;
}

// Whether this string is that row of the target. The target's strings are unique, so equal bytes
// mean equal rows.
static bool is_string(struct symbols_remap *m, uint32_t row, uint32_t there)
{
    uint32_t *known = &m->strings[row];
    if (*known == 0 && str_eq(m->from->strings[row], m->to->t.strings[there])) *known = there + 1;
    return *known == there + 1;
}

// The function that had this name last, if it equals f; 0 if not, or if there is none.
static uint32_t guess_function(struct symbols_remap *m, const struct symbol_function *f,
                               uint32_t name)
{
    const struct symbols_hints *h = m->hints;
    uint32_t guess = symbols_hinted(h, name);
    if (guess == 0) return 0;
    const struct symbol_function *g = &m->to->t.functions[guess];
    bool same = g->name == name && g->start_line == f->start_line &&
                is_string(m, f->system_name, g->system_name) &&
                is_string(m, f->filename, g->filename);
    return same ? guess : 0;
}

// So few rows at a time that fetched lines are still in the processor's cache when they are used.
#define TOGETHER 32u

// Finds functions [from, to) that the target has, or at least their names.
static void find_functions(struct symbols_remap *m, uint32_t from, uint32_t to)
{
    assert(from <= to && to - from <= TOGETHER && m->hints);
    uint64_t hashes[TOGETHER];
    uint32_t maybe[TOGETHER];
    const struct symbol_table *t = &m->to->t;
    const struct symbols_hints *h = m->hints;
    for (uint32_t i = from; i < to; i++) {
        uint32_t name = m->from->functions[i].name;
        hashes[i - from] = symbols_string_hash(m->to, m->from->strings[name]);
        symbols_string_fetch(m->to, hashes[i - from]);
    }
    for (uint32_t i = from; i < to; i++) {
        uint32_t row = maybe[i - from] = symbols_string_maybe(m->to, hashes[i - from]);
        if (row == MAP_NONE) continue;
        __builtin_prefetch(&t->strings[row]);
        if (row < h->function_cap) __builtin_prefetch(&h->function_of[row]);
    }
    for (uint32_t i = from; i < to; i++) {
        uint32_t row = maybe[i - from];
        if (row == MAP_NONE) continue;
        __builtin_prefetch(t->strings[row].p);
        if (row < h->function_cap) __builtin_prefetch(&t->functions[h->function_of[row]]);
    }
    for (uint32_t i = from; i < to; i++) {
        const struct symbol_function *f = &m->from->functions[i];
        uint32_t row = maybe[i - from];
        if (row == MAP_NONE || !is_string(m, f->name, row)) continue;
        uint32_t guess = guess_function(m, f, row);
        if (guess) m->functions[i] = guess + 1;
    }
}

// Whether the target has this string; then its row is noted.
static bool find_string(struct symbols_remap *m, uint32_t row)
{
    str text = m->from->strings[row];
    if (m->strings[row]) return true;
    uint32_t there = text.n ? symbols_string_maybe(m->to, symbols_string_hash(m->to, text)) : 0;
    return there != MAP_NONE && is_string(m, row, there);
}

static void find_mapping(struct symbols_remap *m, uint32_t row)
{
    struct symbol_mapping copy = m->from->mappings[row];
    if (!find_string(m, copy.filename) || !find_string(m, copy.build_id)) return;
    copy.filename = m->strings[copy.filename] - 1;
    copy.build_id = m->strings[copy.build_id] - 1;
    uint32_t there = symbols_find_mapping(m->to, &copy);
    if (there != MAP_NONE) m->mappings[row] = there + 1;
}

// A frame with the target's numbers; false if the target lacks its function or mapping.
static bool translate(const struct symbols_remap *m, uint32_t row, struct symbol_frame *out)
{
    *out = m->from->frames[row];
    uint32_t function = out->function ? m->functions[out->function] : 1;
    uint32_t mapping = out->mapping ? m->mappings[out->mapping] : 1;
    if (function == 0 || mapping == 0) return false;
    out->function = function - 1;
    out->mapping = mapping - 1;
    return true;
}

// Finds frames [from, to) that the target has.
static void find_frames(struct symbols_remap *m, uint32_t from, uint32_t to)
{
    assert(from <= to && to - from <= TOGETHER);
    struct symbol_frame frames[TOGETHER];
    uint32_t rows[TOGETHER];
    uint64_t hashes[TOGETHER];
    uint32_t maybe[TOGETHER];
    uint32_t n = 0;
    for (uint32_t i = from; i < to; i++) {
        if (!translate(m, i, &frames[n])) continue;
        rows[n] = i;
        hashes[n] = symbols_frame_fetch(m->to, &frames[n]);
        n++;
    }
    for (uint32_t i = 0; i < n; i++)
        maybe[i] = symbols_frame_maybe(m->to, hashes[i]);
    for (uint32_t i = 0; i < n; i++) {
        if (maybe[i] == MAP_NONE || !symbols_is_frame(m->to, maybe[i], &frames[i])) continue;
        m->frames[rows[i]] = maybe[i] + 1;
    }
}

void symbols_remap_hint(struct symbols_remap *m, struct symbols_hints *hints)
{
    const struct symbol_table *t = m->from;
    assert(!m->names_only);
    m->hints = hints;
    for (uint32_t from = 1; from < t->function_count; from += TOGETHER)
        find_functions(m, from, MIN(from + TOGETHER, t->function_count));
    for (uint32_t i = 1; i < t->mapping_count; i++)
        find_mapping(m, i);
    for (uint32_t from = 1; from < t->frame_count; from += TOGETHER)
        find_frames(m, from, MIN(from + TOGETHER, t->frame_count));
}

// ---- rows

static bool string(struct symbols_remap *m, uint32_t row, uint32_t *out, err *e)
{
    assert(row < m->from->string_count);
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
    assert(row < m->from->function_count);
    uint32_t *known = &m->functions[row];
    if (*known == 0) {
        const struct symbol_function *f = &m->from->functions[row];
        struct symbol_function copy = {0};
        if (!string(m, f->name, &copy.name, e)) return false;
        uint32_t guess = m->hints ? guess_function(m, f, copy.name) : 0;
        if (guess) {
            *known = guess + 1;
            *out = guess;
            return true;
        }
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
        struct symbols_hints *h = m->hints;
        if (h && !symbols_hint(h, copy.name, added, e)) return false;
    }
    *out = *known - 1;
    return true;
}

static bool mapping(struct symbols_remap *m, uint32_t row, uint32_t *out, err *e)
{
    assert(row < m->from->mapping_count);
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

// The function of a frame of which only the name is kept. A name that has to be made is made once
// for each frame.
static bool name(struct symbols_remap *m, uint32_t row, uint32_t *out, err *e)
{
    if (m->from->strings[m->from->functions[m->from->frames[row].function].name].n > 0)
        return function(m, m->from->frames[row].function, out, e);
    char room[FRAME_NAME_MAX];
    struct symbol_function made = {.name =
                                       symbols_string(m->to, frame_name(m->from, row, room), e)};
    if (made.name == MAP_NONE) return false;
    *out = symbols_function(m->to, made, e);
    return *out != MAP_NONE;
}

static bool frame(struct symbols_remap *m, uint32_t row, uint32_t *out, err *e)
{
    assert(row < m->from->frame_count);
    uint32_t *known = &m->frames[row];
    if (*known == 0) {
        const struct symbol_frame *f = &m->from->frames[row];
        struct symbol_frame copy = {0};
        bool named = m->names_only ? name(m, row, &copy.function, e)
                                   : function(m, f->function, &copy.function, e);
        if (!named) return false;
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

// Without recursion, because a stack may be a million frames deep. On the way up to the first known
// row, the slot of each unknown row in `stacks` notes the child that the walk came from; on the way
// down the notes are replaced by results. After a failure the remaining notes are wiped.
uint32_t symbols_remap_stack(struct symbols_remap *m, uint32_t stack, err *e)
{
    assert(stack < m->from->stack_count);
    const struct symbol_stack *rows = m->from->stacks;
    uint32_t child = 0;
    uint32_t at = stack;
    while (at != 0 && m->stacks[at] == 0) {
        uint32_t up = rows[at].parent;
        assert(up < at);  // parents come first, or this would not end
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
        result = symbols_child(m->to, result, to_frame, e);
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
