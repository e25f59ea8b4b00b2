// SPDX-License-Identifier: Apache-2.0
//
// symbols_wire.c - message Symbols: tables as columns of packed numbers. There are two writers: one
// leaves rows out and renumbers the others; one writes tables as they are, which is every batch of
// a distributor, and asks for the kind of a column once, not for each row. The reader counts rows
// first, so that each table is allocated once and each reference is checked when it is read.
#include "codec/pb.h"
#include "model/symbols.h"

// Message Symbols, byte for byte in docs/formats/batch.md. One row here is one column there; writer
// and reader both walk this list.
#define FIELD_STRINGS 1
#define FIELD_FIRST   2
#define FIELD_LAST    18

enum table {
    STRINGS,
    FUNCTIONS,
    MAPPINGS,
    FRAMES,
    STACKS,
    TABLES
};

enum kind {
    REF,     // a row of another table
    PARENT,  // row - parent
    NUMBER,  // unsigned, 64 bits
    SIGNED,  // zigzag, 64 bits
    FLAGS,   // unsigned, 32 bits
    FLAG,    // 0 or 1
};

struct column {
    const char *name;
    size_t offset;
    enum table table;
    enum kind kind;
    enum table ref;
    bool always;  // written even if it is all zero: it tells the number of rows
};

static const struct column columns[FIELD_LAST - FIELD_FIRST + 1] = {
    {"function_name", offsetof(struct symbol_function, name), FUNCTIONS, REF, STRINGS, true},
    {"function_system_name", offsetof(struct symbol_function, system_name), FUNCTIONS, REF, STRINGS,
     false},
    {"function_filename", offsetof(struct symbol_function, filename), FUNCTIONS, REF, STRINGS,
     false},
    {"function_start_line", offsetof(struct symbol_function, start_line), FUNCTIONS, SIGNED, TABLES,
     false},
    {"mapping_start", offsetof(struct symbol_mapping, start), MAPPINGS, NUMBER, TABLES, true},
    {"mapping_limit", offsetof(struct symbol_mapping, limit), MAPPINGS, NUMBER, TABLES, false},
    {"mapping_offset", offsetof(struct symbol_mapping, offset), MAPPINGS, NUMBER, TABLES, false},
    {"mapping_filename", offsetof(struct symbol_mapping, filename), MAPPINGS, REF, STRINGS, false},
    {"mapping_build_id", offsetof(struct symbol_mapping, build_id), MAPPINGS, REF, STRINGS, false},
    {"mapping_flags", offsetof(struct symbol_mapping, flags), MAPPINGS, FLAGS, TABLES, false},
    {"frame_function", offsetof(struct symbol_frame, function), FRAMES, REF, FUNCTIONS, true},
    {"frame_line", offsetof(struct symbol_frame, line), FRAMES, SIGNED, TABLES, false},
    {"frame_mapping", offsetof(struct symbol_frame, mapping), FRAMES, REF, MAPPINGS, false},
    {"frame_address", offsetof(struct symbol_frame, address), FRAMES, NUMBER, TABLES, false},
    {"frame_inlined", offsetof(struct symbol_frame, inlined), FRAMES, FLAG, TABLES, false},
    {"stack_parent_delta", offsetof(struct symbol_stack, parent), STACKS, PARENT, STACKS, true},
    {"stack_frame", offsetof(struct symbol_stack, frame), STACKS, REF, FRAMES, true},
};

struct rows {
    char *at;
    size_t size;
    uint32_t count;  // row 0 included
    uint32_t first;  // the number of row 1; above 1 if the table continues another
};

// The number of a row, counted from the table that this one continues.
static uint32_t number_of(const struct rows *r, uint32_t row)
{
    return r->first + row - 1;
}

static const struct symbol_counts none_had = {1, 1, 1, 1, 1};

static void rows_of(const struct symbol_table *t, const struct symbol_counts *had,
                    struct rows rows[TABLES])
{
    rows[STRINGS] =
        (struct rows){(char *)t->strings, sizeof *t->strings, t->string_count, had->strings};
    rows[FUNCTIONS] = (struct rows){(char *)t->functions, sizeof *t->functions, t->function_count,
                                    had->functions};
    rows[MAPPINGS] =
        (struct rows){(char *)t->mappings, sizeof *t->mappings, t->mapping_count, had->mappings};
    rows[FRAMES] = (struct rows){(char *)t->frames, sizeof *t->frames, t->frame_count, had->frames};
    rows[STACKS] = (struct rows){(char *)t->stacks, sizeof *t->stacks, t->stack_count, had->stacks};
}

// ---- writing

struct encoder {
    struct rows rows[TABLES];
    uint32_t *ids[TABLES];  // new number of each row, 0 = left out; NULL: every row keeps its own
    struct buf *out;
};

static uint32_t id_of(const struct encoder *x, enum table table, uint32_t row)
{
    return x->ids[table] ? x->ids[table][row] : row;
}

// Replaces marks by numbers.
static void give_numbers(uint32_t *ids, uint32_t count)
{
    uint32_t next = 1;
    ids[0] = 0;
    for (uint32_t i = 1; i < count; i++)
        ids[i] = ids[i] ? next++ : 0;
}

// Marks the rows that used stacks need, from stacks down to strings, and numbers them. A row needs
// rows of the tables below it only, so one pass for each table is enough.
static bool renumber(struct encoder *x, const struct symbol_table *t, const bool *used,
                     struct arena *a)
{
    for (size_t i = 0; i < TABLES; i++) {
        x->ids[i] = ARENA_ARRAY(a, uint32_t, x->rows[i].count);
        if (!x->ids[i]) return false;
    }
    // From the last row on: parents come before children, so each ancestor is marked in time.
    uint32_t *stacks = x->ids[STACKS];
    for (uint32_t i = t->stack_count; i-- > 1;) {
        if (!used[i] && !stacks[i]) continue;
        stacks[i] = 1;
        stacks[t->stacks[i].parent] = 1;
        x->ids[FRAMES][t->stacks[i].frame] = 1;
    }
    for (uint32_t i = 1; i < t->frame_count; i++) {
        if (!x->ids[FRAMES][i]) continue;
        x->ids[FUNCTIONS][t->frames[i].function] = 1;
        x->ids[MAPPINGS][t->frames[i].mapping] = 1;
    }
    uint32_t *strings = x->ids[STRINGS];
    for (uint32_t i = 1; i < t->function_count; i++) {
        if (!x->ids[FUNCTIONS][i]) continue;
        strings[t->functions[i].name] = 1;
        strings[t->functions[i].system_name] = 1;
        strings[t->functions[i].filename] = 1;
    }
    for (uint32_t i = 1; i < t->mapping_count; i++) {
        if (!x->ids[MAPPINGS][i]) continue;
        strings[t->mappings[i].filename] = 1;
        strings[t->mappings[i].build_id] = 1;
    }
    for (size_t i = 0; i < TABLES; i++)
        give_numbers(x->ids[i], x->rows[i].count);
    return true;
}

static uint64_t value_of(const struct encoder *x, const struct column *c, uint32_t row)
{
    const struct rows *r = &x->rows[c->table];
    const char *at = r->at + row * r->size + c->offset;
    uint64_t wide = 0;
    uint32_t narrow = 0;
    switch (c->kind) {
    case REF:
        memcpy(&narrow, at, sizeof narrow);
        return id_of(x, c->ref, narrow);
    case PARENT:
        memcpy(&narrow, at, sizeof narrow);
        return id_of(x, STACKS, row) - id_of(x, STACKS, narrow);
    case NUMBER:
        memcpy(&wide, at, sizeof wide);
        return wide;
    case SIGNED:
        memcpy(&wide, at, sizeof wide);
        return zigzag((int64_t)wide);
    case FLAGS:
        memcpy(&narrow, at, sizeof narrow);
        return narrow;
    case FLAG:
        return *(const bool *)at;
    }
    assert(!"kind of column");
    return 0;
}

// A column of zeros is left out: readers take it for that.
static bool is_zero(const struct encoder *x, const struct column *c)
{
    for (uint32_t i = 1; i < x->rows[c->table].count; i++) {
        if (id_of(x, c->table, i) && value_of(x, c, i) != 0) return false;
    }
    return true;
}

static void put_column(const struct encoder *x, uint32_t field, const struct column *c)
{
    if (!c->always && is_zero(x, c)) return;
    size_t mark = 0;
    bool begun = false;
    for (uint32_t i = 1; i < x->rows[c->table].count; i++) {
        if (!id_of(x, c->table, i)) continue;
        if (!begun) mark = pb_begin(x->out, field);
        begun = true;
        pb_put_varint(x->out, value_of(x, c, i));
    }
    if (begun) pb_end(x->out, mark);
}

// ---- writing tables as they are

#define BLOCK 128  // rows that are put together before they are written

static uint64_t wide_at(const char *at)
{
    uint64_t v = 0;
    memcpy(&v, at, sizeof v);
    return v;
}

static uint32_t narrow_at(const char *at)
{
    uint32_t v = 0;
    memcpy(&v, at, sizeof v);
    return v;
}

static bool all_zero(const struct rows *r, const struct column *c)
{
    uint64_t any = 0;
    const char *at = r->at + r->size + c->offset;
    for (uint32_t i = 1; i < r->count; i++, at += r->size) {
        bool wide = c->kind == NUMBER || c->kind == SIGNED;
        any |= c->kind == FLAG ? *(const bool *)at : wide ? wide_at(at) : narrow_at(at);
    }
    return any == 0;
}

// Writes n rows from `row` on; returns the place behind them.
static uint8_t *put_rows(uint8_t *to, const struct rows *r, const struct column *c, uint32_t row,
                         uint32_t n)
{
    const char *at = r->at + row * r->size + c->offset;
    const char *end = at + n * r->size;
    uint32_t number = number_of(r, row);
    switch (c->kind) {
    case REF:
    case FLAGS:
        for (; at < end; at += r->size)
            to += varint_put(to, narrow_at(at));
        break;
    case PARENT:
        for (; at < end; at += r->size)
            to += varint_put(to, number++ - narrow_at(at));
        break;
    case NUMBER:
        for (; at < end; at += r->size)
            to += varint_put(to, wide_at(at));
        break;
    case SIGNED:
        for (; at < end; at += r->size)
            to += varint_put(to, zigzag((int64_t)wide_at(at)));
        break;
    case FLAG:
        for (; at < end; at += r->size)
            *to++ = *(const bool *)at;
        break;
    }
    return to;
}

static void put_whole_column(const struct encoder *x, uint32_t field, const struct column *c)
{
    const struct rows *r = &x->rows[c->table];
    if (r->count == 1 || (!c->always && all_zero(r, c))) return;
    size_t mark = pb_begin(x->out, field);
    for (uint32_t i = 1; i < r->count;) {
        uint32_t n = MIN(r->count - i, (uint32_t)BLOCK);
        uint8_t block[BLOCK * VARINT_MAX];
        buf_put(x->out, block, (size_t)(put_rows(block, r, c, i, n) - block));
        i += n;
    }
    pb_end(x->out, mark);
}

static void put_whole(const struct encoder *x, const struct symbol_table *t)
{
    // Strings are most of the bytes: room for all of them is made at once, and then they are copied
    // without asking.
    size_t bytes = 0;
    for (uint32_t i = 1; i < t->string_count; i++)
        bytes += 1 + varint_size(t->strings[i].n) + t->strings[i].n;
    uint8_t *at = bytes ? (uint8_t *)buf_reserve(x->out, bytes) : NULL;
    if (at) x->out->n += bytes;
    for (uint32_t i = 1; at && i < t->string_count; i++)
        at = pb_raw_bytes(at, FIELD_STRINGS, t->strings[i]);
    for (size_t i = 0; i < COUNT(columns); i++)
        put_whole_column(x, (uint32_t)i + FIELD_FIRST, &columns[i]);
}

bool symbols_encode(const struct symbol_table *t, const bool *used, struct arena *a,
                    uint32_t *stack_ids, struct buf *out, err *e)
{
    struct encoder x = {.out = out};
    assert(!used || a);
    rows_of(t, &none_had, x.rows);
    if (used && !renumber(&x, t, used, a)) return arena_fail(a, e);
    for (uint32_t i = 0; stack_ids && i < t->stack_count; i++)
        stack_ids[i] = id_of(&x, STACKS, i);
    if (!used) {
        put_whole(&x, t);
        return buf_ok(out, e);
    }
    for (uint32_t i = 1; i < t->string_count; i++) {
        if (id_of(&x, STRINGS, i)) pb_put_bytes(out, FIELD_STRINGS, t->strings[i]);
    }
    for (size_t i = 0; i < COUNT(columns); i++)
        put_column(&x, (uint32_t)i + FIELD_FIRST, &columns[i]);
    return buf_ok(out, e);
}

bool symbols_encode_rest(const struct symbol_table *t, const struct symbol_counts *had,
                         struct buf *out, err *e)
{
    struct encoder x = {.out = out};
    rows_of(t, had, x.rows);
    for (size_t i = 0; i < TABLES; i++)
        assert(x.rows[i].first >= 1 && x.rows[i].count >= 1);
    put_whole(&x, t);
    return buf_ok(out, e);
}

// ---- reading. Rows are counted within the message, from 1 on. References in the message, and
// numbers in errors, count from the table that it continues.

struct decoder {
    struct rows rows[TABLES];         // of the message; `first` is the number of its row 1
    uint64_t counts[COUNT(columns)];  // values of each column in the message
    uint32_t filled[COUNT(columns)];
    uint64_t strings;
    err *e;
};

// Varints in n bytes: each ends in a byte below 0x80.
static uint64_t varints(str s)
{
    uint64_t count = 0;
    size_t i = 0;
    for (; i + 8 <= s.n; i += 8) {
        uint64_t word = 0;
        memcpy(&word, s.p + i, 8);
        count += (unsigned)__builtin_popcountll(~word & 0x8080808080808080u);
    }
    for (; i < s.n; i++)
        count += (unsigned char)s.p[i] < 0x80;
    return count;
}

// The column of the field just read; NULL if it is none or has another wire type (then the field is
// unknown and skipped, as protobuf has it).
static const struct column *column_of(const struct pb_reader *r)
{
    if (r->field < FIELD_FIRST || r->field > FIELD_LAST) return NULL;
    return r->type == PB_BYTES || r->type == PB_VARINT ? &columns[r->field - FIELD_FIRST] : NULL;
}

static bool is_string(const struct pb_reader *r)
{
    return r->field == FIELD_STRINGS && r->type == PB_BYTES;
}

// Counts the rows of each table. All columns of a table have as many values, or none.
static bool count(struct decoder *x, str bytes, const struct symbol_counts *had)
{
    const uint32_t before[TABLES] = {had->strings, had->functions, had->mappings, had->frames,
                                     had->stacks};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        const struct column *c = column_of(&r);
        if (c) x->counts[c - columns] += r.type == PB_VARINT ? 1 : varints(r.bytes);
        x->strings += is_string(&r);
    }
    if (!pb_done(&r, x->e)) return err_wrap(x->e, "symbols");
    uint64_t most[TABLES] = {[STRINGS] = x->strings};
    for (size_t i = 0; i < COUNT(columns); i++)
        most[columns[i].table] = MAX(most[columns[i].table], x->counts[i]);
    for (size_t i = 0; i < TABLES; i++) {
        if (before[i] == 0 || most[i] >= UINT32_MAX - before[i]) {
            return err_set(x->e, ERR_INVALID_ARGUMENT, "symbols: a table has %llu rows after %u",
                           (unsigned long long)most[i], before[i]);
        }
        x->rows[i].count = (uint32_t)most[i] + 1;
        x->rows[i].first = before[i];
    }
    for (size_t i = 0; i < COUNT(columns); i++) {
        uint32_t rows = x->rows[columns[i].table].count - 1;
        bool left_out = x->counts[i] == 0 && columns[i].table != STACKS;
        if (x->counts[i] != rows && !left_out) {
            return err_set(x->e, ERR_INVALID_ARGUMENT, "symbols: %s has %llu rows, its table %u",
                           columns[i].name, (unsigned long long)x->counts[i], rows);
        }
    }
    return true;
}

// The rows of the table once this one is added to the one that it continues.
static uint32_t count_of(const struct rows *r)
{
    return r->first + r->count - 1;
}

static bool refuse(struct decoder *x, const struct column *c, uint32_t row, uint64_t value)
{
    return err_set(x->e, ERR_INVALID_ARGUMENT, "symbols: %s of row %u is %llu", c->name,
                   number_of(&x->rows[c->table], row), (unsigned long long)value);
}

// Where the next row of a column goes.
static char *place(struct decoder *x, const struct column *c, uint32_t row)
{
    const struct rows *r = &x->rows[c->table];
    return r->at + row * r->size + c->offset;
}

// The least valid value. A stack has a parent before it and a frame that is not 0: frame 0 under a
// parent would be that parent.
static uint64_t least_of(const struct column *c)
{
    return c->kind == PARENT || c->table == STACKS ? 1 : 0;
}

static bool set(struct decoder *x, const struct column *c, uint64_t value)
{
    uint32_t row = ++x->filled[c - columns];
    assert(row < x->rows[c->table].count);  // count() has counted the same values
    char *at = place(x, c, row);
    uint32_t narrow = (uint32_t)value;
    uint32_t at_row = number_of(&x->rows[c->table], row);
    bool ok = true;
    switch (c->kind) {
    case REF:
        ok = value < count_of(&x->rows[c->ref]) && value >= least_of(c);
        break;
    case PARENT:
        ok = value >= least_of(c) && value <= at_row;
        narrow = at_row - narrow;
        break;
    case NUMBER:
        memcpy(at, &value, sizeof value);
        return true;
    case SIGNED:
        value = (uint64_t)unzigzag(value);
        memcpy(at, &value, sizeof value);
        return true;
    case FLAGS:
        ok = value <= UINT32_MAX;
        break;
    case FLAG:
        if (value > 1) return refuse(x, c, row, value);
        *(bool *)at = value;
        return true;
    }
    if (!ok) return refuse(x, c, row, value);
    memcpy(at, &narrow, sizeof narrow);
    return true;
}

// Reads references, which are most of a message, without a switch for each value. Stops with *from
// before the first value that is invalid or odd, which set() then looks at.
static void set_refs(struct decoder *x, const struct column *c, const uint8_t **from,
                     const uint8_t *end)
{
    bool parent = c->kind == PARENT;
    uint64_t least = least_of(c);
    size_t size = x->rows[c->table].size;
    uint32_t row = x->filled[c - columns] + 1;
    char *to = place(x, c, row);
    uint32_t at_row = number_of(&x->rows[c->table], row);
    uint32_t begun = at_row;
    uint32_t last = parent ? 0 : count_of(&x->rows[c->ref]) - 1;
    for (const uint8_t *at = *from; at < end; to += size, at_row++) {
        uint64_t v = *at++;
        if (v >= 0x80) {
            if (at == end || *at >= 0x80) {
                at--;
                if (!varint_get(&at, end, &v)) break;
            } else {
                v = (v & 0x7f) | (uint64_t)*at++ << 7;
            }
        }
        if (v < least || v > (parent ? at_row : last)) break;
        uint32_t ref = parent ? at_row - (uint32_t)v : (uint32_t)v;
        memcpy(to, &ref, sizeof ref);
        *from = at;
    }
    x->filled[c - columns] += at_row - begun;
    assert(x->filled[c - columns] < x->rows[c->table].count);
}

static bool set_packed(struct decoder *x, const struct column *c, str packed)
{
    const uint8_t *at = (const uint8_t *)packed.p;
    const uint8_t *end = at + packed.n;
    if (c->kind == REF || c->kind == PARENT) set_refs(x, c, &at, end);
    while (at < end) {
        uint64_t v = 0;
        if (!varint_get(&at, end, &v)) {
            return err_set(x->e, ERR_INVALID_ARGUMENT, "symbols: %s of row %u is no varint",
                           c->name, x->filled[c - columns] + 1);
        }
        if (!set(x, c, v)) return false;
    }
    return true;
}

static bool fill(struct decoder *x, str bytes, str *strings)
{
    uint32_t row = 0;
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        const struct column *c = column_of(&r);
        if (is_string(&r)) {
            assert(row + 1 < x->rows[STRINGS].count);
            strings[++row] = r.bytes;
            if (str_utf8(r.bytes)) continue;
            return err_set(x->e, ERR_INVALID_ARGUMENT, "symbols: string %u is not UTF-8", row);
        }
        if (!c) continue;
        if (r.type == PB_VARINT ? !set(x, c, r.number) : !set_packed(x, c, r.bytes)) return false;
    }
    return pb_done(&r, x->e);
}

bool symbols_decode(struct arena *a, str bytes, struct symbol_table *t, err *e)
{
    return symbols_decode_rest(a, bytes, &none_had, t, e);
}

bool symbols_decode_rest(struct arena *a, str bytes, const struct symbol_counts *had,
                         struct symbol_table *t, err *e)
{
    struct decoder x = {.e = e};
    if (!count(&x, bytes, had)) return false;
    *t = (struct symbol_table){
        .strings = ARENA_ARRAY(a, str, x.rows[STRINGS].count),
        .functions = ARENA_ARRAY(a, struct symbol_function, x.rows[FUNCTIONS].count),
        .mappings = ARENA_ARRAY(a, struct symbol_mapping, x.rows[MAPPINGS].count),
        .frames = ARENA_ARRAY(a, struct symbol_frame, x.rows[FRAMES].count),
        .stacks = ARENA_ARRAY(a, struct symbol_stack, x.rows[STACKS].count),
        .string_count = x.rows[STRINGS].count,
        .function_count = x.rows[FUNCTIONS].count,
        .mapping_count = x.rows[MAPPINGS].count,
        .frame_count = x.rows[FRAMES].count,
        .stack_count = x.rows[STACKS].count,
    };
    if (!arena_ok(a, e)) return false;
    t->strings[0] = S("");
    rows_of(t, had, x.rows);
    return fill(&x, bytes, t->strings);
}
