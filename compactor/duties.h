// SPDX-License-Identifier: Apache-2.0
//
// duties.h - the table of what a compactor does, and the state that each duty is in.
//
//     IDLE        built; nothing to do now
//     RUNNING     at work
//     NOT_BUILT   this version cannot do it; data stays as it is until one can
//     OFF         built, but switched off here
#pragma once

#include "base/buf.h"

enum duty_state {
    DUTY_IDLE,
    DUTY_RUNNING,
    DUTY_NOT_BUILT,
    DUTY_OFF,
    DUTY_STATES
};

struct duty {
    const char *name;
    enum duty_state state;
    const char *sentence;
};

// The table as it is now; borrowed for the life of the process.
const struct duty *duties_list(size_t *count);
const char *duty_state_name(enum duty_state s);

// {"duties":[{"name":...,"state":...,"does":...},...]}
void duties_print(struct buf *out);
