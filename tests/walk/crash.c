// SPDX-License-Identifier: Apache-2.0
#include "walk/crash.h"

#include "walk/log.h"
#include "walk/world.h"

#define QUESTIONS 4  // their ranges are random

// The process dies as far as the store sees it: nothing that it does arrives any more. What it
// acknowledged is in its log, with which it starts again. False: it is dead already.
static bool take_down(struct world *w, const struct actor *a)
{
    struct node *n = &w->nodes[a->node];
    pthread_mutex_lock(&w->lock);
    bool up = n->up;
    n->up = false;
    pthread_mutex_unlock(&w->lock);
    if (!up) return false;
    atomic_store(&n->seat.dead, true);
    stall_kill(w, n);
    pthread_mutex_lock(&w->lock);
    for (unsigned i = 0; i < WALK_ACTORS; i++) {
        struct actor *o = &w->actors[i];
        if (o->used && o->kind == ACT_FLUSH && o->node == a->node)
            atomic_store(&o->req.canceled, true);
    }
    while (n->users)
        pthread_cond_wait(&w->change, &w->lock);
    pthread_mutex_unlock(&w->lock);
    whole_stop(&n->whole);
    copies_end(n);
    return true;
}

static void bring_up(struct world *w, const struct actor *a)
{
    struct node *n = &w->nodes[a->node];
    atomic_store(&n->seat.dead, false);
    world_start(w, n);
    copies_note(w, n);
    walk_log_told(w);
    pthread_mutex_lock(&w->lock);
    n->up = true;
    w->counts.crashes++;
    pthread_mutex_unlock(&w->lock);
}

static bool is_brief(struct world *w, struct actor *a)
{
    if (!w->in_store || w->node_count < 2 || !a->push.rows.n) return false;
    return w->mistake == UNSETTLED || roll(&a->dice, 2);
}

// The question before its life lists the registered streams, and those after it may use that list
// as long as it is young.
static void live_briefly(struct world *w, struct actor *a)
{
    struct node *n = &w->nodes[a->node];
    if (!home_hand_over(w, n, &a->req)) return;
    walk_ask(w, &a->dice, false);
    bring_up(w, a);
    bool ok = walk_give(w, n, &a->push.rows, 0, WALK_PLACING);
    if (ok) atomic_store(&w->rows[a->push.rows.numbers[0]].acked, true);
    if (!take_down(w, a)) abort();  // it is the only crash
    pthread_mutex_lock(&w->lock);
    w->counts.brief += ok;
    pthread_mutex_unlock(&w->lock);
    for (int i = 0; i < QUESTIONS; i++)
        walk_ask(w, &a->dice, false);
}

void crash_act(struct world *w, struct actor *a)
{
    struct node *n = &w->nodes[a->node];
    if (!take_down(w, a)) return;
    walk_log_damage(w, n, &a->dice);
    if (is_brief(w, a)) live_briefly(w, a);
    home_crash(w, n, &a->dice);
    bring_up(w, a);
}
