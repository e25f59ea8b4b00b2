// SPDX-License-Identifier: Apache-2.0
#include "querier/block_cells.h"

struct heat {
    struct block_walk *w;
    const struct query_heat *q;
    struct block_site site;  // none: everything counts
    struct block_scans scans;
};

// The slot whose (first + (k-1) * step, first + k * step] holds the time, the nearest of all else.
static int64_t slot_for(const struct query_heat *q, int64_t time_ns)
{
    int64_t distance = 0;
    if (time_ns <= q->first_ns) return 0;
    if (__builtin_sub_overflow(time_ns, q->first_ns, &distance)) return q->slots - 1;
    return MIN(distance / q->step_ns + (distance % q->step_ns > 0), q->slots - 1);
}

// The last bucket whose bound is not above the value, which is not below the first bound.
static uint32_t bucket_for(const struct query_heat *q, int64_t value)
{
    uint32_t bucket = 0;
    for (size_t i = 1; i < q->bound_count; i++) {
        if (q->bounds[i] <= value) bucket = (uint32_t)i;
    }
    return bucket;
}

static bool count(struct heat *t, const struct block_hit *h, const struct block_span *span,
                  int64_t value, err *e)
{
    struct block_walk *w = t->w;
    const struct query_heat *q = t->q;
    uint32_t group = 0;
    uint32_t row = 0;
    if (q->bound_count == 0) {
        merged_stretch(w->m, value);
        return true;
    }
    // It came after the axis was asked for.
    if (value < q->bounds[0] || value > q->largest) return true;
    merged_stretch(w->m, value);
    if (!block_group(w, h->unit, h->key, q->group_by, q->group_by_count, &group, e) ||
        !block_cell_at(w, group, slot_for(q, h->time_ns), bucket_for(q, value), &row, e)) {
        return false;
    }
    w->m->cells[row].count++;
    if (!q->exemplars) return true;
    const struct merged_exemplar *best = w->m->cells[row].exemplar;
    const struct block_offered o = {h, span, value, q->group_by, q->group_by_count};
    bool ok = block_offer(w, &o, &best, e);
    w->m->cells[row].exemplar = best;
    return ok;
}

static bool add_row(void *arg, const struct block_hit *h, str columns, err *e)
{
    struct heat *t = arg;
    (void)columns;
    if (t->q->kind == QUERY_PROFILES) return count(t, h, NULL, h->total, e);
    for (uint32_t i = 0; h->spans && i < h->spans->n; i++) {
        const struct block_span *s = &h->spans->v[i];
        int64_t value = 0;
        bool any = false;
        if (s->span_id == 0) continue;
        const struct block_matched all = {.stacks = h->unit->index->stack_count};
        if (!block_site_sum(&t->site, &all, s->vector, &value, &any, e)) {
            return false;
        }
        if (any && !count(t, h, s, value, e)) return false;
    }
    return true;
}

static bool add_unit(struct heat *t, struct block_unit *u, err *e)
{
    err why = {0};
    bool ok = block_has_rows(u) ||
              err_set(&why, ERR_FAILED_PRECONDITION, "it has no rows, which heat maps count");
    for (size_t i = 0; ok && i < u->piece_count; i++)
        ok = block_scan_unit(t->w, u, u->pieces[i], false, &t->scans, &why);
    return ok || block_note(t->w, u->object, &why, e);
}

bool block_read_heat(struct block_walk *w, struct block_unit *v, size_t n, err *e)
{
    struct heat t = {.w = w, .q = &w->q->heat};
    bool of_spans = t.q->kind == QUERY_SPANS;
    struct block_rows rows = {.details = t.q->exemplars,
                              .spans = of_spans,
                              .only_spans = of_spans,
                              .fn = add_row,
                              .arg = &t};
    block_site_init(&t.site, w, NULL, 0);
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++)
        ok = v[i].object->faulty || (req_alive(w->req, e) && add_unit(&t, &v[i], e));
    ok = ok && block_scan_rows(w, t.scans.v, t.scans.n, &rows, e);
    block_site_release(&t.site);
    return ok;
}
