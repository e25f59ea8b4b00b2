// SPDX-License-Identifier: Apache-2.0
#include "base/hash.h"
#include "ingester/head/head_int.h"
#include "model/slot.h"

#include <stdlib.h>

// ---- which tenants and hours

struct pieces {
    struct arena *arena;
    struct map by_key;
    struct head_piece *v;
    size_t cap;
    size_t *caps;  // of the services of each
    size_t caps_cap;
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

// A piece names each service once: all rows of one are counted together.
static bool name_service(struct pieces *p, struct head_piece *piece, str service, err *e)
{
    size_t *cap = &p->caps[p->last];
    const str *last = piece->service_count ? &piece->services[piece->service_count - 1] : NULL;
    if (last && last->p == service.p) return true;
    if (!arena_grow(p->arena, &piece->services, cap, piece->service_count + 1,
                    sizeof *piece->services)) {
        return arena_ok(p->arena, e);
    }
    piece->services[piece->service_count++] = service;
    return true;
}

// Tenant and service are the arena's.
static bool count_row(struct pieces *p, str tenant, str service, int64_t hour, err *e)
{
    struct piece_key key = {p, tenant, hour};
    if (!p->n || !same_piece(&key, p->last)) {
        uint64_t hash = hash_table_and(hash_table_str(tenant), (uint64_t)hour);
        p->last = map_find(&p->by_key, hash, same_piece, &key);
        if (p->last == MAP_NONE) {
            if (!arena_grow(p->arena, &p->v, &p->cap, (size_t)p->n + 1, sizeof *p->v) ||
                !arena_grow(p->arena, &p->caps, &p->caps_cap, (size_t)p->n + 1, sizeof *p->caps)) {
                return arena_ok(p->arena, e);
            }
            p->v[p->n] = (struct head_piece){.tenant = tenant, .hour = hour};
            p->caps[p->n] = 0;
            if (!map_put(&p->by_key, hash, p->n, e)) return false;
            p->last = p->n++;
        }
    }
    p->v[p->last].rows++;
    return name_service(p, &p->v[p->last], service, e);
}

// The lock is taken anew for each series.
static bool count_service(struct pieces *p, const struct cut_service *x, const struct cut *cut,
                          err *e)
{
    struct service_head *s = service_current(x->service);  // nothing is removed while it is held
    int64_t after =
        MAX(x->first_ns - (x->first_ns > INT64_MIN), slot_start(cut->hours.first, SLOT_HOUR));
    int64_t until = MIN(x->last_ns, slot_start(cut->hours.last + 1, SLOT_HOUR));
    str tenant = p->n && str_eq(p->v[p->last].tenant, s->tenant) ? p->v[p->last].tenant
                                                                 : arena_str(p->arena, s->tenant);
    str service = arena_str(p->arena, s->service);
    bool ok = arena_ok(p->arena, e);
    bool more = true;
    uint64_t visited = 0;
    for (uint32_t i = 0; ok && more; i++) {
        const struct row *row = NULL;
        pthread_rwlock_rdlock(&s->lock);
        more = i < s->index.series_count;
        struct rows_cursor c = {0};
        if (more) c = rows_within(&s->rows[i], after, until);
        while (more && ok && (row = rows_next(&c))) {
            visited++;
            if (row->cut == cut)
                ok = count_row(p, tenant, service, slot_of(row->time_ns, SLOT_HOUR), e);
        }
        pthread_rwlock_unlock(&s->lock);
    }
    atomic_fetch_add_explicit(&s->head->visited_services, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->head->visited_rows, visited, memory_order_relaxed);
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
    struct cut_service *v = NULL;
    struct arena scratch;
    size_t count = 0;
    map_init(&p.by_key, a->budget);
    arena_init(&scratch, a->budget, SIZE_MAX);
    bool ok = cut_services_ref(h, cut, &scratch, &v, &count, e);
    head_pin(h);
    for (size_t i = 0; ok && i < count; i++)
        ok = count_service(&p, &v[i], cut, e);
    head_unpin(h);
    cut_services_unref(v, count);
    arena_release(&scratch);
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
                     struct loose_set *keys, err *e)
{
    bool ok = true;
    head_pin(h);
    for (size_t i = 0; ok && i < piece->service_count; i++) {
        struct service_head *s = head_find(h, piece->tenant, piece->services[i]);
        if (!s) continue;
        ok = service_keys(s, cut, piece->hour, keys, e);
        service_unref(s);
    }
    head_unpin(h);
    return ok;
}
