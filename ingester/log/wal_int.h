// SPDX-License-Identifier: Apache-2.0
//
// wal_int.h - the inside of the log, for wal*.c only: its struct, and RocksDB with errors as err.
#pragma once

#include "base/buf.h"
#include "ingester/log/wal.h"
#include "sys/bell.h"

#include <rocksdb/c.h>

// Entries of formats 1 to 3 are whole batches. An open reads them and sets the format to 4.
#define WAL_FORMAT "4"

// No message between nodes is larger (internal.body_max).
#define BATCH_BYTES_MAX ((size_t)1 << 30)

// Bytes of an entry besides tenant and rows: key, seq, cut, tags, lengths, and RocksDB's own
// record.
#define ENTRY_OVERHEAD 64

// ---- the database (wal_db.c)
struct db {
    rocksdb_t *rocks;
    rocksdb_options_t *options;
    rocksdb_block_based_table_options_t *table;
    rocksdb_writeoptions_t *synced;
    rocksdb_writeoptions_t *unsynced;
    rocksdb_readoptions_t *scan;
    rocksdb_flushoptions_t *flush;
    rocksdb_column_family_handle_t *meta;
};

struct db_family {
    id128 stream;
    uint64_t number;
    rocksdb_column_family_handle_t *handle;
};

#define FAMILY_TEXT (26 + 1 + 16 + 1)

// Opens the database. If there is none it is made, or, without `may_make`, that is unavailable.
// *families are those of cuts, in order of stream and number; the caller frees them with mem_free
// (no budget) and releases their handles.
bool db_open(struct db *d, const char *dir, size_t buffers, bool may_make,
             struct db_family **families, size_t *n, err *e) MUST_CHECK;
void db_close(struct db *d);  // idempotent; families' handles first

bool db_family_make(struct db *d, id128 stream, uint64_t number, void **handle, err *e) MUST_CHECK;
bool db_family_drop(struct db *d, void *handle, err *e) MUST_CHECK;   // the handle stays valid
void db_family_release(void *handle);                                 // NULL is fine
bool db_family_flush(struct db *d, void *handle, err *e) MUST_CHECK;  // begins it, does not wait
bool db_meta_flush(struct db *d, bool wait, err *e) MUST_CHECK;
bool db_write(struct db *d, rocksdb_writebatch_t *batch, bool sync, err *e) MUST_CHECK;

// *found false: there is no such row.
bool db_meta_get(struct db *d, str key, struct buf *value, bool *found, err *e) MUST_CHECK;

// First and last seq of a family; 0 if it is empty. If its entries cannot be read, the bounds that
// RocksDB's own list of files has.
bool db_bounds(struct db *d, const struct db_family *f, uint64_t *first, uint64_t *last,
               err *e) MUST_CHECK;

// One entry's value, which the caller gives to rocksdb_free; NULL: there is none.
bool db_entry(struct db *d, void *handle, uint64_t seq, char **value, size_t *n, err *e) MUST_CHECK;
bool db_iterator_ok(rocksdb_iterator_t *it, err *e) MUST_CHECK;  // else data_loss or unavailable

void key_print(uint64_t seq, char key[8]);
uint64_t key_parse(const char key[8]);

// ---- rows of the meta family (wal_meta.c)
#define META_KEY 64
void meta_stream_key(id128 stream, char key[META_KEY]);
void meta_cut_key(id128 stream, uint64_t number, char key[META_KEY]);
void meta_stream_value(const struct wal_stream *s, const char *owner, struct buf *out);
void meta_cut_value(const struct cut *c, struct buf *out);
bool meta_cut_read(str value, struct cut *c, err *e) MUST_CHECK;
void meta_put(struct db *d, rocksdb_writebatch_t *batch, const char *key, str value);

// ---- entries (wal_read.c)
uint64_t batch_rows(str rows);  // the number of records in a message LogRows or Batch
// The number of rows of a cut up to an entry, as this entry tells; ROWS_UNKNOWN if it cannot be
// read.
uint64_t wal_read_rows(struct wal *w, const struct cut *c, uint64_t seq);

// ---- the log
// A caller of wal_append, on that caller's stack.
struct waiter {
    struct waiter *next;
    str tenant;
    const struct wal_item *items;
    size_t n;
    size_t bytes;       // of its entries; grows when the leader learns their news
    size_t news_bytes;  // of these, the news
    uint64_t since_mono_ns;
    struct wal_place place;
    bool leads;
    bool done;
    bool ok;
    err *e;
    struct bell bell;  // rung once it leads or is done; until then other threads own its fields
};

// ---- where a log is kept
struct scan;

// What a home does; the lead, cuts and streams in memory are wal*.c's. With the lead, but for
// load and begin, before which nobody appends, and scan.
struct wal_home {
    size_t group_bytes;  // entries of one write, at first (struct wal); the rest is the next one's
    // Makes the tables of cuts and streams agree with what is there: at the open, and after a
    // failed write.
    bool (*load)(struct wal *w, bool first, err *e);
    bool (*find)(struct wal *w, err *e);  // NULL: load has found all
    void (*unload)(struct wal *w);
    // False and *broken: nobody can say, as of a disk that is gone. Then the log has failed.
    bool (*has_room)(struct wal *w, size_t bytes, bool *broken, err *e);
    bool (*begin)(struct wal *w, const struct wal_stream *own, err *e);
    // Notes that a stream without entries is this log's; NULL: its beginning will.
    bool (*plan)(struct wal *w, id128 stream, err *e);
    // Begins a stream while the log is open. `held`: the former one has entries. There is no open
    // cut; cuts without entries are taken out afterwards.
    bool (*go_over)(struct wal *w, const struct wal_stream *own, bool held, err *e);
    // The i-th stream, the oldest first, that has an end to come where the log is kept, even if the
    // tables have nothing of it; false: there are not so many. *out: its id, `adopted` and
    // `former`, and zeros. With w->lock. NULL: there are none.
    bool (*unfinished)(const struct wal *w, size_t i, struct wal_served *out);
    // Writes a group into the open cut, with its news. If it fails and *broken stays false, nothing
    // was written. What has no place in the write, or nothing to do with the failure, may be taken
    // out of the group, into *rest, but not if it is broken: it has no news then.
    bool (*write)(struct wal *w, struct waiter *group, size_t bytes, struct waiter **rest,
                  bool *broken, err *e);
    void (*mark)(struct wal *w);  // notes how far the newest cut is acknowledged
    bool (*make_cut)(struct wal *w, struct cut *c, err *e);
    bool (*close_cut)(struct wal *w, struct cut *c, err *e);
    bool (*note_times)(struct wal *w, err *e);  // wall times of own cuts have changed
    void (*note_loss)(struct wal *w, id128 stream);
    bool (*tick)(struct wal *w, err *e);
    void (*tidy)(struct wal *w);  // after a tick, without the lead; NULL: there is nothing to do
    void (*end)(struct wal *w);   // before a close, after a drain; NULL
    bool (*drop_cut)(struct wal *w, struct cut *c, err *e);  // its rows have left the head
    void (*dropped)(struct wal *w, id128 stream, uint64_t number, bool stream_too);
    bool (*scan)(struct scan *s, err *e);  // calls scan_entry for each entry of the cut
};
extern const struct wal_home wal_on_disk;
extern const struct wal_home wal_in_store;

// How far the newest cut was acknowledged (wal_damage.c).
struct wal_mark {
    id128 stream;
    uint64_t cut;
    uint64_t last_seq;
    uint64_t rows;  // of the cut
};

// A stream that lacks acknowledged entries (wal_damage.c).
struct wal_loss {
    id128 stream;
    int64_t found_boot_ns;  // when the last of its damage was found
};

struct wal {
    struct wal_options options;
    const struct wal_home *home;
    struct lock lock;  // of what follows up to `turn`
    enum wal_state state;
    bool drained_open;  // in DRAINED: the database works, so cuts may be dropped
    err fault;          // in BROKEN: of the write that failed, or of the last try to open
    struct waiter *first;
    struct waiter *last;
    bool led;            // a thread has the lead
    unsigned outsiders;  // threads that wait in wal_take_lead, outside the queue
    struct cond idle;
    struct cut **cuts;
    size_t cut_count;
    size_t cut_cap;
    struct wal_stream *streams;
    size_t stream_count;
    size_t stream_cap;
    id128 begun;             // wal_begun
    int64_t opened_boot_ns;  // when the open stream began
    id128 planned;           // the stream after it; zeros: none
    bool offered;
    bool ended;  // wal_end was called
    uint64_t bytes;
    size_t group_bytes;     // entries of one write (wal_home)
    size_t waiting;         // bytes of appends in the queue and in the group that is written
    struct cond full;       // a leader that lingers need not do so any longer
    uint64_t lost_entries;  // of all cuts, those that were dropped too
    uint64_t lost_rows;
    struct wal_loss losses[WAL_DAMAGED_MAX];
    size_t loss_count;
    struct wal_objects *objects;  // of a log in the store (wal_object.c)
    uint64_t put_mono_ns;         // since when the store is asked to take an object; 0: it is not
    // Only the thread that has the lead changes these.
    struct db db;
    struct cut *open;  // NULL: the next append makes one
    uint64_t next_seq;
    uint64_t next_cut;
    uint64_t run;                    // of the open cut
    struct wal_mark marked;          // in the file (wal_damage.c)
    struct wal_mark found_marks[2];  // of an earlier process, ENDED last; cut 0: none
    uint64_t room_until_ns;  // monotonic: until then `room_left` is believed, the disk not asked
    uint64_t room_left;      // bytes of entries that may be written before the disk is asked again
    int64_t wall_ahead_ns;   // wall clock minus boot clock, when last compared
    int64_t rest_boot_ns;    // since when files may have entries of cuts that are gone; 0: none do
    size_t reserved;
};

// (wal.c) Whether the head has all that the cut's log holds and ever will hold. Only such a cut is
// flushed and dropped. With w->lock.
bool wal_is_whole(const struct cut *c);

// (wal.c) Whether the log is OPEN; if not, e says why. With w->lock.
bool wal_admits(const struct wal *w, err *e);

// (wal.c) The lead for a thread that is not in the queue. It comes before those that are: under
// load appends would never leave the queue empty, and the duty thread needs the lead once a second.
void wal_take_lead(struct wal *w);
void wal_give_lead(struct wal *w);
void wal_break(struct wal *w, const err *fault);  // OPEN becomes BROKEN; with the lead

bool meta_streams(struct wal *w, err *e) MUST_CHECK;  // fills w->streams

// Losses outlive the process that found them. meta_put_loss writes one; if it cannot, only this
// process tells of it. meta_losses reads those that are still to be told, and deletes the others.
void meta_put_loss(struct wal *w, id128 stream);
bool meta_losses(struct wal *w, err *e) MUST_CHECK;

// (wal_life.c)
bool disk_load(struct wal *w, bool first, err *e) MUST_CHECK;
void disk_unload(struct wal *w);
bool disk_begin(struct wal *w, const struct wal_stream *own, err *e) MUST_CHECK;

// (wal_read.c) What homes need to read a cut. scan_entry fails only with errors that may pass;
// damage is counted. scan_is_damage says of an error whether it is damage.
bool disk_scan(struct scan *s, err *e) MUST_CHECK;
bool scan_entry(struct scan *s, str key, str value, err *e) MUST_CHECK;
struct wal *scan_wal(const struct scan *s);
const struct cut *scan_cut(const struct scan *s);
bool scan_is_damage(const err *e);
void scan_note_damage(struct scan *s, const err *e);
// The cut is covered, and what the head was given of it does not count: it goes with the cut.
void scan_vanished(struct scan *s);

// The next entry is the first of this stream; there is room for it in the table. With w->lock.
void wal_enter_stream(struct wal *w, const struct wal_stream *own);
// With w->lock.
void wal_note_seq(struct wal *w, id128 stream, uint64_t seq);

// (wal_mend.c) Mends write-ahead files; before the log in this directory is opened. Fails with
// unavailable.
bool wal_mend(const char *dir, err *e) MUST_CHECK;

// (wal_damage.c)
void wal_find_mark(struct wal *w);  // reads the marks, before the first open of the database
bool wal_is_marked(const struct wal *w, id128 stream, uint64_t cut);
void disk_mark_end(struct wal *w);  // before another stream begins; with the lead
void disk_mark(struct wal *w);      // writes how far the newest cut is acknowledged; with the lead
void wal_expect(struct wal *w);     // after the first open: which seqs the cuts should have
void wal_note_loss(struct wal *w, id128 stream, int64_t found_boot_ns);  // with w->lock
void wal_tell_damage(const struct cut *c, uint64_t entries, uint64_t rows, const err *why);

// (wal_cut.c)
struct cut *cut_new(id128 stream, uint64_t number, err *e) MUST_CHECK;
void cut_free(struct cut *c);
bool wal_make_room(struct wal *w, err *e) MUST_CHECK;            // for one cut, one stream:
void wal_add_cut(struct wal *w, struct cut *c);                  // with w->lock
void wal_add_stream(struct wal *w, const struct wal_stream *s);  // the same
// Takes a cut out of the tables, and its stream too if that has ended and this was its last cut.
// True if the stream went.
bool wal_forget_cut(struct wal *w, const struct cut *c);
// Adds the meta row of a cut to a batch; `value` is scratch.
bool wal_put_row(struct wal *w, rocksdb_writebatch_t *batch, const struct cut *c, struct buf *value,
                 err *e) MUST_CHECK;
bool wal_close_cut(struct wal *w, err *e) MUST_CHECK;               // with the lead
bool wal_need_cut(struct wal *w, size_t bytes, err *e) MUST_CHECK;  // makes w->open if it must
void wal_next_run(struct wal *w);                                   // with the lead
// (wal_disk.c) Lets RocksDB delete the files that have entries of dropped cuts; with the lead.
bool disk_erase_rest(struct wal *w, bool wait, err *e) MUST_CHECK;
// Wall clock minus boot clock. Reads both again if the thread stood still between the two, because
// that would look like a jump of the wall clock.
int64_t wal_wall_ahead(const struct wal *w);

// (wal_stream.c)
id128 wal_coming(const struct wal *w);  // the planned stream, or a new one; with w->lock
id128 wal_take_plan(struct wal *w);     // the same, and there is no plan any more
// The stream has begun (go_over of the home) and follows the open one, which goes if it has no
// entries. Takes out cuts without entries. There is room; with the lead.
void wal_go_over(struct wal *w, const struct wal_stream *own);
void wal_forget_empty(struct wal *w);  // takes out cuts without entries; with w->lock
// If a stream was offered, goes over to it. There is no open cut; with the lead.
bool wal_begin_offered(struct wal *w, err *e) MUST_CHECK;
