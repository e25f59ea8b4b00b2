// SPDX-License-Identifier: Apache-2.0
//
// wal_cut.c - cuts of the log: made with their first entry, closed by size or age, dropped whole.
//
//     1. The first append that finds no open cut makes one: family, then cut (wal_need_cut). If
//        another stream was offered, the cut is the first of that one (wal_stream.c).
//     2. Appends fill it. The one that finds it full or old, the tick or a flush closes it: row and
//        entries go to tables (wal_close_cut). The next append makes the next cut.
//     3. Once its rows have left the head, the family is dropped, then the row (wal_drop).
//
// What may fail on the way:
//
//     memory, family (1), row (2)   the log is BROKEN and is opened again
//     the family (3)                the cut stays, and its owner repeats the drop
//     the row (3)                   the cut is gone, and its row means nothing; the log is BROKEN,
//                                   because the next push would meet the same fault of the disk
//     the process ends in 1         the next start finds an empty family and drops it
//     the process ends in 3         the next start finds a row without a family: it means nothing
//     the wall clock jumps          ages go by the boot clock; wall times of own cuts are rewritten
#include "base/fault.h"
#include "ingester/log/wal_int.h"
#include "sys/clock.h"
#include "sys/log.h"

#include <inttypes.h>

// On disk each cut is a column family, and RocksDB takes longer to make one the more there are: 5
// ms at 100, 50 ms at 500, 400 ms at 2000, while all appends wait. With more cuts than this, age
// alone closes a cut only after keep_ns / CUTS_MANY, so that at most as many again come to be
// before the oldest go. In a store cuts cost nothing of that, and those of an adopted stream may be
// many.
#define CUTS_MANY 128

// How long a clock may be wrong after a start. A machine without a battery-backed clock boots in
// 1970, or at the date of its firmware, until it is told the time.
#define FOUND_STAYS_NS (3600 * NS_PER_S)

// A clock that NTP only steers moves less between two ticks; more than this is a jump.
#define WALL_SLEW_NS NS_PER_S

// ---- tables. A few hundred bytes for each cut, which count against no budget.

struct cut *cut_new(id128 stream, uint64_t number, err *e)
{
    struct cut *c = mem_alloc(NULL, sizeof *c, e);
    if (!c) return NULL;
    c->stream = stream;
    c->number = number;
    lock_init(&c->lock, LOCK_CUT);
    return c;
}

void cut_free(struct cut *c)
{
    if (!c) return;
    assert(c->pins == 0);
    db_family_release(c->family);
    lock_release(&c->lock);
    mem_free(NULL, c, sizeof *c);
}

bool wal_make_room(struct wal *w, err *e)
{
    lock_take(&w->lock);
    bool ok =
        mem_grow(NULL, (void *)&w->cuts, &w->cut_cap, w->cut_count + 1, sizeof(struct cut *), e) &&
        mem_grow(NULL, &w->streams, &w->stream_cap, w->stream_count + 1, sizeof *w->streams, e);
    lock_give(&w->lock);
    return ok;
}

void wal_add_cut(struct wal *w, struct cut *c)
{
    assert(w->cut_count < w->cut_cap);
    assert(lock_is_mine(&w->lock));
    w->cuts[w->cut_count++] = c;
}

void wal_add_stream(struct wal *w, const struct wal_stream *s)
{
    assert(w->stream_count < w->stream_cap);
    assert(lock_is_mine(&w->lock));
    w->streams[w->stream_count++] = *s;
}

// ---- closing and opening, with the lead

bool wal_put_row(struct wal *w, rocksdb_writebatch_t *batch, const struct cut *c, struct buf *value,
                 err *e)
{
    char key[META_KEY];
    buf_clear(value);
    meta_cut_key(c->stream, c->number, key);
    meta_cut_value(c, value);
    if (!buf_ok(value, e)) return false;
    meta_put(&w->db, batch, key, buf_view(value));
    return true;
}

bool wal_close_cut(struct wal *w, err *e)
{
    struct cut *c = w->open;
    assert(w->led);
    if (!c) return true;
    assert(!c->closed);
    if (FAULT_ERRNO("wal.cut.close")) return err_set(e, ERR_UNAVAILABLE, "log: close cut: %m");
    lock_take(&w->lock);
    assert(c->last_seq > 0 || !c->first_seq);
    c->closed = true;
    w->open = NULL;
    lock_give(&w->lock);
    return w->home->close_cut(w, c, e);
}

// Each cut brings the symbols of its services once. If these counted like rows, a cut of many
// services would be full as soon as it had named them, and so would the next one: a log of names.
// An empty cut is never full, or an entry above the limit would find no cut at all.
static bool is_full(const struct wal *w, size_t bytes)
{
    const struct cut *c = w->open;
    uint64_t most = w->options.cut_bytes;
    if (c->bytes == 0) return false;
    return c->bytes - c->news_bytes + bytes > most || (c->bytes + bytes) / CUT_NEWS_TIMES > most;
}

static bool wal_has_many_cuts(struct wal *w)
{
    lock_take(&w->lock);
    bool many = !wal_is_remote(w) && w->cut_count > CUTS_MANY;
    lock_give(&w->lock);
    return many;
}

static bool is_due(struct wal *w, size_t bytes)
{
    const struct cut *c = w->open;
    int64_t age = w->options.cut_age_ns;
    assert(w->led && !c->closed);
    if (c->last_seq == 0) return false;
    if (wal_has_many_cuts(w)) age = MAX(age, w->options.keep_ns / CUTS_MANY);
    if (is_full(w, bytes)) return true;
    // By the boot clock: a wall clock that is set back must not keep a cut open for years.
    return w->options.boot_ns() - c->opened_boot_ns >= age;
}

// The order matters. Memory comes first, because without it nothing must be made. The family comes
// before the cut is in the tables, because a cut without a family cannot be written to. If the
// process ends in between, a start finds an empty family and drops it (wal_life.c).
bool wal_need_cut(struct wal *w, size_t bytes, err *e)
{
    assert(w->led && w->stream_count > 0);
    if (w->open && is_due(w, bytes) && !wal_close_cut(w, e)) return false;
    if (w->open) return true;
    if (!wal_begin_offered(w, e)) return false;
    id128 stream = w->streams[w->stream_count - 1].id;
    if (!wal_make_room(w, e)) return false;
    struct cut *c = cut_new(stream, w->next_cut, e);
    if (!c) return false;
    if (!w->home->make_cut(w, c, e)) {
        cut_free(c);
        return false;
    }
    // Both clocks: ages go by the boot clock, which no other process knows.
    c->opened_wall_ns = w->options.wall_ns();
    c->newest_wall_ns = c->opened_wall_ns;
    c->opened_boot_ns = w->options.boot_ns();
    c->newest_boot_ns = c->opened_boot_ns;
    w->next_cut++;
    wal_next_run(w);
    lock_take(&w->lock);
    wal_add_cut(w, c);
    w->open = c;
    lock_give(&w->lock);
    return true;
}

int64_t wal_wall_ahead(const struct wal *w)
{
    int64_t boot;
    int64_t wall;
    do {
        boot = w->options.boot_ns();
        wall = w->options.wall_ns();
    } while (w->options.boot_ns() - boot >= WALL_SLEW_NS);
    return wall - boot;
}

// When the wall clock was set, rewrites the wall times of this process's own cuts from their boot
// times, so that a later process reads times of the right clock. Cuts that were found keep theirs:
// their boot times were derived from these.
static bool follow_wall_clock(struct wal *w, err *e)
{
    int64_t ahead = wal_wall_ahead(w);
    int64_t jump = ahead - w->wall_ahead_ns;
    assert(w->led);
    w->wall_ahead_ns = ahead;
    if (jump > -WALL_SLEW_NS && jump < WALL_SLEW_NS) return true;
    log_warn(NULL, "clock.jumped", "by_ms=%lld", (long long)(jump / NS_PER_MS));
    lock_take(&w->lock);
    for (size_t i = 0; i < w->cut_count; i++) {
        struct cut *c = w->cuts[i];
        if (c->found_boot_ns) continue;
        c->opened_wall_ns = c->opened_boot_ns + ahead;
        c->newest_wall_ns = c->newest_boot_ns + ahead;
    }
    lock_give(&w->lock);
    return w->home->note_times(w, e);
}

void wal_tick(struct wal *w)
{
    err e = {0};
    wal_take_lead(w);
    if (wal_state(w) == WAL_OPEN) {
        bool ok = follow_wall_clock(w, &e);
        w->home->mark(w);
        if (ok && w->open && is_due(w, 0)) ok = wal_close_cut(w, &e);
        ok = ok && w->home->tick(w, &e);
        if (!ok) wal_break(w, &e);
    }
    wal_give_lead(w);
    if (w->home->tidy) w->home->tidy(w);
}

bool wal_cut_now(struct wal *w, err *e)
{
    lock_take(&w->lock);
    bool broken = w->state == WAL_BROKEN;  // do not wait for the lead: the open has it for long
    if (broken) (void)wal_admits(w, e);
    lock_give(&w->lock);
    // The state may change before the lead comes, so it is asked again below.
    if (broken) return false;
    wal_take_lead(w);
    lock_take(&w->lock);
    bool ok = w->state == WAL_DRAINED || wal_admits(w, e);
    lock_give(&w->lock);
    if (ok && wal_state(w) == WAL_OPEN && w->open && w->open->last_seq > 0) {
        ok = wal_close_cut(w, e);
        if (!ok) wal_break(w, e);
    }
    wal_give_lead(w);
    return ok;
}

// ---- dropping

bool wal_cut_is_past(struct wal *w, const struct cut *c, int64_t keep_ns)
{
    int64_t wall_ns = w->options.wall_ns();
    int64_t boot_ns = w->options.boot_ns();
    lock_take(&w->lock);
    bool recent_ids = c->closed && c->pins == 0 && boot_ns - c->newest_boot_ns > keep_ns;
    if (recent_ids && c->found_boot_ns) {  // two clocks have to agree (wal.h)
        recent_ids = wall_ns - MIN(c->newest_wall_ns, c->found_wall_ns) > keep_ns &&
                     boot_ns - c->found_boot_ns > MIN(keep_ns, FOUND_STAYS_NS);
    }
    lock_give(&w->lock);
    return recent_ids;
}

// The open stream stays without cuts: it is where the next entry goes.
bool wal_forget_cut(struct wal *w, const struct cut *c)
{
    bool others = false;
    size_t kept = 0;
    lock_take(&w->lock);
    for (size_t i = 0; i < w->cut_count; i++) {
        if (w->cuts[i] == c) continue;
        others = others || id128_eq(w->cuts[i]->stream, c->stream);
        w->cuts[kept++] = w->cuts[i];
    }
    w->cut_count = kept;
    w->bytes -= c->bytes;
    bool own = w->state == WAL_OPEN && id128_eq(w->streams[w->stream_count - 1].id, c->stream);
    bool gone = !others && !own;
    for (size_t i = 0; gone && i < w->stream_count; i++) {
        if (!id128_eq(w->streams[i].id, c->stream)) continue;
        memmove(&w->streams[i], &w->streams[i + 1],
                (w->stream_count - i - 1) * sizeof w->streams[0]);
        w->stream_count--;
        break;
    }
    lock_give(&w->lock);
    return gone;
}

bool wal_drop(struct wal *w, struct cut *c, err *e)
{
    assert(c->closed && c->pins == 0);
    wal_take_lead(w);
    lock_take(&w->lock);
    enum wal_state state = w->state;
    bool whole = wal_is_whole(c);
    lock_give(&w->lock);
    bool ok = state == WAL_OPEN || (state == WAL_DRAINED && w->drained_open) ||
              err_set(e, ERR_UNAVAILABLE, "log: no cut is dropped while it is not open");
    if (ok && !whole) {
        ok = err_set(e, ERR_INTERNAL, "log: cut %" PRIu64 " was not read to its end", c->number);
    }
    if (ok && FAULT_ERRNO("wal.cut.drop")) {
        ok = err_set(e, ERR_UNAVAILABLE, "log: drop cut: %m");
    }
    ok = ok && w->home->drop_cut(w, c, e);
    if (ok) {
        id128 stream = c->stream;
        uint64_t number = c->number;
        bool stream_too = wal_forget_cut(w, c);
        cut_free(c);
        w->home->dropped(w, stream, number, stream_too);
    }
    wal_give_lead(w);
    return ok;
}
