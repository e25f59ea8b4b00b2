// SPDX-License-Identifier: Apache-2.0
//
// inventory.h - what there is: how many profiles and series, from when to when, and how large
// (message Stats).
#pragma once

#include "base/err.h"
#include "base/str.h"

struct buf;

struct inventory {
    uint64_t profiles;
    uint64_t series;
    int64_t oldest_ns;  // of no profiles: 0
    int64_t newest_ns;
    uint64_t samples;        // these four only if sizes are asked for
    uint64_t profile_bytes;  // of rows and vectors
    uint64_t symbol_bytes;   // of the tables of services with rows here
    uint64_t index_bytes;    // of their series and postings
};

// Profiles of which the first and the last are at these times. None change nothing.
void inventory_count(struct inventory *x, uint64_t profiles, int64_t first_ns, int64_t last_ns);

// Adds everything of another; one without profiles adds nothing.
void inventory_merge(struct inventory *x, const struct inventory *other);

// Message Stats: as a field, and added from its bytes. *any: whether it has profiles.
void inventory_encode(const struct inventory *x, struct buf *out, uint32_t field);
bool inventory_merge_bytes(struct inventory *x, str bytes, bool *any, err *e) MUST_CHECK;
