// SPDX-License-Identifier: Apache-2.0
//
// clock.h - time that goes by when a test says so: the clocks of this process (FLAMETREE_CLOCK of
// common/sys/clock.h). In builds with fault points only.
#pragma once

#include "base/base.h"
#include "sys/clock.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

static _Atomic int64_t *clock_shifts;  // wall, boot, mono

// Once a process, before anything looks at the clock.
static inline void clock_take_over(void)
{
    char path[] = "/tmp/flametree-clock-XXXXXX";
    int fd = mkstemp(path);
    if (fd < 0 || ftruncate(fd, 3 * sizeof *clock_shifts) != 0) abort();
    void *p = mmap(NULL, 3 * sizeof *clock_shifts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) abort();
    clock_shifts = p;
    setenv("FLAMETREE_CLOCK", path, 1);
    (void)clock_wall_ns();  // maps it
    close(fd);
    unlink(path);
}

static inline void clock_pass(int64_t ns)
{
    atomic_fetch_add(&clock_shifts[0], ns);
    atomic_fetch_add(&clock_shifts[1], ns);
}

// Of time limits.
static inline void clock_pass_mono(int64_t ns)
{
    atomic_fetch_add(&clock_shifts[2], ns);
}
