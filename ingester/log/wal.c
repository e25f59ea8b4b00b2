// SPDX-License-Identifier: Apache-2.0
//
// wal.c - group commit, and what can be asked of the log. wal.h has the steps of an append; here is
// which function does them:
//
//     1.     wal_append    queues the caller's waiter, and takes the lead if nobody has it
//     2.     take_group    the front of the queue
//     3, 4.  commit        room, cut (wal_need_cut), entries with their news (put_group), one write
//                          What of the group has no place in it goes back to the queue (put_back).
//     5.     note_commit   counts and pins; pass_lead
//     6.     finish        wakes each waiter, with success or with the fault of the group
//
// What may fail on the way:
//
//     no room, no memory     commit fails, `broken` is false: the group is refused. News that were
//     (3, 4)                 gathered are lost, so a new run begins (wal_next_run).
//     too large for the      the same, for the first of the group alone; the others go back to the
//     store (4)              queue
//     a new cut, the write,  `broken` is true: wal_break puts the open cut in doubt and refuses all
//     a disk that is gone    that wait. The duty thread opens the log again (wal_life.c).
//     (3, 4)
//     a drain meanwhile      Appends in the queue are written, later ones are refused.
//
// A waiter is on the stack of its caller. So nothing of it is touched after its bell was rung.
#include "ingester/log/wal.h"

#include "ingester/log/wal_object_int.h"
#include "ingester/metrics.h"
#include "sys/clock.h"
#include "sys/log.h"

#include <stdlib.h>

// ---- the lead

void wal_take_lead(struct wal *w)
{
    assert(!lock_is_mine(&w->lock));
    lock_take(&w->lock);
    w->outsiders++;
    while (w->led)
        cond_wait(&w->idle, &w->lock);
    w->outsiders--;
    w->led = true;
    lock_give(&w->lock);
}

// Gives the lead to a thread outside the queue if one waits, else to the first of the queue. That
// one is returned: the caller rings its bell after it has given w->lock back, so that the woken
// thread does not run into a lock that is still taken.
static struct waiter *pass_lead(struct wal *w)
{
    assert(w->led);
    assert(lock_is_mine(&w->lock));
    w->led = false;
    cond_wake_all(&w->idle);
    if (w->outsiders > 0 || !w->first) return NULL;
    w->led = true;
    w->first->leads = true;
    return w->first;
}

static void ring(struct waiter *x)
{
    if (x) (void)bell_ring(&x->bell);
}

void wal_give_lead(struct wal *w)
{
    lock_take(&w->lock);
    struct waiter *next = pass_lead(w);
    lock_give(&w->lock);
    ring(next);
}

// ---- appending

bool wal_admits(const struct wal *w, err *e)
{
    switch (w->state) {
    case WAL_OPEN:
        return true;
    case WAL_BROKEN:
        return err_set(e, ERR_UNAVAILABLE, "the log is being opened again after a failed write: %s",
                       w->fault.msg);
    case WAL_RECOVERED:
        return err_set(e, ERR_UNAVAILABLE, "the log is being read");
    case WAL_DRAINED:
        return err_set(e, ERR_UNAVAILABLE, "the ingester is shutting down");
    }
    abort();
}

// Runs are numbered over the whole process, not for each log: a head that remembers a run's number
// may be used with a log that was opened later (tests do that).
void wal_next_run(struct wal *w)
{
    static _Atomic uint64_t runs;
    w->run = atomic_fetch_add_explicit(&runs, 1, memory_order_relaxed) + 1;
}

// Writes a group, or the first of it: the others are taken out of it and are in *rest. If it fails
// and *broken is false, nothing was written and the log is as it was; if *broken is true, nobody
// knows what is there.
static bool commit(struct wal *w, struct waiter *group, size_t bytes, struct waiter **rest,
                   bool *broken, err *e)
{
    assert(w->led && group);
    if (!w->home->has_room(w, bytes, broken, e)) return false;
    *broken = !wal_need_cut(w, bytes, e);
    return !*broken && w->home->write(w, group, bytes, rest, broken, e);
}

// Counts a commit in the cut and the log. With w->lock. The pins must be taken before the lead is
// passed on: the next leader may close the cut, and an unpinned closed cut may be flushed before
// its rows are in the head.
static void note_commit(struct wal *w, struct waiter *group)
{
    struct cut *c = w->open;
    assert(c && !c->closed && w->stream_count > 0);
    assert(lock_is_mine(&w->lock));
    uint64_t first = w->next_seq;
    size_t bytes = 0;
    for (struct waiter *x = group; x; x = x->next) {
        bytes += x->bytes;
        c->news_bytes += x->news_bytes;
        for (size_t i = 0; i < x->n; i++)
            c->rows += x->items[i].count;
        x->place.stream = c->stream;
        x->place.cut = c;
        c->pins++;
        assert(x->place.last_seq >= w->next_seq);
        w->next_seq = x->place.last_seq + 1;
    }
    if (c->first_seq == 0) c->first_seq = first;
    c->last_seq = w->next_seq - 1;
    c->read_seq = c->last_seq;
    c->newest_wall_ns = w->options.wall_ns();
    c->newest_boot_ns = w->options.boot_ns();
    c->bytes += bytes;
    w->bytes += bytes;
    w->streams[w->stream_count - 1].highest_seq = c->last_seq;
    metric_add(&ingester_log_commits, 1);
    metric_add(&ingester_log_entries, w->next_seq - first);
}

// The waiter is on the stack of its caller, which may return as soon as it is rung: x is not
// touched after that. The leader finishes itself without a bell.
static void finish(struct waiter *x, bool ok, const err *fault)
{
    assert(!x->done);
    x->ok = ok;
    if (!ok) *x->e = *fault;
    x->done = true;
    if (!x->leads) ring(x);
}

// With w->lock. Callers in the queue are refused at once: their write would meet the same fault. A
// log that is being drained stays DRAINED, for nobody would open it again.
static void set_broken(struct wal *w, const err *fault)
{
    if (w->open) w->open->in_doubt = true;
    if (w->state == WAL_DRAINED) return;
    w->state = WAL_BROKEN;
    w->fault = *fault;
    err refused = {0};
    (void)wal_admits(w, &refused);
    while (w->first) {
        struct waiter *x = w->first;
        w->first = x->next;
        w->waiting -= x->bytes;
        finish(x, false, &refused);
    }
    w->last = NULL;
}

void wal_break(struct wal *w, const err *fault)
{
    char text[LOG_QUOTE_MAX];
    log_error(NULL, "log.failed", "fault=%s", log_quote(text, str_of(fault->msg)));
    metric_add(&ingester_log_failures, 1);
    w->home->mark(
        w);  // now, as a later open knows the cut only as far as this mark and the disk tell
    lock_take(&w->lock);
    set_broken(w, fault);
    lock_give(&w->lock);
}

// Takes the waiters that fit one write from the queue, at least one. With w->lock.
static struct waiter *take_group(struct wal *w, size_t *bytes)
{
    struct waiter *group = w->first;
    assert(group && group->leads);
    struct waiter *last = group;
    *bytes = group->bytes;
    // The first is taken whatever its size: a push above the limit must be written as well.
    while (last->next && *bytes + last->next->bytes <= w->group_bytes) {
        last = last->next;
        *bytes += last->bytes;
    }
    w->first = last->next;
    if (!w->first) w->last = NULL;
    last->next = NULL;
    return group;
}

// What a write had no place for comes first in the next one. With w->lock.
static void put_back(struct wal *w, struct waiter *rest)
{
    struct waiter *last = rest;
    if (!rest) return;
    assert(w->led && w->state != WAL_BROKEN);
    for (struct waiter *x = rest; x; x = x->next) {
        assert(x->news_bytes == 0 && !x->leads);
        w->waiting += x->bytes;
        last = x;
    }
    last->next = w->first;
    if (!w->first) w->last = last;
    w->first = rest;
}

// An object costs the same whether it has one entry or thousands, so a leader waits for others.
// Those that came while the object before was put have waited already.
static void linger(struct wal *w)
{
    uint64_t until = w->first->since_mono_ns + (uint64_t)w->options.linger_ns;
    while (w->state == WAL_OPEN && w->waiting < w->group_bytes) {
        if (!cond_wait_until(&w->full, &w->lock, until)) break;
    }
}

// Runs with w->lock and gives it back. The next leader is woken before the group, so that its write
// begins while this group's callers are still being woken.
static void lead(struct wal *w)
{
    size_t bytes = 0;
    if (w->options.linger_ns > 0) linger(w);
    struct waiter *group = take_group(w, &bytes);
    struct waiter *rest = NULL;
    err fault = {0};
    bool broken = false;
    lock_give(&w->lock);
    bool ok = commit(w, group, bytes, &rest, &broken, &fault);
    assert(!broken || !rest);
    if (broken) wal_break(w, &fault);
    lock_take(&w->lock);
    assert(w->led);
    w->waiting -= bytes;
    put_back(w, rest);
    if (ok) note_commit(w, group);
    struct waiter *next = pass_lead(w);
    lock_give(&w->lock);
    ring(next);
    while (group) {
        struct waiter *x = group;
        group = x->next;
        finish(x, ok, &fault);
    }
}

static uint64_t waits_for_store_ns(const struct wal *w)
{
    return w->put_mono_ns ? clock_mono_ns() - w->put_mono_ns : 0;
}

bool wal_is_remote(const struct wal *w)
{
    assert(w->home);
    return w->home == &wal_in_store;
}

bool wal_store_fails(struct wal *w)
{
    lock_take(&w->lock);
    bool fails =
        w->objects && (w->state == WAL_BROKEN || waits_for_store_ns(w) > WAL_STORE_SLOW_NS);
    lock_give(&w->lock);
    return fails;
}

// One that is larger than the limit may wait alone. Behind an object that the store does not answer
// for nobody waits: it may take until the put is given up.
static bool may_wait(const struct wal *w, size_t bytes, err *e)
{
    uint64_t slow = waits_for_store_ns(w);
    if (slow > WAL_STORE_SLOW_NS) {
        return err_set(e, ERR_UNAVAILABLE, "the object store has not answered the log for %llu ms",
                       (unsigned long long)(slow / (uint64_t)NS_PER_MS));
    }
    size_t most = w->options.waiting_max;
    if (most == 0 || w->waiting == 0 || w->waiting + bytes <= most) return true;
    return err_set(e, ERR_RESOURCE_EXHAUSTED,
                   "%zu bytes wait for the log, ingester.log_waiting_bytes is %zu", w->waiting,
                   most);
}

bool wal_append(struct wal *w, str tenant, const struct wal_item *items, size_t n,
                struct wal_place *place, err *e)
{
    assert(n > 0 && items && place);
    struct waiter me = {.tenant = tenant, .items = items, .n = n, .e = e};
    size_t rows_bytes = 0;
    for (size_t i = 0; i < n; i++) {
        me.bytes += tenant.n + ENTRY_OVERHEAD + items[i].rows.n;
        rows_bytes += items[i].rows.n;
    }
    me.since_mono_ns = clock_mono_ns();
    lock_take(&w->lock);
    if (!wal_admits(w, e) || !objects_admit(w, rows_bytes, e) || !may_wait(w, me.bytes, e)) {
        lock_give(&w->lock);
        return false;
    }
    w->waiting += me.bytes;
    if (w->waiting >= w->group_bytes) cond_wake_all(&w->full);
    if (w->last) {
        w->last->next = &me;
    } else {
        w->first = &me;
    }
    w->last = &me;
    if (!w->led && w->outsiders == 0) {
        assert(w->first == &me);  // else the one before has the lead
        w->led = true;
        me.leads = true;
    }
    if (me.leads) {
        lead(w);
    } else {
        lock_give(&w->lock);
        (void)bell_await(&me.bell);  // rung when done, or when the lead came to this waiter
        assert(me.done || me.leads);
        // Not done, so the lead came to this waiter: it writes its own group, and those behind it.
        if (!me.done) lock_take(&w->lock);
        if (!me.done) lead(w);
    }
    assert(me.done);
    // Without the lock: whoever set `done` has rung, and touches `me` no more.
    *place = me.place;
    return me.ok;
}

void wal_unpin(struct wal *w, struct cut *c)
{
    lock_take(&w->lock);
    assert(c->pins > 0);
    // A closed cut without pins may be flushed at once.
    c->pins--;
    lock_give(&w->lock);
}

bool wal_position(struct wal *w, struct wal_place *place, err *e)
{
    lock_take(&w->lock);
    bool ok = wal_admits(w, e);
    if (ok) {
        assert(w->stream_count > 0);
        // The open stream is the last one.
        const struct wal_stream *own = &w->streams[w->stream_count - 1];
        *place = (struct wal_place){.stream = own->id, .last_seq = own->highest_seq};
    }
    lock_give(&w->lock);
    return ok;
}

// ---- looking

bool wal_is_unread(const struct cut *c)
{
    return c->read_seq < c->last_seq;
}

// A cut that closed before a write failed stays whole: the failed write can have left entries only
// in the cut that was open. That one is in doubt until its log was read again.
bool wal_is_whole(const struct cut *c)
{
    return c->closed && !c->in_doubt && c->pins == 0 && c->last_seq > 0 && !wal_is_unread(c);
}

enum wal_state wal_state(struct wal *w)
{
    lock_take(&w->lock);
    enum wal_state state = w->state;
    lock_give(&w->lock);
    return state;
}

size_t wal_cuts(struct wal *w, struct cut **out, size_t max)
{
    lock_take(&w->lock);
    size_t n = w->cut_count;
    if (max && n) memcpy(out, w->cuts, MIN(n, max) * sizeof(struct cut *));
    lock_give(&w->lock);
    return n;
}

size_t wal_unread(struct wal *w, struct cut **out, size_t max)
{
    size_t n = 0;
    lock_take(&w->lock);
    for (size_t i = 0; i < w->cut_count; i++) {
        struct cut *c = w->cuts[i];
        if (atomic_load_explicit(&c->hidden, memory_order_relaxed) || !wal_is_unread(c)) continue;
        if (n++ < max) out[n - 1] = c;
    }
    lock_give(&w->lock);
    return n;
}

size_t wal_list_cuts(struct wal *w, struct wal_cut *out, size_t max)
{
    lock_take(&w->lock);
    size_t n = 0;
    for (size_t i = 0; i < w->cut_count; i++) {
        struct cut *c = w->cuts[i];
        if (atomic_load_explicit(&c->hidden, memory_order_relaxed)) continue;
        if (n++ >= max) continue;
        out[n - 1] = (struct wal_cut){.cut = c,
                                      .stream = c->stream,
                                      .number = c->number,
                                      .bytes = c->bytes,
                                      .entries = c->first_seq ? c->last_seq - c->first_seq + 1 : 0,
                                      .opened_wall_ns = c->opened_wall_ns,
                                      .newest_boot_ns = c->newest_boot_ns,
                                      .closed = c->closed,
                                      .ready = wal_is_whole(c),
                                      .awaited = c->closed && c->pins > 0,
                                      .found = c->found_boot_ns != 0,
                                      .lost_entries = c->lost_entries,
                                      .lost_rows = c->lost_rows};
    }
    lock_give(&w->lock);
    return n;
}

// In steps of 64 hours, because a cut with rows from all over the past has no bound on its hours.
static bool add_refs(struct cut *c, struct arena *a, int64_t first, int64_t last,
                     struct wal_ref **refs, size_t *cap, size_t *n)
{
    int64_t hours[64];
    for (size_t got = COUNT(hours); got == COUNT(hours) && first <= last;) {
        got = cut_hours_within(c, first, last, hours, COUNT(hours));
        if (!arena_grow(a, refs, cap, *n + got, sizeof **refs)) return false;
        for (size_t i = 0; i < got; i++)
            (*refs)[(*n)++] = (struct wal_ref){c->stream, c->number, hours[i], 0, c->adopted};
        if (got) first = hours[got - 1] + 1;
    }
    return true;
}

bool wal_refs(struct wal *w, struct arena *a, int64_t first_hour, int64_t last_hour,
              struct wal_ref **refs, size_t *n, err *e)
{
    size_t cap = 0;
    *refs = NULL;
    *n = 0;
    lock_take(&w->lock);
    for (size_t i = 0; i < w->cut_count; i++) {
        struct cut *c = w->cuts[i];
        if (atomic_load_explicit(&c->dropped, memory_order_relaxed)) continue;
        if (atomic_load_explicit(&c->hidden, memory_order_relaxed)) continue;
        if (!add_refs(c, a, first_hour, last_hour, refs, &cap, n)) break;
    }
    lock_give(&w->lock);
    return arena_ok(a, e);
}

size_t wal_streams(struct wal *w, struct wal_stream *out, size_t max)
{
    lock_take(&w->lock);
    size_t n = w->stream_count;
    if (max && n) memcpy(out, w->streams, MIN(n, max) * sizeof *out);
    lock_give(&w->lock);
    return n;
}

struct wal_counts wal_count(struct wal *w)
{
    struct wal_counts c = {0};
    lock_take(&w->lock);
    c.bytes = w->bytes;
    c.lost_entries = w->lost_entries;
    c.lost_rows = w->lost_rows;
    c.waiting = w->waiting;
    for (size_t i = 0; i < w->cut_count; i++) {
        c.open_cuts += !w->cuts[i]->closed;
        c.closed_cuts += w->cuts[i]->closed;
    }
    c.open_streams = w->state == WAL_OPEN;
    c.closed_streams = w->stream_count - c.open_streams;
    lock_give(&w->lock);
    return c;
}
