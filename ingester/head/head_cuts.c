// SPDX-License-Identifier: Apache-2.0
//
// head_cuts.c - a list for each cut: which services have rows of it, and of which times.
//
// A flush and a drop visit only the services of the list. It grows by an entry when a service gets
// its first row of the cut. Times are rounded to minutes, so that few pushes change it. A push that
// comes here is in the log and cannot fail any more: without memory the list becomes *unknown*, and
// all services of the head are visited instead.
#include "ingester/head/head_int.h"
#include "sys/clock.h"

#include <stdlib.h>

#define ROUND_NS (INT64_C(60) * NS_PER_S)

struct cut_services {
    const struct cut *cut;  // these three are the key: the address of a freed cut may come again
    id128 stream;
    uint64_t number;
    struct cut_service *v;
    size_t n;
    size_t cap;
    bool unknown;
};

static bool is_of(const struct cut_services *c, const struct cut *cut)
{
    return c->cut == cut && c->number == cut->number && id128_eq(c->stream, cut->stream);
}

// With the lock; the newest cut is the usual one.
static struct cut_services *find(struct head *h, const struct cut *cut)
{
    for (size_t i = h->cut_count; i-- > 0;) {
        if (is_of(h->cuts[i], cut)) return h->cuts[i];
    }
    return NULL;
}

static struct cut_services *add_cut(struct head *h, const struct cut *cut)
{
    err none = {0};
    struct cut_services *c = NULL;
    // A few words for each cut, which count against no budget.
    if (!mem_grow(NULL, &h->cuts, &h->cut_cap, h->cut_count + 1, sizeof(struct cut_services *),
                  &none) ||
        !(c = mem_alloc(NULL, sizeof *c, &none))) {
        h->cuts_unknown = true;
        return NULL;
    }
    c->cut = cut;
    c->stream = cut->stream;
    c->number = cut->number;
    h->cuts[h->cut_count++] = c;
    return c;
}

static size_t add_service(struct head *h, struct cut_services *c, struct service_head *s)
{
    err none = {0};
    if (!mem_grow(&h->budget, &c->v, &c->cap, c->n + 1, sizeof *c->v, &none)) {
        c->unknown = true;
        return 0;
    }
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&s->listed, 1, memory_order_relaxed);
    c->v[c->n] = (struct cut_service){s, INT64_MAX, INT64_MIN};
    return c->n++;
}

static int64_t round_up(int64_t ns)
{
    int64_t up = 0;
    return __builtin_add_overflow(ns, ROUND_NS - 1 - (ns % ROUND_NS + ROUND_NS) % ROUND_NS, &up)
               ? INT64_MAX
               : up;
}

static int64_t round_down(int64_t ns)
{
    int64_t down = 0;
    return __builtin_sub_overflow(ns, (ns % ROUND_NS + ROUND_NS) % ROUND_NS, &down) ? INT64_MIN
                                                                                    : down;
}

void service_note_cut(struct service_head *s, const struct cut *cut, int64_t first_ns,
                      int64_t last_ns)
{
    struct noted_cut *k = &s->noted;
    struct head *h = s->head;
    assert(first_ns <= last_ns && !cut->dropped);
    bool same = k->cut == cut && k->number == cut->number && id128_eq(k->stream, cut->stream);
    if (same && k->first_ns <= first_ns && k->last_ns >= last_ns) return;
    if (!same) *k = (struct noted_cut){cut, cut->stream, cut->number, 0, INT64_MAX, INT64_MIN};
    k->first_ns = MIN(k->first_ns, round_down(first_ns));
    k->last_ns = MAX(k->last_ns, round_up(last_ns));
    lock_take(&h->noting);
    struct cut_services *c = find(h, cut);
    if (!c) c = add_cut(h, cut);
    if (c && !same) k->at = add_service(h, c, s);
    // A copy of the service keeps its entry (`noted` is copied), so the entry may lead to it by way
    // of its predecessor.
    if (c && k->at < c->n && service_current(c->v[k->at].service) == s) {
        c->v[k->at].first_ns = k->first_ns;
        c->v[k->at].last_ns = k->last_ns;
    } else if (c) {
        c->unknown = true;
    }
    lock_give(&h->noting);
}

// ---- reading it

static int by_name(const void *a, const void *b)
{
    const struct service_head *x = ((const struct cut_service *)a)->service;
    const struct service_head *y = ((const struct cut_service *)b)->service;
    int order = str_cmp(x->tenant, y->tenant);
    if (!order) order = str_cmp(x->service, y->service);
    return order ? order : (x > y) - (x < y);
}

static bool take_all(struct head *h, struct arena *a, struct cut_service **out, size_t *n)
{
    pthread_rwlock_rdlock(&h->lock);
    *out = ARENA_ARRAY(a, struct cut_service, h->service_count);
    for (uint32_t i = 0; *out && i < h->service_count; i++) {
        struct service_head *s = service_current(h->services[i]);
        atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
        (*out)[(*n)++] = (struct cut_service){s, INT64_MIN, INT64_MAX};
    }
    pthread_rwlock_unlock(&h->lock);
    return *out != NULL;
}

// False: the list is unknown. A cut without a list has no rows.
static bool take_listed(struct head *h, const struct cut *cut, struct arena *a,
                        struct cut_service **out, size_t *n, bool *room)
{
    lock_take(&h->noting);
    const struct cut_services *c = find(h, cut);
    bool known = !h->cuts_unknown && !(c && c->unknown);
    if (known && c) {
        *out = ARENA_ARRAY(a, struct cut_service, c->n);
        *room = *out != NULL;
        for (size_t i = 0; *room && i < c->n; i++) {
            struct cut_service *x = &(*out)[(*n)++];
            *x = c->v[i];
            x->service = service_current(x->service);
            atomic_fetch_add_explicit(&x->service->refs, 1, memory_order_relaxed);
        }
    }
    lock_give(&h->noting);
    return known;
}

// A service may be listed more than once: a push into an older cut, after one into a newer cut,
// adds an entry. They are next to each other now.
static size_t unite(struct cut_service *v, size_t n)
{
    size_t kept = 0;
    for (size_t i = 0; i < n; i++) {
        struct cut_service *last = kept ? &v[kept - 1] : NULL;
        assert(!last || by_name(last, &v[i]) <= 0);
        if (!last || last->service != v[i].service) {
            v[kept++] = v[i];
            continue;
        }
        last->first_ns = MIN(last->first_ns, v[i].first_ns);
        last->last_ns = MAX(last->last_ns, v[i].last_ns);
        service_unref(v[i].service);
    }
    return kept;
}

bool cut_services_ref(struct head *h, const struct cut *cut, struct arena *a,
                      struct cut_service **out, size_t *n, err *e)
{
    bool room = true;
    *out = NULL;
    *n = 0;
    if (!take_listed(h, cut, a, out, n, &room)) room = take_all(h, a, out, n);
    if (!room) return arena_fail(a, e);
    if (*n) qsort(*out, *n, sizeof **out, by_name);
    *n = unite(*out, *n);
    return true;
}

void cut_services_unref(struct cut_service *v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        service_unref(v[i].service);
}

// From the last one to the first. When a sweep takes a service out of the table, the last one moves
// to its place; that one was visited already, and no other changes its place.
void cut_walk_begin(struct cut_walk *w, struct head *h, const struct cut *cut)
{
    lock_take(&h->noting);
    const struct cut_services *c = find(h, cut);
    *w = (struct cut_walk){.head = h, .cut = cut, .all = h->cuts_unknown || (c && c->unknown)};
    w->left = c ? c->n : 0;
    lock_give(&h->noting);
    if (w->all) w->left = head_count(h).services;
}

static struct service_head *listed_at(struct cut_walk *w, size_t i)
{
    struct service_head *s = NULL;
    lock_take(&w->head->noting);
    const struct cut_services *c = find(w->head, w->cut);
    if (c && i < c->n) s = service_current(c->v[i].service);
    if (s) atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    lock_give(&w->head->noting);
    return s;
}

struct service_head *cut_walk_next(struct cut_walk *w)
{
    struct service_head *s = NULL;
    while (!s && w->left > 0) {
        w->left--;
        s = w->all ? head_service_at(w->head, (uint32_t)w->left) : listed_at(w, w->left);
    }
    return s;
}

// ---- the end of a cut

static void release(struct head *h, struct cut_services *c)
{
    for (size_t i = 0; i < c->n; i++) {
        assert(c->v[i].service->listed > 0 && c->v[i].service->refs > 0);
        // `listed` first: is_read (head.c) takes references beyond `listed` for readers.
        atomic_fetch_sub_explicit(&c->v[i].service->listed, 1, memory_order_release);
        service_unref(c->v[i].service);
    }
    mem_free(&h->budget, c->v, c->cap * sizeof *c->v);
    mem_free(NULL, c, sizeof *c);
}

// Services that nothing else uses have two references here, the table's and the list's; that is the
// caller's in the eyes of head_sweep.
static void sweep_listed(struct head *h, const struct cut_services *c)
{
    struct service_head *run[HEAD_RUN];
    for (size_t i = 0; i < c->n; i += HEAD_RUN) {
        size_t count = MIN(c->n - i, (size_t)HEAD_RUN);
        for (size_t k = 0; k < count; k++)
            run[k] = service_current(c->v[i + k].service);
        head_sweep(h, run, count);
    }
}

void cut_services_forget(struct head *h, const struct cut *cut)
{
    struct cut_services *gone = NULL;
    size_t kept = 0;
    assert(cut->dropped);  // else rows of it may still come
    lock_take(&h->noting);
    for (size_t i = 0; i < h->cut_count; i++) {
        if (is_of(h->cuts[i], cut)) {
            assert(!gone);
            gone = h->cuts[i];
        } else {
            h->cuts[kept++] = h->cuts[i];
        }
    }
    h->cut_count = kept;
    lock_give(&h->noting);
    if (!gone) return;
    sweep_listed(h, gone);
    release(h, gone);
}

void cut_services_release(struct head *h)
{
    for (size_t i = 0; i < h->cut_count; i++)
        release(h, h->cuts[i]);
    mem_free(NULL, h->cuts, h->cut_cap * sizeof(struct cut_services *));
    h->cuts = NULL;
    h->cut_count = h->cut_cap = 0;
}
