// SPDX-License-Identifier: Apache-2.0
//
// head_labels.c - label sets and label names of series with rows in a range.
#include "ingester/head/head_int.h"

static bool is_seen(const struct head_walk *w, const struct service_head *s, uint32_t series,
                    const struct row *row)
{
    return row_is_there(w->query, s, series, row) && !walk_hides(w, series, row);
}

// Whether a row in the range counts. From the newest on: while an old cut is dropped its rows, the
// oldest, are still there, and a look from the front would go through all of them.
static bool has_rows(const struct head_walk *w, const struct service_head *s, uint32_t series)
{
    const struct head_query *q = w->query;
    const struct rows *rows = &s->rows[series];
    struct rows_cursor c = rows_within(rows, q->from_ns, q->to_ns);
    while (c.end > c.behind) {
        if (is_seen(w, s, series, &rows->v[--c.end])) return true;
    }
    while (c.to > c.at) {
        if (is_seen(w, s, series, &rows->v[--c.to])) return true;
    }
    const struct row *row = rows_next(&c);
    while (row && !is_seen(w, s, series, row))
        row = rows_next(&c);
    return row != NULL;
}

struct labels_read {
    const struct head_walk *walk;
    const struct head_query *query;
    struct label_room room;
    struct head_labels_want want;
    struct label_sets *sets;
};

static bool visit_sets(void *arg, struct service_head *s, uint32_t series, err *e)
{
    struct labels_read *t = arg;
    if (!has_rows(t->walk, s, series)) return true;
    labels ls;
    const str *names = t->want.name_count ? t->want.names : NULL;
    return walk_labels(&t->room, s, series, names, t->want.name_count, &ls, e) &&
           label_sets_add(t->sets, ls, e);
}

// Visits all series that the query selects. Strings are copied, because the service's lock is given
// up before the answer is written.
static bool read_sets(struct labels_read *t, struct head *h, struct req *r, visit_fn *visit, err *e)
{
    struct head_walk w;
    t->walk = &w;
    label_sets_init(t->sets, &r->arena, t->query->memory);
    bool ok = walk_begin(&w, h, r, t->query, e);
    for (size_t i = 0; ok && i < w.service_count; i++)
        ok = walk_series(&w, w.services[i], true, visit, t, e);
    label_sets_finish(t->sets);
    label_sets_release(t->sets);
    t->walk = NULL;
    return ok;
}

bool head_labels(struct head *h, struct req *r, const struct head_query *q,
                 const struct head_labels_want *w, struct label_sets *out, err *e)
{
    struct labels_read t = {.query = q, .room.arena = &r->arena, .want = *w, .sets = out};
    return read_sets(&t, h, r, visit_sets, e);
}

static bool visit_names(void *arg, struct service_head *s, uint32_t series, err *e)
{
    struct labels_read *t = arg;
    if (!has_rows(t->walk, s, series)) return true;
    const struct index_series *x = &s->index.series[series];
    for (uint32_t i = 0; i < x->n; i++) {
        if (!label_sets_add_name(t->sets, s->index.names[x->pairs[i].name].text, e)) return false;
    }
    return true;
}

bool head_label_names(struct head *h, struct req *r, const struct head_query *q,
                      struct label_sets *out, err *e)
{
    struct labels_read t = {.query = q, .sets = out};
    return read_sets(&t, h, r, visit_names, e);
}
