// SPDX-License-Identifier: Apache-2.0
//
// head_heat.c - rows of the head into heat maps (aggregate/heat.h).
#include "aggregate/site.h"
#include "ingester/head/head_exemplar.h"
#include "ingester/head/head_int.h"

struct heat_read {
    const struct head_walk *walk;
    const struct head_query *query;
    const struct heat_want *want;
    struct cells *cells;
    struct extent *extent;
    struct label_room room;
};

struct heat_series {
    struct heat_read *t;
    struct service_head *service;
    uint32_t series;
    struct site all;  // without a call site: all entries of a span's vector are added
    struct cells_series cells;
};

static bool add_row(struct heat_series *s, const struct row *row, err *e)
{
    struct heat_read *t = s->t;
    if (!walk_counts(t->walk, s->service, s->series, row)) return true;
    const struct source_row r = head_source_row(row, &s->all, t->want->kind == EXEMPLAR_SPAN);
    return heat_add_row(t->cells, t->extent, t->want, &s->cells, &r, e);
}

static bool visit(void *arg, struct service_head *service, uint32_t series, err *e)
{
    struct heat_read *t = arg;
    struct heat_series s = {.t = t,
                            .service = service,
                            .series = series,
                            .all.stacks = service->symbols.t.stack_count,
                            .cells.lasting = true};
    struct rows_cursor c = rows_within(&service->rows[series], t->query->from_ns, t->query->to_ns);
    const struct row *row = rows_next(&c);
    if (!row) return true;
    if (!walk_labels(&t->room, service, series, NULL, 0, &s.cells.ls, e)) return false;
    for (; row; row = rows_next(&c)) {
        if (!add_row(&s, row, e)) return false;
    }
    return true;
}

bool head_heat(struct head *h, struct req *r, const struct head_query *q,
               const struct heat_want *want, struct cells *out, struct extent *extent, err *e)
{
    struct head_walk w;
    struct heat_read t = {.walk = &w,
                          .query = q,
                          .want = want,
                          .cells = out,
                          .extent = extent,
                          .room.arena = &r->arena};
    *extent = (struct extent){0};
    cells_init(out, &r->arena, q->memory, want->group_by, want->group_by_count);
    bool ok = heat_check(want, e) && walk_begin(&w, h, r, q, e);
    for (size_t i = 0; ok && i < w.service_count; i++)
        ok = walk_series(&w, w.services[i], false, visit, &t, e);
    ok = ok && cells_finish(out, e);
    cells_release(out);
    return ok;
}
