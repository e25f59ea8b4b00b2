// SPDX-License-Identifier: Apache-2.0
//
// totals.c - adding rows, what a point shows, how two points become one, and the messages.
#include "aggregate/totals.h"

#include "aggregate/shares.h"
#include "codec/pb.h"

bool totals_check(const struct totals_want *w, err *e)
{
    if (w->exemplars > EXEMPLAR_SPAN) {
        return err_set(e, ERR_INVALID_ARGUMENT, "exemplars of kind %d", (int)w->exemplars);
    }
    return w->step_ns > 0 ||
           err_set(e, ERR_INVALID_ARGUMENT, "step is %lld ns, least is 1", (long long)w->step_ns);
}

// ---- adding

// The row, or each of its spans, as an exemplar of its cell.
static bool offer(struct cells *c, const struct totals_want *w, struct cells_series *s,
                  uint32_t cell, struct wide value, const struct source_row *r, err *e)
{
    const struct exemplar profile = source_row_exemplar(r, wide_clip(value));
    if (w->exemplars == EXEMPLAR_PROFILE) return cells_offer(c, s, cell, &profile, e);
    for (uint32_t i = 0; i < r->spans; i++) {
        struct exemplar x;
        bool any = false;
        if (!source_row_span(r, i, &x, &any, e)) return false;
        if (any && !cells_offer(c, s, cell, &x, e)) return false;
    }
    return true;
}

// *first is the cell that counts the profile. Other points whose share is 0 need no cell.
static bool add_shares(struct cells *c, struct cells_series *s, const struct shares *spread,
                       uint32_t *first, err *e)
{
    if (!cells_at(c, s, spread->from, 0, first, e)) return false;
    cells_add(c, *first, shares_at(spread, spread->from), 1);
    for (int64_t point = spread->from + 1; point <= spread->to; point++) {
        uint32_t cell = 0;
        int64_t share = shares_at(spread, point);
        if (share == 0) continue;
        if (!cells_at(c, s, point, 0, &cell, e)) return false;
        cells_add(c, cell, share, 0);
    }
    return true;
}

bool totals_add_row(struct cells *c, const struct totals_want *w, struct cells_series *s,
                    const struct source_row *r, err *e)
{
    const struct points points = totals_points(w);
    struct shares spread;
    int64_t point = 0;
    struct wide value = {0};
    bool any = false;
    uint32_t cell = 0;
    if (!points_of_row(&points, r->time_ns, &point)) return true;
    if (!source_row_value(r, &value, &any, e)) return false;
    // A value beyond 64 bits counts at its time: it is cut there and named, however it is spread.
    if (w->spread && wide_fits(value) &&
        shares_init(&spread, &points, r->time_ns, r->duration_ns, value.low)) {
        if (!add_shares(c, s, &spread, &cell, e)) return false;
    } else {
        if (!cells_at(c, s, point, 0, &cell, e)) return false;
        cells_add_wide(c, cell, value, 1);
    }
    if (w->exemplars && any && !offer(c, w, s, cell, value, r, e)) return false;
    for (uint32_t i = 0; i < r->notes; i++) {
        label note = r->source->note(r->row, i);
        if (!cells_annotate(c, cell, note, r->source->notes_last, e)) return false;
    }
    return true;
}

// ---- showing

bool totals_show(const struct cells *c, const struct cell *cell, struct total *out, err *e)
{
    *out = (struct total){.point = cell->point,
                          .sum = wide_clip((struct wide){cell->sum, cell->carry}),
                          .profiles = cell->count,
                          .exemplar = cells_best(c, cell)};
    return cells_notes(c, cell, &out->annotations, e);
}

// ---- the wire

static bool encode_point(const struct cells *c, const struct cell *cell, struct buf *out, err *e)
{
    struct total t;
    if (!totals_show(c, cell, &t, e)) return false;
    size_t mark = pb_begin(out, 2);
    pb_put_i64_opt(out, 1, t.point);
    pb_put_u64_opt(out, 2, zigzag(cell->sum));
    pb_put_u64_opt(out, 3, t.profiles);
    labels_put(t.annotations, out, 4);
    if (t.exemplar) exemplar_encode(t.exemplar, out, 5);
    pb_put_u64_opt(out, 16, zigzag(cell->carry));
    pb_end(out, mark);
    return true;
}

bool totals_encode(const struct cells *c, bool wide, struct buf *out, uint32_t field, err *e)
{
    for (uint32_t i = 0; !wide && i < c->n; i++) {
        if (c->v[i].carry == 0) continue;
        return err_set(e, ERR_OUT_OF_RANGE, "the sum of point %lld does not fit 64 bits",
                       (long long)c->v[i].point);
    }
    return cells_encode(c, encode_point, out, field, e);
}

// Merges the exemplar and the annotations of a point. They are read after the numbers, because the
// cell has to be found first.
static bool merge_beside(struct cells *c, uint32_t row, str bytes, err *e)
{
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        struct exemplar x;
        label note;
        if (r.type != PB_BYTES) continue;
        if (r.field == 4 &&
            !(label_decode(r.bytes, &note, e) && cells_annotate(c, row, note, true, e))) {
            return false;
        }
        if (r.field == 5 &&
            !(exemplar_decode(c->arena, r.bytes, &x, e) && cells_offer_known(c, row, &x, e))) {
            return false;
        }
    }
    return pb_done(&r, e);
}

static bool merge_point(struct cells *c, struct cells_series *s, str bytes, err *e)
{
    int64_t point = 0;
    struct wide sum = {0};
    uint64_t profiles = 0;
    uint32_t row = 0;
    bool more = false;
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.type == PB_VARINT && r.field == 1) point = (int64_t)r.number;
        if (r.type == PB_VARINT && r.field == 2) sum.low = unzigzag(r.number);
        if (r.type == PB_VARINT && r.field == 3) profiles = r.number;
        if (r.type == PB_VARINT && r.field == 16) sum.carry = unzigzag(r.number);
        more = more || r.type == PB_BYTES;
    }
    if (!pb_done(&r, e) || !cells_at(c, s, point, 0, &row, e)) return false;
    cells_add_wide(c, row, sum, profiles);
    return !more || merge_beside(c, row, bytes, e);
}

bool totals_merge_bytes(struct cells *c, str bytes, err *e)
{
    return cells_merge_bytes(c, bytes, merge_point, e);
}
