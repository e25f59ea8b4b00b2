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

// Once a process, before anything looks at the clock.
void clock_take_over(void);
void clock_pass(int64_t ns);

// Of time limits.
void clock_pass_mono(int64_t ns);
