// SPDX-License-Identifier: Apache-2.0
#include "lib/otlp.h"

#include "codec/pb.h"

enum {
    MAPPING = 1,
    LOCATION,
    FUNCTION,
    LINK,
    STRING,
    ATTRIBUTE,
    STACK
};

// Numbers of fields that differ between the layouts.
static const struct {
    uint32_t attributes, link, values, stamps;
    uint32_t time, period_type, period;
} fields[OTLP_LAYOUTS] = {{2, 3, 4, 5, 3, 5, 6}, {3, 4, 2, 5, 3, 5, 6}, {4, 5, 3, 6, 4, 6, 7}};

static void init(struct buf *b)
{
    buf_init(b, NULL, 64 << 20);
}

void ow_init(struct ow *w, enum otlp_layout layout)
{
    *w = (struct ow){.layout = layout, .stacks = {{.n = 0}}};
    struct buf *all[] = {&w->tables, &w->samples,   &w->indices, &w->profiles,
                         &w->labels, &w->resources, &w->out};
    for (size_t i = 0; i < COUNT(all); i++)
        init(all[i]);
    uint32_t last = layout == OTLP_1_7 ? ATTRIBUTE : STACK;
    for (uint32_t i = MAPPING; i <= last; i++) {
        pb_put_bytes(&w->tables, i, (str){0});
        w->rows[i] = 1;
    }
    w->rows[STACK] = 1;
}

void ow_release(struct ow *w)
{
    struct buf *all[] = {&w->tables, &w->samples,   &w->indices, &w->profiles,
                         &w->labels, &w->resources, &w->out};
    for (size_t i = 0; i < COUNT(all); i++)
        buf_release(all[i]);
}

uint64_t ow_string(struct ow *w, const char *text)
{
    pb_put_bytes(&w->tables, STRING, str_of(text));
    return w->rows[STRING]++;
}

uint64_t ow_function(struct ow *w, const char *name, const char *file)
{
    uint64_t strings[] = {ow_string(w, name), ow_string(w, file)};
    size_t m = pb_begin(&w->tables, FUNCTION);
    pb_put_u64(&w->tables, 1, strings[0]);
    pb_put_u64(&w->tables, 3, strings[1]);
    pb_end(&w->tables, m);
    return w->rows[FUNCTION]++;
}

static void put_numbers(struct ow *w, struct buf *b, uint32_t field, const uint64_t *v, size_t n)
{
    for (size_t i = 0; w->unpacked && i < n; i++)
        pb_put_u64(b, field, v[i]);
    if (w->unpacked || n == 0) return;
    size_t m = pb_begin(b, field);
    for (size_t i = 0; i < n; i++)
        pb_put_varint(b, v[i]);
    pb_end(b, m);
}

uint64_t ow_mapping(struct ow *w, const char *file, uint64_t attribute)
{
    uint64_t name = ow_string(w, file);
    size_t m = pb_begin(&w->tables, MAPPING);
    pb_put_u64(&w->tables, 1, 0x1000);
    pb_put_u64(&w->tables, 2, 0x9000);
    pb_put_u64(&w->tables, 4, name);
    put_numbers(w, &w->tables, 5, &attribute, attribute ? 1 : 0);
    pb_end(&w->tables, m);
    return w->rows[MAPPING]++;
}

uint64_t ow_location(struct ow *w, uint64_t mapping, uint64_t address, uint64_t function,
                     uint64_t line)
{
    struct buf *b = &w->tables;
    size_t m = pb_begin(b, LOCATION);
    pb_put_u64_opt(b, 1, mapping);
    pb_put_u64_opt(b, 2, address);
    if (function) {
        size_t inner = pb_begin(b, 3);
        pb_put_u64(b, 1, function);
        pb_put_u64_opt(b, 2, line);
        pb_end(b, inner);
    }
    pb_end(b, m);
    return w->rows[LOCATION]++;
}

uint64_t ow_stack(struct ow *w, const uint64_t *locations, size_t n)
{
    uint64_t row = w->rows[STACK]++;
    assert(row < OW_STACKS && n <= OW_DEPTH);
    if (n) memcpy(w->stacks[row].v, locations, n * sizeof *locations);
    w->stacks[row].n = n;
    if (w->layout == OTLP_1_7) return row;
    size_t m = pb_begin(&w->tables, STACK);
    put_numbers(w, &w->tables, 1, locations, n);
    pb_end(&w->tables, m);
    return row;
}

static void put_key_value(struct buf *b, uint32_t field, const char *key, const char *text)
{
    size_t m = pb_begin(b, field);
    pb_put_bytes(b, 1, str_of(key));
    size_t inner = pb_begin(b, 2);
    pb_put_bytes(b, 1, str_of(text));
    pb_end(b, inner);
    pb_end(b, m);
}

uint64_t ow_attribute(struct ow *w, const char *key, const char *text)
{
    struct buf *b = &w->tables;
    if (w->layout == OTLP_1_7) {
        put_key_value(b, ATTRIBUTE, key, text);
        return w->rows[ATTRIBUTE]++;
    }
    uint64_t name = ow_string(w, key);
    size_t m = pb_begin(b, ATTRIBUTE);
    pb_put_u64(b, 1, name);
    size_t inner = pb_begin(b, 2);
    pb_put_bytes(b, 1, str_of(text));
    pb_end(b, inner);
    pb_end(b, m);
    return w->rows[ATTRIBUTE]++;
}

uint64_t ow_link(struct ow *w, const char *trace, const char *span)
{
    size_t m = pb_begin(&w->tables, LINK);
    pb_put_bytes(&w->tables, 1, str_make(trace, 16));
    pb_put_bytes(&w->tables, 2, str_make(span, 8));
    pb_end(&w->tables, m);
    return w->rows[LINK]++;
}

static void put_stack(struct ow *w, struct buf *b, uint64_t row)
{
    if (w->layout != OTLP_1_7) {
        pb_put_u64_opt(b, 1, row);
        return;
    }
    size_t n = row < OW_STACKS ? w->stacks[row].n : 0;
    pb_put_u64_opt(b, 1, w->index_count);
    pb_put_u64_opt(b, 2, n);
    for (size_t i = 0; i < n; i++)
        pb_put_varint(&w->indices, w->stacks[row].v[i]);
    w->index_count += n;
}

void ow_sample(struct ow *w, const struct ow_sample *s)
{
    struct buf *b = &w->samples;
    size_t m = pb_begin(b, 2);
    put_stack(w, b, s->stack);
    put_numbers(w, b, fields[w->layout].attributes, s->attributes, s->attribute_count);
    pb_put_u64_opt(b, fields[w->layout].link, s->link);
    put_numbers(w, b, fields[w->layout].values, s->values, s->value_count);
    for (size_t i = 0; i < s->stamps; i++) {
        uint64_t at = UINT64_C(1700000000000000000) + i;
        if (w->layout == OTLP_1_7)
            pb_put_u64(b, fields[w->layout].stamps, at);
        else
            pb_put_fixed64_opt(b, fields[w->layout].stamps, at);
    }
    pb_end(b, m);
}

static void put_type(struct ow *w, struct buf *b, uint32_t field, const char *type,
                     const char *unit)
{
    uint64_t strings[] = {ow_string(w, type), ow_string(w, unit)};
    size_t m = pb_begin(b, field);
    pb_put_u64(b, 1, strings[0]);
    pb_put_u64(b, 2, strings[1]);
    pb_end(b, m);
}

void ow_profile(struct ow *w, const struct ow_profile *p)
{
    struct buf *b = &w->profiles;
    size_t m = pb_begin(b, 2);
    if (p->type) put_type(w, b, 1, p->type, p->unit);
    if (p->more_type) put_type(w, b, 1, p->more_type, "bytes");
    buf_str(b, buf_view(&w->samples));
    if (w->layout == OTLP_1_7) {
        pb_put_bytes_opt(b, 3, buf_view(&w->indices));
        pb_put_u64_opt(b, fields[w->layout].time, p->time_ns);
    } else {
        pb_put_fixed64_opt(b, fields[w->layout].time, p->time_ns);
    }
    if (p->period_type) {
        put_type(w, b, fields[w->layout].period_type, p->period_type, p->period_unit);
    }
    pb_put_u64_opt(b, fields[w->layout].period, p->period);
    pb_end(b, m);
    buf_clear(&w->samples);
    buf_clear(&w->indices);
    w->index_count = 0;
}

void ow_label(struct ow *w, const char *key, const char *text)
{
    put_key_value(&w->labels, 1, key, text);
}

void ow_resource(struct ow *w)
{
    struct buf *b = &w->resources;
    size_t m = pb_begin(b, 1);
    pb_put_bytes(b, 1, buf_view(&w->labels));
    size_t inner = pb_begin(b, 2);
    buf_str(b, buf_view(&w->profiles));
    pb_end(b, inner);
    pb_end(b, m);
    buf_clear(&w->labels);
    buf_clear(&w->profiles);
}

str ow_end(struct ow *w)
{
    buf_clear(&w->out);
    buf_str(&w->out, buf_view(&w->resources));
    pb_put_bytes(&w->out, 2, buf_view(&w->tables));
    return buf_view(&w->out);
}
