// SPDX-License-Identifier: Apache-2.0
//
// stall.h - an ingester that stops answering for a while, as a stopped process or a suspended
// machine does: the kernel takes what it is sent, it does nothing itself, and goes on later as if
// no time had passed.
//
// Whoever pushes passes it over; what it was sent may be stored when it returns, after another
// ingester acknowledged the same rows. Whoever asks names it as missing. What it was doing at the
// store stands still.
#pragma once

#include "base/base.h"

struct bundle;
struct node;
struct seat;
struct world;
struct actor;

#define STALL_LATE 64

struct late {  // a push that waits for the return
    unsigned numbers[2];
    unsigned n;
    uint32_t attempt;
    uint64_t placing;
};

struct stall {  // of a node; under the world's lock
    bool stalled;
    unsigned times;  // it began
    int64_t since_ns;
    struct late late[STALL_LATE];
    unsigned late_count;
};

void stall_act(struct world *w, struct actor *a);  // begins, lasts, ends
void stall_kill(struct world *w, struct node *n);  // it dies meanwhile: nothing is stored any more

// Is it stalled? Then the push waits for its return and has no answer.
bool stall_takes(struct world *w, struct node *n, const struct bundle *rows, uint32_t attempt,
                 uint64_t placing);
bool stall_is(struct world *w, struct node *n);
bool stall_any(struct world *w);

// Whoever uses the store for a stalled node stands still.
void stall_hold(struct seat *s);

// A marked answer: was it allowed, and does it say what is missing?
struct http_exchange;
void stall_marked(struct world *w, struct http_exchange *x, bool allowed);

// For how long may time go on? What was sent to an ingester that stood still it takes soon after
// its return.
int64_t stall_room_ns(struct world *w);
