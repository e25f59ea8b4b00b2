// SPDX-License-Identifier: Apache-2.0
//
// bell.h - one thread waits until another one rings.
//
// For threads that are woken one by one, such as workers of a lane and writers of a log. With a
// condition variable the woken thread takes the mutex at once, which the waking thread may still
// hold; that costs two more system calls each time. Writes before a ring are visible after the
// wait; other shared data needs a lock as usual.
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

// Any thread. Several rings before a wait count as one. As soon as the waiting thread has returned,
// which may be before this function does, it may free the bell's memory. True: that thread slept,
// so the kernel was called.
bool bell_ring(struct bell *b);

// One thread at a time; returns once rung, and the bell is silent then. True: it slept.
bool bell_await(struct bell *b);
