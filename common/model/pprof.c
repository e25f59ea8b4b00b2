// SPDX-License-Identifier: Apache-2.0
//
// pprof.c - in four steps: (1) the sums of stacks, after truncation; (2) locations, as unique
// chains of frames; (3) numbers for the rows in use; (4) the message, field by field.
#include "model/pprof.h"

#include "base/hash.h"
#include "base/map.h"
#include "codec/pb.h"
#include "model/marks.h"
#include "model/tree_int.h"
#include "model/vector.h"

// Strings that may not be in the table: "", four of the header, "other", "[unknown]".
#define STRINGS_OUTSIDE 7

struct exporter {
    struct arena *arena;
    const struct symbol_table *t;
    const struct pprof_options *options;
    struct buf *out;

    int64_t *sums;    // of each stack, as exported
    int64_t *others;  // by stack: the sums of truncated stacks below it; NULL without truncation
    bool *needed;     // stacks with either sum, and their ancestors

    // A chain is a location's frames from the outermost to one of its inlined ones.
    uint32_t *chain_of;  // of each needed stack: the chain that ends with its frame
    uint32_t *caller;    // of each needed stack: the stack above its chain
    struct chain {
        uint32_t outer;  // the chain without its last frame; 0 = that was the outermost
        uint32_t base;   // outermost frame, which has the location's address and mapping
        uint32_t frame;
        uint32_t id;  // of the location; 0 = no sample's location ends here
    } * chains;       // from 1
    uint32_t chain_count;
    uint32_t location_count;

    uint32_t *function_ids;
    uint32_t *mapping_ids;
    uint32_t function_count;
    uint32_t mapping_count;

    uint32_t *string_ids;  // of rows; 0 = none yet
    str *strings;          // by id
    uint32_t string_count;
};

// ---- 1: sums

// A stack of a removed node gives its sum to the deepest of its ancestors whose node is kept.
static bool truncate(struct exporter *x, const int64_t *sums, const bool *selected, err *e)
{
    const struct symbol_table *t = x->t;
    struct arena *a = x->arena;
    struct tree tree;
    uint32_t *node_of = NULL;
    if (!tree_map(a, t, sums, selected, &tree, &node_of, e)) return false;
    int64_t *sizes = ARENA_ARRAY(a, int64_t, tree.count);
    uint32_t *kept = ARENA_ARRAY(a, uint32_t, t->stack_count);
    x->others = ARENA_ARRAY(a, int64_t, t->stack_count);
    int64_t *carries = ARENA_ARRAY(a, int64_t, t->stack_count);  // of others (model/wide.h)
    if (!sizes || !kept || !x->others || !carries) return arena_fail(a, e);
    for (uint32_t i = 0; i < tree.count; i++)
        sizes[i] = tree.nodes[i].total;
    const bool *keep = tree_keep(a, &tree, sizes, x->options->max_nodes);
    if (!keep) return arena_fail(a, e);
    // Parents come before children, so the nearest kept ancestor of a parent is known already. The
    // root's node is always kept, so stack 0 is, and the search ends there.
    for (uint32_t i = 0; i < t->stack_count; i++) {
        kept[i] = keep[node_of[i]] ? i : kept[t->stacks[i].parent];
        if (!selected[i]) continue;
        if (kept[i] == i)
            x->sums[i] = sums[i];
        else
            wide_add_to(&x->others[kept[i]], &carries[kept[i]], sums[i]);
    }
    // Parts of a total that fits need not fit, as values may be negative.
    struct tree_shown shown = {.all = tree.count - 1, .total = (double)tree.nodes[0].total};
    for (uint32_t i = 0; i < t->stack_count; i++) {
        shown.clipped = shown.clipped || carries[i] != 0;
        x->others[i] = wide_clip((struct wide){x->others[i], carries[i]});
        shown.hidden += (double)x->others[i];
    }
    for (uint32_t i = 1; i < tree.count; i++)
        shown.sent += keep[i];
    if (x->options->shown) *x->options->shown = shown;
    return true;
}

// Fills sums, others and needed; *any tells whether there is a sample.
static bool choose(struct exporter *x, const int64_t *sums, bool *any, err *e)
{
    const struct pprof_options *o = x->options;
    uint32_t count = x->t->stack_count;
    bool *selected = tree_select(x->arena, x->t, sums, o->call_site, o->call_site_count);
    x->sums = ARENA_ARRAY(x->arena, int64_t, count);
    x->needed = ARENA_ARRAY(x->arena, bool, count);
    if (!selected || !x->sums || !x->needed) return arena_fail(x->arena, e);
    if (o->max_nodes > 0) {
        if (!truncate(x, sums, selected, e)) return false;
    } else {
        for (uint32_t i = 0; i < count; i++)
            x->sums[i] = selected[i] ? sums[i] : 0;
    }
    for (uint32_t i = 0; i < count; i++) {
        x->needed[i] = x->sums[i] != 0 || (x->others && x->others[i] != 0);
        *any = *any || x->needed[i];
    }
    return true;
}

// ---- 2: locations

struct chain_index {
    uint32_t *slots;  // open addressing over (outer, frame): chain, 0 = free
    uint32_t mask;
};

static uint32_t chain(struct exporter *x, struct chain_index *index, uint32_t outer, uint32_t frame)
{
    uint64_t hash = hash_table_word((uint64_t)outer << 32 | frame);
    uint32_t at = (uint32_t)(hash >> 32) & index->mask;
    for (; index->slots[at]; at = (at + 1) & index->mask) {
        const struct chain *c = &x->chains[index->slots[at]];
        map_stepped();
        if (c->outer == outer && c->frame == frame) return index->slots[at];
    }
    uint32_t id = ++x->chain_count;
    assert(id < x->t->stack_count && outer < id);
    x->chains[id] = (struct chain){.outer = outer,
                                   .base = outer ? x->chains[outer].base : frame,
                                   .frame = frame};
    index->slots[at] = id;
    return id;
}

static bool make_chains(struct exporter *x)
{
    const struct symbol_table *t = x->t;
    size_t most = 0;
    for (uint32_t i = 1; i < t->stack_count; i++)
        most += x->needed[i];
    uint32_t size = 16;
    while (size / 2 < most && size < 1u << 31)
        size *= 2;
    struct chain_index index = {ARENA_ARRAY(x->arena, uint32_t, size), size - 1};
    x->chains = ARENA_ARRAY(x->arena, struct chain, most + 1);
    x->chain_of = ARENA_ARRAY(x->arena, uint32_t, t->stack_count);
    x->caller = ARENA_ARRAY(x->arena, uint32_t, t->stack_count);
    if (!index.slots || !x->chains || !x->chain_of || !x->caller) return false;
    for (uint32_t i = 1; i < t->stack_count; i++) {
        if (!x->needed[i]) continue;
        uint32_t parent = t->stacks[i].parent;
        uint32_t frame = t->stacks[i].frame;
        // pprof has inlined calls as lines of one location, so their frames form a chain with the
        // frame that they were inlined into.
        bool inlined = parent != 0 && t->frames[frame].inlined;
        x->chain_of[i] = chain(x, &index, inlined ? x->chain_of[parent] : 0, frame);
        x->caller[i] = inlined ? x->caller[parent] : parent;
        // A location ends where a sample does and where the next one begins.
        if (x->sums[i] != 0 || (x->others && x->others[i] != 0)) x->chains[x->chain_of[i]].id = 1;
        if (!inlined && parent != 0) x->chains[x->chain_of[parent]].id = 1;
    }
    return true;
}

// ---- 3: numbers

// Replaces marks by ids from 1; returns how many there are.
static uint32_t number(uint32_t *marks, uint32_t count)
{
    uint32_t last = 0;
    marks[0] = 0;
    for (uint32_t i = 1; i < count; i++)
        marks[i] = marks[i] ? ++last : 0;
    return last;
}

static bool number_rows(struct exporter *x)
{
    const struct symbol_table *t = x->t;
    x->function_ids = ARENA_ARRAY(x->arena, uint32_t, t->function_count);
    x->mapping_ids = ARENA_ARRAY(x->arena, uint32_t, t->mapping_count);
    x->string_ids = ARENA_ARRAY(x->arena, uint32_t, t->string_count);
    x->strings = ARENA_ARRAY(x->arena, str, (size_t)t->string_count + STRINGS_OUTSIDE);
    if (!x->function_ids || !x->mapping_ids || !x->string_ids || !x->strings) return false;
    for (uint32_t i = 1; i <= x->chain_count; i++) {
        struct chain *c = &x->chains[i];
        x->function_ids[t->frames[c->frame].function] = 1;
        x->mapping_ids[t->frames[c->base].mapping] = 1;
        assert(c->outer < i);
        c->id = c->id ? ++x->location_count : 0;
    }
    x->function_count = number(x->function_ids, t->function_count);
    x->mapping_count = number(x->mapping_ids, t->mapping_count);
    x->string_count = 1;  // ""
    return true;
}

static void add_string(struct exporter *x, str text)
{
    assert(x->string_count < x->t->string_count + STRINGS_OUTSIDE);
    x->strings[x->string_count++] = text;
}

// The id of a string that may not be in the table (header, "other"); such strings come first.
static uint32_t string(struct exporter *x, str text)
{
    for (uint32_t i = 0; i < x->string_count; i++) {
        if (str_eq(x->strings[i], text)) return i;
    }
    add_string(x, text);
    return x->string_count - 1;
}

// The id of a string of the table. `outside` is the number of strings that were added before any of
// the table's: one of them may be the same text, and the message has each text once.
static uint32_t string_row(struct exporter *x, uint32_t row, uint32_t outside)
{
    str text = x->t->strings[row];
    if (text.n == 0) return 0;
    if (x->string_ids[row] == 0) {
        for (uint32_t i = 1; i < outside; i++) {
            if (str_eq(x->strings[i], text)) return i;
        }
        x->string_ids[row] = x->string_count;
        add_string(x, text);
    }
    return x->string_ids[row];
}

// ---- 4: the message

static void put_type(struct exporter *x, uint32_t field, uint32_t type, uint32_t unit)
{
    size_t mark = pb_begin(x->out, field);
    pb_put_u64_opt(x->out, 1, type);
    pb_put_u64_opt(x->out, 2, unit);
    pb_end(x->out, mark);
}

static void put_sample(struct exporter *x, uint32_t stack, bool other, int64_t value)
{
    size_t mark = pb_begin(x->out, 2);
    if (stack || other) {
        size_t ids = pb_begin(x->out, 1);
        if (other) pb_put_varint(x->out, x->location_count + 1);
        for (; stack; stack = x->caller[stack]) {
            uint32_t location = x->chains[x->chain_of[stack]].id;
            assert(location > 0 && x->caller[stack] < stack);
            pb_put_varint(x->out, location);
        }
        pb_end(x->out, ids);
    }
    size_t values = pb_begin(x->out, 2);
    pb_put_varint(x->out, (uint64_t)value);
    pb_end(x->out, values);
    pb_end(x->out, mark);
}

static bool put_samples(struct exporter *x)
{
    bool others = false;
    for (uint32_t i = 0; i < x->t->stack_count && !x->out->failed; i++) {
        if (x->sums[i] != 0) put_sample(x, i, false, x->sums[i]);
        if (!x->others || x->others[i] == 0) continue;
        put_sample(x, i, true, x->others[i]);
        others = true;
    }
    return others;
}

static void put_mappings(struct exporter *x, uint32_t outside)
{
    static const uint32_t flags[] = {SYMBOL_HAS_FUNCTIONS, SYMBOL_HAS_FILENAMES,
                                     SYMBOL_HAS_LINE_NUMBERS, SYMBOL_HAS_INLINE_FRAMES};
    for (uint32_t i = 1; i < x->t->mapping_count; i++) {
        if (!x->mapping_ids[i]) continue;
        const struct symbol_mapping *m = &x->t->mappings[i];
        size_t mark = pb_begin(x->out, 3);
        pb_put_u64(x->out, 1, x->mapping_ids[i]);
        pb_put_u64_opt(x->out, 2, m->start);
        pb_put_u64_opt(x->out, 3, m->limit);
        pb_put_u64_opt(x->out, 4, m->offset);
        pb_put_u64_opt(x->out, 5, string_row(x, m->filename, outside));
        pb_put_u64_opt(x->out, 6, string_row(x, m->build_id, outside));
        for (uint32_t f = 0; f < COUNT(flags); f++)
            pb_put_u64_opt(x->out, 7 + f, (m->flags & flags[f]) != 0);
        pb_end(x->out, mark);
    }
}

static void put_line(struct exporter *x, uint32_t function, int64_t line)
{
    size_t mark = pb_begin(x->out, 4);
    pb_put_u64_opt(x->out, 1, function);
    pb_put_i64_opt(x->out, 2, line);
    pb_end(x->out, mark);
}

// Whether a location has lines: one frame without a function has none, it is an address that was
// not symbolised. Of several frames each is a line, and pprof demands that each line has a
// function.
static bool has_lines(const struct exporter *x, uint32_t chain)
{
    const struct chain *c = &x->chains[chain];
    return c->outer != 0 || x->t->frames[c->frame].function != 0;
}

// Whether a line of some location has no function.
static bool needs_unknown(const struct exporter *x)
{
    for (uint32_t i = 1; i <= x->chain_count; i++) {
        if (!x->chains[i].id || !has_lines(x, i)) continue;
        for (uint32_t at = i; at; at = x->chains[at].outer) {
            if (x->t->frames[x->chains[at].frame].function == 0) return true;
        }
    }
    return false;
}

static uint32_t unknown_function(const struct exporter *x)
{
    return x->function_count + 2;  // behind "other"
}

static void put_locations(struct exporter *x)
{
    for (uint32_t i = 1; i <= x->chain_count; i++) {
        const struct chain *c = &x->chains[i];
        if (!c->id) continue;
        const struct symbol_frame *base = &x->t->frames[c->base];
        size_t mark = pb_begin(x->out, 4);
        pb_put_u64(x->out, 1, c->id);
        pb_put_u64_opt(x->out, 2, x->mapping_ids[base->mapping]);
        pb_put_u64_opt(x->out, 3, base->address);
        for (uint32_t at = has_lines(x, i) ? i : 0; at; at = x->chains[at].outer) {
            const struct symbol_frame *f = &x->t->frames[x->chains[at].frame];
            put_line(x, f->function ? x->function_ids[f->function] : unknown_function(x), f->line);
        }
        pb_end(x->out, mark);
    }
}

static void put_functions(struct exporter *x, uint32_t outside)
{
    for (uint32_t i = 1; i < x->t->function_count; i++) {
        if (!x->function_ids[i]) continue;
        const struct symbol_function *f = &x->t->functions[i];
        size_t mark = pb_begin(x->out, 5);
        pb_put_u64(x->out, 1, x->function_ids[i]);
        pb_put_u64_opt(x->out, 2, string_row(x, f->name, outside));
        pb_put_u64_opt(x->out, 3, string_row(x, f->system_name, outside));
        pb_put_u64_opt(x->out, 4, string_row(x, f->filename, outside));
        pb_put_i64_opt(x->out, 5, f->start_line);
        pb_end(x->out, mark);
    }
}

static void put_other_location(struct exporter *x)
{
    size_t mark = pb_begin(x->out, 4);
    pb_put_u64(x->out, 1, x->location_count + 1);
    pb_put_u64_opt(x->out, 2, x->mapping_count > 0);
    put_line(x, x->function_count + 1, 0);
    pb_end(x->out, mark);
}

static void put_own_function(struct exporter *x, uint32_t id, uint32_t name)
{
    size_t mark = pb_begin(x->out, 5);
    pb_put_u64(x->out, 1, id);
    pb_put_u64(x->out, 2, name);
    pb_put_u64(x->out, 3, name);
    pb_end(x->out, mark);
}

static void put_profile(struct exporter *x)
{
    const struct pprof_header *h = &x->options->header;
    uint32_t sample_type = string(x, h->sample_type);
    uint32_t sample_unit = string(x, h->sample_unit);
    uint32_t period_type = string(x, h->period_type);
    uint32_t period_unit = string(x, h->period_unit);
    put_type(x, 1, sample_type, sample_unit);
    // Strings of header and own functions first: string_row compares rows of the table with these
    // only.
    bool others = put_samples(x);
    bool unknowns = needs_unknown(x);
    uint32_t other = others ? string(x, S(TREE_OTHER)) : 0;
    uint32_t unknown = unknowns ? string(x, S(STACK_UNKNOWN_NAME)) : 0;
    uint32_t outside = x->string_count;
    put_mappings(x, outside);
    put_locations(x);
    if (others) put_other_location(x);
    put_functions(x, outside);
    if (others) put_own_function(x, x->function_count + 1, other);
    if (unknowns) put_own_function(x, unknown_function(x), unknown);
    for (uint32_t i = 0; i < x->string_count; i++)
        pb_put_bytes(x->out, 6, x->strings[i]);
    pb_put_i64_opt(x->out, 9, h->time_ns);
    pb_put_i64_opt(x->out, 10, h->duration_ns);
    if (period_type || period_unit) put_type(x, 11, period_type, period_unit);
    pb_put_i64_opt(x->out, 12, h->period);
    pb_put_u64_opt(x->out, 14, sample_type);
}

bool pprof_encode(struct arena *a, const struct symbol_table *t, const int64_t *sums,
                  const struct pprof_options *o, struct buf *out, err *e)
{
    struct exporter x = {.arena = a, .t = t, .options = o, .out = out};
    bool any = false;
    if (!choose(&x, sums, &any, e)) return false;
    if (!any) return true;
    symbols_mark_ancestors(t, x.needed);
    if (!make_chains(&x) || !number_rows(&x)) return arena_fail(a, e);
    put_profile(&x);
    return buf_ok(out, e);
}
