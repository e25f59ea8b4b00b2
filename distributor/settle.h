// SPDX-License-Identifier: Apache-2.0
//
// settle.h - the lists of ingesters that this distributor has used lately, and whether the home of
// a record was the same in all of them. A weight that changes (cluster/place.h) makes another list.
//
// A client that repeats a push with its id may reach a distributor that has another list by now, or
// the same one after a change of its list. The record then has another home, and if both homes got
// it with attempt 0 it would count twice. So after a change, for cluster.settle_time, a record
// whose home differs among the lists has none: every ingester gets it with attempt 1 at least, as a
// loose record (common/model/loose.h), and each query counts it once.
//
//     lists    L1 ______________| L2 ______________
//     home     of L1            | none, if L1 and L2 differ for the record | of L2
//                               <-------------- settle_time -------------->
//
// The lists are kept in <data>/members too, so that a restart forgets none. A process without that
// file does not know which lists other distributors have used: no record has a home until
// settle_time has passed.
//
// Any thread may call these functions.
#pragma once

#include "cluster/place.h"

#define SETTLE_LISTS 16  // more within settle_time: no record has a home until they are past

struct settle;

// path: the file; it is read now. settle_ns 0: all lists count as settled. *out is owned.
bool settle_open(const char *path, uint64_t settle_ns, uint64_t mono_ns, struct settle **out,
                 err *e) MUST_CHECK;
// Writes the file anew. NULL is fine.
void settle_close(struct settle *s, uint64_t mono_ns);

// Lists other than the present one that a record's home is to be compared with.
struct settle_past {
    struct member *lists[SETTLE_LISTS];  // in the arena, all alive
    size_t counts[SETTLE_LISTS];
    size_t n;
    size_t most;   // members of the longest of them
    bool unknown;  // there may be others: no record has a home
};

// Notes that `members` are the list of now, and tells the others. A list that is new is written to
// the file first; if that fails it is logged, and it holds in memory. Fails for lack of memory.
bool settle_use(struct settle *s, const struct member *members, size_t n, uint64_t mono_ns,
                struct arena *a, struct settle_past *past, err *e) MUST_CHECK;
