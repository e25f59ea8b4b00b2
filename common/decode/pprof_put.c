// SPDX-License-Identifier: Apache-2.0
//
// pprof_put.c - a decoded profile as a pprof message. Ids are rows + 1; each string is written
// once.
#include "base/hash.h"
#include "base/map.h"
#include "base/utf8.h"
#include "codec/pb.h"
#include "decode/decode.h"

// Numbers of fields in google.v1.Profile.
enum {
    PROFILE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING = 6,
    PROFILE_DROP_FRAMES = 7,
    PROFILE_KEEP_FRAMES = 8,
    PROFILE_TIME = 9,
    PROFILE_DURATION = 10,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_PERIOD = 12,
    PROFILE_COMMENT = 13,
    PROFILE_DEFAULT_TYPE = 14
};

struct writer {
    struct arena *a;
    struct buf *out;
    struct map index;
    str *strings;
    size_t count;
    size_t cap;
    err *e;
    bool failed;  // *e says why
};

struct probe {
    const str *strings;
    str text;
};

static bool same_text(const void *ctx, uint32_t row)
{
    const struct probe *p = ctx;
    return str_eq(p->strings[row], p->text);
}

// The row of a string in the table; 0, the empty string, after a failure.
static int64_t string_of(struct writer *w, str text)
{
    if (text.n == 0 || w->failed) return 0;
    uint64_t hash = hash_table_str(text);
    uint32_t row = map_find(&w->index, hash, same_text, &(struct probe){w->strings, text});
    if (row != MAP_NONE) return row;
    if (!arena_grow(w->a, &w->strings, &w->cap, w->count + 1, sizeof *w->strings)) {
        w->failed = !arena_fail(w->a, w->e);
        return 0;
    }
    row = (uint32_t)w->count;
    w->strings[w->count++] = text;
    w->failed = !map_put(&w->index, hash, row, w->e);
    return row;
}

static void put_type(struct writer *w, unsigned field, struct profile_type type)
{
    size_t at = pb_begin(w->out, field);
    pb_put_i64_opt(w->out, 1, string_of(w, type.type));
    pb_put_i64_opt(w->out, 2, string_of(w, type.unit));
    pb_end(w->out, at);
}

static void put_labels(struct writer *w, const struct profile *p, const struct profile_sample *s)
{
    for (uint32_t k = 0; k < s->label_count; k++) {
        const struct profile_label *l = &p->labels[s->first_label + k];
        size_t at = pb_begin(w->out, 3);
        pb_put_i64_opt(w->out, 1, string_of(w, l->key));
        pb_put_i64_opt(w->out, 2, string_of(w, l->text));
        pb_put_i64_opt(w->out, 3, l->number);
        pb_put_i64_opt(w->out, 4, string_of(w, l->unit));
        pb_end(w->out, at);
    }
}

static void put_samples(struct writer *w, const struct profile *p)
{
    for (uint32_t i = 0; i < p->sample_count; i++) {
        const struct profile_sample *s = &p->samples[i];
        size_t at = pb_begin(w->out, PROFILE_SAMPLE);
        size_t list = pb_begin(w->out, 1);
        for (uint32_t k = 0; k < s->location_count; k++)
            pb_put_varint(w->out, (uint64_t)p->stack_locations[s->first_location + k] + 1);
        pb_end(w->out, list);
        list = pb_begin(w->out, 2);
        for (uint32_t k = 0; k < p->type_count; k++)
            pb_put_varint(w->out, (uint64_t)p->values[(size_t)i * p->type_count + k]);
        pb_end(w->out, list);
        put_labels(w, p, s);
        pb_end(w->out, at);
    }
}

static void put_mappings(struct writer *w, const struct profile *p)
{
    for (uint32_t i = 0; i < p->mapping_count; i++) {
        const struct profile_mapping *m = &p->mappings[i];
        size_t at = pb_begin(w->out, PROFILE_MAPPING);
        pb_put_u64(w->out, 1, (uint64_t)i + 1);
        pb_put_u64_opt(w->out, 2, m->start);
        pb_put_u64_opt(w->out, 3, m->limit);
        pb_put_u64_opt(w->out, 4, m->offset);
        pb_put_i64_opt(w->out, 5, string_of(w, m->filename));
        pb_put_i64_opt(w->out, 6, string_of(w, m->build_id));
        // SYMBOL_HAS_FUNCTIONS and so on are fields 7 to 10, in this order.
        for (uint32_t bit = 0; bit < 4; bit++)
            pb_put_u64_opt(w->out, 7 + bit, m->flags >> bit & 1);
        pb_end(w->out, at);
    }
}

static void put_frames(struct writer *w, const struct profile *p)
{
    for (uint32_t i = 0; i < p->location_count; i++) {
        const struct profile_location *l = &p->locations[i];
        size_t at = pb_begin(w->out, PROFILE_LOCATION);
        pb_put_i64_opt(w->out, 1, (int64_t)i + 1);
        if (l->mapping != PROFILE_NONE) pb_put_u64(w->out, 2, (uint64_t)l->mapping + 1);
        pb_put_i64_opt(w->out, 3, (int64_t)l->address);
        for (uint32_t k = 0; k < l->line_count; k++) {
            const struct profile_line *line = &p->lines[l->first_line + k];
            size_t inner = pb_begin(w->out, 4);
            pb_put_i64_opt(w->out, 1, (int64_t)line->function + 1);
            pb_put_i64_opt(w->out, 2, line->line);
            pb_end(w->out, inner);
        }
        pb_put_u64_opt(w->out, 5, l->folded);
        pb_end(w->out, at);
    }
    for (uint32_t i = 0; i < p->function_count; i++) {
        const struct profile_function *f = &p->functions[i];
        size_t at = pb_begin(w->out, PROFILE_FUNCTION);
        pb_put_i64_opt(w->out, 1, (int64_t)i + 1);
        pb_put_i64_opt(w->out, 2, string_of(w, f->name));
        pb_put_i64_opt(w->out, 3, string_of(w, f->system_name));
        pb_put_i64_opt(w->out, 4, string_of(w, f->filename));
        pb_put_i64_opt(w->out, 5, f->start_line);
        pb_end(w->out, at);
    }
}

bool decode_put_pprof(struct arena *a, const struct profile *p, struct buf *out, err *e)
{
    struct writer w = {.a = a, .out = out, .e = e};
    map_init(&w.index, a->budget);
    w.strings = ARENA_NEW(a, str);
    if (!w.strings) return arena_fail(a, e);
    w.cap = w.count = 1;  // the first string is empty
    for (uint32_t i = 0; i < p->type_count; i++)
        put_type(&w, PROFILE_TYPE, p->types[i]);
    put_samples(&w, p);
    put_mappings(&w, p);
    put_frames(&w, p);
    pb_put_i64_opt(out, PROFILE_DROP_FRAMES, string_of(&w, p->drop_frames));
    pb_put_i64_opt(out, PROFILE_KEEP_FRAMES, string_of(&w, p->keep_frames));
    pb_put_i64_opt(out, PROFILE_TIME, p->time_ns);
    pb_put_i64_opt(out, PROFILE_DURATION, p->duration_ns);
    if (p->period_type.type.n || p->period_type.unit.n)
        put_type(&w, PROFILE_PERIOD_TYPE, p->period_type);
    pb_put_i64_opt(out, PROFILE_PERIOD, p->period);
    for (uint32_t i = 0; i < p->comment_count; i++)
        pb_put_u64(out, PROFILE_COMMENT, (uint64_t)string_of(&w, p->comments[i]));
    pb_put_i64_opt(out, PROFILE_DEFAULT_TYPE, string_of(&w, p->default_type));
    // Text of other formats may be no UTF-8, which readers of protobuf refuse.
    for (size_t i = 0; i < w.count; i++)
        pb_put_bytes(out, PROFILE_STRING, utf8_mended(a, w.strings[i]));
    map_release(&w.index);
    return !w.failed && arena_ok(a, e) && buf_ok(out, e);
}

size_t decode_pprof_size(const struct profile *p)
{
    size_t n = (size_t)p->function_count * 10 + (size_t)p->location_count * 12 +
               (size_t)p->stack_location_count * 2 + (size_t)p->label_count * 8 +
               (size_t)p->sample_count * (8 + 5 * (size_t)p->type_count);
    for (uint32_t i = 0; i < p->function_count; i++) {
        n += p->functions[i].name.n;
    }
    return n;
}
