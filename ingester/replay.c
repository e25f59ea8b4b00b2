// SPDX-License-Identifier: Apache-2.0
//
// replay.c - reads the log back into the head, at a start and after a failed write.
//
//     1. The cuts with unread entries are found and listed.
//     2. The head's limit is lifted: what was acknowledged has to be held. Pushes wait for room.
//     3. Up to four threads take one cut after the other and scan it (wal_scan).
//     4. Each entry is staged and published at once, as a push would be (restore_entry).
//     5. The limit is set again.
//
// The order of cuts does not matter: rows find their place by time, and a row whose id is there is
// dropped. For the same reason the whole replay may be repeated. It fails with the error of one
// cut; the other threads then stop after their cut. A damaged entry is no failure (wal_read.c).
#include "base/fault.h"
#include "ingester/ingester_int.h"
#include "ingester/metrics.h"
#include "sys/clock.h"

#include <inttypes.h>

#define WORKERS_MAX 4

// Cap of the arena that one entry is decoded into. The push that brought it had no larger one.
#define ENTRY_MEMORY ((size_t)1 << 30)

struct replay {
    struct ingester *in;
    const struct replay_room *room;  // NULL: the head has no limit
    struct cut **cuts;
    size_t bytes;  // of the array
    size_t n;
    _Atomic size_t next;  // of cuts, to be taken by a thread
    uint64_t entries;
    atomic_bool failed;
    struct lock lock;  // of fault
    err fault;
};

struct replay_cut {
    struct replay *all;
    struct cut *cut;
    struct restore *restore;
    uint64_t met;  // entries of the cut so far
};

// Stages an entry of an old format, in which an entry is the batch that was pushed.
static bool stage_batch(struct ingester *in, struct arena *a, const struct wal_entry *entry,
                        struct staged **out, err *e)
{
    struct batch batch;
    const struct limits *limits = tenant_limits(in->process->config, a, entry->tenant);
    // The limit of stacks holds here as well: these rows were accepted under it. No other one does.
    struct head_terms terms = {.max_stacks = (uint64_t)limits->max_stacks_per_service_hour};
    return batch_decode(a, entry->batch, &batch, e) &&
           head_stage(in->head, a, entry->tenant, &batch, &terms, out, e);
}

static bool apply(void *arg, const struct wal_entry *entry, err *e)
{
    struct replay_cut *r = arg;
    struct ingester *in = r->all->in;
    const struct replay_room *room = r->all->room;
    struct arena arena;
    struct staged *staged = NULL;
    bool ok = false;
    if (duty_is_over(in)) return err_set(e, ERR_CANCELED, "the ingester is shutting down");
    if (in->missed && !missed_learn(in->missed, entry->tenant, e)) return false;
    if (room && !room->before(room->arg, e)) return false;
    arena_init(&arena, in->process->memory, ENTRY_MEMORY);
    // A log of an older program may have a row twice, in two cuts, and another thread may have
    // staged it at this moment: then wait until that one has published, and begin anew.
    for (;;) {
        uint64_t turn = head_turn(in->head);
        ok = entry->rows.n ? restore_entry(r->restore, &arena, entry->tenant, entry->rows,
                                           entry->known, &staged, e)
                           : stage_batch(in, &arena, entry, &staged, e);
        if (ok) break;
        if (e->code == ERR_RESOURCE_EXHAUSTED && room) {
            if (room->more(room->arg, e)) continue;
            break;
        }
        if (e->code != ERR_ABORTED) break;
        *e = (err){0};
        if (!head_await_turn(in->head, NULL, turn, e)) break;
    }
    // An entry whose rows are all known stages nothing.
    if (staged) head_publish(staged, r->cut);
    FAULT("replay.entry");
    arena_release(&arena);
    r->met++;
    atomic_fetch_add_explicit(&in->entries_read, 1, memory_order_relaxed);
    return ok;
}

static uint64_t entries_of(const struct cut *c)
{
    assert(c->last_seq > 0);
    return c->last_seq - MIN(c->last_seq, c->first_seq ? c->first_seq - 1 : 0);
}

static bool read_cut(struct replay *all, struct cut *c, err *e)
{
    struct ingester *in = all->in;
    struct replay_cut r = {.all = all, .cut = c};
    uint64_t entries = entries_of(c);
    assert(wal_is_unread(c));
    // One for each cut, because an entry's news hold for the later entries of the same cut.
    r.restore = restore_new(in->head, in->process->memory, e);
    bool ok = r.restore && wal_scan(in->wal, c, apply, &r, e);
    restore_free(r.restore);
    // Missing entries count as read, or /ready would never reach "N of N".
    if (ok && r.met < entries)
        atomic_fetch_add_explicit(&in->entries_read, entries - r.met, memory_order_relaxed);
    return ok;
}

static void *work(void *arg)
{
    struct replay *all = arg;
    for (;;) {
        size_t i = atomic_fetch_add_explicit(&all->next, 1, memory_order_relaxed);
        if (i >= all->n || atomic_load_explicit(&all->failed, memory_order_relaxed)) return NULL;
        err fault = {0};
        if (!read_cut(all, all->cuts[i], &fault)) {
            lock_take(&all->lock);
            // Of several failures the last one is told; each of them ends the replay.
            all->fault = fault;
            lock_give(&all->lock);
            atomic_store_explicit(&all->failed, true, memory_order_relaxed);
        }
    }
}

static bool find_unread(struct replay *all, err *e)
{
    size_t count = wal_unread(all->in->wal, NULL, 0);
    all->bytes = (count + 1) * sizeof(struct cut *);
    all->cuts = mem_alloc(NULL, all->bytes, e);
    if (!all->cuts) return false;
    // No cut is made or dropped while the log is not open.
    all->n = MIN(count, wal_unread(all->in->wal, all->cuts, count));
    for (size_t i = 0; i < all->n; i++)
        all->entries += entries_of(all->cuts[i]);
    return true;
}

bool replay_adopted(struct ingester *in, struct cut *c, const struct replay_room *room, err *e)
{
    struct replay all = {.in = in, .room = room};
    return read_cut(&all, c, e);
}

bool replay_run(struct ingester *in, err *e)
{
    struct replay all = {.in = in};
    pthread_t threads[WORKERS_MAX];
    size_t started = 0;
    uint64_t began = clock_mono_ns();
    if (!wal_find(in->wal, e) || !find_unread(&all, e)) return false;
    lock_init(&all.lock, LOCK_CUT);
    atomic_store(&in->entries_read, 0);
    atomic_store(&in->entries_found, all.entries);
    atomic_store(&in->cuts_found, all.n);
    head_set_limit(in->head, 0);  // none
    size_t wanted = MIN(MIN(thread_cpus(), WORKERS_MAX), all.n);
    err ignored = {0};  // with fewer threads it only takes longer; this one always works
    while (started + 1 < wanted &&
           thread_start(&threads[started], "ingester.replay", work, &all, &ignored)) {
        started++;
    }
    // This thread works too, so a replay needs no other thread.
    work(&all);
    for (size_t i = 0; i < started; i++)
        thread_join(threads[i]);
    // Set again before pushes begin. Rows above it stay; they only keep new ones out.
    assert(started < WORKERS_MAX);
    head_set_limit(in->head, ingester_settings(in)->head_memory);
    mem_free(NULL, (void *)all.cuts, all.bytes);
    lock_release(&all.lock);
    if (all.failed) {
        *e = all.fault;
        return false;
    }
    if (all.n) {
        log_info(NULL, "log.replayed", "cuts=%zu entries=%" PRIu64 " took_ms=%" PRIu64, all.n,
                 all.entries, (clock_mono_ns() - began) / (uint64_t)NS_PER_MS);
    }
    return true;
}
