// SPDX-License-Identifier: Apache-2.0
#include "sys/clock.h"

#include <time.h>

static int64_t read_ns(clockid_t id)
{
    struct timespec t;
    int failed = clock_gettime(id, &t);
    assert(!failed);
    (void)failed;
    return (int64_t)t.tv_sec * NS_PER_S + t.tv_nsec;
}

int64_t clock_wall_ns(void)
{
    return read_ns(CLOCK_REALTIME);
}

uint64_t clock_mono_ns(void)
{
    return (uint64_t)read_ns(CLOCK_MONOTONIC);
}
