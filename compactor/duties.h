// SPDX-License-Identifier: Apache-2.0
//
// duties.h - the table of what a compactor does, and the state that each duty is in.
//
//     BUILT       done as soon as it is due
//     NOT_BUILT   this version cannot do it; data stays as it is until one can
//     OFF         built, but switched off here: no storage, or compactor.workers is 0
#pragma once

#include "base/buf.h"

enum duty_state {
    DUTY_BUILT,
    DUTY_NOT_BUILT,
    DUTY_OFF,
    DUTY_STATES
};

struct duty {
    const char *name;
    enum duty_state state;
    const char *sentence;
};

// The table; borrowed for the life of the process.
const struct duty *duties_list(size_t *count);
const char *duty_state_name(enum duty_state s);

// The state of a duty where the compactor is switched on or off.
enum duty_state duty_state(const struct duty *d, bool on);

// {"duties":[{"name":...,"state":...,"does":...},...]}
void duties_print(struct buf *out, bool on);
