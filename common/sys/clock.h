// SPDX-License-Identifier: Apache-2.0
//
// clock.h - wall time and monotonic time, which never mix: *_wall_ns and *_mono_ns.
#pragma once

#include "base/base.h"

#define NS_PER_MS INT64_C(1000000)
#define NS_PER_S  INT64_C(1000000000)

int64_t clock_wall_ns(void);   // Unix nanoseconds
uint64_t clock_mono_ns(void);  // since some fixed point; never goes back
