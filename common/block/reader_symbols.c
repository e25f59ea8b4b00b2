// SPDX-License-Identifier: Apache-2.0
//
// Symbols of a service: counts, lengths of strings, columns of each table, then the text. Strings
// are front-coded: each begins with a part of the string before it. All is counted and bounded
// before memory for the text is taken.
#include "block/wire_int.h"

struct decoder {
    struct wire w;
    struct arena *a;
    struct symbol_table *t;
    int64_t *column;  // scratch for the longest table
};

static void read_counts(struct decoder *d, uint64_t *bytes)
{
    struct wire *w = &d->w;
    uint64_t stacks = wire_count(w, 2);
    uint64_t frames = wire_u64(w);
    uint64_t mappings = wire_u64(w);
    uint64_t functions = wire_u64(w);
    uint64_t strings = wire_count(w, 2);
    *bytes = wire_u64(w);
    // The writer keeps used rows only. So counts are bounded by each other, and a short column of
    // equal numbers cannot claim much memory.
    if (stacks >= UINT32_MAX || frames > stacks || mappings > frames || functions > frames ||
        strings > 3 * functions + 2 * mappings) {
        wire_fail(w, "there are more rows than are used");
    }
    if (w->fault) return;
    *d->t = (struct symbol_table){.stack_count = (uint32_t)stacks + 1,
                                  .frame_count = (uint32_t)frames + 1,
                                  .mapping_count = (uint32_t)mappings + 1,
                                  .function_count = (uint32_t)functions + 1,
                                  .string_count = (uint32_t)strings + 1};
    struct symbol_table *t = d->t;
    t->strings = ARENA_ARRAY(d->a, str, t->string_count);
    t->functions = ARENA_ARRAY(d->a, struct symbol_function, t->function_count);
    t->mappings = ARENA_ARRAY(d->a, struct symbol_mapping, t->mapping_count);
    t->frames = ARENA_ARRAY(d->a, struct symbol_frame, t->frame_count);
    t->stacks = ARENA_ARRAY(d->a, struct symbol_stack, t->stack_count);
    if (!d->a->exhausted) t->strings[0] = S("");
}

// The lengths, which come before the text: how much each string shares with the one before, and how
// much it adds.
static void read_sizes(struct decoder *d, uint32_t *prefixes, uint64_t bytes)
{
    struct wire *w = &d->w;
    struct symbol_table *t = d->t;
    uint64_t sum = 0;
    uint64_t rest = 0;
    for (uint32_t i = 1; i < t->string_count && !w->fault; i++) {
        uint64_t n = wire_u64(w);
        if (n > bytes) wire_fail(w, "strings are longer than they say");
        prefixes[i] = (uint32_t)n;
    }
    for (uint32_t i = 1; i < t->string_count && !w->fault; i++) {
        uint64_t n = wire_u64(w);
        if (n > bytes || prefixes[i] > t->strings[i - 1].n) {
            wire_fail(w, "a string is longer than they say, or begins with more than there is");
            return;
        }
        t->strings[i].n = (size_t)(prefixes[i] + n);
        sum += t->strings[i].n;
        rest += n;
        if (sum > bytes) wire_fail(w, "strings are longer than they say");
    }
    if (sum != bytes || !block_raw_is_sane(rest, bytes)) {
        wire_fail(w, "strings are not as long as they say");
    }
}

static void read_text(struct decoder *d, const uint32_t *prefixes, char *to, const char *end)
{
    struct symbol_table *t = d->t;
    for (uint32_t i = 1; i < t->string_count && !d->w.fault; i++) {
        str *s = &t->strings[i];
        str rest = wire_bytes(&d->w, s->n - prefixes[i]);
        if (d->w.fault) return;
        s->p = to;
        if (prefixes[i]) memcpy(to, t->strings[i - 1].p, prefixes[i]);
        if (rest.n) memcpy(to + prefixes[i], rest.p, rest.n);
        to += s->n;
        if (!str_utf8(*s)) wire_fail(&d->w, "a string is not valid UTF-8");
    }
    assert(d->w.fault || to == end);  // read_sizes compared the sum
}

// A reference to one of `count` rows, from a column.
static uint32_t row_of(struct decoder *d, int64_t v, uint32_t count)
{
    if (v >= 0 && v < count) return (uint32_t)v;
    wire_fail(&d->w, "a row names a row that is not there");
    return 0;
}

static void read_functions(struct decoder *d)
{
    struct symbol_table *t = d->t;
    for (int c = 0; c < SYMBOL_FUNCTION_COLUMNS && !d->w.fault; c++) {
        wire_numbers(&d->w, d->column, t->function_count - 1);
        for (uint32_t i = 1; i < t->function_count; i++) {
            struct symbol_function *f = &t->functions[i];
            int64_t v = d->column[i - 1];
            if (c == 0) f->name = row_of(d, v, t->string_count);
            if (c == 1 && __builtin_add_overflow(v, (int64_t)f->name, &v)) v = -1;
            if (c == 1) f->system_name = row_of(d, v, t->string_count);
            if (c == 2) f->filename = row_of(d, v, t->string_count);
            if (c == 3) f->start_line = v;
        }
    }
}

static void read_mappings(struct decoder *d)
{
    struct symbol_table *t = d->t;
    for (int c = 0; c < SYMBOL_MAPPING_COLUMNS && !d->w.fault; c++) {
        wire_numbers(&d->w, d->column, t->mapping_count - 1);
        for (uint32_t i = 1; i < t->mapping_count; i++) {
            struct symbol_mapping *m = &t->mappings[i];
            int64_t v = d->column[i - 1];
            if (c == 0) m->start = (uint64_t)v;
            if (c == 1) m->limit = (uint64_t)v;
            if (c == 2) m->offset = (uint64_t)v;
            if (c == 3) m->filename = row_of(d, v, t->string_count);
            if (c == 4) m->build_id = row_of(d, v, t->string_count);
            if (c == 5) m->flags = row_of(d, v, UINT32_MAX);
        }
    }
}

static void read_frames(struct decoder *d, int64_t *last)
{
    struct symbol_table *t = d->t;
    for (int c = 0; c < SYMBOL_FRAME_COLUMNS && !d->w.fault; c++) {
        wire_numbers(&d->w, d->column, t->frame_count - 1);
        for (uint32_t i = 1; i < t->frame_count; i++) {
            struct symbol_frame *f = &t->frames[i];
            int64_t v = d->column[i - 1];
            if (c == 0) f->function = row_of(d, v, t->function_count);
            if (c == 2) f->mapping = row_of(d, v, t->mapping_count);
            if (c == 3) f->address = (uint64_t)v;
            if (c == 4) f->inlined = row_of(d, v, 2);
            if (c != SYMBOL_FRAME_LINE) continue;
            f->line = (int64_t)((uint64_t)v + (uint64_t)last[f->function]);
            last[f->function] = f->line;
        }
    }
}

// A stack's parent is stored as the number of steps up from the stack before it. No walk goes up
// more often than earlier stacks went down, so all walks together take no more steps than there are
// stacks.
static void read_stacks(struct decoder *d)
{
    struct wire *w = &d->w;
    struct symbol_table *t = d->t;
    for (uint32_t i = 1; i < t->stack_count && !w->fault; i++) {
        uint32_t parent = i - 1;
        for (uint64_t up = wire_u64(w); up > 0; up--) {
            if (parent == 0) {
                wire_fail(w, "the parent of a stack is above the root");
                return;
            }
            parent = t->stacks[parent].parent;
        }
        t->stacks[i].parent = parent;
    }
    uint64_t seen = 0;
    for (uint32_t i = 1; i < t->stack_count && !w->fault; i++) {
        uint64_t frame = wire_u64(w);
        if (frame == 0) frame = ++seen;
        if (frame > seen || frame >= t->frame_count) wire_fail(w, "the frame of a stack is none");
        t->stacks[i].frame = (uint32_t)frame;
    }
    if (seen + 1 != t->frame_count) wire_fail(w, "a frame is of no stack");
}

static void read_all(struct decoder *d, struct arena *scratch)
{
    uint64_t bytes = 0;
    read_counts(d, &bytes);
    if (d->w.fault || d->a->exhausted) return;
    struct symbol_table *t = d->t;
    uint32_t longest = MAX(MAX(t->frame_count, t->function_count), t->mapping_count);
    d->column = ARENA_ARRAY(scratch, int64_t, longest);
    int64_t *last = ARENA_ARRAY(scratch, int64_t, t->function_count);
    uint32_t *prefixes = ARENA_ARRAY(scratch, uint32_t, t->string_count);
    if (scratch->exhausted) return;
    read_sizes(d, prefixes, bytes);
    read_functions(d);
    read_mappings(d);
    read_frames(d, last);
    read_stacks(d);
    if (d->w.fault) return;
    char *text = arena_new(d->a, (size_t)bytes);
    if (text) read_text(d, prefixes, text, text + bytes);
}

bool block_symbols_parse(struct arena *a, str contents, struct symbol_table *out, err *e)
{
    struct decoder d = {.w = wire_of(contents), .a = a, .t = out};
    struct arena scratch;
    arena_init(&scratch, a->budget, a->cap - a->used);
    *out = (struct symbol_table){0};
    read_all(&d, &scratch);
    bool ok = arena_ok(a, e) && arena_ok(&scratch, e) && wire_done(&d.w, "symbols", e);
    arena_release(&scratch);
    return ok;
}
