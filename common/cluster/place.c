// SPDX-License-Identifier: Apache-2.0
//
// place.c - rendezvous hashing: each node gets a weight from its id and the key, and the heaviest
// are taken.
#include "cluster/place.h"

#include "base/hash.h"

// The weights of so many members are kept during a step; beyond, each comparison computes them
// anew.
#define KEPT 128

// Candidates are kept in an order array that each step sorts by its own weights; a step keeps the
// best k and passes them on. Sorting by insertion: clusters have tens of ingesters.
struct ranking {
    const struct member *members;
    uint32_t *order;
    struct hash_state key;  // of the step, before the member's id
    uint64_t weights[KEPT];
};

static uint64_t make_weight(const struct ranking *r, uint32_t row)
{
    assert(r->members[row].id.n > 0);
    struct hash_state h = r->key;
    hash_add(&h, "\xff", 1);
    hash_add(&h, r->members[row].id.p, r->members[row].id.n);
    return hash_end(&h);
}

static uint64_t weight(const struct ranking *r, uint32_t row)
{
    return row < KEPT ? r->weights[row] : make_weight(r, row);
}

// Does row a come before row b? Equal weights are decided by id, so that all distributors come to
// the same order, however their lists are ordered.
static bool before(const struct ranking *r, uint32_t a, uint32_t b)
{
    uint64_t wa = weight(r, a);
    uint64_t wb = weight(r, b);
    if (wa != wb) return wa > wb;
    return str_cmp(r->members[a].id, r->members[b].id) < 0;
}

static void rank(struct ranking *r, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        if (r->order[i] < KEPT) r->weights[r->order[i]] = make_weight(r, r->order[i]);
    }
    assert(from <= to);
    for (size_t i = from + 1; i < to; i++) {
        uint32_t row = r->order[i];
        size_t at = i;
        while (at > from && before(r, row, r->order[at - 1])) {
            r->order[at] = r->order[at - 1];
            at--;
        }
        r->order[at] = row;
    }
}

static size_t keep(size_t wanted, size_t n)
{
    return wanted == 0 || wanted > n ? n : wanted;
}

static bool is_live(const struct member *m)
{
    return m->alive && !m->unready;
}

void place_order(const struct member *members, size_t n, const struct place_options *o, str tenant,
                 str service, uint64_t labels_hash, uint32_t *order)
{
    // Both groups in the order of the list: the live from the front, the others from the back.
    size_t live = 0;
    size_t dead = n;
    for (size_t i = 0; i < n; i++) {
        if (is_live(&members[i])) order[live++] = (uint32_t)i;
    }
    for (size_t i = n; i-- > 0;) {
        if (!is_live(&members[i])) order[--dead] = (uint32_t)i;
    }
    assert(live == dead);

    // Not zeroed: the weights that are read were written by the step.
    struct ranking r;
    r.members = members;
    r.order = order;
    hash_begin(&r.key);
    hash_add(&r.key, tenant.p, tenant.n);
    rank(&r, 0, live);
    rank(&r, live,
         n);  // the others in a stable order, too: they are tried when no live one answers
    // Each step sorts only those that the step before kept: so all series of a tenant stay within
    // its members, and those of a service within the service's.
    size_t subset = keep(o->tenant_members, live);

    // 0xff occurs in no UTF-8 text, so it separates the parts: ("a", "bc") is not ("ab", "c").
    hash_add(&r.key, "\xff", 1);
    hash_add(&r.key, service.p, service.n);
    rank(&r, 0, subset);
    size_t owners = keep(o->service_members, subset);

    hash_add(&r.key, "\xff", 1);
    uint8_t le[8];  // the byte order must not depend on the machine: all nodes compute the same
    for (size_t i = 0; i < sizeof le; i++)
        le[i] = (uint8_t)(labels_hash >> (8 * i));
    hash_add(&r.key, le, sizeof le);
    rank(&r, 0, owners);
}
