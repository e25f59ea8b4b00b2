// SPDX-License-Identifier: Apache-2.0
//
// thread.h - threads with a name and a stack of known size.
//
// All signals that the main thread waits for (signal.h) are blocked in it before the first thread
// starts and stay blocked in threads started here.
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

// Calls fn(arg) in a thread of its own with so much stack, and waits for it: for code that is not
// ours and recurses deeper than a worker's stack allows. Fails as thread_start().
bool thread_call(const char *name, size_t stack_bytes, void (*fn)(void *arg), void *arg,
                 err *e) MUST_CHECK;

// Processors that this process may use, at least 1.
unsigned thread_cpus(void);
