// SPDX-License-Identifier: Apache-2.0
#include "walk/copies.h"

#include "compactor/watch.h"
#include "sys/clock.h"
#include "walk/world.h"

#include <stdlib.h>

#define AGE_NS SLOT_MINUTE

// ---- ingesters

static bool step(struct node *n, struct req *r, err *e)
{
    int64_t soon_ns = 0;
    const struct world *w = n->seat.w;
    bool settles = w->in_store && w->mistake != UNSETTLED;
    const struct roll_settings t = {.stream_age_ns = AGE_NS,
                                    .asked_boot_ns = INT64_MAX,
                                    .idle_ns = SLOT_HOUR,
                                    .settle_ns = settles ? HOME_SETTLE_NS : 0,
                                    .rows_age_ns = 31 * 24 * SLOT_HOUR};
    return roll_step(&n->holding.roll, r, &t, &soon_ns, e);
}

// Steps through the store of nobody, which never fails, until pushes are admitted and the next
// stream is registered too.
static void open_roll(struct world *w, struct node *n, struct req *r)
{
    struct roll *l = &n->holding.roll;
    err ignored = {0};
    l->store = w->store;
    for (int i = 0; i < 3; i++) {
        (void)!step(n, r, &ignored);
        if (w->in_store && !roll_is_open(l)) home_wait();
    }
    l->store = n->seat.store;
}

void copies_note(struct world *w, struct node *n)
{
    struct req r;
    struct registered list;
    const struct registered_stream own = home_own(w, n);
    req_init(&r, RANK_DUTY, &w->memory, SIZE_MAX, 0);
    roll_init(&n->holding.roll, n->whole.in->wal, w->store, &own);
    assert_ok(registered_read(w->store, &r, &w->memory, NULL, &list, e));
    assert_ok(roll_saw(&n->holding.roll, &list, e));
    registered_release(&list);
    open_roll(w, n, &r);
    n->whole.in->roll = &n->holding.roll;
    req_release(&r);
}

void copies_end(struct node *n)
{
    roll_release(&n->holding.roll);
}

static bool take(struct world *w, struct node *n, bool busy)
{
    pthread_mutex_lock(&w->lock);
    bool ok = n->holding.busy != busy && (!busy || n->up);
    if (ok) n->holding.busy = busy;
    if (ok && busy) n->users++;
    if (ok && !busy) n->users--;
    pthread_cond_broadcast(&w->change);
    pthread_mutex_unlock(&w->lock);
    return ok;
}

void copies_open(struct world *w, struct node *n)
{
    struct req r;
    if (roll_is_open(&n->holding.roll) || !take(w, n, true)) return;
    req_init(&r, RANK_DUTY, &w->memory, SIZE_MAX, 0);
    open_roll(w, n, &r);
    req_release(&r);
    (void)take(w, n, false);
}

void copies_roll(struct world *w, struct node *n, struct req *r)
{
    err ignored = {0};
    if (!take(w, n, true)) return;
    // What fails is tried again later.
    (void)!step(n, r, &ignored);
    home_clear(w, n, r);
    (void)take(w, n, false);
}

// ---- jobs

struct copies {
    pthread_mutex_t lock;
    struct mem_budget *memory;
    struct watch watch;
    struct wish wish;
};

struct copies *copies_new(struct mem_budget *memory)
{
    struct copies *c = calloc(1, sizeof *c);
    if (!c) abort();
    pthread_mutex_init(&c->lock, NULL);
    c->memory = memory;
    watch_init(&c->watch, memory);
    return c;
}

void copies_free(struct copies *c)
{
    watch_release(&c->watch);
    wish_release(&c->wish, c->memory);
    pthread_mutex_destroy(&c->lock);
    free(c);
}

bool copies_look(struct copies *c, struct store *s, struct req *r, struct copies_view *v, err *e)
{
    id128 *at = NULL;
    size_t n = 0;
    bool ok = true;
    pthread_mutex_lock(&c->lock);
    bool looks = !c->watch.listing;
    c->watch.listing = true;
    pthread_mutex_unlock(&c->lock);
    if (looks) ok = stream_names(s, r, &r->arena, &at, &n, e);
    pthread_mutex_lock(&c->lock);
    if (looks && ok) ok = watch_saw(&c->watch, clock_wall_ns(), at, n, e);
    if (looks) c->watch.listing = false;
    *v = (struct copies_view){.copies = c, .over = c->watch.over};
    pthread_mutex_unlock(&c->lock);
    return ok;
}

bool copies_may_go(void *view, id128 leaf)
{
    struct copies_view *v = view;
    pthread_mutex_lock(&v->copies->lock);
    bool may = wish_grants(&v->copies->wish, v->over, leaf);
    pthread_mutex_unlock(&v->copies->lock);
    v->granted |= may;
    return may;
}

void copies_wish(struct copies_view *v, const id128 *leaves, size_t n)
{
    struct copies *c = v->copies;
    pthread_mutex_lock(&c->lock);
    (void)wish_note(&c->wish, c->memory, &c->watch, v->granted, leaves, n);
    pthread_mutex_unlock(&c->lock);
}
