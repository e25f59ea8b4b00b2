// SPDX-License-Identifier: Apache-2.0
//
// head_drop.c - rows leave.
//
// A cut that is dropped goes in two steps. First it is marked, while no reader is inside: from then
// on readers pass its rows over and answers do not name it, all at once. Then its rows are taken
// out, a run of HEAD_RUN rows under a service's lock at a time, so a reader or a push waits for one
// run at most. The ids of a run become past ones under the same lock: at no time is one not known.
//
// Rows that go before their cut (head_remove) go in one step, while no reader is inside.
#include "ingester/head_int.h"
#include "ingester/head_stacks.h"
#include "model/slot.h"

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
    if (h->remembers) {
        past_add(&h->past, x->service->tenant, (struct loose_key){x->fingerprint, row->id},
                 head_past_most(h));
    }
    ids_remove(&x->service->ids, x->series, row->id);
    return true;
}

static void aim(struct removal *x, struct service_head *s, uint32_t series)
{
    x->service = s;
    x->series = series;
    x->fingerprint = s->index.series[series].fingerprint;
}

// ---- a cut, run by run

static void note_run(struct head *h, uint64_t rows)
{
    atomic_fetch_add_explicit(&h->runs, 1, memory_order_relaxed);
    if (rows > atomic_load_explicit(&h->longest_run, memory_order_relaxed))
        atomic_store_explicit(&h->longest_run, rows, memory_order_relaxed);
}

struct thinning {
    struct removal what;
    struct rows_gap gap;
    uint32_t series;  // to go on with
    size_t removed;   // by the run
};

// With the service's lock. A series costs as much as a row. False: there is more.
static bool thin_run(struct thinning *t, struct service_head *s, size_t *left)
{
    for (; t->series<s->index.series_count && * left> 0; t->series++) {
        --*left;
        aim(&t->what, s, t->series);
        if (!rows_thin(&s->rows[t->series], &s->head->budget, &t->gap, goes, &t->what, left,
                       &t->removed)) {
            return false;
        }
    }
    return t->series >= s->index.series_count;
}

static size_t thin(struct service_head *s, const struct cut *cut)
{
    struct thinning t = {.what = {.cut = cut, .whole = true}};
    size_t rows = 0;
    bool done = false;
    while (!done) {
        size_t left = HEAD_RUN;
        t.removed = 0;
        pthread_rwlock_wrlock(&s->lock);
        s->thinning = true;  // numbers of series stay
        done = thin_run(&t, s, &left);
        s->row_count -= t.removed;
        rows += t.removed;
        s->thinning = !done;
        if (done && rows) stack_hours_release(s);
        pthread_rwlock_unlock(&s->lock);
        note_run(s->head, HEAD_RUN - left);
    }
    return rows;
}

// Tables are made anew while no reader is inside.
static void compact(struct service_head *s, bool insist)
{
    struct head *h = s->head;
    pthread_rwlock_rdlock(&s->lock);
    bool wanted = service_wants_compaction(s);
    pthread_rwlock_unlock(&s->lock);
    if (!wanted || !head_exclude(h, insist)) return;
    pthread_rwlock_wrlock(&s->lock);
    s->shape++;
    service_compact(s);
    pthread_rwlock_unlock(&s->lock);
    head_admit(h);
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

bool head_drop(struct head *h, struct cut *cut, bool insist, size_t *rows)
{
    struct cut_walk w;
    struct service_head *s = NULL;
    *rows = 0;
    lock_take(&h->removing);
    if (!head_exclude(h, insist)) {
        lock_give(&h->removing);
        return false;
    }
    atomic_store_explicit(&cut->dropped, true, memory_order_relaxed);  // ordered by the lock
    atomic_store_explicit(&h->dropping, true, memory_order_relaxed);
    head_admit(h);
    cut_walk_begin(&w, h, cut);
    while ((s = cut_walk_next(&w))) {
        size_t gone = thin(s, cut);
        *rows += gone;
        atomic_fetch_sub_explicit(&h->rows, gone, memory_order_relaxed);
        if (gone) compact(s, insist);
        service_unref(s);
    }
    atomic_store_explicit(&h->dropping, false, memory_order_release);
    cut_services_forget(h, cut);
    sweep_others(h, w.all ? head_count(h).services : SWEPT_BESIDES);
    lock_give(&h->removing);
    return true;
}

// ---- rows of a piece, at once

static size_t remove_from(struct service_head *s, struct removal *what)
{
    size_t removed = 0;
    pthread_rwlock_wrlock(&s->lock);
    for (uint32_t i = 0; i < s->index.series_count; i++) {
        aim(what, s, i);
        removed += rows_remove(&s->rows[i], &s->head->budget, goes, what);
    }
    s->row_count -= removed;
    if (removed > 0) {  // the numbers of series may change
        s->shape++;
        stack_hours_release(s);
        if (service_wants_compaction(s)) service_compact(s);
    }
    pthread_rwlock_unlock(&s->lock);
    atomic_fetch_sub_explicit(&s->head->rows, removed, memory_order_relaxed);
    return removed;
}

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
        rows += remove_from(s, &x);
        head_sweep(h, &s, 1);
        service_unref(s);
    }
    return rows;
}
