// SPDX-License-Identifier: Apache-2.0
#include "ingester/head_cells.h"
#include "model/vector.h"

#include <stdlib.h>

struct totals_read {
    const struct head_walk *walk;
    const struct head_query *query;
    const struct head_totals_want *want;
    struct arena *arena;
    struct cells cells;
    struct site site;
};

// ---- reading

// The point whose slot (first + (k-1) * step, first + k * step] holds the time: the quotient
// rounded up. False if it is none of the asked ones.
static bool point_of(const struct head_totals_want *w, int64_t time_ns, int64_t *point)
{
    int64_t distance = 0;
    if (__builtin_sub_overflow(time_ns, w->first_ns, &distance)) return false;
    *point = distance / w->step_ns + (distance % w->step_ns > 0);
    if (distance <= -w->step_ns) return false;
    return *point < w->points;
}

struct totals_series {
    struct totals_read *t;
    struct service_head *service;
    uint32_t series;
    uint32_t group;
    bool has_cell;  // rows in order of time hit the same cell many times
    uint32_t cell;
};

static bool offer(struct totals_series *s, const struct row *row, int64_t value, err *e)
{
    struct totals_read *t = s->t;
    if (t->want->exemplars == HEAD_ROW) {
        struct found f = found_row(row, value, s->service, s->series);
        cells_offer(&t->cells, s->cell, &f);
        return true;
    }
    for (uint32_t i = 0; row->spans && i < row->spans->count; i++) {
        bool any = false;
        if (!span_value(&t->site, row, i, &value, &any, e)) return false;
        if (!any) continue;
        struct found f = found_span(row, i, value, s->service, s->series);
        cells_offer(&t->cells, s->cell, &f);
    }
    return true;
}

static bool add_row(struct totals_series *s, const struct row *row, err *e)
{
    struct totals_read *t = s->t;
    int64_t point = 0;
    int64_t value = 0;
    bool any = false;
    if (!point_of(t->want, row->time_ns, &point)) return true;
    if (!walk_counts(t->walk, s->service, s->series, row)) return true;
    if (!s->has_cell || t->cells.v[s->cell].point != point) {
        if (!cells_at(&t->cells, s->group, point, 0, &s->cell, e)) return false;
        s->has_cell = true;
    }
    if (!row_value(&t->site, row, &value, &any, e)) return false;
    struct cell *cell = &t->cells.v[s->cell];
    cell->count++;
    if (!sum_add(&cell->sum, value)) {
        return err_set(e, ERR_OUT_OF_RANGE, "the sum of point %lld does not fit 64 bits",
                       (long long)point);
    }
    if (t->want->exemplars && any && !offer(s, row, value, e)) return false;
    return !row->notes || cells_note(&t->cells, s->cell, row->notes, e);
}

static bool visit(void *arg, struct service_head *service, uint32_t series, err *e)
{
    struct totals_read *t = arg;
    struct totals_series s = {.t = t, .service = service, .series = series};
    struct rows_cursor c = rows_within(&service->rows[series], t->query->from_ns, t->query->to_ns);
    const struct row *row = rows_next(&c);
    if (!row) return true;
    if (!cells_group(&t->cells, service, series, &s.group, e) ||
        !site_know(&t->site, &service->symbols.t, e)) {
        return false;
    }
    for (; row; row = rows_next(&c)) {
        if (!add_row(&s, row, e)) return false;
    }
    return true;
}

// ---- the answer

static int by_labels(const void *a, const void *b)
{
    return labels_cmp(((const struct head_group *)a)->group, ((const struct head_group *)b)->group);
}

static bool show_point(struct totals_read *t, const struct cell *cell, struct head_point *out,
                       err *e)
{
    *out = (struct head_point){.point = cell->point, .sum = cell->sum, .profiles = cell->count};
    if (!cells_notes(&t->cells, cell, &out->annotations, &out->annotation_count, e)) return false;
    if (!t->want->exemplars || !t->cells.best[cell->best].any) return true;
    struct head_exemplar *x = ARENA_NEW(t->arena, struct head_exemplar);
    if (!x) return arena_ok(t->arena, e);
    out->exemplar = x;
    return found_show(&t->cells.best[cell->best], t->arena, t->want->group_by,
                      t->want->group_by_count, x, e);
}

static bool collect(struct totals_read *t, struct head_group **groups, size_t *n, err *e)
{
    struct cells *c = &t->cells;
    struct head_group *out = ARENA_ARRAY(t->arena, struct head_group, c->group_count);
    struct head_point *points = ARENA_ARRAY(t->arena, struct head_point, c->n);
    if (!arena_ok(t->arena, e)) return false;
    cells_sort(c);
    size_t used = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        if (!show_point(t, &c->v[i], &points[i], e)) return false;
        if (i == 0 || c->v[i].group != c->v[i - 1].group) {
            out[used++] = (struct head_group){c->groups[c->v[i].group], &points[i], 0};
        }
        out[used - 1].n++;
    }
    if (used) qsort(out, used, sizeof *out, by_labels);
    *groups = out;
    *n = used;
    return true;
}

bool head_totals(struct head *h, struct req *r, const struct head_query *q,
                 const struct head_totals_want *want, struct head_group **groups, size_t *n, err *e)
{
    struct head_walk w;
    struct totals_read t = {.walk = &w,
                            .query = q,
                            .want = want,
                            .arena = &r->arena,
                            .site = {.names = want->call_site,
                                     .n = want->call_site_count,
                                     .budget = q->memory}};
    if (want->exemplars > HEAD_SPAN) {
        return err_set(e, ERR_INVALID_ARGUMENT, "exemplars of kind %d", (int)want->exemplars);
    }
    cells_init(&t.cells, &r->arena, q->memory, want->group_by, want->group_by_count,
               want->exemplars != HEAD_NONE);
    bool ok = want->step_ns > 0 || err_set(e, ERR_INVALID_ARGUMENT, "step is %lld ns, least is 1",
                                           (long long)want->step_ns);
    ok = ok && walk_begin(&w, h, r, q, e);
    for (size_t i = 0; ok && i < w.service_count; i++) {
        site_forget(&t.site);
        ok = walk_series(&w, w.services[i], want->include_sampled, visit, &t, e);
    }
    ok = ok && collect(&t, groups, n, e);
    cells_release(&t.cells);
    site_release(&t.site);
    return ok;
}
