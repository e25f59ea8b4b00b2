// SPDX-License-Identifier: Apache-2.0
//
// compact.h - the compactor's plan and jobs, apart from the rest: its names meet others' there.
#pragma once

#include "manifest/manifest.h"

#include <pthread.h>

enum compact_end {
    COMPACT_NOTHING,  // no job is due
    COMPACT_DONE,
    COMPACT_FAILED
};

struct copies;

// What a worker does wrong (world.h).
enum job_mistake {
    JOB_RIGHT,
    JOB_HASTY,  // what a commit did not do for certain is deleted
    JOB_AGAIN,  // a leaf whose commit is refused is named without its sources
    JOB_KEPT    // a job that was not done stays taken
};

// Jobs that stay taken: of all workers, as if they were of one process.
struct taken_jobs {
    pthread_mutex_t lock;
    unsigned n;
    struct {
        int kind;
        int64_t from_hour;
    } v[256];
};

struct job_way {
    int64_t retention_ns;  // how long leaves are kept; 0: for ever
    enum job_mistake mistake;
    struct taken_jobs *taken;
    struct copies *copies;  // when a leaf may expire; NULL: at once
};

// One of the first due jobs of the tenant, planned from a snapshot of now. `random` says which, and
// how large blocks may become.
enum compact_end walk_job(struct manifests *ms, struct store *s, struct mem_budget *memory,
                          struct req *r, str tenant, const struct job_way *way, uint64_t random,
                          err *e);

// A change of the manifest that no job may make: a leaf expires that only it has the rows of, or,
// with `dropped`, parents go that alone have the sums of an expired one. False: there is none.
bool walk_wrong_change(struct manifests *ms, struct req *r, str tenant, int64_t retention_ns,
                       bool dropped);
