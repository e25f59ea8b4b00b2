// SPDX-License-Identifier: Apache-2.0
//
// buckets.c - extents and the look-up of a bucket.
#include "aggregate/buckets.h"

#include "base/search.h"
#include "codec/pb.h"

void extent_add(struct extent *x, int64_t value)
{
    if (x->count == 0 || value < x->least) x->least = value;
    if (x->count == 0 || value > x->largest) x->largest = value;
    x->count++;
}

void extent_merge(struct extent *x, const struct extent *other)
{
    if (other->count == 0) return;
    if (x->count == 0 || other->least < x->least) x->least = other->least;
    if (x->count == 0 || other->largest > x->largest) x->largest = other->largest;
    x->count += other->count;
}

void extent_encode(const struct extent *x, struct buf *out, uint32_t field)
{
    size_t mark = pb_begin(out, field);
    pb_put_u64_opt(out, 1, x->count);
    pb_put_u64_opt(out, 2, zigzag(x->least));
    pb_put_u64_opt(out, 3, zigzag(x->largest));
    pb_end(out, mark);
}

bool extent_merge_bytes(struct extent *x, str bytes, err *e)
{
    uint64_t v[4] = {0};
    struct pb_reader r = pb_reader(bytes);
    while (pb_next(&r)) {
        if (r.type == PB_VARINT && r.field < COUNT(v)) v[r.field] = r.number;
    }
    if (!pb_done(&r, e)) return false;
    struct extent other = {.count = v[1], .least = unzigzag(v[2]), .largest = unzigzag(v[3])};
    extent_merge(x, &other);
    return true;
}

bool buckets_check(const struct buckets *b, err *e)
{
    for (size_t i = 1; i < b->n; i++) {
        if (b->bounds[i] >= b->bounds[i - 1]) continue;
        return err_set(e, ERR_INVALID_ARGUMENT,
                       "lower bound %zu of a heat map is %lld, below the one before (%lld)", i,
                       (long long)b->bounds[i], (long long)b->bounds[i - 1]);
    }
    return true;
}

bool buckets_at(const struct buckets *b, int64_t value, uint32_t *bucket)
{
    if (b->n == 0 || value < b->bounds[0] || value > b->largest) return false;
    size_t above = SEARCH(at, 1, b->n, b->bounds[at] <= value);
    assert(above <= b->n && b->bounds[above - 1] <= value);
    *bucket = (uint32_t)(above - 1);
    return true;
}
