// SPDX-License-Identifier: Apache-2.0
//
// placings.h - by which lists of ingesters records got their homes.
//
// A distributor decides the home of a record with a client's id by its list of ingesters, their
// weights, and the numbers of the settings that say among how many of them the home is. A hash of
// all these is a *placing* (place_print, cluster/place.h). Distributors with the same placing give
// a record the same home; with different ones they may give it two, and both get it with attempt 0.
// So where rows of more than one placing meet, the rows with a client's id are loose, whatever
// their attempt (model/loose.h).
//
// Heads keep the placing of each such row, and blocks have the set of them in their footers.
//
// Pure.
#pragma once

#include "base/base.h"
#include "codec/pb.h"

// Prints are odd, so these are none.
#define PLACING_UNKNOWN UINT64_C(2)       // a distributor of an older version, which tells none
#define PLACING_MANY    (UINT64_MAX - 1)  // several that were too many to keep apart

#define PLACINGS_MAX 16

struct placings {
    uint64_t v[PLACINGS_MAX];  // ascending, each once
    uint32_t n;
};

// 0 adds nothing. What does not fit makes the whole set PLACING_MANY.
void placings_add(struct placings *s, uint64_t placing);
void placings_join(struct placings *s, const struct placings *other);

// Whether records of this set may have several homes.
bool placings_differ(const struct placings *s);

// As a field of fixed64, packed; and back: adds those of the bytes of such a field. Fails with
// invalid_argument if they end within a number.
void placings_put(const struct placings *s, uint32_t field, struct buf *out);
bool placings_read(struct placings *s, str bytes, err *e) MUST_CHECK;
