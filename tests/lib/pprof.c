// SPDX-License-Identifier: Apache-2.0
#include "lib/pprof.h"

void pp_string(struct buf *b, const char *z)
{
    pb_put_bytes(b, 6, str_of(z));
}

void pp_type_field(struct buf *b, uint32_t field, uint64_t type, uint64_t unit)
{
    size_t m = pb_begin(b, field);
    pb_put_u64(b, 1, type);
    pb_put_u64(b, 2, unit);
    pb_end(b, m);
}

void pp_type(struct buf *b, uint64_t type, uint64_t unit)
{
    pp_type_field(b, 1, type, unit);
}

void pp_numbers(struct buf *b, uint32_t field, const uint64_t *v, size_t n)
{
    size_t m = pb_begin(b, field);
    for (size_t i = 0; i < n; i++) {
        pb_put_varint(b, v[i]);
    }
    pb_end(b, m);
}

void pp_sample(struct buf *b, const uint64_t *ids, size_t n, const int64_t *values,
               size_t value_count)
{
    size_t m = pb_begin(b, 2);
    pp_numbers(b, 1, ids, n);
    pp_numbers(b, 2, (const uint64_t *)values, value_count);
    pb_end(b, m);
}

void pp_labelled(struct buf *b, const uint64_t *ids, size_t n, int64_t value,
                 const struct pp_label *pairs, size_t pair_count)
{
    size_t m = pb_begin(b, 2);
    pp_numbers(b, 1, ids, n);
    pb_put_u64(b, 2, (uint64_t)value);
    for (size_t i = 0; i < pair_count; i++) {
        size_t inner = pb_begin(b, 3);
        pb_put_u64(b, 1, pairs[i].key);
        pb_put_u64_opt(b, 2, pairs[i].text);
        pb_put_i64_opt(b, 3, pairs[i].number);
        pb_end(b, inner);
    }
    pb_end(b, m);
}

void pp_mapping(struct buf *b, uint64_t id, uint64_t file, uint64_t build_id)
{
    size_t m = pb_begin(b, 3);
    pb_put_u64(b, 1, id);
    pb_put_u64(b, 2, 0x1000);
    pb_put_u64(b, 3, 0x2000);
    pb_put_u64(b, 5, file);
    pb_put_u64(b, 6, build_id);
    pb_put_u64(b, 7, 1);
    pb_end(b, m);
}

void pp_location(struct buf *b, uint64_t id, uint64_t mapping, uint64_t address,
                 const struct pp_line *lines, size_t n)
{
    size_t m = pb_begin(b, 4);
    pb_put_u64(b, 1, id);
    pb_put_u64_opt(b, 2, mapping);
    pb_put_u64_opt(b, 3, address);
    for (size_t i = 0; i < n; i++) {
        size_t inner = pb_begin(b, 4);
        pb_put_u64(b, 1, lines[i].function);
        pb_put_i64_opt(b, 2, lines[i].line);
        pb_end(b, inner);
    }
    pb_end(b, m);
}

void pp_place(struct buf *b, uint64_t id, uint64_t function)
{
    pp_location(b, id, 0, 0, &(struct pp_line){function, 0}, 1);
}

void pp_function(struct buf *b, uint64_t id, uint64_t name, uint64_t file)
{
    size_t m = pb_begin(b, 5);
    pb_put_u64(b, 1, id);
    pb_put_u64(b, 2, name);
    pb_put_u64(b, 3, name);
    pb_put_u64_opt(b, 4, file);
    pb_end(b, m);
}
