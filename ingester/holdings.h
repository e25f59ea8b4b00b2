// SPDX-License-Identifier: Apache-2.0
//
// holdings.h - is this ingester's data directory the one that its id had before?
//
// Where there is a store, each data directory that rows are acknowledged in has an object there
// (manifest/holding.h). A thread creates that of this process, and every quarter of a minute lists
// those of its id:
//
//     its own only            all is well
//     another, alive          two processes have this id: notice node.twin, told by both
//     another, not alive      a data directory is gone (not mounted, mistyped, lost) with what was
//                             not flushed: notice node.lost
//
// Until a person puts the directory back (its process then deletes the object at a clean end) or
// accepts the loss (`flametree node forget`), answers about times of which rows may be lost are
// marked. Nothing is acknowledged before the directory has its object.
#pragma once

#include "base/buf.h"
#include "base/ulid.h"
#include "loop/req.h"

struct holdings;
struct ingester;

// NULL without a store, or where the data directory has no id (tests): then all that follows does
// nothing. Starts a thread.
bool holdings_start(struct ingester *in, struct holdings **out, err *e) MUST_CHECK;

// May rows be acknowledged? Otherwise unavailable, and why.
bool holdings_noted(struct holdings *h, err *e) MUST_CHECK;

// Has it looked at the store, or found that it cannot?
bool holdings_inspected(struct holdings *h);

// Fields of a HeadReadResponse: what may be missing of the rows in (from, to].
void holdings_put(struct holdings *h, int64_t from_ns, int64_t to_ns, struct buf *out);

// A JSON list of all data directories of all ingesters that the store knows.
bool holdings_print(struct holdings *h, struct req *r, struct buf *out, err *e) MUST_CHECK;

// Deletes those of a node, or the one; *n says how many. Refuses with failed_precondition what a
// running process has, and with not_found what is not there.
bool holdings_forget(struct holdings *h, struct req *r, str node, const id128 *directory, size_t *n,
                     err *e) MUST_CHECK;

// Ends the thread. empty: nothing is left in the log, so the object goes. NULL is fine.
void holdings_stop(struct holdings *h, bool empty);
