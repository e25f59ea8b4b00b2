// SPDX-License-Identifier: Apache-2.0
//
// work.h - the threads of the compactor: tenant after tenant is looked at, what is due is done.
//
// A look takes a snapshot and makes a plan; when its jobs are done, another follows. The workers of
// a process share a tenant's plan: each takes a job that has nothing to do with what others have,
// and after a bounded turn goes on to the tenant that fewest work on. Which process does what is a
// hint (compactor/share.h), and what two do all the same only one commits.
//
// A job that fails is tried again after 1 s, 2 s, 4 s ... retry_max; others go on. A segment or
// block that cannot be read as what it should be is left out for an hour, named in the log and in
// status.
#pragma once

#include "compactor/config.h"
#include "manifest/manifest.h"
#include "service/service.h"

struct work;

// Starts compactor.workers threads, if the process has a store. Returns owned; NULL and *e set on
// failure.
struct work *work_new(const struct process *process, err *e) MUST_CHECK;
void work_call_off(struct work *w);  // nothing is begun any more, runs and jobs end soon
void work_drain(struct work *w);     // jobs under way are called off; joins. Idempotent
void work_free(struct work *w);      // after drain; NULL is fine

bool work_is_on(const struct work *w);  // is there a store, and are there workers?

// Works on all tenants on the calling thread, and the workers with it, until nothing is left that
// makes queries cheaper, whatever the intervals, or the request's deadline; whatever other
// compactors may do. Sweeps if asked to. Fails with failed_precondition without a store, with
// unavailable once it is called off.
struct work_done {
    uint64_t jobs;
    uint64_t backlog;        // due jobs that are left: they fail, or time was short
    uint64_t open_segments;  // whose hour is not over: no job takes them before it is
    int64_t open_until_ns;   // when the first of these hours ends
    bool settled;            // nothing is left that a run could do now
};
bool work_run(struct work *w, struct req *r, bool sweep, struct work_done *out, err *e) MUST_CHECK;

// Deletes profiles: what the tombstone hides is in no answer that is asked for after this call, and
// is taken out of the store later. Its id makes a repeated call count once. Sets its version and
// made_ns. As manifest_commit fails; failed_precondition without a store.
bool work_delete(struct work *w, struct req *r, str tenant, struct manifest_tombstone *t,
                 err *e) MUST_CHECK;

// The tenant's deletions that are not done, as JSON.
bool work_print_deletions(struct work *w, struct req *r, str tenant, struct buf *out,
                          err *e) MUST_CHECK;

void work_gauges(struct work *w);

// Jobs that are due now, what they read, and jobs that failed and wait for their next try.
void work_backlog(struct work *w, uint64_t *jobs, uint64_t *bytes, uint64_t *failing);

// How a run ended, as JSON.
void work_print_done(const struct work_done *d, struct buf *out);

// State of all tenants: as JSON, as a page.
void work_print_json(struct work *w, struct buf *out);
void work_print_page(struct work *w, struct buf *out);
