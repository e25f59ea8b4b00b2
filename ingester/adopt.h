// SPDX-License-Identifier: Apache-2.0
//
// adopt.h - takes over the streams of processes that are gone, out of the object store: an ingester
// with ingester.log: object needs no disk that survives it.
//
// A thread looks once a second at the processes that have registered streams (streams.h):
//
//     1. Which of them answer? The prober's results tell of members; others are probed at the
//        address of their registration.
//     2. Whose streams are ownerless, and which of these are this ingester's turn (ownerless.h)?
//        Those of a former process of this node are at once.
//     3. No ingester that answers has seen the process lately, or has the stream; and it is still
//        registered.
//     4. It is adopted: sealed, its cuts found (wal_adopt), read (replay.c), and revealed, all at
//        once (head_reveal). Until then this ingester answers nothing for it.
//     5. The flush compares its cuts with the store, and what is not there goes there. Then its
//        registration and its objects go (roll.h, wal_object_streams.c).
//
// What may go wrong:
//
//     no memory (4), or the head of     It is let go, and is the next one's turn. When all had a
//     an object is damaged              turn at a damaged one, its rest is read, as that of an
//                                       object which is damaged elsewhere (wal_read.c), and
//                                       answers for the stream are not complete.
//     two adopt it (3)                  Both have all of it, and one answer for each stream counts.
//                                       Names of parts decide who flushes what (flush.h).
//     the owner was only asleep         It meets the seal and goes on in a new stream. It may
//                                       answer for the old one too; then its answer counts.
//     this process ends                 The registration is still there: it is adopted anew.
#pragma once

#include "base/buf.h"
#include "base/ulid.h"

struct adopt;
struct ingester;

// Starts the thread. *out is NULL if there is nothing that could be adopted: without a store, or
// with a log on disk.
bool adopt_start(struct ingester *in, struct adopt **out, err *e) MUST_CHECK;
void adopt_stop(struct adopt *a);  // NULL is fine

// Step 4 by itself; the thread does it when a stream is due, and tests whenever they like. damaged:
// an object that cannot be read is left out (wal_terms), otherwise the stream is not taken. *n: how
// many cuts it has. May not run when the log is not open (adopt_may), or twice at once.
bool adopt_may(struct ingester *in);
bool adopt_take_over(struct ingester *in, id128 stream, bool damaged, size_t *n, err *e) MUST_CHECK;

// Appends the fields of a StreamsResponse that say which processes were seen lately.
void adopt_put(struct adopt *a, struct buf *out);
