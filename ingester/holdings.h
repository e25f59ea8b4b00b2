// SPDX-License-Identifier: Apache-2.0
//
// holdings.h - finds out whether a data directory of this ingester's id is gone, with rows in it.
//
// With a store, each data directory has an object there before rows are acknowledged in it
// (manifest/holding.h). A thread creates the object of this process's directory, and every quarter
// of a minute lists all objects of its id:
//
//     only its own            all is well
//     another's, alive        two processes have this id: notice node.twin, raised by both
//     another's, not alive    a data directory is gone (not mounted, mistyped, lost), with the rows
//                             that were not flushed: notice node.lost
//
// Answers about times whose rows may be lost say so, until a person puts the directory back (its
// process deletes the object at a clean end) or accepts the loss (`flametree node forget`). Which
// times these are:
//
//     from    the oldest profile that the log in the lost directory may have had
//     until   its process had ended. That was when this directory was first used, if the other one
//             was not in use after that; else when this process began; never, if the other one was
//             in use after that. Profiles may be ahead of the clock: an hour is added, or more
//             where limits.reject_newer_than allows more
#pragma once

#include "base/buf.h"
#include "base/ulid.h"
#include "loop/req.h"

struct head_query;
struct holdings;
struct ingester;

// Starts the thread. *out is NULL without a store, or if the data directory has no id (tests); the
// functions below take NULL and do nothing then.
bool holdings_start(struct ingester *in, struct holdings **out, err *e) MUST_CHECK;

// Whether the directory has its object, so that rows may be acknowledged; else unavailable.
bool holdings_noted(struct holdings *h, err *e) MUST_CHECK;

// Whether it has asked the store once, with success or without.
bool holdings_inspected(struct holdings *h);

// Appends the fields of a HeadReadResponse that say which of a query's rows may be missing.
void holdings_put(struct holdings *h, struct arena *a, const struct head_query *q, struct buf *out);

// A JSON list of all data directories of all ingesters that the store knows.
bool holdings_print(struct holdings *h, struct req *r, struct buf *out, err *e) MUST_CHECK;

// Deletes the objects of a node's directories, or of the one that is given; *n says how many. Fails
// with failed_precondition if a running process has the given directory, and with not_found if
// there is none to delete.
bool holdings_forget(struct holdings *h, struct req *r, str node, const id128 *directory, size_t *n,
                     err *e) MUST_CHECK;

// Ends the thread. empty: the log has no rows left, so the object is deleted. NULL is fine.
void holdings_stop(struct holdings *h, bool empty);
