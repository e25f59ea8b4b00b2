// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"
#include "ingester/head_int.h"
#include "model/vector.h"

#include <stdlib.h>

// One cell a (group, point) that has data; groups and cells are found by hash, so memory follows
// the answer and not points times series.
struct cell {
    uint32_t group;
    struct head_point p;
};

struct totals_read {
    const struct head_walk *walk;
    const struct head_query *query;
    const struct head_totals_want *want;
    struct arena *arena;
    struct label_room room;
    labels *groups;
    size_t group_cap;
    uint32_t group_count;
    struct map by_labels;
    struct cell *cells;
    size_t cell_cap;
    uint32_t cell_count;
    struct map by_cell;
};

// ---- groups and cells

struct group_key {
    const struct totals_read *t;
    labels ls;
};

static bool same_group(const void *ctx, uint32_t row)
{
    const struct group_key *k = ctx;
    return labels_eq(k->t->groups[row], k->ls);
}

static bool group_of(struct totals_read *t, labels ls, uint32_t *out, err *e)
{
    struct group_key key = {t, ls};
    uint64_t hash = labels_fingerprint(ls);
    *out = map_find(&t->by_labels, hash, same_group, &key);
    if (*out != MAP_NONE) return true;
    if (!arena_grow(t->arena, &t->groups, &t->group_cap, (size_t)t->group_count + 1,
                    sizeof *t->groups)) {
        return arena_ok(t->arena, e);
    }
    t->groups[t->group_count] = labels_copy(t->arena, ls);
    if (!arena_ok(t->arena, e) || !map_put(&t->by_labels, hash, t->group_count, e)) return false;
    *out = t->group_count++;
    return true;
}

struct cell_key {
    const struct totals_read *t;
    uint32_t group;
    int64_t point;
};

static bool same_cell(const void *ctx, uint32_t row)
{
    const struct cell_key *k = ctx;
    const struct cell *c = &k->t->cells[row];
    return c->group == k->group && c->p.point == k->point;
}

static struct cell *cell_of(struct totals_read *t, uint32_t group, int64_t point, err *e)
{
    struct cell_key key = {t, group, point};
    uint64_t hash = hash_mix(hash_mix(0, group), (uint64_t)point);
    uint32_t row = map_find(&t->by_cell, hash, same_cell, &key);
    if (row != MAP_NONE) return &t->cells[row];
    if (!arena_grow(t->arena, &t->cells, &t->cell_cap, (size_t)t->cell_count + 1,
                    sizeof *t->cells)) {
        (void)!arena_ok(t->arena, e);
        return NULL;
    }
    t->cells[t->cell_count] = (struct cell){.group = group, .p.point = point};
    if (!map_put(&t->by_cell, hash, t->cell_count, e)) return NULL;
    return &t->cells[t->cell_count++];
}

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
    uint32_t group;
    struct cell *last;  // rows in order of time hit the same cell many times
};

static bool add_row(struct totals_series *s, const struct row *row, err *e)
{
    struct totals_read *t = s->t;
    int64_t point = 0;
    if (!row_by(row, t->walk->turn)) return true;
    if (!point_of(t->want, row->time_ns, &point)) return true;
    if (!s->last || s->last->p.point != point) s->last = cell_of(t, s->group, point, e);
    if (!s->last) return false;
    s->last->p.profiles++;
    if (sum_add(&s->last->p.sum, row->total)) return true;
    return err_set(e, ERR_OUT_OF_RANGE, "the sum of point %lld does not fit 64 bits",
                   (long long)point);
}

static bool visit(void *arg, struct service_head *service, uint32_t series, err *e)
{
    struct totals_read *t = arg;
    const struct rows *rows = &service->rows[series];
    struct totals_series s = {.t = t};
    size_t from = 0;
    size_t to = 0;
    if (rows_count(rows) == 0) return true;
    rows_find(rows, t->query->from_ns, t->query->to_ns, &from, &to);
    if (from == to && rows->late_n == 0) return true;
    static const str none;
    const str *names = t->want->group_by_count ? t->want->group_by : &none;
    labels ls;
    if (!walk_labels(&t->room, service, series, names, t->want->group_by_count, &ls, e) ||
        !group_of(t, ls, &s.group, e)) {
        return false;
    }
    for (size_t i = from; i < to; i++) {
        if (!add_row(&s, &rows->v[i], e)) return false;
    }
    for (size_t i = 0; i < rows->late_n; i++) {
        if (!row_within(&rows->late[i], t->query->from_ns, t->query->to_ns)) continue;
        if (!add_row(&s, &rows->late[i], e)) return false;
    }
    return true;
}

// ---- the answer

static int by_group_and_point(const void *a, const void *b)
{
    const struct cell *x = a;
    const struct cell *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    return x->p.point < y->p.point ? -1 : x->p.point > y->p.point;
}

static int by_labels(const void *a, const void *b)
{
    return labels_cmp(((const struct head_group *)a)->group, ((const struct head_group *)b)->group);
}

static bool collect(struct totals_read *t, struct head_group **groups, size_t *n, err *e)
{
    struct head_group *out = ARENA_ARRAY(t->arena, struct head_group, t->group_count);
    struct head_point *points = ARENA_ARRAY(t->arena, struct head_point, t->cell_count);
    if (!arena_ok(t->arena, e)) return false;
    if (t->cell_count) qsort(t->cells, t->cell_count, sizeof *t->cells, by_group_and_point);
    size_t used = 0;
    for (uint32_t i = 0; i < t->cell_count; i++) {
        points[i] = t->cells[i].p;
        if (i == 0 || t->cells[i].group != t->cells[i - 1].group) {
            out[used++] = (struct head_group){t->groups[t->cells[i].group], &points[i], 0};
        }
        out[used - 1].n++;
    }
    qsort(out, used, sizeof *out, by_labels);
    *groups = out;
    *n = used;
    return true;
}

bool head_totals(struct head *h, struct req *r, const struct head_query *q,
                 const struct head_totals_want *want, struct head_group **groups, size_t *n, err *e)
{
    struct head_walk w;
    struct totals_read t = {
        .walk = &w, .query = q, .want = want, .arena = &r->arena, .room.arena = &r->arena};
    map_init(&t.by_labels, q->memory);
    map_init(&t.by_cell, q->memory);
    bool ok = want->step_ns > 0 || err_set(e, ERR_INVALID_ARGUMENT, "step is %lld ns, least is 1",
                                           (long long)want->step_ns);
    ok = ok && walk_begin(&w, h, r, q, e);
    for (size_t i = 0; ok && i < w.service_count; i++)
        ok = walk_series(&w, w.services[i], want->include_sampled, visit, &t, e);
    ok = ok && collect(&t, groups, n, e);
    map_release(&t.by_labels);
    map_release(&t.by_cell);
    return ok;
}
