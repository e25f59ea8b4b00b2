// SPDX-License-Identifier: Apache-2.0
#include "walk/gate.h"

#include <time.h>

#define SILENCE_NS 3000000

void gate_init(struct gate *g)
{
    *g = (struct gate){.open = true};
    pthread_mutex_init(&g->mutex, NULL);
    pthread_cond_init(&g->moved, NULL);
}

void gate_release(struct gate *g)
{
    assert(!g->first);
    pthread_cond_destroy(&g->moved);
    pthread_mutex_destroy(&g->mutex);
}

void gate_wait(struct gate *g)
{
    struct waiting me = {0};
    pthread_mutex_lock(&g->mutex);
    if (!g->open) {
        struct waiting **at = &g->first;
        while (*at)
            at = &(*at)->next;
        *at = &me;
        g->waiting++;
        g->moves++;
        pthread_cond_broadcast(&g->moved);
        while (!me.granted && !g->open)
            pthread_cond_wait(&g->moved, &g->mutex);
        for (at = &g->first; *at != &me; at = &(*at)->next) {
        }
        *at = me.next;
        g->waiting--;
    }
    pthread_mutex_unlock(&g->mutex);
}

void gate_note(struct gate *g)
{
    pthread_mutex_lock(&g->mutex);
    g->moves++;
    pthread_cond_broadcast(&g->moved);
    pthread_mutex_unlock(&g->mutex);
}

unsigned gate_count(struct gate *g)
{
    pthread_mutex_lock(&g->mutex);
    unsigned n = g->waiting;
    pthread_mutex_unlock(&g->mutex);
    return n;
}

// With the mutex.
static void settle(struct gate *g, unsigned moves)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_nsec += SILENCE_NS;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    while (g->moves == moves)
        if (pthread_cond_timedwait(&g->moved, &g->mutex, &until) != 0) break;
}

unsigned gate_moves(struct gate *g)
{
    pthread_mutex_lock(&g->mutex);
    unsigned moves = g->moves;
    pthread_mutex_unlock(&g->mutex);
    return moves;
}

void gate_settle(struct gate *g, unsigned moves)
{
    pthread_mutex_lock(&g->mutex);
    settle(g, moves);
    pthread_mutex_unlock(&g->mutex);
}

void gate_grant(struct gate *g, unsigned n)
{
    pthread_mutex_lock(&g->mutex);
    struct waiting *w = g->first;
    while (w && (n > 0 || w->granted)) {
        n -= n > 0;
        w = w->next;
    }
    unsigned moves = g->moves;
    if (w) {
        w->granted = true;
        pthread_cond_broadcast(&g->moved);
        settle(g, moves);
    }
    pthread_mutex_unlock(&g->mutex);
}

void gate_open(struct gate *g, bool open)
{
    pthread_mutex_lock(&g->mutex);
    g->open = open;
    pthread_cond_broadcast(&g->moved);
    pthread_mutex_unlock(&g->mutex);
}
