// SPDX-License-Identifier: Apache-2.0
//
// Symbols as a block keeps them. A small service's leaf is mostly symbols, so rows get the numbers
// that make them small: strings in byte order, so that each needs only the part in which it differs
// from the one before; functions in the order of their names; frames in the order in which stacks
// first have them, so that a stack says "the next" as often as not. Two fifths less than message
// Symbols (batch.md) of the same stacks.
#include "block/writer_int.h"

#include <stdlib.h>

// 4 % smaller than at the usual level, which is worth a millisecond for each 10 KB.
#define LEVEL_HIGH      9
#define LEVEL_HIGH_MOST ((size_t)4 << 20)

// Bytes of a number of 32 bits, at most.
#define VARINT_32 ((size_t)5)

struct text {
    str s;
    uint32_t row;
    uint32_t prefix;  // of the string before it
};

struct function {
    struct symbol_function f;  // with new numbers of strings
    uint32_t row;
};

struct encoder {
    const struct symbol_table *t;
    struct buf *out;
    uint32_t *frames;  // new numbers, 0: not used
    uint32_t *frame_rows;
    uint32_t frame_count;  // rows from 1 on, as all counts here
    uint32_t *functions;
    struct function *function_list;
    uint32_t function_count;
    uint32_t *mappings;
    uint32_t *mapping_rows;
    uint32_t mapping_count;
    uint32_t *strings;
    struct text *texts;
    uint32_t string_count;
    int64_t *column;  // scratch for the longest table
};

// ---- numbers
static void number(uint32_t *ids, uint32_t *rows, uint32_t *count, uint32_t row)
{
    if (row == 0 || ids[row]) return;
    ids[row] = ++*count;
    rows[*count] = row;
}

// Tables of a head are seldom in the processor's caches. So each step below only says which rows
// the next one reads, and asks for them.
static inline void use_string(struct encoder *x, uint32_t row)
{
    if (row == 0 || x->strings[row]) return;
    __builtin_prefetch(&x->t->strings[row]);
    x->texts[x->string_count++].row = row;
    x->strings[row] = x->string_count;
}

static inline void use_function(struct encoder *x, uint32_t row)
{
    if (row == 0 || x->functions[row]) return;
    __builtin_prefetch(&x->t->functions[row]);
    x->function_list[x->function_count++].row = row;
    x->functions[row] = x->function_count;
}

// Names first, then files: in the order of first use too, neighbours are then often alike.
static void use_strings(struct encoder *x)
{
    const struct symbol_table *t = x->t;
    for (uint32_t i = 0; i < x->function_count; i++) {
        struct function *one = &x->function_list[i];
        one->f = t->functions[one->row];
        use_string(x, one->f.name);
        if (one->f.system_name != one->f.name) use_string(x, one->f.system_name);
    }
    for (uint32_t i = 0; i < x->function_count; i++)
        use_string(x, x->function_list[i].f.filename);
    for (uint32_t i = 1; i <= x->mapping_count; i++) {
        use_string(x, t->mappings[x->mapping_rows[i]].filename);
        use_string(x, t->mappings[x->mapping_rows[i]].build_id);
    }
    for (uint32_t i = 0; i < x->string_count; i++) {
        struct text *one = &x->texts[i];
        one->s = t->strings[one->row];
        __builtin_prefetch(one->s.p);
    }
}

static int text_order(const void *a, const void *b)
{
    return str_cmp(((const struct text *)a)->s, ((const struct text *)b)->s);
}

static int function_order(const void *a, const void *b)
{
    const struct function *x = a;
    const struct function *y = b;
    if (x->f.name != y->f.name) return x->f.name < y->f.name ? -1 : 1;
    if (x->f.system_name != y->f.system_name) return x->f.system_name < y->f.system_name ? -1 : 1;
    if (x->f.filename != y->f.filename) return x->f.filename < y->f.filename ? -1 : 1;
    if (x->f.start_line != y->f.start_line) return x->f.start_line < y->f.start_line ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static void sort_strings(struct encoder *x)
{
    qsort(x->texts, x->string_count, sizeof *x->texts, text_order);
    for (uint32_t i = 0; i < x->string_count; i++)
        x->strings[x->texts[i].row] = i + 1;
}

static void sort_functions(struct encoder *x)
{
    qsort(x->function_list, x->function_count, sizeof *x->function_list, function_order);
    for (uint32_t i = 0; i < x->function_count; i++)
        x->functions[x->function_list[i].row] = i + 1;
}

static void number_all(struct encoder *x, bool sorted)
{
    const struct symbol_table *t = x->t;
    for (uint32_t i = 1; i < t->stack_count; i++) {
        __builtin_prefetch(&t->frames[t->stacks[i].frame]);
        number(x->frames, x->frame_rows, &x->frame_count, t->stacks[i].frame);
    }
    for (uint32_t i = 1; i <= x->frame_count; i++) {
        const struct symbol_frame *f = &t->frames[x->frame_rows[i]];
        use_function(x, f->function);
        number(x->mappings, x->mapping_rows, &x->mapping_count, f->mapping);
    }
    use_strings(x);
    if (sorted) sort_strings(x);
    for (uint32_t i = 0; i < x->function_count; i++) {
        struct symbol_function *f = &x->function_list[i].f;
        f->name = x->strings[f->name];
        f->system_name = x->strings[f->system_name];
        f->filename = x->strings[f->filename];
    }
    if (sorted) sort_functions(x);
}

// ---- strings: how much of the one before they begin with, and how much follows

// Bytes that two words begin with in common, of which `differ` says the bits in which they do not.
static size_t bytes_before(uint64_t differ)
{
    bool little = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__;
    return (size_t)(little ? __builtin_ctzll(differ) : __builtin_clzll(differ)) / 8;
}

static uint64_t differ_at(str a, str b, size_t at)
{
    uint64_t x = 0;
    uint64_t y = 0;
    memcpy(&x, a.p + at, sizeof x);
    memcpy(&y, b.p + at, sizeof y);
    return x ^ y;
}

// Compares eight bytes at a time. The last eight may overlap the eight before.
static size_t common_prefix(str a, str b)
{
    const size_t word = sizeof(uint64_t);
    size_t most = MIN(a.n, b.n);
    size_t n = 0;
    uint64_t differ = 0;
    if (most < word) {
        while (n < most && a.p[n] == b.p[n])
            n++;
        return n;
    }
    for (; n + word <= most; n += word) {
        differ = differ_at(a, b, n);
        if (differ) return n + bytes_before(differ);
    }
    differ = differ_at(a, b, most - word);
    return differ ? most - word + bytes_before(differ) : most;
}

// Sets the prefix of each string; all 0 if a reader would refuse so much growth
// (block_raw_is_sane). Returns the size of the strings without their prefixes.
static uint64_t find_prefixes(struct encoder *x, uint64_t *bytes)
{
    uint64_t rest = 0;
    *bytes = 0;
    for (uint32_t i = 0; i < x->string_count; i++) {
        struct text *one = &x->texts[i];
        if (i > 0) one->prefix = (uint32_t)common_prefix(x->texts[i - 1].s, one->s);
        rest += one->s.n - one->prefix;
        *bytes += one->s.n;
    }
    if (block_raw_is_sane(rest, *bytes)) return rest;
    for (uint32_t i = 0; i < x->string_count; i++)
        x->texts[i].prefix = 0;
    return *bytes;
}

// Reserves room for n numbers of 32 bits at the end. After writing them the caller passes the end
// to put_end.
static uint8_t *put_begin(struct buf *out, size_t n)
{
    return n ? (uint8_t *)buf_reserve(out, n * VARINT_32) : NULL;
}

static void put_end(struct buf *out, const uint8_t *at)
{
    if (at) out->n = (size_t)((const char *)at - out->p);
}

static void put_strings(struct encoder *x)
{
    uint8_t *at = put_begin(x->out, 2 * (size_t)x->string_count);
    for (uint32_t i = 0; at && i < x->string_count; i++)
        at += varint_put(at, x->texts[i].prefix);
    for (uint32_t i = 0; at && i < x->string_count; i++)
        at += varint_put(at, x->texts[i].s.n - x->texts[i].prefix);
    put_end(x->out, at);
}

// Sixteen bytes at a time, of which the last may overlap those before: most names are so short that
// the call of memcpy took longer than the copy.
static inline void copy_text(char *to, const char *from, size_t n)
{
    enum {
        PIECE = 16
    };
    if (n < PIECE) {
        for (size_t i = 0; i < n; i++)
            to[i] = from[i];
        return;
    }
    for (size_t i = 0; i + PIECE < n; i += PIECE)
        memcpy(to + i, from + i, PIECE);
    memcpy(to + n - PIECE, from + n - PIECE, PIECE);
}

static void put_text(struct encoder *x, uint64_t rest)
{
    char *at = rest ? buf_reserve(x->out, (size_t)rest) : NULL;
    for (uint32_t i = 0; at && i < x->string_count; i++) {
        const struct text *one = &x->texts[i];
        size_t n = one->s.n - one->prefix;
        copy_text(at, one->s.p + one->prefix, n);
        at += n;
    }
    if (at) x->out->n += (size_t)rest;
}

// ---- columns
static void put_functions(struct encoder *x)
{
    const struct function *v = x->function_list;
    const uint32_t n = x->function_count;
    for (uint32_t i = 0; i < n; i++)
        x->column[i] = v[i].f.name;
    wire_put_numbers(x->out, x->column, n);
    for (uint32_t i = 0; i < n; i++)
        x->column[i] = (int64_t)v[i].f.system_name - v[i].f.name;
    wire_put_numbers(x->out, x->column, n);
    for (uint32_t i = 0; i < n; i++)
        x->column[i] = v[i].f.filename;
    wire_put_numbers(x->out, x->column, n);
    for (uint32_t i = 0; i < n; i++)
        x->column[i] = v[i].f.start_line;
    wire_put_numbers(x->out, x->column, n);
}

static int64_t of_mapping(const struct encoder *x, const struct symbol_mapping *m, int column)
{
    switch (column) {
    case 0:
        return (int64_t)m->start;
    case 1:
        return (int64_t)m->limit;
    case 2:
        return (int64_t)m->offset;
    case 3:
        return x->strings[m->filename];
    case 4:
        return x->strings[m->build_id];
    default:
        return m->flags;
    }
}

static void put_mappings(struct encoder *x)
{
    for (int c = 0; c < SYMBOL_MAPPING_COLUMNS; c++) {
        for (uint32_t i = 0; i < x->mapping_count; i++)
            x->column[i] = of_mapping(x, &x->t->mappings[x->mapping_rows[i + 1]], c);
        wire_put_numbers(x->out, x->column, x->mapping_count);
    }
}

// A line is written as the difference to the last frame of the same function (`last`, by function),
// modulo 2^64.
static void put_lines(struct encoder *x, int64_t *last)
{
    for (uint32_t i = 0; i < x->frame_count; i++) {
        const struct symbol_frame *f = &x->t->frames[x->frame_rows[i + 1]];
        uint32_t function = x->functions[f->function];
        x->column[i] = (int64_t)((uint64_t)f->line - (uint64_t)last[function]);
        last[function] = f->line;
    }
    wire_put_numbers(x->out, x->column, x->frame_count);
}

static void put_frames(struct encoder *x, int64_t *last)
{
    const struct symbol_frame *frames = x->t->frames;
    const uint32_t *rows = x->frame_rows + 1;
    const uint32_t n = x->frame_count;
    for (uint32_t i = 0; i < n; i++)
        x->column[i] = x->functions[frames[rows[i]].function];
    wire_put_numbers(x->out, x->column, n);
    put_lines(x, last);
    for (uint32_t i = 0; i < n; i++)
        x->column[i] = x->mappings[frames[rows[i]].mapping];
    wire_put_numbers(x->out, x->column, n);
    for (uint32_t i = 0; i < n; i++)
        x->column[i] = (int64_t)frames[rows[i]].address;
    wire_put_numbers(x->out, x->column, n);
    for (uint32_t i = 0; i < n; i++)
        x->column[i] = frames[rows[i]].inlined;
    wire_put_numbers(x->out, x->column, n);
}

// Of each stack how many steps up from the one before its parent is; then its frame, 0 if that is
// the next which no stack had so far.
static void put_stacks(struct encoder *x)
{
    const struct symbol_table *t = x->t;
    uint8_t *to = put_begin(x->out, 2 * (size_t)(t->stack_count - 1));
    for (uint32_t i = 1; to && i < t->stack_count; i++) {
        uint32_t up = 0;
        for (uint32_t at = i - 1; at != t->stacks[i].parent; at = t->stacks[at].parent)
            up++;
        to += varint_put(to, up);
    }
    uint32_t seen = 0;
    for (uint32_t i = 1; to && i < t->stack_count; i++) {
        uint32_t frame = x->frames[t->stacks[i].frame];
        to += varint_put(to, frame == seen + 1 ? 0 : frame);
        seen = MAX(seen, frame);
    }
    put_end(x->out, to);
}

bool writer_symbols(const struct symbol_table *t, bool sorted, struct arena *scratch,
                    struct buf *out, struct writer_contents *c, err *e)
{
    uint32_t longest = MAX(MAX(t->frame_count, t->function_count), t->mapping_count);
    struct encoder x = {.t = t,
                        .out = out,
                        .frames = ARENA_ARRAY(scratch, uint32_t, t->frame_count),
                        .frame_rows = ARENA_ARRAY(scratch, uint32_t, t->frame_count),
                        .functions = ARENA_ARRAY(scratch, uint32_t, t->function_count),
                        .function_list = ARENA_ARRAY(scratch, struct function, t->function_count),
                        .mappings = ARENA_ARRAY(scratch, uint32_t, t->mapping_count),
                        .mapping_rows = ARENA_ARRAY(scratch, uint32_t, t->mapping_count),
                        .strings = ARENA_ARRAY(scratch, uint32_t, t->string_count),
                        .texts = ARENA_ARRAY(scratch, struct text, t->string_count),
                        .column = ARENA_ARRAY(scratch, int64_t, longest)};
    int64_t *last = ARENA_ARRAY(scratch, int64_t, t->function_count);
    if (!arena_ok(scratch, e)) return false;
    number_all(&x, sorted);
    uint64_t bytes = 0;
    uint64_t rest = find_prefixes(&x, &bytes);
    wire_put_u64(out, t->stack_count - 1);
    wire_put_u64(out, x.frame_count);
    wire_put_u64(out, x.mapping_count);
    wire_put_u64(out, x.function_count);
    wire_put_u64(out, x.string_count);
    wire_put_u64(out, bytes);
    put_strings(&x);
    put_functions(&x);
    put_mappings(&x);
    put_frames(&x, last);
    put_stacks(&x);
    c->splits[0] = out->n;
    put_text(&x, rest);
    c->bytes = buf_view(out);
    c->level = out->n <= LEVEL_HIGH_MOST ? LEVEL_HIGH : 0;
    return buf_ok(out, e);
}
