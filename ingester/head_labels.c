// SPDX-License-Identifier: Apache-2.0
#include "ingester/head_int.h"

#include <stdlib.h>

static bool has_rows(const struct rows *rows, const struct head_query *q)
{
    struct rows_cursor c = rows_within(rows, q->from_ns, q->to_ns);
    const struct row *row = rows_next(&c);
    while (row && !row_is_there(row))
        row = rows_next(&c);
    return row != NULL;
}

struct labels_read {
    const struct head_query *query;
    struct arena *arena;
    struct label_room room;
    struct head_labels_want want;
    labels *sets;
    size_t cap;
    uint32_t n;
    struct map seen;
};

struct set_key {
    const struct labels_read *t;
    labels ls;
};

static bool same_set(const void *ctx, uint32_t row)
{
    const struct set_key *k = ctx;
    return labels_eq(k->t->sets[row], k->ls);
}

// Strings are copied: the lock is given back before the answer is written.
static bool note(struct labels_read *t, labels ls, err *e)
{
    struct set_key key = {t, ls};
    uint64_t hash = labels_hash(ls);
    if (map_find(&t->seen, hash, same_set, &key) != MAP_NONE) return true;
    if (!arena_grow(t->arena, &t->sets, &t->cap, (size_t)t->n + 1, sizeof *t->sets)) {
        return arena_ok(t->arena, e);
    }
    t->sets[t->n] = labels_copy(t->arena, ls);
    return arena_ok(t->arena, e) && map_put(&t->seen, hash, t->n++, e);
}

static bool visit_sets(void *arg, struct service_head *s, uint32_t series, err *e)
{
    struct labels_read *t = arg;
    if (!has_rows(&s->rows[series], t->query)) return true;
    labels ls;
    const str *names = t->want.name_count ? t->want.names : NULL;
    return walk_labels(&t->room, s, series, names, t->want.name_count, &ls, e) && note(t, ls, e);
}

static int by_labels(const void *a, const void *b)
{
    return labels_cmp(*(const labels *)a, *(const labels *)b);
}

// Runs over what the query means; sets are distinct and in order at the end.
static bool read_sets(struct labels_read *t, struct head *h, struct req *r, visit_fn *visit, err *e)
{
    struct head_walk w;
    map_init(&t->seen, t->query->memory);
    bool ok = walk_begin(&w, h, r, t->query, e);
    for (size_t i = 0; ok && i < w.service_count; i++)
        ok = walk_series(&w, w.services[i], true, visit, t, e);
    map_release(&t->seen);
    if (ok && t->n) qsort(t->sets, t->n, sizeof *t->sets, by_labels);
    return ok;
}

bool head_labels(struct head *h, struct req *r, const struct head_query *q,
                 const struct head_labels_want *w, labels **sets, size_t *n, err *e)
{
    struct labels_read t = {.query = q, .arena = &r->arena, .room.arena = &r->arena, .want = *w};
    if (!read_sets(&t, h, r, visit_sets, e)) return false;
    *sets = t.sets;
    *n = t.n;
    return true;
}

// A name counts as a set of one label without value.
static bool visit_names(void *arg, struct service_head *s, uint32_t series, err *e)
{
    struct labels_read *t = arg;
    if (!has_rows(&s->rows[series], t->query)) return true;
    const struct index_series *x = &s->index.series[series];
    for (uint32_t i = 0; i < x->n; i++) {
        label one = {.name = s->index.names[x->pairs[i].name].text};
        if (!note(t, (labels){&one, 1}, e)) return false;
    }
    return true;
}

bool head_label_names(struct head *h, struct req *r, const struct head_query *q, str **names,
                      size_t *n, err *e)
{
    struct labels_read t = {.query = q, .arena = &r->arena};
    if (!read_sets(&t, h, r, visit_names, e)) return false;
    *names = ARENA_ARRAY(&r->arena, str, t.n);
    if (!*names) return arena_ok(&r->arena, e);
    for (uint32_t i = 0; i < t.n; i++)
        (*names)[i] = t.sets[i].v[0].name;
    *n = t.n;
    return true;
}
