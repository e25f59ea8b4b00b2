// SPDX-License-Identifier: Apache-2.0
//
// flush.h - closed cuts become segments of the object store, then head and log let them go.
//
// A piece is what a cut has of one tenant and hour of profile time; it becomes one segment,
// <hour>.<stream>.<cut>.<part> (manifest/names.h). A piece is covered when each of its rows was
// written into a part by this process, or was found by it in a part or in a leaf block that names
// one as its source. A creation that said "exists", one that failed, a cut of an earlier process
// and the `refresh` of a question all lead to a look at what is in the store; what is there leaves
// the head, the remainder becomes the next part.
//
//     cut    CLOSED --each piece--> COVERED --head_drop, wal_drop--> gone
//     piece  WAITS --written, or found whole--> COVERED --refresh--> GONE (from the head, early)
//              |
//              +--found in part--> WAITS, with a higher first part and fewer rows
//
// One thread does this, oldest cut first, with a few helpers where a cut has several pieces. What
// fails is tried again after 1 s, 2 s ... 1 min; ingest goes on meanwhile until head or log are
// full. Nothing of it is kept on disk: after a start all cuts are looked up before they are
// written.
//
// Locks: piece and cut tables are flush.lock's. What answers name (a piece's first part, that it is
// GONE) changes only while the head is excluded, so whoever holds the head sees rows and names
// agree.
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

// Reads what left for the store before the process ended, so that it counts once if it is pushed
// again. Before pushes are admitted.
void flush_recall(struct flush *f);

// Goes on until nothing is left or the deadline comes, then ends the thread. The log is drained.
void flush_drain(struct flush *f, uint64_t deadline_mono_ns);
void flush_free(struct flush *f);  // the thread does not run; NULL is fine

// ---- on demand
struct flush_totals {
    uint64_t cuts;
    uint64_t segments;
    uint64_t rows;
    uint64_t bytes;
};

// Closes the open cut and waits until all that was acknowledged before is in the store; *done is
// what was written meanwhile. Without `wait` it only begins. Fails if the store does, or at the
// request's deadline.
bool flush_now(struct flush *f, struct req *r, bool wait, struct flush_totals *done,
               err *e) MUST_CHECK;

// Streams, cuts and what was and is being flushed, as a JSON object.
void flush_print(struct flush *f, struct buf *out);

// Where the store takes nothing, puts that before the message of a push that found no room.
bool flush_blame(struct flush *f, err *e);
void flush_gauges(struct flush *f);

// ---- answers

// Looks up each (stream, cut, hour) for these tenants and takes out of the head what is in the
// store. Blocks. Cuts that are open or gone are passed over.
bool flush_refresh(struct flush *f, struct req *r, const str *tenants, size_t tenant_count,
                   const struct wal_ref *refs, size_t n, err *e) MUST_CHECK;

// May what is named be counted by a leaf that does not tell so any more? Who has not looked for so
// long cannot answer: unavailable, until the flush has looked. With the head held.
bool flush_sure(struct flush *f, const str *tenants, size_t tenant_count,
                const struct wal_ref *refs, size_t n, err *e) MUST_CHECK;

// Leaves out what the head does not have any more and sets first parts. With the head held.
void flush_names(struct flush *f, const str *tenants, size_t tenant_count, struct wal_ref *refs,
                 size_t *n);
