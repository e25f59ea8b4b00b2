// SPDX-License-Identifier: Apache-2.0
//
// streams.h - registers the streams of this ingester in the store (roll.h), and finds out whether a
// data directory of its id is gone, with rows in it.
//
// A thread takes care of the registrations, and every quarter of a minute lists all streams. What
// is registered for this id:
//
//     of this directory               all is well
//     of another one that is alive    two processes have this id: notice node.twin, raised by both
//     of another one, not alive       a data directory is gone (not mounted, mistyped, lost), with
//                                     the rows that were not flushed: notice node.lost. Not if its
//                                     logs are in the store: then they are adopted (adopt.h)
//
// Answers about times whose rows may be lost say so, until a person puts the directory back (its
// process takes the registrations back when all is flushed) or accepts the loss (`flametree stream
// forget`). Which times these are:
//
//     from    the oldest profile that the lost streams may have had
//     until   their process had ended. That was when this directory was made, if the other one was
//             not in use after that; else when this process began; never, if the other one was in
//             use after that. Profiles may be ahead of the clock: an hour is added, or more where
//             limits.reject_newer_than allows more
//
// A process that sees another directory of its id for the first time registers a new stream, so
// that the other one can tell which of the two was in use last.
#pragma once

#include "base/buf.h"
#include "base/ulid.h"
#include "loop/req.h"

struct head_query;
struct ingester;
struct roll;
struct streams;

// Starts the thread. *out is NULL without a store, or if the data directory has no id (tests); the
// functions below take NULL and do nothing then.
bool streams_start(struct ingester *in, struct streams **out, err *e) MUST_CHECK;

struct roll *streams_roll(struct streams *s);
void streams_wake(struct streams *s);   // the log has begun a stream
void streams_hurry(struct streams *s);  // a new list is wanted

// Why pushes are not acknowledged while the open stream is not admitted (roll_is_open).
bool streams_blame(struct streams *s, err *e);

// Whether it has asked the store once, with success or without.
bool streams_inspected(struct streams *s);

// Appends the fields of a HeadReadResponse that say which of a query's rows may be missing.
void streams_put(struct streams *s, struct arena *a, const struct head_query *q, struct buf *out);

// A JSON list of all registered streams of all ingesters.
bool streams_print(struct streams *s, struct req *r, struct buf *out, err *e) MUST_CHECK;

// As forget_streams does (forget.h), and soon answers say so.
struct forget;
bool streams_forget(struct streams *s, struct req *r, const struct forget *what, size_t *n,
                    err *e) MUST_CHECK;

// The registrations of other processes, as the last list had them; the arena's.
struct registered_stream;
bool streams_others(struct streams *s, struct arena *a, struct registered_stream **v, size_t *n,
                    err *e) MUST_CHECK;

void streams_gauges(struct streams *s);

// Ends the thread, and takes back the registrations of streams of which the log has nothing. NULL
// is fine, for streams_stop too, which comes after it and when nobody asks any more.
void streams_drain(struct streams *s);
void streams_stop(struct streams *s);
