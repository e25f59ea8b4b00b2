// SPDX-License-Identifier: Apache-2.0
//
// place.c - rendezvous hashing: each member draws a number from its id and the key, and the highest
// are taken.
#include "cluster/place.h"

#include "base/hash.h"

#include <stdio.h>

// The scores of so many members are kept during a step; beyond, each comparison computes them
// anew.
#define KEPT 1024

#define FEW 32  // are sorted by insertion, which compares less for so many

// Of logarithms, after the point. At a thousand members the first ones' are about 2^-10, and these
// bits tell them apart to a part in 2^16.
#define LOG_BITS 26

// Candidates are kept in an order array that each step sorts by its own scores; a step keeps the
// best k and passes them on.
struct ranking {
    const struct member *members;
    uint32_t *order;
    bool weighted;          // not all weights are the same
    struct hash_state key;  // of the step, before the member's id
    uint64_t scores[KEPT];
};

static uint64_t draw(const struct ranking *r, uint32_t row)
{
    assert(r->members[row].id.n > 0);
    struct hash_state h = r->key;
    hash_add(&h, "\xff", 1);
    hash_add(&h, r->members[row].id.p, r->members[row].id.n);
    return hash_end(&h);
}

// -log2(h / 2^64), with LOG_BITS after the point; at least 1. Squaring the mantissa gives the
// logarithm's next bit. A larger h never gives a larger result.
static uint64_t minus_log(uint64_t h)
{
    if (h == 0) return UINT64_C(64) << LOG_BITS;
    int zeros = __builtin_clzll(h);
    uint64_t mantissa = h << zeros;  // of 1 <= x < 2, with 63 bits after the point
    uint64_t log = (uint64_t)(63 - zeros);
    for (int i = 0; i < LOG_BITS; i++) {
        unsigned __int128 square = (unsigned __int128)mantissa * mantissa >> 63;
        uint64_t bit = (uint64_t)(square >> 64);
        mantissa = (uint64_t)(square >> bit);
        log = log << 1 | bit;
    }
    return (UINT64_C(64) << LOG_BITS) - log;
}

static uint64_t make_score(const struct ranking *r, uint32_t row)
{
    uint64_t h = draw(r, row);
    if (!r->weighted) return h;
    // 2^10 is above MEMBER_WEIGHT_MAX, so that the product has room.
    _Static_assert(MEMBER_WEIGHT_MAX <= 1 << 10, "a weight and 53 bits fit into 64");
    return ((uint64_t)member_weight(&r->members[row]) << 53) / minus_log(h);
}

static uint64_t score(const struct ranking *r, uint32_t row)
{
    return row < KEPT ? r->scores[row] : make_score(r, row);
}

// Does row a come before row b? Equal scores are decided by the numbers drawn, so that equal
// weights have the same order in every list, and by id, so that all distributors come to the same
// order, however their lists are ordered.
static bool before(const struct ranking *r, uint32_t a, uint32_t b)
{
    uint64_t x = score(r, a);
    uint64_t y = score(r, b);
    if (x == y && r->weighted) {
        x = draw(r, a);
        y = draw(r, b);
    }
    if (x != y) return x > y;
    return str_cmp(r->members[a].id, r->members[b].id) < 0;
}

static void sort_few(const struct ranking *r, uint32_t *v, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        uint32_t row = v[i];
        size_t at = i;
        while (at > 0 && before(r, row, v[at - 1])) {
            v[at] = v[at - 1];
            at--;
        }
        v[at] = row;
    }
}

// Puts v[at] where it belongs in a heap of n rows, whose last one in order is at its top.
static void sink(const struct ranking *r, uint32_t *v, size_t at, size_t n)
{
    uint32_t row = v[at];
    for (size_t child = 2 * at + 1; child < n; child = 2 * at + 1) {
        if (child + 1 < n && before(r, v[child], v[child + 1])) child++;
        if (!before(r, row, v[child])) break;
        v[at] = v[child];
        at = child;
    }
    v[at] = row;
}

static void sort_many(const struct ranking *r, uint32_t *v, size_t n)
{
    for (size_t i = n / 2; i-- > 0;)
        sink(r, v, i, n);
    for (size_t end = n; end-- > 1;) {
        uint32_t last = v[0];
        v[0] = v[end];
        v[end] = last;
        sink(r, v, 0, end);
    }
}

static void rank(struct ranking *r, size_t from, size_t to)
{
    assert(from <= to);
    for (size_t i = from; i < to; i++) {
        if (r->order[i] < KEPT) r->scores[r->order[i]] = make_score(r, r->order[i]);
    }
    if (to - from <= FEW)
        sort_few(r, r->order + from, to - from);
    else
        sort_many(r, r->order + from, to - from);
}

static bool is_weighted(const struct member *members, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        if (member_weight(&members[i]) != member_weight(&members[0])) return true;
    }
    return false;
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

    // Not zeroed: the scores that are read were written by the step.
    struct ranking r;
    r.members = members;
    r.order = order;
    r.weighted = is_weighted(members, n);
    hash_begin(&r.key);
    hash_add(&r.key, tenant.p, tenant.n);
    // The others in a stable order, too: they are tried when no live one answers.
    rank(&r, live, n);
    // Each step sorts only those that the step before kept: so all series of a tenant stay within
    // its members, and those of a service within the service's. Where it kept all, its own order is
    // of no use.
    size_t subset = keep(o->tenant_members, live);
    size_t owners = keep(o->service_members, subset);
    if (subset < live) rank(&r, 0, live);

    // 0xff occurs in no UTF-8 text, so it separates the parts: ("a", "bc") is not ("ab", "c").
    hash_add(&r.key, "\xff", 1);
    hash_add(&r.key, service.p, service.n);
    if (owners < subset) rank(&r, 0, subset);

    hash_add(&r.key, "\xff", 1);
    uint8_t le[8];  // the byte order must not depend on the machine: all nodes compute the same
    for (size_t i = 0; i < sizeof le; i++)
        le[i] = (uint8_t)(labels_hash >> (8 * i));
    hash_add(&r.key, le, sizeof le);
    rank(&r, 0, owners);
}

uint64_t place_print(const struct member *members, size_t n, const struct place_options *o)
{
    struct hash_state h;
    char text[80];
    hash_begin(&h);
    for (size_t i = 0; i < n; i++) {
        assert(i == 0 || str_cmp(members[i - 1].id, members[i].id) < 0);
        int end = snprintf(text, sizeof text, "\xff%u\xff", member_weight(&members[i]));
        hash_add(&h, members[i].id.p, members[i].id.n);
        hash_add(&h, text, (size_t)end);
    }
    int end = snprintf(text, sizeof text, "%zu %zu", keep(o->tenant_members, n),
                       keep(o->service_members, n));
    hash_add(&h, text, (size_t)end);
    return hash_end(&h) | 1;
}
