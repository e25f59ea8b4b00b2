// SPDX-License-Identifier: Apache-2.0
//
// roll.h - numbered objects in the store that say how far a data directory is flushed
// (manifest/holding.h).
//
//     number n is created        all that was acknowledged by then, and for an interval more,
//                                lies in cuts that are marked
//     all marked cuts are gone   number n + 1 is created, those before n are deleted
//
// A cut leaves the log once segments have its rows. So number n + 1 says: everything is flushed
// that was acknowledged before the creation of number n had returned. The interval before the
// marking gives a process that stood still time to store what was sent to it meanwhile.
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

// Notes that this number is in the store, created by this process or by an earlier one with the
// same directory. What an earlier process left in the log is marked like everything else.
void roll_noted(struct roll *l, uint64_t number, int64_t boot_ns);

// Whether the next number is due. Marks cuts when it is time to.
bool roll_is_due(struct roll *l, struct wal *wal, int64_t boot_ns, int64_t interval_ns);

// If the next number is due, creates it and deletes those before the last two, number 0 as well.
// own: the other fields of the object. False: the store failed; try again later.
bool roll_step(struct roll *l, struct wal *wal, struct store *s, struct req *r,
               const struct holding *own, int64_t interval_ns, err *e) MUST_CHECK;
