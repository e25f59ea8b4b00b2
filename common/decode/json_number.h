// SPDX-License-Identifier: Apache-2.0
//
// json_number.h - numbers of JSON formats, which are doubles by their nature. Private to this room.
#pragma once

#include "base/str.h"

#include <math.h>
#include <stdlib.h>

// A number as json_next returns it; false if it is not finite or longer than any double is.
static inline MUST_CHECK bool json_double(str text, double *v)
{
    char z[400];
    if (text.n >= sizeof z) return false;
    memcpy(z, text.p, text.n);
    z[text.n] = '\0';
    *v = strtod(z, NULL);
    return isfinite(*v);
}

static inline double json_round(double v)
{
    return nearbyint(v);
}

static inline MUST_CHECK bool json_i64_of(double v, int64_t *out)
{
    if (!(v >= -0x1p63 && v < 0x1p63)) return false;
    *out = (int64_t)json_round(v);
    return true;
}
