// SPDX-License-Identifier: Apache-2.0
//
// selfprofile_pprof.c - writes sums of stacks as a pprof message: first all locations, functions
// and strings that occur get numbers, then the tables are written.
#include "base/hash.h"
#include "codec/pb.h"
#include "service/selfprofile_int.h"

// Field numbers of google.v1.Profile.
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING = 6,
    PROFILE_TIME = 9,
    PROFILE_DURATION = 10,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12,
    PROFILE_DEFAULT_TYPE = 14
};

// The string table begins with these.
static const char *const fixed[] = {"",          "samples", "count",   "cpu",        "nanoseconds",
                                    "component", MARK_LOST, MARK_DEEP, MARK_OVERFLOW};
enum {
    TEXT_SAMPLES = 1,
    TEXT_COUNT,
    TEXT_CPU,
    TEXT_NANOSECONDS,
    TEXT_COMPONENT,
    TEXT_LOST,
    TEXT_DEEP,
    TEXT_OVERFLOW
};

// Ids of locations and functions: the marks first, then in the order of first use.
enum {
    ID_LOST = 1,
    ID_DEEP,
    ID_OVERFLOW,
    ID_FIRST
};

struct encoder {
    struct arena arena;
    struct map strings;
    str *string_rows;
    size_t string_count;
    size_t string_cap;
    struct map locations;  // by pc
    uint64_t *location_rows;
    size_t location_count;
    size_t location_cap;
    uint32_t *function_ids;  // by the function's number in `names`; 0: not used yet
    uint32_t *function_rows;
    uint32_t function_count;
    struct sampler_names *names;
    struct buf *out;
};

static void put_mark(struct encoder *x, uint32_t field, uint64_t id, uint64_t text)
{
    size_t m = pb_begin(x->out, field);
    pb_put_u64(x->out, 1, id);
    if (field == PROFILE_FUNCTION) {
        pb_put_u64(x->out, 2, text);
    } else {
        size_t line = pb_begin(x->out, 4);
        pb_put_u64(x->out, 1, id);
        pb_end(x->out, line);
    }
    pb_end(x->out, m);
}

static void put_marks(struct encoder *x, uint32_t field)
{
    put_mark(x, field, ID_LOST, TEXT_LOST);
    put_mark(x, field, ID_DEEP, TEXT_DEEP);
    put_mark(x, field, ID_OVERFLOW, TEXT_OVERFLOW);
}

// ---- strings

struct string_key {
    const struct encoder *encoder;
    str text;
};

static bool same_string(const void *ctx, uint32_t row)
{
    const struct string_key *k = ctx;
    return str_eq(k->encoder->string_rows[row], k->text);
}

// The number of a text, which must live as long as the encoder.
static bool string_of(struct encoder *x, str text, uint64_t *number, err *e)
{
    struct string_key k = {.encoder = x, .text = text};
    uint64_t hash = hash_table_str(text);
    uint32_t i = map_find(&x->strings, hash, same_string, &k);
    if (i == MAP_NONE) {
        i = (uint32_t)x->string_count;
        if (!arena_grow(&x->arena, &x->string_rows, &x->string_cap, i + 1, sizeof(str)))
            return arena_fail(&x->arena, e);
        if (!map_put(&x->strings, hash, i, e)) return false;
        assert(x->string_count < MAP_NONE);
        x->string_rows[x->string_count++] = text;
    }
    *number = i;
    return true;
}

// ---- samples

struct location_key {
    const struct encoder *encoder;
    uint64_t pc;
};

static bool same_location(const void *ctx, uint32_t row)
{
    const struct location_key *k = ctx;
    return k->encoder->location_rows[row] == k->pc;
}

static bool location_of(struct encoder *x, uint64_t pc, uint64_t *id, err *e)
{
    struct location_key k = {.encoder = x, .pc = pc};
    // A gap in the stack is a location of its own, with a name that says so.
    *id = ID_LOST;
    if (pc == SAMPLE_GAP) return true;
    uint64_t hash = hash_table_word(pc);
    uint32_t i = map_find(&x->locations, hash, same_location, &k);
    if (i == MAP_NONE) {
        i = (uint32_t)x->location_count;
        if (!arena_grow(&x->arena, &x->location_rows, &x->location_cap, i + 1, sizeof(uint64_t)))
            return arena_fail(&x->arena, e);
        if (!map_put(&x->locations, hash, i, e)) return false;
        x->location_rows[x->location_count++] = pc;
    }
    *id = ID_FIRST + i;
    return true;
}

static bool put_sample(struct encoder *x, const struct stack_row *row, const uint64_t *pcs, err *e)
{
    static const uint64_t ends[] = {
        [STACK_LOST] = ID_LOST, [STACK_DEEP] = ID_DEEP, [STACK_OVERFLOW] = ID_OVERFLOW};
    uint64_t component = 0;
    assert((size_t)row->end < COUNT(ends));
    if (!string_of(x, str_of(row->component), &component, e)) return false;
    size_t sample = pb_begin(x->out, PROFILE_SAMPLE);
    assert(row->depth <= SAMPLER_DEPTH_MAX);
    size_t ids = pb_begin(x->out, 1);
    for (uint32_t i = 0; i < row->depth; i++) {
        uint64_t id = 0;
        if (!location_of(x, pcs[i], &id, e)) return false;
        pb_put_varint(x->out, id);
    }
    // The mark stands at the root side, where callers are missing.
    if (row->end != STACK_WHOLE) pb_put_varint(x->out, ends[row->end]);
    pb_end(x->out, ids);
    size_t values = pb_begin(x->out, 2);
    pb_put_varint(x->out, row->samples);
    pb_put_varint(x->out, row->cpu_ns);
    pb_end(x->out, values);
    size_t label = pb_begin(x->out, 3);
    pb_put_u64(x->out, 1, TEXT_COMPONENT);
    pb_put_u64(x->out, 2, component);
    pb_end(x->out, label);
    pb_end(x->out, sample);
    return true;
}

// ---- locations, functions and mappings

// Looks all program counters up once. Afterwards the tables of names do not change any more, so the
// arrays below can be sized.
static bool find_all(struct encoder *x, err *e)
{
    struct sampler_place place;
    for (size_t i = 0; i < x->location_count; i++) {
        if (!sampler_names_find(x->names, x->location_rows[i], &place, e)) return false;
    }
    size_t n = sampler_names_function_count(x->names);
    x->function_ids = ARENA_ARRAY(&x->arena, uint32_t, n + 1);
    x->function_rows = ARENA_ARRAY(&x->arena, uint32_t, n + 1);
    return arena_ok(&x->arena, e);
}

static uint32_t function_id(struct encoder *x, uint32_t function)
{
    assert(function < sampler_names_function_count(x->names));
    if (x->function_ids[function] == 0) {
        x->function_rows[x->function_count] = function;
        x->function_ids[function] = ID_FIRST + x->function_count++;
    }
    return x->function_ids[function];
}

static bool put_locations(struct encoder *x, err *e)
{
    put_marks(x, PROFILE_LOCATION);
    for (size_t i = 0; i < x->location_count; i++) {
        struct sampler_place place;
        if (!sampler_names_find(x->names, x->location_rows[i], &place, e)) return false;
        size_t location = pb_begin(x->out, PROFILE_LOCATION);
        pb_put_u64(x->out, 1, ID_FIRST + i);
        // Mapping 0 means "none" in pprof, so ids begin at 1.
        if (place.module != UINT32_MAX) pb_put_u64(x->out, 2, place.module + 1);
        pb_put_u64(x->out, 3, x->location_rows[i]);
        for (uint32_t k = 0; k < place.count; k++) {
            size_t line = pb_begin(x->out, 4);
            pb_put_u64(x->out, 1, function_id(x, place.lines[k].function));
            pb_put_u64_opt(x->out, 2, place.lines[k].line);
            pb_end(x->out, line);
        }
        pb_end(x->out, location);
    }
    return true;
}

static bool put_functions(struct encoder *x, err *e)
{
    put_marks(x, PROFILE_FUNCTION);
    for (uint32_t i = 0; i < x->function_count; i++) {
        const struct sampler_function *f = sampler_names_function(x->names, x->function_rows[i]);
        uint64_t name = 0;
        uint64_t linked = 0;
        uint64_t file = 0;
        if (!string_of(x, f->name, &name, e) || !string_of(x, f->linked, &linked, e) ||
            !string_of(x, f->file, &file, e))
            return false;
        size_t function = pb_begin(x->out, PROFILE_FUNCTION);
        pb_put_u64(x->out, 1, ID_FIRST + i);
        pb_put_u64(x->out, 2, name);
        pb_put_u64(x->out, 3, linked);
        pb_put_u64_opt(x->out, 4, file);
        pb_end(x->out, function);
    }
    return true;
}

static bool put_mappings(struct encoder *x, err *e)
{
    uint32_t n = sampler_names_module_count(x->names);
    for (uint32_t i = 0; i < n; i++) {
        const struct sampler_module *m = sampler_names_module(x->names, i);
        uint64_t file = 0;
        uint64_t build_id = 0;
        if (!string_of(x, m->file, &file, e) || !string_of(x, m->build_id, &build_id, e))
            return false;
        size_t mapping = pb_begin(x->out, PROFILE_MAPPING);
        pb_put_u64(x->out, 1, i + 1);
        pb_put_u64_opt(x->out, 2, m->begin);
        pb_put_u64_opt(x->out, 3, m->end);
        pb_put_u64_opt(x->out, 5, file);
        pb_put_u64_opt(x->out, 6, build_id);
        for (uint32_t has = 7; has <= 10; has++)  // functions, filenames, line numbers, inlined
            pb_put_u64(x->out, has, 1);
        pb_end(x->out, mapping);
    }
    return true;
}

static void put_type(struct encoder *x, uint32_t field, uint64_t type, uint64_t unit)
{
    size_t m = pb_begin(x->out, field);
    pb_put_u64(x->out, 1, type);
    pb_put_u64(x->out, 2, unit);
    pb_end(x->out, m);
}

static bool put_all(struct encoder *x, const struct stack_sums *s,
                    const struct selfprofile_span *span, err *e)
{
    uint64_t number = 0;
    // In this order first, so that the numbers of the enum hold.
    for (size_t i = 0; i < COUNT(fixed); i++) {
        if (!string_of(x, str_of(fixed[i]), &number, e)) return false;
    }
    put_type(x, PROFILE_SAMPLE_TYPE, TEXT_SAMPLES, TEXT_COUNT);
    put_type(x, PROFILE_SAMPLE_TYPE, TEXT_CPU, TEXT_NANOSECONDS);
    for (size_t i = 0; i < s->row_count; i++) {
        const struct stack_row *row = &s->rows[i];
        assert(row->first + row->depth <= s->pc_count);
        if (!put_sample(x, row, &s->pcs[row->first], e)) return false;
    }
    if (!find_all(x, e) || !put_locations(x, e) || !put_functions(x, e) || !put_mappings(x, e))
        return false;
    // Last: all other tables add strings.
    for (size_t i = 0; i < x->string_count; i++)
        pb_put_bytes(x->out, PROFILE_STRING, x->string_rows[i]);
    pb_put_u64(x->out, PROFILE_TIME, (uint64_t)span->begin_wall_ns);
    pb_put_u64(x->out, PROFILE_DURATION, (uint64_t)span->duration_ns);
    put_type(x, PROFILE_PERIOD_TYPE, TEXT_CPU, TEXT_NANOSECONDS);
    pb_put_u64(x->out, PROFILE_PERIOD, (uint64_t)span->period_ns);
    pb_put_u64(x->out, PROFILE_DEFAULT_TYPE, TEXT_CPU);
    return buf_ok(x->out, e);
}

bool selfprofile_encode(const struct stack_sums *s, struct sampler_names *names,
                        const struct selfprofile_span *span, struct buf *out, err *e)
{
    struct encoder x = {.names = names, .out = out};
    assert(span->period_ns > 0 && span->duration_ns >= 0);
    arena_init(&x.arena, s->memory, (size_t)16 << 20);
    map_init(&x.strings, s->memory);
    map_init(&x.locations, s->memory);
    bool ok = put_all(&x, s, span, e);
    map_release(&x.strings);
    map_release(&x.locations);
    arena_release(&x.arena);
    return ok;
}
