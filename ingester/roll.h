// SPDX-License-Identifier: Apache-2.0
//
// roll.h - the sequence of the objects that a data directory has in the store (manifest/holding.h).
//
//     number n is created        all that was acknowledged by then, and for an interval more,
//                                lies in cuts that are marked
//     all marked cuts are gone   number n + 1 is created, those before n are deleted
//
// A cut goes from the log once segments have its rows. So number n + 1 says that everything is
// flushed that was acknowledged before the creation of number n was over. The interval lets a
// process that stood still take what was sent to it meanwhile, before it says so.
//
// One thread at a time.
#pragma once

#include "ingester/log/wal.h"
#include "manifest/holding.h"

struct roll_cut {
    id128 stream;
    uint64_t number;
};

struct roll {
    uint64_t number;   // the highest that is known to be there; 0: none
    int64_t since_ns;  // boot clock when that became known
    bool has_marked;
    struct roll_cut *marked;
    size_t marked_count;
    size_t marked_bytes;
};

void roll_release(struct roll *l);

// Number n is in the store, of this process or of one that had the directory before. What such a
// one left in the log is marked like everything else.
void roll_noted(struct roll *l, uint64_t number, int64_t boot_ns);

// Is the next number due? Marks cuts when it is time to.
bool roll_is_due(struct roll *l, struct wal *wal, int64_t boot_ns, int64_t interval_ns);

// If it is, creates it and deletes those before the last two. own: the rest of what the object
// says. False: the store failed; the same again later.
bool roll_step(struct roll *l, struct wal *wal, struct store *s, struct req *r,
               const struct holding *own, int64_t interval_ns, err *e) MUST_CHECK;
