// SPDX-License-Identifier: Apache-2.0
//
// stacks.c - see stacks.h.
#include "decode/stacks.h"

#include "base/hash.h"
#include "base/utf8.h"
#include "decode/symbol.h"
#include "model/marks.h"

#define FRAMES_LEAST   ((uint64_t)4 << 20)
#define FRAMES_OF_BYTE 16

#define NS_OF_SECOND INT64_C(1000000000)

struct probe {
    const struct profile *p;
    str name;
    str file;
    int64_t line;
};

static bool same_frame(const void *ctx, uint32_t row)
{
    const struct probe *want = ctx;
    const struct profile_function *f = &want->p->functions[row];
    return str_eq(f->name, want->name) && f->start_line == want->line &&
           str_eq(f->filename, want->file);
}

bool stacks_begin(struct stacks *s, struct arena *a, size_t encoded_bytes,
                  const struct decode_options *o, const struct profile_type *types,
                  uint32_t type_count, err *e)
{
    assert(o && a && type_count > 0);
    *s = (struct stacks){.a = a,
                         .symbol_max = o->symbol_max,
                         .type_count = type_count,
                         .sample_rate = o->sample_rate};
    map_init(&s->frames, a->budget);
    if (o->inflated_max && encoded_bytes > o->inflated_max) {
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "text of %zu bytes, limit %zu", encoded_bytes,
                       o->inflated_max);
    }
    if (encoded_bytes > INT32_MAX) {  // so that no count of rows overflows
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "text of %zu bytes, limit 2 GiB", encoded_bytes);
    }
    s->p = ARENA_NEW(a, struct profile);
    struct profile_type *own = ARENA_ARRAY(a, struct profile_type, type_count);
    if (!s->p || !own) return arena_fail(a, e);
    memcpy(own, types, type_count * sizeof *own);
    s->p->types = own;
    s->p->type_count = type_count;
    s->p->encoded_bytes = encoded_bytes;
    s->bytes = encoded_bytes;
    return true;
}

bool stacks_are_deep(const struct stacks *s, uint64_t frames)
{
    return frames > FRAMES_LEAST + FRAMES_OF_BYTE * (uint64_t)s->bytes;
}

static bool find_frame(struct stacks *s, const struct probe *want, uint64_t hash, uint32_t *row)
{
    *row = map_find(&s->frames, hash, same_frame, want);
    return *row != MAP_NONE;
}

static bool add_frame(struct stacks *s, const struct probe *frame, uint64_t hash, uint32_t *row,
                      err *e)
{
    struct profile *p = s->p;
    *row = p->function_count;
    if (!arena_grow(s->a, &p->functions, &s->function_cap, (size_t)*row + 1,
                    sizeof *p->functions)) {
        return arena_fail(s->a, e);
    }
    assert(*row < s->function_cap);
    p->functions[p->function_count++] = (struct profile_function){.name = frame->name,
                                                                  .system_name = frame->name,
                                                                  .filename = frame->file,
                                                                  .start_line = frame->line};
    return map_put(&s->frames, hash, *row, e);
}

bool stacks_frame(struct stacks *s, str name, str file, int64_t line, uint32_t *row, err *e)
{
    if (name.n == 0) name = S(STACK_UNKNOWN_NAME);
    struct probe want = {s->p, symbol_cut(name, s->symbol_max), file, line};
    uint64_t hash = hash_table_str(want.name);
    if (file.n || line)
        hash = hash_table_and(hash_table_and(hash, hash_table_str(file)), (uint64_t)line);
    if (find_frame(s, &want, hash, row)) return true;
    losses_add(&s->p->losses, LOSS_SYMBOL_LENGTH, symbol_is_long(name, s->symbol_max));
    return add_frame(s, &want, hash, row, e);
}

bool stacks_frame_copy(struct stacks *s, str name, uint32_t *row, err *e)
{
    if (name.n == 0) name = S(STACK_UNKNOWN_NAME);
    struct probe want = {s->p, symbol_cut(name, s->symbol_max), {0}, 0};
    uint64_t hash = hash_table_str(want.name);
    if (find_frame(s, &want, hash, row)) return true;
    losses_add(&s->p->losses, LOSS_SYMBOL_LENGTH, symbol_is_long(name, s->symbol_max));
    want.name = arena_str(s->a, want.name);
    return arena_ok(s->a, e) && add_frame(s, &want, hash, row, e);
}

bool stacks_expect(struct stacks *s, size_t samples, size_t frames, err *e)
{
    struct profile *p = s->p;
    size_t values = samples * s->type_count;
    assert(p->sample_count == 0 && s->stack_cap == 0 && s->sample_cap == 0 && s->value_cap == 0);
    p->stack_locations = ARENA_ARRAY(s->a, uint32_t, frames);
    p->samples = ARENA_ARRAY(s->a, struct profile_sample, samples);
    p->values = ARENA_ARRAY(s->a, int64_t, values);
    if (!p->stack_locations || !p->samples || !p->values) return arena_fail(s->a, e);
    s->stack_cap = frames;
    s->sample_cap = samples;
    s->value_cap = values;
    return true;
}

bool stacks_sample(struct stacks *s, size_t depth, uint32_t **leaf, int64_t **values, err *e)
{
    struct profile *p = s->p;
    if (depth > UINT32_MAX - (size_t)p->stack_location_count || p->sample_count == UINT32_MAX) {
        return err_set(e, ERR_RESOURCE_EXHAUSTED, "stacks of more than %u frames in all",
                       UINT32_MAX);
    }
    size_t value = (size_t)p->sample_count * s->type_count;
    // All three before anything is written: after a failure no column is longer than another.
    if (!arena_grow(s->a, &p->stack_locations, &s->stack_cap, p->stack_location_count + depth,
                    sizeof *p->stack_locations) ||
        !arena_grow(s->a, &p->samples, &s->sample_cap, (size_t)p->sample_count + 1,
                    sizeof *p->samples) ||
        !arena_grow(s->a, &p->values, &s->value_cap, value + s->type_count, sizeof *p->values)) {
        return arena_fail(s->a, e);
    }
    // A stack without frames may come before there is any memory for them.
    *leaf = depth ? p->stack_locations + p->stack_location_count : NULL;
    *values = p->values + value;
    p->samples[p->sample_count++] =
        (struct profile_sample){.first_location = p->stack_location_count,
                                .location_count = (uint32_t)depth};
    p->stack_location_count += (uint32_t)depth;
    assert(p->stack_location_count <= s->stack_cap && p->sample_count <= s->sample_cap);
    return true;
}

bool stacks_text(struct stacks *s, str text, bool copy, int64_t value, err *e)
{
    if (text.n == 0) losses_add(&s->p->losses, LOSS_UNKNOWN_STACK, 1);
    str rest = str_ends(text, S(";")) ? str_slice(text, 0, text.n - 1) : text;
    size_t depth = 1;
    for (size_t i = 0; i < rest.n; i++)
        depth += rest.p[i] == ';';
    uint32_t *leaf = NULL;
    int64_t *values = NULL;
    if (!stacks_sample(s, depth, &leaf, &values, e)) return false;
    assert(leaf && values);
    *values = value;
    // The text begins at the root, stacks of a profile at the leaf: filled from the end.
    for (size_t i = depth; i-- > 0;) {
        str name = str_split(rest, ';', &rest);
        bool ok = copy ? stacks_frame_copy(s, name, &leaf[i], e)
                       : stacks_frame(s, name, (str){0}, 0, &leaf[i], e);
        if (!ok) return false;
    }
    return true;
}

static bool mend_names(struct stacks *s, err *e)
{
    struct profile *p = s->p;
    for (uint32_t i = 0; i < p->function_count; i++) {
        struct profile_function *f = &p->functions[i];
        if (utf8_is_text(f->name) && utf8_is_text(f->filename)) continue;
        losses_add(&p->losses, LOSS_BAD_TEXT, 1);
        f->name = f->system_name = utf8_mended(s->a, f->name);
        f->filename = utf8_mended(s->a, f->filename);
    }
    return arena_ok(s->a, e);
}

static bool set_rate(struct stacks *s, err *e)
{
    struct profile *p = s->p;
    if (s->sample_rate <= 0 || !str_is(p->types[0].type, "samples") ||
        !str_is(p->types[0].unit, "count")) {
        return true;
    }
    p->period = MAX(NS_OF_SECOND / s->sample_rate, 1);
    p->period_type = (struct profile_type){S("cpu"), S("nanoseconds")};
    if (p->type_count < 2 || !str_is(p->types[1].unit, "nanoseconds")) return true;
    p->period_type = p->types[1];
    for (uint32_t i = 0; i < p->sample_count; i++) {
        int64_t *v = p->values + (size_t)i * p->type_count;
        if (!__builtin_mul_overflow(v[0], p->period, &v[1])) continue;
        return err_set(e, ERR_OUT_OF_RANGE, "a count times %lld ns does not fit 64 bits",
                       (long long)p->period);
    }
    return true;
}

bool stacks_finish(struct stacks *s, err *e)
{
    struct profile *p = s->p;
    uint32_t n = p->function_count;
    if (!mend_names(s, e) || !set_rate(s, e)) return false;
    p->locations = ARENA_ARRAY(s->a, struct profile_location, n);
    p->lines = ARENA_ARRAY(s->a, struct profile_line, n);
    if (!p->locations || !p->lines) return arena_fail(s->a, e);
    for (uint32_t i = 0; i < n; i++) {
        p->lines[i] = (struct profile_line){.function = i, .line = p->functions[i].start_line};
        p->locations[i] =
            (struct profile_location){.mapping = PROFILE_NONE, .first_line = i, .line_count = 1};
    }
    p->location_count = n;
    p->line_count = n;
    assert(p->line_count == p->function_count && p->location_count == p->function_count);
    return true;
}

void stacks_release(struct stacks *s)
{
    map_release(&s->frames);
}
