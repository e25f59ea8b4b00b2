// SPDX-License-Identifier: Apache-2.0
#include "unit/ingester/log_clock.h"

_Atomic int64_t log_clock_ns;

int64_t log_boot(void)
{
    return atomic_load(&log_clock_ns);
}

int64_t log_wall(void)
{
    return INT64_C(1790000000000000000) + log_boot();
}
