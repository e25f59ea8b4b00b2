// SPDX-License-Identifier: Apache-2.0
//
// varint.c - numbers of more than one byte, and passing over many of them, eight bytes at a time.
#include "codec/varint.h"

#include <endian.h>
#include <string.h>

#define ONES UINT64_C(0x0101010101010101)
#define TOPS (ONES << 7)

bool varint_get_long(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
    const uint8_t *at = *p;
    uint64_t sum = 0;
    for (unsigned shift = 0; at < end && shift < 70; shift += 7) {
        uint8_t byte = *at++;
        // The tenth byte has the 64th bit only.
        if (shift == 63 && byte > 1) return false;
        sum |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *p = at;
            *v = sum;
            return true;
        }
    }
    return false;
}

const uint8_t *varint_skip(const uint8_t *at, const uint8_t *end, uint64_t n)
{
    while (n > 0 && end - at >= 8) {
        uint64_t word = 0;
        memcpy(&word, at, sizeof word);
        uint64_t ends = (~le64toh(word) >> 7 & ONES) * ONES;  // in each byte those up to it
        // The last byte of `ends` is how many numbers end in this word. The n-th ends in it: the
        // first byte whose count reaches n is found by a subtraction in all bytes at once.
        if (ends >> 56 >= n) {
            uint64_t enough = ((ends | TOPS) - n * ONES) & TOPS;
            return at + __builtin_ctzll(enough) / 8 + 1;
        }
        n -= ends >> 56;
        at += 8;
    }
    while (n > 0 && at < end)
        n -= *at++ < 0x80;
    return n == 0 ? at : NULL;
}
