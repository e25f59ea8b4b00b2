// SPDX-License-Identifier: Apache-2.0
//
// wal_life.c - the log from its open to its close: what is found on disk, new streams, the drain.
//
// An open, the first one and each after a failed write:
//
//     1. The database is opened with all its families (wal_db.c).
//     2. Each family becomes a cut, or is matched with the cut that the process has already. How
//        many rows it has is asked of its last entry, where its meta row does not tell.
//     3. At the first open the seqs that each cut should have are worked out (wal_damage.c).
//     4. Cuts and streams of which nothing is left are taken out; the meta rows of all others are
//        written anew.
//
// Then the owner scans the cuts and calls wal_begin, which makes a new stream and writes into the
// rows of cuts how many rows of profiles they have.
//
// What may fail on the way:
//
//     the database (1)    It cannot be opened, or a later open finds no database at all. A first
//                         open then ends the start of the process. A later one leaves the log
//                         BROKEN, and the next one starts from step 1.
//     a foreign log (2)   A later open finds no family of a cut that the process has. It fails, and
//                         nothing of that database comes into the tables.
//     damaged files (1)   What can be read is opened; wal_damage.c counts the rest.
//     a damaged row (2)   The cut is used without its meta row.
//     memory (2), a       The open fails. Some cuts may be in the tables by then; the next open
//     write (4)           matches them.
//     the new stream      wal_begin leaves the log BROKEN, and it is opened again.
#include "base/fault.h"
#include "ingester/log/wal_int.h"
#include "ingester/log/wal_object_int.h"
#include "sys/clock.h"
#include "sys/file.h"
#include "sys/log.h"

#include <inttypes.h>

// ---- what is found on disk

static struct cut *find_cut(struct wal *w, id128 stream, uint64_t number)
{
    for (size_t i = 0; i < w->cut_count; i++) {
        struct cut *c = w->cuts[i];
        if (c->number == number && id128_eq(c->stream, stream)) return c;
    }
    return NULL;
}

void wal_note_seq(struct wal *w, id128 stream, uint64_t seq)
{
    assert(lock_is_mine(&w->lock));
    size_t i = 0;
    while (i < w->stream_count && !id128_eq(w->streams[i].id, stream))
        i++;
    if (i == w->stream_count)
        wal_add_stream(w, &(struct wal_stream){.id = stream, .state = "unchecked"});
    w->streams[i].highest_seq = MAX(w->streams[i].highest_seq, seq);
}

static void tell_row(const struct cut *c, const err *fault)
{
    char stream[ULID_TEXT];
    char text[LOG_QUOTE_MAX];
    ulid_print(c->stream, stream);
    log_error(NULL, "log.row_damaged", "stream=%s cut=%" PRIu64 " fault=%s then=\"%s\"", stream,
              c->number, log_quote(text, str_of(fault->msg)), "its entries tell what it has");
}

// Reads the meta row of a cut that an earlier process made. A cut that was open when that process
// ended is closed now. Its row does not tell when its last entry came, so now is taken: the cut is
// kept too long rather than too short. If the row is damaged, that is logged, and the cut is used
// without it.
static bool read_cut_row(struct wal *w, struct cut *c, bool *found, err *e)
{
    char key[META_KEY];
    err fault = {0};
    *found = false;
    struct buf value;
    buf_init(&value, NULL, 4096);
    meta_cut_key(c->stream, c->number, key);
    c->rows = ROWS_UNKNOWN;
    bool ok = db_meta_get(&w->db, str_of(key), &value, found, &fault) &&
              (!*found || meta_cut_read(buf_view(&value), c, &fault));
    buf_release(&value);
    if (!ok && fault.code != ERR_DATA_LOSS && fault.code != ERR_INVALID_ARGUMENT) {
        *e = fault;
        return false;
    }
    if (!ok) tell_row(c, &fault);
    int64_t now = w->options.wall_ns();
    int64_t began = (int64_t)uuid_ms(c->stream) * NS_PER_MS;
    if (!c->closed) {
        c->closed = true;
        c->last_seq = 0;
        c->rows = ROWS_UNKNOWN;
        c->bytes = 0;
        if (c->opened_wall_ns == 0) c->opened_wall_ns = now;
        c->newest_wall_ns = MAX(now, MAX(c->opened_wall_ns, c->newest_wall_ns));
    }
    // No entry is older than its stream, whose name has the time of its beginning. That time is
    // believed unless it lies in the future, as it may where the clock was set back (next_stream).
    if (began <= now) c->newest_wall_ns = MAX(c->newest_wall_ns, began);
    c->found_wall_ns = now;
    c->found_boot_ns = w->options.boot_ns();
    c->newest_boot_ns = c->found_boot_ns - MAX(now - c->newest_wall_ns, 0);
    return true;
}

// Adds a cut that an earlier process made. Takes c.
//
// An empty family is dropped only if nothing was ever acknowledged in it:
//
//     without a row, the last one of its stream    it was made just before the process ended
//     with a row that says it has no entries       its first write failed
//
// Every other empty family lost its entries. It stays a cut, so that the loss is counted once it is
// known what each cut should hold (wal_damage.c).
static bool adopt_found(struct wal *w, struct cut *c, const struct db_family *f, bool is_last,
                        err *e)
{
    uint64_t first = 0;
    uint64_t last = 0;
    bool has_row = false;
    assert(c->family == f->handle);
    bool ok = db_bounds(&w->db, f, &first, &last, e) && read_cut_row(w, c, &has_row, e);
    is_last = is_last && !wal_is_marked(w, c->stream, c->number);
    bool empty = has_row ? c->last_seq == 0 && c->rows == 0 : is_last;
    if (ok && first == 0 && empty) {
        FAULT("wal.family.drop");
        ok = db_family_drop(&w->db, c->family, e);
        cut_free(c);
        return ok;
    }
    if (!ok) {
        cut_free(c);
        return false;
    }
    if (first && (c->first_seq == 0 || first < c->first_seq)) c->first_seq = first;
    c->last_seq = MAX(last, c->last_seq);
    // This open may end before the cut is read, and damage may take its end later.
    if (last && last == c->last_seq && c->rows == ROWS_UNKNOWN) c->rows = wal_read_rows(w, c, last);
    lock_take(&w->lock);
    wal_add_cut(w, c);
    w->bytes += c->bytes;
    wal_note_seq(w, c->stream, c->last_seq);
    lock_give(&w->lock);
    return true;
}

// Matches a family with a cut that this process has in memory, after a failed write. A cut whose
// first write failed has no entries; its family is dropped and tidy takes it out.
static bool adopt_known(struct wal *w, struct cut *c, const struct db_family *f, err *e)
{
    uint64_t first = 0;
    uint64_t last = 0;
    if (!db_bounds(&w->db, f, &first, &last, e)) return false;
    if (last < c->last_seq) {  // on disk only: the head still has these entries
        log_error(NULL, "log.lost", "cut=%" PRIu64 " found_seq=%" PRIu64 " last_seq=%" PRIu64,
                  c->number, last, c->last_seq);
    }
    assert(!c->pins || c->last_seq > 0);
    if (last == 0 && c->last_seq == 0) {
        if (!db_family_drop(&w->db, c->family, e)) return false;
        db_family_release(c->family);
        c->family = NULL;
        return true;
    }
    // A failed write is there. As for a cut that was found: damage may come before it is read.
    uint64_t rows = last > c->last_seq ? wal_read_rows(w, c, last) : c->rows;
    lock_take(&w->lock);
    if (c->first_seq == 0) c->first_seq = first;
    c->rows = rows;
    c->last_seq = MAX(last, c->last_seq);
    wal_note_seq(w, c->stream, c->last_seq);
    lock_give(&w->lock);
    return true;
}

// Takes the family's handle, on failure too.
static bool adopt_family(struct wal *w, const struct db_family *f, bool is_last, err *e)
{
    struct cut *known = find_cut(w, f->stream, f->number);
    struct cut *c = known;
    if (!wal_make_room(w, e) || (!known && !(c = cut_new(f->stream, f->number, e)))) {
        db_family_release(f->handle);
        return false;
    }
    assert(!known || !known->family);  // unload released it
    c->family = f->handle;
    return known ? adopt_known(w, c, f, e) : adopt_found(w, c, f, is_last, e);
}

// Takes out cuts that are not on disk and never had an acknowledged entry, and streams without
// cuts. The streams that remain have ended. A cut that the head has dropped but the log has not
// stays, even without a family, so that its drop can be repeated.
static void tidy(struct wal *w, rocksdb_writebatch_t *batch)
{
    char key[META_KEY];
    size_t kept = 0;
    lock_take(&w->lock);
    for (size_t i = 0; i < w->cut_count; i++) {
        struct cut *c = w->cuts[i];
        if (c->family || atomic_load_explicit(&c->dropped, memory_order_relaxed)) {
            w->cuts[kept++] = c;
        } else {
            assert(c->last_seq == 0 && c->pins == 0);
            cut_free(c);
        }
    }
    w->cut_count = kept;
    kept = 0;
    for (size_t i = 0; i < w->stream_count; i++) {
        struct wal_stream s = w->streams[i];
        bool held = false;
        for (size_t k = 0; k < w->cut_count; k++)
            held = held || id128_eq(w->cuts[k]->stream, s.id);
        s.state = "unchecked";
        meta_stream_key(s.id, key);
        if (held) {
            w->streams[kept++] = s;
        } else {
            rocksdb_writebatch_delete_cf(batch, w->db.meta, key, strlen(key));
        }
    }
    w->stream_count = kept;
    lock_give(&w->lock);
}

static bool put_rows(struct wal *w, rocksdb_writebatch_t *batch, struct buf *value, err *e)
{
    for (size_t i = 0; i < w->cut_count; i++) {
        if (!wal_put_row(w, batch, w->cuts[i], value, e)) return false;
    }
    return true;
}

// Takes out what is not held any more, and writes the meta rows of all streams and cuts that are.
static bool write_meta(struct wal *w, err *e)
{
    char key[META_KEY];
    struct buf value;
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    buf_init(&value, NULL, 4096);
    tidy(w, batch);
    bool ok = true;
    for (size_t i = 0; ok && i < w->stream_count; i++) {
        buf_clear(&value);
        meta_stream_key(w->streams[i].id, key);
        meta_stream_value(&w->streams[i], w->options.owner, &value);
        ok = buf_ok(&value, e);
        if (ok) meta_put(&w->db, batch, key, buf_view(&value));
    }
    ok = ok && put_rows(w, batch, &value, e);
    if (ok && FAULT_ERRNO("wal.meta")) ok = err_set(e, ERR_UNAVAILABLE, "log: meta rows: %m");
    ok = ok && db_write(&w->db, batch, true, e);
    FAULT("wal.meta.after");
    rocksdb_writebatch_destroy(batch);
    buf_release(&value);
    return ok;
}

static bool has_family(const struct cut *c, const struct db_family *v, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (v[i].number == c->number && id128_eq(v[i].stream, c->stream)) return true;
    }
    return false;
}

// Whether the database has a family for every cut in memory that must have one. If not, another
// directory is in the place of this log's, and nothing of it must come into the tables.
static bool has_all_cuts(struct wal *w, const struct db_family *v, size_t n, err *e)
{
    const struct cut *lacking = NULL;
    lock_take(&w->lock);
    for (size_t i = 0; i < w->cut_count && !lacking; i++) {
        struct cut *c = w->cuts[i];
        bool dropped = atomic_load_explicit(&c->dropped, memory_order_relaxed);
        if (c->last_seq > 0 && !dropped && !has_family(c, v, n)) lacking = c;
    }
    lock_give(&w->lock);
    return !lacking || err_set(e, ERR_UNAVAILABLE,
                               "log: the database in %s is not the one that this process wrote: it "
                               "lacks cut %" PRIu64 "; was another directory mounted? Put the "
                               "right one back",
                               w->options.dir, lacking->number);
}

// Opens the database and makes the tables of cuts and streams agree with it. On failure the tables
// may have some of the cuts; they are matched at the next try.
bool disk_load(struct wal *w, bool first, err *e)
{
    struct db_family *families = NULL;
    size_t n = 0;
    if (first) wal_find_mark(w);
    if (!db_open(&w->db, w->options.dir, w->options.buffers, first, &families, &n, e)) return false;
    // Before anything is taken in: a foreign log must leave no trace in the tables.
    bool ok = has_all_cuts(w, families, n, e);
    // After a failed write memory knows more of the streams.
    ok = ok && (w->stream_count > 0 || meta_streams(w, e));
    for (size_t i = 0; i < n; i++) {
        if (ok) {  // families are in order of stream
            bool is_last = i + 1 == n || !id128_eq(families[i + 1].stream, families[i].stream);
            ok = adopt_family(w, &families[i], is_last, e);
        } else {
            db_family_release(families[i].handle);
        }
    }
    mem_free(NULL, families, n * sizeof *families);
    if (ok && first) wal_expect(w);
    ok = ok && (!first || meta_losses(w, e));
    return ok && write_meta(w, e);
}

void disk_unload(struct wal *w)
{
    for (size_t i = 0; i < w->cut_count; i++) {
        db_family_release(w->cuts[i]->family);
        w->cuts[i]->family = NULL;
    }
    // After the handles of all families (wal_int.h).
    db_close(&w->db);
}

// ---- life

struct wal *wal_open(const struct wal_options *o, err *e)
{
    assert(o->dir && o->dir[0]);
    if (!dir_make(o->dir, e)) return NULL;
    struct wal *w = mem_alloc(NULL, sizeof *w, e);
    if (!w) return NULL;
    w->options = *o;
    w->home = o->store ? &wal_in_store : &wal_on_disk;
    w->group_bytes = w->home->group_bytes;
    if (!w->options.wall_ns) w->options.wall_ns = clock_wall_ns;
    if (!w->options.boot_ns) w->options.boot_ns = clock_boot_ns;
    w->wall_ahead_ns = wal_wall_ahead(w);
    lock_init(&w->lock, LOCK_WAL);
    cond_init(&w->idle);
    cond_init(&w->full);
    // RocksDB's buffers know no budget, so they are reserved as a whole.
    size_t buffers = o->store ? 0 : o->buffers;
    if (mem_reserve(o->memory, buffers, e)) {
        w->reserved = buffers;
        if (w->home->load(w, true, e)) return w;
    }
    wal_close(w);
    return NULL;
}

bool wal_find(struct wal *w, err *e)
{
    return !w->home->find || w->home->find(w, e);
}

// Nobody would do it later: the process may never come back, and its disk stays.
static void erase_rest(struct wal *w)
{
    err e = {0};
    if (!w->drained_open || !w->rest_boot_ns) return;
    w->led = true;
    if (!disk_erase_rest(w, true, &e)) {
        char text[LOG_QUOTE_MAX];
        log_warn(NULL, "log.rest_stays", "fault=%s", log_quote(text, str_of(e.msg)));
    }
    w->led = false;
}

void wal_end(struct wal *w)
{
    if (!w->home->end || !w->drained_open || w->ended) return;
    w->ended = true;
    w->home->end(w);
}

void wal_close(struct wal *w)
{
    if (!w) return;
    assert(!w->led && !w->first);
    erase_rest(w);
    wal_end(w);
    w->home->unload(w);
    objects_free(w);
    for (size_t i = 0; i < w->cut_count; i++)
        cut_free(w->cuts[i]);
    mem_free(NULL, (void *)w->cuts, w->cut_cap * sizeof(struct cut *));
    mem_free(NULL, w->streams, w->stream_cap * sizeof *w->streams);
    mem_unreserve(w->options.memory, w->reserved);
    cond_release(&w->idle);
    cond_release(&w->full);
    lock_release(&w->lock);
    mem_free(NULL, w, sizeof *w);
}

bool disk_begin(struct wal *w, const struct wal_stream *own, err *e)
{
    char key[META_KEY];
    struct buf value;
    buf_init(&value, NULL, 4096);
    rocksdb_writebatch_t *batch = rocksdb_writebatch_create();
    meta_stream_key(own->id, key);
    meta_stream_value(own, w->options.owner, &value);
    meta_put(&w->db, batch, key, buf_view(&value));
    FAULT("wal.begin.before");
    // The scans have told how many rows the cuts have that were open, or in doubt. If damage takes
    // the end of such a cut later, its row is all that knows.
    bool ok =
        buf_ok(&value, e) && put_rows(w, batch, &value, e) && db_write(&w->db, batch, true, e);
    if (ok && FAULT_ERRNO("wal.begin")) ok = err_set(e, ERR_UNAVAILABLE, "log: begin: %m");
    rocksdb_writebatch_destroy(batch);
    buf_release(&value);
    return ok;
}

void wal_enter_stream(struct wal *w, const struct wal_stream *own)
{
    assert(lock_is_mine(&w->lock));
    // All that was acknowledged in the old streams is here: nobody but the owner of this directory
    // writes their segments.
    for (size_t i = 0; i < w->stream_count; i++)
        w->streams[i].state = "sealed-owner";
    wal_add_stream(w, own);
    w->next_seq = 1;
    w->next_cut = 1;
    w->opened_boot_ns = w->options.boot_ns();
}

bool wal_begin(struct wal *w, err *e)
{
    lock_take(&w->lock);
    struct wal_stream own = {.id = wal_take_plan(w), .state = "open"};
    lock_give(&w->lock);
    assert(wal_state(w) == WAL_RECOVERED);
    // No lead is taken: the log is not OPEN, so nobody else writes or closes cuts.
    if (!wal_make_room(w, e) || !w->home->begin(w, &own, e)) {
        wal_break(w, e);
        return false;
    }
    w->home->mark(w);
    lock_take(&w->lock);
    assert(!w->open && !w->first);
    assert(w->state == WAL_RECOVERED);  // the duty thread ends before a drain
    wal_enter_stream(w, &own);
    w->begun = own.id;
    w->state = WAL_OPEN;
    lock_give(&w->lock);
    return true;
}

bool wal_recover(struct wal *w, err *e)
{
    // The handles of cuts are gone for a while. No cut is closed or dropped meanwhile, because both
    // need the lead.
    wal_take_lead(w);
    assert(wal_state(w) == WAL_BROKEN);
    w->home->unload(w);
    lock_take(&w->lock);
    // Its stream has ended: the next append begins a cut of the new stream.
    if (w->open) w->open->closed = true;
    w->open = NULL;
    lock_give(&w->lock);
    FAULT("wal.recover");
    bool ok = w->home->load(w, false, e);
    lock_take(&w->lock);
    if (ok && w->state == WAL_BROKEN) w->state = WAL_RECOVERED;
    if (!ok) w->fault = *e;  // of more use to those who push than the write that failed first
    // The doubt is over: what a cut has beyond its read_seq counts as unread from now on.
    for (size_t i = 0; ok && i < w->cut_count; i++)
        w->cuts[i]->in_doubt = false;
    lock_give(&w->lock);
    // The failed write may have left entries. The mark counts them before a push that repeats them
    // is acknowledged.
    if (ok) w->home->mark(w);
    wal_give_lead(w);
    return ok;
}

void wal_drain(struct wal *w)
{
    err e = {0};
    lock_take(&w->lock);
    bool open = w->state == WAL_OPEN;
    w->state = WAL_DRAINED;  // before the wait, so that the queue can only become shorter
    w->drained_open = open;
    cond_wake_all(&w->full);
    while (w->led || w->first)
        cond_wait(&w->idle, &w->lock);
    // Taken here and not by wal_take_lead, so that nobody gets in between the last append and the
    // close.
    w->led = true;
    lock_give(&w->lock);
    FAULT("wal.drain");
    if (open) w->home->mark(w);
    if (open && !wal_close_cut(w, &e)) {
        char text[LOG_QUOTE_MAX];
        log_warn(NULL, "log.drain", "fault=%s", log_quote(text, str_of(e.msg)));
        w->drained_open = false;
    }
    wal_give_lead(w);
}
