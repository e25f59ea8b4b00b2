// SPDX-License-Identifier: Apache-2.0
#include "walk/clocks.h"

#define DAYS         (24 * SLOT_HOUR)
#define HIDDEN_READS 3

static _Atomic int64_t run_away;

void clocks_open(struct world *w)
{
    atomic_store(&run_away, 0);
    bool apart = w->mistake == ULID_ALONE || roll(&w->dice, 3) == 0;
    sweep_seen_init(&w->seen, &w->memory);
    for (size_t i = 1; apart && i < COUNT(w->clocks); i++) {
        int64_t off = 2 * DAYS + (int64_t)roll(&w->dice, DAYS);
        w->clocks[i] = i % 2 ? off : -off;
    }
    // Retention goes by the wall clock (docs/operations.md), and one that is ahead expires early.
    if (apart) w->retention_ns = 0;
}

void clocks_close(struct world *w)
{
    sweep_seen_release(&w->seen);
}

void clocks_choose(struct world *w, struct dice *d)
{
    clock_wall_here = w->clocks[roll(d, COUNT(w->clocks))];
}

void clocks_choose_ahead(const struct world *w, bool sweeper)
{
    clock_wall_here = sweeper ? w->clocks[1] : 0;
}

// A clock by which everything was seen long ago.
static int64_t runaway(void)
{
    return atomic_fetch_add(&run_away, 100 * DAYS);
}

bool clocks_sweep(struct world *w, struct manifests *ms, struct req *r, struct manifest_sweep *s,
                  err *e)
{
    s->seen = &w->seen;
    if (w->mistake != ULID_ALONE) return manifest_sweep(ms, r, S(WALK_TENANT), s, e);
    manifests_set_boot(ms, runaway);
    return manifest_sweep(ms, r, S(WALK_TENANT), s, e) &&
           manifest_sweep(ms, r, S(WALK_TENANT), s, e);
}

static struct {
    pthread_mutex_t mutex;
    unsigned n;
    struct {
        char name[256];
        uint64_t size;
    } v[64];
} made = {.mutex = PTHREAD_MUTEX_INITIALIZER};

void clocks_made(const struct memstore_event *ev)
{
    if (ev->op != MEMSTORE_CREATE || !ev->done || str_contains(ev->name, S("/live/"))) return;
    pthread_mutex_lock(&made.mutex);
    unsigned i = made.n++ % COUNT(made.v);
    snprintf(made.v[i].name, sizeof made.v[i].name, "%.*s", STR(ev->name));
    made.v[i].size = ev->bytes;
    pthread_mutex_unlock(&made.mutex);
}

bool clocks_size(str name, uint64_t *size)
{
    bool found = false;
    pthread_mutex_lock(&made.mutex);
    for (unsigned i = 0; i < COUNT(made.v) && !found; i++) {
        found = str_is(name, made.v[i].name);
        if (found) *size = made.v[i].size;
    }
    pthread_mutex_unlock(&made.mutex);
    return found;
}

enum memstore_fault clocks_doubt(struct seat *s, const struct memstore_event *ev, unsigned number)
{
    static const enum memstore_fault faults[] = {MEMSTORE_ABORTS, MEMSTORE_EXPIRES, MEMSTORE_LANDS};
    if (atomic_load(&s->w->calm)) return MEMSTORE_FINE;
    if (ev->op == MEMSTORE_READ && s->hidden && str_is(ev->name, s->root)) {
        s->hidden--;
        return MEMSTORE_FAILS;
    }
    if (ev->op != MEMSTORE_CREATE || number % 13 || !str_contains(ev->name, S("/live/m/")))
        return MEMSTORE_FINE;
    snprintf(s->root, sizeof s->root, "%.*s", STR(ev->name));
    s->hidden = HIDDEN_READS;
    return faults[number / 13 % COUNT(faults)];
}
