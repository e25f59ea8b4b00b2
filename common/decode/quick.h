// SPDX-License-Identifier: Apache-2.0
//
// quick.h - reads protobuf's numbers without a check for the end at every byte.
//
// Only for messages behind which QUICK_SLACK bytes of the body follow, so that reading a number
// past the message's end stays within the body. These readers know only the plain form, which
// nearly all messages have: small field numbers, numbers of up to eight bytes, and an end where the
// last number ends. At anything else they give up, and the caller reads the message again the
// careful way, which finds the fault or accepts the odd form. So they decide nothing but speed.
#pragma once

#include "base/base.h"

#include <endian.h>
#include <string.h>

#define QUICK_SLACK  16
#define QUICK_INLINE static inline __attribute__((always_inline))

// A number of three to eight bytes; NULL if it is longer. Reads eight bytes and keeps those up to
// the first whose high bit is clear. Then the groups of 7 bits are joined: in pairs, fours, eights.
QUICK_INLINE const uint8_t *quick_long(const uint8_t *p, uint64_t *v)
{
    uint64_t w = 0;
    memcpy(&w, p, sizeof w);
    w = le64toh(w);
    uint64_t ends = ~w & 0x8080808080808080u;
    if (ends == 0) return NULL;
    w &= ends ^ (ends - 1);
    w = (w & 0x007f007f007f007fu) | (w & 0x7f007f007f007f00u) >> 1;
    w = (w & 0x00003fff00003fffu) | (w & 0x3fff00003fff0000u) >> 2;
    *v = (w & 0x0fffffffu) | (w & 0x0fffffff00000000u) >> 4;
    return p + __builtin_ctzll(ends) / 8 + 1;
}

// Reads the number at p; returns the place behind it, or NULL.
QUICK_INLINE const uint8_t *quick_number(const uint8_t *p, uint64_t *v)
{
    uint64_t first = p[0];
    *v = first;
    if (first < 0x80) return p + 1;
    uint64_t second = p[1];
    *v = (first & 0x7f) | second << 7;
    if (second < 0x80) return p + 2;
    return quick_long(p, v);
}

// The bits that are 0 in a tag of one byte (field 1 to 15) and wire type 0, a number: 0fff f000.
#define QUICK_TAG_ZEROS 0x87

// Reads a message of numbers only: v[field] for fields up to `top`, at most 15. If it gives up, the
// careful way will write the same values again.
QUICK_INLINE bool quick_numbers(const uint8_t *p, const uint8_t *end, uint64_t *v, uint32_t top)
{
    while (p < end) {
        uint32_t tag = *p++;
        uint32_t field = tag >> 3;
        if ((tag & QUICK_TAG_ZEROS) != 0 || field - 1 >= top) return false;
        p = quick_number(p, &v[field]);
        if (!p) return false;
    }
    return p == end;
}

// Reads the length at *p and moves *p behind it. False if the length takes more than two bytes, or
// reaches beyond `end`.
QUICK_INLINE bool quick_length(const uint8_t **p, const uint8_t *end, size_t *n)
{
    size_t first = (*p)[0];
    if (first < 0x80) {
        *n = first;
        *p += 1;
    } else {
        size_t second = (*p)[1];
        *n = (first & 0x7f) | second << 7;
        *p += 2;
        if (second >= 0x80) return false;
    }
    return *p <= end && *n <= (size_t)(end - *p);
}
