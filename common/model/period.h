// SPDX-License-Identifier: Apache-2.0
//
// period.h - the period of several profiles, for exported ones: that of all that state one, if they
// agree. If they do not, there is none that an exported profile could state.
#pragma once

#include "base/base.h"

#define PERIOD_SEVERAL (-1)

// Merges a period, or a merged one, into another. 0: none was stated yet.
static inline void period_merge(int64_t *to, int64_t one)
{
    if (one != PERIOD_SEVERAL && one <= 0) return;  // states none
    *to = *to == 0 || *to == one ? one : PERIOD_SEVERAL;
}
