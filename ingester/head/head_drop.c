// SPDX-License-Identifier: Apache-2.0
//
// head_drop.c - removes rows from the head: those of a cut that is dropped, or of a piece whose
// rows are in the store.
//
// The drop of a cut, when nothing is in the way:
//
//     1. The cut is marked as dropped while no reader is inside (head.drops). From then on readers
//        pass its rows over and answers do not name it: for them it is gone at once.
//     2. Service by service its rows are taken out, in runs of HEAD_RUN rows under the service's
//        lock, so that a reader or a push waits for one run at most. The ids of a run become recent
//        ids under the same lock: at no moment is an id unknown.
//     3. A service whose tables are mostly dead by then is copied (head_compact.c).
//     4. Services without rows leave the table.
//
// What may be in the way:
//
//     a reader is inside (1)      Without `insist` nothing happens; the caller comes again.
//                                 With it the mark waits, and new readers wait for the mark.
//     no memory for ids (2)       Ids are forgotten; a push that is repeated may count twice until
//                                 compaction. The drop itself needs no memory and cannot fail.
//     pushes of the service (2)   They go in between two runs.
//
// Memory is asked for before the service's lock is taken, and freed after it was given up: both may
// take long.
//
// Rows of a piece (head_remove) go in the same runs. They have no mark of their own: what they have
// in common is in head.concealed from head_exclude on, and readers compare the rows that they meet
// with it, until the last run is over. So a reader in between sees none of them.
#include "ingester/head/head_int.h"
#include "ingester/head/head_stacks.h"
#include "model/slot.h"
#include "sys/clock.h"

#include <time.h>

struct removal {
    struct service_head *service;
    const struct cut *cut;             // all of its rows,
    const struct head_removal *these;  // or, if this is not NULL, these
    bool forgets;                      // their ids are not known any more
    uint32_t series;
    uint64_t fingerprint;  // of the series
};

bool row_is_meant(const struct head_removal *what, const struct service_head *s, uint32_t series,
                  const struct row *row)
{
    if (row->cut != what->cut ||
        !row_within(row, slot_start(what->hour, SLOT_HOUR), slot_start(what->hour + 1, SLOT_HOUR)))
        return false;
    if (!str_eq(s->tenant, what->tenant)) return false;
    return !what->keys ||
           loose_find(what->keys, (struct loose_key){s->index.series[series].fingerprint, row->id});
}

// Called by rows_thin for each row, with the service's lock: true if it goes.
static bool goes(const void *arg, const struct row *row)
{
    const struct removal *x = arg;
    struct head *h = x->service->head;
    bool meant = x->these ? row_is_meant(x->these, x->service, x->series, row) : row->cut == x->cut;
    if (!meant) return false;
    if (h->remembers && !x->forgets)
        recent_ids_add(&h->recent_ids, x->service->tenant,
                       (struct loose_key){x->fingerprint, row->id});
    ids_remove(&x->service->ids, x->series, row->id);
    return true;
}

// Of a hidden cut nothing is remembered: the adoption may be given up after some of its rows went
// to the store. If these were known when the cut is read again, they would be left out, and an
// answer that names the cut would have the others alone.
static bool is_forgotten(const struct cut *c)
{
    return atomic_load_explicit(&c->hidden, memory_order_relaxed);
}

static void aim(struct removal *x, struct service_head *s, uint32_t series)
{
    x->service = s;
    x->series = series;
    x->fingerprint = s->index.series[series].fingerprint;
}

// ---- run by run

static void raise(_Atomic uint64_t *most, uint64_t value)
{
    if (value > atomic_load_explicit(most, memory_order_relaxed))
        atomic_store_explicit(most, value, memory_order_relaxed);
}

void head_note_run(struct head *h, uint64_t steps, uint64_t began)
{
    atomic_fetch_add_explicit(&h->runs, 1, memory_order_relaxed);
    raise(&h->longest_run, steps);
    raise(&h->longest_hold, clock_thread_ns() - began);
}

// A writer that waits for the lock makes all later readers wait, for as long as the readers inside
// take. So it only tries for a while (20 ms) before it queues.
#define POLITE_TRIES 200
#define POLITE_NS    100000

static void lock_politely(pthread_rwlock_t *lock)
{
    const struct timespec pause = {.tv_nsec = POLITE_NS};
    for (unsigned i = 0; i < POLITE_TRIES; i++) {
        if (pthread_rwlock_trywrlock(lock) == 0) return;
        (void)nanosleep(&pause, NULL);
    }
    pthread_rwlock_wrlock(lock);
}

void service_lock_politely(struct service_head *s)
{
    lock_politely(&s->lock);
}

struct thinning {
    struct removal *what;
    struct rows_gap gap;
    uint32_t series;  // to go on with
};

// One run, with the service's lock. Going to the next series costs as much as a row, so that a
// service with many small series has bounded runs too. False: there is more.
static bool thin_run(struct thinning *t, struct service_head *s, struct rows_run *run)
{
    for (; t->series < s->index.series_count && run->left > 0; t->series++) {
        struct rows *rows = &s->rows[t->series];
        bool active = rows_is_active(rows);
        run->left--;
        aim(t->what, s, t->series);
        bool done = rows_thin(rows, service_budget(s), &t->gap, goes, t->what, run);
        if (active && !rows_is_active(rows)) tenant_sleep(s->owner, 1);
        if (!done) return false;
    }
    return t->series >= s->index.series_count;
}

// How many steps the next run has: as many as the table of recent ids has room for. That room is
// asked for here, without the lock. If there is none, the run has its full length and ids are
// forgotten.
static size_t run_length(struct service_head *s, bool forgets)
{
    struct head *h = s->head;
    if (!h->remembers || forgets) return HEAD_RUN;
    pthread_rwlock_rdlock(&s->lock);
    size_t rows = MIN(s->row_count, (uint64_t)HEAD_RUN);
    pthread_rwlock_unlock(&s->lock);
    size_t room = recent_ids_room(&h->recent_ids, rows, head_recent_ids_most(h));
    return room > 0 && room < rows ? room + 1 : HEAD_RUN;  // the series is a step as well
}

static size_t thin(struct service_head *s, struct removal *what)
{
    struct thinning t = {.what = what};
    struct stack_hour hours[STACK_HOURS] = {{0}};
    size_t rows = 0;
    bool done = false;
    while (!done) {
        size_t length = run_length(s, what->forgets);
        struct rows_run run = {.left = length};
        service_lock_politely(s);
        uint64_t began = clock_thread_ns();
        done = thin_run(&t, s, &run);
        assert(run.removed <= s->row_count);
        s->row_count -= run.removed;
        rows += run.removed;
        // The sets of distinct stacks by hour (the limit max_stacks_per_service_hour) count stacks
        // of rows that are gone. They are taken along and freed without the lock, and fill up
        // again.
        if (done && rows) {
            memcpy(hours, s->hours, sizeof hours);
            memset(s->hours, 0, sizeof hours);
        }
        // A cut that was let go may be read again, perhaps at the same address: then it has a new
        // list, which lacks this service.
        if (done && !what->these && s->noted.cut == what->cut) s->noted = (struct noted_cut){0};
        pthread_rwlock_unlock(&s->lock);
        head_note_run(s->head, length - run.left, began);
        rows_waste_free(service_budget(s), run.waste);
    }
    stack_hours_free(service_budget(s), hours);
    atomic_fetch_sub_explicit(&s->head->rows, rows, memory_order_relaxed);
    return rows;
}

// ---- services without rows

// Services that are looked at besides those of a cut, round and round.
#define SWEPT_BESIDES 64

static void sweep_others(struct head *h, size_t n)
{
    struct service_head *run[HEAD_RUN];
    for (size_t done = 0; done < n; done += HEAD_RUN) {
        size_t count = head_next_services(h, run, MIN(n - done, (size_t)HEAD_RUN));
        head_sweep(h, run, count);
        for (size_t k = 0; k < count; k++)
            service_unref(run[k]);
    }
}

void head_sweep_some(struct head *h)
{
    sweep_others(h, SWEPT_BESIDES);
}

// Marks the cut for all readers at once: while head.drops is held for writing none is inside.
// `dropping` rises under the same lock, so a reader that sees none dropped need not check rows.
static bool mark(struct head *h, struct cut *cut, bool insist)
{
    if (insist) {
        pthread_rwlock_wrlock(&h->drops);
    } else if (pthread_rwlock_trywrlock(&h->drops) != 0) {
        return false;
    }
    atomic_store_explicit(&cut->dropped, true, memory_order_relaxed);  // ordered by the lock
    atomic_fetch_add_explicit(&h->dropping, 1, memory_order_relaxed);
    pthread_rwlock_unlock(&h->drops);
    return true;
}

// The cut is marked: no row of it comes any more.
static size_t take_out(struct head *h, const struct cut *cut, bool forgets)
{
    struct cut_walk w;
    struct service_head *s = NULL;
    size_t rows = 0;
    cut_walk_begin(&w, h, cut);
    while ((s = cut_walk_next(&w))) {
        struct removal all = {.cut = cut, .forgets = forgets};
        struct service_head *found = s;
        // Held for one service at a time, so that a refresh (head_exclude) can come in between. A
        // copy may have replaced the service while the lock was waited for.
        pthread_rwlock_wrlock(&h->removing);
        s = service_current(found);
        rows += thin(s, &all);
        service_compact(s);
        pthread_rwlock_unlock(&h->removing);
        service_unref(found);
    }
    cut_services_forget(h, cut);
    sweep_others(h, w.all ? head_count(h).services : SWEPT_BESIDES);
    head_tidy(h);
    return rows;
}

bool head_drop(struct head *h, struct cut *cut, bool insist, size_t *rows)
{
    *rows = 0;
    assert(cut->pins == 0);
    if (!mark(h, cut, insist)) return false;
    *rows = take_out(h, cut, is_forgotten(cut));
    atomic_fetch_sub_explicit(&h->dropping, 1, memory_order_release);
    return true;
}

// ---- rows of a piece

// `removing` first: while this waits for another removal, no reader is kept out.
void head_exclude(struct head *h, const struct head_removal *what)
{
    pthread_rwlock_wrlock(&h->removing);
    lock_politely(&h->drops);
    assert(!atomic_load_explicit(&h->concealed, memory_order_relaxed));
    atomic_store_explicit(&h->concealed, what, memory_order_relaxed);  // ordered by the lock
    atomic_fetch_add_explicit(&h->dropping, what != NULL, memory_order_relaxed);
}

void head_admit(struct head *h)
{
    pthread_rwlock_unlock(&h->drops);
}

static size_t remove_of(struct head *h, const struct head_removal *what, str service)
{
    struct removal x = {.cut = what->cut, .these = what, .forgets = is_forgotten(what->cut)};
    struct service_head *s = head_find(h, what->tenant, service);
    if (!s) return 0;
    size_t gone = thin(s, &x);
    // A flush that copies the service's rows sees that they changed.
    atomic_fetch_add_explicit(&s->shape, gone > 0, memory_order_relaxed);
    head_sweep(h, &s, 1);
    service_unref(s);
    return gone;
}

size_t head_remove(struct head *h)
{
    const struct head_removal *what = atomic_load_explicit(&h->concealed, memory_order_relaxed);
    size_t rows = 0;
    for (size_t i = 0; what && i < what->service_count; i++)
        rows += remove_of(h, what, what->services[i]);
    // Readers may be comparing rows with it.
    if (what) {
        lock_politely(&h->drops);
        atomic_store_explicit(&h->concealed, NULL, memory_order_relaxed);
        atomic_fetch_sub_explicit(&h->dropping, 1, memory_order_release);
        pthread_rwlock_unlock(&h->drops);
    }
    pthread_rwlock_unlock(&h->removing);
    return rows;
}

// ---- cuts of adopted streams

// Never taken back: of the rows that are there from now on some may not count, so readers look at
// each of them.
void head_adopts(struct head *h)
{
    lock_politely(&h->drops);
    if (!h->adopts) atomic_fetch_add_explicit(&h->dropping, 1, memory_order_relaxed);
    h->adopts = true;
    pthread_rwlock_unlock(&h->drops);
}

// No reader counts its rows, so that none has to be out for the mark. It is taken back, as the cut
// may be read again.
void head_let_go(struct head *h, struct cut *cut)
{
    bool dropped = atomic_load_explicit(&cut->dropped, memory_order_relaxed);
    assert(cut->pins == 0 && atomic_load_explicit(&cut->hidden, memory_order_relaxed));
    atomic_store_explicit(&cut->dropped, true, memory_order_relaxed);
    (void)take_out(h, cut, true);
    atomic_store_explicit(&cut->dropped, dropped, memory_order_relaxed);
}

void head_reveal(struct head *h, struct cut *const *cuts, size_t n)
{
    lock_politely(&h->drops);
    assert(h->adopts);
    for (size_t i = 0; i < n; i++)
        atomic_store_explicit(&cuts[i]->hidden, false,
                              memory_order_relaxed);  // ordered by the lock
    pthread_rwlock_unlock(&h->drops);
}
