// SPDX-License-Identifier: Apache-2.0
//
// choose.h - chooses the parents of the segment tree that count for a child window, and the leaves
// that they name. Pure.
#pragma once

#include "compactor/plan.h"

// Sets of leaves are ascending arrays.
struct leaf_set {
    const id128 *v;
    size_t n;
};

static inline int id_cmp(id128 a, id128 b)
{
    return memcmp(a.b, b.b, sizeof a.b);
}
// The block of a leaf among live ones in order of id; NULL: it is not live.
const struct manifest_block *leaf_of(const struct manifest_block *const *live, size_t n, id128 id);

bool leaf_set_has(const struct leaf_set *s, id128 id);
bool leaf_set_within(const struct leaf_set *part, const struct leaf_set *whole);
// out = a + b; the arena's.
bool leaf_set_union(struct arena *a, const struct leaf_set *x, const struct leaf_set *y,
                    struct leaf_set *out, err *e) MUST_CHECK;

// (Of a service that is cut by its series all parts stand here, or none.)
struct chosen_part {
    const struct manifest_block *block;
    uint32_t pack_lo;
    uint32_t pack_hi;
};
struct chosen {
    struct chosen_part *parts;
    size_t n;
    struct leaf_set leaves;  // that they name
    bool partial;            // one of them in some packs only
};

// Chooses from the candidates those that count for hours [hour, hour + hours), such that no leaf is
// summed twice; those that name most leaves come first. A gap (classes 0) stands for the leaves
// that it names, as a block with sums does, and a job's result has a gap there too. Leaves are
// `live` (in order of id), or expired.
struct choice {
    const struct plan_state *state;
    const struct manifest_block *const *candidates;
    size_t n;
    const struct manifest_block *const *live;
    size_t live_count;
};
bool choose(struct arena *a, const struct choice *c, int64_t hour, uint32_t hours,
            struct chosen *out, err *e) MUST_CHECK;
