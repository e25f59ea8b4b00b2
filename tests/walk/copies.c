// SPDX-License-Identifier: Apache-2.0
#include "walk/copies.h"

#include "compactor/watch.h"
#include "sys/clock.h"
#include "walk/world.h"

#include <stdlib.h>

#define INTERVAL_NS SLOT_MINUTE

// ---- ingesters

static struct holding own_of(struct world *w, struct node *n)
{
    uint8_t number = (uint8_t)(n - w->nodes);
    return (struct holding){.node = number ? S("ingester-1") : S("ingester-0"),
                            .directory = {{1, number}},
                            .number = 1,
                            .boot = {{1}},
                            .made_ns = w->start_ns};
}

void copies_note(struct world *w, struct node *n)
{
    struct req r;
    bool existed = false;
    const struct holding own = own_of(w, n);
    req_init(&r, RANK_DUTY, &w->memory, SIZE_MAX, 0);
    assert_ok(holding_create(w->store, &r, &own, &existed, e));
    roll_noted(&n->holding.roll, 1, clock_boot_ns());
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

void copies_roll(struct world *w, struct node *n, struct req *r)
{
    struct roll *l = &n->holding.roll;
    const struct holding own = own_of(w, n);
    struct holding *v = NULL;
    size_t count = 0;
    err e = {0};
    if (!take(w, n, true)) return;
    bool ok = l->number || holdings_list(n->seat.store, r, &r->arena, own.node, &v, &count, &e);
    if (ok && count) roll_noted(l, v[0].number, clock_boot_ns());
    if (ok && l->number) {
        // What fails is tried again after the next flush.
        (void)!roll_step(l, n->whole.in->wal, n->seat.store, r, &own, INTERVAL_NS, &e);
    }
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
    struct holding_at *at = NULL;
    size_t n = 0;
    bool ok = true;
    pthread_mutex_lock(&c->lock);
    bool looks = !c->watch.listing;
    c->watch.listing = true;
    pthread_mutex_unlock(&c->lock);
    if (looks) ok = holdings_inspect(s, r, &r->arena, &at, &n, e);
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
