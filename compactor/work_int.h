// SPDX-License-Identifier: Apache-2.0
//
// work_int.h - tenants and workers, shared by
//
//     work.c      threads, the list of tenants, runs that somebody waits for
//     turns.c     which tenant is next
//     idle.c      tenants without anything to do
//     agenda.c    plans that the workers of a tenant share
//     inspect.c   a worker's turn of a tenant; also batch.c and outcome.c (turn_int.h)
//     failures.c  jobs that failed and wait for their next try
//     deletion.c  profiles that are deleted on request
//     limit.c     how long blocks are kept, and how many bytes tenants may have
//     hold.c      data directories of ingesters that leaves wait for
//     damage.c    sources that cannot be read
//     status.c    the status
//
// All of struct work and struct tenant_work is under one lock, work.lock, except where a function
// says otherwise. It is given up while the store is asked.
#pragma once

#include "base/hash.h"
#include "base/map.h"
#include "compactor/job.h"
#include "compactor/keep.h"
#include "compactor/share.h"
#include "compactor/watch.h"
#include "compactor/work.h"
#include "manifest/stream.h"
#include "sys/lock.h"
#include "sys/thread.h"

#define FAILURES_MAX 32
#define DAMAGES_MAX  256
#define TRIED_MAX    4
#define MESSAGE_MAX  512

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

// A source that cannot be read, and when it is checked again.
struct damage {
    bool is_segment;
    struct segment_name segment;
    id128 block;
    unsigned inspections;         // checks that found it no better
    uint64_t inspection_mono_ns;  // the next one
};

// A plan of a tenant, of which its workers take jobs. Snapshot, plan and order do not change once
// it is made, and are read without the lock; the fields below the empty line are under the lock.
struct agenda {
    struct arena arena;
    struct snapshot snapshot;
    struct plan plan;
    struct keep_bytes bytes;
    struct keep_rule rule;  // what it retires blocks by
    struct keep keep;
    struct manifest_tombstone *tombstones;  // of the snapshot
    struct hide *hides;                     // the same
    size_t tombstone_count;
    struct share_pick *order;
    uint64_t round;         // the last round of the watch that had ended before the snapshot
    int64_t begun_ns;       // wall clock before the snapshot was taken
    int64_t begun_boot_ns;  // the same by the clock since boot
    uint64_t made_mono_ns;
    bool asked;   // made for a run that somebody waits for
    bool behind;  // one of its jobs should have been done long ago

    bool *taken;     // for each job: a worker has it, or it is over
    bool *ended;     // for each job: it is done
    size_t first;    // in the order: all jobs before it are taken
    unsigned users;  // the tenant, and turns that have jobs of it
    bool changed;    // something was done since: a new plan may find more
};

// A job that a worker has, until it is committed or given up. Meanwhile nobody begins a job with
// the same sources.
struct held {
    const struct task *task;
    int64_t since_ns;  // wall clock
    struct held *next;
};

// A job that was done while a plan was being made: the plan's snapshot may not have it.
struct done_lately {
    enum job_kind kind;
    int64_t from_hour;
    uint32_t hours;
};
#define DONE_LATELY_MAX 256

// A stream in which pushes of a tenant may still be acknowledged (confirm.h), for the status.
struct closing_wait {
    id128 stream;
    int64_t since_wall_ns;  // when this process missed it first
    char node[100];
    char why[200];
};

// Of a tenant that is being deleted (closing.c); `by` and the times belong to the worker that took
// it.
struct closing {
    bool taken;  // a worker takes a step
    struct closing_wait *waits;
    size_t wait_count;
    size_t wait_cap;
    id128 by;                // the tombstone that closed it
    int64_t closed_boot_ns;  // when this process first saw it closed by that
    int64_t empty_boot_ns;   // when it first saw that nothing is left; 0: it did not
};

#define IDLE_INTERVALS 10  // of compactor.interval: how often an idle tenant is looked at

// A tenant; under the lock. Of thousands of tenants a few have something to do, so the memory that
// only those need is allocated when they do.
struct tenant_work {
    char *name;
    bool listed;  // has data, as the last list said

    // turns.c
    bool ready;   // in the queue
    bool others;  // another process is its first compactor
    bool idle;    // nothing was due when it was last looked at
    struct tenant_work *before;
    struct tenant_work *behind;
    size_t rests_at;  // place in the heap, from 1 on; 0: none

    // idle.c; of an idle one
    uint64_t print;            // the print of its snapshot (manifest.h)
    unsigned settings;         // the number of the settings
    int64_t due_ns;            // when something becomes due; wall clock
    uint64_t plan_by_mono_ns;  // when it is planned for anew, whatever a LIST shows
    unsigned sweep_rest;       // intervals between sweeps

    uint64_t next_inspection_mono_ns;
    uint64_t next_sweep_mono_ns;
    struct agenda *agenda;  // the newest; NULL: none is made yet
    bool open;              // the plan may have a job for one more worker
    bool planning;          // a worker makes a new plan
    bool sweeping;
    struct sweep_seen seen;   // belongs to the worker that sweeps
    unsigned workers;         // that have a turn of it
    unsigned aborted;         // jobs in a row that lost their inputs
    uint64_t turn_mono_ns;    // when the last of their turns ended
    unsigned asked;           // runs that wait for it
    bool committing;          // a worker commits: of several at once all but one would begin anew
    struct batch *waiting;    // batches to be committed next; batch.c
    uint64_t raced_mono_ns;   // when the last of them was; 0: never
    uint64_t behind_mono_ns;  // the first plan of which was behind; 0: the last was not
    struct held *held;
    struct done_lately *lately;  // while planning; DONE_LATELY_MAX of them, or NULL
    size_t lately_count;
    bool lately_all;  // more jobs were done than could be noted

    struct closing *closing;  // NULL: it is not being deleted, as far as the last list said

    // limit.c
    struct keep_bytes bytes;  // what the tenant has
    uint64_t garbage_bytes;   // what the newest version names no more, and a sweep will delete
    uint64_t allowed;         // its part of what all may have; 0: any number
    uint64_t rule_print;      // of the rule of the newest plan
    uint32_t keep_hours[3];   // raw, hours, days by that plan; 0: for ever
    uint16_t deletions;       // that are not done
    bool by_size;             // they are shorter than the settings say
    bool over;                // and yet the tenant has too much
    bool inspected;           // a plan was made at least once

    // (Here, where they take no room.)
    bool damage_seen;  // all damages were checked since the run that waits began
    bool is_ill;       // the last look failed

    struct wish wish;    // belongs to the worker that plans
    size_t held_leaves;  // leaves past their time that wait for ingesters

    size_t segments;        // in no leaf
    size_t open_segments;   // of them those whose hour is not over; the first of these ends
    int64_t open_until_ns;  // at this time
    int64_t oldest_hour;
    int64_t newest_hour;
    size_t blocks;
    size_t gaps;  // of them those without sums: one does not fit 64 bits
    uint64_t version;
    uint32_t due[JOB_KINDS];
    uint32_t later[JOB_KINDS];        // could be done, and wait for their interval
    int64_t due_since_ns[JOB_KINDS];  // of the one that waits longest
    uint64_t due_bytes;               // that the due jobs read
    uint64_t jobs_done;
    int64_t done_at_ns;        // wall clock of the last
    struct failure *failures;  // made as they come: of thousands of tenants few have any
    size_t failure_count;
    size_t failure_cap;
    struct damage *damages;
    size_t damage_count;
    size_t damage_cap;
    struct damage tried[TRIED_MAX];  // the last that could be read again, a ring
    size_t tried_count;
    char *fault;  // why; MESSAGE_MAX bytes, or NULL if there was no memory
};

struct worker {
    struct work *work;
    struct mem_budget memory;
    pthread_t thread;
    struct req *req;      // under the lock: the request under way, which a drain cancels
    bool forced;          // of a run: also does jobs that are other processes' turn
    bool sweeps;          // of a run: sweeps whether it is time or not
    struct worker *next;  // in the list of runs under way
};

struct ready_queue {
    struct tenant_work *first;
    struct tenant_work *last;
};

struct work {
    const struct process *process;
    struct manifests *manifests;
    struct registry *registry;  // NULL: no store
    char *scratch;
    struct mem_budget memory;  // of what is noted of tenants
    struct mem_budget plans;
    struct lock lock;
    struct cond wake;
    bool stopping;
    bool joined;
    bool listing;
    bool listed;  // at least once
    uint64_t next_list_mono_ns;
    uint64_t next_tidy_mono_ns;  // belongs to the worker that lists
    struct tenant_work **tenants;
    size_t tenant_count;
    size_t tenant_cap;
    struct map by_name;            // rows of tenants
    struct ready_queue ready_own;  // turns.c
    struct ready_queue ready_others;
    unsigned turns_of_own;  // in a row
    struct tenant_work **resting;
    size_t resting_count;
    size_t resting_cap;
    uint64_t turns_inspected;          // tenants looked at to find whose turn it is; tests bound it
    struct compactor_config settings;  // as they were when tenants were last listed
    unsigned settings_number;          // how often they have changed
    struct worker *workers;
    size_t worker_count;     // that run
    struct worker *runs;     // work_run under way
    bool shared;             // the store had too much: tenants have their parts (limit.c)
    uint64_t share_mono_ns;  // not before this time there are new parts
    struct watch watch;
    struct registered streams;  // the list that the watch saw last
    int64_t round_boot_ns;      // when its round began
    bool leaves_wait;           // leaves wait until ingesters have flushed what they held
    uint64_t next_hold_mono_ns;
    char told[ULID_TEXT];  // the stream that the notice names; belongs to the worker that looks
};

struct tenant_work *work_tenant(struct work *w, str name);  // under the lock; NULL: no memory
void worker_set_req(struct worker *me, struct req *r);      // what a drain calls off
const struct compactor_config *work_settings(const struct work *w);
bool work_is_over(struct work *w);

// A turn of a tenant. A worker's turn is bounded if other tenants wait. A run's turn (asker) ends
// when nothing is due any more, with a sweep. False only if the tenant could not be looked at.
bool inspect(struct worker *me, struct tenant_work *t, const struct req *asker, err *e) MUST_CHECK;
bool work_is_wanted(const struct tenant_work *t, uint64_t now_mono_ns);  // under the lock
size_t tenant_backlog(const struct tenant_work *t);                      // under the lock

// ---- batch.c

// How long after its snapshot a job may be committed.
int64_t job_age(const struct compactor_config *c);

// ---- turns.c; under the lock
bool turns_room(struct work *w, size_t tenants, err *e) MUST_CHECK;  // for so many
void turns_ready(struct work *w, struct tenant_work *t);  // it is new, or somebody takes a turn
void turns_set_owner(struct work *w, struct tenant_work *t, bool others);
void turns_ended(struct work *w, struct tenant_work *t);  // somebody's turn of it did

// The next tenant to work on: of those with something to do the one with the fewest workers, and of
// these the one that has waited longest; NULL: there is none. *until is lowered to the time at
// which the next one is due.
struct tenant_work *turns_next(struct work *w, uint64_t *until);
bool turns_others_wait(const struct work *w, const struct tenant_work *than);  // with fewer workers

// ---- idle.c; under the lock but for idle_place and idle_peek
struct share_place idle_place(const struct work *w, const struct tenant_work *t);

// After a look that made this plan, or none (NULL): sets the time of the next look.
void idle_note(struct work *w, struct tenant_work *t, const struct agenda *a,
               const struct share_place *at);

// Is a LIST enough to see that an idle tenant is still idle? idle_peek makes it, and idle_rest lets
// the tenant rest again.
bool idle_may_peek(const struct work *w, const struct tenant_work *t);
bool idle_peek(struct worker *me, const struct tenant_work *t, uint64_t *print, err *e) MUST_CHECK;
void idle_rest(struct work *w, struct tenant_work *t, const struct share_place *at);

// When a tenant is swept first, and next; `found`: a sweep deleted something, or has to wait.
uint64_t idle_first_sweep(const struct work *w, str tenant);
void idle_swept(struct work *w, struct tenant_work *t, bool found, const struct share_place *at);

// ---- agenda.c; but for agenda_make under the lock

// Snapshot, plan, and the order in which this process takes its jobs. NULL and *e on failure.
struct agenda *agenda_make(struct worker *me, struct tenant_work *t, err *e) MUST_CHECK;
void agenda_free(struct agenda *a);  // NULL is fine; without the lock

// Before and after a plan is made: jobs that end in between are noted, as the plan may not know of
// them.
void agenda_begin(struct work *w, struct tenant_work *t);
void agenda_end(struct work *w, struct tenant_work *t);

// Makes `a` the tenant's plan; NULL: it has none any more. Both functions return a plan that has no
// users any more, which the caller must free without the lock, or NULL.
struct agenda *agenda_publish(struct tenant_work *t, struct agenda *a) MUST_CHECK;
struct agenda *agenda_leave(struct agenda *a) MUST_CHECK;

// The next job for a worker: one that no worker has, that has nothing to do with a held job, and
// that does not wait for its next try. With `forced` also one that is another process's turn.
bool agenda_draw(struct tenant_work *t, struct agenda *a, bool forced, struct share_pick *out);

// A worker has the job from then on, until it lets it go, done or not.
void agenda_hold(struct tenant_work *t, struct held *h);
void agenda_let_go(struct tenant_work *t, struct held *h);

// A job was done: jobs of other plans for the same hours wait for a new plan.
void agenda_done(struct tenant_work *t, const struct task *j);
void agenda_note_due(struct tenant_work *t);

// ---- failures.c; under the lock
struct failure *failure_find(struct tenant_work *t, const struct task *j);  // or NULL
void failure_forget(struct tenant_work *t, const struct task *j);           // the job was done

// Notes that the job failed; returns in how many nanoseconds it is tried again.
uint64_t failure_note(struct work *w, struct tenant_work *t, const struct task *j, const err *e);

// ---- deletion.c; without the lock

// Reads the snapshot's tombstones; after the plan, ends those that are done.
bool deletion_begin(struct agenda *a, err *e) MUST_CHECK;
void deletion_end(struct worker *me, struct tenant_work *t, struct agenda *a);

// ---- limit.c

// How long the tenant's blocks are kept and what it may have, by now; and whether that is what its
// newest plan went by. Without the lock.
struct keep_rule limit_rule(struct work *w, const struct tenant_work *t, struct arena *a);
void limit_note(struct tenant_work *t, const struct agenda *a);  // of the plan; under the lock
bool limit_is_same(struct work *w, const struct tenant_work *t);

// Gives each tenant its part if all together have too much. Under the lock; once in an interval.
void limit_share(struct work *w);

void limit_say(const struct work *w);  // to the log, at the start
void limit_gauges(struct work *w);
void limit_retired(const struct agenda *a, const struct task *j);  // counts what went, and why

// ---- hold.c; without the lock

// Looks at what ingesters hold, if leaves wait for that and it is time (or a run asks). Returns the
// last round that ended; before the snapshot of the plan that goes by it. If the store fails leaves
// stay longer.
uint64_t hold_inspect(struct worker *me, bool asked);

struct hold {  // of a plan
    const struct wish *wish;
    uint64_t over;
    bool granted;
};
str hold_node(const struct work *w, id128 stream);  // its ingester; lent, under the lock
bool hold_may_go(void *arg, id128 leaf);            // arg: struct hold
void hold_note(struct work *w, struct tenant_work *t, const struct hold *h,
               const struct plan *plan);

// ---- damage.c; under the lock but for the last
void damage_note(struct work *w, struct tenant_work *t, const struct damage *d);
bool damage_has_segment(const struct tenant_work *t, const struct segment_name *s);
bool damage_has_block(const struct tenant_work *t, id128 id);

// Looks at objects that could not be read, as far as that is due (for a run at all of them, once);
// those that are whole again, or that nothing names any more, are left out no longer. Whoever makes
// the tenant's plan.
void damage_inspect(struct worker *me, struct tenant_work *t, const struct snapshot *s,
                    struct req *r, bool asked);

// ---- status.c; those of tenants under the lock
const char *status_hour(char text[CLOCK_TEXT], int64_t hour);
const char *failure_action(enum err_code code);  // what a person can do

const char *tenant_fault(const struct tenant_work *t);  // if it is ill

// Of the jobs that workers have the one begun first, or NULL; how many they are.
const struct held *held_longest(const struct tenant_work *t, size_t *n);

// How long the job that waits longest has been due; 0: none is.
int64_t tenant_behind_ns(const struct tenant_work *t, int64_t now_ns);
