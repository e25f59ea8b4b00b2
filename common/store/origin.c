// SPDX-License-Identifier: Apache-2.0
//
// origin.c - reads of a block's pieces as reads of the store's object.
#include "store/origin.h"

static bool read_pieces(const struct block_origin *from, const struct block_piece *v, size_t n,
                        size_t *failed, err *e)
{
    struct req *r = from->call;
    struct mem_budget *memory = r->arena.budget;
    bool ok = true;
    assert(n > 0 && n <= BLOCK_PIECES_MAX);
    *failed = 0;
    struct store_read *reads = mem_alloc(memory, n * sizeof *reads, e);
    if (!reads) return false;
    for (size_t i = 0; i < n; i++) {
        reads[i] =
            (struct store_read){.name = v[i].name, .at = v[i].at, .n = v[i].n, .to = v[i].to};
    }
    // One call for all, so that the store may join and overlap them. The first that failed is told.
    store_read_many(from->store, r, reads, n);
    for (size_t i = 0; ok && i < n; i++) {
        ok = reads[i].ok;
        if (ok) continue;
        *failed = i;
        *e = reads[i].fault;
    }
    mem_free(memory, reads, n * sizeof *reads);
    return ok;
}

static bool is_alive(const struct block_origin *from, err *e)
{
    return req_alive(from->call, e);
}

static const struct block_origin_kind store_kind = {read_pieces, is_alive};

struct block_origin store_origin(struct store *s, struct req *r)
{
    assert(s && r);
    return (struct block_origin){&store_kind, s, r};
}
