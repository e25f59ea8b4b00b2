// SPDX-License-Identifier: Apache-2.0
//
// presence.h - which data directories are in use: whether a process that has one answers at the
// address that it registered.
#pragma once

#include "base/arena.h"
#include "base/ulid.h"
#include "cluster/node.h"

struct process;

struct presence {
    str address;
    id128 directory;
    bool there;                // a process with this directory answers at the address,
    struct node_identity who;  // and this is what it says; the arena's
};

// Asks all at once, within a second. Who cannot be asked, for lack of memory as well, is not there.
void presence_ask(const struct process *p, struct arena *a, struct presence *v, size_t n);
