// SPDX-License-Identifier: Apache-2.0
//
// adopt.h - takes over the streams of processes that are gone, out of the object store: an ingester
// with ingester.log: object needs no disk that survives it.
//
// A thread looks twice a second at the processes that have registered streams (streams.h):
//
//     1. Which of them answer? The prober's results tell of members; others are probed at the
//        address of their registration.
//     2. Whose streams are ownerless, and which of these are this ingester's turn (ownerless.h)?
//        Those of a former process of this node are at once. Each goes to a worker that is free.
//
// Some workers adopt, each a stream at a time. So a long adoption holds up no other one, and what
// this ingester tells others of 1 is never old. A worker:
//
//     3. No ingester that answers has seen the process lately, or has the stream; and it is still
//        registered.
//     4. It is adopted (takeover.c): sealed, its cuts found (wal_adopt), read one after the other
//        within the memory that there is, and revealed, all at once (head_reveal). Until then this
//        ingester answers nothing for it.
//
// Then the flush compares its cuts with the store, and what is not there goes there. When all is,
// its objects go (wal_object_streams.c), and another thread
//
//     5. takes its registration back.
//
// One more thread clears away what is left of logs, in one of the ingesters, once an hour.
//
// What may go wrong:
//
//     no memory (4), or an object       It is let go, and is the next one's turn. When all had a
//     is damaged                        turn at a damaged one, its rest is read (wal_read.c), and
//                                       answers for the stream are not complete.
//     the store fails (4)               It is let go, and tried again after some seconds.
//     two adopt it (3)                  Both have all of it, and one answer for each stream counts.
//                                       Names of parts decide who flushes what (flush.h).
//     the owner was only asleep         It meets the seal and goes on in a new stream. It may
//                                       answer for the old one too; then its answer counts.
//     this process drains               An adoption under way is let go at once.
//     this process ends                 The registration is still there: it is adopted anew.
#pragma once

#include "base/buf.h"
#include "base/ulid.h"

struct adopt;
struct ingester;

// Starts the threads. *out is NULL if there is nothing that could be adopted: without a store, or
// with a log on disk.
bool adopt_start(struct ingester *in, struct adopt **out, err *e) MUST_CHECK;
void adopt_stop(struct adopt *a);  // ends adoptions under way; NULL is fine
void adopt_free(struct adopt *a);  // once nobody asks it anything any more; NULL is fine
void adopt_gauges(struct adopt *a);

// Step 4 by itself; a worker does it when a stream is due, and tests whenever they like. damaged:
// an object that cannot be read is left out (wal_terms), otherwise the stream is not taken. *n: how
// many cuts it has. May not run when the log is not open (adopt_may). Any threads, each with a
// stream of its own. (takeover.c)
bool adopt_may(struct ingester *in);
bool adopt_take_over(struct ingester *in, id128 stream, bool damaged, size_t *n, err *e) MUST_CHECK;

// Appends the fields of a StreamsResponse that say which processes were seen lately.
void adopt_put(struct adopt *a, struct buf *out);
