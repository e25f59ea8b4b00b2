// SPDX-License-Identifier: Apache-2.0
//
// wal_stream.c - the log goes from one stream to the next while appends go on.
//
//     1. A stream is planned. On disk its meta row is written, so that a start after a crash knows
//        that it was this log's, and empty.
//     2. It is offered: its owner has registered it.
//     3. The next cut begins in it, with seq 1 and number 1; or at once, if no cut is open. The
//        former stream is closed then, and goes with its last cut.
//
// What may fail on the way:
//
//     a write (1), (3)    the log is BROKEN and is opened again, in the planned stream
//     the process ends    the next start finds a row of a stream without cuts and deletes it
#include "base/fault.h"
#include "ingester/log/wal_int.h"
#include "model/slot.h"
#include "sys/clock.h"
#include "sys/rand.h"

static bool has_plan(const struct wal *w)
{
    return !id128_eq(w->planned, (id128){0});
}

// Streams sort by name in the order in which they were made, so the name of a new one is above
// those of all that are held, even if the clock was set back since.
static id128 next_stream(const struct wal *w)
{
    uint8_t random[10];
    rand_bytes(random, sizeof random);
    uint64_t ms = (uint64_t)(MAX(w->options.wall_ns(), 0) / NS_PER_MS);
    for (size_t i = 0; i < w->stream_count; i++)
        ms = MAX(ms, uuid_ms(w->streams[i].id) + 1);
    return ulid_make(ms, random);
}

id128 wal_coming(const struct wal *w)
{
    assert(lock_is_mine(&w->lock));
    return has_plan(w) ? w->planned : next_stream(w);
}

id128 wal_take_plan(struct wal *w)
{
    id128 own = wal_coming(w);
    w->planned = (id128){0};
    w->offered = false;
    return own;
}

bool wal_plan_stream(struct wal *w, id128 *stream, err *e)
{
    wal_take_lead(w);
    lock_take(&w->lock);
    bool ok = wal_admits(w, e);
    bool planned = has_plan(w);
    *stream = planned ? w->planned : next_stream(w);
    lock_give(&w->lock);
    if (ok && !planned) {
        ok = !FAULT_ERRNO("stream.plan") || err_set(e, ERR_UNAVAILABLE, "log: plan: %m");
        ok = ok && (!w->home->plan || w->home->plan(w, *stream, e));
        if (!ok) wal_break(w, e);
    }
    if (ok) {
        lock_take(&w->lock);
        w->planned = *stream;
        lock_give(&w->lock);
    }
    wal_give_lead(w);
    return ok;
}

void wal_unplan_stream(struct wal *w, id128 stream)
{
    wal_take_lead(w);
    lock_take(&w->lock);
    // Its row stays until the next start, which finds no cut of it.
    if (id128_eq(w->planned, stream)) (void)wal_take_plan(w);
    lock_give(&w->lock);
    wal_give_lead(w);
}

// Whether the stream has entries; with w->lock.
static bool is_held(const struct wal *w, id128 stream)
{
    for (size_t i = 0; i < w->cut_count; i++) {
        const struct cut *c = w->cuts[i];
        if (c->last_seq > 0 && id128_eq(c->stream, stream)) return true;
    }
    return false;
}

void wal_forget_empty(struct wal *w)
{
    size_t kept = 0;
    assert(lock_is_mine(&w->lock));
    for (size_t i = 0; i < w->cut_count; i++) {
        struct cut *c = w->cuts[i];
        if (c->last_seq > 0) {
            w->cuts[kept++] = c;
            continue;
        }
        if (w->open == c) w->open = NULL;
        cut_free(c);
    }
    w->cut_count = kept;
}

void wal_go_over(struct wal *w, const struct wal_stream *own)
{
    assert(w->led && !w->open);
    lock_take(&w->lock);
    wal_forget_empty(w);
    if (!is_held(w, w->streams[w->stream_count - 1].id)) w->stream_count--;
    wal_enter_stream(w, own);
    if (id128_eq(w->planned, own->id)) (void)wal_take_plan(w);
    lock_give(&w->lock);
}

bool wal_begin_offered(struct wal *w, err *e)
{
    assert(w->led && !w->open);
    if (!w->offered) return true;
    const struct wal_stream own = {.id = w->planned, .state = "open"};
    lock_take(&w->lock);
    bool held = is_held(w, w->streams[w->stream_count - 1].id);
    lock_give(&w->lock);
    if (!wal_make_room(w, e) || !w->home->go_over(w, &own, held, e)) return false;
    wal_go_over(w, &own);
    return true;
}

void wal_offer_stream(struct wal *w, id128 stream)
{
    err e = {0};
    wal_take_lead(w);
    lock_take(&w->lock);
    bool open = w->state == WAL_OPEN;
    if (open && id128_eq(w->planned, stream)) w->offered = true;
    lock_give(&w->lock);
    // A cut whose first write was refused is empty, and no reason to wait.
    bool ok = !open || !w->open || w->open->last_seq > 0 || wal_close_cut(w, &e);
    if (open && ok && !w->open) ok = wal_begin_offered(w, &e);
    if (!ok) wal_break(w, &e);
    wal_give_lead(w);
}

// ---- which streams the process answers for

static void look_at_cut(struct wal *w, struct cut *c, struct wal_served *v, size_t n)
{
    size_t i = 0;
    assert(lock_is_mine(&w->lock));
    while (i < n && !id128_eq(v[i].stream, c->stream))
        i++;
    if (i == n) return;
    if (c->last_seq == 0) return;
    v[i].held = true;
    v[i].newest_boot_ns = MAX(v[i].newest_boot_ns, c->newest_boot_ns);
    if (atomic_load_explicit(&c->dropped, memory_order_relaxed)) return;
    lock_take(&c->lock);
    bool empty = c->hours.n == 0;
    int64_t oldest = slot_start(c->hours.first, SLOT_HOUR);
    lock_give(&c->lock);
    // 0 says that there is none.
    oldest = MAX(oldest, 1);
    if (!empty && (v[i].oldest_ns == 0 || oldest < v[i].oldest_ns)) v[i].oldest_ns = oldest;
}

static bool has_stream(const struct wal *w, id128 stream)
{
    for (size_t i = 0; i < w->stream_count; i++) {
        if (id128_eq(w->streams[i].id, stream)) return true;
    }
    return false;
}

// Streams of which only the place where the log is kept tells, or, if `out` is NULL, their number.
static size_t put_unfinished(const struct wal *w, struct wal_served *out)
{
    struct wal_served s;
    size_t n = 0;
    for (size_t i = 0; w->home->unfinished && w->home->unfinished(w, i, &s); i++) {
        if (has_stream(w, s.stream)) continue;
        if (out) out[n] = s;
        n++;
    }
    return n;
}

// A stream whose end is not written yet counts as held, also if no cut of it is in the tables.
static void hold_unfinished(const struct wal *w, struct wal_served *v, size_t n)
{
    struct wal_served s;
    for (size_t i = 0; w->home->unfinished && w->home->unfinished(w, i, &s); i++) {
        for (size_t k = 0; k < n; k++) {
            if (!id128_eq(v[k].stream, s.stream)) continue;
            v[k].held = true;
            v[k].former = s.former;
        }
    }
}

size_t wal_serves(struct wal *w, struct wal_served *out, size_t max)
{
    lock_take(&w->lock);
    size_t before = put_unfinished(w, NULL);
    size_t n = before + w->stream_count + has_plan(w);
    if (n > max) {
        lock_give(&w->lock);
        return n;
    }
    (void)put_unfinished(w, out);
    bool open = w->state == WAL_OPEN;
    for (size_t i = 0; i < w->stream_count; i++) {
        bool last = open && i + 1 == w->stream_count;
        out[before + i] = (struct wal_served){.stream = w->streams[i].id,
                                              .open = last,
                                              .opened_boot_ns = last ? w->opened_boot_ns : 0};
    }
    if (has_plan(w)) out[n - 1] = (struct wal_served){.stream = w->planned, .planned = true};
    for (size_t i = 0; i < w->cut_count; i++)
        look_at_cut(w, w->cuts[i], out, n);
    hold_unfinished(w, out, n);
    lock_give(&w->lock);
    return n;
}

id128 wal_begun(struct wal *w)
{
    lock_take(&w->lock);
    id128 begun = w->begun;
    lock_give(&w->lock);
    return begun;
}
