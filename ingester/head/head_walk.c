// SPDX-License-Identifier: Apache-2.0
//
// head_walk.c - from a query to its services, series and rows.
//
// A walk takes references to the services first, so that none is freed under it, and then visits
// the series one by one, each under the service's lock for reading. Between two series pushes get
// in; the count `turn` keeps their rows out of the answer (walk_counts).
#include "ingester/head/head_int.h"

#include <stdlib.h>

// A hook of the request's arena: releases the references when the request ends.
static void unref_services(void *arg)
{
    struct head_walk *w = arg;
    for (size_t i = 0; i < w->service_count; i++)
        service_unref(w->services[i]);
    w->service_count = 0;
}

static int by_name(const void *a, const void *b)
{
    const struct service_head *x = *(struct service_head *const *)a;
    const struct service_head *y = *(struct service_head *const *)b;
    int order = str_cmp(x->tenant, y->tenant);
    return order ? order : str_cmp(x->service, y->service);
}

// Whether the matchers on service_name let a service through. Every series carries the name of its
// service (append.c refuses others), so no series need be looked at for this.
static bool asked_service(const struct head_query *q, str service, bool *asked, err *e)
{
    *asked = true;
    for (size_t i = 0; i < q->selector.n && *asked; i++) {
        const struct matcher *m = &q->selector.v[i];
        if (!str_is(m->name, LABEL_SERVICE)) continue;
        if (!matcher_test(&q->selector, m, service, asked, e)) return false;
    }
    return true;
}

// Adds the services of a tenant that the query asks for, each with a reference. With the table's
// lock.
static bool add_services(struct head_walk *w, size_t *cap, str tenant, err *e)
{
    struct service_head *first = tenant_services(w->head, tenant);
    struct service_head *at = first;
    uint64_t looked = 0;
    bool asked = true;
    bool ok = true;
    while (at && ok) {
        struct service_head *s = service_current(at);
        looked++;
        ok = asked_service(w->query, s->service, &asked, e);
        if (ok && asked) {
            ok = arena_grow(&w->req->arena, &w->services, cap, w->service_count + 1,
                            sizeof(struct service_head *)) ||
                 arena_ok(&w->req->arena, e);
        }
        if (ok && asked) {
            atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
            w->services[w->service_count++] = s;
        }
        at = at->next_of_tenant == first ? NULL : at->next_of_tenant;
    }
    atomic_fetch_add_explicit(&w->head->asked_services, looked, memory_order_relaxed);
    return ok;
}

// The matcher that names one service, if there is one: then no other service is looked at.
static const struct matcher *named_service(const struct head_query *q)
{
    for (size_t i = 0; i < q->selector.n; i++) {
        const struct matcher *m = &q->selector.v[i];
        if (m->op == MATCH_EQ && str_is(m->name, LABEL_SERVICE)) return m;
    }
    return NULL;
}

static bool find_named(struct head_walk *w, str service, err *e)
{
    const struct head_query *q = w->query;
    bool asked = false;
    if (!asked_service(q, service, &asked, e)) return false;
    w->services = ARENA_ARRAY(&w->req->arena, struct service_head *, q->tenant_count);
    if (!w->services || !asked) return arena_ok(&w->req->arena, e);
    for (size_t i = 0; i < q->tenant_count; i++) {
        if (str_among(q->tenants[i], q->tenants, i)) continue;
        struct service_head *s = head_find(w->head, q->tenants[i], service);
        if (!s) continue;
        w->services[w->service_count++] = s;
        atomic_fetch_add_explicit(&w->head->asked_services, 1, memory_order_relaxed);
    }
    return true;
}

static bool find_all(struct head_walk *w, err *e)
{
    const struct head_query *q = w->query;
    size_t cap = 0;
    bool ok = true;
    pthread_rwlock_rdlock(&w->head->lock);
    for (size_t i = 0; ok && i < q->tenant_count; i++) {
        if (!str_among(q->tenants[i], q->tenants, i)) ok = add_services(w, &cap, q->tenants[i], e);
    }
    pthread_rwlock_unlock(&w->head->lock);
    return ok;
}

// The hook gets a copy of the walk in the arena, because it runs after the caller's frame is gone.
bool walk_begin(struct head_walk *w, struct head *h, struct req *r, const struct head_query *q,
                err *e)
{
    *w = (struct head_walk){.head = h, .req = r, .query = q};
    w->hidden = ARENA_ARRAY(&r->arena, struct index_set, q->hide_count);
    if (!w->hidden) return arena_fail(&r->arena, e);
    struct head_walk *kept = ARENA_NEW(&r->arena, struct head_walk);
    if (!kept || !arena_defer(&r->arena, unref_services, kept)) return arena_fail(&r->arena, e);
    const struct matcher *named = named_service(q);
    bool ok = named ? find_named(w, named->value, e) : find_all(w, e);
    *kept = *w;
    if (ok && w->service_count)
        qsort(w->services, w->service_count, sizeof(struct service_head *), by_name);
    return ok;
}

bool walk_series(struct head_walk *w, struct service_head *s, bool with_sampled, visit_fn *visit,
                 void *arg, err *e)
{
    struct index_set set;
    pthread_rwlock_rdlock(&s->lock);
    // Series that are added after this have only rows that do not count.
    uint32_t count = s->index.series_count;
    w->turn = s->turn;
    bool ok = index_select(&s->index, &w->req->arena, &w->query->selector, &set, e);
    for (size_t i = 0; ok && i < w->query->hide_count; i++)
        ok =
            index_select(&s->index, &w->req->arena, &w->query->hides[i].selector, &w->hidden[i], e);
    pthread_rwlock_unlock(&s->lock);
    for (uint32_t i = 0; ok && i < count; i++) {
        if (!index_set_has(&set, i)) continue;
        if (!req_alive(w->req, e)) return false;
        pthread_rwlock_rdlock(&s->lock);
        if (with_sampled || !s->index.series[i].sampled) ok = visit(arg, s, i, e);
        pthread_rwlock_unlock(&s->lock);
    }
    return ok;
}

bool walk_hides(const struct head_walk *w, uint32_t series, const struct row *row)
{
    const struct head_query *q = w->query;
    for (size_t i = 0; i < q->hide_count; i++) {
        if (hide_has_time(&q->hides[i], row->time_ns) && index_set_has(&w->hidden[i], series))
            return true;
    }
    return false;
}

bool walk_counts(const struct head_walk *w, const struct service_head *s, uint32_t series,
                 const struct row *row)
{
    const struct head_query *q = w->query;
    if (!row_by(row, w->turn) || !row_is_there(q, s, series, row)) return false;
    if (walk_hides(w, series, row)) return false;
    if (row->placing && q->placings) placings_add(q->placings, head_placing(s->head, row->placing));
    bool loose = row->attempt > 0 || (q->identified && row->placing);
    // The first question counts every row and notes the loose ones; the second counts a listed row
    // only at its keeper.
    if (!q->listed && !(loose && q->met)) return true;
    struct loose_key key = {s->index.series[series].fingerprint, row->id};
    if (!q->listed) {
        loose_note(q->met, key);
        return true;
    }
    const struct loose_row *listed = loose_find(q->listed, key);
    return listed ? listed->keeper == LOOSE_MINE : !loose;
}

bool walk_labels(struct label_room *room, const struct service_head *s, uint32_t series,
                 const str *names, size_t n, labels *out, err *e)
{
    assert(series < s->index.series_count);
    if (!arena_grow(room->arena, &room->v, &room->cap, s->index.series[series].n,
                    sizeof *room->v)) {
        return arena_fail(room->arena, e);
    }
    *out = index_labels(&s->index, series, room->v);
    if (!names) return true;
    size_t kept = 0;
    for (size_t i = 0; i < out->n; i++) {
        if (str_among(room->v[i].name, names, n)) room->v[kept++] = room->v[i];
    }
    out->n = kept;
    return true;
}
