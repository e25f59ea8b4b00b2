// SPDX-License-Identifier: Apache-2.0
//
// lane.h - bounded pools of workers, one a rank and service, where handlers run and may block.
//
// A full lane refuses at once (resource_exhausted, with the lane's name and limit); a job that
// waited longer than the lane's age limit, whose deadline passed or whose asker went away meanwhile
// is refused as well, when its turn comes. Within a lane tenants take turns (round robin over
// tenants with waiting jobs), and jobs of one tenant run in order. Metrics are
// flametree_lane_* (metrics.def).
//
// Of the threads that are idle the one that went last comes first: as long as one suffices, one
// does all, with its memory warm.
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
    struct req *req;             // whose tenant takes turns; lives at least as long as the job
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

// Makes the calling thread one of the lane's for a while, if a job would begin at once: nobody
// waits and a place is free. What it does until lane_leave counts as a job of the lane. *before
// keeps the rank that the thread had. False: the lane is busy or drains; submit a job instead.
bool lane_enter(struct lane *l, int *before);
void lane_leave(struct lane *l, int before);

// The rank of the lane that runs the calling thread; -1 outside of lanes.
int lane_rank_here(void);
