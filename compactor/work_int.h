// SPDX-License-Identifier: Apache-2.0
//
// work_int.h - tenants and workers, shared by work.c (threads), look.c (a tenant's turn) and
// status.c (what is told of them).
#pragma once

#include "compactor/job.h"
#include "compactor/work.h"
#include "sys/lock.h"
#include "sys/thread.h"

#define FAILURES_MAX 32
#define DAMAGES_MAX  256
#define TRIED_MAX    4
#define MESSAGE_MAX  512
#define STATUS_TEXT  32

// A job that failed and waits for its next try.
struct failure {
    enum job_kind kind;
    int64_t from_hour;
    unsigned tries;
    uint64_t retry_mono_ns;
    int64_t at_wall_ns;
    enum err_code code;
    char message[MESSAGE_MAX];
};

// What cannot be read, and when it is looked at again.
struct damage {
    bool is_segment;
    struct segment_name segment;
    id128 block;
    unsigned looks;  // that found it no better
    uint64_t look_mono_ns;
};

// A tenant. Fields below the line are under the lock; only who has `busy` changes them.
struct tenant_work {
    char *name;
    bool busy;
    bool listed;  // has data, as the last list said
    uint64_t next_look_mono_ns;
    uint64_t next_sweep_mono_ns;
    struct sweep_seen seen;  // only who has `busy` looks at it

    bool looked;
    size_t segments;  // in no leaf
    int64_t oldest_hour;
    int64_t newest_hour;
    size_t blocks;
    size_t gaps;  // of them those without sums: one does not fit 64 bits
    uint64_t version;
    size_t due[JOB_KINDS];
    int64_t due_since_ns[JOB_KINDS];  // of the one that waits longest
    uint64_t due_bytes;               // that the due jobs read
    uint64_t jobs_done;
    int64_t done_at_ns;  // wall clock of the last
    bool running;
    enum job_kind running_kind;
    int64_t running_hour;
    int64_t running_since_ns;
    struct failure *failures;  // made as they come: of thousands of tenants few have any
    size_t failure_count;
    size_t failure_cap;
    struct damage *damages;
    size_t damage_count;
    size_t damage_cap;
    struct damage tried[TRIED_MAX];  // the last that could be read again, a ring
    size_t tried_count;
    char fault[MESSAGE_MAX];  // of the last look; empty: it went well
};

struct worker {
    struct work *work;
    struct mem_budget memory;
    pthread_t thread;
    struct req *req;      // under the lock: of the look under way, to be called off
    bool forced;          // does what others may do as well
    bool sweeps;          // whether it is time or not
    struct worker *next;  // of the runs under way
};

struct work {
    const struct process *process;
    struct manifests *manifests;
    char *scratch;
    struct mem_budget memory;  // of manifests and looks
    struct lock lock;
    struct cond wake;
    bool stopping;
    bool joined;
    bool listing;
    bool listed;  // at least once
    uint64_t next_list_mono_ns;
    struct tenant_work **tenants;
    size_t tenant_count;
    size_t tenant_cap;
    struct worker *workers;
    size_t worker_count;  // that run
    struct worker *runs;  // work_run under way
};

const struct compactor_config *work_settings(const struct work *w);
bool work_is_over(struct work *w);

// A turn of a tenant that the worker has made busy. *done: jobs that changed something. False only
// if the tenant could not be looked at.
bool look(struct worker *me, struct tenant_work *t, const struct req *asker, uint64_t *done,
          err *e) MUST_CHECK;
size_t tenant_backlog(const struct tenant_work *t);  // under the lock

// ---- damage.c; under the lock but for the last
void damage_note(struct work *w, struct tenant_work *t, const struct damage *d);
bool damage_has_segment(const struct tenant_work *t, const struct segment_name *s);
bool damage_has_block(const struct tenant_work *t, id128 id);

// Looks at objects that could not be read, as far as that is due (or `all` of them); those that are
// whole again, or that nothing names any more, are left out no longer. Who has the tenant busy.
void damage_look(struct worker *me, struct tenant_work *t, const struct snapshot *s, struct req *r,
                 bool all);

// ---- status.c; those of tenants under the lock
const char *status_time(char text[STATUS_TEXT], int64_t ns);
const char *status_hour(char text[STATUS_TEXT], int64_t hour);
const char *failure_action(enum err_code code);  // what a person can do

// How long the job that waits longest has been due; 0: none is.
int64_t tenant_behind_ns(const struct tenant_work *t, int64_t now_ns);
