// SPDX-License-Identifier: Apache-2.0
//
// stuck.h - does the log still store what comes?
//
// A disk that hangs lets every append wait, while the process lives, answers probes and serves
// queries out of memory. So it says that it is not ready, and pushes go to others: appends are
// inside, and none has come back for a while. Any thread.
#pragma once

#include "base/base.h"

#include <stdatomic.h>

#define STUCK_NS (UINT64_C(3) * 1000000000)

struct stuck {
    atomic_uint inside;
    _Atomic uint64_t moved_mono_ns;  // the last one came back, or the first one went in
};

void stuck_enter(struct stuck *s);
void stuck_leave(struct stuck *s);

// For how long has none come back, although some are inside? 0: nobody waits.
uint64_t stuck_for_ns(struct stuck *s);
