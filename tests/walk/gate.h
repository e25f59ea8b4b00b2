// SPDX-License-Identifier: Apache-2.0
//
// gate.h - operations of a store go one after the other, in the order that a die chooses.
//
// Whoever is about to do an operation waits at the gate (gate_wait, from hooks of memstores). The
// one thread that drives the walk lets one through at a time and waits until the world is quiet
// again: whoever was let through is back at the gate, or has ended. A thread may also go to sleep
// without telling (a duty that has nothing to do, somebody who waits for another); then a few
// milliseconds of silence are quiet enough. So walks of one seed are alike, not the same to the
// last step.
#pragma once

#include "base/base.h"

#include <pthread.h>

struct waiting {
    struct waiting *next;
    bool granted;
};

struct gate {
    pthread_mutex_t mutex;
    pthread_cond_t moved;
    struct waiting *first;  // in order of arrival
    unsigned waiting;
    unsigned moves;  // arrivals and ends
    bool open;
};

void gate_init(struct gate *g);
void gate_release(struct gate *g);

void gate_wait(struct gate *g);  // until let through
void gate_note(struct gate *g);  // somebody ended

// For the driver: how many wait; lets the n-th through, or nobody if there are fewer, and waits for
// quiet.
unsigned gate_count(struct gate *g);
void gate_grant(struct gate *g, unsigned n);

// Waits until somebody moved since `moves` was read, or for silence.
unsigned gate_moves(struct gate *g);
void gate_settle(struct gate *g, unsigned moves);

// From now on all go through at once, or again only those that are let through.
void gate_open(struct gate *g, bool open);
