// SPDX-License-Identifier: Apache-2.0
//
// wal_disk.c - the home of a log on the ingester's own disk: room there, and one synced write for a
// group. RocksDB is behind wal_db.c.
#include "base/fault.h"
#include "codec/pb.h"
#include "ingester/log/wal_int.h"
#include "ingester/metrics.h"
#include "sys/clock.h"
#include "sys/file.h"

// Bytes of entries in one write; the rest of the queue is the next leader's. RocksDB copies the
// batch into its own buffers, so a group is in memory twice.
#define GROUP_BYTES_MAX ((size_t)16 << 20)

// ---- room

// With so many bytes to spare the disk is asked ten times a second, not for each commit: statvfs
// would cost a call for each group of small pushes.
#define ROOM_AMPLE   ((uint64_t)256 << 20)
#define ROOM_STEP    ((uint64_t)16 << 20)  // bytes of entries until the disk is asked again
#define ROOM_TIME_NS ((uint64_t)(100 * NS_PER_MS))

// Pushes are refused before the disk is full: RocksDB needs the reserve to open the log again.
static bool disk_has_room(struct wal *w, size_t bytes, bool *broken, err *e)
{
    const struct wal_options *o = &w->options;
    uint64_t available = 0;
    *broken = false;
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
    if (!dir_free_bytes(o->dir, &available, e)) {
        *broken = true;
        return err_wrap(e, "log");
    }
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

// ---- a group

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
static bool put_group(struct wal *w, struct writing *x, struct waiter *group, size_t bytes,
                      bool *broken, err *e)
{
    bool ok = true;
    for (; ok && group; group = group->next)
        ok = put_entries(w, x, group, e);
    ok = ok && (x->news_bytes == 0 || disk_has_room(w, bytes + x->news_bytes, broken, e));
    if (!ok) wal_next_run(w);
    return ok;
}

static bool disk_write(struct wal *w, struct waiter *group, size_t bytes, struct waiter **rest,
                       bool *broken, err *e)
{
    assert(!*rest);  // all of the group is one write
    // RocksDB's copy of the rows is reserved from our memory, as its batch knows no budget.
    if (!mem_reserve(w->options.memory, bytes, e)) return false;
    struct writing x = {.batch = rocksdb_writebatch_create(), .seq = w->next_seq};
    buf_init(&x.head, NULL, SIZE_MAX);
    buf_init(&x.news, w->options.memory, SIZE_MAX);
    x.rows = w->open->rows;
    bool ok = w->open->first_seq > 0 || put_cut_row(w, x.batch, e);
    ok = ok && put_group(w, &x, group, bytes, broken, e);
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

// ---- streams

static bool put_stream(struct wal *w, rocksdb_writebatch_t *batch, const struct wal_stream *s,
                       err *e)
{
    char key[META_KEY];
    struct buf value;
    buf_init(&value, NULL, 4096);
    meta_stream_key(s->id, key);
    meta_stream_value(s, w->options.owner, &value);
    bool ok = buf_ok(&value, e);
    if (ok) meta_put(&w->db, batch, key, buf_view(&value));
    buf_release(&value);
    return ok;
}

static bool disk_plan(struct wal *w, id128 stream, err *e)
{
    const struct wal_stream s = {.id = stream, .state = "planned"};
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    bool ok = put_stream(w, batch, &s, e) && db_write(&w->db, batch, true, e);
    rocksdb_writebatch_destroy(batch);
    return ok;
}

static bool drop_empty(struct wal *w, err *e)
{
    for (size_t i = 0; i < w->cut_count; i++) {
        const struct cut *c = w->cuts[i];
        if (c->last_seq == 0 && c->family && !db_family_drop(&w->db, c->family, e)) return false;
    }
    return true;
}

// The write is synced: the row of the cut that closed before becomes durable with it. Nothing else
// tells where the last cut of a stream ends (wal_damage.c).
static bool disk_go_over(struct wal *w, const struct wal_stream *own, bool held, err *e)
{
    char key[META_KEY];
    assert(w->led && w->stream_count > 0);
    if (!drop_empty(w, e)) return false;
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    if (!held) {
        meta_stream_key(w->streams[w->stream_count - 1].id, key);
        rocksdb_writebatch_delete_cf(batch, w->db.meta, key, strlen(key));
    }
    disk_mark_end(w);
    bool ok = put_stream(w, batch, own, e) && db_write(&w->db, batch, true, e);
    if (ok && FAULT_ERRNO("stream.begin")) ok = err_set(e, ERR_UNAVAILABLE, "log: begin: %m");
    rocksdb_writebatch_destroy(batch);
    return ok;
}

// ---- cuts

static bool disk_make_cut(struct wal *w, struct cut *c, err *e)
{
    bool ok = !FAULT_ERRNO("wal.cut.open") || err_set(e, ERR_UNAVAILABLE, "log: open cut: %m");
    if (!ok || !db_family_make(&w->db, c->stream, c->number, &c->family, e)) return false;
    FAULT("wal.cut.open.after");
    return true;
}

static bool disk_close_cut(struct wal *w, struct cut *c, err *e)
{
    struct buf value;
    buf_init(&value, NULL, 4096);
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    // The row is not synced. If a crash loses it, the entries tell where the cut ends; else the
    // next synced write takes it to the disk. The flush moves the cut's entries into a table, which
    // lets RocksDB delete the write-ahead files that have them.
    bool ok = wal_put_row(w, batch, c, &value, e) && db_write(&w->db, batch, false, e) &&
              db_family_flush(&w->db, c->family, e);
    if (ok && FAULT_ERRNO("wal.cut.close.after")) {
        ok = err_set(e, ERR_UNAVAILABLE, "log: flush: %m");
    }
    rocksdb_writebatch_destroy(batch);
    buf_release(&value);
    return ok;
}

static bool disk_note_times(struct wal *w, err *e)
{
    struct buf value;
    buf_init(&value, NULL, 4096);
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    bool ok = true;
    lock_take(&w->lock);
    for (size_t i = 0; ok && i < w->cut_count; i++) {
        const struct cut *c = w->cuts[i];
        if (!c->found_boot_ns && c->closed) ok = wal_put_row(w, batch, c, &value, e);
    }
    lock_give(&w->lock);
    ok = ok && db_write(&w->db, batch, false, e);
    rocksdb_writebatch_destroy(batch);
    buf_release(&value);
    return ok;
}

// RocksDB deletes a write-ahead file once no family has rows that are only there. A family of
// entries is flushed when its cut closes; the meta family never is by itself, as its rows are few,
// and so it would keep each file since its last flush, with all entries of cuts that are long gone.
bool disk_erase_rest(struct wal *w, bool wait, err *e)
{
    assert(w->led);
    if (FAULT_ERRNO("wal.erase")) return err_set(e, ERR_UNAVAILABLE, "log: flush: %m");
    if (w->open && w->open->last_seq > 0 && !db_family_flush(&w->db, w->open->family, e))
        return false;
    if (!db_meta_flush(&w->db, wait, e)) return false;
    w->rest_boot_ns = 0;
    return true;
}

static bool disk_tick(struct wal *w, err *e)
{
    int64_t rest_ns = w->rest_boot_ns ? w->options.boot_ns() - w->rest_boot_ns : 0;
    return rest_ns < WAL_REST_NS || disk_erase_rest(w, false, e);
}

// The family is dropped before its row. A crash in between leaves a row without a family, which
// means nothing. The other order would leave a family without a row, whose entries the next start
// would read back into the head.
static bool disk_drop_cut(struct wal *w, struct cut *c, err *e)
{
    if (c->family && !db_family_drop(&w->db, c->family, e)) return false;
    FAULT("wal.cut.drop.after");
    return true;
}

// If this write fails, the cut is gone all the same and its row is harmless; but the log cannot be
// written to, and better this shows now than with the next push.
static void disk_dropped(struct wal *w, id128 stream, uint64_t number, bool stream_too)
{
    char key[META_KEY];
    err fault = {0};
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    meta_cut_key(stream, number, key);
    rocksdb_writebatch_delete_cf(batch, w->db.meta, key, strlen(key));
    if (stream_too) {
        meta_stream_key(stream, key);
        rocksdb_writebatch_delete_cf(batch, w->db.meta, key, strlen(key));
    }
    if (!db_write(&w->db, batch, false, &fault)) wal_break(w, &fault);
    rocksdb_writebatch_destroy(batch);
    if (!w->rest_boot_ns) w->rest_boot_ns = w->options.boot_ns();
}

const struct wal_home wal_on_disk = {
    .group_bytes = GROUP_BYTES_MAX,
    .load = disk_load,
    .unload = disk_unload,
    .has_room = disk_has_room,
    .begin = disk_begin,
    .plan = disk_plan,
    .go_over = disk_go_over,
    .write = disk_write,
    .mark = disk_mark,
    .make_cut = disk_make_cut,
    .close_cut = disk_close_cut,
    .note_times = disk_note_times,
    .note_loss = meta_put_loss,
    .tick = disk_tick,
    .drop_cut = disk_drop_cut,
    .dropped = disk_dropped,
    .scan = disk_scan,
};
