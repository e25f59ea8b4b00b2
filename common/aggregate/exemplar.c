// SPDX-License-Identifier: Apache-2.0
//
// exemplar.c - the order of exemplars and their message.
#include "aggregate/exemplar.h"

#include "codec/pb.h"

int exemplar_order(const struct exemplar *a, const struct exemplar *b)
{
    if (a->value != b->value) return a->value > b->value ? -1 : 1;
    if (a->time_ns != b->time_ns) return a->time_ns < b->time_ns ? -1 : 1;
    int ids = memcmp(a->profile.b, b->profile.b, sizeof a->profile.b);
    if (ids) return ids;
    if (a->span_id != b->span_id) return a->span_id < b->span_id ? -1 : 1;
    return memcmp(a->trace.b, b->trace.b, sizeof a->trace.b);
}

static bool has_label(labels ls, const label *l)
{
    return labels_has(ls, l->name) && str_eq(labels_get(ls, l->name), l->value);
}

bool exemplar_merge(struct arena *arena, struct exemplar *a, const struct exemplar *b, err *e)
{
    int order = exemplar_order(a, b);
    size_t common = 0;
    if (order > 0) *a = *b;
    if (order != 0) return true;
    // A tie: the labels that both have.
    for (size_t i = 0; i < a->ls.n; i++)
        common += has_label(b->ls, &a->ls.v[i]);
    if (common == a->ls.n) return true;
    label *v = ARENA_ARRAY(arena, label, common);
    if (!v) return arena_fail(arena, e);
    size_t n = 0;
    for (size_t i = 0; i < a->ls.n; i++) {
        if (has_label(b->ls, &a->ls.v[i])) v[n++] = a->ls.v[i];
    }
    a->ls = (labels){v, n};
    return true;
}

// ---- the wire

void exemplar_encode(const struct exemplar *x, struct buf *out, uint32_t field)
{
    size_t mark = pb_begin(out, field);
    pb_put_bytes(out, 1, str_make(x->profile.b, sizeof x->profile.b));
    pb_put_fixed64_opt(out, 2, (uint64_t)x->time_ns);
    pb_put_u64_opt(out, 3, zigzag(x->value));
    labels_put_set(x->ls, out, 4);
    pb_put_fixed64_opt(out, 5, x->span_id);
    if (x->has_trace) pb_put_bytes(out, 6, str_make(x->trace.b, sizeof x->trace.b));
    pb_end(out, mark);
}

static void read_id(str bytes, id128 *id)
{
    if (bytes.n == sizeof id->b) memcpy(id->b, bytes.p, bytes.n);
}

bool exemplar_decode(struct arena *arena, str bytes, struct exemplar *out, err *e)
{
    *out = (struct exemplar){0};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.field == 1 && r.type == PB_BYTES) read_id(r.bytes, &out->profile);
        if (r.field == 2 && r.type == PB_FIXED64) out->time_ns = (int64_t)r.number;
        if (r.field == 3 && r.type == PB_VARINT) out->value = unzigzag(r.number);
        if (r.field == 4 && r.type == PB_BYTES && !labels_decode_set(arena, r.bytes, &out->ls, e)) {
            return false;
        }
        if (r.field == 5 && r.type == PB_FIXED64) out->span_id = r.number;
        if (r.field != 6 || r.type != PB_BYTES) continue;
        out->has_trace = r.bytes.n == sizeof out->trace.b;
        read_id(r.bytes, &out->trace);
    }
    return pb_done(&r, e);
}
