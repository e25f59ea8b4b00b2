// SPDX-License-Identifier: Apache-2.0
//
// inventory.h - how many profiles and series match a query, from when to when, and how large they
// are (message Stats).
#pragma once

#include "base/err.h"
#include "base/str.h"

struct buf;

struct inventory {
    uint64_t profiles;
    uint64_t series;
    int64_t oldest_ns;  // 0 without profiles
    int64_t newest_ns;
    uint64_t samples;        // these four only if sizes are asked for
    uint64_t profile_bytes;  // of rows and vectors
    uint64_t symbol_bytes;   // of the tables of services with rows here
    uint64_t index_bytes;    // of their series and postings
};

// Adds profiles, the first and the last of which are at these times. With 0 profiles nothing
// changes.
void inventory_count(struct inventory *x, uint64_t profiles, int64_t first_ns, int64_t last_ns);

// Adds everything of another; one without profiles adds nothing.
void inventory_merge(struct inventory *x, const struct inventory *other);

// Message Stats: written as a field, and merged from its bytes. *any: whether it has profiles.
void inventory_encode(const struct inventory *x, struct buf *out, uint32_t field);
bool inventory_merge_bytes(struct inventory *x, str bytes, bool *any, err *e) MUST_CHECK;
