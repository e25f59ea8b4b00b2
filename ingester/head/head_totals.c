// SPDX-License-Identifier: Apache-2.0
//
// head_totals.c - rows of the head into totals by time and group (aggregate/totals.h).
#include "aggregate/site.h"
#include "ingester/head/head_exemplar.h"
#include "ingester/head/head_int.h"

struct totals_read {
    const struct head_walk *walk;
    const struct head_query *query;
    const struct totals_want *want;
    struct cells *cells;
    struct label_room room;
    struct site site;
    size_t matched_cap;
};

// Finds the stacks of the call site. Between two series the lock was given up and the table may
// have grown, so new stacks are matched each time.
static bool know_site(struct totals_read *t, const struct symbol_table *table, err *e)
{
    uint32_t *matched = t->site.matched;
    if (t->site.n == 0) {
        t->site.stacks = table->stack_count;
        return true;
    }
    if (!mem_grow(t->query->memory, &matched, &t->matched_cap, table->stack_count, sizeof *matched,
                  e)) {
        return false;
    }
    site_match(&t->site, table, matched);
    return true;
}

struct totals_series {
    struct totals_read *t;
    struct service_head *service;
    uint32_t series;
    struct cells_series cells;
};

static bool add_row(struct totals_series *s, const struct row *row, err *e)
{
    struct totals_read *t = s->t;
    if (!walk_counts(t->walk, s->service, s->series, row)) return true;
    struct source_row r = head_source_row(row, &t->site, t->want->exemplars == EXEMPLAR_SPAN);
    if (t->site.n) r.vector = payload_view(row->vector);
    return totals_add_row(t->cells, t->want, &s->cells, &r, e);
}

static bool visit(void *arg, struct service_head *service, uint32_t series, err *e)
{
    struct totals_read *t = arg;
    struct totals_series s = {.t = t, .service = service, .series = series, .cells.lasting = true};
    struct rows_cursor c = rows_within(&service->rows[series], t->query->from_ns, t->query->to_ns);
    const struct row *row = rows_next(&c);
    if (!row) return true;
    if (!walk_labels(&t->room, service, series, NULL, 0, &s.cells.ls, e) ||
        !know_site(t, &service->symbols.t, e)) {
        return false;
    }
    for (; row; row = rows_next(&c)) {
        if (!add_row(&s, row, e)) return false;
    }
    return true;
}

bool head_totals(struct head *h, struct req *r, const struct head_query *q,
                 const struct totals_want *want, struct cells *out, err *e)
{
    struct head_walk w;
    struct totals_read t = {.walk = &w,
                            .query = q,
                            .want = want,
                            .cells = out,
                            .room.arena = &r->arena,
                            .site = {.names = want->call_site, .n = want->call_site_count}};
    cells_init(out, &r->arena, q->memory, want->group_by, want->group_by_count);
    bool ok = totals_check(want, e) && walk_begin(&w, h, r, q, e);
    for (size_t i = 0; ok && i < w.service_count; i++) {
        t.site.stacks = 0;  // stack ids of the next service are of another table
        ok = walk_series(&w, w.services[i], want->include_sampled, visit, &t, e);
    }
    ok = ok && cells_finish(out, e);
    cells_release(out);
    mem_free(q->memory, t.site.matched, t.matched_cap * sizeof *t.site.matched);
    return ok;
}
