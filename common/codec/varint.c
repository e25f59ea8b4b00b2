// SPDX-License-Identifier: Apache-2.0
#include "codec/varint.h"

bool varint_get_long(const uint8_t **p, const uint8_t *end, uint64_t *v)
{
    const uint8_t *at = *p;
    uint64_t sum = 0;
    for (unsigned shift = 0; at < end && shift < 70; shift += 7) {
        uint8_t byte = *at++;
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
