// SPDX-License-Identifier: Apache-2.0
//
// wal.c - group commit, and what can be asked of the log. wal.h has the steps of an append; here is
// which function does them:
//
//     1.     wal_append    queues the caller's waiter, and takes the lead if nobody has it
//     2.     take_group    the front of the queue
//     3, 4.  commit        room, cut (wal_need_cut), entries with their news (put_group), one write
//     5.     note_commit   counts and pins; pass_lead
//     6.     finish        wakes each waiter, with success or with the fault of the group
//
// What may fail on the way:
//
//     no room, no memory     commit fails, `broken` is false: the group is refused. News that were
//     (3, 4)                 gathered are lost, so a new run begins (wal_next_run).
//     a new cut, the write   `broken` is true: wal_break puts the open cut in doubt and refuses all
//     (3, 4)                 that wait. The duty thread opens the log again (wal_life.c).
//     a drain meanwhile      Appends in the queue are written, later ones are refused.
//
// A waiter is on the stack of its caller. So nothing of it is touched after its bell was rung.
#include "ingester/log/wal.h"

#include "base/fault.h"
#include "codec/pb.h"
#include "ingester/log/wal_int.h"
#include "ingester/metrics.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/log.h"

#include <stdlib.h>

// Bytes of entries in one write; the rest of the queue is the next leader's. RocksDB copies the
// batch into its own buffers, so a group is in memory twice.
#define GROUP_BYTES_MAX ((size_t)16 << 20)

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

// With so many bytes to spare the disk is asked ten times a second, not for each commit: statvfs
// would cost a call for each group of small pushes.
#define ROOM_AMPLE   ((uint64_t)256 << 20)
#define ROOM_STEP    ((uint64_t)16 << 20)  // bytes of entries until the disk is asked again
#define ROOM_TIME_NS ((uint64_t)(100 * NS_PER_MS))

// Pushes are refused before the disk is full: RocksDB needs the reserve to open the log again.
static bool disk_has_room(struct wal *w, size_t bytes, err *e)
{
    const struct wal_options *o = &w->options;
    uint64_t available = 0;
    if (o->disk_max && w->bytes + bytes > o->disk_max) {
        return err_set(e, ERR_RESOURCE_EXHAUSTED,
                       "the log holds %llu bytes, ingester.log_disk is %llu",
                       (unsigned long long)w->bytes, (unsigned long long)o->disk_max);
    }
    uint64_t now = clock_mono_ns();
    // Believed only for what the last answer left ample room for; others use the disk too.
    assert(w->led);
    if (now < w->room_until_ns && bytes <= w->room_left) {
        w->room_left -= bytes;
        return true;
    }
    w->room_until_ns = 0;
    if (!dir_free_bytes(o->dir, &available, e)) return err_wrap(e, "log");
    if (available >= o->disk_reserve && available - o->disk_reserve >= bytes) {
        if (available - o->disk_reserve - bytes >= ROOM_AMPLE) {
            w->room_until_ns = now + ROOM_TIME_NS;
            w->room_left = ROOM_STEP;
        }
        return true;
    }
    return err_set(e, ERR_RESOURCE_EXHAUSTED,
                   "the disk of the log has %llu bytes free, ingester.disk_reserve is %llu",
                   (unsigned long long)available, (unsigned long long)o->disk_reserve);
}

// Runs are numbered over the whole process, not for each log: a head that remembers a run's number
// may be used with a log that was opened later (tests do that).
void wal_next_run(struct wal *w)
{
    static _Atomic uint64_t runs;
    w->run = atomic_fetch_add_explicit(&runs, 1, memory_order_relaxed) + 1;
}

// Message Entry up to its rows, of which there are n bytes.
static void put_head(struct buf *out, uint64_t seq, const struct cut *c, uint64_t rows_before,
                     str tenant, size_t n)
{
    pb_put_u64_opt(out, 1, seq);
    pb_put_u64_opt(out, 2, c->number);
    pb_put_bytes_opt(out, 3, tenant);
    pb_put_u64(out, 8, rows_before);
    pb_put_varint(out, 9 << 3 | PB_BYTES);
    pb_put_varint(out, n);
}

// A group that is being put into one batch of RocksDB.
struct writing {
    rocksdb_writebatch_t *batch;
    uint64_t seq;   // of the next entry
    uint64_t rows;  // of the cut before that entry
    struct buf head;
    struct buf news;
    size_t news_bytes;
};

// The value of an entry is gathered from three places, so that its rows, nearly all of its bytes,
// are copied only once. The rows come last: what they refer to is in the news before them.
static bool put_entries(struct wal *w, struct writing *x, struct waiter *from, err *e)
{
    for (size_t i = 0; i < from->n; i++) {
        const struct wal_item *item = &from->items[i];
        char key[8];
        const char *keys[] = {key};
        size_t key_size = sizeof key;
        buf_clear(&x->head);
        buf_clear(&x->news);
        if (item->news && !item->news(item->arg, w->run, &x->news, e)) return false;
        if (!buf_ok(&x->news, e)) return false;
        key_print(x->seq, key);
        put_head(&x->head, x->seq, w->open, x->rows, from->tenant, x->news.n + item->rows.n);
        if (!buf_ok(&x->head, e)) return false;
        assert(x->seq >= w->next_seq && w->open->family);
        const char *values[] = {x->head.p, x->news.p, item->rows.p};
        const size_t sizes[] = {x->head.n, x->news.n, item->rows.n};
        rocksdb_writebatch_putv_cf(x->batch, w->open->family, 1, keys, &key_size, 3, values, sizes);
        x->seq++;
        x->rows += item->count;
        x->news_bytes += x->news.n;
        from->bytes += x->news.n;
        from->news_bytes += x->news.n;
    }
    from->place.last_seq = x->seq - 1;
    return true;
}

// The row of the cut in the meta family goes with the first write into the cut: then a cut with
// entries always has a row, and the row is no sooner there than an entry.
static bool put_cut_row(struct wal *w, rocksdb_writebatch_t *batch, err *e)
{
    char key[META_KEY];
    struct buf value;
    buf_init(&value, NULL, 4096);
    meta_cut_key(w->open->stream, w->open->number, key);
    struct cut first = {.opened_wall_ns = w->open->opened_wall_ns,
                        .newest_wall_ns = w->open->newest_wall_ns,
                        .first_seq = w->next_seq};
    meta_cut_value(&first, &value);
    bool ok = buf_ok(&value, e);
    if (ok) meta_put(&w->db, batch, key, buf_view(&value));
    buf_release(&value);
    return ok;
}

// Faults that tests set here look like those of a disk: before the write, and after it landed.
static bool write_synced(struct wal *w, rocksdb_writebatch_t *batch, err *e)
{
    uint64_t began = clock_mono_ns();
    assert(w->led);
    if (FAULT_ERRNO("wal.write.before")) return err_set(e, ERR_UNAVAILABLE, "log: write: %m");
    if (!db_write(&w->db, batch, true, e)) return false;
    if (FAULT_ERRNO("wal.sync.after")) return err_set(e, ERR_UNAVAILABLE, "log: sync: %m");
    metric_observe_ns(&ingester_log_sync, clock_mono_ns() - began);
    return true;
}

// All entries of a group. Their news are known only now, so room on disk for these is asked for
// here. If anything is refused, the run is over: the news that were gathered are marked as brought,
// and will not be written.
static bool put_group(struct wal *w, struct writing *x, struct waiter *group, size_t bytes, err *e)
{
    bool ok = true;
    for (; ok && group; group = group->next)
        ok = put_entries(w, x, group, e);
    ok = ok && (x->news_bytes == 0 || disk_has_room(w, bytes + x->news_bytes, e));
    if (!ok) wal_next_run(w);
    return ok;
}

// Writes a group. If it fails and *broken is false, nothing was written and the log is as it was;
// if *broken is true, nobody knows what is on disk.
static bool commit(struct wal *w, struct waiter *group, size_t bytes, bool *broken, err *e)
{
    assert(w->led && group);
    // RocksDB's copy of the rows is reserved from our memory, as its batch knows no budget.
    if (!disk_has_room(w, bytes, e) || !mem_reserve(w->options.memory, bytes, e)) return false;
    struct writing x = {.batch = rocksdb_writebatch_create()};
    buf_init(&x.head, NULL, SIZE_MAX);
    buf_init(&x.news, w->options.memory, SIZE_MAX);
    bool ok = wal_need_cut(w, bytes, e);
    *broken = !ok;
    x.seq = w->next_seq;  // after that: the cut may be the first one of another stream
    if (ok && w->open->first_seq == 0) ok = put_cut_row(w, x.batch, e);
    if (ok) x.rows = w->open->rows;
    ok = ok && put_group(w, &x, group, bytes, e);
    if (ok) {
        ok = write_synced(w, x.batch, e);
        *broken = !ok;
    }
    rocksdb_writebatch_destroy(x.batch);
    buf_release(&x.head);
    buf_release(&x.news);
    // RocksDB's copies are in its write buffers now, which were reserved at the open.
    mem_unreserve(w->options.memory, bytes);
    return ok;
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
        finish(x, false, &refused);
    }
    w->last = NULL;
}

void wal_break(struct wal *w, const err *fault)
{
    char text[LOG_QUOTE_MAX];
    log_error(NULL, "log.failed", "fault=%s", log_quote(text, str_of(fault->msg)));
    metric_add(&ingester_log_failures, 1);
    wal_mark(w);  // now, as a later open knows the cut only as far as this mark and the disk tell
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
    while (last->next && *bytes + last->next->bytes <= GROUP_BYTES_MAX) {
        last = last->next;
        *bytes += last->bytes;
    }
    w->first = last->next;
    if (!w->first) w->last = NULL;
    last->next = NULL;
    return group;
}

// Runs with w->lock and gives it back. The next leader is woken before the group, so that its write
// begins while this group's callers are still being woken.
static void lead(struct wal *w)
{
    size_t bytes = 0;
    struct waiter *group = take_group(w, &bytes);
    err fault = {0};
    bool broken = false;
    lock_give(&w->lock);
    bool ok = commit(w, group, bytes, &broken, &fault);
    if (broken) wal_break(w, &fault);
    lock_take(&w->lock);
    assert(w->led);
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

bool wal_append(struct wal *w, str tenant, const struct wal_item *items, size_t n,
                struct wal_place *place, err *e)
{
    assert(n > 0 && items && place);
    struct waiter me = {.tenant = tenant, .items = items, .n = n, .e = e};
    for (size_t i = 0; i < n; i++)
        me.bytes += tenant.n + ENTRY_OVERHEAD + items[i].rows.n;
    lock_take(&w->lock);
    if (!wal_admits(w, e)) {
        lock_give(&w->lock);
        return false;
    }
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

size_t wal_list_cuts(struct wal *w, struct wal_cut *out, size_t max)
{
    lock_take(&w->lock);
    size_t n = w->cut_count;
    for (size_t i = 0; i < MIN(n, max); i++) {
        struct cut *c = w->cuts[i];
        out[i] = (struct wal_cut){.cut = c,
                                  .stream = c->stream,
                                  .number = c->number,
                                  .bytes = c->bytes,
                                  .entries = c->first_seq ? c->last_seq - c->first_seq + 1 : 0,
                                  .opened_wall_ns = c->opened_wall_ns,
                                  .newest_boot_ns = c->newest_boot_ns,
                                  .closed = c->closed,
                                  .ready = wal_is_whole(c),
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
            (*refs)[(*n)++] = (struct wal_ref){c->stream, c->number, hours[i], 0};
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
    for (size_t i = 0; i < w->cut_count; i++) {
        c.open_cuts += !w->cuts[i]->closed;
        c.closed_cuts += w->cuts[i]->closed;
    }
    c.open_streams = w->state == WAL_OPEN;
    c.closed_streams = w->stream_count - c.open_streams;
    lock_give(&w->lock);
    return c;
}
