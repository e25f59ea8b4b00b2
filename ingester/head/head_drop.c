// SPDX-License-Identifier: Apache-2.0
//
// head_drop.c - rows leave.
//
// A cut that is dropped goes in two steps. First it is marked, while no reader is inside: from then
// on readers pass its rows over and answers do not name it, all at once. Then its rows are taken
// out, a run of HEAD_RUN rows under a service's lock at a time, so a reader or a push waits for one
// run at most. The ids of a run become past ones under the same lock: at no time is one not known.
// Memory is asked for before the lock is taken and freed when it was given up.
//
// Rows that go before their cut (head_remove) go in the same runs, so that pushes wait for one at
// most; but no reader is inside from the first to the last.
#include "ingester/head/head_int.h"
#include "ingester/head/head_stacks.h"
#include "model/slot.h"
#include "sys/clock.h"

#include <time.h>

struct removal {
    struct service_head *service;
    const struct cut *cut;
    bool whole;  // all of the cut
    int64_t after;
    int64_t until;
    const struct loose_set *keys;
    uint32_t series;
    uint64_t fingerprint;  // of the series
};

static bool is_meant(const struct removal *x, const struct row *row)
{
    if (row->cut != x->cut) return false;
    if (x->whole) return true;
    if (!row_within(row, x->after, x->until)) return false;
    return !x->keys || loose_find(x->keys, (struct loose_key){x->fingerprint, row->id});
}

static bool goes(const void *arg, const struct row *row)
{
    const struct removal *x = arg;
    struct head *h = x->service->head;
    if (!is_meant(x, row)) return false;
    if (h->remembers)
        recent_ids_add(&h->recent_ids, x->service->tenant,
                       (struct loose_key){x->fingerprint, row->id});
    ids_remove(&x->service->ids, x->series, row->id);
    return true;
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

// A writer that waits makes the readers wait that come after it, for as long as those read that
// came before. So it looks again for a while before it queues.
#define POLITE_TRIES 200
#define POLITE_NS    100000

void service_lock_politely(struct service_head *s)
{
    const struct timespec pause = {.tv_nsec = POLITE_NS};
    for (unsigned i = 0; i < POLITE_TRIES; i++) {
        if (pthread_rwlock_trywrlock(&s->lock) == 0) return;
        (void)nanosleep(&pause, NULL);
    }
    pthread_rwlock_wrlock(&s->lock);
}

struct thinning {
    struct removal *what;
    struct rows_gap gap;
    uint32_t series;  // to go on with
};

// With the service's lock. A series costs as much as a row. False: there is more.
static bool thin_run(struct thinning *t, struct service_head *s, struct rows_run *run)
{
    for (; t->series < s->index.series_count && run->left > 0; t->series++) {
        run->left--;
        aim(t->what, s, t->series);
        if (!rows_thin(&s->rows[t->series], &s->head->budget, &t->gap, goes, t->what, run))
            return false;
    }
    return t->series >= s->index.series_count;
}

// Ids that go need room, which is not asked for under the lock. Without memory they are forgotten.
static size_t run_length(struct service_head *s)
{
    struct head *h = s->head;
    if (!h->remembers) return HEAD_RUN;
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
        size_t length = run_length(s);
        struct rows_run run = {.left = length};
        service_lock_politely(s);
        uint64_t began = clock_thread_ns();
        done = thin_run(&t, s, &run);
        s->row_count -= run.removed;
        rows += run.removed;
        if (done && rows) {  // stacks of an hour are fewer now
            memcpy(hours, s->hours, sizeof hours);
            memset(s->hours, 0, sizeof hours);
        }
        pthread_rwlock_unlock(&s->lock);
        head_note_run(s->head, length - run.left, began);
        rows_waste_free(&s->head->budget, run.waste);
    }
    stack_hours_free(&s->head->budget, hours);
    atomic_fetch_sub_explicit(&s->head->rows, rows, memory_order_relaxed);
    return rows;
}

// ---- services without rows

// Besides those of the cut: a push that was not taken may leave one that no cut names.
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

// All at once, for readers.
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

bool head_drop(struct head *h, struct cut *cut, bool insist, size_t *rows)
{
    struct cut_walk w;
    struct service_head *s = NULL;
    *rows = 0;
    if (!mark(h, cut, insist)) return false;
    cut_walk_begin(&w, h, cut);
    while ((s = cut_walk_next(&w))) {
        struct removal all = {.cut = cut, .whole = true};
        struct service_head *found = s;
        pthread_rwlock_wrlock(&h->removing);
        s = service_current(found);
        *rows += thin(s, &all);
        service_compact(s);
        pthread_rwlock_unlock(&h->removing);
        service_unref(found);
    }
    atomic_fetch_sub_explicit(&h->dropping, 1, memory_order_release);
    cut_services_forget(h, cut);
    sweep_others(h, w.all ? head_count(h).services : SWEPT_BESIDES);
    head_tidy(h);
    return true;
}

// ---- rows of a piece

size_t head_remove(struct head *h, const struct head_removal *what)
{
    struct removal x = {.cut = what->cut,
                        .after = slot_start(what->hour, SLOT_HOUR),
                        .until = slot_start(what->hour + 1, SLOT_HOUR),
                        .keys = what->keys};
    size_t rows = 0;
    for (size_t i = 0; i < what->service_count; i++) {
        struct service_head *s = head_find(h, what->tenant, what->services[i]);
        if (!s) continue;
        size_t gone = thin(s, &x);
        pthread_rwlock_wrlock(&s->lock);
        s->shape += gone > 0;
        pthread_rwlock_unlock(&s->lock);
        rows += gone;
        head_sweep(h, &s, 1);
        service_unref(s);
    }
    return rows;
}
