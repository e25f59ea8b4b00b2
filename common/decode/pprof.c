// SPDX-License-Identifier: Apache-2.0
//
// The message is walked at top level once to count, then table by table: strings, types, mappings,
// functions, locations, samples. Tables may come in any order and be interleaved, so each walk goes
// from the first to the last field of its number and steps over the others; for real producers,
// which write tables in one piece, that is one pass over the bytes. Nothing is copied but numbers.
//
// Two kinds of fault. The wire (a cut varint, a group, a wrong type) ends the walk at once. What is
// well-formed but wrong (an id 0, an index past the string table) is noted and the walk goes on,
// because the message must be that of the check that comes first in Pyroscope's order, not the
// first in the bytes.
#include "codec/varint.h"
#include "decode/decode.h"
#include "decode/idmap.h"
#include "decode/inflate.h"
#include "decode/symbol.h"
#include "model/symbols.h"

#include <stdio.h>

enum wire_type {
    WIRE_VARINT = 0,
    WIRE_FIXED64 = 1,
    WIRE_BYTES = 2,
    WIRE_FIXED32 = 5
};

enum profile_field {
    FIELD_SAMPLE_TYPE = 1,
    FIELD_SAMPLE,
    FIELD_MAPPING,
    FIELD_LOCATION,
    FIELD_FUNCTION,
    FIELD_STRING,
    FIELD_DROP_FRAMES,
    FIELD_KEEP_FRAMES,
    FIELD_TIME,
    FIELD_DURATION,
    FIELD_PERIOD_TYPE,
    FIELD_PERIOD,
    FIELD_COMMENT,
    FIELD_DEFAULT_TYPE,
    FIELD_COUNT
};

static const uint8_t field_type[FIELD_COUNT] = {
    [FIELD_SAMPLE_TYPE] = WIRE_BYTES,   [FIELD_SAMPLE] = WIRE_BYTES,
    [FIELD_MAPPING] = WIRE_BYTES,       [FIELD_LOCATION] = WIRE_BYTES,
    [FIELD_FUNCTION] = WIRE_BYTES,      [FIELD_STRING] = WIRE_BYTES,
    [FIELD_DROP_FRAMES] = WIRE_VARINT,  [FIELD_KEEP_FRAMES] = WIRE_VARINT,
    [FIELD_TIME] = WIRE_VARINT,         [FIELD_DURATION] = WIRE_VARINT,
    [FIELD_PERIOD_TYPE] = WIRE_BYTES,   [FIELD_PERIOD] = WIRE_VARINT,
    [FIELD_COMMENT] = WIRE_VARINT,  // or packed
    [FIELD_DEFAULT_TYPE] = WIRE_VARINT,
};

// In the order in which Pyroscope checks.
#define DEFECTS(X)                                                       \
    X(NO_TYPES, "empty profile")                                         \
    X(LOCATION_ID, "location id is 0")                                   \
    X(FUNCTION_ID, "function id is 0")                                   \
    X(VALUES, "sample value length mismatch")                            \
    X(STRING_0, "string 0 should be empty string")                       \
    X(TYPE_INDEX, "sample type type string index out of range")          \
    X(LABEL_INDEX, "sample label string index out of range")             \
    X(FUNCTION_NAME, "function name string index out of range")          \
    X(FUNCTION_SYSTEM, "function system name index string out of range") \
    X(FUNCTION_FILE, "function file name string index out of range")     \
    X(MAPPING_FILE, "mapping file name string index out of range")       \
    X(MAPPING_BUILD_ID, "mapping build id string index out of range")    \
    X(UTF8, "invalid utf8 string hex: ")

enum defect {
#define X(name, text) DEFECT_##name,
    DEFECTS(X)
#undef X
    DEFECT_NONE
};

static const char *const defect_text[] = {
#define X(name, text) text,
    DEFECTS(X)
#undef X
};

struct cursor {
    const uint8_t *at;
    const uint8_t *end;
};

struct field {
    uint32_t number;
    uint32_t type;
    uint64_t value;        // of numbers; length of bytes
    const uint8_t *bytes;  // of WIRE_BYTES
};

struct extent {
    const uint8_t *from;  // first tag of the field
    const uint8_t *to;    // behind its last value
    uint32_t count;
    size_t bytes;   // of all its values
    uint64_t last;  // value of the last one, if a number
};

struct pprof {
    struct arena *a;
    const struct decode_options *o;
    struct profile *p;
    struct cursor all;
    struct extent extents[FIELD_COUNT];
    str *strings;
    uint32_t string_count;
    struct idmap mappings;
    struct idmap functions;
    struct idmap locations;
    size_t label_cap;
    size_t line_cap;
    size_t stack_cap;
    enum defect defect;
    str bad_string;
    const char *fault;  // of the wire; NULL while all is well
    const uint8_t *fault_at;
};

#define INLINE static inline __attribute__((always_inline))

static bool broken(struct pprof *d, const uint8_t *at, const char *what)
{
    if (!d->fault) {
        d->fault = what;
        d->fault_at = at;
    }
    return false;
}

static void note(struct pprof *d, enum defect defect)
{
    if (defect < d->defect) d->defect = defect;
}

#if !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wanalyzer-null-dereference"  // takes NULL..NULL for >= 2 bytes
#endif
// As varint_get, with the second byte in line as well: most location ids have two.
INLINE bool number_next(struct cursor *c, uint64_t *v)
{
    const uint8_t *p = c->at;
    if (c->end - p >= 2) {
        if (p[0] < 0x80) {
            *v = p[0];
            c->at = p + 1;
            return true;
        }
        if (p[1] < 0x80) {
            *v = (uint64_t)(p[0] & 0x7f) | (uint64_t)p[1] << 7;
            c->at = p + 2;
            return true;
        }
    }
    return varint_get(&c->at, c->end, v);
}
#if !defined(__clang__)
#pragma GCC diagnostic pop
#endif

// False at the end of the message, and at a fault, which is then in d->fault.
INLINE bool field_next(struct pprof *d, struct cursor *c, struct field *f)
{
    if (c->at == c->end) return false;
    const uint8_t *start = c->at;
    uint64_t tag = 0;
    if (!number_next(c, &tag)) return broken(d, start, "cut or overlong number");
    if (tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3) return broken(d, start, "bad field number");
    f->number = (uint32_t)(tag >> 3);
    f->type = (uint32_t)(tag & 7);
    size_t left = (size_t)(c->end - c->at);
    switch (f->type) {
    case WIRE_VARINT:
        return number_next(c, &f->value) || broken(d, c->at, "cut or overlong number");
    case WIRE_BYTES:
        if (!number_next(c, &f->value)) return broken(d, c->at, "cut or overlong length");
        left = (size_t)(c->end - c->at);
        if (f->value > left) return broken(d, start, "length past the end");
        f->bytes = c->at;
        c->at += f->value;
        return true;
    case WIRE_FIXED64:
    case WIRE_FIXED32:
        f->value = f->type == WIRE_FIXED64 ? 8 : 4;
        if (f->value > left) return broken(d, start, "length past the end");
        c->at += f->value;
        return true;
    default:
        return broken(d, start, "wire type that is a group or none");
    }
}

static struct cursor inside(const struct field *f)
{
    return (struct cursor){f->bytes, f->bytes + f->value};
}

// A message that has only numbers: v[number] = value, fields above `top` ignored.
INLINE bool numbers(struct pprof *d, struct cursor c, uint64_t *v, uint32_t top)
{
    struct field f = {0};
    while (field_next(d, &c, &f)) {
        if (f.number > top) continue;
        if (f.type != WIRE_VARINT) return broken(d, c.at, "wrong wire type of a number");
        v[f.number] = f.value;
    }
    return !d->fault;
}

static bool survey(struct pprof *d)
{
    struct cursor c = d->all;
    struct field f = {0};
    for (const uint8_t *start = c.at; field_next(d, &c, &f); start = c.at) {
        if (f.number >= FIELD_COUNT) continue;
        bool packed = f.number == FIELD_COMMENT && f.type == WIRE_BYTES;
        if (f.type != field_type[f.number] && !packed) {
            return broken(d, start, "wrong wire type of a profile's field");
        }
        struct extent *x = &d->extents[f.number];
        if (x->count++ == 0) x->from = start;
        x->to = c.at;
        x->last = f.value;
        x->bytes += f.type == WIRE_BYTES ? f.value : 1;
    }
    return !d->fault;
}

// Calls each() for every occurrence of a field.
INLINE bool walk(struct pprof *d, enum profile_field number,
                 bool (*each)(struct pprof *, const struct field *))
{
    struct cursor c = {d->extents[number].from, d->extents[number].to};
    struct field f = {0};
    while (field_next(d, &c, &f)) {
        if (f.number == number && !each(d, &f)) return false;
    }
    return !d->fault;
}

static bool read_string(struct pprof *d, const struct field *f)
{
    str s = str_make(f->bytes, f->value);
    if (!str_utf8(s) && d->defect > DEFECT_UTF8) {
        note(d, DEFECT_UTF8);
        d->bad_string = s;
    }
    if (d->p->language_hint.n == 0 && decode_language(s).n) d->p->language_hint = s;
    s = symbol_cut(s, d->o->symbol_max);
    if (d->string_count == 0 && s.n) note(d, DEFECT_STRING_0);
    d->strings[d->string_count++] = s;
    return true;
}

// Indexes that Pyroscope does not check mean "absent" when they are out of range: DEFECT_NONE.
INLINE str text(struct pprof *d, uint64_t idx, enum defect defect)
{
    if (idx < d->string_count) return d->strings[idx];
    note(d, defect);
    return (str){0};
}

static bool read_type(struct pprof *d, const struct field *f)
{
    uint64_t v[3] = {0};
    if (!numbers(d, inside(f), v, 2)) return false;
    d->p->types[d->p->type_count++] = (struct profile_type){
        text(d, v[1], DEFECT_TYPE_INDEX),
        text(d, v[2], DEFECT_NONE),
    };
    return true;
}

static bool read_period_type(struct pprof *d, const struct field *f)
{
    uint64_t v[3] = {UINT64_MAX, UINT64_MAX, UINT64_MAX};
    if (!numbers(d, inside(f), v, 2)) return false;
    struct profile_type *t = &d->p->period_type;  // a second message adds to the first
    if (v[1] != UINT64_MAX) t->type = text(d, v[1], DEFECT_NONE);
    if (v[2] != UINT64_MAX) t->unit = text(d, v[2], DEFECT_NONE);
    return true;
}

static bool read_comment(struct pprof *d, const struct field *f)
{
    struct profile *p = d->p;
    if (f->type == WIRE_VARINT) {
        p->comments[p->comment_count++] = text(d, f->value, DEFECT_NONE);
        return true;
    }
    struct cursor c = inside(f);
    while (c.at < c.end) {
        uint64_t idx = 0;
        if (!number_next(&c, &idx)) return broken(d, c.at, "cut or overlong number");
        p->comments[p->comment_count++] = text(d, idx, DEFECT_NONE);
    }
    return true;
}

// ---- mappings, functions, locations. `ids` are the column that is being filled.

static bool read_mapping(struct pprof *d, const struct field *f, uint64_t *ids)
{
    uint64_t v[11] = {0};
    if (!numbers(d, inside(f), v, 10)) return false;
    ids[d->p->mapping_count] = v[1];
    d->p->mappings[d->p->mapping_count++] = (struct profile_mapping){
        .start = v[2],
        .limit = v[3],
        .offset = v[4],
        .filename = text(d, v[5], DEFECT_MAPPING_FILE),
        .build_id = text(d, v[6], DEFECT_MAPPING_BUILD_ID),
        .flags = (v[7] ? SYMBOL_HAS_FUNCTIONS : 0) | (v[8] ? SYMBOL_HAS_FILENAMES : 0) |
                 (v[9] ? SYMBOL_HAS_LINE_NUMBERS : 0) | (v[10] ? SYMBOL_HAS_INLINE_FRAMES : 0),
    };
    return true;
}

static bool read_mappings(struct pprof *d, err *e)
{
    struct extent *x = &d->extents[FIELD_MAPPING];
    uint64_t *ids = ARENA_ARRAY(d->a, uint64_t, x->count);
    d->p->mappings = ARENA_ARRAY(d->a, struct profile_mapping, x->count);
    if (!ids || !d->p->mappings) return arena_ok(d->a, e);
    struct cursor c = {x->from, x->to};
    struct field f = {0};
    while (field_next(d, &c, &f)) {
        if (f.number == FIELD_MAPPING && !read_mapping(d, &f, ids)) break;
    }
    return !d->fault && idmap_build(&d->mappings, d->a, ids, d->p->mapping_count, e);
}

static bool read_function(struct pprof *d, const struct field *f, uint64_t *ids)
{
    uint64_t v[6] = {0};
    if (!numbers(d, inside(f), v, 5)) return false;
    ids[d->p->function_count] = v[1];
    d->p->functions[d->p->function_count++] = (struct profile_function){
        .name = text(d, v[2], DEFECT_FUNCTION_NAME),
        .system_name = text(d, v[3], DEFECT_FUNCTION_SYSTEM),
        .filename = text(d, v[4], DEFECT_FUNCTION_FILE),
        .start_line = (int64_t)v[5],
    };
    return true;
}

static bool all_zero(const uint64_t *ids, uint32_t n)
{
    uint64_t any = 0;
    for (uint32_t i = 0; i < n; i++) {
        any |= ids[i];
    }
    return any == 0;
}

// The ids of all locations in order, before their lines can be read.
static bool read_location_ids(struct pprof *d, uint64_t *ids)
{
    struct cursor c = {d->extents[FIELD_LOCATION].from, d->extents[FIELD_LOCATION].to};
    struct field f = {0};
    while (field_next(d, &c, &f)) {
        if (f.number != FIELD_LOCATION) continue;
        struct cursor in = inside(&f);
        struct field g = {0};
        while (field_next(d, &in, &g)) {
            if (g.number == 1 && g.type == WIRE_VARINT) *ids = g.value;
        }
        ids++;
    }
    return !d->fault;
}

static bool read_functions(struct pprof *d, err *e)
{
    struct extent *x = &d->extents[FIELD_FUNCTION];
    uint64_t *ids = ARENA_ARRAY(d->a, uint64_t, x->count);
    d->p->functions = ARENA_ARRAY(d->a, struct profile_function, x->count);
    if (!ids || !d->p->functions) return arena_ok(d->a, e);
    struct cursor c = {x->from, x->to};
    struct field f = {0};
    while (field_next(d, &c, &f)) {
        if (f.number == FIELD_FUNCTION && !read_function(d, &f, ids)) break;
    }
    if (d->fault) return false;

    uint32_t n = d->p->function_count;
    if (d->o->repair_zero_function_ids && n == d->extents[FIELD_LOCATION].count &&
        all_zero(ids, n) && !read_location_ids(d, ids)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] == 0) note(d, DEFECT_FUNCTION_ID);
    }
    return idmap_build(&d->functions, d->a, ids, n, e);
}

// Appends a line; *known becomes false if its function does not exist.
static bool read_line(struct pprof *d, const struct field *f, bool *known)
{
    uint64_t v[3] = {0};
    if (!numbers(d, inside(f), v, 2)) return false;
    struct profile *p = d->p;
    uint32_t function = idmap_row(&d->functions, v[1]);
    if (v[1] == 0 || function == MAP_NONE) {
        *known = false;
        return true;
    }
    if (!arena_grow(d->a, &p->lines, &d->line_cap, p->line_count + 1, sizeof *p->lines)) {
        return false;
    }
    p->lines[p->line_count++] = (struct profile_line){function, (int64_t)v[2]};
    return true;
}

static bool read_location(struct pprof *d, const struct field *f, uint64_t *ids)
{
    struct profile *p = d->p;
    uint64_t v[6] = {0};
    uint32_t first_line = p->line_count;
    bool known = true;
    struct cursor c = inside(f);
    struct field g = {0};
    while (field_next(d, &c, &g)) {
        if (g.number > 5) continue;
        if (g.type != (g.number == 4 ? WIRE_BYTES : WIRE_VARINT)) {
            return broken(d, c.at, "wrong wire type of a location's field");
        }
        if (g.number == 4 && !read_line(d, &g, &known)) return false;
        v[g.number] = g.value;
    }
    if (d->fault) return false;
    if (v[1] == 0) note(d, DEFECT_LOCATION_ID);
    uint32_t mapping = v[2] ? idmap_row(&d->mappings, v[2]) : PROFILE_NONE;
    if (!known || (v[2] && mapping == MAP_NONE)) {  // as if it were not there
        p->line_count = first_line;
        return true;
    }
    ids[p->location_count] = v[1];
    p->locations[p->location_count++] = (struct profile_location){
        .address = v[3],
        .mapping = mapping,
        .first_line = first_line,
        .line_count = p->line_count - first_line,
        .folded = v[5] != 0,
    };
    return true;
}

static bool read_locations(struct pprof *d, err *e)
{
    struct profile *p = d->p;
    struct extent *x = &d->extents[FIELD_LOCATION];
    uint64_t *ids = ARENA_ARRAY(d->a, uint64_t, x->count);
    p->locations = ARENA_ARRAY(d->a, struct profile_location, x->count);
    d->line_cap = x->count + x->count / 4;  // one each and some inlined; grows
    p->lines = ARENA_ARRAY(d->a, struct profile_line, d->line_cap);
    if (!ids || !p->locations || !p->lines) return arena_ok(d->a, e);
    struct cursor c = {x->from, x->to};
    struct field f = {0};
    while (field_next(d, &c, &f)) {
        if (f.number == FIELD_LOCATION && !read_location(d, &f, ids)) break;
    }
    if (d->fault || d->a->exhausted) return false;
    return idmap_build(&d->locations, d->a, ids, p->location_count, e);
}

// ---- samples

// A packed run of location ids; *missing becomes true if one does not exist.
static bool read_stack(struct pprof *d, const struct field *f, bool *missing)
{
    struct profile *p = d->p;
    size_t most = f->type == WIRE_BYTES ? f->value : 1;
    if (!arena_grow(d->a, &p->stack_locations, &d->stack_cap, p->stack_location_count + most,
                    sizeof *p->stack_locations)) {
        return false;
    }
    uint32_t *to = p->stack_locations + p->stack_location_count;
    bool none = false;
    if (f->type == WIRE_VARINT) {
        *to++ = idmap_row(&d->locations, f->value);
        none = to[-1] == MAP_NONE;
    } else {
        struct cursor c = inside(f);
        while (c.at < c.end) {
            uint64_t id = 0;
            if (!number_next(&c, &id)) return broken(d, c.at, "cut or overlong location id");
            uint32_t row = idmap_row(&d->locations, id);
            none |= row == MAP_NONE;
            *to++ = row;
        }
    }
    *missing |= none;
    p->stack_location_count = (uint32_t)(to - p->stack_locations);
    return true;
}

static bool read_values(struct pprof *d, const struct field *f, int64_t *row, uint32_t *n)
{
    uint32_t most = d->p->type_count;
    if (f->type == WIRE_VARINT) {
        if (*n < most) row[*n] = (int64_t)f->value;
        ++*n;
        return true;
    }
    struct cursor c = inside(f);
    while (c.at < c.end) {
        uint64_t v = 0;
        if (!number_next(&c, &v)) return broken(d, c.at, "cut or overlong value");
        if (*n < most) row[*n] = (int64_t)v;
        ++*n;
    }
    return true;
}

static bool read_label(struct pprof *d, const struct field *f)
{
    uint64_t v[5] = {0};
    if (!numbers(d, inside(f), v, 4)) return false;
    struct profile *p = d->p;
    if (!arena_grow(d->a, &p->labels, &d->label_cap, p->label_count + 1, sizeof *p->labels)) {
        return false;
    }
    p->labels[p->label_count++] = (struct profile_label){
        .key = text(d, v[1], DEFECT_LABEL_INDEX),
        .text = text(d, v[2], DEFECT_LABEL_INDEX),
        .number = (int64_t)v[3],
        .unit = text(d, v[4], DEFECT_NONE),
    };
    return true;
}

static bool read_sample(struct pprof *d, const struct field *f)
{
    struct profile *p = d->p;
    struct profile_sample s = {
        .first_location = p->stack_location_count,
        .first_label = p->label_count,
    };
    int64_t *row = p->values + (size_t)p->sample_count * p->type_count;
    uint32_t values = 0;
    bool missing = false;
    struct cursor c = inside(f);
    struct field g = {0};
    while (field_next(d, &c, &g)) {
        bool ok = true;
        if (g.number > 3) continue;
        if (g.type != WIRE_BYTES && (g.type != WIRE_VARINT || g.number == 3)) {
            return broken(d, c.at, "wrong wire type of a sample's field");
        }
        if (g.number == 1) {
            ok = read_stack(d, &g, &missing);
        } else if (g.number == 2) {
            ok = read_values(d, &g, row, &values);
        } else {
            ok = read_label(d, &g);
        }
        if (!ok) return false;
    }
    if (d->fault) return false;
    if (values != p->type_count) note(d, DEFECT_VALUES);
    if (missing || values != p->type_count) {  // as if it were not there
        p->stack_location_count = s.first_location;
        p->label_count = s.first_label;
        return true;
    }
    s.location_count = p->stack_location_count - s.first_location;
    s.label_count = p->label_count - s.first_label;
    p->samples[p->sample_count++] = s;
    return true;
}

static bool read_samples(struct pprof *d, err *e)
{
    struct profile *p = d->p;
    struct extent *x = &d->extents[FIELD_SAMPLE];
    // Every value takes a byte of its sample at least: no room is made for values that cannot be.
    size_t values = (size_t)x->count * p->type_count;
    if (values > x->bytes) note(d, DEFECT_VALUES);
    if (d->defect <= DEFECT_VALUES) return true;
    d->stack_cap = x->bytes / 2 + 1;  // ids of two bytes; grows
    p->stack_locations = ARENA_ARRAY(d->a, uint32_t, d->stack_cap);
    p->samples = ARENA_ARRAY(d->a, struct profile_sample, x->count);
    p->values = ARENA_ARRAY(d->a, int64_t, values + p->type_count);
    if (!p->stack_locations || !p->samples || !p->values) return arena_ok(d->a, e);
    return walk(d, FIELD_SAMPLE, read_sample);
}

// ---- the whole

static bool read_head(struct pprof *d, err *e)
{
    struct profile *p = d->p;
    const struct extent *x = d->extents;
    d->strings = ARENA_ARRAY(d->a, str, x[FIELD_STRING].count);
    p->types = ARENA_ARRAY(d->a, struct profile_type, x[FIELD_SAMPLE_TYPE].count);
    p->comments = ARENA_ARRAY(d->a, str, x[FIELD_COMMENT].bytes);
    if (!d->strings || !p->types || !p->comments) return arena_ok(d->a, e);
    if (x[FIELD_STRING].count == 0) note(d, DEFECT_STRING_0);
    if (x[FIELD_SAMPLE_TYPE].count == 0) note(d, DEFECT_NO_TYPES);
    if (!walk(d, FIELD_STRING, read_string)) return false;
    if (!walk(d, FIELD_SAMPLE_TYPE, read_type)) return false;
    if (!walk(d, FIELD_PERIOD_TYPE, read_period_type)) return false;
    if (!walk(d, FIELD_COMMENT, read_comment)) return false;
    p->string_count = d->string_count;
    p->period = (int64_t)x[FIELD_PERIOD].last;
    p->time_ns = (int64_t)x[FIELD_TIME].last;
    p->duration_ns = (int64_t)x[FIELD_DURATION].last;
    p->default_type = text(d, x[FIELD_DEFAULT_TYPE].last, DEFECT_NONE);
    p->drop_frames = text(d, x[FIELD_DROP_FRAMES].last, DEFECT_NONE);
    p->keep_frames = text(d, x[FIELD_KEEP_FRAMES].last, DEFECT_NONE);
    return true;
}

static bool defective(const struct pprof *d, err *e)
{
    if (d->defect != DEFECT_UTF8) {
        return err_set(e, ERR_INVALID_ARGUMENT, "%s", defect_text[d->defect]);
    }
    char hex[sizeof e->msg];
    size_t n = MIN(d->bad_string.n, sizeof hex / 2 - 1);
    for (size_t i = 0; i < n; i++) {
        snprintf(hex + 2 * i, 3, "%02x", (unsigned char)d->bad_string.p[i]);
    }
    hex[2 * n] = '\0';
    return err_set(e, ERR_INVALID_ARGUMENT, "%s%s", defect_text[DEFECT_UTF8], hex);
}

static bool decode(struct pprof *d, err *e)
{
    bool ok = survey(d) && read_head(d, e) && read_mappings(d, e) && read_functions(d, e) &&
              read_locations(d, e) && read_samples(d, e);
    if (d->fault) {
        return err_set(e, ERR_INVALID_ARGUMENT, "malformed pprof: %s at byte %zu", d->fault,
                       (size_t)(d->fault_at - d->all.at));
    }
    if (!arena_ok(d->a, e) || !ok) return false;
    return d->defect == DEFECT_NONE || defective(d, e);
}

bool decode_pprof(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                  bool *over_cap, err *e)
{
    str body = {0};
    if (!inflate_bytes(a, bytes, o->inflated_max, &body, over_cap, e)) return false;
    if (body.n == 0) return err_set(e, ERR_INVALID_ARGUMENT, "malformed pprof: no bytes");
    if (body.n > INT32_MAX) {  // so that no count of rows overflows
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "pprof of %zu bytes, limit 2 GiB", body.n);
    }
    struct pprof *d = ARENA_NEW(a, struct pprof);
    struct profile *p = ARENA_NEW(a, struct profile);
    if (!d || !p) return arena_ok(a, e);
    p->encoded_bytes = body.n;
    const uint8_t *start = (const uint8_t *)body.p;
    *d = (struct pprof){
        .a = a, .o = o, .p = p, .all = {start, start + body.n}, .defect = DEFECT_NONE};
    if (!decode(d, e)) return false;
    *out = (struct decoded){p, 1};
    return true;
}
