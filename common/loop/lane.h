// SPDX-License-Identifier: Apache-2.0
//
// lane.h - bounded pools of workers, one per rank and service, where handlers run and may block.
//
// A full lane refuses at once (resource_exhausted, with the lane's name and limit). When a job's
// turn comes, it is refused if it waited longer than the lane's age limit, if its deadline has
// passed, or if its client has gone away. Within a lane tenants take turns (round robin over
// tenants with waiting jobs), and jobs of one tenant run in order. Metrics are
// flametree_lane_* (metrics.def).
//
// Of the idle threads the one that fell asleep last is woken first. As long as one thread suffices,
// the same one does all the work, with its memory in the processor's caches.
#pragma once

#include "loop/req.h"

struct lane;

struct lane_options {
    const char *name;  // such as "ingester.append"
    enum rank rank;
    unsigned width;         // threads, started on demand
    unsigned queue_max;     // jobs admitted beyond `width`
    uint64_t queue_age_ns;  // refused when older; 0 = no limit
};

struct job {
    struct job *next;            // private
    uint64_t queued_mono_ns;     // private
    struct req *req;             // its tenant takes turns; lives at least as long as the job
    void (*run)(struct job *j);  // in a worker
    void (*refuse)(struct job *j,
                   const err *e);  // in a worker, instead of run
};

struct lane *lane_new(const struct lane_options *o, err *e) MUST_CHECK;  // returns owned

// Any thread. False: j was not taken and neither run nor refuse will be called. The job is the
// lane's until one of them is called, and may be freed by them.
bool lane_submit(struct lane *l, struct job *j, err *e) MUST_CHECK;

// Takes a job back that has not begun: true, and neither run nor refuse will be called. Any thread.
bool lane_withdraw(struct lane *l, struct job *j);

void lane_drain(struct lane *l);  // refuses new jobs, waits for all inside
void lane_free(struct lane *l);   // after drain, when no thread is in a call of it any more; joins

unsigned lane_sleepers(struct lane *l);  // threads that sleep until there is a job

// Makes the calling thread a worker of the lane until lane_leave, if a job would begin at once: no
// job waits and a place is free. Its work meanwhile counts as a job of the lane. *before receives
// the rank that the thread had. False: the lane is busy or drains; submit a job instead.
bool lane_enter(struct lane *l, int *before);
void lane_leave(struct lane *l, int before);

// The rank of the lane that runs the calling thread; -1 outside of lanes.
int lane_rank_here(void);
