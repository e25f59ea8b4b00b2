// SPDX-License-Identifier: Apache-2.0
//
// Heat maps count single profiles or spans, so they read rows only; parents have none.
#include "aggregate/site.h"
#include "querier/block/block_series.h"

struct heat {
    struct block_walk *w;
    struct heat_want want;
    struct arena scratch;
    struct block_scans scans;
    bool weighing;  // nothing is read or added
};

static bool add_row(void *arg, const struct block_hit *h, str columns, err *e)
{
    struct heat *t = arg;
    struct merged *m = t->w->m;
    const struct site all = {.stacks = h->unit->index->stack_count};
    const struct source_row r = block_source_row(h, columns, &all, &t->scratch);
    struct cells_series *s = NULL;
    return block_series_of(t->w, h->unit, h->unit->of_want, h->key, &s, e) &&
           heat_add_row(&m->heat, &m->extent, &t->want, s, &r, e);
}

static bool add_unit(struct heat *t, struct block_unit *u, err *e)
{
    err why = {0};
    struct block_series *own = ARENA_NEW(&t->w->wave, struct block_series);
    if (!own) return block_no_room(t->w, e);
    if (!t->weighing && !block_series_init(t->w, u, own, e)) return block_no_room(t->w, e);
    u->of_want = own;
    bool ok = block_has_rows(u) ||
              err_set(&why, ERR_FAILED_PRECONDITION, "it has no rows, which heat maps count");
    for (size_t i = 0; ok && i < u->piece_count; i++)
        ok = block_scan_unit(t->w, u, u->pieces[i], false, &t->scans, &why);
    return ok || block_note(t->w, u->object, &why, e);
}

static bool choose(struct heat *t, struct block_unit *v, size_t n, err *e)
{
    bool ok = true;
    for (size_t i = 0; ok && i < n; i++)
        ok = v[i].object->faulty || (req_alive(t->w->req, e) && add_unit(t, &v[i], e));
    return ok;
}

bool block_heat_weigh(struct block_walk *w, struct block_unit *v, size_t n, uint64_t *bytes, err *e)
{
    struct heat t = {.w = w, .weighing = true};
    // Details are read for exemplars only; they are taken for what the other heads cost to count.
    const struct block_rows rows = {.details = true, .spans = w->ask.q->heat.kind == EXEMPLAR_SPAN};
    if (!choose(&t, v, n, e)) return false;
    *bytes += block_weigh_rows(t.scans.v, t.scans.n, &rows);
    return true;
}

bool block_read_heat(struct block_walk *w, struct block_unit *v, size_t n, err *e)
{
    const struct query_heat *q = &w->ask.q->heat;
    struct heat t = {
        .w = w,
        .want = {.slots = {.first_ns = q->first_ns,
                           .step_ns = q->step_ns,
                           .count = q->slots,
                           .early_ns = q->early_ns},
                 .group_by = q->group_by,
                 .group_by_count = q->group_by_count,
                 .kind = q->kind,
                 .buckets = {.bounds = q->bounds, .n = q->bound_count, .largest = q->largest},
                 .exemplars = q->exemplars}};
    bool of_spans = q->kind == EXEMPLAR_SPAN;
    struct block_rows rows = {.details = q->exemplars,
                              .spans = of_spans,
                              .only_spans = of_spans,
                              .fn = add_row,
                              .arg = &t};
    arena_init(&t.scratch, &w->m->memory, SIZE_MAX);
    bool ok = heat_check(&t.want, e) && choose(&t, v, n, e);
    ok = ok && block_scan_rows(w, t.scans.v, t.scans.n, &rows, e);
    arena_release(&t.scratch);
    return ok;
}
