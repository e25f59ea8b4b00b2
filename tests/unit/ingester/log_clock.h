// SPDX-License-Identifier: Apache-2.0
//
// log_clock.h - the clocks that a log in the store is given by its tests (struct wal_options): time
// goes by when a test says so.
#pragma once

#include "base/base.h"
#include "sys/clock.h"

#include <stdatomic.h>

extern _Atomic int64_t log_clock_ns;

int64_t log_boot(void);
int64_t log_wall(void);
