// SPDX-License-Identifier: Apache-2.0
//
// folded.c - collapsed text. Each distinct frame text becomes one function and one location with
// the same row. Each line becomes a sample; equal stacks stay apart until they become vectors.
#include "base/hash.h"
#include "base/map.h"
#include "decode/decode.h"
#include "decode/symbol.h"

#define LINE_MAX_BYTES 65535  // without its end; Go's Scanner refuses a line that fills 64 KiB

struct folded {
    struct arena *a;
    uint32_t symbol_max;
    struct profile *p;
    struct map names;
    size_t function_cap;
    size_t sample_cap;
    size_t value_cap;
    size_t stack_cap;
};

struct line_reader {
    const char *at;
    const char *end;
    size_t number;  // of the line last read, from 1
    bool too_long;
};

static struct line_reader line_reader(str bytes)
{
    const char *p = bytes.n ? bytes.p : "";
    return (struct line_reader){.at = p, .end = p + bytes.n};
}

static bool line_next(struct line_reader *r, str *line)
{
    size_t left = (size_t)(r->end - r->at);
    if (left == 0) return false;
    // A byte more than allowed is looked at, so that a line that is too long shows without reading
    // on to its end.
    size_t n = str_find(str_make(r->at, MIN(left, (size_t)LINE_MAX_BYTES + 1)), '\n');
    r->number++;
    if (n > LINE_MAX_BYTES) {
        r->too_long = true;
        return false;
    }
    *line = str_make(r->at, n);
    assert(r->at <= r->end && n <= left);
    r->at += MIN(n + 1, left);
    if (n > 0 && line->p[n - 1] == '\r') line->n--;
    return true;
}

struct name_probe {
    const struct profile *p;
    str name;
};

static bool same_name(const void *ctx, uint32_t row)
{
    const struct name_probe *probe = ctx;
    return str_eq(probe->p->functions[row].name, probe->name);
}

static bool function_of(struct folded *f, str name, uint32_t *row, err *e)
{
    struct profile *p = f->p;
    uint64_t hash = hash_table_str(name);
    *row = map_find(&f->names, hash, same_name, &(struct name_probe){p, name});
    if (*row != MAP_NONE) return true;
    *row = p->function_count;
    if (!arena_grow(f->a, &p->functions, &f->function_cap, (size_t)*row + 1,
                    sizeof *p->functions)) {
        return arena_fail(f->a, e);
    }
    assert(*row < f->function_cap);
    p->functions[p->function_count++] =
        (struct profile_function){.name = name, .system_name = name};
    return map_put(&f->names, hash, *row, e);
}

static bool add_sample(struct folded *f, str stack, int64_t value, err *e)
{
    struct profile *p = f->p;
    size_t frames = 1;
    for (size_t i = 0; i < stack.n; i++) {
        frames += stack.p[i] == ';';
    }
    // All three before anything is written: after a failure no column is longer than another.
    if (!arena_grow(f->a, &p->stack_locations, &f->stack_cap, p->stack_location_count + frames,
                    sizeof *p->stack_locations) ||
        !arena_grow(f->a, &p->samples, &f->sample_cap, p->sample_count + 1, sizeof *p->samples) ||
        !arena_grow(f->a, &p->values, &f->value_cap, p->sample_count + 1, sizeof *p->values)) {
        return arena_fail(f->a, e);
    }
    // The text begins at the root, stacks of a profile at the leaf: filled from the end.
    assert(frames <= stack.n + 1);
    uint32_t *leaf = p->stack_locations + p->stack_location_count;
    str rest = stack;
    for (size_t i = frames; i-- > 0;) {
        str frame = symbol_cut(str_split(rest, ';', &rest), f->symbol_max);
        if (!function_of(f, frame, &leaf[i], e)) return false;
    }
    p->values[p->sample_count] = value;
    p->samples[p->sample_count++] =
        (struct profile_sample){.first_location = p->stack_location_count,
                                .location_count = (uint32_t)frames};
    p->stack_location_count += (uint32_t)frames;
    assert(p->stack_location_count <= f->stack_cap && p->sample_count <= f->value_cap);
    return true;
}

static bool begin(struct folded *f, struct arena *a, str bytes, const struct decode_options *o,
                  err *e)
{
    assert(o && a);
    *f = (struct folded){.a = a, .symbol_max = o->symbol_max};
    map_init(&f->names, a->budget);
    if (o->inflated_max && bytes.n > o->inflated_max) {
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "text of %zu bytes, limit %zu", bytes.n,
                       o->inflated_max);
    }
    if (bytes.n > INT32_MAX) {  // so that no count of rows overflows
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "text of %zu bytes, limit 2 GiB", bytes.n);
    }
    f->p = ARENA_NEW(a, struct profile);
    struct profile_type *type = ARENA_NEW(a, struct profile_type);
    if (!f->p || !type) return arena_fail(a, e);
    *type = (struct profile_type){S("samples"), S("count")};
    f->p->types = type;
    f->p->type_count = 1;
    f->p->encoded_bytes = bytes.n;
    return true;
}

static bool finish(struct folded *f, struct decoded *out, err *e)
{
    struct profile *p = f->p;
    uint32_t n = p->function_count;
    p->locations = ARENA_ARRAY(f->a, struct profile_location, n);
    p->lines = ARENA_ARRAY(f->a, struct profile_line, n);
    if (!p->locations || !p->lines) return arena_fail(f->a, e);
    for (uint32_t i = 0; i < n; i++) {
        p->lines[i] = (struct profile_line){.function = i};
        p->locations[i] =
            (struct profile_location){.mapping = PROFILE_NONE, .first_line = i, .line_count = 1};
    }
    p->location_count = n;
    p->line_count = n;
    assert(p->line_count == p->function_count && p->location_count == p->function_count);
    *out = (struct decoded){p, 1};
    return true;
}

static bool add_folded_line(struct folded *f, str line, size_t number, err *e)
{
    // The last one: frames may have spaces.
    size_t space = str_rfind(line, ' ');
    // As in Pyroscope, a line without a count is skipped.
    if (space == line.n) return true;
    str count = str_slice(line, space + 1, line.n);
    int64_t value = 0;
    if (!str_i64(count, &value)) {
        return err_set(e, ERR_INVALID_ARGUMENT, "line %zu: bad count \"%.*s\"", number,
                       STR(str_slice(count, 0, 64)));
    }
    return add_sample(f, str_slice(line, 0, space), value, e);
}

bool decode_folded(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                   bool *cut, err *e)
{
    if (cut) *cut = false;
    struct folded f;
    bool ok = begin(&f, a, bytes, o, e);
    struct line_reader lines = line_reader(bytes);
    str line = {0};
    while (ok && line_next(&lines, &line)) {
        ok = add_folded_line(&f, line, lines.number, e);
    }
    if (cut) *cut = lines.too_long;
    ok = ok && finish(&f, out, e);
    map_release(&f.names);
    return ok;
}

bool decode_lines(struct arena *a, str bytes, const struct decode_options *o, struct decoded *out,
                  err *e)
{
    struct folded f;
    bool ok = begin(&f, a, bytes, o, e);
    struct line_reader lines = line_reader(bytes);
    str line = {0};
    while (ok && line_next(&lines, &line)) {
        if (line.n) ok = add_sample(&f, line, 1, e);
    }
    if (ok && lines.too_long) {
        ok = err_set(e, ERR_INVALID_ARGUMENT, "line %zu is longer than %d bytes", lines.number,
                     LINE_MAX_BYTES);
    }
    ok = ok && finish(&f, out, e);
    map_release(&f.names);
    return ok;
}
