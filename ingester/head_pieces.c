// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"
#include "ingester/head_int.h"
#include "model/slot.h"

#include <stdlib.h>

// ---- which tenants and hours

struct pieces {
    struct arena *arena;
    struct map by_key;
    struct head_piece *v;
    size_t cap;
    uint32_t n;
    uint32_t last;  // found last: rows come in the order of their times
};

struct piece_key {
    const struct pieces *all;
    str tenant;
    int64_t hour;
};

static bool same_piece(const void *ctx, uint32_t row)
{
    const struct piece_key *k = ctx;
    const struct head_piece *p = &k->all->v[row];
    return p->hour == k->hour && str_eq(p->tenant, k->tenant);
}

static bool count_row(struct pieces *p, str tenant, int64_t hour, err *e)
{
    struct piece_key key = {p, tenant, hour};
    if (p->n && same_piece(&key, p->last)) {
        p->v[p->last].rows++;
        return true;
    }
    uint64_t hash = hash_table_and(hash_table_str(tenant), (uint64_t)hour);
    p->last = map_find(&p->by_key, hash, same_piece, &key);
    if (p->last == MAP_NONE) {
        if (!arena_grow(p->arena, &p->v, &p->cap, (size_t)p->n + 1, sizeof *p->v)) {
            return arena_ok(p->arena, e);
        }
        p->v[p->n] = (struct head_piece){arena_str(p->arena, tenant), hour, 0};
        if (!arena_ok(p->arena, e) || !map_put(&p->by_key, hash, p->n, e)) return false;
        p->last = p->n++;
    }
    p->v[p->last].rows++;
    return true;
}

// All rows of a cut in one service lie within the cut's hours. The lock is taken anew for each
// series.
static bool count_service(struct pieces *p, struct service_head *s, const struct cut *cut, err *e)
{
    int64_t after = slot_start(cut->hours.first, SLOT_HOUR);
    int64_t until = slot_start(cut->hours.last + 1, SLOT_HOUR);
    bool ok = true;
    bool more = true;
    for (uint32_t i = 0; ok && more; i++) {
        const struct row *row = NULL;
        pthread_rwlock_rdlock(&s->lock);
        more = i < s->index.series_count;
        struct rows_cursor c = {0};
        if (more) c = rows_within(&s->rows[i], after, until);
        while (more && ok && (row = rows_next(&c))) {
            if (row->cut == cut) ok = count_row(p, s->tenant, slot_of(row->time_ns, SLOT_HOUR), e);
        }
        pthread_rwlock_unlock(&s->lock);
    }
    return ok;
}

static int by_name(const void *a, const void *b)
{
    const struct head_piece *x = a;
    const struct head_piece *y = b;
    int order = str_cmp(x->tenant, y->tenant);
    if (order) return order;
    return x->hour < y->hour ? -1 : x->hour > y->hour;
}

bool head_pieces(struct head *h, const struct cut *cut, struct arena *a, struct head_piece **out,
                 size_t *n, err *e)
{
    struct pieces p = {.arena = a};
    struct service_head *s = NULL;
    bool ok = true;
    map_init(&p.by_key, a->budget);
    head_hold(h);
    for (uint32_t i = 0; ok && (s = head_service_at(h, i)); i++) {
        ok = count_service(&p, s, cut, e);
        service_unref(s);
    }
    head_let_go(h);
    map_release(&p.by_key);
    if (ok && p.n) qsort(p.v, p.n, sizeof *p.v, by_name);
    *out = p.v;
    *n = p.n;
    return ok;
}

// ---- the rows of one

static bool service_keys(struct service_head *s, const struct cut *cut, int64_t hour,
                         struct loose_set *keys, err *e)
{
    bool ok = true;
    bool more = true;
    for (uint32_t i = 0; ok && more; i++) {
        const struct row *row = NULL;
        pthread_rwlock_rdlock(&s->lock);
        more = i < s->index.series_count;
        struct rows_cursor c = {0};
        if (more) {
            c = rows_within(&s->rows[i], slot_start(hour, SLOT_HOUR),
                            slot_start(hour + 1, SLOT_HOUR));
        }
        while (more && ok && (row = rows_next(&c))) {
            struct loose_key key = {s->index.series[i].fingerprint, row->id};
            if (row->cut == cut) ok = loose_add(keys, key, 0, e);
        }
        pthread_rwlock_unlock(&s->lock);
    }
    return ok;
}

bool head_piece_keys(struct head *h, const struct cut *cut, const struct head_piece *piece,
                     struct loose_set *keys, str **services, size_t *n, err *e)
{
    struct service_head *s = NULL;
    size_t cap = 0;
    bool ok = true;
    *services = NULL;
    *n = 0;
    head_hold(h);
    for (uint32_t i = 0; ok && (s = head_service_at(h, i)); i++) {
        uint32_t before = keys->n;
        if (str_eq(s->tenant, piece->tenant)) ok = service_keys(s, cut, piece->hour, keys, e);
        if (keys->n > before && arena_grow(keys->arena, services, &cap, *n + 1, sizeof **services))
            (*services)[(*n)++] = arena_str(keys->arena, s->service);
        service_unref(s);
    }
    head_let_go(h);
    return ok && arena_ok(keys->arena, e);
}
