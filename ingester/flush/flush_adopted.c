// SPDX-License-Identifier: Apache-2.0
//
// flush_adopted.c - takes one cut of a stream that is being adopted to the store, on the thread
// that adopts it.
//
// The cut is hidden and in no table: no answer names it, no request refreshes it, and the flush
// thread does not pick it. So it has one user, who may give it up at any moment. It is compared
// with the store before it is written, as each cut of another process.
//
// Where memory is short a cut goes to the store bit by bit (flush_adopted_part). Each time what was
// read of a piece so far is compared, and what no part has becomes the next one. Nobody else can
// tell such a part from one that its owner wrote after a first one; and whoever adopts the stream
// next, because this process ended in between, finds the rows of these parts by their ids.
#include "ingester/flush/flush_int.h"
#include "sys/clock.h"

// How often the drop gives way to readers; after that it makes them wait, because memory is wanted.
#define POLITE_TRIES 10

#define COVER_TRIES 10

// So long a log that has failed, and keeps its cuts, is waited for.
#define LOG_NS ((uint64_t)(30 * NS_PER_S))

// False: the asker has ended, or the deadline is over.
static bool pause_for_drop(struct flush *f, const struct req *asker, uint64_t until_mono_ns, err *e)
{
    lock_take(&f->lock);
    (void)cond_wait_until(&f->change, &f->lock, clock_mono_ns() + (uint64_t)(100 * NS_PER_MS));
    lock_give(&f->lock);
    if (asker && !req_alive(asker, e)) return false;
    return clock_mono_ns() < until_mono_ns ||
           err_set(e, ERR_UNAVAILABLE, "the log does not drop a cut that is in the store");
}

static bool drop_covered_cut(struct flush *f, struct closed_cut *c, err *e)
{
    uint64_t until = clock_mono_ns() + LOG_NS;
    for (;;) {
        enum drop_end how = closed_drop(f, c, c->polite >= POLITE_TRIES);
        if (how == DROP_DONE) return true;
        c->dropped = how == DROP_NOT_OF_LOG;
        c->polite++;
        if (!pause_for_drop(f, c->asker, until, e)) return false;
    }
}

static struct closed_cut closed_of(const struct req *asker, struct cut *cut)
{
    assert(atomic_load(&cut->hidden));
    return (struct closed_cut){.cut = cut,
                               .stream = cut->stream,
                               .number = cut->number,
                               .bytes = cut->bytes,
                               .opened_wall_ns = cut->opened_wall_ns,
                               .newest_boot_ns = cut->newest_boot_ns,
                               .found = true,
                               .ready = true,
                               .asker = asker};
}

// Several pieces of a service are compared and written at once, and rows that are found in the
// store leave it meanwhile: then those that were being written are written again.
static bool cover_adopted(struct flush *f, struct closed_cut *c, err *e)
{
    for (unsigned tries = 1;; tries++) {
        if (closed_cover(f, c, e)) return true;
        if (e->code != ERR_ABORTED || tries == COVER_TRIES) return false;
        *e = (err){0};
    }
}

bool flush_adopted_part(struct flush *f, const struct req *asker, struct cut *cut, err *e)
{
    struct closed_cut c = closed_of(asker, cut);
    arena_init(&c.arena, &f->budget, SIZE_MAX);
    bool ok = cover_adopted(f, &c, e);
    arena_release(&c.arena);
    if (ok) head_let_go(f->in->head, cut);
    return ok;
}

bool flush_adopted(struct flush *f, const struct req *asker, struct cut *cut, err *e)
{
    struct closed_cut c = closed_of(asker, cut);
    assert(!wal_is_unread(cut));
    arena_init(&c.arena, &f->budget, SIZE_MAX);
    // One that vanished while it was read is covered, and the head has only some of its rows.
    bool ok = atomic_load(&cut->dropped) || cover_adopted(f, &c, e);
    c.covered = c.dropping = ok;
    ok = ok && drop_covered_cut(f, &c, e);
    lock_take(&f->lock);
    f->totals.cuts += ok;
    lock_give(&f->lock);
    arena_release(&c.arena);
    return ok;
}
