// SPDX-License-Identifier: Apache-2.0
//
// wide.h - sums that may exceed 64 bits, so that the last sum decides what fits and no order does.
//
// Values may be negative: a sum can leave int64 on its way and come back. Two int64 hold it:
//
//     value = low + carry * 2^64        it fits int64 exactly if carry is 0, and is low then
//
// Where nearly all sums fit, the two halves lie apart: dense `low` as ever, and `carry` beside it
// only where it is needed (model/merge.h).
#pragma once

#include "base/base.h"

struct wide {
    int64_t low;
    int64_t carry;
};

static inline void wide_add_to(int64_t *low, int64_t *carry, int64_t v)
{
    // Unsigned: what counts carries has room for 2^63 of them.
    if (__builtin_add_overflow(*low, v, low))
        *carry = (int64_t)((uint64_t)*carry + (v < 0 ? UINT64_MAX : 1));
}

static inline void wide_add(struct wide *to, int64_t v)
{
    wide_add_to(&to->low, &to->carry, v);
}

static inline void wide_unite(struct wide *to, struct wide from)
{
    wide_add(to, from.low);
    to->carry = (int64_t)((uint64_t)to->carry + (uint64_t)from.carry);
}

// += v * factor
static inline void wide_add_product(struct wide *to, int64_t v, int64_t factor)
{
    __int128 product = (__int128)v * factor;
    int64_t low = (int64_t)product;
    wide_unite(to, (struct wide){low, (int64_t)((product - low) >> 64)});
}

static inline bool wide_fits(struct wide v)
{
    return v.carry == 0;
}

static inline bool wide_negative(struct wide v)
{
    return v.carry ? v.carry < 0 : v.low < 0;
}

// The nearest int64.
static inline int64_t wide_clip(struct wide v)
{
    if (v.carry == 0) return v.low;
    return v.carry < 0 ? INT64_MIN : INT64_MAX;
}

static inline int wide_cmp(struct wide a, struct wide b)
{
    if (a.carry != b.carry) return a.carry < b.carry ? -1 : 1;
    return a.low < b.low ? -1 : a.low > b.low;
}

// How far from 0, for comparing.
static inline unsigned __int128 wide_size(struct wide v)
{
    unsigned __int128 bits =
        ((unsigned __int128)(uint64_t)v.carry << 64) + (unsigned __int128)(__int128)v.low;
    return wide_negative(v) ? -bits : bits;
}
