// SPDX-License-Identifier: Apache-2.0
//
// pprof.c - all of a pprof message but its samples.
//
//     1. survey: the message is walked at top level, to count the rows of each table.
//     2. Strings, types, period type, comments.
//     3. Mappings, functions, locations: rows and, for each table, a map from ids to rows.
//     4. Samples (pprof_samples.c), which refer to all of these.
//
// Tables may come in any order and be interleaved. So each step walks from the first to the last
// field of its table and steps over other fields. Real senders write a table in one piece, and then
// each byte is walked once. Only numbers are copied. Each inner message is read the quick way first
// (quick.h), and the careful way if that gives up.
//
// There are two kinds of fault. A fault of the wire (a truncated varint, a group, a wrong type)
// ends the walk at once. A message that is well-formed but wrong (an id 0, an index past the string
// table) is noted, and the walk goes on: the error must be that of the check that comes first in
// Pyroscope's order, not in the bytes.
#include "base/utf8.h"
#include "decode/inflate.h"
#include "decode/pprof_int.h"
#include "decode/symbol.h"
#include "model/symbols.h"

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

static const char *const defect_text[] = {
#define X(name, text) text,
    DEFECTS(X)
#undef X
};

// Counts messages of one table in a row, the quick way: a tag and a length of one or two bytes.
static void survey_run(struct pprof *d, struct cursor *c)
{
    assert(c->at < d->quick_end);
    uint8_t tag = *c->at;
    uint32_t number = tag >> 3;
    if ((tag & 0x87) != WIRE_BYTES || number == 0 || number >= FIELD_COUNT) return;
    if (field_type[number] != WIRE_BYTES) return;
    struct extent *x = &d->extents[number];
    const uint8_t *at = c->at;
    uint32_t count = 0;
    size_t bytes = 0;
    while (at < d->quick_end && *at == tag) {
        const uint8_t *inner = at + 1;
        size_t n = 0;
        if (!quick_length(&inner, c->end, &n)) break;
        bytes += n;
        count++;
        at = inner + n;
    }
    if (count == 0) return;
    if (x->count == 0) x->from = c->at;
    x->to = at;
    x->count += count;
    assert(at > c->at && at <= c->end);
    x->bytes += bytes;
    c->at = at;
}

static bool survey(struct pprof *d)
{
    struct cursor c = d->all;
    struct field f = {0};
    for (;;) {
        if (c.at < d->quick_end) survey_run(d, &c);
        const uint8_t *start = c.at;
        if (!field_next(d, &c, &f)) return !d->fault;
        if (f.number >= FIELD_COUNT) continue;
        bool packed = f.number == FIELD_COMMENT && f.type == WIRE_BYTES;
        if (f.type != field_type[f.number] && !packed) {
            return broken(d, start, "wrong wire type of a profile's field");
        }
        struct extent *x = &d->extents[f.number];
        // Of a number that comes more than once the last counts, as protobuf demands; of a table
        // the first and the last place bound the walk.
        if (x->count++ == 0) x->from = start;
        x->to = c.at;
        x->last = f.value;
        x->bytes += f.type == WIRE_BYTES ? f.value : 1;
    }
}

static bool read_string(struct pprof *d, const struct field *f)
{
    str s = str_make(f->bytes, f->value);
    if (!utf8_is_text(s)) {
        losses_add(&d->p->losses, LOSS_BAD_TEXT, 1);
        if (d->p->bad_text.n == 0) d->p->bad_text = s;
        s = utf8_mended(d->a, s);
        if (d->a->exhausted) return false;
    }
    if (d->p->language_hint.n == 0 && decode_language(s).n) d->p->language_hint = s;
    losses_add(&d->p->losses, LOSS_SYMBOL_LENGTH, symbol_is_long(s, d->o->symbol_max));
    s = symbol_cut(s, d->o->symbol_max);
    if (d->string_count == 0 && s.n) note(d, DEFECT_STRING_0);
    assert(d->string_count < d->extents[FIELD_STRING].count);  // each table has the rows of survey
    d->strings[d->string_count++] = s;
    return true;
}

static bool read_type(struct pprof *d, const struct field *f)
{
    uint64_t v[3] = {0};
    if (!numbers(d, inside(f), v, 2)) return false;
    assert(d->p->type_count < d->extents[FIELD_SAMPLE_TYPE].count);
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
    assert(f->type == WIRE_VARINT || f->type == WIRE_BYTES);  // survey refuses other types
    struct profile *p = d->p;
    const size_t most = d->extents[FIELD_COMMENT].bytes;  // each takes a byte at least
    if (f->type == WIRE_VARINT) {
        assert(p->comment_count < most);
        p->comments[p->comment_count++] = text(d, f->value, DEFECT_NONE);
        return true;
    }
    struct cursor c = inside(f);
    while (c.at < c.end) {
        uint64_t idx = 0;
        if (!number_next(&c, &idx)) return broken(d, c.at, "cut or overlong number");
        assert(p->comment_count < most);
        p->comments[p->comment_count++] = text(d, idx, DEFECT_NONE);
    }
    return true;
}

// ---- mappings, functions, locations. `ids` is the column of ids that is being filled.

static bool read_mapping(struct pprof *d, const struct field *f, uint64_t *ids)
{
    uint64_t v[11] = {0};
    if (!numbers(d, inside(f), v, 10)) return false;
    assert(d->p->mapping_count < d->extents[FIELD_MAPPING].count);
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
    if (!ids || !d->p->mappings) return arena_fail(d->a, e);
    struct cursor c = {x->from, x->to};
    struct field f = {0};
    // Other tables may lie between the rows, so fields are told apart here again.
    while (field_next(d, &c, &f)) {
        if (f.number == FIELD_MAPPING && !read_mapping(d, &f, ids)) break;
    }
    return !d->fault && idmap_build(&d->mappings, d->a, ids, d->p->mapping_count, e);
}

static bool read_function(struct pprof *d, const struct field *f, uint64_t *ids)
{
    uint64_t v[6] = {0};
    if (!numbers(d, inside(f), v, 5)) return false;
    // Rows keep the order of the message, and the column of ids has the same rows.
    assert(d->p->function_count < d->extents[FIELD_FUNCTION].count);
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

// The ids of all locations in order. Their lines cannot be read yet: lines name functions by the
// ids that are being repaired.
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
    // One more, which no_function may need.
    d->p->functions = ARENA_ARRAY(d->a, struct profile_function, (size_t)x->count + 1);
    if (!ids || !d->p->functions) return arena_fail(d->a, e);
    struct cursor c = {x->from, x->to};
    struct field f = {0};
    while (field_next(d, &c, &f)) {
        if (f.number == FIELD_FUNCTION && !read_function(d, &f, ids)) break;
    }
    if (d->fault) return false;

    assert(d->p->function_count <= x->count);
    uint32_t n = d->p->function_count;
    // Some senders give all functions the id 0 and have one function per location, in the same
    // order: then the location's id is the function's.
    if (d->o->repair_zero_function_ids && n == d->extents[FIELD_LOCATION].count &&
        all_zero(ids, n) && !read_location_ids(d, ids)) {
        return false;
    }
    for (uint32_t i = 0; i < n; i++) {
        if (ids[i] == 0) note(d, DEFECT_FUNCTION_ID);
    }
    return idmap_build(&d->functions, d->a, ids, n, e);
}

// The function without any content: of lines that name none, or one that does not exist.
static uint32_t no_function(struct pprof *d)
{
    struct profile *p = d->p;
    if (d->no_function == 0) {
        // read_functions left room for it behind the last one.
        p->functions[p->function_count++] = (struct profile_function){0};
        d->no_function = p->function_count;
    }
    return d->no_function - 1;
}

// Appends a line; *known becomes false if its function does not exist. The line stays then: it is a
// frame whose name is not known.
INLINE bool put_line(struct pprof *d, uint64_t function_id, uint64_t line, bool *known)
{
    struct profile *p = d->p;
    uint32_t function = idmap_row(&d->functions, function_id);
    if (function_id == 0 || function == MAP_NONE) {
        *known = *known && function_id == 0;
        function = no_function(d);
    }
    assert(function < p->function_count);
    if (p->line_count == d->line_cap &&
        !arena_grow(d->a, &p->lines, &d->line_cap, p->line_count + 1, sizeof *p->lines)) {
        return false;
    }
    p->lines[p->line_count++] = (struct profile_line){function, (int64_t)line};
    return true;
}

static bool read_line(struct pprof *d, const struct field *f, bool *known)
{
    uint64_t v[3] = {0};
    return numbers(d, inside(f), v, 2) && put_line(d, v[1], v[2], known);
}

// The numbers of a location; its lines are appended on the way. False if something is odd.
INLINE bool quick_location(struct pprof *d, struct cursor c, uint64_t *v, bool *known)
{
    const uint8_t *p = c.at;
    while (p < c.end) {
        uint32_t tag = *p++;
        if (tag == (4 << 3 | WIRE_BYTES)) {
            uint64_t line[3] = {0};
            size_t n = 0;
            if (!quick_length(&p, c.end, &n) || !quick_numbers(p, p + n, line, 2)) return false;
            if (!put_line(d, line[1], line[2], known)) return false;
            p += n;
            continue;
        }
        uint32_t field = tag >> 3;
        // One-byte tags of the fields 1 to 5; `field - 1` of 0 wraps, so it is refused too.
        if ((tag & 0x87) != WIRE_VARINT || field - 1 >= 5 || field == 4) return false;
        p = quick_number(p, &v[field]);
        if (!p) return false;
    }
    return p == c.end;
}

static bool careful_location(struct pprof *d, struct cursor c, uint64_t *v, bool *known)
{
    struct field g = {0};
    while (field_next(d, &c, &g)) {
        if (g.number > 5) continue;
        if (g.type != (g.number == 4 ? WIRE_BYTES : WIRE_VARINT)) {
            return broken(d, c.at, "wrong wire type of a location's field");
        }
        if (g.number == 4 && !read_line(d, &g, known)) return false;
        // For field 4 this is a length, which nobody reads.
        v[g.number] = g.value;
    }
    return !d->fault;
}

static bool read_location(struct pprof *d, const struct field *f, uint64_t *ids)
{
    struct profile *p = d->p;
    uint64_t v[6] = {0};
    uint32_t first_line = p->line_count;
    bool known = true;
    struct cursor c = inside(f);
    if (!is_quick(d, c) || !quick_location(d, c, v, &known)) {
        p->line_count = first_line;  // the quick way may have appended lines before it gave up
        known = true;
        if (!careful_location(d, c, v, &known)) return false;
    }
    if (v[1] == 0) note(d, DEFECT_LOCATION_ID);
    uint32_t mapping = v[2] ? idmap_row(&d->mappings, v[2]) : PROFILE_NONE;
    if (v[2] && mapping == MAP_NONE) {
        known = false;
        mapping = PROFILE_NONE;
    }
    assert(p->location_count < d->extents[FIELD_LOCATION].count);
    d->broken[p->location_count] = !known;
    d->any_broken |= !known;
    assert(p->line_count >= first_line);
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
    // One more, which pprof_read_samples may need.
    p->locations = ARENA_ARRAY(d->a, struct profile_location, (size_t)x->count + 1);
    d->broken = ARENA_ARRAY(d->a, bool, (size_t)x->count + 1);
    d->line_cap = x->count + x->count / 4;  // a guess, one line each and some inlined: it grows
    p->lines = ARENA_ARRAY(d->a, struct profile_line, d->line_cap);
    if (!ids || !p->locations || !d->broken || !p->lines) return arena_fail(d->a, e);
    struct cursor c = {x->from, x->to};
    struct field f = {0};
    while (field_next(d, &c, &f)) {
        if (f.number == FIELD_LOCATION && !read_location(d, &f, ids)) break;
    }
    // An arena without memory ends the walk without a fault of the message; decode() tells which.
    if (d->fault || d->a->exhausted) return false;
    return idmap_build(&d->locations, d->a, ids, p->location_count, e);
}

// ---- the whole

static bool read_head(struct pprof *d, err *e)
{
    struct profile *p = d->p;
    const struct extent *x = d->extents;
    d->strings = ARENA_ARRAY(d->a, str, x[FIELD_STRING].count);
    p->types = ARENA_ARRAY(d->a, struct profile_type, x[FIELD_SAMPLE_TYPE].count);
    p->comments = ARENA_ARRAY(d->a, str, x[FIELD_COMMENT].bytes);
    if (!d->strings || !p->types || !p->comments) return arena_fail(d->a, e);
    if (x[FIELD_STRING].count == 0) note(d, DEFECT_STRING_0);
    if (x[FIELD_SAMPLE_TYPE].count == 0) note(d, DEFECT_NO_TYPES);
    // Strings first: all others refer to them by index.
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

static bool decode(struct pprof *d, err *e)
{
    bool ok = survey(d) && read_head(d, e) && read_mappings(d, e) && read_functions(d, e) &&
              read_locations(d, e) && pprof_read_samples(d, e);
    if (d->fault) {
        return err_set(e, ERR_INVALID_ARGUMENT, "malformed pprof: %s at byte %zu", d->fault,
                       (size_t)(d->fault_at - d->all.at));
    }
    // Without memory some rows are missing, and defects that follow from that mean nothing.
    if (!arena_ok(d->a, e) || !ok) return false;
    return d->defect == DEFECT_NONE ||
           err_set(e, ERR_INVALID_ARGUMENT, "%s", defect_text[d->defect]);
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
    if (!d || !p) return arena_fail(a, e);
    p->encoded_bytes = body.n;
    const uint8_t *start = (const uint8_t *)body.p;
    *d = (struct pprof){
        .a = a, .o = o, .p = p, .all = {start, start + body.n}, .defect = DEFECT_NONE};
    // A number may be read up to QUICK_SLACK bytes beyond a message's end, so messages near the end
    // of the body are read the careful way.
    d->quick_end = body.n > QUICK_SLACK ? start + body.n - QUICK_SLACK : start;
    if (!decode(d, e)) return false;
    assert(!d->fault && p->string_count == d->string_count);
    *out = (struct decoded){p, 1};
    return true;
}
