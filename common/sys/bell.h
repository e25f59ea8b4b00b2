// SPDX-License-Identifier: Apache-2.0
//
// bell.h - one thread waits until another one rings.
//
// For threads that are woken one by one, such as workers of a lane and writers of a log. A
// condition would have whoever wakes take its mutex at once, for which the one who rings it may
// still hold it, and costs two system calls more each time. What is said before a ring is seen
// behind it; whatever else the two share is theirs to guard.
//
//     SILENT --bell_await, which sleeps--> AWAITED --bell_ring, which wakes--> RUNG
//     SILENT --bell_ring--> RUNG --bell_await--> SILENT
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

// All zeros: silent. Needs no release.
struct bell {
    _Atomic uint32_t state;
};

// Any thread; rings that nobody took are one. What the bell lies in may go as soon as the other one
// returns, which may be before this does. True: the other one slept, so the kernel was asked.
bool bell_ring(struct bell *b);

// One thread at a time; returns once rung, and the bell is silent then. True: it slept.
bool bell_await(struct bell *b);
