// SPDX-License-Identifier: Apache-2.0
#include "walk/stall.h"

#include "sys/clock.h"
#include "walk/world.h"

// Turns at the gate. Under HURRIED a leaf has to be made, and to expire, meanwhile.
#define LASTS_MOST 40
#define LASTS_LONG 120

// Seals stay for two days.
#define ASLEEP_NS (24 * SLOT_HOUR)

static struct node *node_of(struct world *w, const struct seat *s)
{
    for (unsigned i = 0; i < w->node_count; i++)
        if (&w->nodes[i].seat == s) return &w->nodes[i];
    return NULL;
}

bool stall_is(struct world *w, struct node *n)
{
    pthread_mutex_lock(&w->lock);
    bool is = n->stall.stalled;
    pthread_mutex_unlock(&w->lock);
    return is;
}

bool stall_any(struct world *w)
{
    bool any = false;
    for (unsigned i = 0; i < w->node_count; i++)
        any |= stall_is(w, &w->nodes[i]);
    return any;
}

bool stall_takes(struct world *w, struct node *n, const struct bundle *rows, uint32_t attempt,
                 uint64_t placing)
{
    struct stall *s = &n->stall;
    pthread_mutex_lock(&w->lock);
    bool takes = s->stalled;
    if (takes && s->late_count < STALL_LATE) {
        struct late *l = &s->late[s->late_count++];
        *l = (struct late){.n = rows->n, .attempt = attempt, .placing = placing};
        memcpy(l->numbers, rows->numbers, sizeof l->numbers);
    }
    pthread_mutex_unlock(&w->lock);
    return takes;
}

void stall_hold(struct seat *s)
{
    struct world *w = s->w;
    struct node *n = node_of(w, s);
    if (!n) return;
    pthread_mutex_lock(&w->lock);
    while (n->stall.stalled && !atomic_load(&s->dead))
        pthread_cond_wait(&w->change, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

int64_t stall_room_ns(struct world *w)
{
    int64_t room = INT64_MAX;
    if (w->retention_ns == 0 && !w->in_store) return room;
    pthread_mutex_lock(&w->lock);
    for (unsigned i = 0; i < w->node_count; i++) {
        const struct stall *s = &w->nodes[i].stall;
        int64_t left = s->since_ns + ASLEEP_NS - clock_wall_ns();
        if (s->stalled && w->in_store) room = MIN(room, MAX(left, 0));
        if (w->retention_ns && !s->stalled && s->late_count) room = 0;
    }
    pthread_mutex_unlock(&w->lock);
    return room;
}

void stall_kill(struct world *w, struct node *n)
{
    pthread_mutex_lock(&w->lock);
    n->stall.stalled = false;
    n->stall.late_count = 0;
    n->stall.times++;
    pthread_cond_broadcast(&w->change);
    pthread_mutex_unlock(&w->lock);
}

// The next push that waited; false when there is none, or the process that had them is no more.
static bool next_late(struct world *w, struct node *n, unsigned times, struct late *l)
{
    struct stall *s = &n->stall;
    pthread_mutex_lock(&w->lock);
    bool has = s->times == times && s->late_count > 0;
    if (has) {
        *l = s->late[0];
        s->late_count--;
        memmove(s->late, s->late + 1, s->late_count * sizeof *s->late);
    }
    pthread_mutex_unlock(&w->lock);
    return has;
}

void stall_act(struct world *w, struct actor *a)
{
    struct node *n = &w->nodes[a->node];
    struct stall *s = &n->stall;
    struct late l;
    pthread_mutex_lock(&w->lock);
    bool begins = n->up && !s->stalled && s->late_count == 0;
    s->stalled |= begins;
    s->times += begins;
    if (begins) s->since_ns = clock_wall_ns();
    w->counts.stalls += begins;
    unsigned times = s->times;
    pthread_mutex_unlock(&w->lock);
    if (!begins) return;
    uint64_t most = w->mistake == HURRIED ? LASTS_LONG : LASTS_MOST;
    for (uint64_t lasts = roll(&a->dice, most); lasts > 0; lasts--)
        gate_wait(&w->gate);

    pthread_mutex_lock(&w->lock);
    if (s->times == times) s->stalled = false;
    pthread_cond_broadcast(&w->change);
    pthread_mutex_unlock(&w->lock);
    while (next_late(w, n, times, &l)) {
        struct bundle rows = {.n = l.n};
        memcpy(rows.numbers, l.numbers, sizeof rows.numbers);
        gate_wait(&w->gate);
        // Now and then it sees first that nobody waits for the answer any more.
        if (roll(&a->dice, 4) == 0 || !walk_give(w, n, &rows, l.attempt, l.placing)) continue;
        pthread_mutex_lock(&w->lock);
        w->counts.landed++;
        pthread_mutex_unlock(&w->lock);
    }
}

void stall_marked(struct world *w, struct http_exchange *x, bool allowed)
{
    str missing = http_headers_get(&x->answer_headers, "flametree-missing");
    if (!allowed) world_fault(w, "an answer that nobody allowed lacks %.*s", STR(missing));
    if (!missing.n) world_fault(w, "a marked answer does not say what it lacks");
}
