// SPDX-License-Identifier: Apache-2.0
//
// flush_int.h - the inside of flush*.c: the tables of cuts and pieces, and who may change them.
//
// A piece has one worker at a time (`busy`): a helper of the flush, or a request that refreshes.
// The worker reads the piece without the lock and changes it with the lock. A cut that requests
// work on (`users`) is not dropped.
#pragma once

#include "ingester/flush/flush.h"
#include "ingester/ingester_int.h"
#include "manifest/manifest.h"

#define FLUSH_WIDTH_MAX 16

enum piece_state {
    PIECE_WAITS,
    PIECE_COVERED,
    PIECE_GONE
};

struct piece {
    struct head_piece is;  // rows: those that the head has
    enum piece_state state;
    bool busy;            // it has a worker
    bool inspect;         // the store may have parts that this process does not know of
    bool inspected;       // it was compared: a part created since may be absorbed already (cover)
    uint32_t first_part;  // no part below it has any of the rows
    // Wall time since when the store may have rows of it that leaves absorb: when the cut was
    // opened, if an earlier process wrote it; then when this process last compared it, or began to
    // write it. 0: the store has none of its rows.
    int64_t since_ns;
};

struct closed_cut {
    struct cut *cut;
    id128 stream;
    uint64_t number;
    uint64_t bytes;
    int64_t opened_wall_ns;
    int64_t newest_boot_ns;
    uint64_t ticket;  // in order of arrival in this table
    bool found;       // an earlier process wrote it
    bool ready;       // the head has all its rows (wal_is_whole)
    bool awaited;     // or will have them in a moment
    bool listing;     // a thread finds out its pieces
    bool listed;
    bool covered;
    bool dropping;
    bool dropped;             // from the head
    const struct req *asker;  // of what is done for it
    uint32_t users;           // requests that work on it; it is not dropped meanwhile
    unsigned failures;
    uint64_t try_at;  // monotonic; not before it
    unsigned polite;  // how often its drop gave way to readers
    struct arena arena;
    struct piece *pieces;  // in order of tenant, hour
    size_t n;
    uint64_t rows;  // of all pieces, when they were found out
};

struct flush {
    struct ingester *in;
    struct store *store;
    struct manifests *manifests;
    char *recent_ids_dir;
    atomic_bool ids_lack;  // ids were let go that still matter
    atomic_bool recent_ids_fails;
    struct mem_budget budget;
    pthread_t thread;
    bool started;
    struct req whole;    // the parent of all requests of the thread; canceled at the end of a drain
    struct lock lock;    // of everything below
    struct cond wake;    // the thread sleeps on it
    struct cond change;  // requests and helpers wait on it for cuts and pieces
    struct closed_cut **cuts;  // oldest first
    size_t n;
    size_t cap;
    uint64_t tickets;
    unsigned demands;  // requests that wait for a flush: drops do not give way to readers then
    bool draining;
    bool ended;
    unsigned failures;       // of the store, in a row
    uint64_t try_at;         // monotonic: no cut is tried before it
    uint64_t tries;          // begun since the start; the last one may be under way
    uint64_t failed_try;     // number of the last try that failed
    uint64_t failed;         // tries that failed since the start
    uint64_t failing_since;  // monotonic; 0: no cut has failed since its last success
    err fault;               // of the last failure
    struct flush_totals totals;
};

// Pages name the sources of a leaf for 7 days. A day less, because clocks of machines differ.
#define PAGES_NAME_NS (INT64_C(6) * 24 * 3600 * NS_PER_S)

// ---- flush.c

// Adds the log's closed cuts to the table and brings those that are there up to date. With the
// lock. Fails without memory; then some cuts are missing.
bool flush_adopt(struct flush *f, err *e);

enum drop_end {
    DROP_POLITELY_NOT,
    DROP_NOT_OF_LOG,  // it has left the head, and the log does not drop it now
    DROP_DONE
};

// Drops a covered cut, which is `dropping`.
enum drop_end closed_drop(struct flush *f, const struct closed_cut *c, bool insist);

// ---- flush_cut.c

// Finds out the cut's pieces, once. Waits while another thread does it.
bool closed_list(struct flush *f, struct req *r, struct closed_cut *c, err *e) MUST_CHECK;

// One try to have all pieces covered.
bool closed_cover(struct flush *f, struct closed_cut *c, err *e) MUST_CHECK;

// Waits until the piece has no worker, then makes the caller its worker.
bool piece_take(struct flush *f, struct req *r, struct piece *p, err *e) MUST_CHECK;
void piece_give(struct flush *f, struct piece *p);

// ---- flush_inspect.c: which rows of a piece the store has

// A snapshot of a tenant's part of the store, for several pieces. The zero value has none.
struct inspection {
    struct arena arena;
    bool ready;  // arena
    bool taken;
    str tenant;
    struct snapshot snapshot;
};
void inspection_release(struct inspection *l);

// Takes a snapshot of the tenant, unless there is one already.
bool inspection_take(struct flush *f, struct req *r, struct inspection *l, str tenant,
                     err *e) MUST_CHECK;
void inspection_forget(struct inspection *l);  // the next one is taken anew

// Compares the piece's rows with those in parts and leaves of the snapshot. If all are there, the
// piece is COVERED. If some are, they leave the head and first_part grows. The caller is the
// piece's worker.
bool piece_inspect(struct flush *f, struct req *r, struct inspection *l, struct closed_cut *c,
                   struct piece *p, err *e) MUST_CHECK;

// Removes the rows of a covered piece from the head: GONE. The caller is the piece's worker.
void piece_remove(struct flush *f, struct closed_cut *c, struct piece *p);

// Whether the snapshot's leaves name this part as a source.
bool inspection_absorbed(const struct inspection *l, const struct closed_cut *c,
                         const struct piece *p, uint32_t part);
