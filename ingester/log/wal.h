// SPDX-License-Identifier: Apache-2.0
//
// wal.h - the ingester's log: what is in it is acknowledged, whatever happens to the process.
//
// RocksDB in <data>/ingester/log holds entries (message Entry) in a column family per (stream,
// cut), keyed by seq; docs/formats/log.md has the bytes. Entries are appended in order and dropped
// with their whole cut.
//
//     RECOVERED --wal_begin--> OPEN --write failed--> BROKEN --wal_recover--> RECOVERED
//                               |
//                               +--wal_drain--> DRAINED --wal_close-->
//
// Group commit: whoever appends joins a queue. The first becomes the leader; it takes the queue,
// numbers the entries, writes them with one synced write, wakes all, and hands the lead to the next
// in the queue, which meanwhile grew by whoever came during the sync.
//
// What an entry has is in two parts. Its rows the owner gives as bytes; they refer to names and
// such that the cut may have from earlier entries. What the cut lacks of these only shows when the
// entry's place is known, so the leader asks for it then (wal_news_fn). A *run* is what is written
// into one cut between two refusals of the leader's: what an entry brought stays for the rest of
// its run, and in the next one nothing has been brought.
//
// A failed write leaves open whether the entries are on disk. Their appends fail with unavailable;
// the database is closed and opened again (its C API has no resume); the stream ends there, as its
// numbers may be used up, and a new one begins. Entries that turn out to be there may show up,
// those that were acknowledged must: the owner scans the cuts that are not read to their end.
//
// Threads: wal_append, wal_unpin, wal_cut_now, wal_drop and all that only looks from any; the rest
// from one at a time (the ingester's duty thread), wal_scan from several while no append runs. A
// cut lives until wal_drop.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "ingester/log/cut.h"

struct wal;

// A cut closes when its rows have cut_bytes, or all that is in it so many times as much.
#define CUT_NEWS_TIMES 4

enum wal_state {
    WAL_RECOVERED,
    WAL_OPEN,
    WAL_BROKEN,
    WAL_DRAINED
};

struct wal_options {
    const char *dir;
    const char *owner;  // member id
    struct mem_budget *memory;
    size_t buffers;            // bytes of RocksDB's write buffers; reserved from memory
    uint64_t cut_bytes;        // a cut closes at this size (CUT_NEWS_TIMES),
    int64_t cut_age_ns;        // or this time after its first entry
    int64_t keep_ns;           // how long the owner keeps cuts
    uint64_t disk_reserve;     // bytes that stay free on the file system
    uint64_t disk_max;         // bytes of entries that the log holds at most; 0 = no limit
    int64_t (*wall_ns)(void);  // NULL: the clock
    int64_t (*boot_ns)(void);  // the same
};

// Opens the log, makes it if there is none. Refuses a directory whose format it does not know.
// Returns owned, in state RECOVERED; the caller now scans the cuts, then calls wal_begin.
struct wal *wal_open(const struct wal_options *o, err *e) MUST_CHECK;
void wal_close(struct wal *w);  // after a drain, or without having begun; frees all cuts

// Starts a stream of its own and admits appends. On failure the log is BROKEN.
bool wal_begin(struct wal *w, err *e) MUST_CHECK;

// Refuses appends, waits for those inside, closes the open cut. Cuts may be dropped still, if the
// log was open before.
void wal_drain(struct wal *w);

// In state BROKEN: closes and opens the database. On failure it stays BROKEN: try again later.
bool wal_recover(struct wal *w, err *e) MUST_CHECK;

// ---- appending
struct wal_place {
    id128 stream;
    uint64_t last_seq;
    struct cut *cut;  // pinned: wal_unpin when its rows are published
};

// Appends to `out` what an entry brings besides its rows. Called by the leader, in the order of
// entries, one at a time, while no lock of the log is held; `run` is never 0 and never comes again.
// Fails with resource_exhausted; then nothing of the write is stored, and the run is over.
typedef bool wal_news_fn(void *arg, uint64_t run, struct buf *out, err *e);

struct wal_item {
    str rows;           // message LogRows
    uint64_t count;     // how many these are
    wal_news_fn *news;  // NULL: it brings nothing
    void *arg;
};

// Writes one entry an item, all or none, and returns when they are synced. Fails with
// resource_exhausted (disk, naming the row) or unavailable.
bool wal_append(struct wal *w, str tenant, const struct wal_item *items, size_t n,
                struct wal_place *place, err *e) MUST_CHECK;
void wal_unpin(struct wal *w, struct cut *c);

// The open stream and its last seq; place->cut is NULL. Fails as wal_append would.
bool wal_position(struct wal *w, struct wal_place *place, err *e) MUST_CHECK;

// ---- reading back
struct wal_entry {
    uint64_t seq;
    str tenant;
    str rows;    // message LogRows with what it brings,
    str batch;   // or, in logs of before, message Batch
    bool known;  // the owner was given it before: only what it brings matters
};
typedef bool wal_entry_fn(void *arg, const struct wal_entry *entry, err *e);

// Has the cut entries that the owner was not given?
bool wal_is_unread(const struct cut *c);

// Calls fn for each of them in order, and for those before them that may have brought something;
// then none are left. What is damaged, or refused by fn with
// data_loss, invalid_argument or out_of_range, is passed over, counted in the cut (lost_entries,
// lost_rows) and told; so is what should be there and is not. Fails with unavailable for what
// cannot be read now, and with what else fn fails with; then all of it comes again.
bool wal_scan(struct wal *w, struct cut *c, wal_entry_fn *fn, void *arg, err *e) MUST_CHECK;

// ---- cuts
// Copies at most max pointers to its cuts, oldest stream and cut first; returns how many there are.
size_t wal_cuts(struct wal *w, struct cut **out, size_t max);

// Closes the open cut if it is due. BROKEN if that write fails.
void wal_tick(struct wal *w);

// Closes the open cut if it has entries. BROKEN if that write fails. While the log is opened again
// nobody can tell what the cut has: unavailable.
bool wal_cut_now(struct wal *w, err *e) MUST_CHECK;

// May it go? Closed, not pinned, newest arrival more than keep_ns ago. Of a cut that was found at a
// start only the wall clock of then knows; so it goes only if the wall clock still says the same,
// and not in the first hour (or keep_ns), in which a clock that was wrong at the start is set
// right.
bool wal_cut_is_past(struct wal *w, const struct cut *c, int64_t keep_ns);

// Forgets a cut; its rows are gone already. Frees c.
bool wal_drop(struct wal *w, struct cut *c, err *e) MUST_CHECK;

// What the head contains, for answers: each cut that it has not dropped with each of its hours
// within [first_hour, last_hour]. While the head is held (head_pin), any thread. The arena's.
struct wal_ref {
    id128 stream;
    uint64_t cut;
    int64_t hour;
    uint32_t first_part;  // 0; who answers may know more (flush.h)
};
bool wal_refs(struct wal *w, struct arena *a, int64_t first_hour, int64_t last_hour,
              struct wal_ref **refs, size_t *n, err *e) MUST_CHECK;

// ---- looking
struct wal_cut {
    struct cut *cut;
    id128 stream;
    uint64_t number;
    uint64_t bytes;
    uint64_t entries;
    int64_t opened_wall_ns;
    int64_t newest_boot_ns;
    bool closed;
    bool ready;             // closed, all that its log holds is in the head, and becomes no more
    bool found;             // of an earlier process
    uint64_t lost_entries;  // acknowledged, and cannot be read
    uint64_t lost_rows;
};
// As wal_cuts.
size_t wal_list_cuts(struct wal *w, struct wal_cut *out, size_t max);

// Streams of cuts that lack something acknowledged, at most max: for answers to say so. For an hour
// after a start; who looks after the log knows by then.
#define WAL_DAMAGE_TOLD_NS (INT64_C(3600) * 1000000000)
size_t wal_damaged(struct wal *w, id128 *streams, size_t max);

enum wal_state wal_state(struct wal *w);

struct wal_stream {
    id128 id;
    const char *state;  // a state of docs/design.md, such as "open"
    uint64_t highest_seq;
};
// As wal_cuts; the open stream is the last one.
size_t wal_streams(struct wal *w, struct wal_stream *out, size_t max);

struct wal_counts {
    uint64_t bytes;  // of entries held
    uint64_t open_cuts;
    uint64_t closed_cuts;
    uint64_t open_streams;
    uint64_t closed_streams;
    uint64_t lost_entries;  // acknowledged, and found unreadable by this process
    uint64_t lost_rows;     // at least
};
struct wal_counts wal_count(struct wal *w);
