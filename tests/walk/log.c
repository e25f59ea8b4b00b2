// SPDX-License-Identifier: Apache-2.0
#include "walk/log.h"

#include "base/fault.h"
#include "ingester/flush.h"
#include "ingester/wal_int.h"

#include <errno.h>

static struct world *walked;

// Only pushes write entries, and the one thread that drives the walk pushes: the die is its own.
static bool write_fails(struct world *w, uint64_t sides)
{
    if (atomic_load(&w->calm) || roll(&w->dice, sides)) return false;
    pthread_mutex_lock(&w->lock);
    w->counts.broken++;
    pthread_mutex_unlock(&w->lock);
    errno = EIO;
    return true;
}

// There may be something to do for a flush, which it must not do.
static void wake_flushes(struct world *w)
{
    pthread_mutex_lock(&w->lock);
    for (unsigned i = 0; i < w->node_count; i++) {
        if (w->nodes[i].up) flush_wake(w->nodes[i].whole.in->flush);
    }
    pthread_mutex_unlock(&w->lock);
}

// The mistake: a cut counts as whole while its log is read again.
static void forget_doubt(struct world *w)
{
    struct cut *cuts[64];
    pthread_mutex_lock(&w->lock);
    for (unsigned i = 0; i < w->node_count; i++) {
        if (!w->nodes[i].up) continue;
        struct wal *wal = w->nodes[i].whole.in->wal;
        size_t n = MIN(wal_cuts(wal, cuts, COUNT(cuts)), COUNT(cuts));
        lock_take(&wal->lock);
        for (size_t k = 0; k < n; k++)
            cuts[k]->in_doubt = false;
        lock_give(&wal->lock);
    }
    pthread_mutex_unlock(&w->lock);
}

static bool decide(const char *name)
{
    struct world *w = walked;
    if (strcmp(name, "wal.write.before") == 0) return write_fails(w, 80);
    if (strcmp(name, "wal.sync.after") == 0) return write_fails(w, 30);  // the entry is there
    if (strcmp(name, "wal.recover") != 0) return false;
    if (w->mistake == READY_EARLY) forget_doubt(w);
    for (int i = 0; i < 6; i++) {  // much may happen meanwhile
        wake_flushes(w);
        gate_wait(&w->gate);
    }
    return false;
}

void walk_log_on(struct world *w)
{
    walked = w;
    fault_on(decide);
}

void walk_log_off(void)
{
    fault_on(NULL);
}
