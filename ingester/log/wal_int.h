// SPDX-License-Identifier: Apache-2.0
//
// wal_int.h - the inside of the log, for wal*.c only: its struct, and RocksDB with errors as err.
#pragma once

#include "base/buf.h"
#include "ingester/log/wal.h"
#include "sys/bell.h"

#include <rocksdb/c.h>

// Formats 1 to 3 have entries with whole batches; they are read, and then made 4.
#define WAL_FORMAT "4"

// No message between nodes is larger (internal.body_max).
#define BATCH_BYTES_MAX ((size_t)1 << 30)

// Of an entry besides tenant and batch: key, seq, cut, tags, lengths, and RocksDB's own record.
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

// Opens or makes it; *families (to be given to mem_free, uncounted) are those of cuts, in order.
bool db_open(struct db *d, const char *dir, size_t buffers, struct db_family **families, size_t *n,
             err *e) MUST_CHECK;
void db_close(struct db *d);  // idempotent; families' handles first

bool db_family_make(struct db *d, id128 stream, uint64_t number, void **handle, err *e) MUST_CHECK;
bool db_family_drop(struct db *d, void *handle, err *e) MUST_CHECK;   // the handle stays valid
void db_family_release(void *handle);                                 // NULL is fine
bool db_family_flush(struct db *d, void *handle, err *e) MUST_CHECK;  // begins it, does not wait
bool db_write(struct db *d, rocksdb_writebatch_t *batch, bool sync, err *e) MUST_CHECK;

// *found false: there is no such row.
bool db_meta_get(struct db *d, str key, struct buf *value, bool *found, err *e) MUST_CHECK;

// First and last seq of a family; 0 if it is empty. Where it cannot be read, what the database
// knows of its files.
bool db_bounds(struct db *d, const struct db_family *f, uint64_t *first, uint64_t *last,
               err *e) MUST_CHECK;

// One entry's value, to be given to rocksdb_free; NULL: there is none.
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
uint64_t batch_rows(str rows);  // how many records it has: of message LogRows or Batch

// ---- the log
struct waiter {
    struct waiter *next;
    str tenant;
    const struct wal_item *items;
    size_t n;
    size_t bytes;       // of its entries; more once it is known what they bring
    size_t news_bytes;  // of these, what they bring
    struct wal_place place;
    bool leads;
    bool done;
    bool ok;
    err *e;
    struct bell bell;  // rung once the writer leads or is done; until then others have its fields
};

// Up to where the newest cut was acknowledged.
struct wal_mark {
    id128 stream;
    uint64_t cut;
    uint64_t last_seq;
    uint64_t rows;  // of the cut
};

struct wal {
    struct wal_options options;
    struct lock lock;  // of what follows up to `turn`
    enum wal_state state;
    bool drained_open;  // of DRAINED: the database was fine
    err fault;          // of BROKEN
    struct waiter *first;
    struct waiter *last;
    bool led;            // somebody has the lead: a leader or the duty thread
    unsigned outsiders;  // of the duty thread, waiting for the lead
    struct cond idle;
    struct cut **cuts;
    size_t cut_count;
    size_t cut_cap;
    struct wal_stream *streams;
    size_t stream_count;
    size_t stream_cap;
    uint64_t bytes;
    uint64_t lost_entries;  // of cuts that went as well
    uint64_t lost_rows;
    // changed only by who has the lead
    struct db db;
    struct cut *open;  // NULL: the next append makes one
    uint64_t next_seq;
    uint64_t next_cut;
    uint64_t run;                // of the open cut
    struct wal_mark marked;      // in the file (wal_damage.c)
    struct wal_mark found_mark;  // of an earlier process; cut 0: none
    uint64_t room_until_ns;  // monotonic: until then the disk is known to have `room_left` bytes
    uint64_t room_left;      // that may be written before one looks again
    int64_t wall_ahead_ns;   // of the boot clock, at the last look
    size_t reserved;
};

// (wal.c) Does the head have all that the cut's log holds, and will hold? Only then it is flushed
// and dropped. With w->lock.
bool wal_is_whole(const struct cut *c);

// (wal.c) Is there an open log? With w->lock.
bool wal_admits(const struct wal *w, err *e);

// (wal.c) The lead without being in the queue.
void wal_take_lead(struct wal *w);
void wal_give_lead(struct wal *w);
void wal_break(struct wal *w, const err *fault);

bool meta_streams(struct wal *w, err *e) MUST_CHECK;  // fills w->streams

// (wal_life.c) With w->lock.
void wal_note_seq(struct wal *w, id128 stream, uint64_t seq);

// (wal_mend.c) Before the log in this directory is opened. Fails with unavailable.
bool wal_mend(const char *dir, err *e) MUST_CHECK;

// (wal_damage.c)
void wal_find_mark(struct wal *w);  // before the database is opened first
bool wal_is_marked(const struct wal *w, id128 stream, uint64_t cut);
void wal_mark(struct wal *w);    // with the lead: up to where is the newest cut acknowledged?
void wal_expect(struct wal *w);  // after an open: first and last seq that cuts should have
void wal_tell_damage(const struct cut *c, uint64_t entries, uint64_t rows, const err *why);

// (wal_cut.c)
struct cut *cut_new(id128 stream, uint64_t number, err *e) MUST_CHECK;
void cut_free(struct cut *c);
bool wal_make_room(struct wal *w, err *e) MUST_CHECK;               // for one more of each:
void wal_add_cut(struct wal *w, struct cut *c);                     // with w->lock
void wal_add_stream(struct wal *w, const struct wal_stream *s);     // the same
bool wal_close_cut(struct wal *w, err *e) MUST_CHECK;               // with the lead
bool wal_need_cut(struct wal *w, size_t bytes, err *e) MUST_CHECK;  // w->open is there for them
void wal_next_run(struct wal *w);                                   // with the lead
// By how much the wall clock is ahead of the boot clock; looks again if this thread stood still
// between the two, which would seem to be a jump.
int64_t wal_wall_ahead(const struct wal *w);
