// SPDX-License-Identifier: Apache-2.0
//
// symbol.h - decode_options.symbol_max.
#pragma once

#include "model/losses.h"

static inline bool symbol_is_long(str s, uint32_t most)
{
    return most > 0 && s.n > most;
}

// The last `most` bytes of a longer string, from the beginning of a character; 0 = all of it. Who
// keeps the string counts it (LOSS_SYMBOL_LENGTH), once if it is met several times.
static inline str symbol_cut(str s, uint32_t most)
{
    if (!symbol_is_long(s, most)) return s;
    size_t from = s.n - most;
    while (from < s.n && ((unsigned char)s.p[from] & 0xc0) == 0x80)
        from++;
    return str_slice(s, from, s.n);
}
