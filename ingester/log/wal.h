// SPDX-License-Identifier: Apache-2.0
//
// wal.h - the ingester's log, on its own disk or in the object store. A push is acknowledged once
// its entries are in it, and from then on it survives the process.
//
// RocksDB in <data>/ingester/log holds entries (message Entry), in one column family for each
// (stream, cut), keyed by seq; docs/formats/log.md has the bytes. Entries are appended in order. A
// cut is dropped as a whole, with its family.
//
//     RECOVERED --wal_begin--> OPEN --write failed--> BROKEN --wal_recover--> RECOVERED
//                               |
//                               +--wal_drain--> DRAINED --wal_close-->
//
// An append (group commit), when all goes well:
//
//     1. The caller joins the queue. If nobody has the lead, it takes the lead.
//     2. The leader takes a group from the front of the queue, at most 16 MiB of entries.
//     3. It sees that disk and memory have room, and opens a new cut if the open one is due.
//     4. It numbers the entries, asks each for its news (see below) and writes the group with one
//        synced write.
//     5. It counts the entries in the cut, pins the cut once for each caller, and passes the lead
//        to the first caller that has queued meanwhile.
//     6. It wakes its group. Each caller publishes its rows in the head, then unpins the cut.
//
// What may fail on the way:
//
//     no room (3, 4)       the whole group is refused with resource_exhausted. Nothing was written;
//                          the log stays OPEN.
//     the write (4)        nobody can tell whether the entries are on disk. The appends fail with
//                          unavailable and the log is BROKEN. The database is closed and opened
//                          again (its C API has no resume). The stream ends there, because its next
//                          numbers may be in use, and a new one begins. Entries that turn out to be
//                          there are read and shown; acknowledged ones must be there.
//     the process ends     an entry that was synced is read at the next start. It may be one that
//                          was not acknowledged yet; a retry has the same ids and counts once.
//
// With options.store the log is kept in the object store (wal_object.c, object_log.h), and appends
// wait for an object of many: the leader lingers before step 2, for linger_ns from the arrival of
// the first of its group, or until there are 8 MiB. A write that fails leaves an object of which
// nobody knows whether it is there. The stream is sealed then, which decides it; if that fails,
// too, wal_recover tries both again. When the stream is sealed, by whomever, and the group is not
// in it, it goes first into the next one; what fails there alone is put off (aborted). So it does
// if the store, or something before it, refuses the object because of its size: then objects become
// smaller, and what is too large even alone is refused (wal_object_size.c). What has no place in an
// object is first in the next one.
//
// An entry has two parts. The owner gives its *rows* as bytes; they refer by number to names,
// stacks and series that earlier entries of the cut may have brought. Which of these the cut still
// lacks, the entry's *news*, depends on the entry's place in the log, so the leader asks for it
// when the place is known (wal_news_fn). A *run* is a stretch of writes into one cut that no
// refusal interrupts: news that one entry brought are there for all later entries of the run, and a
// new run begins with nothing.
//
// The *lead* is the right to change the database and the open cut; one thread has it at a time.
//
// Threads: any may call wal_append, wal_unpin, wal_cut_now, wal_drop and the functions that only
// look. The duty thread of the ingester calls the others, one at a time; wal_scan may run in
// several threads while no append runs. A cut lives until wal_drop.
#pragma once

#include "base/arena.h"
#include "base/buf.h"
#include "ingester/log/cut.h"
#include "loop/req.h"

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
    int64_t keep_ns;           // the owner keeps cuts for so long (ingester.head_age)
    uint64_t disk_reserve;     // bytes that stay free on the file system
    uint64_t disk_max;         // bytes of entries that the log holds at most; 0 = no limit
    struct store *store;       // where the log is kept; NULL: on disk, in dir
    int64_t linger_ns;         // in a store: an object waits so long for more entries,
    size_t waiting_max;        // and at most so many bytes wait at once; 0 = no limit
    size_t object_max;         // the store takes no larger objects; 0: that is not known
    id128 directory;           // of the owner: trial objects have its name (store/check.h)
    int64_t (*wall_ns)(void);  // NULL: the clock
    int64_t (*boot_ns)(void);  // the same
};

// Opens the log, or makes it. Refuses a directory whose format it does not know. Returns owned, in
// state RECOVERED; the caller now scans the cuts (wal_find, wal_scan), then calls wal_begin.
struct wal *wal_open(const struct wal_options *o, err *e) MUST_CHECK;

// Finds the cuts that earlier processes left, where wal_open does not: in an object store, which
// may not answer yet. Before the cuts are scanned; again if it fails. When it has succeeded it does
// nothing.
bool wal_find(struct wal *w, err *e) MUST_CHECK;

// Then: whether another node has ended one of the streams that were found. It may have flushed cuts
// of which nothing is left here. No for a log on disk.
bool wal_was_taken_over(struct wal *w);

// After a drain, once the head has dropped what it could: in an object store, ends the streams of
// which nothing is needed. Nothing is done twice.
void wal_end(struct wal *w);

// After a drain, or without having begun; calls wal_end, frees all cuts. Files with bytes of
// dropped cuts go first.
void wal_close(struct wal *w);

// Begins a new stream and admits appends: RECOVERED becomes OPEN. Also notes in the log how many
// rows the scanned cuts have, which damage is told by later. On failure the log is BROKEN.
bool wal_begin(struct wal *w, err *e) MUST_CHECK;

// Refuses further appends, waits for those under way, closes the open cut. If the log was OPEN
// before, cuts may still be dropped.
void wal_drain(struct wal *w);

// In state BROKEN: closes the database and opens it again. On failure the log stays BROKEN; try
// again later. It fails as long as the directory lacks what this process wrote there (removed,
// unmounted, another one mounted).
bool wal_recover(struct wal *w, err *e) MUST_CHECK;

// ---- the next stream
//
//     wal_plan_stream     makes the id of the stream that comes after the open one, and notes it in
//                         the log; nothing is written into it yet
//     wal_offer_stream    the log may go over to it: at once if the open stream has no open cut,
//                         else when the next cut begins
//
// Appends go on all the time. A log that is opened again after a failed write begins the planned
// stream, whether or not it was offered.

// The planned stream; plans one if there is none. Fails with unavailable while the log is not OPEN.
// If the write fails the log is BROKEN.
bool wal_plan_stream(struct wal *w, id128 *stream, err *e) MUST_CHECK;
// Gives up the planned stream, unless the log has gone over to it.
void wal_unplan_stream(struct wal *w, id128 stream);
// Passes over any other stream than the planned one.
void wal_offer_stream(struct wal *w, id128 stream);

// ---- appending
struct wal_place {
    id128 stream;
    uint64_t last_seq;
    struct cut *cut;  // pinned: wal_unpin when its rows are published
};

// Appends to `out` what an entry brings besides its rows (its news). The leader calls it, in the
// order of entries, one at a time, without a lock of the log. `run` is never 0, and no other run of
// the process has the same number. Fails with resource_exhausted; then nothing of the group is
// written, and the run is over.
typedef bool wal_news_fn(void *arg, uint64_t run, struct buf *out, err *e);

struct wal_item {
    str rows;           // message LogRows
    uint64_t count;     // how many these are
    wal_news_fn *news;  // NULL: the entry brings nothing
    void *arg;
};

// Writes one entry for each item, all of them or none, and returns when they are synced. Fails with
// resource_exhausted (disk or memory, naming the setting), unavailable (the log is not OPEN, or the
// write failed), aborted (the store failed an object with these items while it took others: they
// are not in the log, and may be taken later) or out_of_range (the store will never take an object
// with these items, even if it has no others).
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

// Whether the cut has entries that the owner was not given yet.
bool wal_is_unread(const struct cut *c);

// As wal_cuts, of those cuts alone, without hidden ones: their adoption reads them.
size_t wal_unread(struct wal *w, struct cut **out, size_t max);

// Calls fn for each unread entry in order, and for earlier entries that may have brought news; then
// the cut is read. An entry that is damaged, is missing, or is refused by fn with data_loss,
// invalid_argument or out_of_range is passed over, counted in the cut (lost_entries, lost_rows) and
// logged. Fails with unavailable if an entry cannot be read now, and with every other error of fn;
// then the next call begins anew.
bool wal_scan(struct wal *w, struct cut *c, wal_entry_fn *fn, void *arg, err *e) MUST_CHECK;

// ---- streams that were forgotten, and are not read
//
// On disk (wal_aside.c), in state RECOVERED, before its cuts are scanned: what the log holds of a
// stream goes to the directory `to`, which is a log of its own then. If that is there already, an
// earlier call ended before it was done. Fails with unavailable; the stream is in one place or in
// both, never in none.
bool wal_set_aside(struct wal *w, id128 stream, const char *to, err *e) MUST_CHECK;
// In the object store nothing can be set aside: before wal_find, the stream counts as covered, so
// that it is not read, and its objects go.
void wal_give_up(struct wal *w, id128 stream);
// Removes a log that no process has open.
bool wal_remove(const char *dir, err *e) MUST_CHECK;

// ---- streams of other processes (only a log in the object store)
//
// A stream whose process is gone is taken over: it is sealed, and its log becomes a part of this
// one. Each adopted stream has a number, which its cuts have too, so that answers give its rows by
// themselves: its owner may be alive after all, and answer for it as well.
//
//     wal_adopt      its cuts come, hidden. The caller reads them, the oldest first. What he
//     flushes
//                    meanwhile he drops (wal_drop); at last he reveals the rows of the others
//                    (head_reveal)
//     wal_adopted    it is a stream of this log from now on
//     wal_let_go     or it is none: its rows have left the head, its cuts are freed
//
// Several threads may adopt, each a stream of its own. Between the first and the last of these
// calls no other function names the stream.

struct wal_terms {
    // What an object is that cannot be read: left out, or else data_loss; here, or when its cut is
    // read.
    bool damaged;
    const struct req *asker;  // with it all requests of adoptions are canceled; NULL: never
};

// Fails with already_exists if the log has the stream, as the terms say, or as the store or the log
// says. *cuts is the arena's; the cuts are the log's, the oldest first.
bool wal_adopt(struct wal *w, id128 stream, const struct wal_terms *terms, struct arena *a,
               struct cut ***cuts, size_t *n, err *e) MUST_CHECK;
void wal_adopted(struct wal *w, id128 stream);
void wal_let_go(struct wal *w, id128 stream);

// Whether it is a stream of this log, one that is being adopted included.
bool wal_has_stream(struct wal *w, id128 stream);
// Whether it is one of which nothing is needed any more, but for objects that are to be deleted.
bool wal_is_covered(struct wal *w, id128 stream);
// All of them; the arena's.
bool wal_all_streams(struct wal *w, struct arena *a, id128 **v, size_t *n, err *e) MUST_CHECK;
// Is it one that this node took over from another one, or is about to?
bool wal_is_adopted(struct wal *w, id128 stream);

// ---- cuts
// Copies at most max pointers to its cuts, oldest stream and cut first; returns how many there are.
size_t wal_cuts(struct wal *w, struct cut **out, size_t max);

// Closes the open cut if it is due. Some hours after a cut was dropped (WAL_REST_NS), also deletes
// the files that still have its bytes: what was deleted is gone from this disk within a day. If a
// write fails, the log is BROKEN.
#define WAL_REST_NS (INT64_C(6) * 3600 * 1000000000)
void wal_tick(struct wal *w);

// Closes the open cut if it has entries. If that write fails, the log is BROKEN. Fails with
// unavailable while the log is BROKEN, because nobody knows then what the open cut has.
bool wal_cut_now(struct wal *w, err *e) MUST_CHECK;

// Whether the cut is old enough to go: closed, not pinned, its newest entry arrived more than
// keep_ns ago. For a cut that was found at a start, only wall times tell when that was. So it goes
// only if the wall clock of now agrees, and not within the first hour (or keep_ns) after the start:
// a clock that was wrong at the start has that long to be set right.
bool wal_cut_is_past(struct wal *w, const struct cut *c, int64_t keep_ns);

// Removes a cut whose rows have left the head. Frees c.
bool wal_drop(struct wal *w, struct cut *c, err *e) MUST_CHECK;

// For answers, which name what the head contains: each cut that the head has not dropped, with each
// of its hours within [first_hour, last_hour]. The caller holds the head (head_pin); any thread.
// *refs is the arena's.
struct wal_ref {
    id128 stream;
    uint64_t cut;
    int64_t hour;
    uint32_t first_part;  // 0 here; flush_names (flush.h) raises it
    uint32_t adopted;     // as in the cut
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
    bool ready;             // closed, and the head has all that its log holds (wal_is_whole)
    bool awaited;           // closed; appends under way are about to give the head the rest
    bool found;             // of an earlier process
    uint64_t lost_entries;  // acknowledged, and cannot be read
    uint64_t lost_rows;
};
// As wal_cuts.
size_t wal_list_cuts(struct wal *w, struct wal_cut *out, size_t max);

// Streams that lack acknowledged entries, so that answers can say so: for an hour after the damage
// was found, whether or not the log still holds their cuts, and over a restart. The log line and
// the notice stay until the process ends. Of more streams than WAL_DAMAGED_MAX the last ones that
// were found are named.
#define WAL_DAMAGE_TOLD_NS (INT64_C(3600) * 1000000000)
#define WAL_DAMAGED_MAX    16
size_t wal_damaged(struct wal *w, id128 streams[WAL_DAMAGED_MAX]);

enum wal_state wal_state(struct wal *w);

// Whether the log is in an object store.
bool wal_is_remote(const struct wal *w);

// Whether the log is in an object store which fails, or has not answered for WAL_STORE_SLOW_NS.
#define WAL_STORE_SLOW_NS (UINT64_C(3) * 1000000000)
bool wal_store_fails(struct wal *w);

// How large the objects of the log may be, if it is in an object store.
struct wal_object_limit {
    size_t most;     // bytes of the largest object that is written now; 0: the log is on disk
    size_t refused;  // of the object whose refusal set the limit; 0: there was none, or before the
                     // log was opened
    bool limited;    // objects are smaller than they would be
    char why[400];   // the refusal
};
void wal_object_limit(struct wal *w, struct wal_object_limit *out);

struct wal_stream {
    id128 id;
    const char *state;  // of docs/design.md, such as "open"; static
    uint64_t highest_seq;
};
// As wal_cuts; the open stream is the last one.
size_t wal_streams(struct wal *w, struct wal_stream *out, size_t max);

// The streams that this process answers for: those that it holds, the open one, and the planned one
// last. As wal_cuts.
struct wal_served {
    id128 stream;
    int64_t oldest_ns;       // no row that the log holds of it is older; 0: it holds none
    int64_t opened_boot_ns;  // when the process began it; 0: an earlier one did, or it is planned
    int64_t newest_boot_ns;  // the same of the newest entry; 0: it has none
    bool open;
    bool planned;
    bool held;         // it has a cut with entries
    uint32_t adopted;  // not 0: another process wrote it (wal_adopt)
    bool former;  // it is in the object store, and another process, or an earlier one, began it
};
size_t wal_serves(struct wal *w, struct wal_served *out, size_t max);

// The stream that the log began when it was opened last. It names the process in answers, also when
// the log has gone over to another one. Zeros: it has not begun any.
id128 wal_begun(struct wal *w);

struct wal_counts {
    uint64_t bytes;  // of entries held
    uint64_t open_cuts;
    uint64_t closed_cuts;
    uint64_t open_streams;
    uint64_t closed_streams;
    uint64_t lost_entries;  // acknowledged entries that this process could not read
    uint64_t lost_rows;     // of these, a lower bound
    uint64_t waiting;       // bytes of appends that wait
};
struct wal_counts wal_count(struct wal *w);
