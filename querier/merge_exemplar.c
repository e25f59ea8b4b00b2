// SPDX-License-Identifier: Apache-2.0
//
// What stands behind points and cells: exemplars and annotations of several answers as one.
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

bool merged_is_before(const struct merged_exemplar *a, const struct merged_exemplar *b)
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
    *out = merged_is_before(b, a) ? b : a;
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

size_t merged_sort_pairs(label *v, size_t n)
{
    if (n == 0) return 0;
    qsort(v, n, sizeof *v, label_order);
    size_t last = 0;
    for (size_t i = 1; i < n; i++) {
        if (label_order(&v[last], &v[i]) != 0) v[++last] = v[i];
    }
    return last + 1;
}
