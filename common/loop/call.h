// SPDX-License-Identifier: Apache-2.0
//
// call.h - an operation in flight, started by a job, finished by a loop; and the only waits on
// them.
//
//     1. the starter (such as http_start) embeds a struct call and calls call_begin
//     2. the loop calls call_finish, once
//     3. the job calls call_wait or call_gather; after that the result is the job's
//
// 2 and 3 may come in any order. If the wait ends early (deadline, cancel), the call is asked to
// stop by its `stop` function and still finishes on the loop. call_wait returns only after that, so
// the loop never writes into memory that the starter has freed.
#pragma once

#include "loop/req.h"

struct call_group;

struct call {
    enum rank rank;                      // rank of the lane that will do the work
    void (*stop)(struct call *c);        // any thread: ask the loop to end it soon; may come twice
    _Atomic(struct call_group *) group;  // private: the waiting job's group, or a mark for "done"
    bool done;                           // may be read after the wait, as may the fields below
    bool ok;
    uint64_t ended_mono_ns;  // the wait may end much later, with other calls
    err fault;               // if done and not ok
};

void call_begin(struct call *c, enum rank rank, void (*stop)(struct call *c));

// Called by the loop, once; fault NULL = it went well. From then on the call is the job's: the loop
// must not touch it again.
void call_finish(struct call *c, const err *fault);

// Has it finished? Then a wait returns at once, and the result is only read after that.
bool call_is_over(const struct call *c);

// Waits until done, the deadline or cancel. True if the call went well; otherwise *e is its fault.
bool call_wait(struct req *r, struct call *c, err *e) MUST_CHECK;

// Waits for n calls. Returns when all are done, or `need` of them went well and stop_rest is true
// or cannot any more (the rest are stopped and awaited). True if at least `need` went well;
// otherwise *e is why the wait ended early (deadline_exceeded, canceled) or the first fault.
// Deadline and cancel are seen within a tenth of a second. Not from a loop.
bool call_gather(struct req *r, struct call *const *calls, size_t n, size_t need, bool stop_rest,
                 err *e) MUST_CHECK;

// The same, and meanwhile look(arg) is called every so often (0: about ten times a second), by the
// thread that waits: it may end single calls with call_stop, because there is no use in waiting for
// them, and begin others. NULL: none.
struct call_watch {
    void (*look)(void *arg);
    void *arg;
    uint64_t every_ns;
};
bool call_gather_watched(struct req *r, struct call *const *calls, size_t n, size_t need,
                         bool stop_rest, const struct call_watch *watch, err *e) MUST_CHECK;

// Asks the loop to end a call that is not over yet. The job must still wait for it. Any thread.
void call_stop(struct call *c);
