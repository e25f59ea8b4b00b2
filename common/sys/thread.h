// SPDX-License-Identifier: Apache-2.0
//
// thread.h - threads with a name and a stack of known size.
//
// The main thread blocks the signals that it waits for (signal.h) before it starts the first
// thread, and threads inherit that.
#pragma once

#include "base/err.h"

#include <pthread.h>

#define THREAD_STACK_BYTES ((size_t)512 << 10)

// Starts fn(arg), which ends by returning. `name` shows in tools (its first 15 bytes) and labels
// the thread's own profiles (31 bytes; sampler.h). Fails with resource_exhausted when the system
// gives no thread.
bool thread_start(pthread_t *t, const char *name, void *(*fn)(void *arg), void *arg,
                  err *e) MUST_CHECK;
void thread_join(pthread_t t);

// Calls fn(arg) in a new thread with a stack of that size, and waits for it: for library code that
// recurses deeper than a worker's stack allows. Fails as thread_start().
bool thread_call(const char *name, size_t stack_bytes, void (*fn)(void *arg), void *arg,
                 err *e) MUST_CHECK;

// Processors that this process may use, at least 1.
unsigned thread_cpus(void);
