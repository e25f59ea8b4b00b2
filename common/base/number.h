// SPDX-License-Identifier: Apache-2.0
//
// number.h - arithmetic of whole numbers that encoders of columns share.
#pragma once

#include "base/base.h"

// |v|, which of INT64_MIN only the unsigned type holds.
static inline uint64_t number_magnitude(int64_t v)
{
    return v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
}

// The greatest common divisor of g and v, where g = 0 is "none yet".
static inline uint64_t number_gcd(uint64_t g, uint64_t v)
{
    if (g != 0 && v % g == 0) return g;  // values are mostly multiples of one of them
    while (v != 0) {
        uint64_t rest = g % v;
        g = v;
        v = rest;
    }
    return g;
}
