// SPDX-License-Identifier: Apache-2.0
//
// flush.h - writes closed cuts to the object store, then removes them from head and log.
//
// A *piece* is the rows that a cut has of one tenant and hour of profile time. It becomes one
// object of the store, the segment <hour>.<stream>.<cut>.<part> (manifest/names.h). A piece is
// *covered* when this process has written each of its rows into a part, or has found the row in a
// part, or in a leaf block that names such a part as its source. Only covered rows may leave head
// and log.
//
// When all goes well:
//
//     1. The oldest closed cut is picked, and its pieces are found out (closed_list).
//     2. Each piece is written as part 0; the name must not exist yet (closed_cover).
//     3. All pieces are covered: the rows leave the head (head_drop), their ids are saved, and the
//        cut leaves the log (wal_drop).
//
// When it does not:
//
//     the name exists, or   The store may have some of the rows. The piece is compared with the
//     a creation failed     store (piece_inspect): rows that are there leave the head, and the
//     others
//                           become the next part.
//     the cut is of an      The same, before anything is written: that process may have written
//     earlier process       parts. Nothing about a flush is kept on disk.
//     the store fails       The cut is tried again after 1 s, 2 s ... 1 min. Ingest goes on until
//                           head or log are full.
//     a reader is inside    The drop gives way and comes again a tick later, for a minute at most.
//     the log cannot drop   The rows have left the head already; only wal_drop is repeated.
//     the process ends      The log still has the cut. The next process compares and goes on.
//
//     cut    CLOSED --each piece--> COVERED --head_drop, wal_drop--> gone
//     piece  WAITS --written, or found whole--> COVERED --refresh--> GONE (from the head, early)
//              |
//              +--found in part--> WAITS, with a higher first part and fewer rows
//
// A query whose leaf blocks name parts of a cut that the head still has asks for a `refresh`: the
// head compares the pieces at once and removes the rows that are in the store.
//
// Threads: one thread flushes, with a few helpers where a cut has several pieces. Any thread may
// call flush_wake, flush_now, flush_print and the functions for answers.
//
// Locks: flush.lock guards the tables of cuts and pieces. What answers name (a piece's first part,
// that it is GONE) changes only while the head is excluded (head_exclude); so a thread that holds
// the head sees rows and names that agree.
#pragma once

#include "base/buf.h"
#include "ingester/log/wal.h"
#include "loop/req.h"

struct flush;
struct ingester;

// For an ingester whose process has a store. Returns owned; the thread starts with flush_start.
struct flush *flush_new(struct ingester *in, err *e) MUST_CHECK;
bool flush_start(struct flush *f, err *e) MUST_CHECK;
void flush_wake(struct flush *f);  // there may be something to do

// Reads the ids of rows that left for the store before the process ended, so that a row that is
// pushed again counts once. Call it before pushes are admitted. False: some were not read, which is
// logged.
bool flush_recall(struct flush *f);

// Takes a cut of a stream that is being adopted (wal.h) to the store, and drops it from head and
// log, which frees it. All of it was read. On failure, also when the asker is canceled, the cut is
// still there, with or without rows in the head. From the thread that adopts the stream.
bool flush_adopted(struct flush *f, const struct req *asker, struct cut *cut, err *e) MUST_CHECK;

// The same with those rows of it that were read so far, so that there is room for others: they
// become parts, and leave the head. The cut stays in the log until flush_adopted is told that all
// was read.
bool flush_adopted_part(struct flush *f, const struct req *asker, struct cut *cut,
                        err *e) MUST_CHECK;

// Flushes until no cut is left or the deadline comes, then ends the thread. The log is drained.
void flush_drain(struct flush *f, uint64_t deadline_mono_ns);
struct manifests *flush_manifests(struct flush *f);  // of its store, as long as it lives
void flush_free(struct flush *f);                    // the thread does not run; NULL is fine

// ---- on demand
struct flush_totals {
    uint64_t cuts;
    uint64_t segments;
    uint64_t rows;
    uint64_t bytes;
};

// Closes the open cut and waits until all rows that were acknowledged before are in the store;
// *done is what was written meanwhile. Without `wait` it only begins. Fails with the store's error
// if a try that began after the call fails, or at the request's deadline.
bool flush_now(struct flush *f, struct req *r, bool wait, struct flush_totals *done,
               err *e) MUST_CHECK;

// Waits until the log has no closed cut with entries that the head has; totals since the start.
// Fails with the store's error if a try failed since the call, or at the request's deadline.
bool flush_await(struct flush *f, struct req *r, struct flush_totals *all, err *e) MUST_CHECK;

// Streams, cuts and what was and is being flushed, as a JSON object.
void flush_print(struct flush *f, struct buf *out);

// If e says that a push found no room while the store fails, puts the store's error before e's
// message. Returns false always, as err_wrap does.
bool flush_blame(struct flush *f, err *e);
void flush_gauges(struct flush *f);  // sets the metrics of what waits

// ---- answers

// Compares each (stream, cut, hour) of these tenants with the store and removes from the head the
// rows that are there. Blocks on the store. Cuts that are open or gone are passed over.
bool flush_refresh(struct flush *f, struct req *r, const str *tenants, size_t tenant_count,
                   const struct wal_ref *refs, size_t n, err *e) MUST_CHECK;

// Refuses an answer that might count rows twice. Leaves name their source segments in pages for a
// week only. If rows of a named cut may be in leaves for longer than that, a querier cannot tell
// that a leaf has them: the answer is unavailable until the flush has compared the cut with the
// store. With the head held.
bool flush_sure(struct flush *f, const str *tenants, size_t tenant_count,
                const struct wal_ref *refs, size_t n, err *e) MUST_CHECK;

// Removes from refs the cuts and hours that the head does not have any more, and sets the first
// parts of the others. With the head held.
void flush_names(struct flush *f, const str *tenants, size_t tenant_count, struct wal_ref *refs,
                 size_t *n);
