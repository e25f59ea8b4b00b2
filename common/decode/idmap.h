// SPDX-License-Identifier: Apache-2.0
//
// idmap.h - from the ids of a sender, which may be any 64-bit numbers, to rows.
//
// Most senders number rows 1..n; some use addresses. Ids below a small multiple of n are looked up
// in an array, the others in a hash index with a secret key, so that no sender can choose
// collisions.
#pragma once

#include "base/arena.h"
#include "base/map.h"

struct idmap {
    const uint64_t *ids;  // of the rows; borrowed
    uint32_t *dense;      // row + 1 of each id below limit; 0 = none
    uint64_t limit;
    struct map sparse;
};

// Of rows with equal ids the last counts; id 0 is found only if a row has it. `m` lives in the
// arena, whose release also frees the index. Fails with resource_exhausted.
bool idmap_build(struct idmap *m, struct arena *a, const uint64_t *ids, uint32_t n,
                 err *e) MUST_CHECK;

uint32_t idmap_sparse(const struct idmap *m, uint64_t id);

// The row; MAP_NONE if there is none.
static inline uint32_t idmap_row(const struct idmap *m, uint64_t id)
{
    return id < m->limit ? m->dense[id] - 1 : idmap_sparse(m, id);
}
