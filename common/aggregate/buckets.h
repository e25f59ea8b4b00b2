// SPDX-License-Identifier: Apache-2.0
//
// buckets.h - the rows of a heat map: ranges of values, and the extent that they divide.
//
// Bucket i holds the values v with bounds[i] <= v < bounds[i + 1]; the last bucket those up to and
// including `largest`. Bounds ascend, and neighbours may be equal (in a heat map of few distinct
// values): a value belongs to the last bucket whose bound is not above it.
#pragma once

#include "base/err.h"
#include "base/str.h"

struct buf;

// How many values there are, the least and the largest; without values both are 0.
struct extent {
    uint64_t count;
    int64_t least;
    int64_t largest;
};
void extent_add(struct extent *x, int64_t value);
void extent_merge(struct extent *x, const struct extent *other);

// Message HeatExtent: written as a field, and merged from its bytes.
void extent_encode(const struct extent *x, struct buf *out, uint32_t field);
bool extent_merge_bytes(struct extent *x, str bytes, err *e) MUST_CHECK;

struct buckets {
    const int64_t *bounds;  // borrowed
    size_t n;               // 0: only the extent is asked for
    int64_t largest;
};

// Fails with invalid_argument if bounds descend.
bool buckets_check(const struct buckets *b, err *e) MUST_CHECK;

// The bucket of a value. False if no bucket holds it. Bounds were checked (buckets_check).
bool buckets_at(const struct buckets *b, int64_t value, uint32_t *bucket);
