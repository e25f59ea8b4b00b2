// SPDX-License-Identifier: Apache-2.0
//
// stuck.h - finds a log whose disk hangs.
//
// With a disk that hangs every append waits, while the process lives, answers probes and serves
// queries from memory. It is *stuck* when appends are inside and none has returned for a while;
// then /ready says no, and pushes go to other ingesters. Any thread.
#pragma once

#include "base/base.h"

#include <stdatomic.h>

#define STUCK_NS (UINT64_C(3) * 1000000000)

struct stuck {
    atomic_uint inside;
    _Atomic uint64_t moved_mono_ns;  // when the last one returned, or the first one entered
};

void stuck_enter(struct stuck *s);
void stuck_leave(struct stuck *s);

// For how long none has returned although some are inside; 0: none is inside.
uint64_t stuck_for_ns(struct stuck *s);
