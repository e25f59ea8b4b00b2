// SPDX-License-Identifier: Apache-2.0
#include "lib/crowd.h"

bool crowd_has(uint64_t hash)
{
    return (hash >> 32 & (CROWD_SLOTS - 1)) < CROWD_WINDOW;
}
