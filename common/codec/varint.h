// SPDX-License-Identifier: Apache-2.0
//
// varint.h - LEB128 integers, as protobuf's "Encoding" page defines them, and zigzag.
//
// Inline because every inner loop of Flametree reads them. A reader leaves its position alone on
// failure: cut off, longer than 10 bytes, or more than 64 bits.
#pragma once

#include "base/err.h"

#define VARINT_MAX 10

static inline size_t varint_put(uint8_t *p, uint64_t v)
{
    size_t n = 0;
    for (; v > 0x7f; v >>= 7)
        p[n++] = (uint8_t)(v | 0x80);
    p[n++] = (uint8_t)v;
    return n;
}

// Bytes that varint_put writes.
static inline size_t varint_size(uint64_t v)
{
    return (size_t)(63 - __builtin_clzll(v | 1)) / 7 + 1;
}

// The slow path of varint_get: more than one byte, or an end.
bool varint_get_long(const uint8_t **p, const uint8_t *end, uint64_t *v) MUST_CHECK;

static inline MUST_CHECK bool varint_get(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
    if (*p < end && **p < 0x80) {
        *v = *(*p)++;
        return true;
    }
    return varint_get_long(p, end, v);
}

// Behind the n-th number from `at` on, whatever its size; NULL if fewer end before `end`. Numbers
// end where the top bit is not set, which is counted for eight bytes at once.
const uint8_t *varint_skip(const uint8_t *at, const uint8_t *end, uint64_t n);

static inline uint64_t zigzag(int64_t v)
{
    return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

static inline int64_t unzigzag(uint64_t v)
{
    return (int64_t)(v >> 1 ^ (0 - (v & 1)));
}
