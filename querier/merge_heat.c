// SPDX-License-Identifier: Apache-2.0
#include "codec/pb.h"
#include "querier/merge_int.h"

#include <stdlib.h>

bool merged_add_extent(struct merged *m, str bytes, err *e)
{
    uint64_t v[4] = {0};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.type == PB_VARINT && r.field < COUNT(v)) v[r.field] = r.number;
    }
    if (!pb_done(&r, e)) return false;
    if (v[1] == 0) return true;
    int64_t least = unzigzag(v[2]);
    int64_t largest = unzigzag(v[3]);
    if (m->extent_count == 0 || least < m->least) m->least = least;
    if (m->extent_count == 0 || largest > m->largest) m->largest = largest;
    m->extent_count += v[1];
    return true;
}

void merged_stretch(struct merged *m, int64_t value)
{
    if (m->extent_count == 0 || value < m->least) m->least = value;
    if (m->extent_count == 0 || value > m->largest) m->largest = value;
    m->extent_count++;
}

bool merged_new_cell(struct merged *m, uint32_t group, int64_t slot, uint32_t bucket, uint32_t *row,
                     err *e)
{
    if (m->cell_count >= MAP_NONE - 1 ||
        !arena_grow(&m->arena, &m->cells, &m->cell_cap, m->cell_count + 1, sizeof *m->cells)) {
        return merged_no_room(m, e);
    }
    *row = (uint32_t)m->cell_count;
    m->cells[m->cell_count++] =
        (struct merged_cell){.group = group, .bucket = bucket, .slot = slot};
    return true;
}

static bool add_cell(struct merged *m, uint32_t group, str bytes, err *e)
{
    uint32_t row = 0;
    if (!merged_new_cell(m, group, 0, 0, &row, e)) return false;
    struct merged_cell *c = &m->cells[row];
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.type == PB_VARINT && r.field == 1) c->slot = (int64_t)r.number;
        if (r.type == PB_VARINT && r.field == 2) c->bucket = (uint32_t)r.number;
        if (r.type == PB_VARINT && r.field == 3) c->count = r.number;
        if (r.type == PB_BYTES && r.field == 4 &&
            !merged_read_exemplar(m, r.bytes, &c->exemplar, e)) {
            return false;
        }
    }
    return pb_done(&r, e);
}

bool merged_add_heat(struct merged *m, str bytes, err *e)
{
    return merged_add_grouped(m, bytes, add_cell, e);
}

static int by_place(const void *a, const void *b)
{
    const struct merged_cell *x = a;
    const struct merged_cell *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    if (x->slot != y->slot) return x->slot < y->slot ? -1 : 1;
    return x->bucket < y->bucket ? -1 : x->bucket > y->bucket;
}

bool merged_unite_cells(struct merged *m, err *e)
{
    if (m->cell_count == 0) return true;
    qsort(m->cells, m->cell_count, sizeof *m->cells, by_place);
    size_t last = 0;
    for (size_t i = 1; i < m->cell_count; i++) {
        struct merged_cell *to = &m->cells[last];
        const struct merged_cell *from = &m->cells[i];
        if (by_place(to, from) != 0) {
            m->cells[++last] = *from;
            continue;
        }
        to->count += from->count;
        if (!merged_choose(m, to->exemplar, from->exemplar, &to->exemplar, e)) return false;
    }
    m->cell_count = last + 1;
    return true;
}
