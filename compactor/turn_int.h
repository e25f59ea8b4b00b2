// SPDX-License-Identifier: Apache-2.0
//
// turn_int.h - a worker's turn of a tenant, shared by
//
//     inspect.c   its steps
//     batch.c     makes jobs and names their blocks
//     outcome.c   notes what became of a job
//
// A turn belongs to one worker and lies on its stack. Of another worker's turn only the batch may
// be touched, and only while it waits for its commit (batch.c).
#pragma once

#include "compactor/work_int.h"

#define BATCH_MAX 64                 // jobs of one turn that wait for their commit
#define JOB_BYTES ((size_t)1 << 30)  // cap of what a job reads into its request

// A job that is made and waits for its commit.
struct batch_job {
    struct job_result job;
    struct held held;
    uint64_t took_ns;
};

enum batch_state {
    BATCH_OPEN,     // more jobs may come
    BATCH_WAITS,    // in the tenant's list, for whoever commits next
    BATCH_TAKEN,    // a worker of the tenant commits it
    BATCH_LANDED,   // the manifest names its blocks
    BATCH_REFUSED,  // it does not: fault says why
    BATCH_FAILED,   // nobody knows: fault says why
};

// The jobs of a turn that are made: to be named by one change of the manifest.
struct batch {
    struct batch_job v[BATCH_MAX];
    size_t n;
    bool helps;              // all of them are other processes' jobs; or none is
    uint64_t begun_mono_ns;  // when its first was made

    // While it waits for its commit, under the lock; once it is taken, the one who took it has it.
    const struct agenda *agenda;
    enum batch_state state;
    bool alone;  // it was taken without other batches
    err fault;
    struct batch *next;
};

struct turn {
    struct worker *me;
    struct tenant_work *tenant;
    const struct req *asker;  // the run that waits; NULL: a worker's turn
    uint64_t begun_mono_ns;
    struct agenda *agenda;  // the plan of which it has jobs; NULL: none
    struct req req;         // of the jobs of a batch
    bool has_req;
    struct held now;  // the job that is being made
    struct batch batch;
    struct manifest *newest;  // as last looked for, while it has jobs of this plan; or NULL
    uint64_t newest_mono_ns;  // when,
    size_t newest_jobs;       // and at which job
    size_t jobs;
    bool inspected;    // it made a plan
    bool sweep_found;  // the sweep deleted something, or some objects have to wait
    bool swept;
};

// ---- batch.c; without the lock

// Makes the job in u->now and adds it to the batch, which has jobs of one kind only; commits the
// batch if it is full, or before if the job is of another kind.
void batch_make(struct turn *u, const struct share_pick *p);

// Names the blocks of all jobs that wait, and lets the jobs go.
void batch_commit(struct turn *u);

// The version that was last looked for is no use for jobs of another plan.
void batch_forget_newest(struct turn *u);

// ---- outcome.c; without the lock
void outcome_done(struct turn *u, const struct batch_job *b);
void outcome_lost(struct turn *u, const struct task *j, const char *result);  // others did it
void outcome_failed(struct turn *u, const struct task *j, const struct job_report *report,
                    const err *e);
