// SPDX-License-Identifier: Apache-2.0
#include "codec/pb.h"
#include "querier/merge_int.h"

#include <stdlib.h>

// ---- exemplars

static void read_id(str bytes, id128 *id)
{
    if (bytes.n == sizeof id->b) memcpy(id->b, bytes.p, bytes.n);
}

bool merged_read_exemplar(struct merged *m, str bytes, const struct merged_exemplar **out, err *e)
{
    struct merged_exemplar *x = ARENA_NEW(&m->arena, struct merged_exemplar);
    if (!x) return merged_no_room(m, e);
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_BYTES) read_id(r.bytes, &x->profile);
        if (r.field == 2 && r.type == PB_FIXED64) x->time_ns = (int64_t)r.number;
        if (r.field == 3 && r.type == PB_VARINT) x->value = unzigzag(r.number);
        if (r.field == 4 && r.type == PB_BYTES && !merged_read_labels(m, r.bytes, &x->ls, e)) {
            return false;
        }
        if (r.field == 5 && r.type == PB_FIXED64) x->span_id = r.number;
        if (r.field != 6 || r.type != PB_BYTES) continue;
        x->has_trace = r.bytes.n == sizeof x->trace.b;
        read_id(r.bytes, &x->trace);
    }
    *out = x;
    return pb_done(&r, e);
}

static int by_id(const struct merged_exemplar *a, const struct merged_exemplar *b)
{
    int ids = memcmp(a->profile.b, b->profile.b, sizeof a->profile.b);
    if (ids) return ids;
    if (a->span_id != b->span_id) return a->span_id < b->span_id ? -1 : 1;
    return memcmp(a->trace.b, b->trace.b, sizeof a->trace.b);
}

static bool is_before(const struct merged_exemplar *a, const struct merged_exemplar *b)
{
    if (a->value != b->value) return a->value > b->value;
    if (a->time_ns != b->time_ns) return a->time_ns < b->time_ns;
    return by_id(a, b) < 0;
}

bool merged_choose(struct merged *m, const struct merged_exemplar *a,
                   const struct merged_exemplar *b, const struct merged_exemplar **out, err *e)
{
    if (!a || !b) {
        *out = a ? a : b;
        return true;
    }
    *out = is_before(b, a) ? b : a;
    if (a->time_ns != b->time_ns || by_id(a, b) != 0) return true;
    struct merged_exemplar *both = ARENA_NEW(&m->arena, struct merged_exemplar);
    label *v = ARENA_ARRAY(&m->arena, label, a->ls.n);
    if (!both || !v) return merged_no_room(m, e);
    size_t n = 0;
    for (size_t i = 0; i < a->ls.n; i++) {
        const label *l = &a->ls.v[i];
        if (labels_has(b->ls, l->name) && str_eq(labels_get(b->ls, l->name), l->value)) {
            v[n++] = *l;
        }
    }
    *both = **out;
    both->ls = (labels){v, n};
    *out = both;
    return true;
}

// ---- annotations

static int by_pair(const void *a, const void *b)
{
    const label *x = a;
    const label *y = b;
    int names = str_cmp(x->name, y->name);
    return names ? names : str_cmp(x->value, y->value);
}

size_t merged_sort_pairs(label *v, size_t n)
{
    if (n == 0) return 0;
    qsort(v, n, sizeof *v, by_pair);
    size_t last = 0;
    for (size_t i = 1; i < n; i++) {
        if (by_pair(&v[last], &v[i]) != 0) v[++last] = v[i];
    }
    return last + 1;
}

// ---- heat maps

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

static bool add_cell(struct merged *m, uint32_t group, str bytes, err *e)
{
    if (!arena_grow(&m->arena, &m->cells, &m->cell_cap, m->cell_count + 1, sizeof *m->cells)) {
        return merged_no_room(m, e);
    }
    struct merged_cell *c = &m->cells[m->cell_count++];
    *c = (struct merged_cell){.group = group};
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
