// SPDX-License-Identifier: Apache-2.0
//
// loop.h - threads that own sockets, timers and transfers (libuv).
//
// A loop thread runs callbacks that never block. Other threads reach it by loop_post,
// loop_post_later and loop_run only; functions that belong to its thread assert loop_assert.
// Handlers of requests run in lanes (lane.h).
#pragma once

#include "base/err.h"

#include <uv.h>

struct loop;

// Starts the thread. Returns owned.
struct loop *loop_new(const char *name, err *e) MUST_CHECK;

// Ends the thread when every handle is closed (net closes its own first), joins it, and asserts
// that uv_loop_close found nothing left.
void loop_free(struct loop *l);

uv_loop_t *loop_uv(struct loop *l);
bool loop_is_here(const struct loop *l);  // is the calling thread this loop's?
void loop_assert(const struct loop *l);   // aborts if it is not
bool loop_is_any_here(void);              // is it the thread of any loop? Then it must not wait

// A task is embedded in its owner; it may be posted again once it ran.
struct loop_task {
    struct loop_task *next;
    void (*run)(struct loop_task *t);
};
void loop_post(struct loop *l, struct loop_task *t);  // any thread; tasks run in order

// The same for a task that can wait until the loop wakes for another reason: it does not wake the
// loop. Such tasks run after those of loop_post, or when the loop calls loop_catch_up.
void loop_post_later(struct loop *l, struct loop_task *t);
void loop_catch_up(struct loop *l);

uint64_t loop_woken(const struct loop *l);  // number of times that other threads woke it

// Runs fn(arg) on the loop and waits for it. Not from the loop itself.
void loop_run(struct loop *l, void (*fn)(void *arg), void *arg);
