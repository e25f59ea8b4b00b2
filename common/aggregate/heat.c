// SPDX-License-Identifier: Apache-2.0
//
// heat.c - a value counts in the extent, and in the cell of its slot and bucket.
#include "aggregate/heat.h"

#include "codec/pb.h"

bool heat_check(const struct heat_want *w, err *e)
{
    if (w->kind != EXEMPLAR_PROFILE && w->kind != EXEMPLAR_SPAN) {
        return err_set(e, ERR_INVALID_ARGUMENT, "a heat map of kind %d", (int)w->kind);
    }
    if (w->buckets.n == 0) return true;
    if (w->slots.step_ns <= 0 || w->slots.count <= 0) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "a heat map of %lld slots of %lld ns, least is 1 of 1",
                       (long long)w->slots.count, (long long)w->slots.step_ns);
    }
    return buckets_check(&w->buckets, e);
}

bool heat_add(struct cells *c, struct extent *extent, const struct heat_want *w,
              struct cells_series *s, const struct exemplar *x, err *e)
{
    uint32_t bucket = 0;
    uint32_t row = 0;
    if (w->buckets.n == 0) {  // the first question: only the extent
        extent_add(extent, x->value);
        return true;
    }
    if (!buckets_at(&w->buckets, x->value, &bucket)) return true;
    extent_add(extent, x->value);
    // A time outside of all slots counts in the nearest one.
    if (!cells_at(c, s, points_nearest(&w->slots, x->time_ns), bucket, &row, e)) return false;
    cells_add(c, row, 0, 1);
    return !w->exemplars || cells_offer(c, s, row, x, e);
}

bool heat_add_row(struct cells *c, struct extent *extent, const struct heat_want *w,
                  struct cells_series *s, const struct source_row *r, err *e)
{
    if (w->kind == EXEMPLAR_PROFILE) {
        const struct exemplar x = source_row_exemplar(r, r->total);
        return heat_add(c, extent, w, s, &x, e);
    }
    for (uint32_t i = 0; i < r->spans; i++) {
        struct exemplar x;
        bool any = false;
        if (!source_row_span(r, i, &x, &any, e)) return false;
        if (any && !heat_add(c, extent, w, s, &x, e)) return false;
    }
    return true;
}

// ---- the wire

static bool encode_cell(const struct cells *c, const struct cell *cell, struct buf *out, err *e)
{
    const struct exemplar *best = cells_best(c, cell);
    (void)e;
    size_t mark = pb_begin(out, 2);
    pb_put_i64_opt(out, 1, cell->point);
    pb_put_u64_opt(out, 2, cell->bucket);
    pb_put_u64_opt(out, 3, cell->count);
    if (best) exemplar_encode(best, out, 4);
    pb_end(out, mark);
    return true;
}

bool heat_encode(const struct cells *c, struct buf *out, uint32_t field, err *e)
{
    return cells_encode(c, encode_cell, out, field, e);
}

static bool merge_cell(struct cells *c, struct cells_series *s, str bytes, err *e)
{
    int64_t slot = 0;
    uint32_t bucket = 0;
    uint32_t row = 0;
    uint64_t count = 0;
    str exemplar = {0};
    struct exemplar x;
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.type == PB_VARINT && r.field == 1) slot = (int64_t)r.number;
        if (r.type == PB_VARINT && r.field == 2) bucket = (uint32_t)r.number;
        if (r.type == PB_VARINT && r.field == 3) count = r.number;
        if (r.type == PB_BYTES && r.field == 4) exemplar = r.bytes;
    }
    if (!pb_done(&r, e) || !cells_at(c, s, slot, bucket, &row, e)) return false;
    cells_add(c, row, 0, count);
    return exemplar.n == 0 ||
           (exemplar_decode(c->arena, exemplar, &x, e) && cells_offer_known(c, row, &x, e));
}

bool heat_merge_bytes(struct cells *c, str bytes, err *e)
{
    return cells_merge_bytes(c, bytes, merge_cell, e);
}
