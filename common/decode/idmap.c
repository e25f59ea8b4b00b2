// SPDX-License-Identifier: Apache-2.0
//
// idmap.c - an array for small ids, an index for the others.
#include "decode/idmap.h"

#include "base/hash.h"

// An array of up to this many entries per row is cheaper than an index: 16 bytes a row against 8 to
// 16, and one load a look-up.
#define DENSE_PER_ROW 4
#define DENSE_MIN     1024

struct probe {
    const uint64_t *ids;
    uint64_t id;
};

static bool same_id(const void *ctx, uint32_t row)
{
    const struct probe *p = ctx;
    return p->ids[row] == p->id;
}

static void release_index(void *arg)
{
    map_release(arg);
}

bool idmap_build(struct idmap *m, struct arena *a, const uint64_t *ids, uint32_t n, err *e)
{
    *m = (struct idmap){.ids = ids};
    map_init(&m->sparse, a->budget);
    uint64_t bound = (uint64_t)n * DENSE_PER_ROW + DENSE_MIN;
    uint64_t top = 0;
    bool all_dense = true;
    for (uint32_t row = 0; row < n; row++) {
        if (ids[row] >= bound) {
            all_dense = false;
        } else if (ids[row] > top) {
            top = ids[row];
        }
    }
    m->limit = top + 1;
    assert(m->limit <= bound);  // so the array is a small multiple of n, whatever the ids are
    m->dense = ARENA_ARRAY(a, uint32_t, m->limit);
    if (!m->dense || (!all_dense && !arena_defer(a, release_index, &m->sparse))) {
        return arena_fail(a, e);
    }
    // From the last row on, and the first one that is met stays: of equal ids the last row counts.
    for (uint32_t row = n; row-- > 0;) {
        // Ids are the sender's: small and dense as a rule, addresses or hashes now and then.
        uint64_t id = ids[row];
        if (id < m->limit) {
            if (m->dense[id] == 0) m->dense[id] = row + 1;
        } else if (idmap_sparse(m, id) == MAP_NONE &&
                   !map_put(&m->sparse, hash_table_word(id), row, e)) {
            return false;
        }
    }
    return true;
}

uint32_t idmap_sparse(const struct idmap *m, uint64_t id)
{
    if (m->sparse.count == 0) return MAP_NONE;
    return map_find(&m->sparse, hash_table_word(id), same_id, &(struct probe){m->ids, id});
}
