// SPDX-License-Identifier: Apache-2.0
#include "ingester/head_cells.h"

#include <stdlib.h>

struct heat_read {
    const struct head_walk *walk;
    const struct head_query *query;
    const struct head_heat_want *want;
    struct arena *arena;
    struct cells cells;
    struct site site;  // none: everything counts
    struct head_extent extent;
};

struct heat_series {
    struct heat_read *t;
    struct service_head *service;
    uint32_t series;
    uint32_t group;
};

// ---- reading

// The slot whose (first + (k-1) * step, first + k * step] holds the time, the nearest of all else.
static int64_t slot_of(const struct head_heat_want *w, int64_t time_ns)
{
    int64_t distance = 0;
    if (time_ns <= w->first_ns) return 0;
    if (__builtin_sub_overflow(time_ns, w->first_ns, &distance)) return w->slots - 1;
    return MIN(distance / w->step_ns + (distance % w->step_ns > 0), w->slots - 1);
}

// The last bucket whose bound is not above the value, which is not below the first bound.
static uint32_t bucket_of(const struct head_heat_want *w, int64_t value)
{
    size_t low = 0;
    size_t high = w->bound_count;
    while (high - low > 1) {
        size_t mid = low + (high - low) / 2;
        if (w->bounds[mid] <= value) {
            low = mid;
        } else {
            high = mid;
        }
    }
    return (uint32_t)low;
}

static void stretch(struct head_extent *x, int64_t value)
{
    if (x->count == 0 || value < x->least) x->least = value;
    if (x->count == 0 || value > x->largest) x->largest = value;
    x->count++;
}

static bool count(struct heat_series *s, const struct found *f, err *e)
{
    struct heat_read *t = s->t;
    const struct head_heat_want *w = t->want;
    if (w->bound_count == 0) {
        stretch(&t->extent, f->value);
        return true;
    }
    // It came after the axis was asked for.
    if (f->value < w->bounds[0] || f->value > w->largest) return true;
    stretch(&t->extent, f->value);
    uint32_t row = 0;
    if (!cells_at(&t->cells, s->group, slot_of(w, f->time_ns), bucket_of(w, f->value), &row, e)) {
        return false;
    }
    t->cells.v[row].count++;
    if (w->exemplars) cells_offer(&t->cells, row, f);
    return true;
}

static bool add_row(struct heat_series *s, const struct row *row, err *e)
{
    struct heat_read *t = s->t;
    if (!walk_counts(t->walk, s->service, s->series, row)) return true;
    if (t->want->kind == HEAD_ROW) {
        struct found f = found_row(row, row->total, s->service, s->series);
        return count(s, &f, e);
    }
    for (uint32_t i = 0; row->spans && i < row->spans->count; i++) {
        int64_t value = 0;
        bool any = false;
        if (!span_value(&t->site, row, i, &value, &any, e)) return false;
        if (!any) continue;
        struct found f = found_span(row, i, value, s->service, s->series);
        if (!count(s, &f, e)) return false;
    }
    return true;
}

static bool visit(void *arg, struct service_head *service, uint32_t series, err *e)
{
    struct heat_read *t = arg;
    struct heat_series s = {.t = t, .service = service, .series = series};
    struct rows_cursor c = rows_within(&service->rows[series], t->query->from_ns, t->query->to_ns);
    const struct row *row = rows_next(&c);
    if (!row) return true;
    if (!cells_group(&t->cells, service, series, &s.group, e)) return false;
    for (; row; row = rows_next(&c)) {
        if (!add_row(&s, row, e)) return false;
    }
    return true;
}

// ---- the answer

static int by_labels(const void *a, const void *b)
{
    return labels_cmp(((const struct head_heat_group *)a)->group,
                      ((const struct head_heat_group *)b)->group);
}

static bool show_cell(struct heat_read *t, const struct cell *cell, struct head_heat_cell *out,
                      err *e)
{
    *out =
        (struct head_heat_cell){.slot = cell->point, .bucket = cell->bucket, .count = cell->count};
    if (!t->want->exemplars) return true;
    struct head_exemplar *x = ARENA_NEW(t->arena, struct head_exemplar);
    if (!x) return arena_ok(t->arena, e);
    out->exemplar = x;
    return found_show(&t->cells.best[cell->best], t->arena, t->want->group_by,
                      t->want->group_by_count, x, e);
}

static bool collect(struct heat_read *t, struct head_heat *out, err *e)
{
    struct cells *c = &t->cells;
    struct head_heat_group *groups = ARENA_ARRAY(t->arena, struct head_heat_group, c->group_count);
    struct head_heat_cell *cells = ARENA_ARRAY(t->arena, struct head_heat_cell, c->n);
    if (!arena_ok(t->arena, e)) return false;
    cells_sort(c);
    size_t used = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (!show_cell(t, &c->v[i], &cells[i], e)) return false;
        if (i == 0 || c->v[i].group != c->v[i - 1].group) {
            groups[used++] = (struct head_heat_group){c->groups[c->v[i].group], &cells[i], 0};
        }
        groups[used - 1].n++;
    }
    if (used) qsort(groups, used, sizeof *groups, by_labels);
    *out = (struct head_heat){.extent = t->extent, .groups = groups, .n = used};
    return true;
}

static bool check(const struct head_heat_want *w, err *e)
{
    if (w->kind != HEAD_ROW && w->kind != HEAD_SPAN) {
        return err_set(e, ERR_INVALID_ARGUMENT, "a heat map of kind %d", (int)w->kind);
    }
    if (w->bound_count == 0) return true;
    if (w->step_ns <= 0 || w->slots <= 0) {
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "a heat map of %lld slots of %lld ns, least is 1 of 1", (long long)w->slots,
                       (long long)w->step_ns);
    }
    for (size_t i = 1; i < w->bound_count; i++) {
        if (w->bounds[i] >= w->bounds[i - 1]) continue;
        return err_set(e, ERR_INVALID_ARGUMENT, "lower bound %zu is below the one before", i);
    }
    return true;
}

bool head_heat(struct head *h, struct req *r, const struct head_query *q,
               const struct head_heat_want *want, struct head_heat *out, err *e)
{
    struct head_walk w;
    struct heat_read t = {.walk = &w, .query = q, .want = want, .arena = &r->arena};
    if (!check(want, e)) return false;
    cells_init(&t.cells, &r->arena, q->memory, want->group_by, want->group_by_count,
               want->exemplars);
    bool ok = walk_begin(&w, h, r, q, e);
    for (size_t i = 0; ok && i < w.service_count; i++)
        ok = walk_series(&w, w.services[i], false, visit, &t, e);
    ok = ok && collect(&t, out, e);
    cells_release(&t.cells);
    return ok;
}
